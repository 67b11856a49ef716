//! Programs and erases that are due later wait here, so that dies and channels are asked in time order.
//!
//! A copy's program can begin when its data has come, long after the command behind which it was read; a
//! host's when the buffer has room. If dies were asked in the order of commands, an early program would
//! queue behind a late one. Each stream's programs are due in the order in which they are given, and so
//! are erases: three queues, merged by time.

use std::collections::VecDeque;

use drivebay_units::Nanos;

use super::Device;

/// A time that never comes.
const NEVER: Nanos = Nanos(u64::MAX);

/// A program that waits for its time.
#[derive(Clone, Copy)]
struct Due {
    at: Nanos,
    /// The flash page up to whose plane a die is programmed.
    page: u32,
    /// Its number in its stream.
    number: u64,
}

/// What is due later.
pub(super) struct Programs {
    streams: [VecDeque<Due>; 2],
    erases: VecDeque<Nanos>,
    /// The earliest time of all queues.
    next_at: Nanos,
    /// Nothing will ask a die for an earlier time.
    floor: Nanos,
}

impl Default for Programs {
    fn default() -> Programs {
        Programs {
            streams: Default::default(),
            erases: VecDeque::new(),
            next_at: NEVER,
            floor: Nanos::ZERO,
        }
    }
}

impl Programs {
    /// When the queues' heads are due: the two streams, the erases.
    #[inline(always)]
    fn heads(&self) -> [Nanos; 3] {
        let [host, copies] = &self.streams;
        let of = |queue: &VecDeque<Due>| queue.front().map_or(NEVER, |due| due.at);
        [of(host), of(copies), self.erases.front().copied().unwrap_or(NEVER)]
    }
}

impl Device {
    /// Brings the dies up to `until`: nothing will ask them for an earlier time.
    #[inline(always)]
    pub(super) fn dies_until(&mut self, until: Nanos) {
        while self.programs.next_at <= until {
            self.ask_next();
        }
        self.programs.floor = self.programs.floor.max(until);
    }

    /// Hands everything that waits to the dies, each at its time.
    pub(super) fn ask_all(&mut self) {
        while self.programs.next_at < NEVER {
            self.ask_next();
        }
    }

    /// When a stream's next place in the buffer will be free.
    #[inline(always)]
    pub(super) fn place_free_at(&mut self, stream: usize) -> Nanos {
        loop {
            let at = self.buffers[stream].next_free_at(&self.nand);
            if at < NEVER {
                return at;
            }
            self.ask_next();
        }
    }

    /// Programs a die's planes up to flash page `page` at `at`, or when the stream's program before is due.
    #[inline]
    pub(super) fn program(&mut self, stream: usize, page: u32, number: u64, at: Nanos) {
        let queue = &mut self.programs.streams[stream];
        let at = queue.back().map_or(at, |before| at.max(before.at));
        queue.push_back(Due { at, page, number });
        self.programs.next_at = self.programs.next_at.min(at);
    }

    /// Erases a superblock at `at`.
    pub(super) fn erase(&mut self, at: Nanos) {
        let at = self.programs.erases.back().map_or(at, |&before| at.max(before));
        self.programs.erases.push_back(at);
        self.programs.next_at = self.programs.next_at.min(at);
    }

    /// Asks the dies for what is due first. Cost: 1 die and 1 calendar per program.
    fn ask_next(&mut self) {
        let at = self.programs.next_at;
        let [host, copies, erase] = self.programs.heads();
        if erase == at {
            self.programs.erases.pop_front();
            self.nand.erase_superblock(at);
        } else {
            let stream = usize::from(host != at);
            debug_assert!(stream == 0 || copies == at);
            let due = self.programs.streams[stream].pop_front();
            self.ask_program(
                stream,
                due.expect("a buffer of two rows holds no page nobody programs"),
            );
        }
        self.programs.next_at = self.programs.heads().into_iter().fold(NEVER, Nanos::min);
    }

    #[inline(always)]
    fn ask_program(&mut self, stream: usize, due: Due) {
        let g = &self.spec.geometry;
        let row = due.page >> (g.die_shift + g.plane_shift);
        let plane = (due.page >> g.die_shift) & ((1 << g.plane_shift) - 1);
        let safe = self.nand.program(self.programs.floor, due.at, due.page, row);
        for earlier in 0..=u64::from(plane) {
            self.buffers[stream].give_back(due.number - (earlier << g.die_shift), safe);
        }
    }
}
