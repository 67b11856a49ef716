//! Asymmetric Namespace Access: two portals of one drive, whose states are set while hosts use
//! them.

use crate::nvme_host::{self, Host, NQN, Rig};
use drivebay_serve::{AccessState, Control as _, ControlError};
use drivebay_wire::nvme::{
    AccessGroup, AccessLog, Cns, DISCOVERY_NQN, Digests, Feature, IdentifyController,
    IdentifyNamespace, Sqe, Status,
};
use zerocopy::FromBytes;

const BYTES: u32 = 4096;
const INACCESSIBLE: Status = Status::ASYMMETRIC_ACCESS_INACCESSIBLE;
const LOST: Status = Status::ASYMMETRIC_ACCESS_PERSISTENT_LOSS;
const CHANGES: Status = Status::ASYMMETRIC_ACCESS_TRANSITION;

/// Host of one path: its admin queue and an I/O queue.
struct Path {
    admin: Host,
    io: Host,
}

impl Path {
    fn at(rig: &mut Rig, port: u16) -> Path {
        rig.port = port;
        let admin = rig.connect(0, Digests::default());
        Path { admin, io: rig.connect(1, Digests::default()) }
    }

    fn read(&mut self, rig: &mut Rig) -> (Status, Vec<u8>) {
        rig.io(&mut self.io, nvme_host::io(0x02, 8, 8), BYTES, &[])
    }

    fn write(&mut self, rig: &mut Rig, byte: u8) -> Status {
        rig.io(&mut self.io, nvme_host::io(0x01, 8, 8), BYTES, &[byte; BYTES as usize]).0
    }

    /// Header, group and namespaces of the access log.
    fn log(&mut self, rig: &mut Rig, specific: u32) -> (AccessLog, AccessGroup, Vec<u8>) {
        let sqe =
            Sqe { opcode: 0x02, cdw10: (0x0c | specific | 15 << 16).into(), ..Sqe::default() };
        let (status, _, page) = rig.admin(&mut self.admin, sqe, 64, &[]);
        assert_eq!(status, Status::SUCCESS);
        let (log, rest) = AccessLog::read_from_prefix(&page).unwrap();
        let (group, rest) = AccessGroup::read_from_prefix(rest).unwrap();
        (log, group, rest.to_vec())
    }

    fn command(&mut self, rig: &mut Rig, sqe: Sqe) -> Status {
        rig.admin(&mut self.admin, sqe, 0, &[]).0
    }
}

fn set_feature(feature: Feature, nsid: u32, value: u32) -> Sqe {
    let (cdw10, cdw11) = ((feature as u32).into(), value.into());
    Sqe { opcode: 0x09, nsid: nsid.into(), cdw10, cdw11, ..Sqe::default() }
}

fn two_paths() -> (Rig, [Path; 2]) {
    let mut rig = Rig::with_portals(&[4420, 4421]);
    let paths = [4420, 4421].map(|port| Path::at(&mut rig, port));
    (rig, paths)
}

#[test]
fn hosts_see_the_paths_of_a_drive_with_two_portals() {
    let (mut rig, [mut first, _second]) = two_paths();
    let id = rig.identify(&mut first.admin, Cns::Controller);
    let id = IdentifyController::read_from_bytes(&id).unwrap();
    assert_eq!((id.cmic, id.anacap, id.anatt), (0b1011, 0x5f, 10));
    assert_eq!((id.anagrpmax.get(), id.nanagrpid.get(), id.mnan.get()), (1, 1, id.nn.get()));
    assert_eq!(id.oaes.get() & 1 << 11, 1 << 11);
    let id = rig.identify(&mut first.admin, Cns::Namespace);
    let id = IdentifyNamespace::read_from_bytes(&id).unwrap();
    assert_eq!((id.nmic, id.anagrpid.get()), (1, 1));
    let (log, group, namespaces) = first.log(&mut rig, 0);
    assert_eq!((log.changes.get(), log.groups.get()), (0, 1));
    assert_eq!((group.id.get(), group.namespaces.get(), group.state), (1, 1, 1));
    assert_eq!(namespaces[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    // Groups only.
    let (_, group, namespaces) = first.log(&mut rig, 1 << 8);
    assert_eq!((group.namespaces.get(), namespaces[0]), (0, 0));
}

#[test]
fn a_drive_with_one_portal_has_no_paths() {
    let mut rig = Rig::new();
    let mut path = Path::at(&mut rig, 4420);
    let id = rig.identify(&mut path.admin, Cns::Controller);
    let id = IdentifyController::read_from_bytes(&id).unwrap();
    assert_eq!((id.cmic, id.anacap, id.anagrpmax.get()), (0b10, 0, 0));
    let log = Sqe { opcode: 0x02, cdw10: (0x0c | 15 << 16).into(), ..Sqe::default() };
    assert_eq!(rig.admin(&mut path.admin, log, 64, &[]).0, Status::INVALID_LOG_PAGE.dnr());
    let refused = rig.engine.set_access(1, AccessState::Change);
    assert!(matches!(refused, Err(ControlError::Portal(1))));
}

#[test]
fn the_discovery_log_lists_each_portal() {
    let mut rig = Rig::with_portals(&[4420, 4421]);
    let mut host = rig.open(Digests::default());
    rig.connect_to(&mut host, DISCOVERY_NQN, 0, 0xffff).expect("a discovery controller");
    rig.enable(&mut host);
    let sqe = Sqe { opcode: 0x02, cdw10: (0x70 | 1023 << 16).into(), ..Sqe::default() };
    let (status, _, log) = rig.admin(&mut host, sqe, 4096, &[]);
    assert_eq!((status, log[8]), (Status::SUCCESS, 2));
    for (entry, (number, service)) in log[1024..].chunks(1024).zip([(1, b"4420"), (2, b"4421")]) {
        assert_eq!(
            (u16::from_le_bytes([entry[4], entry[5]]), &entry[32..36]),
            (number, &service[..])
        );
    }
}

#[test]
fn a_path_without_access_refuses_io_and_the_other_one_has_the_data() {
    let (mut rig, [mut first, mut second]) = two_paths();
    assert_eq!(first.write(&mut rig, 7), Status::SUCCESS);
    assert_eq!(first.log(&mut rig, 0).0.changes.get(), 0);
    use AccessState as A;
    for (state, status) in [
        (A::Inaccessible, INACCESSIBLE),
        (A::PersistentLoss, LOST),
        (A::Change, CHANGES),
        (A::NonOptimized, Status::SUCCESS),
        (A::Optimized, Status::SUCCESS),
    ] {
        rig.engine.set_access(1, state).expect("two portals");
        assert_eq!(first.read(&mut rig).0, status);
        assert_eq!(first.write(&mut rig, 7), status);
        let flush = Sqe { opcode: 0x00, nsid: u32::MAX.into(), ..Sqe::default() };
        assert_eq!(rig.io(&mut first.io, flush, 0, &[]).0, status);
        assert_eq!(second.read(&mut rig), (Status::SUCCESS, vec![7; BYTES as usize]));
        assert_eq!(first.log(&mut rig, 0).1.state, state as u8);
        assert_eq!(second.log(&mut rig, 0).1.state, A::Optimized as u8);
    }
    assert_eq!(first.log(&mut rig, 0).0.changes.get(), 5);
    // A reset begins to count again.
    rig.configure(&mut first.admin, 0);
    rig.enable(&mut first.admin);
    assert_eq!(first.log(&mut rig, 0).0.changes.get(), 0);
}

#[test]
fn a_new_state_is_an_event_on_its_path_until_the_log_is_read() {
    let (mut rig, [mut first, mut second]) = two_paths();
    let requests = [&mut first, &mut second].map(|path| {
        let enable = set_feature(Feature::AsyncEvents, 0, 1 << 11);
        assert_eq!(path.command(&mut rig, enable), Status::SUCCESS);
        rig.post(&mut path.admin, Sqe { opcode: 0x0c, ..Sqe::default() }, 0, &[])
    });
    rig.engine.set_access(2, AccessState::NonOptimized).expect("two portals");
    for path in [&mut first, &mut second] {
        rig.tick(&mut path.admin);
    }
    assert_eq!(rig.reply(&mut first.admin, requests[0]), None);
    assert_eq!(rig.reply(&mut second.admin, requests[1]), Some((Status::SUCCESS, 0x0c_0302)));
    let again = rig.post(&mut second.admin, Sqe { opcode: 0x0c, ..Sqe::default() }, 0, &[]);
    rig.engine.set_access(2, AccessState::Optimized).expect("two portals");
    rig.tick(&mut second.admin);
    assert_eq!(rig.reply(&mut second.admin, again), None);
    assert_eq!(second.log(&mut rig, 0).1.state, 1);
    assert_eq!(rig.reply(&mut second.admin, again).unwrap().1, 0x0c_0302);
}

#[test]
fn admin_commands_of_a_path_without_access_end_as_the_specification_says() {
    let (mut rig, [mut first, _second]) = two_paths();
    let format = Sqe { opcode: 0x80, nsid: 1.into(), ..Sqe::default() };
    let recovery = |opcode| Sqe { opcode, cdw10: 5.into(), ..Sqe::default() };
    let of_all = set_feature(Feature::AsyncEvents, u32::MAX, 0);
    let of_one = set_feature(Feature::AsyncEvents, 1, 0);
    let of_controller = set_feature(Feature::AsyncEvents, 0, 0);
    let mut saved = set_feature(Feature::Timestamp, 0, 0);
    saved.cdw10 = (saved.cdw10.get() | 1 << 31).into();
    let done = Status::SUCCESS;
    for (state, status, of_one_ends) in [
        (AccessState::NonOptimized, done, done),
        (AccessState::Inaccessible, INACCESSIBLE, done),
        (AccessState::Change, CHANGES, done),
        (AccessState::PersistentLoss, LOST, LOST),
    ] {
        rig.engine.set_access(1, state).expect("two portals");
        for sqe in [format, recovery(0x09), recovery(0x0a), of_all] {
            assert_eq!(first.command(&mut rig, sqe), status, "{state:?} {sqe:?}");
        }
        assert_eq!(first.command(&mut rig, of_one), of_one_ends);
        assert_eq!(first.command(&mut rig, of_controller), done);
        let save_ends = if status == done { done } else { Status::FEATURE_NOT_SAVEABLE.dnr() };
        assert_eq!(rig.admin(&mut first.admin, saved, 8, &[0; 8]).0, save_ends);
        let id = rig.identify(&mut first.admin, Cns::Namespace);
        let id = IdentifyNamespace::read_from_bytes(&id).unwrap();
        let hides = matches!(state, AccessState::Inaccessible | AccessState::PersistentLoss);
        assert_eq!((id.nsze.get() > 0, id.nvmcap.get() > 0), (true, !hides));
    }
}

#[test]
fn a_controller_belongs_to_one_portal() {
    let mut rig = Rig::with_portals(&[4420, 4421]);
    let _admin = rig.connect(0, Digests::default());
    rig.port = 4421;
    let mut host = rig.open(Digests::default());
    let controller = rig.controller();
    let refused = rig.connect_to(&mut host, NQN, 1, controller);
    assert_eq!(refused, Err(Status::CONNECT_INVALID_PARAMETERS.dnr()));
}
