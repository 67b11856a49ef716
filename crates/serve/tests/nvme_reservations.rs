//! Reservations as clusters use them: hosts of several identifiers, over TCP, with hosts of our
//! own.

use drivebay_serve::Control as _;
use drivebay_wire::nvme::{
    Digests, ErrorEntry, Feature, LogPage, RegisteredController, ReservationNotice,
    ReservationNotification, ReservationReport, ReservationType, Sqe, Status,
};
use zerocopy::FromBytes;

use crate::nvme_host::{self, Host, NQN, Rig};

const REGISTER: u8 = 0x0d;
const REPORT: u8 = 0x0e;
const ACQUIRE: u8 = 0x11;
const RELEASE: u8 = 0x15;
const IGNORE_KEY: u32 = 1 << 3;
const PERSISTS: u32 = 3 << 30;
const CONFLICT: Status = Status::RESERVATION_CONFLICT;

/// A computer with an admin queue and an I/O queue.
struct Computer {
    admin: Host,
    io: Host,
    id: [u8; 16],
    key: u64,
}

fn computer(rig: &mut Rig, number: u8) -> Computer {
    let id = [number; 16];
    let queue = |rig: &mut Rig, queue: u16, controller: u16| {
        let mut host = rig.open(Digests::default());
        host.id = id;
        let controller = rig.connect_to(&mut host, NQN, queue, controller).expect("a queue");
        if queue == 0 {
            rig.enable(&mut host);
        }
        (host, controller)
    };
    let (admin, controller) = queue(rig, 0, 0xffff);
    let (io, _) = queue(rig, 1, controller);
    Computer { admin, io, id, key: 0x1000 + u64::from(number) }
}

fn computers<const N: usize>() -> (Rig, [Computer; N]) {
    let mut rig = Rig::new();
    let all = std::array::from_fn(|number| computer(&mut rig, number as u8 + 1));
    (rig, all)
}

impl Computer {
    fn command(&mut self, rig: &mut Rig, opcode: u8, cdw10: u32, keys: &[u64]) -> Status {
        let data: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
        let sqe = Sqe { opcode, nsid: 1.into(), cdw10: cdw10.into(), ..Sqe::default() };
        rig.io(&mut self.io, sqe, data.len() as u32, &data).0.without_dnr()
    }

    fn register(&mut self, rig: &mut Rig) {
        let key = self.key;
        assert_eq!(self.command(rig, REGISTER, 0, &[0, key]), Status::SUCCESS);
    }

    fn acquire(&mut self, rig: &mut Rig, kind: ReservationType) -> Status {
        let key = self.key;
        self.command(rig, ACQUIRE, (kind as u32) << 8, &[key, 0])
    }

    fn preempt(&mut self, rig: &mut Rig, kind: ReservationType, victim: u64) -> Status {
        let key = self.key;
        self.command(rig, ACQUIRE, 1 | (kind as u32) << 8, &[key, victim])
    }

    fn release(&mut self, rig: &mut Rig, kind: ReservationType) -> Status {
        let key = self.key;
        self.command(rig, RELEASE, (kind as u32) << 8, &[key])
    }

    fn clear(&mut self, rig: &mut Rig) -> Status {
        let key = self.key;
        self.command(rig, RELEASE, 1, &[key])
    }

    fn write(&mut self, rig: &mut Rig) -> Status {
        rig.io(&mut self.io, nvme_host::io(0x01, 0, 1), 512, &[1; 512]).0.without_dnr()
    }

    fn read(&mut self, rig: &mut Rig) -> Status {
        rig.io(&mut self.io, nvme_host::io(0x02, 0, 1), 512, &[]).0.without_dnr()
    }

    /// Report, and its computers: (byte of the identifier, key, true if it holds the reservation).
    fn report(&mut self, rig: &mut Rig) -> (ReservationReport, Vec<(u8, u64, bool)>) {
        const BYTES: u32 = 64 * 10;
        let cdw10 = (BYTES / 4 - 1).into();
        let sqe = Sqe { opcode: REPORT, nsid: 1.into(), cdw10, cdw11: 1.into(), ..Sqe::default() };
        let (status, page) = rig.io(&mut self.io, sqe, BYTES, &[]);
        assert_eq!(status, Status::SUCCESS);
        let (head, rest) = ReservationReport::read_from_prefix(&page).expect("a head");
        let count = usize::from(head.controllers.get());
        let entries = rest.chunks_exact(64).take(count);
        let entries = entries.map(|one| RegisteredController::read_from_bytes(one).expect("64"));
        (head, entries.map(|one| (one.host[0], one.key.get(), one.status == 1)).collect())
    }

    /// Oldest notice: code of its kind, 0 for none, and the number of further notices.
    fn notice(&mut self, rig: &mut Rig) -> (u8, u8) {
        let cdw10 = (LogPage::ReservationNotification as u32 | 15 << 16).into();
        let sqe = Sqe { opcode: 0x02, cdw10, ..Sqe::default() };
        let (status, _, page) = rig.admin(&mut self.admin, sqe, 64, &[]);
        assert_eq!(status, Status::SUCCESS);
        let one = ReservationNotification::read_from_bytes(&page).expect("64 bytes");
        assert_eq!(one.nsid.get(), u32::from(one.kind != 0));
        (one.kind, one.more)
    }
}

#[test]
fn each_type_lets_through_whom_the_specification_names() {
    use ReservationType as R;
    for &kind in ReservationType::ALL {
        let (mut rig, [mut holder, mut registrant, mut stranger]) = computers();
        holder.register(&mut rig);
        registrant.register(&mut rig);
        for one in [&mut holder, &mut registrant, &mut stranger] {
            assert_eq!(one.write(&mut rig), Status::SUCCESS);
        }
        assert_eq!(holder.acquire(&mut rig, kind), Status::SUCCESS);
        let admitted = match kind {
            R::WriteExclusive | R::ExclusiveAccess => CONFLICT,
            _ => Status::SUCCESS,
        };
        let reads = match kind {
            R::ExclusiveAccess | R::ExclusiveAccessRegistrants | R::ExclusiveAccessAll => CONFLICT,
            _ => Status::SUCCESS,
        };
        assert_eq!(
            (holder.write(&mut rig), holder.read(&mut rig)),
            (Status::SUCCESS, Status::SUCCESS)
        );
        let registrants_reads = if admitted == CONFLICT { reads } else { Status::SUCCESS };
        assert_eq!(
            (registrant.write(&mut rig), registrant.read(&mut rig)),
            (admitted, registrants_reads),
            "{kind:?}"
        );
        assert_eq!(
            (stranger.write(&mut rig), stranger.read(&mut rig)),
            (CONFLICT, reads),
            "{kind:?}"
        );
        // A Format by a host without write access is refused; after the holder's release all may
        // format.
        let format = Sqe { opcode: 0x80, nsid: 1.into(), ..Sqe::default() };
        assert_eq!(rig.admin(&mut stranger.admin, format, 0, &[]).0.without_dnr(), CONFLICT);
        assert_eq!(holder.release(&mut rig, kind), Status::SUCCESS);
        assert_eq!(stranger.write(&mut rig), Status::SUCCESS);
    }
}

#[test]
fn keys_must_be_right() {
    let kind = ReservationType::WriteExclusive;
    let (mut rig, [mut one, mut other]) = computers();
    assert_eq!(one.acquire(&mut rig, kind), CONFLICT);
    assert_eq!(one.command(&mut rig, REGISTER, 0, &[0, 0]), Status::INVALID_FIELD);
    one.register(&mut rig);
    one.register(&mut rig);
    assert_eq!(one.command(&mut rig, REGISTER, 0, &[0, 5]), CONFLICT);
    assert_eq!(one.command(&mut rig, REGISTER, 2, &[4, 5]), CONFLICT);
    assert_eq!(one.command(&mut rig, REGISTER, 2 | IGNORE_KEY, &[4, 5]), Status::SUCCESS);
    assert_eq!(one.acquire(&mut rig, kind), CONFLICT);
    one.key = 5;
    assert_eq!(one.acquire(&mut rig, kind), Status::SUCCESS);
    assert_eq!(one.acquire(&mut rig, kind), Status::SUCCESS);
    assert_eq!(one.acquire(&mut rig, ReservationType::ExclusiveAccess), CONFLICT);
    assert_eq!(one.release(&mut rig, ReservationType::ExclusiveAccess), Status::INVALID_FIELD);
    let ignoring = IGNORE_KEY | (kind as u32) << 8;
    assert_eq!(one.command(&mut rig, RELEASE, ignoring, &[0]), Status::INVALID_FIELD);
    assert_eq!(one.command(&mut rig, ACQUIRE, 7 << 8, &[5, 0]), Status::INVALID_FIELD);
    let errors = Sqe { opcode: 0x02, cdw10: (1 | 15 << 16).into(), ..Sqe::default() };
    let (_, _, page) = rig.admin(&mut one.admin, errors, 64, &[]);
    let error = ErrorEntry::read_from_bytes(&page).expect("64 bytes");
    assert_eq!(error.location.get(), 40, "dword 10");
    assert_eq!(other.command(&mut rig, REGISTER, 1, &[0, 0]), CONFLICT);
    other.register(&mut rig);
    assert_eq!(other.acquire(&mut rig, kind), CONFLICT);
    // A release by a host that is not the holder has no effect.
    assert_eq!(other.release(&mut rig, kind), Status::SUCCESS);
    assert_eq!(other.write(&mut rig), CONFLICT);
    // The holder unregisters, which also ends its reservation.
    assert_eq!(one.command(&mut rig, REGISTER, 1, &[5, 0]), Status::SUCCESS);
    assert_eq!(other.write(&mut rig), Status::SUCCESS);
    let short = Sqe { opcode: REPORT, nsid: 1.into(), cdw10: 15.into(), ..Sqe::default() };
    let status = rig.io(&mut one.io, short, 64, &[]).0;
    assert_eq!(status.without_dnr(), Status::HOST_IDENTIFIER_FORMAT);
}

#[test]
fn preempting_takes_the_reservation_over_and_tells_who_lost_what() {
    let kind = ReservationType::WriteExclusiveRegistrants;
    let (mut rig, [mut a, mut b, mut c]) = computers();
    for one in [&mut a, &mut b, &mut c] {
        one.register(&mut rig);
    }
    assert_eq!(a.acquire(&mut rig, kind), Status::SUCCESS);
    let before = a.report(&mut rig);
    assert_eq!(before.1, [(1, a.key, true), (2, b.key, false), (3, c.key, false)]);
    // Not a holder: its registration is removed, the reservation stays.
    assert_eq!(b.preempt(&mut rig, kind, c.key), Status::SUCCESS);
    assert_eq!(c.notice(&mut rig), (ReservationNotice::RegistrationPreempted as u8, 0));
    assert_eq!(c.notice(&mut rig), (0, 0));
    assert_eq!(b.report(&mut rig).1, [(1, a.key, true), (2, b.key, false)]);
    assert_eq!(b.preempt(&mut rig, kind, c.key), CONFLICT);
    assert_eq!(b.preempt(&mut rig, kind, 0), Status::INVALID_FIELD);
    c.register(&mut rig);
    // The holder: preempted with another type; the remaining registrants get a notice.
    let exclusive = ReservationType::ExclusiveAccess;
    assert_eq!(b.preempt(&mut rig, exclusive, a.key), Status::SUCCESS);
    assert_eq!(a.notice(&mut rig), (ReservationNotice::RegistrationPreempted as u8, 0));
    assert_eq!(c.notice(&mut rig), (ReservationNotice::Released as u8, 0));
    assert_eq!(b.notice(&mut rig), (0, 0));
    let (head, entries) = b.report(&mut rig);
    assert_eq!((head.kind, entries), (exclusive as u8, vec![(2, b.key, true), (3, c.key, false)]));
    assert!(head.generation.get() > before.0.generation.get());
    assert_eq!(
        (a.read(&mut rig), c.read(&mut rig), b.read(&mut rig)),
        (CONFLICT, CONFLICT, Status::SUCCESS)
    );
    // A clear; a mask keeps its notice from a host that does not want it.
    let set = Sqe {
        opcode: 0x09,
        cdw10: (Feature::ReservationMask as u32).into(),
        cdw11: (1 << ReservationNotice::Preempted as u32).into(),
        ..Sqe::default()
    };
    a.register(&mut rig);
    assert_eq!(rig.admin(&mut a.admin, set, 0, &[]).0, Status::SUCCESS);
    assert_eq!(b.clear(&mut rig), Status::SUCCESS);
    assert_eq!(c.notice(&mut rig), (ReservationNotice::Preempted as u8, 0));
    assert_eq!(a.notice(&mut rig), (0, 0));
    assert_eq!((c.write(&mut rig), b.report(&mut rig).1), (Status::SUCCESS, vec![]));
}

#[test]
fn what_all_registrants_hold_ends_with_the_last() {
    let kind = ReservationType::ExclusiveAccessAll;
    let (mut rig, [mut a, mut b, mut stranger]) = computers();
    a.register(&mut rig);
    b.register(&mut rig);
    assert_eq!(a.acquire(&mut rig, kind), Status::SUCCESS);
    assert_eq!(b.acquire(&mut rig, kind), Status::SUCCESS);
    assert_eq!(b.report(&mut rig).1, [(1, a.key, true), (2, b.key, true)]);
    let key = a.key;
    assert_eq!(a.command(&mut rig, REGISTER, 1, &[key, 0]), Status::SUCCESS);
    assert_eq!((a.read(&mut rig), b.read(&mut rig)), (CONFLICT, Status::SUCCESS));
    a.register(&mut rig);
    // A key of 0 means all others.
    assert_eq!(a.preempt(&mut rig, ReservationType::WriteExclusive, 0), Status::SUCCESS);
    assert_eq!(a.report(&mut rig).1, [(1, a.key, true)]);
    assert_eq!((b.write(&mut rig), b.read(&mut rig)), (CONFLICT, Status::SUCCESS));
    assert_eq!(a.command(&mut rig, REGISTER, 1, &[key, 0]), Status::SUCCESS);
    assert_eq!(stranger.write(&mut rig), Status::SUCCESS);
}

#[test]
fn hosts_are_told_by_an_event_and_have_their_registration_when_they_come_again() {
    let kind = ReservationType::WriteExclusive;
    let (mut rig, [mut a, mut b]) = computers();
    a.register(&mut rig);
    b.register(&mut rig);
    assert_eq!(a.acquire(&mut rig, kind), Status::SUCCESS);
    let wait = Sqe { opcode: 0x0c, ..Sqe::default() };
    let cid = rig.post(&mut a.admin, wait, 0, &[]);
    rig.tick(&mut a.admin);
    assert_eq!(rig.reply(&mut a.admin, cid), None);
    assert_eq!(b.preempt(&mut rig, kind, a.key), Status::SUCCESS);
    rig.tick(&mut a.admin);
    // Event of the NVM command set, "reservation log page available".
    assert_eq!(rig.reply(&mut a.admin, cid), Some((Status::SUCCESS, 6 | 0x80 << 16)));
    // Another controller of the host, at another time.
    let mut again = computer(&mut rig, b.id[0]);
    assert_eq!((again.write(&mut rig), a.write(&mut rig)), (Status::SUCCESS, CONFLICT));
    assert_eq!(a.report(&mut rig).1.len(), 2);
}

#[test]
fn a_power_cut_takes_what_does_not_persist() {
    let kind = ReservationType::WriteExclusive;
    for persists in [false, true] {
        let (mut rig, [mut a, mut b]) = computers();
        let how = if persists { PERSISTS } else { 0 };
        let key = a.key;
        assert_eq!(a.command(&mut rig, REGISTER, how, &[0, key]), Status::SUCCESS);
        assert_eq!(a.acquire(&mut rig, kind), Status::SUCCESS);
        assert_eq!(a.report(&mut rig).0.persists, u8::from(persists));
        let get = Sqe {
            opcode: 0x0a,
            nsid: 1.into(),
            cdw10: (Feature::ReservationPersistence as u32).into(),
            ..Sqe::default()
        };
        let (status, value, _) = rig.admin(&mut a.admin, get, 0, &[]);
        assert_eq!((status, value), (Status::SUCCESS, u64::from(persists)));
        assert_eq!(b.write(&mut rig), CONFLICT);
        rig.engine.power_cut().expect("memory");
        rig.engine.power_on();
        let mut b = computer(&mut rig, b.id[0]);
        let after = if persists { CONFLICT } else { Status::SUCCESS };
        assert_eq!(b.write(&mut rig), after);
        assert_eq!(b.report(&mut rig).1.len(), usize::from(persists));
    }
}
