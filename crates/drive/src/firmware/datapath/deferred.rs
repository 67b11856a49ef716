//! The deferred program queue: programs and erases that are due later, so that dies are asked in
//! time order.
//!
//! A copy's program can begin when its data has come, long after the command after which it was
//! read; a host's when the buffer has space. If dies were asked in the order of commands, an early
//! program would queue behind a late one. Each stream's programs are due in the order in which they
//! are given, and so are erases: a few queues, merged by time.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use drivebay_units::Nanos;

use crate::per_stream::{PerStream, STREAMS_MAX};
use crate::persist::{StateError, ensure, persist};
use crate::profile::Geometry;
use crate::timeline::NEVER;

/// A program of a die's planes that waits for its time.
#[derive(Clone, Copy, Default)]
pub struct Program {
    pub at: Nanos,
    /// The flash page up to whose plane the die is programmed.
    pub page: u32,
    /// Its number in its stream.
    pub number: u64,
}

persist!(Program: at, page, number);

/// As many streams as drives without placement handles have, whose heads are compared without a
/// loop.
const FEW: usize = 4;

/// The stream that is first, and when, of one and those from number `begin` on; of two the lower.
#[inline(always)]
fn first_of(one: (usize, Nanos), begin: usize, heads: &[Nanos]) -> (usize, Nanos) {
    let each = (begin..).zip(heads);
    each.fold(one, |first, (stream, &at)| if at < first.1 { (stream, at) } else { first })
}

/// Programs and erases that are due later.
pub struct DeferredQueue {
    streams: PerStream<VecDeque<Program>>,
    /// Time of each erase, and its superblock.
    erases: VecDeque<(Nanos, u32)>,
    /// Time when the first program of each stream is due.
    heads: Box<[Nanos; STREAMS_MAX]>,
    /// The stream whose program is due first; of two the lower.
    first: usize,
    /// Time when the first erase is due.
    erase_at: Nanos,
    /// Time of the earliest program or erase.
    next_at: Nanos,
}

persist!(DeferredQueue: streams, erases; given: heads, first, erase_at, next_at);

impl DeferredQueue {
    /// Queues for so many write streams.
    pub fn new(streams: usize) -> DeferredQueue {
        DeferredQueue {
            streams: PerStream::new(streams, VecDeque::new),
            erases: VecDeque::new(),
            heads: Box::new([NEVER; STREAMS_MAX]),
            first: 0,
            erase_at: NEVER,
            next_at: NEVER,
        }
    }

    /// Time when the first program or erase is due.
    #[inline(always)]
    pub fn next_at(&self) -> Nanos {
        self.next_at
    }

    /// True if an erase is due before every program.
    #[inline(always)]
    pub fn erase_is_next(&self) -> bool {
        self.erase_at == self.next_at
    }

    pub fn has_programs(&self) -> bool {
        self.streams.iter().any(|queue| !queue.is_empty())
    }

    /// True if a superblock waits to be erased.
    pub fn will_erase(&self, superblock: u32) -> bool {
        self.erases.iter().any(|&(_, waiting)| waiting == superblock)
    }

    /// Adds a program, due at its time or when the stream's program before it is.
    #[inline(always)]
    pub fn push(&mut self, stream: usize, program: Program) {
        let queue = &mut self.streams[stream];
        match queue.back() {
            Some(before) => {
                let at = program.at.max(before.at);
                queue.push_back(Program { at, ..program });
            }
            None => {
                queue.push_back(program);
                self.heads[stream] = program.at;
                if (program.at, stream) < (self.heads[self.first], self.first) {
                    self.first = stream;
                }
                self.next_at = self.next_at.min(program.at);
            }
        }
    }

    /// Adds an erase, due at `at` or when the erase before it is.
    pub fn push_erase(&mut self, superblock: u32, at: Nanos) {
        let at = self.erases.back().map_or(at, |&(before, _)| at.max(before));
        self.erases.push_back((at, superblock));
        self.find_erase();
    }

    /// Takes the program that is due first, with its stream; of two the lower stream's.
    #[inline(always)]
    pub fn pop(&mut self) -> (usize, Program) {
        let stream = self.first;
        let queue = &mut self.streams[stream];
        let program =
            queue.pop_front().expect("a buffer of two rows holds no page nobody programs");
        let next = queue.front().map_or(NEVER, |next| next.at);
        self.set_head(stream, next);
        (stream, program)
    }

    /// Takes the superblock that has waited longest for its erase, and the time when that is due.
    pub fn pop_erase(&mut self) -> (Nanos, u32) {
        let erase = self.erases.pop_front().expect("a superblock waits to be erased");
        self.find_erase();
        erase
    }

    /// Notes a new head of a stream's queue.
    #[inline(always)]
    fn set_head(&mut self, stream: usize, at: Nanos) {
        self.heads[stream] = at;
        self.find_next();
    }

    fn find_erase(&mut self) {
        self.erase_at = self.erases.front().map_or(NEVER, |&(at, _)| at);
        self.find_next();
    }

    #[inline(always)]
    fn find_next(&mut self) {
        let (few, others) = self.heads.split_at(FEW);
        let mut first = first_of((0, NEVER), 0, few);
        if self.streams.len() > FEW {
            first = first_of(first, FEW, others);
        }
        self.first = first.0;
        self.next_at = first.1.min(self.erase_at);
    }

    /// Derives the heads of queues that were read back.
    pub fn derive(&mut self) {
        for stream in 0..self.streams.len() {
            self.set_head(stream, self.streams[stream].front().map_or(NEVER, |due| due.at));
        }
        self.find_erase();
    }

    /// Checks a stream's programs; returns the numbers of the flash pages that they program.
    ///
    /// `pages`: of the whole drive, `known`: those that the stream's buffer knows.
    pub fn check_programs(
        &self,
        stream: usize,
        g: &Geometry,
        pages: u32,
        known: &Range<u64>,
        floor: Nanos,
    ) -> Result<BTreeSet<u64>, StateError> {
        let mut covered = BTreeSet::new();
        let mut last = floor;
        for due in &self.streams[stream] {
            let plane = u64::from(g.plane_of(due.page));
            let sound = due.page < pages && known.contains(&due.number);
            let oldest = due.number.checked_sub(plane << g.order.plane_shift);
            ensure(sound && oldest.is_some(), "a program that waits")?;
            ensure(last <= due.at, "the order of programs")?;
            covered
                .extend((0..=plane).map(|earlier| due.number - (earlier << g.order.plane_shift)));
            last = due.at;
        }
        Ok(covered)
    }

    /// Checks that erases wait for superblocks that `may_wait`, each once, in order.
    pub fn check_erases(&self, may_wait: impl Fn(u32) -> bool) -> Result<(), StateError> {
        let mut seen = BTreeSet::new();
        let mut last = Nanos::ZERO;
        for &(at, index) in &self.erases {
            ensure(may_wait(index) && seen.insert(index), "an erase that waits")?;
            ensure(last <= at, "the order of erases")?;
            last = at;
        }
        Ok(())
    }
}
