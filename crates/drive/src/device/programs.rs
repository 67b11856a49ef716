//! Programs and erases that are due later wait here, so that dies and channels are asked in time order.
//!
//! A copy's program can begin when its data has come, long after the command behind which it was read; a
//! host's when the buffer has room. If dies were asked in the order of commands, an early program would
//! queue behind a late one. Each stream's programs are due in the order in which they are given, and so
//! are erases: a few queues, merged by time.

use std::collections::VecDeque;

use drivebay_units::Nanos;

use super::{Device, NEVER};
use crate::ftl::STREAMS;

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
    streams: [VecDeque<Due>; STREAMS],
    /// When, and which superblock.
    erases: VecDeque<(Nanos, u32)>,
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
    /// When a stream's next program is due.
    #[inline(always)]
    fn due(&self, stream: usize) -> Nanos {
        self.streams[stream].front().map_or(NEVER, |due| due.at)
    }

    fn find_next(&mut self) {
        let due = (0..STREAMS).map(|stream| self.due(stream));
        self.next_at = due.fold(self.erase_due(), Nanos::min);
    }

    /// When the next erase is due.
    #[inline(always)]
    fn erase_due(&self) -> Nanos {
        self.erases.front().map_or(NEVER, |&(at, _)| at)
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

    /// Hands every program that waits to the dies, each for its time.
    pub(super) fn ask_all(&mut self) {
        while self.programs.streams.iter().any(|queue| !queue.is_empty()) {
            self.ask_next_program();
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
            self.ask_next_program();
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

    /// Whether a superblock waits to be erased.
    pub(super) fn will_erase(&self, index: u32) -> bool {
        self.programs.erases.iter().any(|&(_, waiting)| waiting == index)
    }

    /// Erases a superblock at `at`.
    pub(super) fn erase(&mut self, index: u32, at: Nanos) {
        let at = self.programs.erases.back().map_or(at, |&(before, _)| at.max(before));
        self.programs.erases.push_back((at, index));
        self.programs.next_at = self.programs.next_at.min(at);
    }

    /// Asks the dies for what is due first. Cost: 1 die and 1 calendar per program.
    fn ask_next(&mut self) {
        if self.programs.erase_due() == self.programs.next_at {
            self.erase_now();
        } else {
            self.ask_next_program();
        }
    }

    /// Asks the dies for the program that is due first, even if an erase is due before.
    fn ask_next_program(&mut self) {
        let programs = &mut self.programs;
        let first = (0..STREAMS).min_by_key(|&stream| programs.due(stream)).unwrap_or_default();
        let due = programs.streams[first].pop_front();
        self.ask_program(first, due.expect("a buffer of two rows holds no page nobody programs"));
        self.programs.find_next();
    }

    /// Erases the superblock that has waited longest, whenever it is due.
    pub(super) fn erase_now(&mut self) {
        let (at, index) =
            self.programs.erases.pop_front().expect("a superblock waits to be erased");
        self.ftl.erased(index);
        self.nand.erase_superblock(at);
        self.programs.find_next();
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
