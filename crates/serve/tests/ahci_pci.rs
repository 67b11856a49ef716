//! The drive as an AHCI controller, driven by a machine of our own: registers, command list, frames and
//! data in shared memory, one MSI vector by an event file descriptor. QEMU's side is in tests/interop.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use drivebay_drive::Spec;
use drivebay_serve::{Handle, IdentityOptions, Options, Pace, PowerCutLoss, Server};
use drivebay_wire::ata::{Command, Opcode};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use vfio_user::Client;

const BAR5: u32 = 5;
const CONFIG: u32 = 7;
const MSI: u32 = 1;
/// Event file descriptors that trigger.
const EVENTS: u32 = 1 << 2 | 1 << 5;
/// Where the machine's memory begins on the bus.
const BASE: u64 = 0x10_0000;
const LIST: u64 = 0x1000;
const FRAMES: u64 = 0x1400;
const TABLES: u64 = 0x2000;
const DATA: u64 = 0x4_0000;
const PATIENCE: Duration = Duration::from_secs(20);
const SECTORS: u64 = 1_000_215_216;

const GHC: u64 = 0x04;
const IS: u64 = 0x08;
const PORT_STATUS: u64 = 0x110;
const PORT_COMMAND: u64 = 0x118;
const TASK_FILE: u64 = 0x120;
const ACTIVE: u64 = 0x134;
const ISSUED: u64 = 0x138;
const TASK_FILE_ERROR: u32 = 1 << 30;

/// Where a piece of data lies, and its length.
type Region = (u64, u32);

struct Machine {
    client: Client,
    memory: File,
    irq: File,
}

impl Machine {
    fn boot(path: &Path) -> Machine {
        let client = Client::new(path).expect("a device");
        let memory = File::from(memfd_create("guest", MemfdFlags::CLOEXEC).expect("memory"));
        memory.set_len(1 << 20).expect("memory");
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let irq = File::from(eventfd(0, flags).expect("an event"));
        let mut machine = Machine { client, memory, irq };
        machine.client.dma_map(0, BASE, 1 << 20, machine.memory.as_raw_fd()).expect("mapped");
        machine
            .client
            .set_irqs(MSI, EVENTS, 0, 1, &[machine.irq.as_raw_fd()])
            .expect("an interrupt");
        machine
    }

    fn read(&mut self, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        self.client.region_read(BAR5, offset, &mut bytes).expect("a register");
        u32::from_le_bytes(bytes)
    }

    fn write(&mut self, offset: u64, value: u32) {
        self.client.region_write(BAR5, offset, &value.to_le_bytes()).expect("a register");
    }

    fn wait(&mut self, offset: u64, mask: u32, wanted: u32) {
        let begun = Instant::now();
        while self.read(offset) & mask != wanted {
            assert!(begun.elapsed() < PATIENCE, "{offset:#x} is {:#x}", self.read(offset));
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// As drivers do: list and frames, then the engines.
    fn start(&mut self) {
        self.write(GHC, 1);
        self.wait(GHC, 1, 0);
        self.write(GHC, 1 << 31 | 1 << 1);
        self.write(0x100, (BASE + LIST) as u32);
        self.write(0x108, (BASE + FRAMES) as u32);
        self.write(0x114, u32::MAX);
        self.write(PORT_COMMAND, 1 << 4);
        self.wait(TASK_FILE, 0x88, 0);
        assert_eq!((self.read(0x124), self.read(0x128) & 0xf), (0x101, 3));
        assert_eq!(self.bytes(FRAMES + 0x40, 3), [0x34, 0x40, 0x50], "the signature's frame");
        self.interrupted();
        self.write(PORT_COMMAND, 1 << 4 | 1);
    }

    fn restart(&mut self) {
        self.write(PORT_COMMAND, 1 << 4);
        self.wait(PORT_COMMAND, 1 << 15, 0);
        self.write(0x130, u32::MAX);
        self.write(PORT_STATUS, u32::MAX);
        self.write(PORT_COMMAND, 1 << 4 | 1);
    }

    fn bytes(&self, place: u64, length: usize) -> Vec<u8> {
        let mut found = vec![0; length];
        self.memory.read_exact_at(&mut found, place).expect("memory");
        found
    }

    fn put(&self, place: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, place).expect("memory");
    }

    /// Puts a command into a slot; its data lies in these regions.
    fn prepare(&self, slot: u64, command: Command, regions: &[Region]) {
        let table = TABLES + slot * 0x400;
        self.put(table, &command.frame());
        for (i, (place, length)) in regions.iter().enumerate() {
            let mut region = [0; 16];
            region[..8].copy_from_slice(&(BASE + place).to_le_bytes());
            region[12..].copy_from_slice(&(length - 1).to_le_bytes());
            self.put(table + 0x80 + 16 * i as u64, &region);
        }
        let mut header = [0; 32];
        header[..4].copy_from_slice(&(5 | (regions.len() as u32) << 16).to_le_bytes());
        header[8..16].copy_from_slice(&(BASE + table).to_le_bytes());
        self.put(LIST + 32 * slot, &header);
    }

    /// Waits for the interrupt, then clears it at the port and at the controller; the port's status.
    fn interrupted(&mut self) -> u32 {
        let begun = Instant::now();
        while self.irq.read(&mut [0; 8]).is_err() {
            assert!(begun.elapsed() < PATIENCE, "no interrupt; {:#x}", self.read(PORT_STATUS));
            thread::sleep(Duration::from_micros(100));
        }
        let status = self.read(PORT_STATUS);
        self.write(PORT_STATUS, status);
        self.write(IS, 1);
        status
    }

    /// A command that is not queued, in slot 0: its status register, and the bytes moved.
    fn run(&mut self, command: Command, regions: &[Region]) -> (u32, u32) {
        self.prepare(0, command, regions);
        self.write(ISSUED, 1);
        let status = self.interrupted();
        if status & TASK_FILE_ERROR == 0 {
            assert_eq!(self.read(ISSUED), 0);
        }
        let moved = self.bytes(LIST + 4, 4);
        (self.read(TASK_FILE), u32::from_le_bytes(moved.try_into().expect("four bytes")))
    }

    /// Queued commands, all at once; the slots are the tags.
    fn run_queued(&mut self, commands: &[(u64, Command, &[Region])]) {
        let mut tags = 0;
        for &(slot, command, regions) in commands {
            self.prepare(slot, command, regions);
            tags |= 1 << slot;
        }
        self.write(ACTIVE, tags);
        self.write(ISSUED, tags);
        let begun = Instant::now();
        while self.read(ACTIVE) & tags != 0 {
            let status = self.interrupted();
            assert_eq!(status & TASK_FILE_ERROR, 0);
            assert!(begun.elapsed() < PATIENCE, "still {:#x}", self.read(ACTIVE));
        }
        assert_eq!(self.read(ISSUED), 0);
        // The last one's interrupt may still be on its way.
        let _ = self.irq.read(&mut [0; 8]);
        self.write(PORT_STATUS, u32::MAX);
        self.write(IS, 1);
        let _ = self.irq.read(&mut [0; 8]);
    }
}

fn command(opcode: Opcode, lba: u64, count: u16) -> Command {
    Command { is_command: true, code: opcode as u8, lba, count, device: 0x40, ..Command::default() }
}

fn queued(opcode: Opcode, tag: u16, lba: u64, sectors: u16) -> Command {
    Command { features: sectors, ..command(opcode, lba, tag << 3) }
}

/// The catalog's AHCI drive at a socket, until it is stopped.
fn serve(path: &Path) -> (Handle, JoinHandle<()>) {
    let host = include_str!("../../../hosts/windows-8.1-z97.toml");
    let spec =
        Spec::from_family(host, include_str!("../../../drives/sm951-ahci-512.toml")).unwrap();
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
fn a_machine_finds_the_drive_and_moves_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.sock");
    let (handle, running) = serve(&path);
    for _ in 0..2 {
        // The second one comes after the first has left without a word.
        let mut machine = Machine::boot(&path);
        let mut head = [0; 12];
        machine.client.region_read(CONFIG, 0, &mut head).unwrap();
        assert_eq!((&head[..4], &head[9..]), (&[0x4d, 0x14, 0x01, 0xa8][..], &[1, 6, 1][..]));
        machine.start();
        let identify = command(Opcode::IdentifyDevice, 0, 0);
        assert_eq!(machine.run(identify, &[(DATA, 512)]), (0x50, 512));
        let page = machine.bytes(DATA, 512);
        assert_eq!(&page[54..66], b"ZMPH5V21DHLG");
        assert_eq!(page[200..208], SECTORS.to_le_bytes());
        let setup = machine.bytes(FRAMES + 0x20, 18);
        assert_eq!((setup[0], setup[15], &setup[16..]), (0x5f, 0x50, &[0, 2][..]), "PIO setup");
        // Two queued writes at once, in pieces; one of them forced.
        machine.put(DATA, &[1; 4096]);
        machine.put(DATA + 0x2000, &[2; 4096]);
        let forced = Command { device: 0xc0, ..queued(Opcode::WriteQueued, 9, 16, 8) };
        machine.run_queued(&[
            (3, queued(Opcode::WriteQueued, 3, 8, 8), &[(DATA, 1024), (DATA + 1024, 3072)]),
            (9, forced, &[(DATA + 0x2000, 4096)]),
        ]);
        let read = command(Opcode::ReadDmaExt, 8, 16);
        let pieces = [(DATA + 0x8000, 4098), (DATA + 0x1_0000, 4094)];
        assert_eq!(machine.run(read, &pieces), (0x50, 8192));
        assert_eq!(machine.bytes(DATA + 0x8000, 4096), [1; 4096]);
        assert_eq!(machine.bytes(DATA + 0x1_0000, 4094), [2; 4094]);
        machine.run_queued(&[(31, queued(Opcode::ReadQueued, 31, 8, 1), &[(DATA, 512)])]);
        assert_eq!(machine.bytes(DATA, 512), [1; 512]);
        assert_eq!(machine.run(command(Opcode::FlushCacheExt, 0, 0), &[]).0, 0x50);
        // TRIM, then zeros.
        let mut ranges = [0; 512];
        ranges[..8].copy_from_slice(&(8 | 8_u64 << 48).to_le_bytes());
        machine.put(DATA, &ranges);
        let trim = Command { features: 1, ..command(Opcode::DataSetManagement, 0, 1) };
        assert_eq!(machine.run(trim, &[(DATA, 512)]).0, 0x50);
        assert_eq!(machine.run(read, &pieces).0, 0x50);
        assert_eq!(machine.bytes(DATA + 0x8000, 4096), [0; 4096]);
        // SMART: a temperature that may be, and a sum that adds up.
        let smart = Command { features: 0xd0, ..command(Opcode::Smart, 0xc2_4f00, 0) };
        assert_eq!(machine.run(smart, &[(DATA, 512)]), (0x50, 512));
        let page = machine.bytes(DATA, 512);
        let heat = page[2..362].chunks(12).find(|place| place[0] == 194).expect("an attribute");
        assert!((20..60).contains(&heat[5]), "{} degrees", heat[5]);
        assert_eq!(page.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte)), 0);
        // Reset by software: the signature comes anew.
        machine.put(FRAMES + 0x40, &[0; 20]);
        for control in [4, 0] {
            machine.prepare(0, Command { control, ..Command::default() }, &[]);
            machine.write(ISSUED, 1);
            machine.wait(ISSUED, 1, 0);
        }
        machine.interrupted();
        assert_eq!(machine.bytes(FRAMES + 0x40, 3), [0x34, 0x40, 0x50]);
    }
    handle.stop();
    running.join().unwrap();
}

#[test]
fn what_goes_wrong_is_told_and_can_be_mended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.sock");
    let (handle, running) = serve(&path);
    handle.ask(|engine| engine.allow_power_cuts(None, PowerCutLoss::All)).unwrap();
    let mut machine = Machine::boot(&path);
    machine.start();
    let region = &[(DATA, 4096)][..];
    // Beyond the end; unknown; data for less than was asked.
    let cases = [
        (command(Opcode::ReadDmaExt, SECTORS - 7, 8), region, 0x1051),
        (Command { code: 0xa0, ..command(Opcode::ReadDmaExt, 0, 8) }, region, 0x0451),
        (command(Opcode::WriteDmaExt, 0, 16), region, 0x8451),
    ];
    for (asked, regions, task_file) in cases {
        assert_eq!(machine.run(asked, regions), (task_file, 0), "{asked:?}");
        assert_eq!(machine.read(ISSUED), 1, "it is still there");
        machine.restart();
        assert_eq!(machine.run(command(Opcode::CheckPowerMode, 0, 0), &[]).0, 0x50);
        assert_eq!(machine.bytes(FRAMES + 0x40 + 12, 1), [0xff]);
    }
    // A queued one: the log says which.
    machine.prepare(7, queued(Opcode::ReadQueued, 7, SECTORS, 8), region);
    machine.write(ACTIVE, 1 << 7);
    machine.write(ISSUED, 1 << 7);
    assert_ne!(machine.interrupted() & TASK_FILE_ERROR, 0);
    assert_eq!(machine.read(ACTIVE), 1 << 7);
    machine.restart();
    let log = command(Opcode::ReadLogExt, 0x10, 1);
    assert_eq!(machine.run(log, &[(DATA, 512)]), (0x50, 512));
    assert_eq!(machine.bytes(DATA, 4), [7, 0, 0x51, 0x10]);
    // Memory that is not there: a bus error, not the end.
    machine.prepare(0, command(Opcode::ReadDmaExt, 0, 8), &[(0x40_0000, 4096)]);
    machine.write(ISSUED, 1);
    assert_ne!(machine.interrupted() & 1 << 29, 0);
    machine.restart();
    // The power goes: what was flushed is there, what was not is not.
    let write = command(Opcode::WriteDmaExt, 0, 8);
    machine.put(DATA, &[1; 4096]);
    assert_eq!(machine.run(write, region), (0x50, 4096));
    assert_eq!(machine.run(command(Opcode::FlushCacheExt, 0, 0), &[]).0, 0x50);
    machine.put(DATA, &[2; 4096]);
    assert_eq!(machine.run(write, region).0, 0x50);
    let cut = handle.ask(|engine| engine.power_cut().unwrap()).unwrap();
    assert_eq!(cut.lost_bytes, 4096);
    assert_ne!(machine.interrupted() & 1 << 22, 0, "the link changed");
    // The drive has said anew what it is.
    machine.wait(TASK_FILE, 0xffff, 0x0150);
    machine.restart();
    let _ = machine.irq.read(&mut [0; 8]);
    assert_eq!(machine.run(command(Opcode::ReadDmaExt, 0, 8), region).0, 0x50);
    assert_eq!(machine.bytes(DATA, 4096), [1; 4096]);
    handle.stop();
    running.join().unwrap();
}
