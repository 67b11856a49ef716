//! The drive as a PCIe NVMe controller: registers, queues, data in the host's memory, and MSI-X.

use drivebay_drive::samples::{SM951_AHCI_512, SM951_NVME_256, WINDOWS_8_1_Z97};
use drivebay_drive::{Spec, whole_profile};
use drivebay_serve::{Control as _, Fault, PowerCutLoss};
use drivebay_wire::nvme::{Cqe, IdentifyController, Sqe, Status};
use zerocopy::{FromBytes, IntoBytes};

use crate::pci_machine::{BASE, Machine, TestServer};

const BAR: u32 = 0;
/// VFIO's index of MSI-X.
const MSIX: u32 = 2;
const ENTRIES: u32 = 16;
const CONTROLLER_CONFIGURATION: u64 = 0x14;
const CONTROLLER_STATUS: u64 = 0x1c;

struct Host {
    pci: Machine,
    /// Tail of each submission queue, head and phase of each completion queue.
    tails: [u32; 2],
    heads: [(u32, u16); 2],
    cid: u16,
}

/// Addresses in memory: submission and completion queues, then data.
const SQ: [u64; 2] = [0x1000, 0x3000];
const CQ: [u64; 2] = [0x2000, 0x4000];
const DATA: u64 = 0x8000;

impl Host {
    fn boot(drive: &TestServer) -> Host {
        Host { pci: drive.boot(BAR, MSIX, 2), tails: [0; 2], heads: [(0, 1); 2], cid: 0 }
    }

    fn enable(&mut self) {
        self.pci.write(0x24, (ENTRIES - 1) | (ENTRIES - 1) << 16);
        self.pci.write_u64(0x28, BASE + SQ[0]);
        self.pci.write_u64(0x30, BASE + CQ[0]);
        self.pci.write(CONTROLLER_CONFIGURATION, 0x46_0001);
        self.wait_for(1);
    }

    fn wait_for(&mut self, status: u32) {
        self.pci.wait(CONTROLLER_STATUS, u32::MAX, status);
    }

    /// Posts a command on a queue.
    fn post(&mut self, queue: usize, mut sqe: Sqe) -> u16 {
        self.cid += 1;
        sqe.cid = self.cid.into();
        let place = SQ[queue] + u64::from(self.tails[queue]) * 64;
        self.pci.put(place, sqe.as_bytes());
        self.tails[queue] = (self.tails[queue] + 1) % ENTRIES;
        self.pci.write(0x1000 + 8 * queue as u64, self.tails[queue]);
        self.cid
    }

    /// Executes a command on a queue; returns its completion.
    fn command(&mut self, queue: usize, sqe: Sqe) -> (Status, u64) {
        let cid = self.post(queue, sqe);
        self.completion(queue, cid)
    }

    /// Waits for the interrupt and returns the completion.
    fn completion(&mut self, queue: usize, cid: u16) -> (Status, u64) {
        self.pci.wait_for_interrupt(queue);
        let (head, phase) = self.heads[queue];
        let bytes = self.pci.bytes(CQ[queue] + u64::from(head) * 16, 16);
        let cqe = Cqe::read_from_bytes(&bytes).expect("16 bytes");
        assert_eq!((cqe.cid.get(), cqe.status_and_phase.get() & 1), (cid, phase));
        let next = (head + 1) % ENTRIES;
        self.heads[queue] = (next, if next == 0 { phase ^ 1 } else { phase });
        self.pci.write(0x1004 + 8 * queue as u64, next);
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
        self.pci.put(DATA - 0x100, &list);
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

/// The catalog's NVMe drive.
fn test_server() -> TestServer {
    let base = whole_profile(WINDOWS_8_1_Z97, SM951_AHCI_512).unwrap().to_string();
    TestServer::new(Spec::from_family(&base, SM951_NVME_256).unwrap())
}

#[test]
fn a_power_cut_fails_the_controller_until_it_is_reset() {
    let drive = test_server();
    drive.handle.ask(|engine| engine.allow_power_cuts(None, PowerCutLoss::All)).unwrap();
    let mut host = Host::boot(&drive);
    host.enable();
    host.make_queues();
    let flush = Sqe { opcode: 0x00, nsid: 1.into(), ..Sqe::default() };
    let put = |host: &mut Host, byte: u8| {
        for (place, length) in host.pages() {
            host.pci.put(place, &vec![byte; length]);
        }
        assert_eq!(host.io(0x01), Status::SUCCESS);
    };
    put(&mut host, 1);
    assert_eq!(host.command(1, flush).0, Status::SUCCESS);
    put(&mut host, 2);
    let cut = drive.handle.ask(|engine| engine.power_cut().unwrap()).unwrap();
    assert_eq!(cut.lost_bytes, 24 * 1024);
    // Ready, and fatal: the machine must reset it.
    host.wait_for(1 | 2);
    host.pci.write(CONTROLLER_CONFIGURATION, 0);
    host.wait_for(0);
    (host.tails, host.heads) = ([0; 2], [(0, 1); 2]);
    host.enable();
    host.make_queues();
    assert_eq!(host.io(0x02), Status::SUCCESS);
    for (place, length) in host.pages() {
        assert_eq!(host.pci.bytes(place, length), vec![1; length], "the flushed version");
    }
    drive.stop();
}

#[test]
fn a_command_of_a_drive_that_hangs_is_aborted() {
    let drive = test_server();
    let mut host = Host::boot(&drive);
    host.enable();
    host.make_queues();
    let hang: Fault = serde_json::from_str(r#"{"kind": "hang"}"#).expect("a fault");
    drive.handle.ask(move |engine| engine.add_fault(hang)).unwrap().expect("a fault");
    let page = BASE + DATA;
    let read = Sqe { opcode: 0x02, nsid: 1.into(), prp1: page.into(), ..Sqe::default() };
    let cid = host.post(1, read);
    // Its doorbell may be read after the doorbell of the admin queue.
    let abort = Sqe { opcode: 0x08, cdw10: (1 | u32::from(cid) << 16).into(), ..Sqe::default() };
    while host.command(0, abort) != (Status::SUCCESS, 0) {}
    assert_eq!(host.completion(1, cid).0, Status::ABORT_REQUESTED);
    assert_eq!(host.command(0, abort), (Status::SUCCESS, 1), "there is none any more");
    // This transport does not support SGLs.
    let sgl = Sqe { flags: 1 << 6, ..read };
    assert_eq!(host.command(1, sgl).0, Status::INVALID_FIELD.dnr());
    // Commands that hang would keep the server from stopping.
    drive.handle.ask(|engine| engine.power_cut().unwrap()).unwrap();
    drive.stop();
}

#[test]
fn a_machine_reads_and_writes_through_its_own_memory_and_is_interrupted() {
    let drive = test_server();
    for _ in 0..2 {
        // The second client comes after the first has left without notice.
        let mut host = Host::boot(&drive);
        assert_eq!(host.pci.identity(), ([0x4d, 0x14, 0x02, 0xa8], [2, 8, 1]));
        host.wait_for(0);
        host.enable();
        let page = BASE + DATA;
        let identify = Sqe { opcode: 0x06, prp1: page.into(), cdw10: 1.into(), ..Sqe::default() };
        assert_eq!(host.command(0, identify).0, Status::SUCCESS);
        let bytes = host.pci.bytes(DATA, 4096);
        let id = IdentifyController::read_from_bytes(&bytes).unwrap();
        assert_eq!((&id.fr, id.sgls.get()), (b"BXW74H0Q", 0));
        // Features of hosts over TCP: reservations, and Keep Alive.
        assert_eq!((id.oncs.get() >> 5 & 1, id.kas.get(), id.ctratt.get() >> 6 & 1), (0, 0, 0));
        let identify = Sqe { nsid: 1.into(), cdw10: 0.into(), ..identify };
        assert_eq!(host.command(0, identify).0, Status::SUCCESS);
        assert_eq!(host.pci.bytes(DATA, 4096)[31], 0, "RESCAP");
        host.make_queues();
        for (i, (place, length)) in host.pages().into_iter().enumerate() {
            host.pci.put(place, &vec![i as u8 + 1; length]);
        }
        // Often enough for the queues' phase to change.
        for _ in 0..ENTRIES {
            assert_eq!(host.io(0x01), Status::SUCCESS);
        }
        for (place, length) in host.pages() {
            host.pci.put(place, &vec![0; length]);
        }
        assert_eq!(host.io(0x02), Status::SUCCESS);
        for (i, (place, length)) in host.pages().into_iter().enumerate() {
            assert_eq!(host.pci.bytes(place, length), vec![i as u8 + 1; length], "page {i}");
        }
        // Missing memory: an error, but the device continues.
        let lost = Sqe { opcode: 0x02, nsid: 1.into(), prp1: 0x40_0000.into(), ..Sqe::default() };
        assert_eq!(host.command(1, lost).0, Status::DATA_TRANSFER_ERROR);
        // Shutdown, reported at its end.
        host.pci.write(CONTROLLER_CONFIGURATION, 0x46_4001);
        host.wait_for(1 | 2 << 2);
        drop(host);
    }
    drive.stop();
}

#[test]
fn registers_read_back_and_event_requests_stay_until_a_reset() {
    let drive = test_server();
    let mut host = Host::boot(&drive);
    let event = Sqe { opcode: 0x0c, ..Sqe::default() };
    for _ in 0..20 {
        host.enable();
        let asked = [(ENTRIES - 1) | (ENTRIES - 1) << 16, (BASE + SQ[0]) as u32, 0];
        assert_eq!([0x24, 0x28, 0x2c].map(|offset| host.pci.read(offset)), asked);
        assert_eq!([0x30, 0x34].map(|offset| host.pci.read(offset)), [(BASE + CQ[0]) as u32, 0]);
        let page = BASE + DATA;
        let identify = Sqe { opcode: 0x06, prp1: page.into(), cdw10: 1.into(), ..Sqe::default() };
        assert_eq!(host.command(0, identify).0, Status::SUCCESS);
        let id = IdentifyController::read_from_bytes(&host.pci.bytes(DATA, 4096)).unwrap();
        for _ in 0..=id.aerl {
            host.post(0, event);
        }
        // Only the request beyond the limit completes.
        let refused = host.command(0, event).0;
        assert_eq!(refused, Status::AER_LIMIT_EXCEEDED.dnr());
        host.make_queues();
        assert_eq!(host.io(0x01), Status::SUCCESS);
        host.pci.write(CONTROLLER_CONFIGURATION, 0);
        host.wait_for(0);
        assert!(!host.pci.take_interrupt(0), "the reset ends the requests without completions");
        (host.tails, host.heads) = ([0; 2], [(0, 1); 2]);
        for place in CQ {
            host.pci.put(place, &[0; 16 * ENTRIES as usize]);
        }
    }
    drive.stop();
}

/// The pointer leads nowhere, or is an SGL, which this transport does not have.
#[test]
fn an_opcode_that_is_not_supported_is_refused_whatever_its_pointer() {
    let drive = test_server();
    let mut host = Host::boot(&drive);
    host.enable();
    host.make_queues();
    let page = BASE + DATA;
    let log =
        Sqe { opcode: 0x02, prp1: page.into(), cdw10: (5 | 1023 << 16).into(), ..Sqe::default() };
    assert_eq!(host.command(0, log).0, Status::SUCCESS);
    let effects = host.pci.bytes(DATA, 4096);
    for queue in [0, 1] {
        let is_unknown = |&opcode: &u8| effects[1024 * queue + 4 * usize::from(opcode)] & 1 == 0;
        for opcode in (0..=255_u8).filter(is_unknown) {
            let lost = Sqe {
                opcode,
                nsid: 1.into(),
                prp1: 0x40_0001.into(),
                prp2: 3.into(),
                cdw10: u32::MAX.into(),
                ..Sqe::default()
            };
            for flags in [0, 1, 1 << 6] {
                let found = host.command(queue, Sqe { flags, ..lost }).0;
                assert_eq!(found, Status::INVALID_OPCODE.dnr(), "{queue} {opcode:#x} {flags}");
            }
        }
    }
    drive.stop();
}
