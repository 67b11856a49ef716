//! What a run keeps on request besides its figures: every so many-th I/O, and what happens inside
//! the drive.
//!
//! The loop that keeps something is compiled apart from the one that does not. The drive's counters
//! are looked at with the first request after the end of an interval, so that they may be a request
//! late.

use drivebay_drive::{Activity, Counters, Device, Events, Io};
use drivebay_units::Nanos;

use crate::queue_slots::NEVER;

/// What a run is to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Every so many-th completed I/O, in the order in which they were served; 0 for none.
    pub sample_every: u64,
    /// The first events, at most so many, and the drive's activity; 0 for none.
    pub events: usize,
}

/// One I/O of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The request.
    pub io: Io,
    /// When the host made it.
    pub requested: Nanos,
    /// When it was completed.
    pub completed: Nanos,
}

/// What a run has kept.
#[derive(Default)]
pub struct Kept {
    /// I/Os.
    pub samples: Vec<Sample>,
    /// Events and activity.
    pub inside: Option<Inside>,
}

/// The drive at the end of an interval.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// What it has counted since it was made.
    pub counters: Counters,
    /// 4 KiB pages that are free, or will be with the next erase.
    pub free_pages: u64,
    /// 4 KiB pages of data that the SLC cache can hold just now, and that it does.
    pub cache_pages: (u64, u64),
}

impl Reading {
    fn at(device: &Device) -> Reading {
        Reading {
            counters: device.counters(),
            free_pages: device.free_4k(),
            cache_pages: device.cache_pages(),
        }
    }
}

/// What happened inside the drive during a run.
pub struct Inside {
    /// Of the drive itself.
    pub events: Events,
    /// When it began to be kept.
    pub start: Nanos,
    /// Until when.
    pub end: Nanos,
    /// Length of the intervals; the last one ends with the run.
    pub interval: Nanos,
    /// How many there are.
    pub intervals: usize,
    /// In its one column, nanoseconds of requests that were outstanding at the same time, added up.
    pub outstanding: Activity,
    /// The drive at the start, and at the end of each interval.
    pub readings: Vec<Reading>,
}

/// Looks into the drive while a run goes on.
pub(crate) struct Watch {
    start: Nanos,
    before: Reading,
    pub(crate) outstanding: Activity,
    readings: Vec<Reading>,
    interval: Nanos,
}

impl Watch {
    /// Keeps events from the drive's present time on.
    pub(crate) fn new(device: &mut Device, events: usize) -> Watch {
        device.keep_events(events);
        let outstanding = Activity::new(device.now(), 1);
        let interval = outstanding.interval();
        let before = Reading::at(device);
        Watch { start: device.now(), before, outstanding, readings: Vec::new(), interval }
    }

    /// When the next reading is due.
    pub(crate) fn next(&self) -> Nanos {
        self.start.after(self.interval.times(self.readings.len() as u64 + 1))
    }

    /// Looks, for all intervals that have ended by `now`.
    pub(crate) fn read(&mut self, device: &Device, now: Nanos) {
        let reading = Reading::at(device);
        while self.next() <= now {
            self.readings.push(reading);
            if self.readings.len() == Activity::INTERVALS_MAX {
                self.coarsen();
            }
        }
    }

    /// The later of each two readings is that of both intervals.
    fn coarsen(&mut self) {
        self.interval = self.interval.times(2);
        self.readings = self.readings.chunks(2).map(|pair| pair[pair.len() - 1]).collect();
    }

    /// What happened until `end`, at which the drive is.
    pub(crate) fn finish(mut self, device: &mut Device, end: Nanos) -> Option<Inside> {
        self.read(device, end);
        if self.next() < end.after(self.interval) {
            self.readings.push(Reading::at(device));
        }
        let mut events = device.take_events()?;
        let interval = self.interval.max(events.flash.busy.interval());
        let interval = interval.max(self.outstanding.interval());
        while self.interval < interval {
            self.coarsen();
        }
        self.outstanding.coarsen_to(interval);
        events.flash.busy.coarsen_to(interval);
        let Watch { start, before, outstanding, mut readings, .. } = self;
        let intervals = readings.len();
        readings.insert(0, before);
        Some(Inside { events, start, end, interval, intervals, outstanding, readings })
    }
}

/// When a watch, if there is one, is read next.
pub(crate) fn next_look(watch: Option<&Watch>) -> Nanos {
    watch.map_or(NEVER, Watch::next)
}
