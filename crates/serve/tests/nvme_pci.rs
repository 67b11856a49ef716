//! The drive as a PCIe device, driven by a machine of our own: registers, queues and data in shared
//! memory, MSI-X by event file descriptors. QEMU's side is in tests/interop.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use drivebay_drive::{Spec, whole_profile};
use drivebay_serve::{Handle, IdentityOptions, Options, Pace, PowerCutLoss, Server};
use drivebay_wire::nvme::{Cqe, IdentifyController, Sqe, Status};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use vfio_user::Client;
use zerocopy::{FromBytes, IntoBytes};

const BAR0: u32 = 0;
const CONFIG: u32 = 7;
const MSIX: u32 = 2;
/// Event file descriptors that trigger.
const EVENTS: u32 = 1 << 2 | 1 << 5;
/// Where the machine's memory begins on the bus.
const BASE: u64 = 0x10_0000;
const ENTRIES: u32 = 16;
const PATIENCE: Duration = Duration::from_secs(20);

struct Machine {
    client: Client,
    memory: File,
    irqs: Vec<File>,
    /// Tail of each submission queue, head and phase of each completion queue.
    tails: [u32; 2],
    heads: [(u32, u16); 2],
    cid: u16,
}

/// Places in memory: submission and completion queues, then data.
const SQ: [u64; 2] = [0x1000, 0x3000];
const CQ: [u64; 2] = [0x2000, 0x4000];
const DATA: u64 = 0x8000;

impl Machine {
    fn boot(path: &Path) -> Machine {
        let client = Client::new(path).expect("a device");
        let memory = File::from(memfd_create("guest", MemfdFlags::CLOEXEC).expect("memory"));
        memory.set_len(1 << 20).expect("memory");
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let irqs = (0..2).map(|_| File::from(eventfd(0, flags).expect("an event"))).collect();
        let (tails, heads) = ([0; 2], [(0, 1); 2]);
        let mut machine = Machine { client, memory, irqs, tails, heads, cid: 0 };
        let fd = machine.memory.as_raw_fd();
        machine.client.dma_map(0, BASE, 1 << 20, fd).expect("mapped");
        let fds: Vec<i32> = machine.irqs.iter().map(AsRawFd::as_raw_fd).collect();
        machine.client.set_irqs(MSIX, EVENTS, 0, 2, &fds).expect("interrupts");
        machine
    }

    fn read32(&mut self, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        self.client.region_read(BAR0, offset, &mut bytes).expect("a register");
        u32::from_le_bytes(bytes)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.client.region_write(BAR0, offset, bytes).expect("a register");
    }

    fn enable(&mut self) {
        self.write(0x24, &((ENTRIES - 1) | (ENTRIES - 1) << 16).to_le_bytes());
        self.write(0x28, &(BASE + SQ[0]).to_le_bytes());
        self.write(0x30, &(BASE + CQ[0]).to_le_bytes());
        self.write(0x14, &0x46_0001_u32.to_le_bytes());
        self.wait_for(1);
    }

    fn wait_for(&mut self, status: u32) {
        let begun = Instant::now();
        while self.read32(0x1c) != status {
            assert!(begun.elapsed() < PATIENCE, "status {:#x}", self.read32(0x1c));
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// A command on a queue; its completion comes with an interrupt.
    fn command(&mut self, queue: usize, mut sqe: Sqe) -> (Status, u64) {
        self.cid += 1;
        sqe.cid = self.cid.into();
        let place = SQ[queue] + u64::from(self.tails[queue]) * 64;
        self.memory.write_all_at(sqe.as_bytes(), place).expect("memory");
        self.tails[queue] = (self.tails[queue] + 1) % ENTRIES;
        let tail = self.tails[queue];
        self.write(0x1000 + 8 * queue as u64, &tail.to_le_bytes());
        let begun = Instant::now();
        while self.irqs[queue].read(&mut [0; 8]).is_err() {
            assert!(begun.elapsed() < PATIENCE, "no interrupt for {sqe:?}");
            thread::sleep(Duration::from_micros(100));
        }
        let (head, phase) = self.heads[queue];
        let mut bytes = [0; 16];
        let place = CQ[queue] + u64::from(head) * 16;
        self.memory.read_exact_at(&mut bytes, place).expect("memory");
        let cqe = Cqe::read_from_bytes(&bytes).expect("16 bytes");
        assert_eq!((cqe.cid.get(), cqe.status_and_phase.get() & 1), (self.cid, phase));
        let next = (head + 1) % ENTRIES;
        self.heads[queue] = (next, if next == 0 { phase ^ 1 } else { phase });
        self.write(0x1004 + 8 * queue as u64, &next.to_le_bytes());
        (cqe.status(), cqe.result.get())
    }

    fn make_queues(&mut self) {
        let size = 1 | (ENTRIES - 1) << 16;
        for (opcode, base, flags) in [(0x05, CQ[1], 3 | 1 << 16), (0x01, SQ[1], 1 | 1 << 16)] {
            let sqe = Sqe {
                opcode,
                prp1: (BASE + base).into(),
                cdw10: size.into(),
                cdw11: flags.into(),
                ..Sqe::default()
            };
            assert_eq!(self.command(0, sqe).0, Status::SUCCESS);
        }
    }

    /// Moves 24 KiB through a list of PRPs that begins in the middle of a page.
    fn io(&mut self, opcode: u8) -> Status {
        let list: Vec<u8> =
            (1..=6_u64).flat_map(|i| (BASE + DATA + i * 0x2000).to_le_bytes()).collect();
        self.memory.write_all_at(&list, DATA - 0x100).expect("memory");
        let sqe = Sqe {
            opcode,
            nsid: 1.into(),
            prp1: (BASE + DATA + 0xc00).into(),
            prp2: (BASE + DATA - 0x100).into(),
            cdw10: 80.into(),
            cdw12: 47.into(),
            ..Sqe::default()
        };
        self.command(1, sqe).0
    }

    fn pages(&self) -> Vec<(u64, usize)> {
        let mut pages = vec![(DATA + 0xc00, 0x400)];
        pages.extend((1..=5).map(|i| (DATA + i * 0x2000, 4096)));
        pages.push((DATA + 6 * 0x2000, 24 * 1024 - 0x400 - 5 * 4096));
        pages
    }
}

/// The catalog's NVMe drive at a socket, until it is stopped.
fn serve(path: &Path) -> (Handle, JoinHandle<()>) {
    let base = include_str!("../../../drives/sm951-ahci-512.toml");
    let text = include_str!("../../../drives/sm951-nvme-256.toml");
    let host = include_str!("../../../hosts/windows-8.1-z97.toml");
    let base = whole_profile(host, base).unwrap().to_string();
    let spec = Spec::from_family(&base, text).unwrap();
    let options = Options {
        name: "drive".to_owned(),
        nbd: Vec::new(),
        nvme_tcp: Vec::new(),
        vfio_user: Some(path.to_owned()),
        data: None,
        state: None,
        memory_max_bytes: 1 << 30,
        pace: Pace::None,
        tls: None,
        control: None,
        power_cut: None,
        loss: PowerCutLoss::All,
        faults: Vec::new(),
        identity: IdentityOptions::default(),
    };
    let server = Server::new(spec, 1, &options).unwrap_or_else(|why| panic!("{why}"));
    let handle = server.handle();
    (handle, thread::spawn(move || server.run().map(|_| ()).unwrap()))
}

#[test]
fn a_power_cut_fails_the_controller_until_it_is_reset() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.sock");
    let (handle, running) = serve(&path);
    handle.ask(|engine| engine.allow_power_cuts(None, PowerCutLoss::All)).unwrap();
    let mut machine = Machine::boot(&path);
    machine.enable();
    machine.make_queues();
    let flush = Sqe { opcode: 0x00, nsid: 1.into(), ..Sqe::default() };
    let put = |machine: &mut Machine, byte: u8| {
        for (place, length) in machine.pages() {
            machine.memory.write_all_at(&vec![byte; length], place).unwrap();
        }
        assert_eq!(machine.io(0x01), Status::SUCCESS);
    };
    put(&mut machine, 1);
    assert_eq!(machine.command(1, flush).0, Status::SUCCESS);
    put(&mut machine, 2);
    let cut = handle.ask(|engine| engine.power_cut().unwrap()).unwrap();
    assert_eq!(cut.lost_bytes, 24 * 1024);
    // Ready, and fatal: the machine must reset it.
    machine.wait_for(1 | 2);
    machine.write(0x14, &0_u32.to_le_bytes());
    machine.wait_for(0);
    (machine.tails, machine.heads) = ([0; 2], [(0, 1); 2]);
    machine.enable();
    machine.make_queues();
    assert_eq!(machine.io(0x02), Status::SUCCESS);
    for (place, length) in machine.pages() {
        let mut found = vec![0; length];
        machine.memory.read_exact_at(&mut found, place).unwrap();
        assert_eq!(found, vec![1; length], "the flushed version");
    }
    handle.stop();
    running.join().unwrap();
}

#[test]
fn a_machine_reads_and_writes_through_its_own_memory_and_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.sock");
    let (handle, running) = serve(&path);
    for _ in 0..2 {
        // The second one comes after the first has left without a word.
        let mut machine = Machine::boot(&path);
        let mut head = [0; 12];
        machine.client.region_read(CONFIG, 0, &mut head).unwrap();
        assert_eq!((&head[..4], &head[9..]), (&[0x4d, 0x14, 0x02, 0xa8][..], &[2, 8, 1][..]));
        machine.wait_for(0);
        machine.enable();
        let page = BASE + DATA;
        let identify = Sqe { opcode: 0x06, prp1: page.into(), cdw10: 1.into(), ..Sqe::default() };
        assert_eq!(machine.command(0, identify).0, Status::SUCCESS);
        let mut bytes = [0; 4096];
        machine.memory.read_exact_at(&mut bytes, DATA).unwrap();
        let id = IdentifyController::read_from_bytes(&bytes).unwrap();
        assert_eq!((&id.fr, id.sgls.get()), (b"BXW74H0Q", 0));
        machine.make_queues();
        for (i, (place, length)) in machine.pages().into_iter().enumerate() {
            machine.memory.write_all_at(&vec![i as u8 + 1; length], place).unwrap();
        }
        // Often enough that the queues' phase turns.
        for _ in 0..ENTRIES {
            assert_eq!(machine.io(0x01), Status::SUCCESS);
        }
        for (place, length) in machine.pages() {
            machine.memory.write_all_at(&vec![0; length], place).unwrap();
        }
        assert_eq!(machine.io(0x02), Status::SUCCESS);
        for (i, (place, length)) in machine.pages().into_iter().enumerate() {
            let mut found = vec![0; length];
            machine.memory.read_exact_at(&mut found, place).unwrap();
            assert_eq!(found, vec![i as u8 + 1; length], "page {i}");
        }
        // Memory that is not there: an error, not the end.
        let lost = Sqe { opcode: 0x02, nsid: 1.into(), prp1: 0x40_0000.into(), ..Sqe::default() };
        assert_eq!(machine.command(1, lost).0, Status::DATA_TRANSFER_ERROR);
        // Shutdown, told when done.
        machine.write(0x14, &0x46_4001_u32.to_le_bytes());
        machine.wait_for(1 | 2 << 2);
        drop(machine);
    }
    handle.stop();
    running.join().unwrap();
}
