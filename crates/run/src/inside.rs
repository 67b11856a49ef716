//! Optional data of a run besides its results: samples of I/Os, and events inside the drive.
//!
//! The loop that keeps something is compiled separately from the one that does not. The drive's
//! counters are read at the first request after the end of an interval, so a reading can be one
//! request late.

use drivebay_drive::{Activity, Counters, Device, Events, Io};
use drivebay_units::Nanos;

use crate::queue_slots::NEVER;
use crate::storage::Storage;

/// Selects the data that a run keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Keeps every n-th completed I/O, in the order in which they were served; 0 keeps none.
    pub sample_every: u64,
    /// Most events to keep, the first ones, along with the drive's activity; 0 keeps none.
    pub events: usize,
}

/// One I/O of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The request.
    pub io: Io,
    /// Time when the host made it.
    pub requested: Nanos,
    /// Time when it was completed.
    pub completed: Nanos,
}

/// Data that a run has kept.
#[derive(Default)]
pub struct Kept {
    /// Sampled I/Os.
    pub samples: Vec<Sample>,
    /// Events and activity.
    pub inside: Option<Inside>,
}

/// State of the drive at the end of an interval.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Counters since the drive was made.
    pub counters: Counters,
    /// 4 KiB pages that are free, or will be after the next erase.
    pub free_pages: u64,
    /// 4 KiB pages of data that the SLC cache can hold at this time, and pages that it holds.
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

/// Events and activity inside the drive during a run.
pub struct Inside {
    /// Events of the drive.
    pub events: Events,
    /// Start of the recording.
    pub start: Nanos,
    /// End of the recording.
    pub end: Nanos,
    /// Length of an interval; the last one ends with the run.
    pub interval: Nanos,
    /// Number of intervals.
    pub intervals: usize,
    /// One column: the sum of the times, in nanoseconds, that requests were outstanding.
    pub outstanding: Activity,
    /// Readings at the start, and at the end of each interval.
    pub readings: Vec<Reading>,
}

/// Reads the drive's inside during a run.
struct Watch {
    start: Nanos,
    before: Reading,
    outstanding: Activity,
    readings: Vec<Reading>,
    interval: Nanos,
}

impl Watch {
    /// Starts to keep events, from the drive's present time on.
    fn new(device: &mut Device, events: usize) -> Watch {
        device.keep_events(events);
        let outstanding = Activity::new(device.now(), 1);
        let interval = outstanding.interval();
        let before = Reading::at(device);
        Watch { start: device.now(), before, outstanding, readings: Vec::new(), interval }
    }

    /// Time when the next reading is due.
    fn next(&self) -> Nanos {
        self.start.after(self.interval.times(self.readings.len() as u64 + 1))
    }

    /// Takes a reading for all intervals that ended by `now`.
    fn read(&mut self, device: &Device, now: Nanos) {
        let reading = Reading::at(device);
        while self.next() <= now {
            self.readings.push(reading);
            if self.readings.len() == Activity::INTERVALS_MAX {
                self.coarsen();
            }
        }
    }

    /// Doubles the interval: the later reading of each pair stands for both.
    fn coarsen(&mut self) {
        self.interval = self.interval.times(2);
        self.readings = self.readings.chunks(2).map(|pair| pair[pair.len() - 1]).collect();
    }

    /// Returns all data until `end`, the drive's present time.
    fn finish(mut self, device: &mut Device, end: Nanos) -> Option<Inside> {
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

/// The watch of a run that may have one; without `KEEPS`, nothing.
pub(crate) struct WatchedInside<const KEEPS: bool> {
    watch: Option<Box<Watch>>,
    /// Time of the next reading; `NEVER` without a watch.
    next_look: Nanos,
}

impl<const KEEPS: bool> WatchedInside<KEEPS> {
    /// Starts a watch that keeps this many events; with none, there is no watch.
    pub(crate) fn new(device: &mut impl Storage, events: usize) -> WatchedInside<KEEPS> {
        let watched = device.single().filter(|_| KEEPS && events > 0);
        let watch = watched.map(|device| Box::new(Watch::new(device, events)));
        WatchedInside { next_look: watch.as_ref().map_or(NEVER, |watch| watch.next()), watch }
    }

    /// Records that a request was outstanding from `requested` to `done`.
    #[inline(always)]
    pub(crate) fn add_outstanding(&mut self, requested: Nanos, done: Nanos) {
        if KEEPS && let Some(watch) = &mut self.watch {
            watch.outstanding.add(0, requested, done);
        }
    }

    /// Takes a reading if one is due at `now`.
    #[inline(always)]
    pub(crate) fn look(&mut self, device: &mut impl Storage, now: Nanos) {
        if KEEPS && now >= self.next_look {
            self.read(device, now);
        }
    }

    #[cold]
    fn read(&mut self, device: &mut impl Storage, now: Nanos) {
        if let Some((watch, device)) = self.watch.as_mut().zip(device.single()) {
            watch.read(device, now);
            self.next_look = watch.next();
        }
    }

    /// Returns what the watch has, until `end`, the drive's present time.
    pub(crate) fn finish(self, device: &mut impl Storage, end: Nanos) -> Option<Inside> {
        self.watch.zip(device.single()).and_then(|(watch, device)| watch.finish(device, end))
    }
}
