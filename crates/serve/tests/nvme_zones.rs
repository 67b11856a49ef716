//! Zones as hosts use them: Identify, reports, Zone Management and appends; over TCP, with a host
//! of our own.

use drivebay_drive::ZoneState;
use drivebay_serve::{Control as _, Io as _, PowerCutLoss};
use drivebay_wire::nvme::{
    COMMAND_SET_ZONED, Cns, CommandEffects, Digests, EFFECT_SUPPORTED, ErrorEntry,
    IdentifyNamespace, IdentifyZonedNamespace, LogPage, NvmOpcode, Sqe, Status, ZoneAction,
    ZoneDescriptor,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::nvme_host::{self, Host, Rig, ZONED_ACTIVE, ZONED_OPEN};

const BLOCK: usize = 4096;
/// Blocks from zone to zone, and writable blocks of a zone.
pub const SIZE: u64 = 2048;
pub const CAPACITY: u64 = 1536;
pub const WRITE: u8 = NvmOpcode::Write as u8;
const READ: u8 = NvmOpcode::Read as u8;
const COMPARE: u8 = NvmOpcode::Compare as u8;
const APPEND: u8 = NvmOpcode::ZoneAppend as u8;

pub const EMPTY: u8 = 0x1;
pub const IMPLICIT: u8 = 0x2;
pub const EXPLICIT: u8 = 0x3;
pub const CLOSED: u8 = 0x4;
pub const FULL: u8 = 0xe;

/// A drive with zones, its admin queue and an I/O queue.
pub fn drive() -> (Rig, Host, Host) {
    let mut rig = Rig::zoned();
    let admin = rig.connect(0, Digests::default());
    let io = rig.connect(1, Digests::default());
    (rig, admin, io)
}

pub fn zones(rig: &Rig) -> u64 {
    rig.engine.zones().len() as u64
}

pub fn block(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(BLOCK / 8)
}

/// Writes a block with this content.
fn write(rig: &mut Rig, host: &mut Host, lba: u64, version: u64) -> Status {
    rig.io(host, nvme_host::io(WRITE, lba, 1), BLOCK as u32, &block(version)).0
}

pub fn append(
    rig: &mut Rig,
    host: &mut Host,
    lba: u64,
    blocks: u32,
    version: u64,
) -> (Status, u64) {
    let data = block(version).repeat(blocks as usize);
    let (status, result, _) =
        rig.admin(host, nvme_host::io(APPEND, lba, blocks), blocks * BLOCK as u32, &data);
    (status, result)
}

fn read(rig: &mut Rig, host: &mut Host, lba: u64, blocks: u32) -> (Status, Vec<u8>) {
    rig.io(host, nvme_host::io(READ, lba, blocks), blocks * BLOCK as u32, &[])
}

/// Content of each block, by its first bytes.
pub fn versions(rig: &mut Rig, host: &mut Host, lba: u64, blocks: u32) -> Vec<u64> {
    let (status, data) = read(rig, host, lba, blocks);
    assert_eq!(status, Status::SUCCESS);
    assert_eq!(data.len(), blocks as usize * BLOCK);
    data.chunks(BLOCK).map(|one| u64::from_le_bytes(one[..8].try_into().expect("8"))).collect()
}

/// Zone Management Send, to the zone at this block or to all.
fn manage(rig: &mut Rig, host: &mut Host, lba: Option<u64>, action: u32) -> Status {
    let all = u32::from(lba.is_none()) << 8;
    let sqe = nvme_host::io(0x79, lba.unwrap_or(0), 1);
    rig.io(host, Sqe { cdw13: (action | all).into(), ..sqe }, 0, &[]).0
}

pub fn act(rig: &mut Rig, host: &mut Host, zone: u64, action: ZoneAction) -> Status {
    manage(rig, host, Some(zone * SIZE), action as u32)
}

/// Zone Management Receive with this dword 13 and number of bytes.
fn receive(rig: &mut Rig, host: &mut Host, lba: u64, cdw13: u32, bytes: u32) -> (Status, Vec<u8>) {
    let sqe = nvme_host::io(0x7a, lba, 1);
    let sqe = Sqe { cdw12: (bytes / 4 - 1).into(), cdw13: cdw13.into(), ..sqe };
    rig.io(host, sqe, bytes, &[])
}

/// Returns the number of zones in a report's header, and the zones in the report.
fn report(
    rig: &mut Rig,
    host: &mut Host,
    lba: u64,
    cdw13: u32,
    room: u32,
) -> (u64, Vec<ZoneDescriptor>) {
    let (status, data) = receive(rig, host, lba, cdw13, 64 + 64 * room);
    assert_eq!(status, Status::SUCCESS);
    let count = u64::from_le_bytes(data[..8].try_into().expect("8"));
    let held = count.min(room.into()) as usize;
    let all = data[64..].chunks_exact(64).take(held);
    (count, all.map(|one| ZoneDescriptor::read_from_bytes(one).expect("64 bytes")).collect())
}

/// State of each zone, and its written blocks: for a full zone all of them.
pub fn states(rig: &mut Rig, host: &mut Host) -> Vec<(u8, u64)> {
    let (count, all) = report(rig, host, 0, 0, 128);
    assert_eq!(count, zones(rig));
    let of = |(zone, one): (usize, &ZoneDescriptor)| {
        let start = zone as u64 * SIZE;
        assert_eq!((one.kind, one.start.get(), one.capacity.get()), (2, start, CAPACITY));
        let pointer = one.write_pointer.get();
        let state = one.state >> 4;
        assert_eq!(pointer == u64::MAX, state == FULL);
        (state, if state == FULL { CAPACITY } else { pointer - start })
    };
    all.iter().enumerate().map(of).collect()
}

fn identify(rig: &mut Rig, admin: &mut Host, cns: u8, set: u8, nsid: u32) -> (Status, Vec<u8>) {
    let cdw11 = (u32::from(set) << 24).into();
    let sqe = Sqe {
        opcode: 0x06,
        nsid: nsid.into(),
        cdw10: u32::from(cns).into(),
        cdw11,
        ..Sqe::default()
    };
    let (status, _, page) = rig.admin(admin, sqe, 4096, &[]);
    (status, page)
}

fn log(rig: &mut Rig, admin: &mut Host, page: LogPage, set: u8, bytes: u32) -> (Status, Vec<u8>) {
    let sqe = Sqe {
        opcode: 0x02,
        nsid: 1.into(),
        cdw10: (page as u32 | (bytes / 4 - 1) << 16).into(),
        cdw14: (u32::from(set) << 24).into(),
        ..Sqe::default()
    };
    let (status, _, page) = rig.admin(admin, sqe, bytes, &[]);
    (status, page)
}

/// Location of the last error in the error log.
fn error_location(rig: &mut Rig, admin: &mut Host) -> u16 {
    let (_, page) = log(rig, admin, LogPage::Errors, 0, 64);
    ErrorEntry::read_from_bytes(&page).expect("64 bytes").location.get()
}

#[test]
fn a_drive_with_zones_says_so() {
    let (mut rig, mut admin, mut host) = drive();
    let count = zones(&rig);
    let (_, page) = identify(&mut rig, &mut admin, 0, 0, 1);
    let id = IdentifyNamespace::read_from_bytes(&page).expect("a page");
    assert_eq!((id.nsze.get(), id.ncap.get(), id.nuse.get()), (count * SIZE, count * CAPACITY, 0));
    assert_eq!((id.nlbaf, id.flbas, id.lbaf[0].data_shift, id.dlfeat & 7), (0, 0, 12, 1));
    for cns in [Cns::CommandSetNamespace, Cns::CommandSetAllocatedNamespace] {
        let (status, page) = identify(&mut rig, &mut admin, cns as u8, COMMAND_SET_ZONED, 1);
        assert_eq!(status, Status::SUCCESS);
        let id = IdentifyZonedNamespace::read_from_bytes(&page).expect("a page");
        assert_eq!((id.zoc.get(), id.ozcs.get()), (0, 0));
        assert_eq!((id.mar.get() + 1, id.mor.get() + 1), (ZONED_ACTIVE, ZONED_OPEN));
        assert_eq!(id.lbafe[0].zone_blocks.get(), SIZE);
        assert_eq!(id.lbafe[1].zone_blocks.get(), 0);
    }
    // Appends can be as long as other writes; there is one combination of command sets, which is
    // enabled.
    let (_, page) = identify(&mut rig, &mut admin, 6, COMMAND_SET_ZONED, 0);
    let mdts = identify(&mut rig, &mut admin, 1, 0, 0).1[77];
    assert_eq!((page[0], mdts > 0), (mdts, true));
    assert_eq!(
        identify(&mut rig, &mut admin, 0x1c, 0, 0).1[..16],
        [5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    );
    // The list of names has the command set; so do the lists of namespaces.
    assert_eq!(identify(&mut rig, &mut admin, 3, 0, 1).1[12..17], [4, 1, 0, 0, COMMAND_SET_ZONED]);
    for (cns, set, first) in
        [(7, COMMAND_SET_ZONED, 1), (7, 0, 0), (0x1a, COMMAND_SET_ZONED, 1), (2, 0, 1)]
    {
        assert_eq!(
            identify(&mut rig, &mut admin, cns, set, 0).1[..4],
            [first, 0, 0, 0],
            "{cns:#x}"
        );
    }
    assert_eq!(identify(&mut rig, &mut admin, 8, 0, 1).0, Status::SUCCESS);
    for (cns, set) in [(5, 1), (0, COMMAND_SET_ZONED), (7, 3)] {
        assert_eq!(identify(&mut rig, &mut admin, cns, set, 1).0, Status::INVALID_FIELD.dnr());
    }
    // Supported commands, by command set.
    let mut supports = |set: u8, opcode: u8| {
        let (_, page) = log(&mut rig, &mut admin, LogPage::Commands, set, 4096);
        let log = CommandEffects::read_from_bytes(&page).expect("a page");
        log.io[usize::from(opcode)].get() & EFFECT_SUPPORTED != 0
    };
    let commands = [0x79, 0x7a, 0x7d, 0x04, 0x01, 0x19];
    assert_eq!(commands.map(|one| supports(2, one)), [true, true, true, false, true, true]);
    assert_eq!(commands.map(|one| supports(0, one)), [false, false, false, true, true, true]);
    let (status, page) = log(&mut rig, &mut admin, LogPage::ChangedZones, COMMAND_SET_ZONED, 4096);
    assert_eq!((status, page), (Status::SUCCESS, vec![0; 4096]));
    let unknown = log(&mut rig, &mut admin, LogPage::Smart, COMMAND_SET_ZONED, 512).0;
    assert_eq!(unknown, Status::INVALID_FIELD.dnr());
    let spoil = nvme_host::io(0x04, 0, 1);
    assert_eq!(rig.io(&mut host, spoil, 0, &[]).0, Status::INVALID_OPCODE.dnr());
}

#[test]
fn a_drive_without_zones_knows_nothing_of_them() {
    let mut rig = Rig::new();
    let mut admin = rig.connect(0, Digests::default());
    let mut host = rig.connect(1, Digests::default());
    assert_eq!(
        identify(&mut rig, &mut admin, 5, COMMAND_SET_ZONED, 1).0,
        Status::INVALID_FIELD.dnr()
    );
    assert_eq!(identify(&mut rig, &mut admin, 0x1c, 0, 0).1[0], 1);
    let (status, page) = log(&mut rig, &mut admin, LogPage::Commands, COMMAND_SET_ZONED, 4096);
    let effects = CommandEffects::read_from_bytes(&page).expect("a page");
    assert_eq!((status, effects.admin[6].get() & 1), (Status::SUCCESS, 1));
    assert!(effects.io.iter().all(|effects| effects.get() == 0));
    let changed = log(&mut rig, &mut admin, LogPage::ChangedZones, 0, 64).0;
    assert_eq!(changed, Status::INVALID_LOG_PAGE.dnr());
    for opcode in [0x79, 0x7a, 0x7d] {
        let found = rig.io(&mut host, nvme_host::io(opcode, 0, 1), 0, &[]).0;
        assert_eq!(found, Status::INVALID_OPCODE.dnr());
    }
}

#[test]
fn zones_are_of_no_use_to_a_host_that_enables_the_nvm_command_set_alone() {
    let (mut rig, mut admin, mut host) = drive();
    assert_eq!(write(&mut rig, &mut host, 0, 1), Status::SUCCESS);
    rig.configure(&mut admin, 0x46_0000);
    rig.configure(&mut admin, 0x46_0001);
    let mut host = rig.connect(1, Digests::default());
    assert_eq!(write(&mut rig, &mut host, 1, 1), Status::INVALID_OPCODE.dnr());
    assert_eq!(receive(&mut rig, &mut host, 0, 0, 128).0, Status::INVALID_OPCODE.dnr());
}

#[test]
fn a_report_begins_at_an_address_and_filters_by_state() {
    let (mut rig, mut admin, mut host) = drive();
    let count = zones(&rig);
    for (zone, actions) in [
        (1, &[ZoneAction::Open][..]),
        (2, &[ZoneAction::Open, ZoneAction::Close]),
        (3, &[ZoneAction::Finish]),
        (5, &[ZoneAction::Finish]),
    ] {
        for &action in actions {
            assert_eq!(act(&mut rig, &mut host, zone, action), Status::SUCCESS);
        }
    }
    assert_eq!(write(&mut rig, &mut host, 0, 1), Status::SUCCESS);
    let found: Vec<(u8, u64)> = states(&mut rig, &mut host)[..6].to_vec();
    let expected =
        [(IMPLICIT, 1), (EXPLICIT, 0), (CLOSED, 0), (FULL, CAPACITY), (EMPTY, 0), (FULL, CAPACITY)];
    assert_eq!(found, expected);
    // By filter: 1 empty, 2 implicitly and 3 explicitly open, 4 closed, 5 full, 6 read-only, 7
    // offline.
    for (filter, expected) in
        [(0, count), (1, count - 5), (2, 1), (3, 1), (4, 1), (5, 2), (6, 0), (7, 0)]
    {
        assert_eq!(report(&mut rig, &mut host, 0, filter << 8, 64).0, expected, "{filter}");
    }
    let (all, held) = report(&mut rig, &mut host, 3 * SIZE + 7, 5 << 8, 1);
    assert_eq!((all, held[0].start.get(), held.len()), (2, 3 * SIZE, 1), "from the zone's middle");
    let (partial, _) = report(&mut rig, &mut host, 3 * SIZE + 7, 5 << 8 | 1 << 16, 1);
    assert_eq!(partial, 1, "what there is room for");
    let (status, head) = receive(&mut rig, &mut host, 0, 1 << 16, 64 + 60);
    assert_eq!((status, &head[..8]), (Status::SUCCESS, &[0; 8][..]), "no part of a descriptor");
    for (lba, cdw13, bytes, status, place) in [
        (0, 0, 60, Status::INVALID_FIELD, 48),
        (0, 1, 128, Status::INVALID_FIELD, 52),
        (0, 8 << 8, 128, Status::INVALID_FIELD, 53),
        (count * SIZE, 0, 128, Status::LBA_OUT_OF_RANGE, 40),
    ] {
        assert_eq!(receive(&mut rig, &mut host, lba, cdw13, bytes).0, status.dnr());
        assert_eq!(error_location(&mut rig, &mut admin), place);
    }
}

#[test]
fn what_a_zone_does_not_take_has_its_own_status() {
    let (mut rig, mut admin, mut host) = drive();
    let count = zones(&rig);
    let (open, active) = (u64::from(ZONED_OPEN), u64::from(ZONED_ACTIVE));
    let nowhere = 0xffff;
    let check = |rig: &mut Rig, admin: &mut Host, found: Status, status: Status, place: u16| {
        assert_eq!(found, status.dnr());
        assert_eq!(error_location(rig, admin), place, "{status:?}");
    };
    let found = write(&mut rig, &mut host, 1, 1);
    check(&mut rig, &mut admin, found, Status::ZONE_INVALID_WRITE, 40);
    let found = rig.io(&mut host, nvme_host::io(WRITE, CAPACITY - 1, 2), 8192, &[1; 8192]).0;
    check(&mut rig, &mut admin, found, Status::ZONE_BOUNDARY_ERROR, 40);
    let found = append(&mut rig, &mut host, 1, 1, 1).0;
    check(&mut rig, &mut admin, found, Status::INVALID_FIELD, 40);
    assert_eq!(act(&mut rig, &mut host, 1, ZoneAction::Finish), Status::SUCCESS);
    let found = append(&mut rig, &mut host, SIZE, 1, 1).0;
    check(&mut rig, &mut admin, found, Status::ZONE_IS_FULL, nowhere);
    for action in [ZoneAction::Open, ZoneAction::Close, ZoneAction::Offline] {
        let found = act(&mut rig, &mut host, 1, action);
        check(&mut rig, &mut admin, found, Status::INVALID_ZONE_STATE_TRANSITION, 52);
    }
    for (lba, action, place) in [(SIZE + 1, 4, 40), (0, 6, 52), (0, 0x10, 52), (0, 0x11, 52)] {
        let found = manage(&mut rig, &mut host, Some(lba), action);
        check(&mut rig, &mut admin, found, Status::INVALID_FIELD, place);
    }
    let found = manage(&mut rig, &mut host, Some(count * SIZE), 4);
    check(&mut rig, &mut admin, found, Status::LBA_OUT_OF_RANGE, 40);
    for zone in 2..2 + open {
        assert_eq!(act(&mut rig, &mut host, zone, ZoneAction::Open), Status::SUCCESS);
    }
    let found = act(&mut rig, &mut host, 2 + open, ZoneAction::Open);
    check(&mut rig, &mut admin, found, Status::TOO_MANY_OPEN_ZONES, nowhere);
    let found = write(&mut rig, &mut host, 0, 1);
    check(&mut rig, &mut admin, found, Status::TOO_MANY_OPEN_ZONES, nowhere);
    assert_eq!(manage(&mut rig, &mut host, None, 1), Status::SUCCESS, "all are closed");
    for zone in 2 + open..2 + active {
        assert_eq!(write(&mut rig, &mut host, zone * SIZE, 1), Status::SUCCESS);
    }
    let found = write(&mut rig, &mut host, 0, 1);
    check(&mut rig, &mut admin, found, Status::TOO_MANY_ACTIVE_ZONES, nowhere);
}

#[test]
fn all_zones_are_managed_by_one_command() {
    let (mut rig, _admin, mut host) = drive();
    let counts = |rig: &mut Rig, host: &mut Host| {
        let all = states(rig, host);
        [EMPTY, IMPLICIT, EXPLICIT, CLOSED, FULL]
            .map(|state| all.iter().filter(|(one, _)| *one == state).count())
    };
    let (count, open) = (zones(&rig) as usize, ZONED_OPEN as usize);
    for zone in 0..3 {
        assert_eq!(write(&mut rig, &mut host, zone * SIZE, 1), Status::SUCCESS);
    }
    assert_eq!(counts(&mut rig, &mut host), [count - 3, 3, 0, 0, 0]);
    assert_eq!(manage(&mut rig, &mut host, None, ZoneAction::Close as u32), Status::SUCCESS);
    assert_eq!(counts(&mut rig, &mut host), [count - 3, 0, 0, 3, 0]);
    assert_eq!(manage(&mut rig, &mut host, None, ZoneAction::Open as u32), Status::SUCCESS);
    assert_eq!(counts(&mut rig, &mut host), [count - 3, 0, 3, 0, 0]);
    assert_eq!(act(&mut rig, &mut host, 0, ZoneAction::Close), Status::SUCCESS);
    assert_eq!(write(&mut rig, &mut host, 3 * SIZE, 1), Status::SUCCESS);
    // One more zone is closed to stay within the open limit.
    assert_eq!(act(&mut rig, &mut host, 3, ZoneAction::Close), Status::SUCCESS);
    assert_eq!(open, 3);
    assert_eq!(manage(&mut rig, &mut host, None, 3), Status::TOO_MANY_OPEN_ZONES.dnr());
    assert_eq!(counts(&mut rig, &mut host), [count - 4, 0, 2, 2, 0]);
    assert_eq!(manage(&mut rig, &mut host, None, ZoneAction::Offline as u32), Status::SUCCESS);
    assert_eq!(manage(&mut rig, &mut host, None, ZoneAction::Finish as u32), Status::SUCCESS);
    assert_eq!(counts(&mut rig, &mut host), [count - 4, 0, 0, 0, 4]);
    assert_eq!(manage(&mut rig, &mut host, None, ZoneAction::Reset as u32), Status::SUCCESS);
    assert_eq!(counts(&mut rig, &mut host), [count, 0, 0, 0, 0]);
    assert_eq!(versions(&mut rig, &mut host, 0, 2), [0, 0]);
}

#[test]
fn appends_say_where_their_data_is() {
    let (mut rig, _admin, mut host) = drive();
    assert_eq!(append(&mut rig, &mut host, SIZE, 2, 7), (Status::SUCCESS, SIZE));
    assert_eq!(write(&mut rig, &mut host, SIZE + 2, 8), Status::SUCCESS);
    assert_eq!(append(&mut rig, &mut host, SIZE, 1, 9), (Status::SUCCESS, SIZE + 3));
    assert_eq!(versions(&mut rig, &mut host, SIZE, 6), [7, 7, 8, 9, 0, 0]);
    // Several at a time, through to the completion.
    let data = block(5);
    let cids: Vec<u16> = (0..4)
        .map(|_| {
            let sqe = Sqe { cdw12: (1 << 30).into(), ..nvme_host::io(APPEND, SIZE, 1) };
            rig.post(&mut host, sqe, BLOCK as u32, &data)
        })
        .collect();
    let mut places: Vec<_> =
        cids.iter().map(|&cid| rig.reply(&mut host, cid).expect("an answer")).collect();
    places.sort_unstable_by_key(|(_, place)| *place);
    let expected = [4, 5, 6, 7].map(|at| (Status::SUCCESS, SIZE + at));
    assert_eq!(places, expected);
    assert_eq!(versions(&mut rig, &mut host, SIZE, 9), [7, 7, 8, 9, 5, 5, 5, 5, 0]);
}

#[test]
fn a_gap_reads_as_zeros_and_reads_do_not_cross_zones() {
    let (mut rig, mut admin, mut host) = drive();
    let pieces = CAPACITY / 32;
    for _ in 0..pieces {
        assert_eq!(append(&mut rig, &mut host, 0, 32, 3).0, Status::SUCCESS);
    }
    assert_eq!(states(&mut rig, &mut host)[0], (FULL, CAPACITY));
    assert_eq!(versions(&mut rig, &mut host, CAPACITY - 2, 4), [3, 3, 0, 0]);
    assert_eq!(versions(&mut rig, &mut host, CAPACITY, 3), [0; 3]);
    assert_eq!(versions(&mut rig, &mut host, SIZE - 1, 1), [0]);
    assert_eq!(read(&mut rig, &mut host, SIZE - 1, 2).0, Status::ZONE_BOUNDARY_ERROR.dnr());
    assert_eq!(error_location(&mut rig, &mut admin), 40);
    let end = zones(&rig) * SIZE;
    assert_eq!(versions(&mut rig, &mut host, end - 1, 1), [0]);
    assert_eq!(read(&mut rig, &mut host, end - 1, 2).0, Status::LBA_OUT_OF_RANGE.dnr());
    let expected = [block(3), block(0)].concat();
    let compare = nvme_host::io(COMPARE, CAPACITY - 1, 2);
    assert_eq!(rig.io(&mut host, compare, 8192, &expected).0, Status::SUCCESS);
    let compare = rig.io(&mut host, compare, 8192, &block(3).repeat(2)).0;
    assert_eq!(compare, Status::COMPARE_FAILURE.dnr());
    let verify = nvme_host::io(0x0c, CAPACITY - 1, 2);
    assert_eq!(rig.io(&mut host, verify, 0, &[]).0, Status::SUCCESS);
    // A write there does not belong to the zone.
    assert_eq!(write(&mut rig, &mut host, CAPACITY, 1), Status::ZONE_BOUNDARY_ERROR.dnr());
}

#[test]
fn zeros_and_copies_are_written_at_the_write_pointer_and_deallocating_does_nothing() {
    let (mut rig, _admin, mut host) = drive();
    for at in 0..4 {
        assert_eq!(write(&mut rig, &mut host, at, at + 1), Status::SUCCESS);
    }
    let zeroes = nvme_host::io(0x08, SIZE, 2);
    assert_eq!(rig.io(&mut host, zeroes, 0, &[]).0, Status::SUCCESS);
    assert_eq!(rig.io(&mut host, zeroes, 0, &[]).0, Status::ZONE_INVALID_WRITE.dnr());
    let copy = |from: u64, blocks: u16, to: u64| {
        let mut range = [0; 32];
        range[8..16].copy_from_slice(&from.to_le_bytes());
        range[16..18].copy_from_slice(&(blocks - 1).to_le_bytes());
        (Sqe { cdw12: 0.into(), ..nvme_host::io(0x19, to, 1) }, range)
    };
    let (sqe, range) = copy(1, 3, SIZE + 2);
    assert_eq!(rig.io(&mut host, sqe, 32, &range).0, Status::SUCCESS);
    assert_eq!(versions(&mut rig, &mut host, SIZE, 6), [0, 0, 2, 3, 4, 0]);
    assert_eq!(states(&mut rig, &mut host)[..2], [(IMPLICIT, 4), (IMPLICIT, 5)]);
    assert_eq!(rig.io(&mut host, sqe, 32, &range).0, Status::ZONE_INVALID_WRITE.dnr());
    let (sqe, range) = copy(CAPACITY - 1, 2, SIZE + 5);
    assert_eq!(rig.io(&mut host, sqe, 32, &range).0, Status::ZONE_BOUNDARY_ERROR.dnr());
    // Deallocate, over two zones.
    let mut range = [0; 16];
    range[4..8].copy_from_slice(&(2 * SIZE as u32).to_le_bytes());
    let dsm = Sqe { opcode: 0x09, nsid: 1.into(), cdw11: 4.into(), ..Sqe::default() };
    assert_eq!(rig.io(&mut host, dsm, 16, &range).0, Status::SUCCESS);
    assert_eq!(versions(&mut rig, &mut host, 0, 4), [1, 2, 3, 4]);
    range[8..].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(rig.io(&mut host, dsm, 16, &range).0, Status::LBA_OUT_OF_RANGE.dnr());
}

/// Namespace Management: creates a namespace of `nsze` blocks, of which `ncap` can be written.
fn create(rig: &mut Rig, admin: &mut Host, set: u8, nsze: u64, ncap: u64) -> (Status, u64) {
    let wanted = IdentifyNamespace {
        nsze: nsze.into(),
        ncap: ncap.into(),
        nmic: 1,
        ..IdentifyNamespace::default()
    };
    let sqe = Sqe { opcode: 0x0d, cdw11: (u32::from(set) << 24).into(), ..Sqe::default() };
    let (status, nsid, _) = rig.admin(admin, sqe, 4096, wanted.as_bytes());
    (status, nsid)
}

#[test]
fn namespaces_are_made_of_whole_zones_and_erased_by_format_and_sanitize() {
    let (mut rig, mut admin, mut host) = drive();
    assert_eq!(write(&mut rig, &mut host, 0, 1), Status::SUCCESS);
    let delete = Sqe { opcode: 0x0d, nsid: u32::MAX.into(), cdw10: 1.into(), ..Sqe::default() };
    assert_eq!(rig.admin(&mut admin, delete, 0, &[]).0, Status::SUCCESS);
    assert!(
        rig.engine.zones().iter().all(|zone| zone.written == 0),
        "deleted with its zones' data"
    );
    for (set, nsze, ncap, status) in [
        (0, SIZE, SIZE, Status::COMMAND_SET_NOT_SUPPORTED),
        (2, SIZE + 1, SIZE + 1, Status::INVALID_FIELD),
        (2, SIZE, CAPACITY - 1, Status::THIN_PROVISIONING_NOT_SUPPORTED),
        (
            2,
            u64::MAX / SIZE * SIZE,
            u64::MAX / SIZE * SIZE,
            Status::NAMESPACE_INSUFFICIENT_CAPACITY,
        ),
    ] {
        assert_eq!(create(&mut rig, &mut admin, set, nsze, ncap).0, status.dnr());
    }
    assert_eq!(create(&mut rig, &mut admin, 2, 2 * SIZE, 2 * SIZE), (Status::SUCCESS, 1));
    assert_eq!(create(&mut rig, &mut admin, 2, SIZE, CAPACITY), (Status::SUCCESS, 2));
    for nsid in [1_u32, 2] {
        let mut list = vec![0; 4096];
        list[..4].copy_from_slice(&[1, 0, 1, 0]);
        let sqe = Sqe { opcode: 0x15, nsid: nsid.into(), ..Sqe::default() };
        assert_eq!(rig.admin(&mut admin, sqe, 4096, &list).0, Status::SUCCESS);
    }
    let second = |sqe: Sqe| Sqe { nsid: 2.into(), ..sqe };
    let data = block(4);
    for at in 0..2 {
        let sqe = second(nvme_host::io(WRITE, at, 1));
        assert_eq!(rig.io(&mut host, sqe, BLOCK as u32, &data).0, Status::SUCCESS);
    }
    assert_eq!(write(&mut rig, &mut host, SIZE, 5), Status::SUCCESS);
    let written: Vec<u64> = rig.engine.zones()[..3].iter().map(|zone| zone.written / 8).collect();
    assert_eq!(written, [0, 1, 2]);
    assert_eq!(report(&mut rig, &mut host, 0, 0, 8).0, 2);
    assert_eq!(append(&mut rig, &mut host, 2 * SIZE, 1, 1).0, Status::LBA_OUT_OF_RANGE.dnr());
    // Format of one namespace leaves the other unchanged.
    let format = Sqe { opcode: 0x80, nsid: 2.into(), ..Sqe::default() };
    assert_eq!(rig.admin(&mut admin, format, 0, &[]).0, Status::SUCCESS);
    let other = Sqe { cdw10: 1.into(), ..format };
    assert_eq!(rig.admin(&mut admin, other, 0, &[]).0, Status::INVALID_FORMAT.dnr());
    let written: Vec<u64> = rig.engine.zones()[..3].iter().map(|zone| zone.written / 8).collect();
    assert_eq!(written, [0, 1, 0]);
    let first = second(nvme_host::io(READ, 0, 1));
    assert_eq!(rig.io(&mut host, first, BLOCK as u32, &[]).1, block(0));
    let sanitize = Sqe { opcode: 0x84, cdw10: 4.into(), ..Sqe::default() };
    assert_eq!(rig.admin(&mut admin, sanitize, 0, &[]).0, Status::SUCCESS);
    rig.pass(10);
    rig.tick(&mut admin);
    assert!(rig.engine.zones().iter().all(|zone| zone.written == 0));
    assert_eq!(versions(&mut rig, &mut host, SIZE, 1), [0]);
}

#[test]
fn a_random_write_area_takes_overwrites_until_the_write_pointer_passes() {
    let mut rig = Rig::with_areas();
    let mut admin = rig.connect(0, Digests::default());
    let mut host = rig.connect(1, Digests::default());
    rig.engine.allow_power_cuts(None, PowerCutLoss::All);
    let (_, page) = identify(&mut rig, &mut admin, 5, COMMAND_SET_ZONED, 1);
    let id = IdentifyZonedNamespace::read_from_bytes(&page).expect("a page");
    assert_eq!((id.ozcs.get(), id.numzrwa.get(), id.zrwacap), (2, 1, 1));
    assert_eq!((id.zrwasz.get(), id.zrwafg.get()), (16, 4));
    let open = 3 | 1 << 9;
    for zone in [0, 1] {
        assert_eq!(manage(&mut rig, &mut host, Some(zone * SIZE), open), Status::SUCCESS);
    }
    let found = manage(&mut rig, &mut host, Some(2 * SIZE), open);
    assert_eq!(found, Status::ZRWA_RESOURCES_UNAVAILABLE.dnr());
    assert_eq!(manage(&mut rig, &mut host, None, open), Status::INVALID_FIELD.dnr());
    for (at, version) in [(3, 1), (0, 2), (3, 3), (15, 4)] {
        assert_eq!(write(&mut rig, &mut host, at, version), Status::SUCCESS);
    }
    let pointer = |rig: &mut Rig, host: &mut Host| {
        let one = report(rig, host, 0, 0, 1).1[0];
        (one.attributes[0], one.write_pointer.get())
    };
    assert_eq!(pointer(&mut rig, &mut host), (8, 0));
    let flush = |rig: &mut Rig, host: &mut Host, at| manage(rig, host, Some(at), 0x11);
    assert_eq!(flush(&mut rig, &mut host, 4), Status::INVALID_FIELD.dnr(), "no whole step");
    assert_eq!(flush(&mut rig, &mut host, 3), Status::SUCCESS);
    assert_eq!(pointer(&mut rig, &mut host), (8, 4));
    assert_eq!(write(&mut rig, &mut host, 3, 5), Status::ZONE_INVALID_WRITE.dnr());
    assert_eq!(write(&mut rig, &mut host, 20, 6), Status::SUCCESS, "and the pointer moves");
    assert_eq!(pointer(&mut rig, &mut host), (8, 8));
    assert_eq!(append(&mut rig, &mut host, 0, 1, 7).0, Status::INVALID_ZONE_OPERATION.dnr());
    rig.engine.power_cut().expect("a store in memory");
    let mut expected = [0; 24];
    (expected[0], expected[3], expected[15], expected[20]) = (2, 3, 4, 6);
    assert_eq!(versions(&mut rig, &mut host, 0, 24), expected, "capacitors keep the area");
    assert_eq!(act(&mut rig, &mut host, 0, ZoneAction::Reset), Status::SUCCESS);
    assert_eq!(pointer(&mut rig, &mut host), (0, 0));
    assert_eq!(versions(&mut rig, &mut host, 0, 24), [0; 24]);
    assert_eq!(flush(&mut rig, &mut host, 3), Status::INVALID_ZONE_OPERATION.dnr());
}

#[test]
fn a_zone_that_fails_is_told_of() {
    let (mut rig, mut admin, mut host) = drive();
    let notices =
        Sqe { opcode: 0x09, cdw10: 0x0b.into(), cdw11: (1 << 27).into(), ..Sqe::default() };
    assert_eq!(rig.admin(&mut admin, notices, 0, &[]).0, Status::SUCCESS);
    let event = rig.post(&mut admin, Sqe { opcode: 0x0c, ..Sqe::default() }, 0, &[]);
    for at in 0..2 {
        assert_eq!(write(&mut rig, &mut host, at * SIZE, 1 + at), Status::SUCCESS);
    }
    rig.tick(&mut admin);
    assert_eq!(rig.reply(&mut admin, event), None);
    rig.engine.fail_zone(0, ZoneState::ReadOnly);
    rig.engine.fail_zone(1, ZoneState::Offline);
    rig.tick(&mut admin);
    let namespace = 1 << 32;
    assert_eq!(rig.reply(&mut admin, event), Some((Status::SUCCESS, namespace | 0xbf_ef02)));
    let (_, page) = log(&mut rig, &mut admin, LogPage::ChangedZones, COMMAND_SET_ZONED, 4096);
    assert_eq!((page[0], &page[8..16], &page[16..24]), (2, &[0; 8][..], &SIZE.to_le_bytes()[..]));
    let (_, page) = log(&mut rig, &mut admin, LogPage::ChangedZones, COMMAND_SET_ZONED, 4096);
    assert_eq!(page, [0; 4096], "it is read once");
    assert_eq!(write(&mut rig, &mut host, 1, 1), Status::ZONE_IS_READ_ONLY.dnr());
    assert_eq!(versions(&mut rig, &mut host, 0, 1), [1]);
    assert_eq!(append(&mut rig, &mut host, SIZE, 1, 1).0, Status::ZONE_IS_OFFLINE.dnr());
    assert_eq!(read(&mut rig, &mut host, SIZE, 1).0, Status::ZONE_IS_OFFLINE.dnr());
    assert_eq!(act(&mut rig, &mut host, 0, ZoneAction::Offline), Status::SUCCESS);
    assert_eq!(read(&mut rig, &mut host, 0, 1).0, Status::ZONE_IS_OFFLINE.dnr());
    let states: Vec<u8> =
        report(&mut rig, &mut host, 0, 0, 3).1.iter().map(|one| one.state >> 4).collect();
    assert_eq!(states, [0xf, 0xf, EMPTY]);
}
