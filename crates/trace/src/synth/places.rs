//! Addresses of a synthesized trace: files that are read and written in sequence, and random I/Os.
//!
//! Each phase has its own data, with a hot part; all share the system's files. A sequential I/O goes on
//! where one of the last [`crate::STREAMS`] of its kind ended, as the statistics define it. A random one
//! falls anywhere on 4 KiB pages of its area, uniformly.
//! Left out: scattered files. A stream goes on without a break until it is begun elsewhere.

use drivebay_units::Rng;

use super::profile::{Profile, STREAMS_MAX};
use crate::stats::STREAMS;

const PAGE: u64 = 4096;
const AREA_UNIT: u64 = 1 << 20;
/// So that even the smallest area takes the largest request many times.
const AREA_BYTES_MIN: u64 = 64 << 20;

#[derive(Clone, Copy, Debug)]
struct Area {
    start: u64,
    bytes: u64,
}

impl Area {
    fn after(before: Option<Area>, gb: f64, scale: f64) -> Area {
        let start = before.map_or(0, |area| area.start + area.bytes);
        let bytes = ((gb * 1e9 * scale) as u64 / AREA_UNIT * AREA_UNIT).max(AREA_BYTES_MIN);
        Area { start, bytes }
    }

    /// A random place for so many bytes: on a page, or within one.
    #[inline]
    fn draw(self, bytes: u64, rng: &mut Rng) -> u64 {
        let page = self.start + rng.below((self.bytes - bytes) / PAGE + 1) * PAGE;
        if bytes >= PAGE {
            return page;
        }
        page + rng.below((PAGE - bytes) / 512 + 1) * 512
    }
}

/// Where the next I/O of a stream begins, and when its last one was.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    end: u64,
    /// Number of that I/O among its kind, from 1; 0 for none.
    number: u64,
}

/// The streams of one kind: reads or writes.
#[derive(Clone, Debug, Default)]
struct Kind {
    streams: [Stream; STREAMS_MAX],
    turn: usize,
    /// Small records one after the other: a journal. Keeps the other streams on whole pages.
    journal: Stream,
    last: Stream,
    last_on_page: Stream,
    count: u64,
}

impl Kind {
    /// Whether that stream may be continued by so many bytes and still counts as sequential.
    #[inline]
    fn goes_on(&self, stream: Stream, bytes: u64, limit: u64) -> bool {
        stream.number > 0
            && stream.number + STREAMS as u64 > self.count
            && stream.end + bytes <= limit
    }
}

/// Draws the addresses of a trace.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    system: Area,
    /// All data and the hot part, by phase.
    areas: Vec<(Area, Area)>,
    phase: usize,
    hot_percent: u64,
    streams: u64,
    system_percent: u64,
    seek_percent: u64,
    kinds: [Kind; 2],
    rng: Rng,
}

impl Places {
    pub(crate) fn new(profile: &Profile, scale: f64, rng: Rng) -> Places {
        let system = Area::after(None, profile.chosen.system_gb, scale);
        let mut areas: Vec<(Area, Area)> = Vec::new();
        for phase in &profile.phases {
            let before = areas.last().map_or(system, |(data, _)| *data);
            let data = Area::after(Some(before), phase.data_gb, scale);
            let hot = Area::after(Some(before), phase.hot_gb, scale);
            areas.push((data, Area { bytes: hot.bytes.min(data.bytes), ..hot }));
        }
        Places {
            system,
            areas,
            phase: 0,
            hot_percent: 0,
            streams: 1,
            system_percent: profile.chosen.system_percent,
            seek_percent: profile.chosen.seek_percent,
            kinds: Default::default(),
            rng,
        }
    }

    /// Where the highest address ends.
    pub(crate) fn extent_bytes(&self) -> u64 {
        self.areas.last().map_or(self.system, |(data, _)| *data).start
            + self.areas.last().map_or(self.system, |(data, _)| *data).bytes
    }

    pub(crate) fn begin_phase(&mut self, index: usize, profile: &Profile) {
        let phase = &profile.phases[index];
        self.phase = index;
        self.hot_percent = phase.hot_percent;
        self.streams = phase.streams as u64;
    }

    /// Another stream's turn, for the next group.
    #[inline]
    pub(crate) fn turn(&mut self) {
        for kind in &mut self.kinds {
            kind.turn = self.rng.below(self.streams) as usize;
        }
    }

    /// The first byte of the next I/O. Cost: one or two draws.
    #[inline]
    pub(crate) fn next(&mut self, write: bool, sequential: bool, bytes: u64) -> u64 {
        let start =
            if sequential { self.onward(write, bytes) } else { self.anywhere(write, bytes) };
        let kind = &mut self.kinds[usize::from(write)];
        kind.count += 1;
        kind.last = Stream { end: start + bytes, number: kind.count };
        if kind.last.end % PAGE == 0 {
            kind.last_on_page = kind.last;
        }
        start
    }

    #[inline]
    fn anywhere(&mut self, write: bool, bytes: u64) -> u64 {
        let (data, hot) = self.areas[self.phase];
        let percent = self.rng.below(100);
        let seek = self.rng.below(100) < self.seek_percent;
        let area = if percent < self.system_percent {
            self.system
        } else if !seek && self.rng.below(100) < self.hot_percent {
            hot
        } else {
            data
        };
        let start = area.draw(bytes, &mut self.rng);
        if seek && bytes % PAGE == 0 {
            let kind = &mut self.kinds[usize::from(write)];
            kind.streams[kind.turn] = Stream { end: start + bytes, number: kind.count + 1 };
        }
        start
    }

    /// Goes on with the stream whose turn it is, or the best one that counts as sequential.
    #[inline]
    fn onward(&mut self, write: bool, bytes: u64) -> u64 {
        let limit = self.extent_bytes();
        let kind = &mut self.kinds[usize::from(write)];
        let number = kind.count + 1;
        if bytes % PAGE != 0 {
            let from =
                if kind.goes_on(kind.journal, bytes, limit) { kind.journal } else { kind.last };
            if kind.goes_on(from, bytes, limit) {
                kind.journal = Stream { end: from.end + bytes, number };
                return from.end;
            }
        } else {
            let own = kind.streams[kind.turn];
            for from in [own, kind.last_on_page, kind.last] {
                if kind.goes_on(from, bytes, limit) {
                    kind.streams[kind.turn] = Stream { end: from.end + bytes, number };
                    return from.end;
                }
            }
        }
        // The very first, or at the end of all data.
        let start = self.areas[self.phase].0.draw(bytes, &mut self.rng);
        let kind = &mut self.kinds[usize::from(write)];
        kind.streams[kind.turn] = Stream { end: start + bytes, number };
        start
    }
}
