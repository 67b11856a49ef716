//! An array: several drives in one virtual time, as Linux md puts them together.
//!
//! `array/layout.rs` says what a request asks of which member. A member takes commands as from a
//! host of its own: as many at once as its interface carries, those that are due first before the
//! others. What happens next, on whichever member, is served next: so all of them are asked in time
//! order. A request is done when its last command is; its stages are those of the commands that it
//! waited for, and time before a member takes them is the host's.
//!
//! A member that failed is asked nothing; a new one in its place is rebuilt from the others, from
//! its first sector on, while the host's requests go on. Source: md(4); a rebuild reads 64 KiB at a
//! time (`RESYNC_BLOCK_SIZE` of raid1-10.c), 16 of them here (guess: 1 MiB, the pages of md's
//! stripe cache of 256), no faster than asked (`sync_speed_max`). Left out: what `array/layout.rs`
//! names; what a member cannot read is not read from the others; several submission queues.

mod layout;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use drivebay_drive::{
    Completion, Counters, Device, DeviceError, Io, Posted, Reliability, Spec, Stage, Stages,
};
use drivebay_units::{Nanos, SECTOR_BYTES};

use crate::control::Control;
use crate::error::RunError;
use crate::queue_slots::{DEPTH_MAX, NEVER, QueueSlots};
use crate::storage::Storage;
use crate::workload::{Workload, WorkloadError};
use layout::Plan;
pub use layout::{Layout, Level, MEMBERS_MAX, WHOLE};

const REBUILD_SECTORS: u64 = 128;
const REBUILD_DEPTH: usize = 16;
/// No request of a load is longer, 64 MiB: the array cuts it.
const REQUEST_SECTORS: u32 = 1 << 17;
/// Steps of a rebuild between two looks at whether it is cancelled.
const STEPS: u32 = 1 << 16;

/// When a command is due, its number among those of the same time, and which one of which request
/// it is.
type Due = (Nanos, u64, usize, usize);

struct Member {
    device: Device,
    /// Up to which sector its data is good; none if it has failed.
    good: Option<u64>,
    slots: QueueSlots,
    /// By slot: the request that it serves, and when the command was due.
    serves: Vec<(usize, Nanos)>,
    waiting: BinaryHeap<Reverse<Due>>,
    /// Commands that were not served, and completions that are still to come.
    unserved: usize,
    completions: BinaryHeap<Reverse<Nanos>>,
}

impl Member {
    /// When it can be given its next command.
    fn next_submission(&self) -> Nanos {
        self.waiting.peek().map_or(NEVER, |Reverse((at, ..))| self.slots.first().1.max(*at))
    }
}

/// A request under way: the host's by their tags, then those of a rebuild.
#[derive(Default)]
struct Request {
    io: Option<Io>,
    submitted: Nanos,
    /// Commands that it waits for.
    left: usize,
    /// When the last one of these was done so far, and its stages.
    latest: Nanos,
    slowest: Stages,
    /// Of the commands before them.
    stages: Stages,
    plan: Plan,
    media_error: bool,
}

/// How far the rebuild of a member is.
struct Rebuild {
    member: usize,
    next: u64,
    /// By request: its first sector, if it is under way, and when it was done.
    pieces: [(Option<u64>, Nanos); REBUILD_DEPTH],
    /// The rate does not allow the next one before.
    due: Nanos,
}

/// What happens next.
#[derive(Clone, Copy)]
enum Event {
    Arrival(usize),
    Submission(usize),
    Rebuild,
}

/// Drives as one, for loads and rebuilds.
pub struct Array {
    /// What the host sees: the first member's, but for capacity and queues.
    spec: Spec,
    layout: Layout,
    members: Vec<Member>,
    /// `good` of each.
    standing: Vec<Option<u64>>,
    requests: Vec<Request>,
    rebuild: Option<Rebuild>,
    rebuild_pauses: bool,
    /// Least time of a piece of a rebuild.
    piece: Nanos,
    member_sectors: u64,
    number: u64,
    now: Nanos,
}

impl Array {
    /// An array of drives; the data of each is good up to a sector, [`WHOLE`] or none, and a member
    /// that is not whole is rebuilt at so many bytes a second at most.
    ///
    /// # Errors
    /// As [`Layout::check`].
    pub fn new(
        layout: Layout,
        devices: Vec<Device>,
        standing: Vec<Option<u64>>,
        rebuild_rate: Option<f64>,
    ) -> Result<Array, WorkloadError> {
        layout.check(&standing)?;
        let now = devices.iter().map(Device::now).max().unwrap_or_default();
        let least = devices.iter().map(|device| device.spec().geometry.user_sectors).min();
        let member_sectors = least.unwrap_or(0) / layout.chunk * layout.chunk;
        let mut spec = devices[0].spec().clone();
        spec.geometry.user_sectors = layout.sectors(member_sectors);
        spec.queue_depth_max = DEPTH_MAX as u32;
        spec.host_interface.queues_max = 1;
        spec.host_interface.commands_max = None;
        spec.host.transfer_max = REQUEST_SECTORS;
        let member = |(mut device, &good): (Device, &Option<u64>)| {
            device.idle_until(now);
            let depth = device.spec().queue_depth_max.min(DEPTH_MAX as u32) as usize;
            Member {
                device,
                good,
                slots: QueueSlots::new(depth, now),
                serves: vec![(0, now); depth],
                waiting: BinaryHeap::new(),
                unserved: 0,
                completions: BinaryHeap::new(),
            }
        };
        let members = devices.into_iter().zip(&standing).map(member).collect();
        let piece_bytes = (REBUILD_SECTORS * SECTOR_BYTES) as f64;
        let mut array = Array {
            spec,
            layout,
            members,
            standing,
            requests: (0..DEPTH_MAX + REBUILD_DEPTH).map(|_| Request::default()).collect(),
            rebuild: None,
            rebuild_pauses: false,
            piece: rebuild_rate
                .map_or(Nanos::ZERO, |rate| Nanos((piece_bytes / rate * 1e9) as u64)),
            member_sectors,
            number: 0,
            now,
        };
        array.rebuild_next();
        Ok(array)
    }

    /// The drives, and up to where the data of each is good.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Device>, Vec<Option<u64>>) {
        (self.members.into_iter().map(|member| member.device).collect(), self.standing)
    }

    /// Refuses jobs that an array cannot be asked.
    pub(crate) fn check(&self, jobs: &[(Workload, u64)]) -> Result<(), WorkloadError> {
        let trims = jobs.iter().map(|(job, _)| job.trim_percent).find(|&percent| percent > 0.0);
        match trims {
            // Of members' zeros after a trim md is sure only by `devices_handle_discard_safely`.
            Some(percent) if self.layout.parities() > 0 => {
                let allowed = "0 on parity: md discards nothing there";
                Err(WorkloadError::refused("trim_percent", &percent, allowed))
            }
            _ => Ok(()),
        }
    }

    /// Rebuilds members that are not whole, with nothing else to do; returns the time that it took.
    ///
    /// # Errors
    /// [`RunError`]
    pub fn rebuild(&mut self, control: &Control) -> Result<Nanos, RunError> {
        let start = self.now;
        let mut steps = 0;
        while self.rebuild.is_some() {
            self.serve()?;
            steps = (steps + 1) % STEPS;
            if steps == 0 && control.cancelled() {
                return Err(RunError::Cancelled);
            }
        }
        let ends = self.requests[DEPTH_MAX..].iter().map(|request| request.latest);
        let end = ends.max().unwrap_or(start).max(start);
        self.idle_until(end);
        Ok(end.since(start))
    }

    /// Begins with the next member that is to be rebuilt, if any.
    fn rebuild_next(&mut self) {
        let to_do = |good: &Option<u64>| good.is_some_and(|sector| sector != WHOLE);
        self.rebuild = self.standing.iter().position(to_do).map(|member| Rebuild {
            member,
            next: self.standing[member].unwrap_or(0),
            pieces: [(None, self.now); REBUILD_DEPTH],
            due: self.now,
        });
    }

    /// When the next piece of a rebuild begins.
    fn next_piece(&self) -> Nanos {
        let Some(rebuild) = &self.rebuild else { return NEVER };
        let free = rebuild.pieces.iter().filter(|(sector, _)| sector.is_none());
        let at = free.map(|(_, done)| *done).min();
        let none = self.rebuild_pauses || rebuild.next >= self.member_sectors;
        at.filter(|_| !none).map_or(NEVER, |at| at.max(rebuild.due).max(self.now))
    }

    fn begin_piece(&mut self, at: Nanos) {
        let rebuild = self.rebuild.as_mut().expect("a rebuild goes on");
        let free = |(_, piece): &(usize, &(Option<u64>, Nanos))| piece.0.is_none();
        let all = rebuild.pieces.iter().enumerate().filter(free);
        let (piece, _) = all.min_by_key(|(_, piece)| piece.1).expect("a piece is free");
        let lba = rebuild.next;
        let sectors = REBUILD_SECTORS.min(self.member_sectors - lba) as u32;
        rebuild.next += u64::from(sectors);
        rebuild.pieces[piece].0 = Some(lba);
        rebuild.due = rebuild.due.max(at).after(self.piece);
        let member = rebuild.member;
        let of = DEPTH_MAX + piece;
        let mut plan = std::mem::take(&mut self.requests[of].plan);
        self.layout.plan_rebuild(member, lba, sectors, &self.standing, &mut plan);
        self.begin(of, at, None, plan);
    }

    /// A piece of a rebuild is done.
    fn end_piece(&mut self, piece: usize, done: Nanos) {
        let rebuild = self.rebuild.as_mut().expect("a rebuild goes on");
        rebuild.pieces[piece] = (None, done);
        let under_way = rebuild.pieces.iter().filter_map(|(sector, _)| *sector).min();
        let good = under_way.unwrap_or(rebuild.next);
        let ends = good >= self.member_sectors;
        let member = rebuild.member;
        self.members[member].good = Some(if ends { WHOLE } else { good });
        self.standing[member] = self.members[member].good;
        if ends {
            self.rebuild_next();
        }
    }

    /// A request begins, with what it asks of members first.
    fn begin(&mut self, of: usize, at: Nanos, io: Option<Io>, mut plan: Plan) {
        plan.cut(|member| self.members[member].device.spec().host.transfer_max);
        self.requests[of] = Request { io, submitted: at, latest: at, plan, ..Request::default() };
        self.ask(of, at);
    }

    /// The commands that a request asks first are due.
    fn ask(&mut self, of: usize, at: Nanos) {
        let request = &mut self.requests[of];
        request.left = request.plan.first.len();
        for (which, &(member, _)) in request.plan.first.iter().enumerate() {
            self.members[member].waiting.push(Reverse((at, self.number, of, which)));
            self.number += 1;
        }
    }

    fn next(&self) -> (Nanos, Event) {
        let mut next = (self.next_piece(), Event::Rebuild);
        for (number, member) in self.members.iter().enumerate() {
            let (arrival, submission) = (member.device.next_arrival(), member.next_submission());
            if arrival.min(submission) < next.0 {
                let serves = arrival <= submission;
                let event = if serves { Event::Arrival(number) } else { Event::Submission(number) };
                next = (arrival.min(submission), event);
            }
        }
        next
    }

    /// Gives a member its next command, at the time of `next_submission`.
    fn submit(&mut self, number: usize, at: Nanos) -> Result<Option<Completion>, DeviceError> {
        let member = &mut self.members[number];
        let Reverse((due, _, of, which)) = member.waiting.pop().expect("a command waits");
        let (slot, _) = member.slots.first();
        member.slots.take(slot);
        member.serves[slot] = (of, due);
        member.unserved += 1;
        let (_, io) = self.requests[of].plan.first[which];
        member.device.accept(at, io, slot as u32, Nanos::ZERO)
    }

    /// A member has served a command; the host's request, if that was its last.
    fn count(&mut self, number: usize, served: Completion) -> Option<Completion> {
        let member = &mut self.members[number];
        let slot = served.tag as usize;
        let (of, due) = member.serves[slot];
        member.slots.set(slot, served.done);
        member.unserved -= 1;
        member.completions.push(Reverse(served.done));
        let request = &mut self.requests[of];
        request.media_error |= served.media_error;
        if served.done >= request.latest {
            request.latest = served.done;
            request.slowest = served.stages;
            request.slowest.add(Stage::Host, served.submitted.since(due));
        }
        request.left -= 1;
        if request.left > 0 {
            return None;
        }
        for (sum, ns) in request.stages.0.iter_mut().zip(request.slowest.0) {
            *sum += ns;
        }
        let done = request.latest;
        if !request.plan.then.is_empty() {
            let Plan { first, then } = &mut request.plan;
            std::mem::swap(first, then);
            then.clear();
            self.ask(of, done);
            return None;
        }
        let Request { io, submitted, stages, media_error, .. } = *request;
        let Some(io) = io else {
            self.end_piece(of - DEPTH_MAX, done);
            return None;
        };
        Some(Completion { tag: of as u32, io, submitted, done, stages, media_error })
    }
}

impl Storage for Array {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn now(&self) -> Nanos {
        self.now
    }

    /// Sums; of temperature and throttling the highest.
    fn counters(&self) -> Counters {
        let each = self.members.iter().map(|member| member.device.counters());
        each.reduce(added).expect("an array has members")
    }

    /// All members' peaks together: what they would take if these came at once.
    fn take_peak_power_w(&mut self) -> f64 {
        self.members.iter_mut().map(|member| member.device.take_peak_power_w()).sum()
    }

    /// What is under way is served; a rebuild goes on with the next load.
    fn idle_until(&mut self, until: Nanos) {
        self.rebuild_pauses = true;
        while self.next_arrival() < NEVER {
            // A member that is worn out ended the load before.
            let _ = self.serve();
        }
        self.rebuild_pauses = false;
        self.now = self.now.max(until);
        for member in &mut self.members {
            member.device.idle_until(self.now);
        }
    }

    fn one(&mut self) -> Option<&mut Device> {
        None
    }

    fn prefetch(&self, _lba: u64) {}

    fn fetch_free_at(&self) -> Nanos {
        Nanos::ZERO
    }

    fn post(&mut self, _queue: usize, now: Nanos) -> Posted {
        Posted { at: now, ready: now }
    }

    fn fetch(&mut self, posted: Posted, room: Nanos, io: Io, tag: u32) -> Result<(), DeviceError> {
        self.accept(posted.ready.max(room), io, tag)
    }

    fn accept(&mut self, now: Nanos, io: Io, tag: u32) -> Result<(), DeviceError> {
        self.now = now;
        for member in &mut self.members {
            while member.completions.peek().is_some_and(|Reverse(done)| *done <= now) {
                member.completions.pop();
            }
        }
        let pending = |member: usize| {
            let Member { waiting, unserved, completions, .. } = &self.members[member];
            waiting.len() + unserved + completions.len()
        };
        let mut plan = std::mem::take(&mut self.requests[tag as usize].plan);
        self.layout.plan(io, &self.standing, pending, &mut plan);
        self.begin(tag as usize, now, Some(io), plan);
        Ok(())
    }

    fn next_arrival(&self) -> Nanos {
        self.next().0
    }

    fn serve(&mut self) -> Result<Option<Completion>, DeviceError> {
        let (at, event) = self.next();
        self.now = self.now.max(at);
        let (member, served) = match event {
            Event::Arrival(member) => (member, self.members[member].device.serve()?),
            Event::Submission(member) => (member, self.submit(member, at)?),
            Event::Rebuild => {
                self.begin_piece(at);
                return Ok(None);
            }
        };
        Ok(served.and_then(|served| self.count(member, served)))
    }
}

fn added(a: Counters, b: Counters) -> Counters {
    let (x, y) = (a.reliability, b.reliability);
    Counters {
        commands: a.commands + b.commands,
        host_pages: a.host_pages + b.host_pages,
        placed_pages: a.placed_pages + b.placed_pages,
        copied_pages: a.copied_pages + b.copied_pages,
        slc_pages: a.slc_pages + b.slc_pages,
        slc_erases: a.slc_erases + b.slc_erases,
        erases: a.erases + b.erases,
        page_reads: a.page_reads + b.page_reads,
        read_bytes: a.read_bytes + b.read_bytes,
        core_busy_ns: a.core_busy_ns + b.core_busy_ns,
        energy_nj: a.energy_nj + b.energy_nj,
        throttled_ns: a.throttled_ns + b.throttled_ns,
        temperature_c: a.temperature_c.max(b.temperature_c),
        throttle_stage: a.throttle_stage.max(b.throttle_stage),
        reliability: Reliability {
            retried_reads: x.retried_reads + y.retried_reads,
            retries: x.retries + y.retries,
            media_errors: x.media_errors + y.media_errors,
            refreshes: x.refreshes + y.refreshes,
            failed_blocks: x.failed_blocks + y.failed_blocks,
            spare_blocks: x.spare_blocks + y.spare_blocks,
            retired_superblocks: x.retired_superblocks + y.retired_superblocks,
            read_only: x.read_only || y.read_only,
        },
        map: a.map,
    }
}
