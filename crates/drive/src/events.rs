//! What happens inside a drive, kept on request: superblocks that are emptied, erased and opened,
//! and how busy dies and channels are.
//!
//! Nothing here changes what the drive does. While nothing is kept, no read pays for it: that it is
//! kept is the second reason for a branch that reads take anyway, for dies with independent planes.
//! One test of a pointer is paid for each program of a die, for each flash page copied, and for
//! each superblock emptied, erased or opened. Programs and erases are entered for when they run by
//! what is known as they are asked for: reads that come later may suspend them, so that they end
//! later than entered. Their lengths do not change. A transfer that the calendar splits is entered
//! as if it had come without a gap. Left out: the host core, the link; what a journal or a map
//! cache does, but for its time on dies and channels.

use drivebay_units::{Nanos, named};

use crate::superblock::State;

named! {
    /// What happened to a superblock.
    pub enum EventKind {
        /// Garbage collection emptied it.
        Collection = "collection",
        /// Folding emptied it.
        Fold = "fold",
        /// It was erased.
        Erase = "erase",
        /// A write stream began to fill it.
        Open = "open",
    }
}

named! {
    /// What began to empty a victim.
    pub enum Trigger {
        /// Behind commands, as much as pacing or the fold ratio says.
        Behind = "behind",
        /// In the foreground: a write waits for room.
        Foreground = "foreground",
        /// While nothing is asked of the flash core.
        Idle = "idle",
    }
}

/// Something that happened to a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// A victim's first copy; when an erase or the opening is due.
    pub begin: Nanos,
    /// A victim was read to its end; all dies have erased; as `begin` for an opening. None: not
    /// before the events were taken.
    pub end: Option<Nanos>,
    /// Which.
    pub superblock: u32,
    /// 4 KiB pages that a victim held before its first copy.
    pub valid_pages: u32,
    /// 4 KiB pages that were copied out of it; less than `valid_pages` where the host replaced some
    /// meanwhile.
    pub copied_pages: u32,
    /// How often it had been erased, this time included.
    pub erases: u32,
    /// It has one bit per cell: as it was used last, or when opened is now.
    pub slc: bool,
    /// Of a victim: what began to empty it.
    pub trigger: Option<Trigger>,
}

/// A superblock as it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuperblockState {
    /// What it is doing.
    pub state: State,
    /// 4 KiB pages in it that hold data.
    pub valid_pages: u32,
    /// Times erased.
    pub erases: u32,
    /// How many of the erases followed use with one bit per cell.
    pub slc_erases: u32,
    /// Used with one bit per cell since it was last opened.
    pub slc: bool,
}

/// Most victims at a time: of garbage collection behind writes, in idle time, and of folding.
const VICTIMS_MAX: usize = 3;

/// The events kept so far, the first ones up to a limit.
pub struct EventLog {
    limit: usize,
    kept: Vec<Event>,
    dropped: u64,
    /// Victims that are being emptied.
    victims: Vec<Event>,
}

impl EventLog {
    /// Keeps the first `limit` events.
    pub fn new(limit: usize) -> EventLog {
        EventLog { limit, kept: Vec::new(), dropped: 0, victims: Vec::with_capacity(VICTIMS_MAX) }
    }

    pub fn add(&mut self, event: Event) {
        if self.kept.len() < self.limit {
            self.kept.push(event);
        } else {
            self.dropped += 1;
        }
    }

    /// Pages are copied out of a victim; `now`: the event, if these are the first.
    #[cold]
    pub fn note_copy(&mut self, pages: u32, now: Event) {
        let victim = match self.position(now.superblock) {
            Some(index) => &mut self.victims[index],
            None => {
                debug_assert!(self.victims.len() < VICTIMS_MAX, "one victim of each kind");
                self.victims.push(now);
                self.victims.last_mut().expect("one was just added")
            }
        };
        victim.copied_pages += pages;
    }

    /// A victim is given back; `now`: the event, if nothing had to be copied.
    #[cold]
    pub fn note_retired(&mut self, now: Event) {
        let begun = self.position(now.superblock).map(|index| self.victims.swap_remove(index));
        self.add(Event { end: now.end, ..begun.unwrap_or(now) });
    }

    fn position(&self, superblock: u32) -> Option<usize> {
        self.victims.iter().position(|victim| victim.superblock == superblock)
    }

    /// All that was kept, with victims that are still being emptied, and how many were not.
    pub fn finish(mut self) -> (Vec<Event>, u64) {
        for victim in std::mem::take(&mut self.victims) {
            self.add(victim);
        }
        self.kept.sort_by_key(|event| event.begin);
        (self.kept, self.dropped)
    }
}

/// Length of its intervals while the run is short.
const INTERVAL_MIN: Nanos = Nanos::millis(1);

/// How long each of several things was busy, by interval of the drive's time.
///
/// Intervals are 1 ms long; when there are 4096 of them, each two become one, so that memory is
/// bounded and nothing is left out however long the run.
#[derive(Clone, Debug)]
pub struct Activity {
    start: Nanos,
    interval: Nanos,
    columns: usize,
    /// Nanoseconds, row by row.
    busy_ns: Vec<u64>,
}

impl Activity {
    /// Most intervals.
    pub const INTERVALS_MAX: usize = 4096;

    /// Of `columns` things, from `start` on.
    #[must_use]
    pub fn new(start: Nanos, columns: usize) -> Activity {
        Activity { start, interval: INTERVAL_MIN, columns, busy_ns: Vec::new() }
    }

    /// Length of an interval.
    #[must_use]
    pub fn interval(&self) -> Nanos {
        self.interval
    }

    /// Nanoseconds in which something was busy, of each of the first `intervals`.
    pub fn of(&self, column: usize, intervals: usize) -> impl Iterator<Item = u64> + '_ {
        let entry = move |row| self.busy_ns.get(row * self.columns + column).copied();
        (0..intervals).map(move |row| entry(row).unwrap_or(0))
    }

    /// Something is busy from `from` to `to`; what was before the start does not count.
    pub fn add(&mut self, column: usize, from: Nanos, to: Nanos) {
        let (mut from, to) = (from.since_or_zero(self.start).0, to.since_or_zero(self.start).0);
        while to.div_ceil(self.interval.0) > Self::INTERVALS_MAX as u64 {
            self.coarsen();
        }
        let rows = to.div_ceil(self.interval.0) as usize * self.columns;
        if rows > self.busy_ns.len() {
            self.busy_ns.resize(rows, 0);
        }
        while from < to {
            let row = from / self.interval.0;
            let end = to.min((row + 1) * self.interval.0);
            self.busy_ns[row as usize * self.columns + column] += end - from;
            from = end;
        }
    }

    /// Each two intervals become one.
    fn coarsen(&mut self) {
        self.interval = self.interval.times(2);
        let pairs = self.busy_ns.chunks(2 * self.columns);
        let merged = pairs.flat_map(|pair| {
            let (first, second) = pair.split_at(self.columns);
            (0..self.columns).map(move |i| first[i] + second.get(i).unwrap_or(&0))
        });
        self.busy_ns = merged.collect();
    }

    /// Joins intervals until they are as long as `interval`, one of another activity from the same
    /// start.
    pub fn coarsen_to(&mut self, interval: Nanos) {
        while self.interval < interval {
            self.coarsen();
        }
    }
}

/// How busy dies and channels are: columns of an [`Activity`].
#[derive(Clone, Debug)]
pub struct FlashActivity {
    /// Dies.
    pub dies: usize,
    /// Channels.
    pub channels: usize,
    /// Reads of each die, programs of each, erases of each, and each channel.
    pub busy: Activity,
}

impl FlashActivity {
    pub(crate) fn new(start: Nanos, dies: usize, channels: usize) -> FlashActivity {
        FlashActivity { dies, channels, busy: Activity::new(start, 3 * dies + channels) }
    }

    pub(crate) fn read(&mut self, die: usize, from: Nanos, to: Nanos) {
        self.busy.add(die, from, to);
    }

    pub(crate) fn program(&mut self, die: usize, from: Nanos, to: Nanos) {
        self.busy.add(self.dies + die, from, to);
    }

    pub(crate) fn erase(&mut self, die: usize, from: Nanos, to: Nanos) {
        self.busy.add(2 * self.dies + die, from, to);
    }

    /// A transfer that took `len` until `to`.
    pub(crate) fn transfer(&mut self, channel: usize, len: Nanos, to: Nanos) {
        self.busy.add(3 * self.dies + channel, Nanos(to.0 - len.0), to);
    }
}

/// What was kept of a drive since [`crate::Device::keep_events`].
pub struct Events {
    /// In the order in which they began.
    pub events: Vec<Event>,
    /// Events beyond the limit.
    pub dropped: u64,
    /// How busy dies and channels were.
    pub flash: FlashActivity,
    /// All superblocks at the end.
    pub superblocks: Vec<SuperblockState>,
}
