//! NVMe over TCP beside NBD: 4 KiB random reads of one unpaced drive over loopback, in turns.
//!
//! Run: `cargo run --release -p drivebay-serve --example nvme_against_nbd`. One client thread keeps a
//! queue depth; the machine is the same for both, so their ratio says something, their rates little.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use drivebay_drive::Spec;
use drivebay_serve::{Loss, Options, Pace, Server};
use drivebay_units::Rng;
use drivebay_wire::nvme::{
    ConnectData, Data, Decoder, Digests, FLAG_SUCCESS, FabricsType, InitPdu, Pdu, Sgl, SglKind,
    Sqe, encode, padded_nqn,
};
use zerocopy::IntoBytes;

const TURN: Duration = Duration::from_millis(1500);
const TURNS: usize = 5;
const NQN: &str = "nqn.2026-11.localhost.drivebay:sm951-nvme-256";
/// Connect: a completion need not say how far the controller has read its queue.
const NO_FLOW_CONTROL: u8 = 1 << 2;
/// 1 GB in 4 KiB pieces.
const PLACES: u64 = 1 << 18;

/// A client: sends a read of 4 KiB, takes answers.
trait Client {
    fn send(&mut self, place: u64);
    /// Waits for at least one answer; how many came.
    fn take(&mut self) -> usize;
    fn flush(&mut self);
}

fn rate(client: &mut dyn Client, depth: usize, rng: &mut Rng) -> f64 {
    let begun = Instant::now();
    let (mut sent, mut taken) = (0, 0);
    while begun.elapsed() < TURN {
        while sent - taken < depth {
            client.send(rng.below(PLACES));
            sent += 1;
        }
        client.flush();
        taken += client.take();
    }
    let elapsed = begun.elapsed().as_secs_f64();
    let rate = taken as f64 / elapsed;
    while taken < sent {
        taken += client.take();
    }
    rate
}

struct Wire {
    stream: TcpStream,
    out: Vec<u8>,
    input: Vec<u8>,
}

impl Wire {
    fn new(address: &str) -> Wire {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a socket");
        Wire { stream, out: Vec::new(), input: Vec::new() }
    }

    fn flush(&mut self) {
        self.stream.write_all(&self.out).expect("the server lives");
        self.out.clear();
    }

    fn more(&mut self) {
        let have = self.input.len();
        self.input.resize(have + (256 << 10), 0);
        let read = self.stream.read(&mut self.input[have..]).expect("the server lives");
        assert!(read > 0, "the server hung up");
        self.input.truncate(have + read);
    }
}

struct Nvme {
    wire: Wire,
    decoder: Decoder,
    cid: u16,
}

impl Nvme {
    fn connect(address: &str, queue: u16, controller: u16, attributes: u8) -> (Nvme, u16) {
        let digests = Digests::default();
        let decoder = Decoder { digests, data_bytes_max: 1 << 17 };
        let mut client = Nvme { wire: Wire::new(address), decoder, cid: 0 };
        encode(&mut client.wire.out, &Pdu::IcReq(InitPdu::default()), digests);
        client.wire.flush();
        client.wait();
        let connect = FabricsType::Connect {
            format: 0,
            queue,
            entries_less_one: 127,
            attributes,
            keep_alive_ms: 0,
        };
        let data = ConnectData {
            controller: controller.into(),
            subsystem_nqn: padded_nqn(NQN),
            host_nqn: padded_nqn("nqn.2014-08.org.nvmexpress:uuid:bench"),
            ..ConnectData::default()
        };
        let id = client.command(connect.to_sqe(0), data.as_bytes());
        if queue == 0 {
            let enable =
                FabricsType::PropertySet { offset: 0x14, is_wide: false, value: 0x46_0001 };
            client.command(enable.to_sqe(0), &[]);
        }
        (client, id as u16)
    }

    fn put(&mut self, mut sqe: Sqe, bytes: u32, data: &[u8]) {
        self.cid = self.cid.wrapping_add(1);
        sqe.cid = self.cid.into();
        let kind = if data.is_empty() { SglKind::Transport } else { SglKind::InCapsule };
        sqe.set_sgl(Sgl { address: 0, bytes, kind });
        let data = Data { bytes: data, is_damaged: false };
        encode(&mut self.wire.out, &Pdu::Command(sqe, data), Digests::default());
    }

    fn command(&mut self, sqe: Sqe, data: &[u8]) -> u64 {
        self.put(sqe, data.len() as u32, data);
        self.wire.flush();
        self.wait()
    }

    /// One answer that carries no data.
    fn wait(&mut self) -> u64 {
        loop {
            let found = self.decoder.decode(&self.wire.input).expect("sound");
            if let Some((pdu, length)) = found {
                let result = match pdu {
                    Pdu::Response(cqe) => {
                        assert!(cqe.status().is_success(), "{:?}", cqe.status());
                        cqe.result.get()
                    }
                    _ => 0,
                };
                self.wire.input.drain(..length);
                return result;
            }
            self.wire.more();
        }
    }
}

impl Client for Nvme {
    fn send(&mut self, place: u64) {
        let lba = place as u32 * 8;
        let sqe = Sqe {
            opcode: 0x02,
            nsid: 1.into(),
            cdw10: lba.into(),
            cdw12: 7.into(),
            ..Sqe::default()
        };
        self.put(sqe, 4096, &[]);
    }

    fn take(&mut self) -> usize {
        loop {
            let (mut at, mut taken) = (0, 0);
            while let Some((pdu, length)) =
                self.decoder.decode(&self.wire.input[at..]).expect("sound")
            {
                at += length;
                taken += usize::from(match pdu {
                    Pdu::Response(_) => true,
                    Pdu::DataToHost(_, flags, _) => flags & FLAG_SUCCESS != 0,
                    _ => false,
                });
            }
            self.wire.input.drain(..at);
            if taken > 0 {
                return taken;
            }
            self.wire.more();
        }
    }

    fn flush(&mut self) {
        self.wire.flush();
    }
}

/// NBD with simple replies.
struct Nbd(Wire);

impl Nbd {
    fn connect(address: &str) -> Nbd {
        let mut wire = Wire::new(address);
        // Fixed newstyle, no zeros; NBD_OPT_EXPORT_NAME with the default export.
        while wire.input.len() < 18 {
            wire.more();
        }
        wire.input.clear();
        wire.out.extend_from_slice(&3_u32.to_be_bytes());
        wire.out.extend_from_slice(b"IHAVEOPT");
        wire.out.extend_from_slice(&1_u32.to_be_bytes());
        wire.out.extend_from_slice(&0_u32.to_be_bytes());
        wire.flush();
        while wire.input.len() < 10 {
            wire.more();
        }
        wire.input.clear();
        Nbd(wire)
    }
}

impl Client for Nbd {
    fn send(&mut self, place: u64) {
        let out = &mut self.0.out;
        out.extend_from_slice(&0x2560_9513_u32.to_be_bytes());
        out.extend_from_slice(&0_u32.to_be_bytes());
        out.extend_from_slice(&place.to_be_bytes());
        out.extend_from_slice(&(place * 4096).to_be_bytes());
        out.extend_from_slice(&4096_u32.to_be_bytes());
    }

    fn take(&mut self) -> usize {
        const REPLY: usize = 16 + 4096;
        while self.0.input.len() < REPLY {
            self.0.more();
        }
        let taken = self.0.input.len() / REPLY;
        self.0.input.drain(..taken * REPLY);
        taken
    }

    fn flush(&mut self) {
        self.0.flush();
    }
}

fn main() {
    let profile = include_str!("../../../drives/sm951-nvme-256.toml");
    let base = include_str!("../../../drives/sm951-ahci-512.toml");
    let spec = Spec::from_family(base, profile).expect("the catalog's");
    let options = Options {
        name: String::new(),
        nbd: vec!["127.0.0.1:0".to_owned()],
        nvme_tcp: vec!["127.0.0.1:0".to_owned()],
        vfio_user: None,
        data: None,
        state: None,
        memory_max_bytes: 4 << 30,
        pace: Pace::None,
        tls: None,
        control: None,
        power_cut: None,
        loss: Loss::All,
        faults: Vec::new(),
    };
    let server = Server::new(spec, 1, &options).unwrap_or_else(|why| panic!("{why}"));
    let addresses = server.addresses().to_vec();
    let tcp = addresses[1].trim_start_matches("nvme-tcp:").split(' ').next().expect("an address");
    let (handle, nbd, tcp) = (server.handle(), addresses[0].clone(), tcp.to_owned());
    let running = thread::spawn(move || server.run().map(|_| ()));
    let (_admin, id) = Nvme::connect(&tcp, 0, 0xffff, 0);
    let (mut with, _) = Nvme::connect(&tcp, 1, id, 0);
    let (mut without, _) = Nvme::connect(&tcp, 2, id, NO_FLOW_CONTROL);
    let mut nbd = Nbd::connect(&nbd);
    let mut rng = Rng::new(1);
    for depth in [1, 32] {
        let mut rates = [const { Vec::new() }; 3];
        for _ in 0..TURNS {
            rates[0].push(rate(&mut with, depth, &mut rng));
            rates[1].push(rate(&mut nbd, depth, &mut rng));
            rates[2].push(rate(&mut without, depth, &mut rng));
        }
        let best = |rates: &[f64]| rates.iter().copied().fold(0.0, f64::max) / 1e3;
        let mut ratios: Vec<f64> = rates[0].iter().zip(&rates[1]).map(|(a, b)| a / b).collect();
        ratios.sort_by(f64::total_cmp);
        println!(
            "QD{depth}: best NVMe/TCP {:.1} K, without flow control {:.1} K, NBD {:.1} K per s; \
             NVMe/TCP to NBD by turns {:.2} to {:.2}, median {:.2}",
            best(&rates[0]),
            best(&rates[2]),
            best(&rates[1]),
            ratios[0],
            ratios[TURNS - 1],
            ratios[TURNS / 2],
        );
    }
    handle.stop();
    running.join().expect("no panic").expect("served");
}
