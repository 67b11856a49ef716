//! Flexible Data Placement as hosts use it: log pages, features, write directives, handles, events,
//! namespaces; over TCP, with a host of our own.

use drivebay_serve::{Control as _, Io as _, Namespaces as _};
use drivebay_units::Rng;
use drivebay_wire::nvme::{
    Cns, Digests, EnduranceGroupLog, ErrorEntry, Feature, HandleStatus, IdentifyController,
    IdentifyNamespace, LogPage, PlacementConfiguration, PlacementEvent, PlacementEventKind,
    PlacementStatistics, Sqe, Status,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::nvme_host::{self, Host, Rig};

const HANDLES: usize = 4;
const BLOCK: usize = 512;
const WRITE: u8 = 0x01;
const WRITE_ZEROES: u8 = 0x08;
const RECEIVE: u8 = 0x12;
const SEND: u8 = 0x1d;
/// Directive Type, Data Placement, in dword 12.
const PLACED: u32 = 2 << 20;

/// A drive with four handles, its admin queue and an I/O queue.
fn drive(isolation: &str) -> (Rig, Host, Host) {
    let mut rig = Rig::placed(HANDLES, isolation);
    let admin = rig.connect(0, Digests::default());
    let io = rig.connect(1, Digests::default());
    (rig, admin, io)
}

/// A write of 4 KiB through a placement identifier.
fn write(rig: &mut Rig, host: &mut Host, page: u64, pid: u32) -> Status {
    let mut sqe = nvme_host::io(WRITE, 8 * page, 8);
    sqe.cdw12 = (sqe.cdw12.get() | PLACED).into();
    sqe.cdw13 = (pid << 16).into();
    rig.io(host, sqe, 8 * BLOCK as u32, &[7; 8 * BLOCK]).0
}

/// I/O Management Receive of this number of bytes.
fn receive(rig: &mut Rig, host: &mut Host, operation: u32, bytes: u32) -> (Status, Vec<u8>) {
    let cdw11 = (bytes / 4 - 1).into();
    let sqe =
        Sqe { opcode: RECEIVE, nsid: 1.into(), cdw10: operation.into(), cdw11, ..Sqe::default() };
    rig.io(host, sqe, bytes, &[])
}

fn handles(rig: &mut Rig, host: &mut Host) -> Vec<HandleStatus> {
    let (status, data) = receive(rig, host, 1, 16 + 32 * 126);
    assert_eq!(status, Status::SUCCESS);
    let count = usize::from(u16::from_le_bytes([data[14], data[15]]));
    let all = data[16..].chunks_exact(32).take(count);
    all.map(|one| HandleStatus::read_from_bytes(one).expect("32 bytes")).collect()
}

/// Blocks left in the reclaim unit of each handle.
fn left(rig: &mut Rig, host: &mut Host) -> Vec<u64> {
    handles(rig, host).iter().map(|one| one.blocks_left.get()).collect()
}

/// I/O Management Send: a handle update.
fn update(rig: &mut Rig, host: &mut Host, pids: &[u16]) -> Status {
    let cdw10 = (1 | (pids.len() as u32 - 1) << 16).into();
    let data: Vec<u8> = pids.iter().flat_map(|pid| pid.to_le_bytes()).collect();
    let sqe = Sqe { opcode: SEND, nsid: 1.into(), cdw10, ..Sqe::default() };
    rig.io(host, sqe, data.len() as u32, &data).0
}

/// Get Log Page of an endurance group; `more` goes to dword 10.
fn log(
    rig: &mut Rig,
    admin: &mut Host,
    page: LogPage,
    (group, more): (u32, u32),
    bytes: u32,
) -> (Status, Vec<u8>) {
    let sqe = Sqe {
        opcode: 0x02,
        cdw10: (page as u32 | more | (bytes / 4 - 1) << 16).into(),
        cdw11: (group << 16).into(),
        ..Sqe::default()
    };
    let (status, _, page) = rig.admin(admin, sqe, bytes, &[]);
    (status, page)
}

fn feature(opcode: u8, one: Feature, cdw11: u32, cdw12: u32) -> Sqe {
    let (cdw11, cdw12) = (cdw11.into(), cdw12.into());
    Sqe { opcode, nsid: 1.into(), cdw10: (one as u32).into(), cdw11, cdw12, ..Sqe::default() }
}

/// Enables or disables placement, by group and dword 12.
fn switch(rig: &mut Rig, admin: &mut Host, group: u32, cdw12: u32) -> Status {
    rig.admin(admin, feature(0x09, Feature::Placement, group, cdw12), 0, &[]).0
}

fn is_on(rig: &mut Rig, admin: &mut Host, group: u32) -> (Status, u64) {
    let (status, value, _) = rig.admin(admin, feature(0x0a, Feature::Placement, group, 0), 0, &[]);
    (status, value)
}

/// Namespace Management: creates a namespace of 64 MiB with this list of handles.
fn create(rig: &mut Rig, admin: &mut Host, group: u16, list: &[u16]) -> (Status, u64) {
    let wanted = IdentifyNamespace {
        nsze: 131_072.into(),
        ncap: 131_072.into(),
        endgid: group.into(),
        nmic: 1,
        ..IdentifyNamespace::default()
    };
    let mut data = wanted.as_bytes().to_vec();
    data[392..394].copy_from_slice(&(list.len() as u16).to_le_bytes());
    for (place, one) in data[512..].chunks_exact_mut(2).zip(list) {
        place.copy_from_slice(&one.to_le_bytes());
    }
    let (status, nsid, _) = rig.admin(admin, Sqe { opcode: 0x0d, ..Sqe::default() }, 4096, &data);
    (status, nsid)
}

fn delete_all(rig: &mut Rig, admin: &mut Host) -> Status {
    let sqe = Sqe { opcode: 0x0d, nsid: u32::MAX.into(), cdw10: 1.into(), ..Sqe::default() };
    rig.admin(admin, sqe, 0, &[]).0
}

fn attach(rig: &mut Rig, admin: &mut Host, nsid: u32) -> Status {
    let mut list = vec![0; 4096];
    list[..4].copy_from_slice(&[1, 0, 1, 0]);
    rig.admin(admin, Sqe { opcode: 0x15, nsid: nsid.into(), ..Sqe::default() }, 4096, &list).0
}

/// Location of the last error in the error log: the byte, and its bit.
fn error_location(rig: &mut Rig, admin: &mut Host) -> u16 {
    let (_, page) = log(rig, admin, LogPage::Errors, (0, 0), 64);
    ErrorEntry::read_from_bytes(&page).expect("64 bytes").location.get()
}

#[test]
fn a_drive_with_placement_says_so_and_one_without_knows_nothing_of_it() {
    let (mut rig, mut admin, _host) = drive("persistent");
    let page = rig.identify(&mut admin, Cns::Controller);
    let id = IdentifyController::read_from_bytes(&page).expect("a page");
    assert_eq!(id.ctratt.get() & (1 << 4 | 1 << 19), 1 << 4 | 1 << 19);
    assert_eq!((id.endgidmax.get(), id.oacs.get() >> 5 & 1), (1, 1));
    let page = rig.identify(&mut admin, Cns::Namespace);
    assert_eq!(IdentifyNamespace::read_from_bytes(&page).expect("a page").endgid.get(), 1);
    let group = Sqe { opcode: 0x06, cdw10: 0x19.into(), ..Sqe::default() };
    assert_eq!(rig.admin(&mut admin, group, 4096, &[]).2[..6], [1, 0, 1, 0, 0, 0]);

    let mut plain = Rig::new();
    let mut admin = plain.connect(0, Digests::default());
    let mut host = plain.connect(1, Digests::default());
    let page = plain.identify(&mut admin, Cns::Controller);
    let id = IdentifyController::read_from_bytes(&page).expect("a page");
    assert_eq!((id.ctratt.get() & (1 << 4 | 1 << 19), id.endgidmax.get()), (0, 0));
    let found = log(&mut plain, &mut admin, LogPage::PlacementConfigurations, (1, 0), 64);
    assert_eq!(found.0, Status::INVALID_LOG_PAGE.dnr());
    assert_eq!(is_on(&mut plain, &mut admin, 1).0, Status::INVALID_FIELD.dnr());
    assert_eq!(plain.admin(&mut admin, group, 4096, &[]).0, Status::INVALID_FIELD.dnr());
    assert_eq!(receive(&mut plain, &mut host, 1, 64).0, Status::INVALID_OPCODE.dnr());
    assert_eq!(write(&mut plain, &mut host, 0, 0), Status::INVALID_FIELD.dnr());
    assert_eq!(error_location(&mut plain, &mut admin), 50 | 4 << 8, "the directive, in dword 12");
    // Pages and commands of a drive without placement.
    let (_, pages) = log(&mut plain, &mut admin, LogPage::Supported, (0, 0), 1024);
    let (_, commands) = log(&mut plain, &mut admin, LogPage::Commands, (0, 0), 4096);
    assert_eq!([pages[4 * 0x20], commands[1024 + 4 * 0x12], commands[4 * 0x1a]], [0; 3]);
}

#[test]
fn the_configuration_is_the_models() {
    for (isolation, code) in [("initial", 1), ("persistent", 2)] {
        let (mut rig, mut admin, mut host) = drive(isolation);
        let bytes = 16 + 64 + 4 * HANDLES as u32;
        let (status, page) =
            log(&mut rig, &mut admin, LogPage::PlacementConfigurations, (1, 0), bytes);
        assert_eq!(
            (status, &page[..8]),
            (Status::SUCCESS, &[0, 0, 0, 0, bytes as u8, 0, 0, 0][..])
        );
        let one = PlacementConfiguration::read_from_bytes(&page[16..80]).expect("64 bytes");
        assert_eq!((one.bytes.get(), one.attributes), (80, 1 << 7 | 1 << 4));
        assert_eq!((one.groups.get(), one.handles.get(), one.identifiers_max.get()), (1, 4, 3));
        assert_eq!(page[80..], [[code, 0, 0, 0]; HANDLES].concat()[..]);
        // Nothing is written: each handle has a whole reclaim unit left.
        let unit = one.unit_bytes.get() / BLOCK as u64;
        assert_eq!(left(&mut rig, &mut host), [unit; HANDLES]);
        let (status, usage) = log(&mut rig, &mut admin, LogPage::PlacementUsage, (1, 0), 40);
        assert_eq!((status, &usage[..2]), (Status::SUCCESS, &[4, 0][..]));
        assert!(usage[8..].chunks(8).all(|one| one == [1, 0, 0, 0, 0, 0, 0, 0]));
    }
}

#[test]
fn a_write_goes_where_its_placement_identifier_says_and_is_counted_there() {
    let (mut rig, mut admin, mut host) = drive("persistent");
    let [unit, ..] = left(&mut rig, &mut host)[..] else { panic!("handles") };
    for (page, pid) in [(0, 2), (1, 2), (2, 3), (3, 0)] {
        assert_eq!(write(&mut rig, &mut host, page, pid), Status::SUCCESS);
    }
    // Without a directive, or with an unknown identifier: the first handle.
    let plain = nvme_host::io(WRITE, 40, 8);
    assert_eq!(rig.io(&mut host, plain, 4096, &[1; 4096]).0, Status::SUCCESS);
    assert_eq!(write(&mut rig, &mut host, 6, 4), Status::SUCCESS);
    assert_eq!(left(&mut rig, &mut host), [unit - 24, unit, unit - 16, unit - 8]);
    let pids: Vec<_> = handles(&mut rig, &mut host)
        .iter()
        .map(|one| (one.pid.get(), one.handle.get(), one.time_left.get()))
        .collect();
    assert_eq!(pids, [(0, 0, 0), (1, 1, 0), (2, 2, 0), (3, 3, 0)]);
    let written: Vec<u64> = rig.engine.handle_use().iter().map(|one| one.written_4k).collect();
    assert_eq!(written, [3, 0, 2, 1]);
    let (_, page) = log(&mut rig, &mut admin, LogPage::PlacementStatistics, (1, 0), 64);
    let counted = PlacementStatistics::read_from_bytes(&page).expect("64 bytes");
    let model = rig.engine.counters();
    assert_eq!(counted.host_bytes.get(), 6 * 4096);
    assert_eq!(counted.media_bytes.get(), u128::from(model.placed_pages) * 4096);
    let superblock = u128::from(unit) * BLOCK as u128;
    assert_eq!(counted.erased_bytes.get(), u128::from(model.erases) * superblock);
    let (_, page) = log(&mut rig, &mut admin, LogPage::EnduranceGroup, (1, 0), 512);
    let group = EnduranceGroupLog::read_from_bytes(&page).expect("512 bytes");
    assert_eq!(group.capacity.get(), u128::from(rig.blocks()) * BLOCK as u128);
    assert_eq!((group.host_writes.get(), group.media_units_written.get()), (6, 1));
    // Another directive, and zeros, which also have one.
    let mut streams = nvme_host::io(WRITE, 0, 8);
    streams.cdw12 = (7 | 1 << 20).into();
    assert_eq!(rig.io(&mut host, streams, 4096, &[1; 4096]).0, Status::INVALID_FIELD.dnr());
    let mut zeroes = nvme_host::io(WRITE_ZEROES, 1, 2);
    zeroes.cdw12 = (1 | PLACED).into();
    zeroes.cdw13 = (1 << 16).into();
    assert_eq!(rig.io(&mut host, zeroes, 0, &[]).0, Status::SUCCESS);
    assert_eq!(left(&mut rig, &mut host)[1], unit - 8, "the rest of its page is written again");
}

#[test]
fn an_update_begins_new_reclaim_units_or_changes_nothing() {
    let (mut rig, mut admin, mut host) = drive("initial");
    let [unit, ..] = left(&mut rig, &mut host)[..] else { panic!("handles") };
    let media = |rig: &mut Rig| rig.engine.counters().placed_pages * 8;
    for pid in [0, 1, 2] {
        write(&mut rig, &mut host, u64::from(pid), pid);
    }
    let before = left(&mut rig, &mut host);
    for wrong in [&[1, 4][..], &[0, 1, 2, 3, 3]] {
        assert_eq!(update(&mut rig, &mut host, wrong), Status::INVALID_FIELD.dnr(), "{wrong:?}");
        assert_eq!(error_location(&mut rig, &mut admin), 40, "dword 10");
    }
    assert_eq!(left(&mut rig, &mut host), before);
    assert_eq!(update(&mut rig, &mut host, &[2, 0]), Status::SUCCESS);
    assert_eq!(left(&mut rig, &mut host), [unit, unit - 8, unit, unit]);
    assert!(media(&mut rig) >= 2 * unit, "what was left of them is media written");
    // A new reclaim unit is kept.
    assert_eq!(update(&mut rig, &mut host, &[3]), Status::SUCCESS);
    assert!(media(&mut rig) < 3 * unit);
    // No operation, and an unknown one.
    for (operation, status) in [(0, Status::SUCCESS), (2, Status::INVALID_FIELD.dnr())] {
        let cdw10 = operation.into();
        let sqe = Sqe { opcode: SEND, nsid: 1.into(), cdw10, ..Sqe::default() };
        assert_eq!(rig.io(&mut host, sqe, 0, &[]).0, status);
        assert_eq!(receive(&mut rig, &mut host, operation, 64).0, status);
    }
    assert_eq!(receive(&mut rig, &mut host, 1, 16).1[14..], [4, 0], "as much as there is room for");
}

#[test]
fn placement_is_switched_while_there_are_no_namespaces() {
    let (mut rig, mut admin, mut host) = drive("initial");
    assert_eq!(is_on(&mut rig, &mut admin, 1), (Status::SUCCESS, 1));
    // Tools that leave out the group mean the only one.
    assert_eq!(is_on(&mut rig, &mut admin, 0), (Status::SUCCESS, 1));
    assert_eq!(is_on(&mut rig, &mut admin, 2).0, Status::INVALID_FIELD.dnr());
    assert_eq!(error_location(&mut rig, &mut admin), 44, "dword 11");
    assert_eq!(switch(&mut rig, &mut admin, 1, 0), Status::COMMAND_SEQUENCE.dnr());
    assert_eq!(delete_all(&mut rig, &mut admin), Status::SUCCESS);
    assert_eq!(switch(&mut rig, &mut admin, 1, 1 << 8), Status::INVALID_FIELD.dnr());
    assert_eq!(error_location(&mut rig, &mut admin), 49, "the configuration's index, in dword 12");
    assert_eq!(switch(&mut rig, &mut admin, 0, 0), Status::SUCCESS);
    assert_eq!(is_on(&mut rig, &mut admin, 1), (Status::SUCCESS, 0));
    assert_eq!(create(&mut rig, &mut admin, 1, &[0]).0, Status::INVALID_FIELD.dnr());
    assert_eq!(create(&mut rig, &mut admin, 1, &[]), (Status::SUCCESS, 1));
    assert_eq!(attach(&mut rig, &mut admin, 1), Status::SUCCESS);
    let disabled = Status::PLACEMENT_DISABLED.dnr();
    for page in [LogPage::PlacementUsage, LogPage::PlacementStatistics, LogPage::PlacementEvents] {
        assert_eq!(log(&mut rig, &mut admin, page, (1, 0), 64).0, disabled);
    }
    let configurations = LogPage::PlacementConfigurations;
    assert_eq!(log(&mut rig, &mut admin, configurations, (1, 0), 64).0, Status::SUCCESS);
    assert_eq!(write(&mut rig, &mut host, 0, 0), Status::INVALID_FIELD.dnr());
    assert_eq!(receive(&mut rig, &mut host, 1, 64).0, disabled);
    assert_eq!(update(&mut rig, &mut host, &[0]), disabled);
    delete_all(&mut rig, &mut admin);
    assert_eq!(switch(&mut rig, &mut admin, 1, 1), Status::SUCCESS);
    assert!(rig.engine.is_placed());
}

#[test]
fn a_namespace_has_the_handles_that_it_was_made_with() {
    let (mut rig, mut admin, mut host) = drive("persistent");
    delete_all(&mut rig, &mut admin);
    let invalid = Status::INVALID_PLACEMENT_HANDLE_LIST.dnr();
    for wrong in [&[4][..], &[1, 1], &[0, 1, 2, 3, 0]] {
        assert_eq!(create(&mut rig, &mut admin, 1, wrong).0, invalid, "{wrong:?}");
    }
    assert_eq!(create(&mut rig, &mut admin, 2, &[0]).0, Status::INVALID_FIELD.dnr());
    assert_eq!(create(&mut rig, &mut admin, 1, &[2, 1]), (Status::SUCCESS, 1));
    // For the second the drive chooses the last unused handle.
    assert_eq!(create(&mut rig, &mut admin, 0, &[]), (Status::SUCCESS, 2));
    assert_eq!(attach(&mut rig, &mut admin, 1), Status::SUCCESS);
    let (_, usage) = log(&mut rig, &mut admin, LogPage::PlacementUsage, (1, 0), 40);
    let by: Vec<u8> = usage[8..].chunks(8).map(|one| one[0]).collect();
    assert_eq!(by, [0, 1, 1, 2]);
    write(&mut rig, &mut host, 0, 1);
    write(&mut rig, &mut host, 1, 0);
    write(&mut rig, &mut host, 2, 2);
    let written: Vec<u64> = rig.engine.handle_use().iter().map(|one| one.written_4k).collect();
    assert_eq!(written, [0, 1, 2, 0], "one that it does not have is its first");
    let found: Vec<_> =
        handles(&mut rig, &mut host).iter().map(|one| (one.pid.get(), one.handle.get())).collect();
    assert_eq!(found, [(0, 2), (1, 1)]);
}

#[test]
fn events_that_are_wanted_are_told_of() {
    let (mut rig, mut admin, mut host) = drive("initial");
    let kinds: Vec<u8> = PlacementEventKind::ALL.iter().map(|&kind| kind as u8).collect();
    let set = |rig: &mut Rig, admin: &mut Host, pid: u32, kinds: &[u8], on: u32| {
        let cdw11 = pid | (kinds.len() as u32) << 16;
        let sqe = feature(0x09, Feature::PlacementEvents, cdw11, on);
        rig.admin(admin, sqe, kinds.len() as u32, kinds).0
    };
    let events = |rig: &mut Rig, admin: &mut Host, of_hosts: u32| -> Vec<PlacementEvent> {
        let (status, page) = log(rig, admin, LogPage::PlacementEvents, (1, of_hosts << 8), 64 * 64);
        assert_eq!(status, Status::SUCCESS);
        let count = u32::from_le_bytes([page[0], page[1], page[2], page[3]]) as usize;
        let all = page[64..].chunks_exact(64).take(count);
        all.map(|one| PlacementEvent::read_from_bytes(one).expect("64 bytes")).collect()
    };
    // No event is enabled.
    write(&mut rig, &mut host, 0, 9);
    assert!(events(&mut rig, &mut admin, 1).is_empty());
    for wrong in [&[0x7f][..], &[]] {
        assert_eq!(set(&mut rig, &mut admin, 0, wrong, 1), Status::INVALID_FIELD.dnr());
    }
    assert_eq!(set(&mut rig, &mut admin, 4, &kinds, 1), Status::INVALID_FIELD.dnr());
    for pid in 0..3 {
        assert_eq!(set(&mut rig, &mut admin, pid, &kinds, 1), Status::SUCCESS);
    }
    assert_eq!(set(&mut rig, &mut admin, 2, &kinds[..1], 0), Status::SUCCESS);
    let get = feature(0x0a, Feature::PlacementEvents, 2 | 255 << 16, 0);
    let (status, count, found) = rig.admin(&mut admin, get, 510, &[]);
    assert_eq!((status, count as usize), (Status::SUCCESS, kinds.len()));
    assert_eq!(found[..4], [kinds[0], 0, kinds[1], 1]);
    // An unknown identifier is an event of the first handle; units closed early are events of the
    // second and the third.
    write(&mut rig, &mut host, 0, 9);
    for pid in [1, 2] {
        write(&mut rig, &mut host, 1, pid);
    }
    assert_eq!(update(&mut rig, &mut host, &[1, 2]), Status::SUCCESS);
    let of_hosts = events(&mut rig, &mut admin, 1);
    let told: Vec<_> =
        of_hosts.iter().map(|one| (one.kind, one.pid.get(), one.handle, one.nsid.get())).collect();
    assert_eq!(told, [(3, 9, 0, 1), (0, 1, 1, 1)]);
    assert!(of_hosts.iter().all(|one| one.flags == 7));
    assert!(events(&mut rig, &mut admin, 0).is_empty(), "the controller has done nothing");
    // Writes half of the drive (to limit the host's memory) at random through the second handle,
    // until garbage collection moves valid data.
    let (chunks, mut rng) = (rig.blocks() / 2 / 128, Rng::new(5));
    for _ in 0..4 * chunks {
        let mut sqe = nvme_host::io(WRITE, rng.below(chunks) * 128, 128);
        sqe.cdw12 = (127 | PLACED).into();
        sqe.cdw13 = (1 << 16).into();
        assert_eq!(rig.io(&mut host, sqe, 65_536, &[5; 65_536]).0, Status::SUCCESS);
    }
    let used = rig.engine.handle_use();
    let moved = events(&mut rig, &mut admin, 0);
    assert!(used[1].copied_4k > 0 && !moved.is_empty());
    assert!(moved.iter().all(|one| one.kind == 0x80 && one.handle == 1 && one.flags == 4));
    // In blocks of the namespace, limited to 16 bits.
    let blocks = |moved: &[PlacementEvent]| moved[0].moved_blocks.get();
    assert_eq!(u64::from(blocks(&moved)), (8 * used[1].copied_4k).min(0xffff));
    // A sanitize assigns new units to all handles.
    let sanitize = Sqe { opcode: 0x84, cdw10: 2.into(), ..Sqe::default() };
    assert_eq!(rig.admin(&mut admin, sanitize, 0, &[]).0, Status::SUCCESS);
    let last = events(&mut rig, &mut admin, 0);
    assert!(last.iter().any(|one| (one.kind, one.handle) == (0x81, 0)), "{last:?}");
    // A block is now 4 KiB.
    let format = Sqe { opcode: 0x80, nsid: 1.into(), cdw10: 1.into(), ..Sqe::default() };
    assert_eq!(rig.admin(&mut admin, format, 0, &[]).0, Status::SUCCESS);
    let moved = events(&mut rig, &mut admin, 0);
    assert_eq!(u64::from(blocks(&moved)), used[1].copied_4k.min(0xffff));
}

/// Two groups: the highest bit of a placement identifier is the group.
#[test]
fn a_placement_identifier_names_group_and_handle() {
    const SECOND: u32 = 1 << 15;
    let mut rig = Rig::placed_in(2, 3, "initial");
    let mut admin = rig.connect(0, Digests::default());
    let mut host = rig.connect(1, Digests::default());
    let (_, page) = log(&mut rig, &mut admin, LogPage::PlacementConfigurations, (1, 0), 96);
    let one = PlacementConfiguration::read_from_bytes(&page[16..80]).expect("64 bytes");
    assert_eq!((one.groups.get(), one.handles.get(), one.identifiers_max.get()), (2, 3, 5));
    assert_eq!(one.attributes & 0xf, 1, "bits of the group");
    let all: Vec<_> =
        handles(&mut rig, &mut host).iter().map(|one| (one.pid.get(), one.handle.get())).collect();
    let second = SECOND as u16;
    let pids = [0, second, 1, second | 1, 2, second | 2];
    let ruhs = [0, 0, 1, 1, 2, 2];
    assert_eq!(all, std::iter::zip(pids, ruhs).collect::<Vec<_>>());
    let [unit, ..] = left(&mut rig, &mut host)[..] else { panic!("handles") };
    assert_eq!(one.unit_bytes.get(), unit * BLOCK as u64);
    for (place, pid) in
        [SECOND | 1, SECOND | 1, 1, SECOND | 2, SECOND | 3, 3].into_iter().enumerate()
    {
        assert_eq!(write(&mut rig, &mut host, place as u64, pid), Status::SUCCESS);
    }
    // Writes without a handle go to the first one.
    assert_eq!(left(&mut rig, &mut host), [unit - 16, unit, unit - 8, unit - 16, unit, unit - 8]);
    let used: Vec<_> =
        rig.engine.handle_use().iter().map(|one| (one.group, one.handle, one.written_4k)).collect();
    let of = |group, written: [u64; 3]| {
        std::iter::zip(0.., written).map(move |(handle, count)| (group, Some(handle), count))
    };
    let copies = [(0, None, 0), (1, None, 0)];
    assert_eq!(used, of(0, [2, 1, 0]).chain(of(1, [0, 2, 1])).chain(copies).collect::<Vec<_>>());
    let (_, page) = log(&mut rig, &mut admin, LogPage::PlacementStatistics, (1, 0), 64);
    let counted = PlacementStatistics::read_from_bytes(&page).expect("64 bytes");
    assert_eq!(counted.host_bytes.get(), 6 * 4096);
    // Events name the group; they are enabled for a handle in all groups.
    for handle in [0, 1] {
        let sqe = feature(0x09, Feature::PlacementEvents, handle | 2 << 16, 1);
        assert_eq!(rig.admin(&mut admin, sqe, 2, &[0, 3]).0, Status::SUCCESS);
    }
    assert_eq!(update(&mut rig, &mut host, &[second | 1, 2]), Status::SUCCESS);
    assert_eq!(left(&mut rig, &mut host), [unit - 16, unit, unit - 8, unit, unit, unit - 8]);
    assert_eq!(update(&mut rig, &mut host, &[second | 3]), Status::INVALID_FIELD.dnr());
    assert_eq!(write(&mut rig, &mut host, 9, SECOND | 7), Status::SUCCESS);
    let (_, page) = log(&mut rig, &mut admin, LogPage::PlacementEvents, (1, 1 << 8), 64 * 4);
    let told: Vec<_> = page[64..]
        .chunks_exact(64)
        .map(|one| PlacementEvent::read_from_bytes(one).expect("64 bytes"))
        .take(page[0].into())
        .map(|one| (one.kind, one.pid.get(), one.group.get(), one.handle))
        .collect();
    assert_eq!(told, [(0, second | 1, 1, 1), (3, second | 7, 0, 0)]);
}

#[test]
fn directives_are_told_and_none_can_be_switched() {
    let (mut rig, mut admin, _host) = drive("initial");
    let receive =
        Sqe { opcode: 0x1a, nsid: 1.into(), cdw10: 1023.into(), cdw11: 1.into(), ..Sqe::default() };
    let (status, _, page) = rig.admin(&mut admin, receive, 4096, &[]);
    assert_eq!((status, [page[0], page[32], page[64]]), (Status::SUCCESS, [5, 5, 5]));
    for (opcode, cdw11) in [(0x1a, 2), (0x1a, 1 | 2 << 8), (0x19, 1)] {
        let other = Sqe { opcode, cdw11: cdw11.into(), ..receive };
        assert_eq!(rig.admin(&mut admin, other, 4096, &[]).0, Status::INVALID_FIELD.dnr());
    }
    // A valid number without a namespace, and an invalid number.
    for (nsid, status) in [(2, Status::INVALID_FIELD), (33, Status::INVALID_NAMESPACE)] {
        let other = Sqe { nsid: nsid.into(), ..receive };
        assert_eq!(rig.admin(&mut admin, other, 4096, &[]).0, status.dnr());
    }
}

#[test]
fn the_group_of_a_log_must_be_the_only_one() {
    let (mut rig, mut admin, _host) = drive("initial");
    for group in [0, 2, 0xffff] {
        let (status, _) = log(&mut rig, &mut admin, LogPage::PlacementStatistics, (group, 0), 64);
        assert_eq!(status, Status::INVALID_FIELD.dnr());
        assert_eq!(error_location(&mut rig, &mut admin), 46, "the high half of dword 11");
    }
}

/// Flushed data survives a power cut, written through any handle; handles keep their units.
#[test]
fn what_was_flushed_outlives_a_power_cut_through_every_handle() {
    let (mut rig, _admin, mut host) = drive("persistent");
    rig.engine.allow_power_cuts(None, drivebay_serve::PowerCutLoss::All);
    for pid in 0..4 {
        write(&mut rig, &mut host, 16 * u64::from(pid), pid);
    }
    rig.io(&mut host, nvme_host::io(0x00, 0, 1), 0, &[]);
    for pid in 0..4 {
        write(&mut rig, &mut host, 16 * u64::from(pid) + 1, pid);
    }
    let before = left(&mut rig, &mut host);
    rig.engine.power_cut().expect("memory");
    rig.engine.power_on();
    let _admin = rig.connect(0, Digests::default());
    let mut host = rig.connect(1, Digests::default());
    for pid in 0..4_u64 {
        let read = |rig: &mut Rig, host: &mut Host, page| {
            rig.io(host, nvme_host::io(0x02, 8 * page, 8), 4096, &[]).1[0]
        };
        assert_eq!(read(&mut rig, &mut host, 16 * pid), 7);
        assert_eq!(read(&mut rig, &mut host, 16 * pid + 1), 0, "it was in the buffer");
    }
    let after = left(&mut rig, &mut host);
    assert!(
        after.iter().zip(&before).all(|(after, before)| after <= before),
        "{after:?} {before:?}"
    );
}
