//! The drive as an AHCI controller: registers, command list, frames, data in the host's memory, and
//! MSI.

use drivebay_drive::Spec;
use drivebay_drive::samples::{SM951_AHCI_512, WINDOWS_8_1_Z97};
use drivebay_serve::Control as _;
use drivebay_serve::PowerCutLoss;
use drivebay_wire::ata::{Command, Opcode};

use crate::pci_machine::{BASE, Machine, TestServer};

const BAR: u32 = 5;
/// VFIO's index of MSI.
const MSI: u32 = 1;
const LIST: u64 = 0x1000;
const FRAMES: u64 = 0x1400;
const TABLES: u64 = 0x2000;
const DATA: u64 = 0x4_0000;
const SECTORS: u64 = 1_000_215_216;

const GHC: u64 = 0x04;
const IS: u64 = 0x08;
const PORT_STATUS: u64 = 0x110;
const PORT_COMMAND: u64 = 0x118;
const TASK_FILE: u64 = 0x120;
const ACTIVE: u64 = 0x134;
const ISSUED: u64 = 0x138;
const TASK_FILE_ERROR: u32 = 1 << 30;

/// Address of a piece of data, and its length.
type Region = (u64, u32);

struct Host {
    pci: Machine,
}

impl Host {
    fn boot(drive: &TestServer) -> Host {
        Host { pci: drive.boot(BAR, MSI, 1) }
    }

    /// Starts like a driver: list and frames, then the engines.
    fn start(&mut self) {
        self.pci.write(GHC, 1);
        self.pci.wait(GHC, 1, 0);
        self.pci.write(GHC, 1 << 31 | 1 << 1);
        self.pci.write(0x100, (BASE + LIST) as u32);
        self.pci.write(0x108, (BASE + FRAMES) as u32);
        self.pci.write(0x114, u32::MAX);
        self.pci.write(PORT_COMMAND, 1 << 4);
        self.pci.wait(TASK_FILE, 0x88, 0);
        assert_eq!((self.pci.read(0x124), self.pci.read(0x128) & 0xf), (0x101, 3));
        assert_eq!(self.pci.bytes(FRAMES + 0x40, 3), [0x34, 0x40, 0x50], "the signature's frame");
        self.interrupted();
        self.pci.write(PORT_COMMAND, 1 << 4 | 1);
    }

    fn restart(&mut self) {
        self.pci.write(PORT_COMMAND, 1 << 4);
        self.pci.wait(PORT_COMMAND, 1 << 15, 0);
        self.pci.write(0x130, u32::MAX);
        self.pci.write(PORT_STATUS, u32::MAX);
        self.pci.write(PORT_COMMAND, 1 << 4 | 1);
    }

    /// Puts a command into a slot; its data is in these regions.
    fn prepare(&self, slot: u64, command: Command, regions: &[Region]) {
        let table = TABLES + slot * 0x400;
        self.pci.put(table, &command.frame());
        for (i, (place, length)) in regions.iter().enumerate() {
            let mut region = [0; 16];
            region[..8].copy_from_slice(&(BASE + place).to_le_bytes());
            region[12..].copy_from_slice(&(length - 1).to_le_bytes());
            self.pci.put(table + 0x80 + 16 * i as u64, &region);
        }
        let mut header = [0; 32];
        header[..4].copy_from_slice(&(5 | (regions.len() as u32) << 16).to_le_bytes());
        header[8..16].copy_from_slice(&(BASE + table).to_le_bytes());
        self.pci.put(LIST + 32 * slot, &header);
    }

    /// Waits for the interrupt, then clears it at the port and at the controller; returns the
    /// port's status.
    fn interrupted(&mut self) -> u32 {
        self.pci.wait_for_interrupt(0);
        let status = self.pci.read(PORT_STATUS);
        self.pci.write(PORT_STATUS, status);
        self.pci.write(IS, 1);
        status
    }

    /// Runs a command that is not queued, in slot 0; returns its status register, and the bytes
    /// moved.
    fn run(&mut self, command: Command, regions: &[Region]) -> (u32, u32) {
        self.prepare(0, command, regions);
        self.pci.write(ISSUED, 1);
        let status = self.interrupted();
        if status & TASK_FILE_ERROR == 0 {
            assert_eq!(self.pci.read(ISSUED), 0);
        }
        let moved = self.pci.bytes(LIST + 4, 4);
        (self.pci.read(TASK_FILE), u32::from_le_bytes(moved.try_into().expect("four bytes")))
    }

    /// Runs queued commands, all at once; the slots are the tags.
    fn run_queued(&mut self, commands: &[(u64, Command, &[Region])]) {
        let mut tags = 0;
        for &(slot, command, regions) in commands {
            self.prepare(slot, command, regions);
            tags |= 1 << slot;
        }
        self.pci.write(ACTIVE, tags);
        self.pci.write(ISSUED, tags);
        while self.pci.read(ACTIVE) & tags != 0 {
            let status = self.interrupted();
            assert_eq!(status & TASK_FILE_ERROR, 0);
        }
        assert_eq!(self.pci.read(ISSUED), 0);
        // The interrupt of the last one may still be on its way.
        self.pci.take_interrupt(0);
        self.pci.write(PORT_STATUS, u32::MAX);
        self.pci.write(IS, 1);
        self.pci.take_interrupt(0);
    }
}

fn command(opcode: Opcode, lba: u64, count: u16) -> Command {
    Command { is_command: true, code: opcode as u8, lba, count, device: 0x40, ..Command::default() }
}

fn queued(opcode: Opcode, tag: u16, lba: u64, sectors: u16) -> Command {
    Command { features: sectors, ..command(opcode, lba, tag << 3) }
}

/// The catalog's AHCI drive.
fn test_server() -> TestServer {
    TestServer::new(Spec::from_family(WINDOWS_8_1_Z97, SM951_AHCI_512).unwrap())
}

#[test]
fn a_machine_finds_the_drive_and_moves_data() {
    let drive = test_server();
    for _ in 0..2 {
        // The second client comes after the first has left without notice.
        let mut host = Host::boot(&drive);
        assert_eq!(host.pci.identity(), ([0x4d, 0x14, 0x01, 0xa8], [1, 6, 1]));
        host.start();
        let identify = command(Opcode::IdentifyDevice, 0, 0);
        assert_eq!(host.run(identify, &[(DATA, 512)]), (0x50, 512));
        let page = host.pci.bytes(DATA, 512);
        assert_eq!(&page[54..66], b"ZMPH5V21DHLG");
        assert_eq!(page[200..208], SECTORS.to_le_bytes());
        let setup = host.pci.bytes(FRAMES + 0x20, 18);
        assert_eq!((setup[0], setup[15], &setup[16..]), (0x5f, 0x50, &[0, 2][..]), "PIO setup");
        // Two queued writes at once, in pieces; one of them forced.
        host.pci.put(DATA, &[1; 4096]);
        host.pci.put(DATA + 0x2000, &[2; 4096]);
        let forced = Command { device: 0xc0, ..queued(Opcode::WriteQueued, 9, 16, 8) };
        host.run_queued(&[
            (3, queued(Opcode::WriteQueued, 3, 8, 8), &[(DATA, 1024), (DATA + 1024, 3072)]),
            (9, forced, &[(DATA + 0x2000, 4096)]),
        ]);
        let read = command(Opcode::ReadDmaExt, 8, 16);
        let pieces = [(DATA + 0x8000, 4098), (DATA + 0x1_0000, 4094)];
        assert_eq!(host.run(read, &pieces), (0x50, 8192));
        assert_eq!(host.pci.bytes(DATA + 0x8000, 4096), [1; 4096]);
        assert_eq!(host.pci.bytes(DATA + 0x1_0000, 4094), [2; 4094]);
        host.run_queued(&[(31, queued(Opcode::ReadQueued, 31, 8, 1), &[(DATA, 512)])]);
        assert_eq!(host.pci.bytes(DATA, 512), [1; 512]);
        assert_eq!(host.run(command(Opcode::FlushCacheExt, 0, 0), &[]).0, 0x50);
        // TRIM, then zeros.
        let mut ranges = [0; 512];
        ranges[..8].copy_from_slice(&(8 | 8_u64 << 48).to_le_bytes());
        host.pci.put(DATA, &ranges);
        let trim = Command { features: 1, ..command(Opcode::DataSetManagement, 0, 1) };
        assert_eq!(host.run(trim, &[(DATA, 512)]).0, 0x50);
        assert_eq!(host.run(read, &pieces).0, 0x50);
        assert_eq!(host.pci.bytes(DATA + 0x8000, 4096), [0; 4096]);
        // SMART: a plausible temperature, and a correct checksum.
        let smart = Command { features: 0xd0, ..command(Opcode::Smart, 0xc2_4f00, 0) };
        assert_eq!(host.run(smart, &[(DATA, 512)]), (0x50, 512));
        let page = host.pci.bytes(DATA, 512);
        let heat = page[2..362].chunks(12).find(|place| place[0] == 194).expect("an attribute");
        assert!((20..60).contains(&heat[5]), "{} degrees", heat[5]);
        assert_eq!(page.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte)), 0);
        // Software reset: the signature comes again.
        host.pci.put(FRAMES + 0x40, &[0; 20]);
        for control in [4, 0] {
            host.prepare(0, Command { control, ..Command::default() }, &[]);
            host.pci.write(ISSUED, 1);
            host.pci.wait(ISSUED, 1, 0);
        }
        host.interrupted();
        assert_eq!(host.pci.bytes(FRAMES + 0x40, 3), [0x34, 0x40, 0x50]);
    }
    drive.stop();
}

#[test]
fn what_goes_wrong_is_told_and_can_be_mended() {
    let drive = test_server();
    drive.handle.ask(|engine| engine.allow_power_cuts(None, PowerCutLoss::All)).unwrap();
    let mut host = Host::boot(&drive);
    host.start();
    let region = &[(DATA, 4096)][..];
    // Beyond the end; unknown command; data shorter than requested.
    let cases = [
        (command(Opcode::ReadDmaExt, SECTORS - 7, 8), region, 0x1051),
        (Command { code: 0xa0, ..command(Opcode::ReadDmaExt, 0, 8) }, region, 0x0451),
        (command(Opcode::WriteDmaExt, 0, 16), region, 0x8451),
    ];
    for (asked, regions, task_file) in cases {
        assert_eq!(host.run(asked, regions), (task_file, 0), "{asked:?}");
        assert_eq!(host.pci.read(ISSUED), 1, "it is still there");
        host.restart();
        assert_eq!(host.run(command(Opcode::CheckPowerMode, 0, 0), &[]).0, 0x50);
        assert_eq!(host.pci.bytes(FRAMES + 0x40 + 12, 1), [0xff]);
    }
    // A queued command: the log has its tag.
    host.prepare(7, queued(Opcode::ReadQueued, 7, SECTORS, 8), region);
    host.pci.write(ACTIVE, 1 << 7);
    host.pci.write(ISSUED, 1 << 7);
    assert_ne!(host.interrupted() & TASK_FILE_ERROR, 0);
    assert_eq!(host.pci.read(ACTIVE), 1 << 7);
    host.restart();
    let log = command(Opcode::ReadLogExt, 0x10, 1);
    assert_eq!(host.run(log, &[(DATA, 512)]), (0x50, 512));
    assert_eq!(host.pci.bytes(DATA, 4), [7, 0, 0x51, 0x10]);
    // Missing memory: a bus error, but the device continues.
    host.prepare(0, command(Opcode::ReadDmaExt, 0, 8), &[(0x40_0000, 4096)]);
    host.pci.write(ISSUED, 1);
    assert_ne!(host.interrupted() & 1 << 29, 0);
    host.restart();
    // After a power cut flushed data remains, other data does not.
    let write = command(Opcode::WriteDmaExt, 0, 8);
    host.pci.put(DATA, &[1; 4096]);
    assert_eq!(host.run(write, region), (0x50, 4096));
    assert_eq!(host.run(command(Opcode::FlushCacheExt, 0, 0), &[]).0, 0x50);
    host.pci.put(DATA, &[2; 4096]);
    assert_eq!(host.run(write, region).0, 0x50);
    let cut = drive.handle.ask(|engine| engine.power_cut().unwrap()).unwrap();
    assert_eq!(cut.lost_bytes, 4096);
    assert_ne!(host.interrupted() & 1 << 22, 0, "the link changed");
    // The drive has sent its signature again.
    host.pci.wait(TASK_FILE, 0xffff, 0x0150);
    host.restart();
    host.pci.take_interrupt(0);
    assert_eq!(host.run(command(Opcode::ReadDmaExt, 0, 8), region).0, 0x50);
    assert_eq!(host.pci.bytes(DATA, 4096), [1; 4096]);
    drive.stop();
}
