//! Programs and erases that are due later wait here, so that dies and channels are asked in time order.
//!
//! A copy's program can begin when its data has come, long after the command behind which it was read; a
//! host's when the buffer has room. If dies were asked in the order of commands, an early program would
//! queue behind a late one. Each stream's programs are due in the order in which they are given, and so
//! are erases: a few queues, merged by time.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use drivebay_units::Nanos;

use super::{Device, NEVER};
use crate::ftl::{COLD, Ftl, HOST, STREAMS};
use crate::persist::{StateError, ensure, persist};
use crate::spec::Geometry;

/// A program that waits for its time.
#[derive(Clone, Copy, Default)]
struct Due {
    at: Nanos,
    /// The flash page up to whose plane a die is programmed.
    page: u32,
    /// Its number in its stream.
    number: u64,
}

persist!(Due: at, page, number);

/// Where the erases stand among the queues' heads, behind the streams.
const ERASES: usize = STREAMS;

/// What is due later.
pub(super) struct Programs {
    streams: [VecDeque<Due>; STREAMS],
    /// When, and which superblock.
    erases: VecDeque<(Nanos, u32)>,
    /// When the first of each queue is due: the streams, the erases.
    heads: [Nanos; STREAMS + 1],
    /// The earliest of them.
    next_at: Nanos,
    /// Nothing will ask a die for an earlier time.
    floor: Nanos,
}

persist!(Programs: streams, erases, floor; given: heads, next_at);

impl Default for Programs {
    fn default() -> Programs {
        Programs {
            streams: Default::default(),
            erases: VecDeque::new(),
            heads: [NEVER; STREAMS + 1],
            next_at: NEVER,
            floor: Nanos::ZERO,
        }
    }
}

impl Programs {
    /// Numbers of a stream's flash pages that are to be programmed; `pages`: of the whole drive, `known`:
    /// those that the stream's buffer knows.
    pub(super) fn covers(
        &self,
        stream: usize,
        g: &Geometry,
        pages: u32,
        known: &Range<u64>,
    ) -> Result<BTreeSet<u64>, StateError> {
        let mut covered = BTreeSet::new();
        let mut last = Nanos::ZERO;
        for due in &self.streams[stream] {
            let plane = u64::from((due.page >> g.die_shift) & ((1 << g.plane_shift) - 1));
            let sound = due.page < pages && known.contains(&due.number);
            let oldest = due.number.checked_sub(plane << g.die_shift);
            ensure(sound && oldest.is_some(), "a program that waits")?;
            ensure(last <= due.at, "the order of programs")?;
            covered.extend((0..=plane).map(|earlier| due.number - (earlier << g.die_shift)));
            last = due.at;
        }
        Ok(covered)
    }

    /// Whether erases wait for superblocks that are free and not yet erased, each once, in order.
    pub(super) fn check_erases(&self, ftl: &Ftl) -> Result<(), StateError> {
        let mut seen = BTreeSet::new();
        let mut last = Nanos::ZERO;
        for &(at, index) in &self.erases {
            let free = ftl.is_free_and_used(index);
            ensure(free && seen.insert(index), "an erase that waits")?;
            ensure(last <= at, "the order of erases")?;
            last = at;
        }
        Ok(())
    }

    /// Finds the heads of queues that have been filled otherwise than by `Device`'s methods.
    pub(super) fn find_heads(&mut self) {
        for stream in 0..STREAMS {
            self.set_head(stream, self.streams[stream].front().map_or(NEVER, |due| due.at));
        }
        self.set_head(ERASES, self.erases.front().map_or(NEVER, |&(at, _)| at));
    }

    /// A queue has another head.
    #[inline(always)]
    fn set_head(&mut self, queue: usize, at: Nanos) {
        self.heads[queue] = at;
        self.next_at = self.heads.into_iter().fold(NEVER, Nanos::min);
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

    /// Hands everything that waits to the dies, erases as well.
    pub(super) fn settle(&mut self) {
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
            self.ask_next_program();
        }
    }

    /// Programs a die's planes up to flash page `page` at `at`, or when the stream's program before is due.
    #[inline(never)]
    pub(super) fn program(&mut self, stream: usize, page: u32, number: u64, at: Nanos) {
        let queue = &mut self.programs.streams[stream];
        match queue.back() {
            Some(before) => {
                let at = at.max(before.at);
                queue.push_back(Due { at, page, number });
            }
            None => {
                queue.push_back(Due { at, page, number });
                self.programs.set_head(stream, at);
            }
        }
    }

    /// Whether a superblock waits to be erased.
    pub(super) fn will_erase(&self, index: u32) -> bool {
        self.programs.erases.iter().any(|&(_, waiting)| waiting == index)
    }

    /// Erases a superblock at `at`.
    pub(super) fn erase(&mut self, index: u32, at: Nanos) {
        let at = self.programs.erases.back().map_or(at, |&(before, _)| at.max(before));
        self.programs.erases.push_back((at, index));
        self.programs.set_head(ERASES, self.programs.erases[0].0);
    }

    /// Asks the dies for what is due first. Cost: 1 die and 1 calendar per program.
    fn ask_next(&mut self) {
        if self.programs.heads[ERASES] == self.programs.next_at {
            self.erase_now();
        } else {
            self.ask_next_program();
        }
    }

    /// Asks the dies for the program that is due first, even if an erase is due before.
    #[inline]
    fn ask_next_program(&mut self) {
        let programs = &mut self.programs;
        let mut stream = usize::from(programs.heads[1] < programs.heads[HOST]);
        if programs.heads[COLD] < programs.heads[stream] {
            stream = COLD;
        }
        let queue = &mut programs.streams[stream];
        let due = queue.pop_front().expect("a buffer of two rows holds no page nobody programs");
        let next = queue.front().map_or(NEVER, |due| due.at);
        programs.set_head(stream, next);
        self.ask_program(stream, due);
    }

    /// Erases the superblock that has waited longest, whenever it is due.
    ///
    /// What took the place of its pages counts as safe from now on: commands that are served already may
    /// have their turn after a power cut that comes next, but their erases cannot be undone.
    pub(super) fn erase_now(&mut self) {
        let erases = &mut self.programs.erases;
        let (at, index) = erases.pop_front().expect("a superblock waits to be erased");
        let next = erases.front().map_or(NEVER, |&(at, _)| at);
        self.programs.set_head(ERASES, next);
        self.ftl.erased(index);
        self.nand.erase_superblock(at);
        self.promise(index, self.now);
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
