//! NVMe over TCP compared with NBD: 4 KiB random reads of one unpaced drive over loopback, in
//! turns.
//!
//! Run: `cargo run --release -p drivebay-serve --example nvme_against_nbd`. One client thread keeps
//! a queue depth and does as little as each protocol allows: it patches a prepared request, and
//! looks at the header of each answer. Both run on the same machine, so their ratio is meaningful,
//! their rates less so.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use drivebay_drive::samples::{SM951_AHCI_512, SM951_NVME_256, WINDOWS_8_1_Z97};
use drivebay_drive::{Spec, whole_profile};
use drivebay_run::Control;
use drivebay_serve::{DriveOptions, IdentityOptions, Options, Pace, Server};
use drivebay_units::Rng;
use drivebay_wire::nvme::{
    ConnectData, Data, Decoder, Digests, FLAG_SUCCESS, FabricsType, InitPdu, Pdu, PduType, Sgl,
    SglKind, Sqe, encode, padded_nqn,
};
use zerocopy::IntoBytes;

/// Short and many turns, so that other activity of the machine affects all of them.
const TURN: Duration = Duration::from_millis(150);
const TURNS: usize = 61;
const NQN: &str = "nqn.2026-11.localhost.drivebay:sm951-nvme-256";
/// Connect: completions need not report the head of the submission queue.
const NO_FLOW_CONTROL: u8 = 1 << 2;
/// Offsets of the identifier and of the first LBA in a command capsule.
const CID_AT: usize = 8 + 2;
const LBA_AT: usize = 8 + 40;
/// Kinds of received PDUs.
const RESPONSE: u8 = PduType::Response as u8;
const DATA: u8 = PduType::DataToHost as u8;
/// 1 GB in 4 KiB pieces.
const PLACES: u64 = 1 << 18;

/// Client that sends reads of 4 KiB and takes answers.
trait Client {
    fn send(&mut self, place: u64);
    /// Waits for at least one answer; returns their number.
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
    input: Box<[u8]>,
    /// Range of `input` that is received and not used yet.
    here: std::ops::Range<usize>,
}

impl Wire {
    fn new(address: &str) -> Wire {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a socket");
        Wire { stream, out: Vec::new(), input: vec![0; 512 << 10].into(), here: 0..0 }
    }

    fn flush(&mut self) {
        self.stream.write_all(&self.out).expect("the server lives");
        self.out.clear();
    }

    fn more(&mut self) {
        self.input.copy_within(self.here.clone(), 0);
        self.here = 0..self.here.len();
        let read = self.stream.read(&mut self.input[self.here.end..]).expect("the server lives");
        assert!(read > 0, "the server hung up");
        self.here.end += read;
    }

    fn ready(&self) -> &[u8] {
        &self.input[self.here.clone()]
    }
}

struct Nvme {
    wire: Wire,
    decoder: Decoder,
    cid: u16,
    /// Bytes of a read, without the identifier and the LBA.
    read: [u8; 72],
}

impl Nvme {
    fn connect(address: &str, queue: u16, controller: u16, attributes: u8) -> (Nvme, u16) {
        let digests = Digests::default();
        let decoder = Decoder { digests, data_bytes_max: 1 << 17 };
        let mut client = Nvme { wire: Wire::new(address), decoder, cid: 0, read: read_capsule() };
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
        encode(&mut self.wire.out, &Pdu::Command(&sqe, data), Digests::default());
    }

    fn command(&mut self, sqe: Sqe, data: &[u8]) -> u64 {
        self.put(sqe, data.len() as u32, data);
        self.wire.flush();
        self.wait()
    }

    /// Waits for one answer without data.
    fn wait(&mut self) -> u64 {
        loop {
            let found = self.decoder.decode(self.wire.ready()).expect("sound");
            if let Some((pdu, length)) = found {
                let result = match pdu {
                    Pdu::Response(cqe) => {
                        assert!(cqe.status().is_success(), "{:?}", cqe.status());
                        cqe.result.get()
                    }
                    _ => 0,
                };
                self.wire.here.start += length;
                return result;
            }
            self.wire.more();
        }
    }
}

impl Client for Nvme {
    fn send(&mut self, place: u64) {
        let capsule = &mut self.read;
        self.cid = self.cid.wrapping_add(1);
        capsule[CID_AT..CID_AT + 2].copy_from_slice(&self.cid.to_le_bytes());
        capsule[LBA_AT..LBA_AT + 8].copy_from_slice(&(place * 8).to_le_bytes());
        self.wire.out.extend_from_slice(capsule);
    }

    fn take(&mut self) -> usize {
        loop {
            let (mut at, mut taken) = (0, 0);
            let ready = self.wire.ready();
            while let Some(head) = ready.get(at..at + 24) {
                let length = u32::from_le_bytes(head[4..8].try_into().expect("four")) as usize;
                if ready.len() < at + length {
                    break;
                }
                at += length;
                taken += usize::from(match head[0] {
                    RESPONSE => {
                        assert_eq!(head[22..24], [0, 0], "no error");
                        true
                    }
                    DATA => head[1] & FLAG_SUCCESS != 0,
                    other => panic!("a PDU of kind {other}"),
                });
            }
            self.wire.here.start += at;
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

/// Capsule that reads 4 KiB from LBA 0.
fn read_capsule() -> [u8; 72] {
    let mut sqe = Sqe { opcode: 0x02, nsid: 1.into(), cdw12: 7.into(), ..Sqe::default() };
    sqe.set_sgl(Sgl { address: 0, bytes: 4096, kind: SglKind::Transport });
    let (mut bytes, none) = (Vec::new(), Data { bytes: &[], is_damaged: false });
    encode(&mut bytes, &Pdu::Command(&sqe, none), Digests::default());
    bytes.try_into().expect("nothing but the header")
}

/// NBD with simple replies.
struct Nbd(Wire);

impl Nbd {
    fn connect(address: &str) -> Nbd {
        let mut wire = Wire::new(address);
        // Fixed newstyle, no zeros; NBD_OPT_EXPORT_NAME with the default export.
        while wire.ready().len() < 18 {
            wire.more();
        }
        wire.here = 0..0;
        wire.out.extend_from_slice(&3_u32.to_be_bytes());
        wire.out.extend_from_slice(b"IHAVEOPT");
        wire.out.extend_from_slice(&1_u32.to_be_bytes());
        wire.out.extend_from_slice(&0_u32.to_be_bytes());
        wire.flush();
        while wire.ready().len() < 10 {
            wire.more();
        }
        wire.here = 0..0;
        Nbd(wire)
    }

    /// Writes every block once, so that reads return data.
    fn fill(&mut self) {
        const PIECE: u64 = 128 << 10;
        for offset in (0..PLACES * 4096).step_by(PIECE as usize) {
            self.head(1, offset, PIECE as u32);
            self.0.out.extend_from_slice(&[0xa5; PIECE as usize]);
            self.0.flush();
            while self.0.ready().len() < 16 {
                self.0.more();
            }
            self.0.here = 0..0;
        }
    }

    fn head(&mut self, command: u32, offset: u64, bytes: u32) {
        let out = &mut self.0.out;
        out.extend_from_slice(&0x2560_9513_u32.to_be_bytes());
        out.extend_from_slice(&command.to_be_bytes());
        out.extend_from_slice(&offset.to_be_bytes());
        out.extend_from_slice(&offset.to_be_bytes());
        out.extend_from_slice(&bytes.to_be_bytes());
    }
}

impl Client for Nbd {
    fn send(&mut self, place: u64) {
        self.head(0, place * 4096, 4096);
    }

    fn take(&mut self) -> usize {
        const REPLY: usize = 16 + 4096;
        while self.0.ready().len() < REPLY {
            self.0.more();
        }
        let mut taken = 0;
        for reply in self.0.ready().chunks_exact(REPLY) {
            // Magic and no error; the cookie can be any.
            assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], "sound");
            taken += 1;
        }
        self.0.here.start += taken * REPLY;
        taken
    }

    fn flush(&mut self) {
        self.0.flush();
    }
}

fn main() {
    let base = whole_profile(WINDOWS_8_1_Z97, SM951_AHCI_512).expect("the catalog's").to_string();
    let spec = Spec::from_family(&base, SM951_NVME_256).expect("the catalog's");
    let drive = DriveOptions {
        pace: Pace::None,
        identity: IdentityOptions { nqn: Some(NQN.into()), ..IdentityOptions::default() },
        ..DriveOptions::new("drive")
    };
    let options = Options {
        nbd: vec!["127.0.0.1:0".to_owned()],
        nvme_tcp: vec!["127.0.0.1:0".to_owned()],
        memory_max_bytes: 4 << 30,
        ..Options::default()
    };
    let server = Server::new(vec![(spec, drive)], &options, &Control::default())
        .unwrap_or_else(|why| panic!("{why}"));
    let addresses = server.addresses().to_vec();
    let tcp = addresses[1].trim_start_matches("nvme-tcp:").split(' ').next().expect("an address");
    let (handle, nbd, tcp) = (server.handles().remove(0), addresses[0].clone(), tcp.to_owned());
    let running = thread::spawn(move || server.run().map(|_| ()));
    let (_admin, id) = Nvme::connect(&tcp, 0, 0xffff, 0);
    let (mut with, _) = Nvme::connect(&tcp, 1, id, 0);
    let (mut without, _) = Nvme::connect(&tcp, 2, id, NO_FLOW_CONTROL);
    let mut nbd = Nbd::connect(&nbd);
    nbd.fill();
    let mut rng = Rng::new(1);
    for depth in [1, 32] {
        let mut rates = [const { Vec::new() }; 3];
        for _ in 0..TURNS {
            rates[0].push(rate(&mut with, depth, &mut rng));
            rates[1].push(rate(&mut nbd, depth, &mut rng));
            rates[2].push(rate(&mut without, depth, &mut rng));
        }
        let quartiles = |mut found: Vec<f64>| {
            found.sort_by(f64::total_cmp);
            [found[TURNS / 4], found[TURNS / 2], found[3 * TURNS / 4]]
        };
        let [with, nbd, without] = rates.each_ref().map(|one| quartiles(one.clone())[1] / 1e3);
        println!(
            "QD{depth}: NVMe/TCP {with:.1} K, without flow control {without:.1} K, \
             NBD {nbd:.1} K per s (medians)"
        );
        for (what, of) in [("NVMe/TCP", 0), ("without flow control", 2)] {
            let ratios = rates[of].iter().zip(&rates[1]).map(|(a, b)| a / b).collect();
            let [low, middle, high] = quartiles(ratios);
            println!("  {what} to NBD, turn by turn: {middle:.2} (quartiles {low:.2}, {high:.2})");
        }
    }
    handle.stop();
    running.join().expect("no panic").expect("served");
}
