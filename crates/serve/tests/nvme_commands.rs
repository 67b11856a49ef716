//! Commands, log pages and features that NVMe's tools expect of a drive, over TCP, with a host of
//! our own.

use drivebay_serve::{Control as _, Data as _, Io as _};
use drivebay_wire::nvme::{
    Cns, CopyRange, Digests, ErrorEntry, Feature, IdentifyController, IdentifyNamespace, LogPage,
    OcpLatency, OcpSmart, PersistentHeader, SELF_TEST_NONE, SanitizeStatus, SelfTestLog, SmartLog,
    Sqe, Status, TelemetryHeader, ocp_trailer,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::nvme_host::{self, Host, Rig};

const BLOCK: usize = 512;
const COPY: u8 = 0x19;
const VERIFY: u8 = 0x0c;
const WRITE_UNCORRECTABLE: u8 = 0x04;
const FORMAT: u8 = 0x80;
const SANITIZE: u8 = 0x84;

/// A drive, its admin queue and an I/O queue.
fn drive() -> (Rig, Host, Host) {
    connected(Rig::new())
}

/// Like [`drive`], for a drive that follows OCP's specification.
fn ocp_drive() -> (Rig, Host, Host) {
    connected(Rig::sick("[identify]\nocp = { value = true, source = \"guess: a test's\" }"))
}

fn connected(mut rig: Rig) -> (Rig, Host, Host) {
    let admin = rig.connect(0, Digests::default());
    let io = rig.connect(1, Digests::default());
    (rig, admin, io)
}

fn write(rig: &mut Rig, host: &mut Host, lba: u64, fill: u8, blocks: u32) -> Status {
    let bytes = blocks as usize * BLOCK;
    rig.io(host, nvme_host::io(0x01, lba, blocks), bytes as u32, &vec![fill; bytes]).0
}

fn read(rig: &mut Rig, host: &mut Host, lba: u64, blocks: u32) -> (Status, Vec<u8>) {
    rig.io(host, nvme_host::io(0x02, lba, blocks), blocks * BLOCK as u32, &[])
}

/// Get Log Page; `more` goes to dword 10.
fn log_with(
    rig: &mut Rig,
    admin: &mut Host,
    page: LogPage,
    bytes: u32,
    more: u32,
) -> (Status, Vec<u8>) {
    let sqe = Sqe {
        opcode: 0x02,
        nsid: 0xffff_ffff.into(),
        cdw10: (page as u32 | more | (bytes / 4 - 1) << 16).into(),
        ..Sqe::default()
    };
    let (status, _, page) = rig.admin(admin, sqe, bytes, &[]);
    (status, page)
}

fn log<T: FromBytes>(rig: &mut Rig, admin: &mut Host, page: LogPage) -> T {
    let (status, bytes) = log_with(rig, admin, page, size_of::<T>() as u32, 0);
    assert_eq!(status, Status::SUCCESS, "{page:?}");
    T::read_from_bytes(&bytes).expect("a page")
}

fn feature(opcode: u8, feature: Feature, cdw11: u32) -> Sqe {
    Sqe { opcode, cdw10: (feature as u32).into(), cdw11: cdw11.into(), ..Sqe::default() }
}

fn set(rig: &mut Rig, admin: &mut Host, one: Feature, cdw11: u32, data: &[u8]) -> Status {
    rig.admin(admin, feature(0x09, one, cdw11), data.len() as u32, data).0
}

fn get(rig: &mut Rig, admin: &mut Host, one: Feature, bytes: u32) -> (u64, Vec<u8>) {
    let (status, value, data) = rig.admin(admin, feature(0x0a, one, 0), bytes, &[]);
    assert_eq!(status, Status::SUCCESS, "{one:?}");
    (value, data)
}

fn namespace(rig: &mut Rig, admin: &mut Host) -> IdentifyNamespace {
    IdentifyNamespace::read_from_bytes(&rig.identify(admin, Cns::Namespace)).expect("a page")
}

fn format(rig: &mut Rig, admin: &mut Host, lbaf: u32, erase: u32) -> Status {
    let cdw10 = (lbaf | erase << 9).into();
    rig.admin(admin, Sqe { opcode: FORMAT, nsid: 1.into(), cdw10, ..Sqe::default() }, 0, &[]).0
}

/// A Copy of these (first block, blocks) to `lba`.
fn copy(rig: &mut Rig, host: &mut Host, lba: u64, sources: &[(u64, u16)]) -> Status {
    let range = |&(lba, blocks): &(u64, u16)| CopyRange {
        lba: lba.into(),
        blocks_less_one: (blocks - 1).into(),
        ..CopyRange::default()
    };
    let data: Vec<u8> = sources.iter().flat_map(|one| range(one).as_bytes().to_vec()).collect();
    let sqe = nvme_host::io(COPY, lba, sources.len() as u32);
    rig.io(host, sqe, data.len() as u32, &data).0
}

#[test]
fn copy_moves_data_within_the_drive_and_keeps_to_its_limits() {
    let (mut rig, mut admin, mut host) = drive();
    let id = namespace(&mut rig, &mut admin);
    assert_eq!((id.mssrl.get(), id.mcl.get(), id.msrc), (256, 2048, 31));
    for (lba, fill) in [(0, 1), (8, 2), (40, 3)] {
        assert_eq!(write(&mut rig, &mut host, lba, fill, 4), Status::SUCCESS);
    }
    assert_eq!(copy(&mut rig, &mut host, 100, &[(40, 4), (0, 2), (8, 1)]), Status::SUCCESS);
    let (_, found) = read(&mut rig, &mut host, 100, 8);
    let firsts: Vec<u8> = found.chunks(BLOCK).map(|block| block[0]).collect();
    assert_eq!(firsts, [3, 3, 3, 3, 1, 1, 2, 0]);
    // Onto its own source: it writes the data that it has read.
    assert_eq!(copy(&mut rig, &mut host, 101, &[(100, 7)]), Status::SUCCESS);
    let (_, found) = read(&mut rig, &mut host, 100, 8);
    let firsts: Vec<u8> = found.chunks(BLOCK).map(|block| block[0]).collect();
    assert_eq!(firsts, [3, 3, 3, 3, 3, 1, 1, 2]);
    let last = rig.blocks();
    let many = vec![(0, 1); 33];
    for (lba, sources, status) in [
        (last - 1, &[(0, 2)][..], Status::LBA_OUT_OF_RANGE),
        (0, &[(last - 1, 2)], Status::LBA_OUT_OF_RANGE),
        (0, &[(u64::MAX, 2)], Status::LBA_OUT_OF_RANGE),
        (0, &[(0, 257)], Status::COMMAND_SIZE_LIMIT),
        (0, &[(0, 256); 9], Status::COMMAND_SIZE_LIMIT),
        (0, &many, Status::COMMAND_SIZE_LIMIT),
    ] {
        assert_eq!(copy(&mut rig, &mut host, lba, sources), status.dnr(), "{sources:?}");
    }
    let mut other = nvme_host::io(COPY, 0, 1);
    other.cdw12 = (1 << 8).into();
    assert_eq!(rig.io(&mut host, other, 32, &[0; 32]).0, Status::INVALID_FIELD.dnr());
    let error: ErrorEntry = log(&mut rig, &mut admin, LogPage::Errors);
    assert_eq!(error.location.get(), 49, "the format, in dword 12");
}

#[test]
fn what_a_host_makes_uncorrectable_fails_until_it_is_written() {
    let (mut rig, mut admin, mut host) = drive();
    write(&mut rig, &mut host, 0, 1, 16);
    let one = |rig: &mut Rig, host: &mut Host, opcode, lba, blocks| {
        rig.io(host, nvme_host::io(opcode, lba, blocks), 0, &[]).0
    };
    assert_eq!(one(&mut rig, &mut host, VERIFY, 0, 16), Status::SUCCESS);
    assert_eq!(one(&mut rig, &mut host, WRITE_UNCORRECTABLE, 4, 4), Status::SUCCESS);
    let failed = Status::UNRECOVERED_READ_ERROR;
    assert_eq!(read(&mut rig, &mut host, 0, 5).0, failed);
    assert_eq!(read(&mut rig, &mut host, 7, 2).0, failed);
    assert_eq!(one(&mut rig, &mut host, VERIFY, 0, 16), failed);
    assert_eq!(copy(&mut rig, &mut host, 100, &[(0, 4), (4, 1)]), failed);
    assert_eq!(read(&mut rig, &mut host, 100, 4).1, [0; 4 * BLOCK], "nothing was copied");
    assert_eq!(read(&mut rig, &mut host, 0, 4), (Status::SUCCESS, vec![1; 4 * BLOCK]));
    assert_eq!(write(&mut rig, &mut host, 4, 2, 3), Status::SUCCESS);
    assert_eq!(read(&mut rig, &mut host, 4, 3), (Status::SUCCESS, vec![2; 3 * BLOCK]));
    assert_eq!(read(&mut rig, &mut host, 7, 1).0, failed);
    assert_eq!(format(&mut rig, &mut admin, 0, 0), Status::SUCCESS);
    assert_eq!(read(&mut rig, &mut host, 7, 1), (Status::SUCCESS, vec![0; BLOCK]));
    let last = rig.blocks();
    for opcode in [VERIFY, WRITE_UNCORRECTABLE] {
        let status = one(&mut rig, &mut host, opcode, last, 1);
        assert_eq!(status, Status::LBA_OUT_OF_RANGE.dnr());
    }
}

#[test]
fn protection_is_ignored_where_blocks_have_none() {
    let (mut rig, _admin, mut host) = drive();
    let one = |rig: &mut Rig, host: &mut Host, opcode, data: &[u8]| {
        // PRACT and all checks.
        let mut sqe = nvme_host::io(opcode, 8, 1);
        sqe.cdw12 = (sqe.cdw12.get() | 0xf << 26).into();
        rig.io(host, sqe, BLOCK as u32, data)
    };
    assert_eq!(one(&mut rig, &mut host, 0x01, &[7; BLOCK]).0, Status::SUCCESS);
    assert_eq!(one(&mut rig, &mut host, 0x02, &[]), (Status::SUCCESS, vec![7; BLOCK]));
    assert_eq!(one(&mut rig, &mut host, 0x05, &[7; BLOCK]).0, Status::SUCCESS);
    assert_eq!(one(&mut rig, &mut host, 0x05, &[8; BLOCK]).0, Status::COMPARE_FAILURE.dnr());
}

#[test]
fn a_namespace_can_have_blocks_of_4_kib() {
    let (mut rig, mut admin, mut host) = drive();
    let id = namespace(&mut rig, &mut admin);
    let shifts: Vec<u8> =
        id.lbaf[..=usize::from(id.nlbaf)].iter().map(|one| one.data_shift).collect();
    assert_eq!((shifts, id.flbas), (vec![9, 12], 0));
    let blocks = id.nsze.get();
    write(&mut rig, &mut host, 0, 1, 8);
    assert_eq!(format(&mut rig, &mut admin, 1, 1), Status::SUCCESS);
    let id = namespace(&mut rig, &mut admin);
    assert_eq!((id.flbas, id.nsze.get(), id.ncap.get()), (1, blocks / 8, blocks / 8));
    assert_eq!((id.mssrl.get(), id.mcl.get()), (32, 256));
    let io = |rig: &mut Rig, host: &mut Host, opcode, lba, blocks: u32, data: &[u8]| {
        rig.io(host, nvme_host::io(opcode, lba, blocks), blocks * 4096, data)
    };
    assert_eq!(io(&mut rig, &mut host, 0x02, 0, 1, &[]), (Status::SUCCESS, vec![0; 4096]));
    let data: Vec<u8> = (0..8192_u32).map(|i| (i / 64) as u8).collect();
    let last = blocks / 8 - 2;
    assert_eq!(io(&mut rig, &mut host, 0x01, last, 2, &data).0, Status::SUCCESS);
    assert_eq!(io(&mut rig, &mut host, 0x02, last, 2, &[]), (Status::SUCCESS, data.clone()));
    assert_eq!(io(&mut rig, &mut host, 0x05, last, 2, &data).0, Status::SUCCESS);
    assert_eq!(copy(&mut rig, &mut host, 3, &[(last + 1, 1)]), Status::SUCCESS);
    let (_, copied) = io(&mut rig, &mut host, 0x02, 3, 1, &[]);
    assert_eq!(copied, data[4096..]);
    let beyond = io(&mut rig, &mut host, 0x02, last + 1, 2, &[]).0;
    assert_eq!(beyond, Status::LBA_OUT_OF_RANGE.dnr());
    // The drive's sectors of the block.
    let mut sector = [0; 512];
    drivebay_serve::Data::read(&rig.engine, 8 * (last + 1), &mut sector).expect("memory");
    assert_eq!(sector, data[4096..4608]);
    assert_eq!(format(&mut rig, &mut admin, 2, 0), Status::INVALID_FORMAT.dnr());
    assert_eq!(format(&mut rig, &mut admin, 0, 3), Status::INVALID_FIELD.dnr());
    assert_eq!(format(&mut rig, &mut admin, 0, 2), Status::SUCCESS);
    assert_eq!(namespace(&mut rig, &mut admin).nsze.get(), blocks);
}

#[test]
fn a_host_may_send_more_data_than_a_command_needs() {
    let (mut rig, _admin, mut host) = drive();
    write(&mut rig, &mut host, 1, 7, 1);
    for opcode in [0x01, 0x05] {
        let (status, _) = rig.io(&mut host, nvme_host::io(opcode, 0, 1), 1024, &[1; 1024]);
        assert_eq!(status, Status::SUCCESS);
    }
    let (_, found) = read(&mut rig, &mut host, 0, 2);
    assert_eq!((found[0], found[511], found[512]), (1, 1, 7));
}

#[test]
fn smart_of_a_namespace_counts_what_was_asked_of_it() {
    let (mut rig, mut admin, mut host) = drive();
    for lba in 0..3 {
        write(&mut rig, &mut host, 8 * lba, 1, 8);
    }
    read(&mut rig, &mut host, 0, 8);
    let sqe = Sqe { opcode: 0x02, nsid: 1.into(), cdw10: (2 | 127 << 16).into(), ..Sqe::default() };
    let own = SmartLog::read_from_bytes(&rig.admin(&mut admin, sqe, 512, &[]).2).expect("a log");
    assert_eq!((own.host_reads.get(), own.host_writes.get()), (1, 3));
    assert_eq!((own.data_units_read.get(), own.data_units_written.get()), (1, 1));
    let nobody = Sqe { nsid: 9.into(), ..sqe };
    assert_eq!(rig.admin(&mut admin, nobody, 512, &[]).0, Status::INVALID_NAMESPACE.dnr());
}

/// Fields that the reported version requires.
#[test]
fn identify_has_the_fields_that_its_version_makes_mandatory() {
    let (mut rig, mut admin, _host) = drive();
    let page = rig.identify(&mut admin, Cns::Controller);
    let id = IdentifyController::read_from_bytes(&page).expect("a page");
    assert_eq!(id.ver.get(), 0x2_0000);
    assert!(id.rtd3r.get() > 0 && id.rtd3e.get() > 0);
    assert!(0 < id.wctemp.get() && id.wctemp.get() < id.cctemp.get());
    assert_eq!((id.cntrltype, id.apsta, id.ocfs.get()), (1, 1, 1));
    assert!(id.edstt.get() > 0 && id.pels.get() > 0);
    assert_eq!(id.oacs.get() >> 9 & 1, 0, "no Get LBA Status");
    assert_eq!(id.ctratt.get(), 1 | 1 << 6, "host identifiers, keep-alive; UUIDs are OCP's");
    assert_eq!((id.oncs.get() >> 5 & 1, namespace(&mut rig, &mut admin).rescap), (1, 0xff));
    let identify = |rig: &mut Rig, admin: &mut Host, cns: u32, nsid: u32, cdw11: u32| {
        let sqe = Sqe {
            opcode: 0x06,
            nsid: nsid.into(),
            cdw10: cns.into(),
            cdw11: cdw11.into(),
            ..Sqe::default()
        };
        let (status, _, page) = rig.admin(admin, sqe, 4096, &[]);
        (status, page)
    };
    let (status, limits) = identify(&mut rig, &mut admin, 6, 0, 0);
    assert_eq!((status, limits[1]), (Status::SUCCESS, 13), "32 MiB of zeros at a time");
    let (_, independent) = identify(&mut rig, &mut admin, 8, 1, 0);
    assert_eq!(independent[14], 1, "ready");
    let (_, sets) = identify(&mut rig, &mut admin, 0x1c, 0xffff, 0);
    assert_eq!(sets[..16], [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let (_, names) = identify(&mut rig, &mut admin, 3, 1, 0);
    assert_eq!((names[0], &names[12..17]), (1, &[4, 1, 0, 0, 0][..]));
    let (_, list) = identify(&mut rig, &mut admin, 7, 0, 0);
    assert_eq!(list[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    let (status, _) = identify(&mut rig, &mut admin, 0x17, 0, 0);
    assert_eq!(status, Status::INVALID_FIELD.dnr(), "UUIDs are OCP's");
    // No other command set than NVM.
    let (status, _) = identify(&mut rig, &mut admin, 6, 0, 2 << 24);
    assert_eq!(status, Status::INVALID_FIELD.dnr());
    assert_eq!(rig.property(&mut admin, 0x68), 20, "ready within 10 s");
}

/// All listed pages and effects can be used.
#[test]
fn each_log_page_and_feature_that_is_listed_is_there() {
    let (mut rig, mut admin, mut host) = drive();
    let pages = log_with(&mut rig, &mut admin, LogPage::Supported, 1024, 0).1;
    for code in 0..=255_u8 {
        let is_listed = pages[4 * usize::from(code)] & 1 != 0;
        let begin = if code == LogPage::PersistentEvents as u8 { 1 << 8 } else { 0 };
        let sqe = Sqe {
            opcode: 0x02,
            nsid: 0xffff_ffff.into(),
            cdw10: (u32::from(code) | begin | 127 << 16).into(),
            ..Sqe::default()
        };
        let found = rig.admin(&mut admin, sqe, 512, &[]).0;
        let expected = if is_listed { Status::SUCCESS } else { Status::INVALID_LOG_PAGE.dnr() };
        assert_eq!(found, expected, "{code:#x}");
    }
    let features = log_with(&mut rig, &mut admin, LogPage::Features, 1024, 0).1;
    for code in 0..=255_u8 {
        let is_listed = features[4 * usize::from(code)] & 1 != 0;
        let sqe =
            Sqe { opcode: 0x0a, nsid: 1.into(), cdw10: u32::from(code).into(), ..Sqe::default() };
        let found = rig.admin(&mut admin, sqe, 8192, &[]).0;
        let expected = if is_listed { Status::SUCCESS } else { Status::INVALID_FIELD.dnr() };
        assert_eq!(found, expected, "{code:#x}");
    }
    let effects = log_with(&mut rig, &mut admin, LogPage::Commands, 4096, 0).1;
    // All opcodes other than that of fabrics.
    for opcode in (0..=255_u8).filter(|&opcode| opcode != 0x7f) {
        let is_listed = effects[1024 + 4 * usize::from(opcode)] & 1 != 0;
        let sqe = nvme_host::io(opcode, 0, 1);
        let found = rig.io(&mut host, sqe, 512, &[0; 512]).0;
        assert_eq!(found != Status::INVALID_OPCODE.dnr(), is_listed, "{opcode:#x}: {found:?}");
    }
}

#[test]
fn self_tests_take_the_drives_time_and_leave_results() {
    let (mut rig, mut admin, mut host) = drive();
    let begin = |rig: &mut Rig, admin: &mut Host, code: u32| {
        let sqe =
            Sqe { opcode: 0x14, nsid: 0xffff_ffff.into(), cdw10: code.into(), ..Sqe::default() };
        rig.admin(admin, sqe, 0, &[]).0
    };
    let none: SelfTestLog = log(&mut rig, &mut admin, LogPage::SelfTest);
    assert_eq!((none.current, none.results[0].status), (0, SELF_TEST_NONE));
    assert_eq!(begin(&mut rig, &mut admin, 1), Status::SUCCESS);
    assert_eq!(begin(&mut rig, &mut admin, 2), Status::SELF_TEST_IN_PROGRESS.dnr());
    let going: SelfTestLog = log(&mut rig, &mut admin, LogPage::SelfTest);
    assert_eq!((going.current, going.percent), (1, 0));
    assert_eq!(write(&mut rig, &mut host, 0, 1, 8), Status::SUCCESS, "I/O goes on");
    assert_eq!(begin(&mut rig, &mut admin, 0xf), Status::SUCCESS);
    assert_eq!(begin(&mut rig, &mut admin, 2), Status::SUCCESS);
    assert_eq!(format(&mut rig, &mut admin, 0, 1), Status::SUCCESS);
    assert_eq!(begin(&mut rig, &mut admin, 1), Status::SUCCESS);
    rig.pass(61);
    let done: SelfTestLog = log(&mut rig, &mut admin, LogPage::SelfTest);
    let results: Vec<u8> = done.results[..4].iter().map(|one| one.status).collect();
    assert_eq!((done.current, results), (0, vec![0x10, 0x24, 0x11, SELF_TEST_NONE]));
    assert_eq!(begin(&mut rig, &mut admin, 7), Status::INVALID_FIELD.dnr());
}

#[test]
fn telemetry_holds_the_drives_figures_and_says_whether_it_is_new() {
    let (mut rig, mut admin, _host) = drive();
    let create = 1 << 8;
    let (status, page) = log_with(&mut rig, &mut admin, LogPage::TelemetryHost, 4096, create);
    let head = TelemetryHeader::read_from_prefix(&page).expect("a header").0;
    assert_eq!((status, head.page, head.host[1]), (Status::SUCCESS, 7, 1));
    let blocks = u32::from(head.last_blocks[2].get());
    let (_, page) = log_with(&mut rig, &mut admin, LogPage::TelemetryHost, 512 * (blocks + 1), 0);
    let text = page[512..].split(|&byte| byte == 0).next().expect("text");
    let figures: serde_json::Value = serde_json::from_slice(text).expect("JSON");
    assert_eq!(figures["capacity_bytes"], rig.blocks() * 512);
    let controller: TelemetryHeader = log(&mut rig, &mut admin, LogPage::TelemetryController);
    assert_eq!(controller.controller, [0, 0]);
    let fault = serde_json::from_str(r#"{"kind": "read-only"}"#).expect("a fault");
    rig.engine.add_fault(fault).expect("a fault");
    rig.engine.begin_iteration();
    rig.tick(&mut admin);
    let retain = 1 << 15;
    for more in [retain, 0] {
        let (_, page) = log_with(&mut rig, &mut admin, LogPage::TelemetryController, 512, more);
        let head = TelemetryHeader::read_from_bytes(&page).expect("a header");
        assert_eq!(head.controller, [1, 1]);
        assert!(head.reason.starts_with(b"The drive refuses"));
    }
    let read: TelemetryHeader = log(&mut rig, &mut admin, LogPage::TelemetryController);
    assert_eq!(read.controller, [0, 1]);
}

#[test]
fn persistent_events_tell_what_was_done_to_the_drive() {
    let (mut rig, mut admin, _host) = drive();
    let (begin, end) = (1 << 8, 2 << 8);
    let mut read = |rig: &mut Rig, bytes, more| {
        log_with(rig, &mut admin, LogPage::PersistentEvents, bytes, more)
    };
    assert_eq!(read(&mut rig, 512, 0).0, Status::COMMAND_SEQUENCE.dnr());
    assert_eq!(read(&mut rig, 512, begin).0, Status::SUCCESS);
    assert_eq!(read(&mut rig, 512, begin).0, Status::COMMAND_SEQUENCE.dnr());
    assert_eq!(read(&mut rig, 512, end).0, Status::SUCCESS);
    let (mut rig, mut admin, _host) = drive();
    let time = 1_700_000_000_000_u64;
    assert_eq!(
        set(&mut rig, &mut admin, Feature::Timestamp, 0, &time.to_le_bytes()),
        Status::SUCCESS
    );
    format(&mut rig, &mut admin, 0, 1);
    let (_, page) = log_with(&mut rig, &mut admin, LogPage::PersistentEvents, 8192, begin);
    let head = PersistentHeader::read_from_prefix(&page).expect("a header").0;
    assert_eq!((head.page, head.revision, head.header_bytes.get()), (0x0d, 3, 492));
    let mut kinds = Vec::new();
    let mut at = 512;
    for _ in 0..head.events.get() {
        assert_eq!(page[at + 2], 21);
        kinds.push(page[at]);
        at += 24 + usize::from(u16::from_le_bytes([page[at + 22], page[at + 23]]));
    }
    assert_eq!(at as u64, head.bytes.get());
    assert_eq!(kinds, [0x01, 0x08, 0x07, 0x0b, 0x03, 0x04], "newest first");
    // A snapshot of health equals the health log.
    assert_eq!(page[512 + 24 + 1..512 + 24 + 3], 298_u16.to_le_bytes());
    for kind in kinds {
        assert!(head.supported[usize::from(kind / 8)] >> (kind % 8) & 1 == 1);
    }
}

#[test]
fn sanitize_takes_its_time_in_the_log_and_nothing_else_is_done_meanwhile() {
    let (mut rig, mut admin, mut host) = drive();
    let sanitize = |rig: &mut Rig, admin: &mut Host, cdw10: u32| {
        let sqe = Sqe { opcode: SANITIZE, cdw10: cdw10.into(), ..Sqe::default() };
        rig.admin(admin, sqe, 0, &[]).0
    };
    for action in [2, 4] {
        write(&mut rig, &mut host, 0, 7, 8);
        assert_eq!(sanitize(&mut rig, &mut admin, action), Status::SUCCESS);
        assert_eq!(read(&mut rig, &mut host, 0, 8), (Status::SUCCESS, vec![0; 8 * BLOCK]));
        let (_, page) = log_with(&mut rig, &mut admin, LogPage::Sanitize, 512, 0);
        assert_eq!((&page[..4], page[4]), (&[0xff, 0xff, 1, 0][..], action as u8));
    }
    assert_eq!(sanitize(&mut rig, &mut admin, 1), Status::SUCCESS, "exit failure mode");
    // Overwriting, and keeping the blocks allocated, are not offered.
    for wrong in [0, 3, 5, 2 | 1 << 9] {
        assert_eq!(sanitize(&mut rig, &mut admin, wrong), Status::INVALID_FIELD.dnr());
    }
}

#[test]
fn a_drive_that_overwrites_says_so_and_leaves_the_pattern_where_blocks_stay_allocated() {
    let (mut rig, mut admin, _) = drive();
    let sanicap = |rig: &mut Rig, admin: &mut Host| {
        let page = rig.identify(admin, Cns::Controller);
        IdentifyController::read_from_bytes(&page).expect("a page").sanicap.get()
    };
    assert_eq!(sanicap(&mut rig, &mut admin), 1 | 1 << 1 | 1 << 29 | 1 << 30);
    let mut rig = Rig::overwriting();
    let mut admin = rig.connect(0, Digests::default());
    let mut host = rig.connect(1, Digests::default());
    assert_eq!(sanicap(&mut rig, &mut admin), 1 | 1 << 1 | 1 << 2 | 1 << 30);
    let [overwrite, passes, inverted, kept] = [3, 1 << 4, 1 << 8, 1 << 9];
    // Returns the duration in seconds of the drive, and the log.
    let mut sanitize = |rig: &mut Rig, cdw10: u32| -> (f64, SanitizeStatus) {
        let began = rig.engine.now();
        let cdw11 = 0x0403_0201.into();
        let sqe = Sqe { opcode: SANITIZE, cdw10: cdw10.into(), cdw11, ..Sqe::default() };
        assert_eq!(rig.admin(&mut admin, sqe, 0, &[]).0, Status::SUCCESS);
        (rig.engine.now().since(began).as_secs_f64(), log(rig, &mut admin, LogPage::Sanitize))
    };
    write(&mut rig, &mut host, 0, 7, 8);
    let programmed = rig.engine.counters().placed_pages;
    let (once, found) = sanitize(&mut rig, overwrite | passes | inverted | kept);
    assert_eq!((found.progress.get(), found.status.get()), (0xffff, 1 | 1 << 3));
    assert_eq!(found.cdw10.get(), overwrite | passes | inverted | kept);
    assert_eq!(found.estimated_seconds, found.estimated_seconds_kept);
    let pattern = [1, 2, 3, 4].repeat(8 * BLOCK / 4);
    assert_eq!(read(&mut rig, &mut host, 0, 8), (Status::SUCCESS, pattern.clone()));
    assert_eq!(read(&mut rig, &mut host, 8, 8), (Status::SUCCESS, vec![0; 8 * BLOCK]));
    let programmed = rig.engine.counters().placed_pages - programmed;
    assert!(programmed * 8 > rig.blocks(), "{programmed} pages, all that there are");
    // The last of an even number of passes does not invert the pattern either.
    let (twice, found) = sanitize(&mut rig, overwrite | (2 << 4) | inverted | kept);
    assert_eq!(found.status.get(), 1 | 2 << 3);
    assert!((twice / once - 2.0).abs() < 0.1, "{once} s, {twice} s");
    assert_eq!(read(&mut rig, &mut host, 0, 8).1, pattern);
    // 0 passes means sixteen. Deallocated, it reads as zeros.
    let (most, found) = sanitize(&mut rig, overwrite);
    assert_eq!(found.status.get(), 1 | 16 << 3);
    assert!((most / twice - 8.0).abs() < 0.1, "{twice} s, {most} s");
    // The estimate is based on the slowest die of one superblock.
    let estimated = f64::from(found.estimated_seconds[0].get());
    assert!((most..1.1 * most).contains(&estimated), "{estimated} s, {most} s");
    assert_eq!(read(&mut rig, &mut host, 0, 8).1, vec![0; 8 * BLOCK]);
    assert_eq!(rig.engine.used_sectors(), 0);
    // After an erase, blocks can also stay allocated.
    for erase in [2, 4] {
        write(&mut rig, &mut host, 0, 7, 8);
        assert_eq!(sanitize(&mut rig, erase | kept).1.status.get(), 1);
        assert_eq!(read(&mut rig, &mut host, 0, 8).1, vec![0; 8 * BLOCK]);
        assert_eq!(rig.engine.used_sectors(), 8);
    }
}

#[test]
fn features_of_data_are_kept_and_checked() {
    let (mut rig, mut admin, _host) = drive();
    let wrong = Status::INVALID_FIELD.dnr();
    // After 100 ms without work to PS3, which does no I/O; PS1 does.
    let mut table = vec![0; 256];
    table[..4].copy_from_slice(&(3_u32 << 3 | 100 << 8).to_le_bytes());
    let apst = Feature::AutonomousTransitions;
    assert_eq!(set(&mut rig, &mut admin, apst, 1, &table), Status::SUCCESS);
    assert_eq!(get(&mut rig, &mut admin, apst, 256), (1, table.clone()));
    table[..4].copy_from_slice(&(1_u32 << 3 | 100 << 8).to_le_bytes());
    assert_eq!(set(&mut rig, &mut admin, apst, 1, &table), wrong);
    let mut behavior = vec![0; 512];
    behavior[0] = 1;
    assert_eq!(set(&mut rig, &mut admin, Feature::HostBehavior, 0, &behavior), Status::SUCCESS);
    assert_eq!(get(&mut rig, &mut admin, Feature::HostBehavior, 512).1, behavior);
    behavior[0] = 2;
    assert_eq!(set(&mut rig, &mut admin, Feature::HostBehavior, 0, &behavior), wrong);
    assert_eq!(set(&mut rig, &mut admin, Feature::CommandSetProfile, 1, &[]), wrong);
    // Interrupt features, which tools also ask for over TCP.
    assert_eq!(get(&mut rig, &mut admin, Feature::InterruptCoalescing, 0).0, 0);
    let time = 1_700_000_000_000_u64.to_le_bytes();
    assert_eq!(get(&mut rig, &mut admin, Feature::Timestamp, 8).1[6..], [0, 0]);
    assert_eq!(set(&mut rig, &mut admin, Feature::Timestamp, 0, &time), Status::SUCCESS);
    rig.pass(5);
    let (_, now) = get(&mut rig, &mut admin, Feature::Timestamp, 8);
    assert_eq!(now[6], 2, "a host has set it");
    let ms = u64::from_le_bytes(now.try_into().expect("8 bytes")) & ((1 << 48) - 1);
    assert!((1_700_000_005_000..1_700_000_006_000).contains(&ms), "{ms}");
}

#[test]
fn firmware_is_downloaded_committed_and_activated() {
    let (mut rig, mut admin, _host) = drive();
    let download = |rig: &mut Rig, admin: &mut Host, offset: u32, data: &[u8]| {
        let dwords = (data.len() / 4 - 1) as u32;
        let sqe = Sqe {
            opcode: 0x11,
            cdw10: dwords.into(),
            cdw11: (offset / 4).into(),
            ..Sqe::default()
        };
        rig.admin(admin, sqe, data.len() as u32, data).0
    };
    let commit = |rig: &mut Rig, admin: &mut Host, slot: u32, action: u32| {
        let sqe = Sqe { opcode: 0x10, cdw10: (slot | action << 3).into(), ..Sqe::default() };
        rig.admin(admin, sqe, 0, &[]).0
    };
    let revision = |rig: &mut Rig, admin: &mut Host| {
        let page = rig.identify(admin, Cns::Controller);
        IdentifyController::read_from_bytes(&page).expect("a page").fr
    };
    let mut image = vec![0; 4096];
    image[..8].copy_from_slice(b"NEWFW002");
    assert_eq!(commit(&mut rig, &mut admin, 2, 0), Status::INVALID_FIRMWARE_IMAGE.dnr());
    assert_eq!(commit(&mut rig, &mut admin, 2, 2), Status::INVALID_FIRMWARE_SLOT.dnr());
    assert_eq!(download(&mut rig, &mut admin, 4096, &image), Status::OVERLAPPING_RANGE.dnr());
    assert_eq!(download(&mut rig, &mut admin, 0, &image), Status::SUCCESS);
    assert_eq!(download(&mut rig, &mut admin, 4096, &image), Status::SUCCESS);
    assert_eq!(commit(&mut rig, &mut admin, 1, 1), Status::INVALID_FIRMWARE_SLOT.dnr());
    assert_eq!(commit(&mut rig, &mut admin, 5, 1), Status::INVALID_FIRMWARE_SLOT.dnr());
    assert_eq!(commit(&mut rig, &mut admin, 2, 1), Status::FIRMWARE_NEEDS_RESET);
    assert_eq!(revision(&mut rig, &mut admin), *b"BXW74H0Q");
    let (_, slots) = log_with(&mut rig, &mut admin, LogPage::FirmwareSlots, 512, 0);
    assert_eq!((slots[0], &slots[8..24]), (1 | 2 << 4, &b"BXW74H0QNEWFW002"[..]));
    rig.configure(&mut admin, 0x46_0000);
    rig.configure(&mut admin, 0x46_0001);
    assert_eq!(revision(&mut rig, &mut admin), *b"NEWFW002");
    assert_eq!(commit(&mut rig, &mut admin, 1, 3), Status::SUCCESS, "without a reset");
    assert_eq!(revision(&mut rig, &mut admin), *b"BXW74H0Q");
}

#[test]
fn only_drives_that_follow_ocp_have_its_pages_and_features() {
    let (mut rig, mut admin, _) = drive();
    let (_, supported) = log_with(&mut rig, &mut admin, LogPage::Supported, 1024, 0);
    for page in LogPage::ALL.iter().copied().filter(|&page| ocp_trailer(page).is_some()) {
        let (status, _) = log_with(&mut rig, &mut admin, page, 512, 0);
        assert_eq!((status, supported[4 * page as usize]), (Status::INVALID_LOG_PAGE.dnr(), 0));
    }
    let refused = Status::INVALID_FIELD.dnr();
    for one in [Feature::OcpErrorInjection, Feature::OcpFailureMode, Feature::OcpLatencyMonitor] {
        assert_eq!(rig.admin(&mut admin, feature(0x0a, one, 0), 4096, &[]).0, refused);
    }
    let uuids = Sqe { opcode: 0x06, cdw10: (Cns::Uuids as u32).into(), ..Sqe::default() };
    assert_eq!(rig.admin(&mut admin, uuids, 4096, &[]).0, refused);
    let id = rig.identify(&mut admin, Cns::Controller);
    assert_eq!(id[96 + 1] & 2, 0, "no list of UUIDs");
    let (mut rig, mut admin, _) = ocp_drive();
    assert_eq!(rig.admin(&mut admin, uuids, 4096, &[]).0, Status::SUCCESS);
    let id = rig.identify(&mut admin, Cns::Controller);
    assert_eq!(id[96 + 1] & 2, 2);
}

#[test]
fn the_failure_mode_decides_what_an_injected_end_of_life_does() {
    let (mut rig, mut admin, mut host) = ocp_drive();
    let (read_only, write_through, normal) = (1, 2, 3);
    assert_eq!(get(&mut rig, &mut admin, Feature::OcpFailureMode, 0).0, u64::from(read_only));
    let mut no_spare = vec![0; 32];
    (no_spare[0], no_spare[2]) = (1, 10);
    assert_eq!(
        set(&mut rig, &mut admin, Feature::OcpErrorInjection, 1, &no_spare),
        Status::SUCCESS
    );
    for (mode, shown, is_refused) in [
        (normal, normal, false),
        (write_through, write_through, false),
        (read_only, read_only, true),
        (normal, normal, false),
        (0, read_only, true),
    ] {
        assert_eq!(
            set(&mut rig, &mut admin, Feature::OcpFailureMode, mode << 30, &[]),
            Status::SUCCESS
        );
        assert_eq!(get(&mut rig, &mut admin, Feature::OcpFailureMode, 0).0, u64::from(shown));
        let status = write(&mut rig, &mut host, 0, 1, 8);
        assert_eq!(status != Status::SUCCESS, is_refused, "mode {mode}");
        let smart: SmartLog = log(&mut rig, &mut admin, LogPage::Smart);
        assert_eq!(smart.critical_warning & 8 != 0, is_refused, "mode {mode}");
        let shown = rig.engine.report().health["critical_warning"].as_u64();
        assert_eq!(shown, Some(if is_refused { 8 } else { 0 }));
    }
}

#[test]
fn a_host_that_switches_the_write_cache_is_notified_of_changed_namespaces() {
    let (mut rig, mut admin, _) = drive();
    let namespaces = 1 << 8;
    assert_eq!(set(&mut rig, &mut admin, Feature::AsyncEvents, namespaces, &[]), Status::SUCCESS);
    for (cache, no_cache) in [(0, 1 << 5), (1, 0)] {
        let event = Sqe { opcode: 0x0c, ..Sqe::default() };
        let cid = rig.post(&mut admin, event, 0, &[]);
        let cache_is = |rig: &mut Rig, admin: &mut Host| {
            set(rig, admin, Feature::VolatileWriteCache, cache, &[])
        };
        assert_eq!(cache_is(&mut rig, &mut admin), Status::SUCCESS);
        rig.tick(&mut admin);
        assert_eq!(rig.reply(&mut admin, cid), Some((Status::SUCCESS, 2 | 0x04 << 16)));
        let (_, changed) = log_with(&mut rig, &mut admin, LogPage::ChangedNamespaces, 4096, 0);
        assert_eq!(changed[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
        let cdw10 = (Cns::IndependentNamespace as u32).into();
        let ask = Sqe { opcode: 0x06, nsid: 1.into(), cdw10, ..Sqe::default() };
        let (_, _, independent) = rig.admin(&mut admin, ask, 4096, &[]);
        assert_eq!(independent[0], no_cache);
        assert_eq!(cache_is(&mut rig, &mut admin), Status::SUCCESS);
        let (_, changed) = log_with(&mut rig, &mut admin, LogPage::ChangedNamespaces, 4096, 0);
        assert_eq!(changed[0], 0, "nothing has changed");
    }
}

#[test]
fn ocps_pages_bear_its_guids_and_the_models_figures() {
    let (mut rig, mut admin, mut host) = ocp_drive();
    for lba in 0..64 {
        write(&mut rig, &mut host, 8 * lba, 1, 8);
    }
    rig.io(&mut host, nvme_host::io(0x00, 0, 1), 0, &[]);
    for (page, bytes) in [
        (LogPage::OcpSmart, 512),
        (LogPage::OcpErrorRecovery, 512),
        (LogPage::OcpLatency, 512),
        (LogPage::OcpCapabilities, 4096),
        (LogPage::OcpUnsupported, 4096),
    ] {
        let (status, found) = log_with(&mut rig, &mut admin, page, bytes, 0);
        let (version, guid) = ocp_trailer(page).expect("one of OCP's");
        let end = found.len();
        assert_eq!((status, &found[end - 16..]), (Status::SUCCESS, &guid[..]));
        assert_eq!(found[end - 18..end - 16], version.to_le_bytes());
    }
    let smart: OcpSmart = log(&mut rig, &mut admin, LogPage::OcpSmart);
    let counters = drivebay_serve::Io::counters(&mut rig.engine);
    assert_eq!(smart.physical_bytes_written.get(), u128::from(counters.placed_pages) * 4096);
    assert!(counters.placed_pages >= 64);
    // Version 3, of the specification 2.0, reserves bytes 208 to 493; nvme-cli reads dies, highest
    // temperature and average erases there from version 5 on.
    assert_eq!((smart.log_version.get(), smart.version), (3, [0, 0, 0, 0, 0, 2]));
    assert_eq!(smart.as_bytes()[208..494], [0; 286]);
    // With the index of OCP's UUID, and with an index that is not listed.
    for (index, expected) in [(1, Status::SUCCESS), (2, Status::INVALID_FIELD.dnr())] {
        let sqe = Sqe {
            opcode: 0x02,
            cdw10: (0xc0 | 127 << 16).into(),
            cdw14: index.into(),
            ..Sqe::default()
        };
        assert_eq!(rig.admin(&mut admin, sqe, 512, &[]).0, expected);
    }
}

#[test]
fn the_latency_monitor_counts_as_the_model_does_and_errors_can_be_injected() {
    let (mut rig, mut admin, mut host) = ocp_drive();
    let monitor = |thresholds: [u8; 4], on: u8| {
        let mut data = vec![0; 4096];
        data[2..6].copy_from_slice(&thresholds);
        data[12] = on;
        data
    };
    let feature = Feature::OcpLatencyMonitor;
    let unordered = monitor([3, 2, 1, 0], 1);
    assert_eq!(set(&mut rig, &mut admin, feature, 0, &unordered), Status::INVALID_FIELD.dnr());
    let wanted = monitor([0, 1, 99, 100], 1);
    assert_eq!(set(&mut rig, &mut admin, feature, 0, &wanted), Status::SUCCESS);
    assert_eq!(read(&mut rig, &mut host, 0, 8).0, Status::SUCCESS);
    let quick: OcpLatency = log(&mut rig, &mut admin, LogPage::OcpLatency);
    assert_eq!(quick.active_counters, [[0_u32; 4]; 4], "below 5 ms");
    // A spike of 500 ms on every command.
    let mut spike = vec![0; 32];
    (spike[0], spike[2]) = (1, 14);
    assert_eq!(set(&mut rig, &mut admin, Feature::OcpErrorInjection, 1, &spike), Status::SUCCESS);
    for _ in 0..3 {
        assert_eq!(read(&mut rig, &mut host, 0, 8).0, Status::SUCCESS);
    }
    assert_eq!(write(&mut rig, &mut host, 0, 1, 8), Status::SUCCESS);
    let slow: OcpLatency = log(&mut rig, &mut admin, LogPage::OcpLatency);
    // Reserved, deallocations, writes, reads: from 500 ms on, below 505.
    assert_eq!(slow.active_counters[2], [0_u32, 0, 1, 3]);
    assert_eq!(slow.active_latencies[3 - 2][2].get(), 500);
    spike[0] = 0;
    assert_eq!(set(&mut rig, &mut admin, Feature::OcpErrorInjection, 1, &spike), Status::SUCCESS);
    assert_eq!(read(&mut rig, &mut host, 0, 8).0, Status::SUCCESS);
    let after: OcpLatency = log(&mut rig, &mut admin, LogPage::OcpLatency);
    assert_eq!(after.active_counters, slow.active_counters);
    (spike[0], spike[2]) = (1, 22);
    let unknown = set(&mut rig, &mut admin, Feature::OcpErrorInjection, 1, &spike);
    assert_eq!(unknown, Status::INVALID_FIELD.dnr());
}
