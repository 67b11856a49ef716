//! The host's outstanding commands, and the slot that is free first.
//!
//! A tournament tree of (time, slot) packed in 64 bits: 54 bits of nanoseconds since the start of
//! the run (208 days), and 10 bits of slot, which limit the queue depth to 1,024. No drive of the
//! catalog carries more, counting its commands in the controller and the host's queue slots;
//! further requests wait in the host's own queue. Cost: log2 of the depth, without branches; per
//! level one load, one comparison and one store.

use drivebay_units::Nanos;

/// Deepest queue.
pub const DEPTH_MAX: usize = 1024;
const SLOT_BITS: u32 = 10;
const _: () = assert!(DEPTH_MAX == 1 << SLOT_BITS);

/// Later than any completion; marks a slot whose command has no completion time yet.
pub const NEVER: Nanos = Nanos(u64::MAX);
/// `NEVER` as a time since the start.
const NEVER_SINCE: u64 = (1 << (64 - SLOT_BITS)) - 1;

/// Completion times of the outstanding commands.
pub struct QueueSlots {
    /// Node 1 is the root, the children of `n` are `2 n` and `2 n + 1`. The length is a constant,
    /// so that no access needs a bounds check.
    tree: Box<[u64; NODES]>,
    leaves: usize,
    start: Nanos,
}

/// Nodes of the tree for the deepest queue.
const NODES: usize = 2 * DEPTH_MAX;

impl QueueSlots {
    /// `depth` slots, all free from `start`.
    pub fn new(depth: usize, start: Nanos) -> QueueSlots {
        assert!((1..=DEPTH_MAX).contains(&depth), "a queue depth is 1 to {DEPTH_MAX}");
        let leaves = depth.next_power_of_two();
        let mut slots = QueueSlots { tree: Box::new([u64::MAX; NODES]), leaves, start };
        for slot in 0..depth {
            slots.set(slot, start);
        }
        slots
    }

    /// The slot that is free first, and the time when it is free.
    #[inline(always)]
    pub fn first(&self) -> (usize, Nanos) {
        let packed = self.tree[1];
        let since = packed >> SLOT_BITS;
        let at = if since == NEVER_SINCE { NEVER } else { self.start.after(Nanos(since)) };
        (packed as usize & (DEPTH_MAX - 1), at)
    }

    /// Earliest time when a slot is free; if it is not known of any slot, a time later than any
    /// run.
    #[inline(always)]
    pub fn first_at(&self) -> Nanos {
        self.start.after(Nanos(self.tree[1] >> SLOT_BITS))
    }

    /// Sets the completion time of the command in `slot`.
    #[inline(always)]
    pub fn set(&mut self, slot: usize, done: Nanos) {
        let since = done.0.wrapping_sub(self.start.0);
        debug_assert!(done >= self.start && since < NEVER_SINCE);
        self.store(slot, since);
    }

    /// Occupies `slot` with a command whose completion time is not known yet.
    #[inline(always)]
    pub fn take(&mut self, slot: usize) {
        self.store(slot, NEVER_SINCE);
    }

    #[inline(always)]
    fn store(&mut self, slot: usize, since: u64) {
        let mut node = (self.leaves + slot) % NODES;
        let mut first = since << SLOT_BITS | slot as u64;
        self.tree[node] = first;
        while node > 1 {
            first = first.min(self.tree[node ^ 1]);
            node >>= 1;
            // The latest submitted command is rarely among the first to complete: its sibling stays
            // ahead of it.
            if self.tree[node] == first {
                break;
            }
            self.tree[node] = first;
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/queue_slots.rs"]
mod tests;
