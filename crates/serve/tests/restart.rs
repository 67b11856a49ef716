//! Logs of a drive after its server has ended and another one has loaded its state.

use std::fs;
use std::path::Path;

use drivebay_drive::Spec;
use drivebay_drive::samples::SM951_NVME_256;
use drivebay_run::Control;
use drivebay_serve::{DriveOptions, Options, Pace, Server};
use drivebay_wire::nvme::{
    AdminOpcode, ErrorEntry, Feature, LogPage, PersistentHeader, PlacementEventKind, SmartLog, Sqe,
    Status, TelemetryHeader,
};
use zerocopy::FromBytes;

use crate::several::{self, Nvme, Served};
use crate::support::changed_spec;

/// Get Features of an unknown feature.
const WRONG: Sqe = Sqe { opcode: AdminOpcode::GetFeatures as u8, ..ZERO };
const ZERO: Sqe = zerocopy::transmute!([0_u8; 64]);

fn with_state(folder: &Path) -> DriveOptions {
    DriveOptions { state: Some(folder.join("state")), ..several::drive("one") }
}

/// A drive with identify data that follows OCP's specification.
fn following_ocp(folder: &Path) -> Vec<(Spec, DriveOptions)> {
    let spec = changed_spec(several::SECTORS as i64, false, |raw| {
        let identify = SM951_NVME_256.parse::<toml::Table>().expect("TOML")["identify"].clone();
        let ocp = toml::toml! { ocp = { value = true, source = "test" } };
        let profile = raw.as_table_mut().expect("a profile");
        profile.insert("identify".into(), identify);
        profile["identify"].as_table_mut().expect("a section").extend(ocp);
    });
    vec![(spec, with_state(folder))]
}

fn admin(served: &Served) -> Nvme {
    let mut admin = served.nvme();
    admin.connect(&several::nqn("one"), 0, 0xffff).expect("a controller");
    admin.enable();
    admin
}

fn log<const N: usize>(admin: &mut Nvme, page: LogPage, specific: u32) -> [u8; N] {
    let cdw10 = page as u32 | specific << 8 | (N as u32 / 4 - 1) << 16;
    let sqe = Sqe {
        opcode: AdminOpcode::GetLogPage as u8,
        nsid: u32::MAX.into(),
        cdw10: cdw10.into(),
        ..ZERO
    };
    let (status, _, data) = admin.ask(sqe, N as u32, &[]);
    assert_eq!(status, Status::SUCCESS, "{page:?}");
    data.try_into().expect("as much as was asked for")
}

fn set(admin: &mut Nvme, opcode: AdminOpcode, cdw10: u32, data: &[u8]) -> Status {
    let sqe = Sqe { opcode: opcode as u8, nsid: 1.into(), cdw10: cdw10.into(), ..ZERO };
    admin.ask(sqe, data.len() as u32, data).0
}

/// Number of the newest error, errors over the lifetime, and power cycles.
fn counts(admin: &mut Nvme) -> (u64, u128, u128) {
    let newest = ErrorEntry::read_from_bytes(&log::<64>(admin, LogPage::Errors, 0)).expect("64");
    let smart = SmartLog::read_from_bytes(&log::<512>(admin, LogPage::Smart, 0)).expect("512");
    (newest.count.get(), smart.error_entries.get(), smart.power_cycles.get())
}

fn failure_mode(opcode: AdminOpcode) -> Sqe {
    Sqe { opcode: opcode as u8, cdw10: (Feature::OcpFailureMode as u32).into(), ..ZERO }
}

fn events(admin: &mut Nvme) -> u32 {
    let (begin, end) = (1, 2);
    let page = log::<512>(admin, LogPage::PersistentEvents, begin);
    let cdw10 = LogPage::PersistentEvents as u32 | end << 8 | 127 << 16;
    let sqe = Sqe { opcode: AdminOpcode::GetLogPage as u8, cdw10: cdw10.into(), ..ZERO };
    assert_eq!(admin.ask(sqe, 512, &[]).0, Status::SUCCESS);
    PersistentHeader::read_from_bytes(&page).expect("512").events.get()
}

#[test]
fn logs_outlast_the_server_and_their_counters_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let served = Served::of(following_ocp(folder.path()));
    let mut host = admin(&served);
    for _ in 0..2 {
        assert_ne!(host.ask(WRONG, 0, &[]).0, Status::SUCCESS);
    }
    assert_eq!(counts(&mut host), (2, 2, 1));
    let create = 1;
    log::<512>(&mut host, LogPage::TelemetryHost, create);
    // Thresholds of 5 ms each, enabled, and a pending image.
    let mut monitor = [0; 4096];
    (monitor[0], monitor[12]) = (9, 1);
    let feature = Feature::OcpLatencyMonitor as u32;
    assert_eq!(set(&mut host, AdminOpcode::SetFeatures, feature, &monitor), Status::SUCCESS);
    let normal = Sqe { cdw11: (3 << 30).into(), ..failure_mode(AdminOpcode::SetFeatures) };
    assert_eq!(host.ask(normal, 0, &[]).0, Status::SUCCESS);
    let mut image = [0; 64];
    image[..8].copy_from_slice(b"NEWFW002");
    assert_eq!(set(&mut host, AdminOpcode::FirmwareDownload, 15, &image), Status::SUCCESS);
    let commit = 2 | 1 << 3;
    let needs_reset = Status::FIRMWARE_NEEDS_RESET;
    assert_eq!(set(&mut host, AdminOpcode::FirmwareCommit, commit, &[]), needs_reset);
    let (short, extended) = (1, 2);
    assert_eq!(set(&mut host, AdminOpcode::DeviceSelfTest, short, &[]), Status::SUCCESS);
    let kept = events(&mut host);
    served.end();

    let served = Served::of(following_ocp(folder.path()));
    let mut host = admin(&served);
    let (newest, errors, cycles) = counts(&mut host);
    assert_eq!((newest, errors, cycles), (3, 3, 2), "the commit that needed a reset is one, too");
    host.ask(WRONG, 0, &[]);
    assert_eq!(counts(&mut host).0, 4);
    let telemetry = log::<512>(&mut host, LogPage::TelemetryHost, 0);
    let telemetry = TelemetryHeader::read_from_bytes(&telemetry).expect("512");
    assert!(telemetry.host[1] == 1 && telemetry.reason.starts_with(b"A host asked"));
    assert_eq!(log::<512>(&mut host, LogPage::OcpLatency, 0)[4], 9, "the bucket timer's threshold");
    assert_eq!(host.ask(failure_mode(AdminOpcode::GetFeatures), 0, &[]).1, 3);
    assert_eq!(served.ask("status")["health"]["num_err_log_entries"], 4);
    let slots = log::<512>(&mut host, LogPage::FirmwareSlots, 0);
    assert_eq!((slots[0], &slots[16..24]), (2, &b"NEWFW002"[..]));
    let tests = log::<564>(&mut host, LogPage::SelfTest, 0);
    assert_eq!((tests[0], tests[4]), (0, 0x12), "a reset has aborted the short one");
    assert!(events(&mut host) > kept);
    assert_eq!(set(&mut host, AdminOpcode::DeviceSelfTest, extended, &[]), Status::SUCCESS);
    served.end();

    let served = Served::of(following_ocp(folder.path()));
    let mut host = admin(&served);
    assert_eq!(log::<564>(&mut host, LogPage::SelfTest, 0)[0], 2, "the extended one goes on");
    assert_eq!(counts(&mut host), (4, 4, 3));
    served.end();
}

/// On a clock a thousand times slower than the host's, so that it does not end during the test.
#[test]
fn a_sanitize_goes_on_after_a_power_cut_and_after_the_end_of_its_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let serve = || {
        let leaf = "leaf = { value = true, source = \"test\" }";
        let leaf: toml::Table = leaf.parse().expect("TOML");
        let spec = changed_spec(several::SECTORS as i64, false, |raw| {
            let controller = raw["controller"].as_table_mut().expect("a section");
            controller.insert("sanitize_overwrite".into(), leaf["leaf"].clone());
        });
        let time_scale = "1/1000".parse().expect("a scale");
        let options = DriveOptions { pace: Pace::Sleep, time_scale, ..with_state(folder.path()) };
        Served::of(vec![(spec, options)])
    };
    let progress = |host: &mut Nvme| {
        let page = log::<512>(host, LogPage::Sanitize, 0);
        assert_eq!(page[2] & 7, 2, "it goes on");
        u16::from_le_bytes([page[0], page[1]])
    };
    let served = serve();
    let mut host = admin(&served);
    let sixteen_passes = 3;
    assert_eq!(set(&mut host, AdminOpcode::Sanitize, sixteen_passes, &[]), Status::SUCCESS);
    let first = progress(&mut host);
    served.ask("power-cut");
    let mut host = admin(&served);
    let second = progress(&mut host);
    assert_eq!(
        set(&mut host, AdminOpcode::Sanitize, sixteen_passes, &[]),
        Status::SANITIZE_IN_PROGRESS
    );
    served.end();

    let served = serve();
    let mut host = admin(&served);
    let third = progress(&mut host);
    assert!(first <= second && second <= third && third < 0x8000, "{first} {second} {third}");
    assert_eq!(
        set(&mut host, AdminOpcode::Sanitize, sixteen_passes, &[]),
        Status::SANITIZE_IN_PROGRESS
    );
    served.end();
}

#[test]
fn events_of_placement_and_the_time_of_day_outlast_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let serve = || {
        let leaf = "handles = { value = 2, source = \"test\" }\nisolation = { value = \"initial\", source = \"test\" }";
        let fdp: toml::Table = leaf.parse().expect("TOML");
        let spec = changed_spec(several::SECTORS as i64, false, |raw| {
            raw.as_table_mut().expect("sections").insert("fdp".into(), fdp.into());
        });
        Served::of(vec![(spec, with_state(folder.path()))])
    };
    let page = |host: &mut Nvme| {
        let of_hosts = 1;
        let cdw10 = LogPage::PlacementEvents as u32 | of_hosts << 8 | 31 << 16;
        let sqe = Sqe {
            opcode: AdminOpcode::GetLogPage as u8,
            cdw10: cdw10.into(),
            cdw11: (1 << 16).into(),
            ..ZERO
        };
        host.ask(sqe, 128, &[])
    };
    let feature = |host: &mut Nvme, opcode, feature: Feature, cdw11: u32, data: &[u8], bytes| {
        let sqe = Sqe {
            opcode: opcode as u8,
            nsid: 1.into(),
            cdw10: (feature as u32).into(),
            cdw11: cdw11.into(),
            cdw12: 1.into(),
            ..ZERO
        };
        let (status, _, found) = host.ask(sqe, bytes, data);
        assert_eq!(status, Status::SUCCESS, "{feature:?}");
        found
    };
    let served = serve();
    let mut host = served.nvme();
    let id = host.connect(&several::nqn("one"), 0, 0xffff).expect("a controller");
    host.enable();
    // An unknown identifier is an event of the first handle.
    let invalid = [PlacementEventKind::InvalidIdentifier as u8];
    let (set, get) = (AdminOpcode::SetFeatures, AdminOpcode::GetFeatures);
    feature(&mut host, set, Feature::PlacementEvents, 1 << 16, &invalid, 1);
    let time = 1_700_000_000_000_u64;
    feature(&mut host, set, Feature::Timestamp, 0, &time.to_le_bytes(), 8);
    let mut io = served.nvme();
    io.connect(&several::nqn("one"), 1, id).expect("a queue");
    let write = Sqe {
        opcode: 1,
        nsid: 1.into(),
        cdw12: (7 | 2 << 20).into(),
        cdw13: (9 << 16).into(),
        ..ZERO
    };
    assert_eq!(io.ask(write, 4096, &[5; 4096]).0, Status::SUCCESS);
    let (status, _, events) = page(&mut host);
    assert_eq!((status, events[0], events[64]), (Status::SUCCESS, 1, invalid[0]));
    served.end();

    let served = serve();
    let mut host = admin(&served);
    assert_eq!(page(&mut host).2, events);
    let kinds = feature(&mut host, get, Feature::PlacementEvents, 255 << 16, &[], 510);
    let wanted = kinds.chunks_exact(2).find(|one| one[0] == invalid[0]).expect("each kind");
    assert_eq!(wanted[1], 1);
    let found = feature(&mut host, get, Feature::Timestamp, 0, &[], 8);
    let found = u64::from_le_bytes(found.try_into().expect("8 bytes"));
    // It stood still, and was set by a host.
    assert_eq!(found >> 48, 1 | 1 << 1);
    assert!((time..time + 3_600_000).contains(&(found & ((1 << 48) - 1))), "{found}");
    served.end();
}

#[test]
fn reservations_that_a_host_wants_to_keep_outlast_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let queues = |served: &Served| {
        let mut host = served.nvme();
        let id = host.connect(&several::nqn("one"), 0, 0xffff).expect("a controller");
        host.enable();
        let mut io = served.nvme();
        io.connect(&several::nqn("one"), 1, id).expect("a queue");
        (host, io)
    };
    let (register, report, acquire) = (0x0d, 0x0e, 0x11);
    let about = |io: &mut Nvme, opcode: u8, cdw10: u32, keys: [u64; 2]| {
        let data = if opcode == report { Vec::new() } else { keys.map(u64::to_le_bytes).concat() };
        let (cdw11, bytes) = if opcode == report { (1, 128) } else { (0, data.len() as u32) };
        let sqe =
            Sqe { opcode, nsid: 1.into(), cdw10: cdw10.into(), cdw11: u32::into(cdw11), ..ZERO };
        let (status, _, page) = io.ask(sqe, bytes, &data);
        assert_eq!(status, Status::SUCCESS, "{opcode:#x}");
        page
    };
    for (persistence, kept) in [(2, 0), (3, 1)] {
        let served = Served::new(vec![with_state(folder.path())]);
        let (_host, mut io) = queues(&served);
        about(&mut io, register, persistence << 30, [0, 7]);
        about(&mut io, acquire, 1 << 8, [7, 0]);
        served.end();

        let served = Served::new(vec![with_state(folder.path())]);
        let (_host, mut io) = queues(&served);
        let page = about(&mut io, report, 31, [0; 2]);
        // Type, number of registrants, and persistence.
        assert_eq!((page[4], page[5], page[9]), (kept, kept, kept));
        served.end();
    }
}

#[test]
fn logs_begin_anew_with_a_new_drive_and_damaged_ones_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let served = Served::new(vec![with_state(folder.path())]);
    admin(&served).ask(WRONG, 0, &[]);
    served.end();
    let options = Options { memory_max_bytes: 1 << 30, ..Options::default() };
    for text in ["{}", "[", r#"{"records": 3}"#] {
        fs::write(path("state.logs"), text).expect("a folder");
        let drives = several::of_spec(vec![with_state(folder.path())]);
        let why = Server::new(drives, &options, &Control::default());
        let why = why.err().expect("refused").to_string();
        assert!(why.contains("hint: to start with empty logs: rm "), "{why}");
        assert_eq!(why.lines().count(), 2, "{why}");
    }
    fs::remove_file(path("state")).expect("it was saved");
    let served = Served::new(vec![with_state(folder.path())]);
    assert_eq!(counts(&mut admin(&served)), (0, 0, 1));
    served.end();
}
