//! Media that is written where the data lies, as 3D XPoint: no map, no erase, no garbage
//! collection.
//!
//! Sources: Intel Optane SSD DC P4800X: seven channels of four dies, no DRAM, a write is complete
//! when the media has it (AnandTech 11209 and 11953, 2017). Model: 4 KiB lie on one die, neighbours
//! on dies of different channels; or they are spread over dies of several channels, which then work
//! as one. A die does one thing at a time, reads and writes in the order in which they come; data
//! moves over the channel before a write and after a read. Left out: moves for wear levelling, the
//! refresh of what was read often, errors of the media.

use drivebay_units::{Divider, Nanos};

use crate::events::FlashActivity;
use crate::persist::{StateError, TIME_MAX, ensure, persist};
use crate::profile::{InPlaceSpec, PAGE_BYTES, transfer};
use crate::timeline::{Calendar, Fifo};

/// When the parts of an access were over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Access {
    /// The whole of it.
    pub done: Nanos,
    /// Wait for the die, time of its array, for and on the channel.
    pub parts: [Nanos; 3],
}

/// Dies and channels.
pub struct InPlace {
    read: Nanos,
    write: Nanos,
    channel_fs_per_byte: u64,
    by_dies: Divider,
    dies: Vec<Fifo>,
    channels: Vec<Calendar>,
    /// 4 KiB read so far.
    pub reads: u64,
    /// Bytes read over the channels so far.
    pub read_bytes: u64,
    /// 4 KiB written so far.
    pub writes: u64,
    /// Activity of dies and channels, while that is kept.
    activity: Option<Box<FlashActivity>>,
}

persist!(InPlace: dies, channels, reads, read_bytes, writes; given: read, write, channel_fs_per_byte, by_dies,
    activity);

impl InPlace {
    /// All dies idle.
    pub fn new(spec: &InPlaceSpec) -> InPlace {
        InPlace {
            read: spec.read,
            write: spec.write,
            channel_fs_per_byte: spec.channel_fs_per_byte,
            by_dies: Divider::new(spec.dies),
            dies: vec![Fifo::default(); spec.dies as usize],
            channels: vec![Calendar::default(); spec.channels as usize],
            reads: 0,
            read_bytes: 0,
            writes: 0,
            activity: None,
        }
    }

    /// Checks a state that was read back.
    pub fn check(&self) -> Result<(), StateError> {
        self.channels.iter().try_for_each(Calendar::check)?;
        let dies = self.dies.iter().all(|die| die.free_at().0 <= TIME_MAX);
        let counts = [self.reads, self.read_bytes, self.writes];
        ensure(dies && counts.iter().all(|&count| count < 1 << 60), "the media's state")
    }

    /// Time when all that was asked so far is done.
    pub fn idle_at(&self) -> Nanos {
        self.dies.iter().map(|die| die.free_at()).fold(Nanos::ZERO, Nanos::max)
    }

    /// Nothing is under way any more.
    pub fn power_cut(&mut self) {
        self.dies.fill(Fifo::default());
        self.channels.fill(Calendar::default());
    }

    /// From `now` on it is kept how busy dies and channels are.
    pub fn keep_activity(&mut self, now: Nanos) {
        let activity = FlashActivity::new(now, self.dies.len(), self.channels.len());
        self.activity = Some(Box::new(activity));
    }

    /// Returns the activity, and ends keeping it.
    pub fn take_activity(&mut self) -> Option<Box<FlashActivity>> {
        self.activity.take()
    }

    /// Reads 4 KiB at `from`; `floor`: a time before which nobody will ask again. Cost: 1 die, 1
    /// calendar.
    #[inline]
    pub fn read(&mut self, floor: Nanos, from: Nanos, page: u32) -> Access {
        self.reads += 1;
        self.read_bytes += PAGE_BYTES;
        let die = self.die_of(page);
        let (begin, sensed) = self.dies[die].reserve(from, self.read);
        let done = self.transfer(floor, sensed, die);
        if let Some(activity) = &mut self.activity {
            activity.read(die, begin, sensed);
        }
        Access { done, parts: [begin.since(from), self.read, done.since(sensed)] }
    }

    /// Writes 4 KiB that are in the controller at `from`. Cost: 1 die, 1 calendar.
    #[inline]
    pub fn write(&mut self, floor: Nanos, from: Nanos, page: u32) -> Access {
        self.writes += 1;
        let die = self.die_of(page);
        let loaded = self.transfer(floor, from, die);
        let (begin, done) = self.dies[die].reserve(loaded, self.write);
        if let Some(activity) = &mut self.activity {
            activity.program(die, begin, done);
        }
        Access { done, parts: [begin.since(loaded), self.write, loaded.since(from)] }
    }

    /// Writes so many pieces of 4 KiB, spread evenly over all dies, from `from` on; returns when
    /// that is done.
    pub fn write_all(&mut self, from: Nanos, pages: u64) -> Nanos {
        self.writes += pages;
        let time = self.time_of_writes(pages);
        self.dies.iter_mut().map(|die| die.reserve(from, time).1).fold(from, Nanos::max)
    }

    /// Time of an overwrite.
    pub fn time_of_writes(&self, pages: u64) -> Nanos {
        let (dies, channels) = (self.dies.len() as u64, self.channels.len() as u64);
        let transfer = transfer(PAGE_BYTES, self.channel_fs_per_byte);
        self.write.max(transfer.times(dies.div_ceil(channels))).times(pages.div_ceil(dies))
    }

    /// The die of a page: neighbours lie on different channels.
    #[inline(always)]
    fn die_of(&self, page: u32) -> usize {
        (page - self.by_dies.divide(page) * self.by_dies.divisor()) as usize
    }

    /// Moves 4 KiB over a die's channel; returns when that is done.
    #[inline(always)]
    fn transfer(&mut self, floor: Nanos, from: Nanos, die: usize) -> Nanos {
        let channel = die % self.channels.len();
        let len = transfer(PAGE_BYTES, self.channel_fs_per_byte);
        let done = self.channels[channel].reserve(floor, from, len);
        if let Some(activity) = &mut self.activity {
            activity.transfer(channel, len, done);
        }
        done
    }
}
