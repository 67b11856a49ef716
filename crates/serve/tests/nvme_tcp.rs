//! NVMe over TCP, driven by a host of our own, without sockets and without waiting: any order of
//! commands leaves the same data as in a simple model of the drive, and no bytes crash it.

use crate::nvme_host::{self, Host, NQN, Rig};
use drivebay_serve::{Control as _, Fault, Io as _, PowerCutLoss};
use drivebay_wire::nvme::{
    Cns, DISCOVERY_NQN, Digests, DsmRange, ErrorEntry, FabricsType, Feature, IdentifyController,
    InitPdu, PaceLog, Pdu, SmartLog, Sqe, Status, encode,
};
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

const BLOCK: usize = 512;

#[test]
fn a_host_connects_identifies_and_leaves() {
    let mut rig = Rig::new();
    let mut admin = rig.connect(0, Digests::from_bits(3));
    let page = rig.identify(&mut admin, Cns::Controller);
    let id = IdentifyController::read_from_bytes(&page).unwrap();
    assert_eq!(&id.fr, b"BXW74H0Q");
    assert_eq!((id.mdts, id.ieee, id.npss, id.awun.get()), (5, [0x38, 0x25, 0x00], 4, 255));
    assert_eq!(id.psd[3].exit_us.get(), 5000);
    let io = rig.connect(1, Digests::default());
    assert_eq!(rig.subsystem.lock().controllers(), 1);
    drop(io);
    drop(admin);
    assert_eq!(rig.subsystem.lock().controllers(), 0, "nothing stays behind");
}

#[test]
fn the_discovery_controller_names_the_subsystem_and_knows_no_drive() {
    let mut rig = Rig::new();
    let mut host = rig.open(Digests::default());
    rig.connect_to(&mut host, DISCOVERY_NQN, 0, 0xffff).expect("a discovery controller");
    rig.enable(&mut host);
    let mut sqe = Sqe { opcode: 0x02, ..Sqe::default() };
    sqe.cdw10 = (0x70 | 511 << 16).into();
    let (status, _, log) = rig.admin(&mut host, sqe, 2048, &[]);
    assert_eq!((status, log[8]), (Status::SUCCESS, 1));
    let name = log[1024 + 256..].split(|&byte| byte == 0).next().unwrap();
    assert_eq!(name, NQN.as_bytes());
    assert_eq!(&log[1024 + 512..1024 + 521], b"127.0.0.1");
    for (page, status) in [
        (0x00, Status::SUCCESS),
        (0x02, Status::INVALID_LOG_PAGE.dnr()),
        (0x05, Status::SUCCESS),
        (0x12, Status::SUCCESS),
    ] {
        sqe.cdw10 = (page | 127 << 16).into();
        assert_eq!(rig.admin(&mut host, sqe, 512, &[]).0, status, "{page:#x}");
    }
    let id = rig.identify(&mut host, Cns::Controller);
    let id = IdentifyController::read_from_bytes(&id).unwrap();
    assert_eq!(id.oaes.get(), 1 << 31, "changes of the log would be told");
    assert_eq!(id.ctratt.get(), 1 | 1 << 6, "no UUIDs");
}

#[test]
fn after_a_power_cut_what_was_flushed_is_there_and_what_was_asked_is_not() {
    let mut rig = Rig::new();
    rig.engine.allow_power_cuts(None, PowerCutLoss::All);
    let _admin = rig.connect(0, Digests::default());
    let mut host = rig.connect(1, Digests::default());
    let write = |lba| nvme_host::io(0x01, lba, 8);
    let mut put = |rig: &mut Rig, sqe: Sqe, byte: u8| {
        let bytes = if byte == 0 { Vec::new() } else { vec![byte; 8 * BLOCK] };
        assert_eq!(rig.io(&mut host, sqe, bytes.len() as u32, &bytes).0, Status::SUCCESS);
    };
    put(&mut rig, write(0), 1);
    put(&mut rig, nvme_host::io(0x00, 0, 1), 0);
    let mut forced = write(8);
    forced.cdw12 = (7 | 1 << 30).into();
    put(&mut rig, forced, 2);
    put(&mut rig, write(0), 3);
    put(&mut rig, write(16), 4);
    // Posted, not answered; the second is larger than a capsule, so its data was asked for.
    rig.post_loose(&mut host, write(24), 8 * BLOCK as u32, &[5; 8 * BLOCK]);
    rig.post_loose(&mut host, nvme_host::io(0x01, 32, 64), 64 * BLOCK as u32, &[6; 64 * BLOCK]);
    let cut = rig.engine.power_cut().expect("memory");
    assert_eq!(cut.lost_bytes, (3 * 8 + 64) * BLOCK as u64);
    rig.settle(&mut [&mut host]);
    assert_eq!(rig.answers(&host), 0, "nothing is answered after the cut");
    drop((host, _admin));
    assert_eq!(rig.subsystem.lock().controllers(), 0);
    let _admin = rig.connect(0, Digests::default());
    let mut again = rig.connect(1, Digests::default());
    let (status, data) = rig.io(&mut again, nvme_host::io(0x02, 0, 96), 96 * BLOCK as u32, &[]);
    assert_eq!(status, Status::SUCCESS);
    let firsts: Vec<u8> = data.chunks(8 * BLOCK).map(|page| page[0]).collect();
    assert_eq!(firsts, [1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn wrong_commands_get_the_status_that_the_specification_names() {
    let mut rig = Rig::new();
    let mut admin = rig.connect(0, Digests::default());
    let mut host = rig.connect(1, Digests::default());
    let last = rig.blocks();
    let mut expect =
        |opcode: u8, lba: u64, blocks: u32, change: fn(&mut Sqe), status: Status, place| {
            let mut sqe = nvme_host::io(opcode, lba, blocks);
            change(&mut sqe);
            let bytes = vec![0; blocks as usize * BLOCK];
            let given = if opcode == 1 { &bytes[..] } else { &[] };
            let (found, _) = rig.io(&mut host, sqe, bytes.len() as u32, given);
            assert_eq!(found, status, "{sqe:?}");
            if found != Status::SUCCESS {
                let errors = Sqe { opcode: 0x02, cdw10: (1 | 15 << 16).into(), ..Sqe::default() };
                let (_, _, page) = rig.admin(&mut admin, errors, 64, &[]);
                let error = ErrorEntry::read_from_bytes(&page).unwrap();
                assert_eq!(error.location.get(), place, "{sqe:?}");
            }
        };
    let keep = |_: &mut Sqe| {};
    let invalid = Status::INVALID_FIELD.dnr();
    expect(0x02, last - 1, 1, keep, Status::SUCCESS, 0);
    expect(0x02, last, 1, keep, Status::LBA_OUT_OF_RANGE.dnr(), 40);
    expect(0x02, u64::MAX, 8, keep, Status::LBA_OUT_OF_RANGE.dnr(), 40);
    expect(0x01, last - 1, 2, keep, Status::LBA_OUT_OF_RANGE.dnr(), 40);
    expect(0x02, 0, 257, keep, invalid, 48);
    expect(0x02, 0, 1, |sqe| sqe.nsid = 129.into(), Status::INVALID_NAMESPACE.dnr(), 4);
    expect(0x02, 0, 1, |sqe| sqe.nsid = 2.into(), invalid, 4);
    expect(0x02, 0, 1, |sqe| sqe.flags |= 1, invalid, 1);
    expect(0x08, 0, 1, |sqe| sqe.cdw12 = (1 << 20).into(), invalid, 50 | 4 << 8);
    expect(0x03, 0, 1, keep, Status::INVALID_OPCODE.dnr(), 0);
    let mut bad = |sqe: Sqe, status: Status| {
        assert_eq!(rig.admin(&mut admin, sqe, 4096, &[]).0, status, "{sqe:?}");
    };
    bad(Sqe { opcode: 0x06, cdw10: 0x42.into(), ..Sqe::default() }, Status::INVALID_FIELD.dnr());
    bad(Sqe { opcode: 0x7d, ..Sqe::default() }, Status::INVALID_OPCODE.dnr());
    bad(Sqe { opcode: 0x05, ..Sqe::default() }, Status::INVALID_OPCODE.dnr());
    let format = Sqe { opcode: 0x80, nsid: 1.into(), cdw10: 3.into(), ..Sqe::default() };
    bad(format, Status::INVALID_FORMAT.dnr());
    let save = Sqe { opcode: 0x09, cdw10: (6 | 1 << 31).into(), ..Sqe::default() };
    bad(save, Status::FEATURE_NOT_SAVEABLE.dnr());
    // Each of them is in the error log.
    let log = Sqe { opcode: 0x02, cdw10: (1 | 1023 << 16).into(), ..Sqe::default() };
    let (_, _, page) = rig.admin(&mut admin, log, 4096, &[]);
    assert_eq!(u64::from_le_bytes(page[..8].try_into().unwrap()), 14);
}

/// Opcodes that the queue's log of commands does not list, with any data pointer, length and flags.
#[test]
fn an_opcode_that_is_not_supported_is_refused_whatever_its_data() {
    let unknown = Status::INVALID_OPCODE.dnr();
    for mut rig in [Rig::new(), Rig::zoned(), Rig::placed(4, "initial")] {
        let mut admin = rig.connect(0, Digests::default());
        let mut io = rig.connect(1, Digests::default());
        let mut discovery = rig.open(Digests::default());
        rig.connect_to(&mut discovery, DISCOVERY_NQN, 0, 0xffff).expect("a discovery controller");
        rig.enable(&mut discovery);
        let command_set = u32::from(!rig.engine.zones().is_empty()) * (2 << 24);
        for (number, host) in [&mut admin, &mut io, &mut discovery].into_iter().enumerate() {
            let log = Sqe {
                opcode: 0x02,
                cdw10: (5 | 1023 << 16).into(),
                cdw14: command_set.into(),
                ..Sqe::default()
            };
            let mut reader = rig.open(Digests::default());
            let name = if number == 2 { DISCOVERY_NQN } else { NQN };
            rig.connect_to(&mut reader, name, 0, 0xffff).expect("a controller");
            rig.enable(&mut reader);
            let (status, _, effects) = rig.admin(&mut reader, log, 4096, &[]);
            assert_eq!(status, Status::SUCCESS);
            let listed = &effects[if number == 1 { 1024 } else { 0 }..];
            let is_unknown = |&opcode: &u8| listed[4 * usize::from(opcode)] & 1 == 0;
            for opcode in (0..=255_u8).filter(is_unknown) {
                // Of the fabrics' opcode: Connect, on a queue that is connected.
                let mut sqe = nvme_host::io(opcode, 0, 1);
                for (bytes, given) in [(0, 0), (u32::MAX, 0), (512, 512), (1024, 0)] {
                    let found = rig.admin(host, sqe, bytes, &vec![0; given]).0;
                    assert_eq!(found, unknown, "{number} {opcode:#x}, {bytes} B, {given} B sent");
                }
                sqe.cdw10 = u32::MAX.into();
                for flags in [0, 1, 0x41, 0x80, 0xc0] {
                    rig.post_flags(host, sqe, 512, flags);
                    let cid = host.cid();
                    let found = rig.reply(host, cid).expect("an answer").0;
                    assert_eq!(found, unknown, "{number} {opcode:#x}, flags {flags:#x}");
                }
            }
        }
        // Without a namespace, only what the drive has anywhere is known.
        let append = Sqe { nsid: 5.into(), ..nvme_host::io(0x7d, 0, 1) };
        let found = rig.io(&mut io, append, 512, &[0; 512]).0;
        assert_eq!(found == unknown, command_set == 0, "{found:?}");
    }
}

#[test]
fn compare_tells_data_apart_and_write_zeroes_and_format_erase() {
    let mut rig = Rig::new();
    let mut admin = rig.connect(0, Digests::default());
    let mut host = rig.connect(1, Digests::from_bits(2));
    let data = vec![7; 8 * BLOCK];
    let go = |rig: &mut Rig, host: &mut Host, opcode, given: &[u8]| {
        rig.io(host, nvme_host::io(opcode, 16, 8), 8 * BLOCK as u32, given)
    };
    assert_eq!(go(&mut rig, &mut host, 0x01, &data).0, Status::SUCCESS);
    assert_eq!(go(&mut rig, &mut host, 0x05, &data).0, Status::SUCCESS);
    let other = vec![8; 8 * BLOCK];
    assert_eq!(go(&mut rig, &mut host, 0x05, &other).0, Status::COMPARE_FAILURE.dnr());
    assert_eq!(go(&mut rig, &mut host, 0x08, &[]).0, Status::SUCCESS);
    assert_eq!(go(&mut rig, &mut host, 0x02, &[]).1, vec![0; 8 * BLOCK]);
    for erase in [Sqe { opcode: 0x80, nsid: 1.into(), ..Sqe::default() }, {
        Sqe { opcode: 0x84, cdw10: 2.into(), ..Sqe::default() }
    }] {
        assert_eq!(go(&mut rig, &mut host, 0x01, &data).0, Status::SUCCESS);
        assert_eq!(rig.admin(&mut admin, erase, 0, &[]).0, Status::SUCCESS);
        assert_eq!(go(&mut rig, &mut host, 0x02, &[]).1, vec![0; 8 * BLOCK]);
    }
}

#[test]
fn a_temperature_beyond_its_threshold_is_an_event_once_until_the_log_is_read() {
    let mut rig = Rig::new();
    let mut admin = rig.connect(0, Digests::default());
    let set = |feature: Feature, value: u32| Sqe {
        opcode: 0x09,
        cdw10: (feature as u32).into(),
        cdw11: value.into(),
        ..Sqe::default()
    };
    assert_eq!(rig.admin(&mut admin, set(Feature::AsyncEvents, 2), 0, &[]).0, Status::SUCCESS);
    let event = Sqe { opcode: 0x0c, ..Sqe::default() };
    let first = rig.post(&mut admin, event, 0, &[]);
    rig.tick(&mut admin);
    assert_eq!(rig.reply(&mut admin, first), None, "25 degrees are no event");
    let cold = set(Feature::TemperatureThreshold, 280);
    assert_eq!(rig.admin(&mut admin, cold, 0, &[]).0, Status::SUCCESS);
    rig.tick(&mut admin);
    let (status, result) = rig.reply(&mut admin, first).expect("an event");
    assert_eq!((status, result), (Status::SUCCESS, 0x02_0101));
    let smart = Sqe { opcode: 0x02, cdw10: (2 | 127 << 16).into(), ..Sqe::default() };
    let (_, _, page) = rig.admin(&mut admin, smart, 512, &[]);
    let log = SmartLog::read_from_bytes(&page).unwrap();
    assert_eq!((log.temperature_k.get(), log.critical_warning & 2), (298, 2));
    // A second request stays, until it is aborted.
    let second = rig.post(&mut admin, event, 0, &[]);
    rig.tick(&mut admin);
    assert_eq!(rig.reply(&mut admin, second), None);
    let abort = Sqe { opcode: 0x08, cdw10: (u32::from(second) << 16).into(), ..Sqe::default() };
    assert_eq!(rig.admin(&mut admin, abort, 0, &[]).1, 0, "aborted");
    assert_eq!(rig.reply(&mut admin, second).unwrap().0, Status::ABORT_REQUESTED);
}

fn fault(text: &str) -> Fault {
    serde_json::from_str(text).expect("a fault")
}

fn smart_log(rig: &mut Rig, admin: &mut Host) -> SmartLog {
    let smart = Sqe { opcode: 0x02, cdw10: (2 | 127 << 16).into(), ..Sqe::default() };
    SmartLog::read_from_bytes(&rig.admin(admin, smart, 512, &[]).2).expect("512 bytes")
}

#[test]
fn a_drive_that_becomes_read_only_warns_tells_its_hosts_and_refuses_to_be_erased() {
    let mut rig = Rig::new();
    let mut admin = rig.connect(0, Digests::default());
    let mut host = rig.connect(1, Digests::default());
    let data = vec![7; 8 * BLOCK];
    let write = |rig: &mut Rig, host: &mut Host| {
        rig.io(host, nvme_host::io(0x01, 16, 8), 8 * BLOCK as u32, &data).0
    };
    assert_eq!(write(&mut rig, &mut host), Status::SUCCESS);
    let enable = Sqe {
        opcode: 0x09,
        cdw10: (Feature::AsyncEvents as u32).into(),
        cdw11: (1 << 3 | 1 << 10).into(),
        ..Sqe::default()
    };
    assert_eq!(rig.admin(&mut admin, enable, 0, &[]).0, Status::SUCCESS);
    let event = rig.post(&mut admin, Sqe { opcode: 0x0c, ..Sqe::default() }, 0, &[]);
    rig.tick(&mut admin);
    assert_eq!(rig.reply(&mut admin, event), None);
    assert_eq!(smart_log(&mut rig, &mut admin).critical_warning, 0);
    rig.engine.add_fault(fault(r#"{"kind": "read-only"}"#)).expect("a fault");
    rig.engine.begin_iteration();
    rig.tick(&mut admin);
    assert_eq!(rig.reply(&mut admin, event), Some((Status::SUCCESS, 0x02_0001)));
    let telemetry = rig.post(&mut admin, Sqe { opcode: 0x0c, ..Sqe::default() }, 0, &[]);
    assert_eq!(rig.reply(&mut admin, telemetry), Some((Status::SUCCESS, 0x08_0202)));
    assert_eq!(smart_log(&mut rig, &mut admin).critical_warning, 1 << 3);
    let protected = Status::NAMESPACE_WRITE_PROTECTED.dnr();
    assert_eq!(write(&mut rig, &mut host), protected);
    for erase in [Sqe { opcode: 0x80, nsid: 1.into(), ..Sqe::default() }, {
        Sqe { opcode: 0x84, cdw10: 2.into(), ..Sqe::default() }
    }] {
        assert_eq!(rig.admin(&mut admin, erase, 0, &[]).0, protected);
    }
    assert_eq!(rig.io(&mut host, nvme_host::io(0x02, 16, 8), 8 * BLOCK as u32, &[]).1, data);
}

#[test]
fn a_read_that_fails_is_a_media_error_in_smart_until_its_blocks_are_written() {
    let mut rig = Rig::new();
    let mut admin = rig.connect(0, Digests::default());
    let mut host = rig.connect(1, Digests::default());
    let bad = r#"{"kind": "read-error", "lba": 20, "sectors": 2}"#;
    rig.engine.add_fault(fault(bad)).expect("a fault");
    let mut go = |rig: &mut Rig, opcode, lba, blocks: u32, data: &[u8]| {
        rig.io(&mut host, nvme_host::io(opcode, lba, blocks), blocks * BLOCK as u32, data).0
    };
    assert_eq!(go(&mut rig, 0x02, 16, 8, &[]), Status::UNRECOVERED_READ_ERROR);
    assert_eq!(go(&mut rig, 0x01, 20, 1, &[1; BLOCK]), Status::SUCCESS);
    assert_eq!(go(&mut rig, 0x02, 20, 1, &[]), Status::SUCCESS);
    assert_eq!(go(&mut rig, 0x02, 16, 8, &[]), Status::UNRECOVERED_READ_ERROR);
    assert_eq!(go(&mut rig, 0x01, 16, 8, &[1; 8 * BLOCK]), Status::SUCCESS);
    assert_eq!(go(&mut rig, 0x02, 16, 8, &[]), Status::SUCCESS);
    let log = smart_log(&mut rig, &mut admin);
    assert_eq!((log.media_errors.get(), log.error_entries.get()), (2, 2));
}

#[test]
fn the_smart_log_of_dying_flash_tells_its_wear_its_spare_and_each_read_that_fails() {
    let ailment = include_str!("ailments/dying-flash.toml");
    let weaker =
        ailment.replace("correctable_bits = { value = 90", "correctable_bits = { value = 60");
    let mut rig = Rig::sick(&weaker);
    let mut admin = rig.connect(0, Digests::default());
    let mut host = rig.connect(1, Digests::default());
    let data = vec![7; 256 * BLOCK];
    let mut failed = 0;
    for opcode in [0x01, 0x02] {
        for lba in (0..64 * 256).step_by(256) {
            let sent: &[u8] = if opcode == 0x01 { &data } else { &[] };
            let (status, _) =
                rig.io(&mut host, nvme_host::io(opcode, lba, 256), 256 * BLOCK as u32, sent);
            assert!(status == Status::SUCCESS || status == Status::UNRECOVERED_READ_ERROR);
            failed += u64::from(status != Status::SUCCESS);
        }
    }
    let log = smart_log(&mut rig, &mut admin);
    assert_eq!((log.percentage_used, log.available_spare, log.spare_threshold), (95, 8, 10));
    assert_eq!(log.critical_warning, 1);
    // A command of many pages may hit several.
    assert!(failed > 0 && log.error_entries.get() == u128::from(failed), "{failed} failed");
    assert!(log.media_errors.get() >= u128::from(failed));
    assert!(log.data_units_written.get() > 1_000 && log.power_on_hours.get() > 40_000);
}

#[test]
fn the_smart_log_of_a_drive_soon_read_only_counts_down_until_it_is() {
    let ailment = include_str!("ailments/read-only-soon.toml");
    let mut rig =
        Rig::sick(&ailment.replace("writes_mb = { value = 2000", "writes_mb = { value = 4"));
    let mut admin = rig.connect(0, Digests::default());
    let mut host = rig.connect(1, Digests::default());
    let data = vec![7; 256 * BLOCK];
    let mut seen = Vec::new();
    let mut write = |rig: &mut Rig, lba| {
        rig.io(&mut host, nvme_host::io(0x01, lba, 256), 256 * BLOCK as u32, &data).0
    };
    for lba in (0..31 * 256).step_by(256) {
        assert_eq!(write(&mut rig, lba), Status::SUCCESS);
        let log = smart_log(&mut rig, &mut admin);
        assert_eq!(log.percentage_used, 99);
        seen.push((log.available_spare, log.critical_warning));
    }
    seen.dedup();
    assert_eq!(seen, [(4, 1), (3, 1), (2, 1), (1, 1), (0, 9)]);
    assert_eq!(write(&mut rig, 0), Status::NAMESPACE_WRITE_PROTECTED.dnr());
}

#[test]
fn a_hot_drives_smart_log_warns() {
    let ailment = include_str!("ailments/hot.toml");
    let warm = "\n[health]\nwarning_c = { value = 59, source = \"test\" }\n";
    let mut rig = Rig::sick(&format!("{ailment}{warm}"));
    let mut admin = rig.connect(0, Digests::default());
    let log = smart_log(&mut rig, &mut admin);
    assert_eq!((log.temperature_k.get(), log.critical_warning), (273 + 60, 2));
}

#[test]
fn the_vendors_log_tells_the_drives_clock() {
    let mut rig = Rig::new();
    let mut admin = rig.connect(0, Digests::default());
    let pace = Sqe { opcode: 0x02, cdw10: (0xf0 | 15 << 16).into(), ..Sqe::default() };
    let (status, _, page) = rig.admin(&mut admin, pace, 64, &[]);
    let log = PaceLog::read_from_bytes(&page).expect("64 bytes");
    assert_eq!((status, log.rate_ppm.get(), log.kept_up.get()), (Status::SUCCESS, 1_000_000, 0));
    assert_eq!(log.clock_ns.get(), (rig.engine.report().drive_s * 1e9) as u64);
}

#[test]
fn commands_of_a_drive_that_hangs_can_be_aborted() {
    let mut rig = Rig::new();
    let mut admin = rig.connect(0, Digests::default());
    let mut host = rig.connect(1, Digests::default());
    rig.engine.add_fault(fault(r#"{"kind": "hang"}"#)).expect("a fault");
    rig.engine.begin_iteration();
    rig.post_only(&mut host, nvme_host::io(0x02, 0, 8), 8 * BLOCK as u32);
    let read = host.cid();
    let abort = |queue: u16, cid: u16| {
        let cdw10 = u32::from(queue) | u32::from(cid) << 16;
        Sqe { opcode: 0x08, cdw10: cdw10.into(), ..Sqe::default() }
    };
    let mut answer = |rig: &mut Rig, host: &mut Host, sqe| {
        rig.post_only(&mut admin, sqe, 0);
        let cid = admin.cid();
        rig.tick(host);
        rig.tick(&mut admin);
        rig.reply(&mut admin, cid)
    };
    assert_eq!(answer(&mut rig, &mut host, abort(1, read)), Some((Status::SUCCESS, 0)));
    assert_eq!(rig.reply(&mut host, read).map(|reply| reply.0), Some(Status::ABORT_REQUESTED));
    // The command is gone; and the second queue does not exist.
    assert_eq!(answer(&mut rig, &mut host, abort(1, read)), Some((Status::SUCCESS, 1)));
    assert_eq!(answer(&mut rig, &mut host, abort(2, 1)), Some((Status::SUCCESS, 1)));
    assert_eq!(rig.reply(&mut host, read), None, "completed once");
}

#[test]
fn the_error_log_names_the_field_and_the_namespace_what_it_uses() {
    let mut rig = Rig::new();
    let mut admin = rig.connect(0, Digests::default());
    let mut host = rig.connect(1, Digests::default());
    let used = |rig: &mut Rig, admin: &mut Host| {
        let page = rig.identify(admin, Cns::Namespace);
        u64::from_le_bytes(page[16..24].try_into().expect("8 bytes"))
    };
    assert_eq!(used(&mut rig, &mut admin), 0);
    let data = vec![1; 16 * BLOCK];
    rig.io(&mut host, nvme_host::io(0x01, 8, 16), 16 * BLOCK as u32, &data);
    assert_eq!(used(&mut rig, &mut admin), 16);
    let last = rig.blocks();
    let mut wrong = |rig: &mut Rig, sqe: Sqe, flags: u8| {
        rig.post_flags(&mut host, sqe, 8 * BLOCK as u32, flags);
        let log = Sqe { opcode: 0x02, cdw10: (1 | 15 << 16).into(), ..Sqe::default() };
        let page = rig.admin(&mut admin, log, 64, &[]).2;
        u16::from_le_bytes(page[14..16].try_into().expect("2 bytes"))
    };
    let read = nvme_host::io(0x02, 0, 8);
    assert_eq!(wrong(&mut rig, Sqe { opcode: 0x60, ..read }, 0x40), 0);
    assert_eq!(wrong(&mut rig, read, 0x41), 1, "fused");
    for pointer in [0x00, 0x80, 0xc0] {
        assert_eq!(wrong(&mut rig, read, pointer), 1 | 6 << 8, "PSDT");
    }
    assert_eq!(wrong(&mut rig, Sqe { nsid: 129.into(), ..read }, 0x40), 4);
    assert_eq!(wrong(&mut rig, nvme_host::io(0x02, last, 8), 0x40), 40);
}

#[test]
fn a_shutdown_is_told_when_it_is_done_and_a_reset_ends_the_io_queues() {
    let mut rig = Rig::new();
    let mut admin = rig.connect(0, Digests::default());
    let mut io = rig.connect(1, Digests::default());
    assert_eq!(rig.property(&mut admin, 0x1c), 1);
    rig.configure(&mut admin, 0x46_4001);
    assert_eq!(rig.property(&mut admin, 0x1c), 1 | 2 << 2);
    rig.configure(&mut admin, 0x46_0000);
    assert_eq!(rig.property(&mut admin, 0x1c), 0);
    rig.poll(&mut io);
    assert!(io.is_over(), "its controller was reset");
    assert!(!admin.is_over());
}

#[test]
fn after_a_shutdown_or_a_reset_no_io_is_carried_out() {
    let mut rig = Rig::new();
    let mut admin = rig.connect(0, Digests::default());
    let refused = Status::COMMAND_SEQUENCE.dnr();
    let read = |rig: &mut Rig, io: &mut Host| rig.io(io, nvme_host::io(0x02, 0, 1), 512, &[]).0;
    let mut io = rig.connect(1, Digests::default());
    assert_eq!(read(&mut rig, &mut io), Status::SUCCESS);
    rig.configure(&mut admin, 0x46_4001);
    assert_eq!(read(&mut rig, &mut io), refused);
    // Clearing the shutdown notification is not a reset.
    rig.configure(&mut admin, 0x46_0001);
    assert_eq!(read(&mut rig, &mut io), refused);
    let mut late = rig.open(Digests::default());
    let controller = rig.controller();
    assert_eq!(rig.connect_to(&mut late, NQN, 2, controller), Err(refused));
    rig.configure(&mut admin, 0x46_0000);
    // At the same time, before the connection is cut.
    let mut late = nvme_host::io(0x01, 0, 1);
    late.cid = 9.into();
    rig.post_loose(&mut io, late, 512, &[9; 512]);
    rig.configure(&mut admin, 0x46_0001);
    rig.poll(&mut io);
    assert!(io.is_over(), "queues of before the reset are gone");
    let mut io = rig.connect(1, Digests::default());
    assert_eq!(rig.io(&mut io, nvme_host::io(0x02, 0, 1), 512, &[]).1, [0; 512]);
}

#[test]
fn a_controllers_number_is_the_lowest_that_is_free() {
    let mut rig = Rig::new();
    let mut open = |_| {
        let mut host = rig.open(Digests::default());
        let id = rig.connect_to(&mut host, NQN, 0, 0xffff).expect("a controller");
        (id, host)
    };
    let (one, two) = (open(()), open(()));
    assert_eq!((one.0, two.0), (1, 2));
    drop(one);
    assert_eq!(open(()).0, 1);
}

#[test]
fn an_io_queue_is_of_the_same_host_and_one_of_those_that_were_granted() {
    let mut rig = Rig::new();
    let mut admin = rig.connect(0, Digests::default());
    let mut host = rig.open(Digests::default());
    host.id = [1; 16];
    let controller = 1;
    let invalid = Err(Status::CONNECT_INVALID_PARAMETERS.dnr());
    assert_eq!(rig.connect_to(&mut host, NQN, 1, controller), invalid);
    // Two queues of each kind, zero-based.
    let set = Sqe { opcode: 0x09, cdw10: 7.into(), cdw11: 0x1_0001.into(), ..Sqe::default() };
    assert_eq!(rig.admin(&mut admin, set, 0, &[]).1, 0x1_0001);
    for (queue, expected) in [(1, Ok(controller)), (2, Ok(controller)), (3, invalid)] {
        let mut host = rig.open(Digests::default());
        assert_eq!(rig.connect_to(&mut host, NQN, queue, controller), expected, "{queue}");
        assert!(!host.is_over(), "it is answered");
    }
}

/// SPDK's perf connects so.
#[test]
fn a_host_may_have_no_name_but_has_the_same_for_all_queues() {
    let mut rig = Rig::new();
    let mut admin = rig.open(Digests::default());
    admin.nqn = "";
    let controller = rig.connect_to(&mut admin, NQN, 0, 0xffff).expect("a controller");
    rig.enable(&mut admin);
    let mut io = rig.open(Digests::default());
    let invalid = Err(Status::CONNECT_INVALID_PARAMETERS.dnr());
    assert_eq!(rig.connect_to(&mut io, NQN, 1, controller), invalid);
    let mut io = rig.open(Digests::default());
    io.nqn = "";
    assert_eq!(rig.connect_to(&mut io, NQN, 1, controller), Ok(controller));
}

#[test]
fn a_keep_alive_timeout_is_rounded_up_to_the_grain_that_identify_names() {
    let mut rig = Rig::new();
    let mut admin = rig.connect(0, Digests::default());
    for (asked, kept) in [(1, 1000), (1000, 1000), (1500, 2000), (0, 0), (u32::MAX, 4_294_967_000)]
    {
        let set = Sqe { opcode: 0x09, cdw10: 0x0f.into(), cdw11: asked.into(), ..Sqe::default() };
        assert_eq!(rig.admin(&mut admin, set, 0, &[]).1, kept);
        let get = Sqe { opcode: 0x0a, cdw10: 0x0f.into(), ..Sqe::default() };
        assert_eq!(rig.admin(&mut admin, get, 0, &[]).1, kept);
    }
}

#[test]
fn data_begins_where_the_host_wants_it() {
    let mut rig = Rig::new();
    let _admin = rig.connect(0, Digests::default());
    for alignment in [0, 1, 7, 31] {
        let mut host = rig.open_aligned(Digests::from_bits(3), alignment);
        rig.connect_to(&mut host, NQN, 1, 1).expect("a queue");
        let data = vec![alignment; 8 * BLOCK];
        rig.io(&mut host, nvme_host::io(0x01, 0, 8), 8 * BLOCK as u32, &data);
        let (status, found) = rig.io(&mut host, nvme_host::io(0x02, 0, 8), 8 * BLOCK as u32, &[]);
        assert_eq!((status, found), (Status::SUCCESS, data));
        let at = host.data_at.take().expect("data");
        assert_eq!(at, 28_usize.next_multiple_of(4 * (usize::from(alignment) + 1)));
    }
    let mut host = rig.raw();
    let request = InitPdu { alignment: 32, ..InitPdu::default() };
    let mut bytes = Vec::new();
    encode(&mut bytes, &Pdu::IcReq(request), Digests::default());
    rig.bytes(&mut host, &bytes);
    assert!(matches!(host.last(), Some(nvme_host::Said::Terminated(6))));
}

#[test]
fn a_host_that_breaks_the_rules_is_told_why_and_cut_off() {
    let mut rig = Rig::new();
    // A command before the connection is initialized.
    let mut host = rig.raw();
    let sqe = FabricsType::PropertyGet { offset: 0, is_wide: true }.to_sqe(1);
    let mut bytes = Vec::new();
    encode(&mut bytes, &Pdu::Command(&sqe, nvme_host::no_data()), Digests::default());
    rig.bytes(&mut host, &bytes);
    assert!(host.is_over());
    assert!(matches!(host.last(), Some(nvme_host::Said::Terminated(2))));
    // More commands than the queue has entries.
    let mut admin = rig.connect(0, Digests::default());
    let mut busy = rig.connect(1, Digests::default());
    for _ in 0..nvme_host::ENTRIES + 1 {
        rig.post_only(&mut busy, nvme_host::io(0x02, 0, 8), 4096);
    }
    assert!(busy.is_over());
    // The drive still serves the others.
    assert_eq!(rig.identify(&mut admin, Cns::Controller).len(), 4096);
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, u8, bool),
    Read(u64),
    Zero(u64),
    Trim(u64, u64),
    Flush,
    Settle,
}

const STEP_BLOCKS: u32 = 40;
const PLACES: u64 = 16;

fn step() -> impl Strategy<Value = Step> {
    let place = 0..PLACES;
    prop_oneof![
        4 => (place.clone(), 1..=255_u8, any::<bool>()).prop_map(|(p, v, d)| Step::Write(p, v, d)),
        4 => place.clone().prop_map(Step::Read),
        1 => place.clone().prop_map(Step::Zero),
        1 => (place.clone(), place).prop_map(|(a, b)| Step::Trim(a, b)),
        1 => Just(Step::Flush),
        1 => Just(Step::Settle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Reads return data that was written before they were posted, over several queues and ways of
    /// data transfer.
    #[test]
    fn any_commands_leave_what_an_obvious_drive_would_hold(
        steps in prop::collection::vec(step(), 1..60),
        digests in 0..4_u8,
    ) {
        let mut rig = Rig::new();
        let _admin = rig.connect(0, Digests::from_bits(digests));
        let mut queues = [rig.connect(1, Digests::from_bits(digests)), rig.connect(2, Digests::default())];
        let mut model = [0_u8; PLACES as usize];
        let bytes = STEP_BLOCKS as usize * BLOCK;
        for (i, step) in steps.iter().enumerate() {
            let host = &mut queues[i % 2];
            let at = |place: u64| place * u64::from(STEP_BLOCKS);
            let done = match *step {
                Step::Write(place, value, split) => {
                    model[place as usize] = value;
                    host.split = split;
                    let sqe = nvme_host::io(0x01, at(place), STEP_BLOCKS);
                    rig.io(host, sqe, bytes as u32, &vec![value; bytes]).0
                }
                Step::Read(place) => {
                    let sqe = nvme_host::io(0x02, at(place), STEP_BLOCKS);
                    let (status, data) = rig.io(host, sqe, bytes as u32, &[]);
                    prop_assert_eq!(data, vec![model[place as usize]; bytes]);
                    status
                }
                Step::Zero(place) => {
                    model[place as usize] = 0;
                    rig.io(host, nvme_host::io(0x08, at(place), STEP_BLOCKS), 0, &[]).0
                }
                Step::Trim(one, other) => {
                    let mut ranges = Vec::new();
                    for place in [one, other] {
                        model[place as usize] = 0;
                        let range = DsmRange {
                            lba: at(place).into(),
                            blocks: STEP_BLOCKS.into(),
                            ..DsmRange::default()
                        };
                        ranges.extend_from_slice(range.as_bytes());
                    }
                    let mut sqe = nvme_host::io(0x09, 0, 1);
                    (sqe.cdw10, sqe.cdw11, sqe.cdw12) = (1.into(), 4.into(), 0.into());
                    rig.io(host, sqe, 32, &ranges).0
                }
                Step::Flush => rig.io(host, nvme_host::io(0x00, 0, 1), 0, &[]).0,
                Step::Settle => Status::SUCCESS,
            };
            prop_assert_eq!(done, Status::SUCCESS);
        }
    }

    /// No bytes of a host make the server panic, or exceed its memory limits.
    #[test]
    fn any_bytes_leave_the_server_standing(
        garbage in prop::collection::vec(any::<u8>(), 0..600),
        sqes in prop::collection::vec(any::<[u8; 64]>(), 0..30),
        is_admin in any::<bool>(),
    ) {
        let mut rig = Rig::new();
        let mut admin = rig.connect(0, Digests::default());
        let mut io = rig.connect(1, Digests::default());
        let host = if is_admin { &mut admin } else { &mut io };
        for bytes in &sqes {
            let mut sqe = Sqe::read_from_bytes(bytes).unwrap();
            // Mostly existing commands, for the existing namespace.
            if bytes[9] & 3 != 0 {
                sqe = nvme_host::known(sqe, is_admin, bytes[0]);
            }
            sqe.nsid = u32::from(bytes[4] & 3).into();
            let data = vec![bytes[6]; usize::from(bytes[5]) * 16];
            rig.post_loose(host, sqe, data.len() as u32, &data);
            if host.is_over() {
                break;
            }
        }
        rig.bytes(host, &garbage);
        rig.settle(&mut [&mut admin, &mut io]);
        let mut again = rig.connect(0, Digests::default());
        prop_assert_eq!(rig.identify(&mut again, Cns::Controller).len(), 4096);
    }
}
