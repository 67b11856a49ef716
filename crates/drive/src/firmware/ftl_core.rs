//! The flash core, which runs the translation layer: firmware that works for commands and for
//! garbage collection, and the waits of each for the other.
//!
//! Source of the split: SM951's controller has three ARM cores, one for the host and two for the
//! flash (Tom's Hardware, 950 Pro review). Model: one timeline for the host core, one for the flash
//! cores together; a command passes each in order. Garbage collection runs on the flash core, so
//! commands wait for it; the share of garbage collection in each wait is remembered per command.

use drivebay_units::Nanos;

use crate::persist::{StateError, TIME_MAX, ensure, persist};
use crate::timeline::Fifo;

/// Number of commands that the flash core remembers (a power of two): the deepest queue of a run.
const REMEMBERED: usize = 1024;

#[derive(Clone, Copy, Default)]
struct Share {
    end: Nanos,
    gc: u64,
}

persist!(Share: end, gc);

/// The flash core's timeline, with garbage collection's share in it.
#[repr(C)]
pub struct FtlCore {
    fifo: Fifo,
    /// Nanoseconds given to anything so far. Between two fields that were just stored and are
    /// copied together: one wide load of both would wait until the stores have left the processor.
    busy: u64,
    /// Nanoseconds given to garbage collection so far.
    gc: u64,
    shares: Box<[Share; REMEMBERED]>,
    head: usize,
    tail: usize,
}

persist!(FtlCore: fifo, gc, busy, shares, head, tail);

/// A host command's pass through the flash core.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Time when it was over.
    pub end: Nanos,
    /// Part of the wait that other host commands caused.
    pub queued: Nanos,
    /// Part of the wait that garbage collection caused.
    pub gc: Nanos,
}

impl FtlCore {
    /// An idle core.
    pub fn new() -> FtlCore {
        FtlCore {
            fifo: Fifo::default(),
            gc: 0,
            busy: 0,
            shares: Box::new([Share::default(); REMEMBERED]),
            head: 0,
            tail: 0,
        }
    }

    /// Checks a state that was read back.
    pub fn check(&self) -> Result<(), StateError> {
        let remembered = self.tail <= self.head && self.head - self.tail < REMEMBERED;
        let shares = self.shares.iter().all(|share| share.gc <= self.gc);
        let counted = self.gc <= self.busy && self.busy <= TIME_MAX;
        ensure(remembered && shares && counted, "the flash core's record")
    }

    /// Serves a host command that arrives at `from` and costs `len`.
    #[inline]
    pub fn run(&mut self, from: Nanos, len: Nanos) -> Pass {
        while self.tail != self.head && self.shares[self.tail & (REMEMBERED - 1)].end <= from {
            self.tail += 1;
        }
        // Time of garbage collection reserved in commands that end after `from`, the first of them
        // included.
        let before = self.shares[self.tail.wrapping_sub(1) & (REMEMBERED - 1)].gc;
        let (begin, end) = self.fifo.reserve(from, len);
        self.busy += len.0;
        let wait = begin.since(from);
        let gc = Nanos((self.gc - before).min(wait.0));
        Pass { end, queued: wait.since(gc), gc }
    }

    /// Gives `len` to garbage collection, right after what was served last.
    #[inline]
    pub fn gc(&mut self, len: Nanos) {
        self.gc_from(Nanos::ZERO, len);
    }

    /// Counts work of garbage collection for which no command waits here.
    pub fn work_beside(&mut self, len: Nanos) {
        self.busy += len.0;
    }

    /// Gives `len` to garbage collection, not before `from`.
    #[inline]
    pub fn gc_from(&mut self, from: Nanos, len: Nanos) {
        self.fifo.reserve(from, len);
        self.gc += len.0;
        self.busy += len.0;
    }

    /// Closes the books of the command served last, its garbage collection included.
    #[inline]
    pub fn close_command(&mut self) {
        if self.head - self.tail == REMEMBERED - 1 {
            self.tail += 1;
        }
        self.shares[self.head & (REMEMBERED - 1)] = Share { end: self.fifo.free_at(), gc: self.gc };
        self.head += 1;
    }

    /// Forgets all commands; work so far stays counted.
    pub fn power_cut(&mut self) {
        *self = FtlCore { busy: self.busy, ..FtlCore::new() };
    }

    /// Keeps the core from serving anything before `until`.
    pub fn wait_until(&mut self, until: Nanos) {
        self.fifo.reserve(until, Nanos::ZERO);
    }

    /// Time when all that was asked so far is done.
    #[inline]
    pub fn free_at(&self) -> Nanos {
        self.fifo.free_at()
    }

    /// Nanoseconds of work so far.
    pub fn busy_ns(&self) -> u64 {
        self.busy
    }
}

#[cfg(test)]
#[path = "../../tests/unit/firmware_ftl_core.rs"]
mod tests;
