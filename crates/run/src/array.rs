//! An array of several drives in one virtual time, organized like a Linux md array.
//!
//! `array/layout.rs` maps requests to commands of the members. Each member has its own queue of
//! commands: the earliest due command goes first, and at most as many are outstanding as the
//! member's interface carries. The array always serves the earliest event of all members, so every
//! member is called in time order. A request completes with its last command. Its stages are the
//! sums over its steps of the command that completed last; the wait before a member takes that
//! command counts as host time.
//!
//! A failed member gets no commands. Its replacement is rebuilt from the other members, starting at
//! the first sector, while host requests continue. Source: md(4); a rebuild reads 64 KiB at a time
//! (`RESYNC_BLOCK_SIZE` of raid1-10.c), with 16 reads outstanding here (guess: 1 MiB, the pages of
//! md's stripe cache of 256), limited to a given rate (`sync_speed_max`). Left out: the items
//! listed in `array/layout.rs`; reading from other members after a media error; several submission
//! queues.

mod layout;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use drivebay_drive::{
    Completion, Counters, Device, DeviceError, Io, Posted, Reliability, Spec, Stage, Stages,
};
use drivebay_units::{Nanos, SECTOR_BYTES, refuse_if};

use crate::control::Control;
use crate::error::RunError;
use crate::queue_slots::{DEPTH_MAX, NEVER, QueueSlots};
use crate::storage::Storage;
use crate::workload::{Workload, WorkloadError};
use layout::Plan;
pub use layout::{Layout, Level, MEMBERS_MAX, WHOLE};

const REBUILD_SECTORS: u64 = 128;
const REBUILD_DEPTH: usize = 16;
/// Longest request of a workload, 64 MiB; the array splits it into commands.
const REQUEST_SECTORS: u32 = 1 << 17;
/// Steps of a rebuild between two checks for cancellation.
const STEPS: u32 = 1 << 16;

/// Due time of a command, a sequence number that breaks ties, its request, and its index in the
/// request's plan.
type Due = (Nanos, u64, usize, usize);

struct Member {
    device: Device,
    /// End of the sectors with valid data; `None` if the member has failed.
    good: Option<u64>,
    slots: QueueSlots,
    /// Per slot: the request of the command, and the time when the command was due.
    serves: Vec<(usize, Nanos)>,
    waiting: BinaryHeap<Reverse<Due>>,
    /// Submitted commands that are not served yet, and completion times that lie in the future.
    unserved: usize,
    completions: BinaryHeap<Reverse<Nanos>>,
}

impl Member {
    /// Returns the time of the member's next submission.
    fn next_submission(&self) -> Nanos {
        self.waiting.peek().map_or(NEVER, |Reverse((at, ..))| self.slots.first().1.max(*at))
    }
}

/// A request under way. The host's requests come first, indexed by tag, then those of a rebuild.
#[derive(Default)]
struct Request {
    io: Option<Io>,
    submitted: Nanos,
    /// Outstanding commands of the current step.
    left: usize,
    /// Latest completion of the current step so far, and the stages of that command.
    latest: Nanos,
    slowest: Stages,
    /// Stages of the finished steps.
    stages: Stages,
    plan: Plan,
    media_error: bool,
}

/// Progress of a member's rebuild.
struct Rebuild {
    member: usize,
    next: u64,
    /// Per rebuild request: its first sector while it is under way, and the time when it was last
    /// done.
    pieces: [(Option<u64>, Nanos); REBUILD_DEPTH],
    /// Earliest time of the next piece that the rate limit allows.
    due: Nanos,
}

/// The next event of the array.
#[derive(Clone, Copy)]
enum Event {
    Arrival(usize),
    Submission(usize),
    Rebuild,
}

/// Several drives combined into one, for workloads and rebuilds.
pub struct Array {
    /// The array as the host sees it: the first member's specification with the array's capacity
    /// and queues.
    spec: Spec,
    layout: Layout,
    members: Vec<Member>,
    /// `good` of each member.
    standing: Vec<Option<u64>>,
    requests: Vec<Request>,
    rebuild: Option<Rebuild>,
    rebuild_pauses: bool,
    /// Shortest time between two pieces of a rebuild.
    piece: Nanos,
    member_sectors: u64,
    number: u64,
    now: Nanos,
}

impl Array {
    /// Creates an array of drives. `standing` gives the end of the valid data of each member
    /// ([`WHOLE`], a sector, or `None` if it failed). Members that are not whole are rebuilt, at
    /// `rebuild_rate` bytes per second at most.
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

    /// Returns the drives, and the end of the valid data of each.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Device>, Vec<Option<u64>>) {
        (self.members.into_iter().map(|member| member.device).collect(), self.standing)
    }

    /// Rejects jobs that an array does not support.
    pub(crate) fn check(&self, jobs: &[(Workload, u64)]) -> Result<(), WorkloadError> {
        let trims = jobs.iter().map(|(job, _)| job.trim_percent).find(|&percent| percent > 0.0);
        match trims {
            // md relies on members returning zeros after a trim only with
            // `devices_handle_discard_safely`.
            Some(percent) if self.layout.parities() > 0 => {
                let allowed = "0 with parity, where md does not discard";
                WorkloadError::refuse("trim_percent", &percent, allowed)
            }
            _ => Ok(()),
        }
    }

    /// Rebuilds members that are not whole, without host requests; returns the elapsed virtual
    /// time.
    ///
    /// # Errors
    /// [`RunError`]
    pub fn rebuild(&mut self, control: &Control) -> Result<Nanos, RunError> {
        let start = self.now;
        let mut steps = 0;
        while self.rebuild.is_some() {
            self.serve()?;
            steps = (steps + 1) % STEPS;
            refuse_if(steps == 0 && control.cancelled(), RunError::Cancelled)?;
        }
        let ends = self.requests[DEPTH_MAX..].iter().map(|request| request.latest);
        let end = ends.max().unwrap_or(start).max(start);
        self.idle_until(end);
        Ok(end.since(start))
    }

    /// Starts the rebuild of the next member that needs one, if any.
    fn rebuild_next(&mut self) {
        let to_do = |good: &Option<u64>| good.is_some_and(|sector| sector != WHOLE);
        self.rebuild = self.standing.iter().position(to_do).map(|member| Rebuild {
            member,
            next: self.standing[member].unwrap_or(0),
            pieces: [(None, self.now); REBUILD_DEPTH],
            due: self.now,
        });
    }

    /// Returns the time when the next piece of the rebuild begins.
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
        let index = DEPTH_MAX + piece;
        let mut plan = std::mem::take(&mut self.requests[index].plan);
        self.layout.plan_rebuild(member, lba, sectors, &self.standing, &mut plan);
        self.begin(index, at, None, plan);
    }

    /// Completes a piece of a rebuild.
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

    /// Begins a request: splits its plan and queues the commands of the first step.
    fn begin(&mut self, index: usize, at: Nanos, io: Option<Io>, mut plan: Plan) {
        plan.cut(|member| self.members[member].device.spec().host.transfer_max);
        self.requests[index] =
            Request { io, submitted: at, latest: at, plan, ..Request::default() };
        self.queue_commands(index, at);
    }

    /// Queues the commands of the current step as due at `at`.
    fn queue_commands(&mut self, index: usize, at: Nanos) {
        let request = &mut self.requests[index];
        request.left = request.plan.first.len();
        for (which, &(member, _)) in request.plan.first.iter().enumerate() {
            self.members[member].waiting.push(Reverse((at, self.number, index, which)));
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

    /// Submits the next command to a member, at the time of `next_submission`.
    fn submit(&mut self, number: usize, at: Nanos) -> Result<Option<Completion>, DeviceError> {
        let member = &mut self.members[number];
        let Reverse((due, _, index, which)) = member.waiting.pop().expect("a command waits");
        let (slot, _) = member.slots.first();
        member.slots.take(slot);
        member.serves[slot] = (index, due);
        member.unserved += 1;
        let (_, io) = self.requests[index].plan.first[which];
        member.device.accept(at, io, slot as u32, Nanos::ZERO)
    }

    /// Counts a served command; returns the completion of the host's request if this was its last.
    fn count(&mut self, number: usize, served: Completion) -> Option<Completion> {
        let member = &mut self.members[number];
        let slot = served.tag as usize;
        let (index, due) = member.serves[slot];
        member.slots.set(slot, served.done);
        member.unserved -= 1;
        member.completions.push(Reverse(served.done));
        let request = &mut self.requests[index];
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
            self.queue_commands(index, done);
            return None;
        }
        let Request { io, submitted, stages, media_error, .. } = *request;
        let Some(io) = io else {
            self.end_piece(index - DEPTH_MAX, done);
            return None;
        };
        Some(Completion { tag: index as u32, io, submitted, done, stages, media_error })
    }
}

impl Storage for Array {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn now(&self) -> Nanos {
        self.now
    }

    /// Sums over the members that work; for temperature and throttle stage, the maximum.
    fn counters(&self) -> Counters {
        let good = self.members.iter().filter(|member| member.good.is_some());
        good.map(|member| member.device.counters()).reduce(added).expect("a member works")
    }

    /// Sum of all members' peaks: the power if they occurred at the same time.
    fn take_peak_power_w(&mut self) -> f64 {
        self.members.iter_mut().map(|member| member.device.take_peak_power_w()).sum()
    }

    /// Serves all outstanding requests; a rebuild pauses until the next workload.
    fn idle_until(&mut self, until: Nanos) {
        self.rebuild_pauses = true;
        while self.next_arrival() < NEVER {
            // A worn-out member has already ended the workload before this.
            let _ = self.serve();
        }
        self.rebuild_pauses = false;
        self.now = self.now.max(until);
        for member in &mut self.members {
            member.device.idle_until(self.now);
        }
    }

    fn single(&mut self) -> Option<&mut Device> {
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

/// Sums of the named fields of two structures, and given values of the others.
macro_rules! sum {
    ($type:ident, $a:ident + $b:ident: $($field:ident),+; $($other:ident: $value:expr),+) => {
        $type { $($field: $a.$field + $b.$field,)+ $($other: $value,)+ }
    };
}

fn added(a: Counters, b: Counters) -> Counters {
    let (x, y) = (a.reliability, b.reliability);
    let worn = sum!(Reliability, x + y: retried_reads, retries, media_errors, refreshes,
        failed_blocks, spare_blocks, retired_superblocks; read_only: x.read_only || y.read_only);
    sum!(Counters, a + b: commands, host_pages, placed_pages, copied_pages, slc_pages, slc_erases,
        erases, page_reads, read_bytes, core_busy_ns, energy_nj, throttled_ns;
        temperature_c: a.temperature_c.max(b.temperature_c),
        throttle_stage: a.throttle_stage.max(b.throttle_stage), reliability: worn, map: a.map)
}
