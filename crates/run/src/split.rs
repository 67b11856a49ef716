//! A closed loop whose requests are larger than one command of the host's driver.
//!
//! The driver splits a request into commands of at most `host.transfer_max`, like the block layers
//! of Linux and Windows, and submits them in order: all at once if enough command slots are free,
//! otherwise as slots become free. The request is done when its last command is. Its stages are
//! those of that command; the wait before it counts as host time. Commands of several requests are
//! submitted in the order in which the requests were made.

use std::collections::VecDeque;

use drivebay_drive::{Completion, Device, Io, Op, Stage};
use drivebay_units::Nanos;

use crate::closed_loop::ClosedLoop;
use crate::error::RunError;
use crate::queue_slots::{NEVER, QueueSlots};

/// A request under way.
#[derive(Clone, Copy, Default)]
struct SplitRequest {
    requested: Nanos,
    lba: u64,
    sectors: u32,
    /// Commands not yet completed.
    left: u32,
    /// Latest completion of its commands so far.
    done: Nanos,
    media_error: bool,
}

/// Outstanding requests, and their commands.
struct Split {
    requests: Vec<SplitRequest>,
    /// Time when each request's slot is free again.
    request_slots: QueueSlots,
    /// Commands not yet submitted, each with its request.
    waiting: VecDeque<(u32, Io)>,
    /// Per command slot: the request of its command.
    serves: Vec<u32>,
    sectors_max: u32,
}

impl<const KEEPS: bool> ClosedLoop<'_, KEEPS> {
    /// Runs like `run_single`, for requests that may take several commands.
    #[inline(never)]
    pub(crate) fn run_split(
        &mut self,
        device: &mut Device,
        depth: u32,
        sectors_max: u32,
    ) -> Result<(), RunError> {
        let commands = self.host.commands();
        let mut split = Split {
            requests: vec![SplitRequest::default(); depth as usize],
            request_slots: QueueSlots::new(depth as usize, self.start),
            waiting: VecDeque::new(),
            serves: vec![0; commands],
            sectors_max,
        };
        loop {
            let (request_slot, free) = split.request_slots.first();
            let (slot, at) = self.host.slots.first();
            let hand_over = match split.waiting.front() {
                Some(&(request, _)) => at.max(split.requests[request as usize].requested),
                None => NEVER,
            };
            let free = free.max(self.due);
            let more = free < self.end && self.bytes_left > 0;
            let next_request = if more { free } else { NEVER };
            let turn = device.next_arrival();
            if turn < NEVER && turn <= next_request.min(hand_over) {
                if let Some(served) = device.serve()? {
                    self.count_part(&mut split, served);
                }
            } else if next_request <= hand_over && next_request < NEVER {
                self.inside.look(device, next_request);
                if next_request >= self.recorder.next_second() {
                    self.on_second(device, next_request)?;
                }
                let io = self.generator.next_io();
                device.prefetch(io.lba);
                split.next_request(request_slot as u32, io, next_request);
                self.request_made(&io);
            } else if let Some((request, io)) = split.waiting.pop_front() {
                let now = hand_over.max(self.host.now);
                self.host.now = now;
                split.serves[slot] = request;
                self.host.slots.take(slot);
                device.accept(now, io, slot as u32, Nanos::ZERO)?;
            } else if self.due == NEVER {
                self.resume();
            } else {
                return Ok(());
            }
        }
    }

    /// Counts a served command, and its request if that is complete.
    fn count_part(&mut self, split: &mut Split, mut completion: Completion) {
        let Completion { tag, io, submitted, .. } = completion;
        self.host.slots.set(tag as usize, completion.done);
        let request_slot = split.serves[tag as usize] as usize;
        let request = &mut split.requests[request_slot];
        request.left -= 1;
        request.media_error |= completion.media_error;
        request.done = request.done.max(completion.done);
        if request.left > 0 {
            return;
        }
        // Commands of a request complete nearly in order. If an earlier one completes last, the
        // difference counts as host time.
        let late = request.done.since(completion.done);
        completion.stages.add(Stage::Host, submitted.since(request.requested).after(late));
        let (done, latency) = (request.done, request.done.since(request.requested));
        self.latest = self.latest.max(done);
        self.inside.add_outstanding(request.requested, done.min(self.end));
        split.request_slots.set(request_slot, self.host.next_after(done));
        if self.generator.counts_apart(io.op) {
            self.recorder.count_apart(io.op, latency, done);
            return;
        }
        let (requested, whole) =
            (request.requested, Io { lba: request.lba, sectors: request.sectors, ..io });
        self.recorder.count(io.op, whole.data_bytes(), latency, done, &completion.stages);
        if request.media_error {
            self.recorder.count_media_error(done);
        }
        self.sample(whole, requested, done);
    }
}

impl Split {
    /// Makes a request, and splits it into commands.
    fn next_request(&mut self, request_slot: u32, io: Io, at: Nanos) {
        let sectors_max = if io.op == Op::Trim { io.sectors } else { self.sectors_max };
        let commands = io.sectors.div_ceil(sectors_max).max(1);
        self.requests[request_slot as usize] = SplitRequest {
            requested: at,
            lba: io.lba,
            sectors: io.sectors,
            left: commands,
            done: at,
            media_error: false,
        };
        self.request_slots.take(request_slot as usize);
        for part in 0..commands {
            let passed = part * sectors_max;
            let sectors = sectors_max.min(io.sectors - passed);
            let part = Io { lba: io.lba + u64::from(passed), sectors, ..io };
            self.waiting.push_back((request_slot, part));
        }
    }
}
