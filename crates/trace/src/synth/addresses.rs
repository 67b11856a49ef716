//! Addresses of a synthesized trace: files that are read and written sequentially, and random I/Os.
//!
//! Each phase has its own data: old files that it only reads, and new files that it writes, with a
//! hot part. All phases share the system's files, which are divided in the same way. (Recently
//! written data is read from the host's cache, so reads that reach a drive are mostly for old
//! data.) A sequential I/O continues one of the last [`crate::STREAMS`] I/Os of its kind, as the
//! statistics define it. A random I/O falls uniformly on the 4 KiB pages of its area. A write that
//! begins a stream or is large begins a new file; new files follow one another, as a file system
//! places them (next fit), and wrap around. Left out: fragmented files. A stream continues without
//! gaps until it is restarted elsewhere.

use drivebay_units::Rng;

use super::profile::{Profile, STREAMS_MAX, is_drawn, part};
use crate::stats::STREAMS;

const PAGE: u64 = 4096;
const AREA_UNIT: u64 = 1 << 20;
/// Large enough that even the smallest area holds the largest request many times.
const AREA_BYTES_MIN: u64 = 64 << 20;

#[derive(Clone, Copy, Debug)]
struct Area {
    start: u64,
    bytes: u64,
}

impl Area {
    fn after(before: Option<Area>, gb: f64, scale: f64) -> Area {
        let start = before.map_or(0, Area::end);
        let bytes = ((gb * 1e9 * scale) as u64 / AREA_UNIT * AREA_UNIT).max(AREA_BYTES_MIN);
        Area { start, bytes }
    }

    fn end(self) -> u64 {
        self.start + self.bytes
    }

    /// Returns a random address for `bytes` bytes: at a page boundary, or within a page.
    #[inline]
    fn draw(self, bytes: u64, rng: &mut Rng) -> u64 {
        let page = self.start + rng.below((self.bytes - bytes) / PAGE + 1) * PAGE;
        if bytes >= PAGE {
            return page;
        }
        page + rng.below((PAGE - bytes) / 512 + 1) * 512
    }
}

/// Old files, new files, and the hot part of the new files.
#[derive(Clone, Copy, Debug)]
struct Files {
    old: Area,
    new: Area,
    hot: Area,
}

impl Files {
    fn after(before: Option<Area>, gb: f64, hot_gb: f64, scale: f64) -> Files {
        let old = Area::after(before, gb / 2.0, scale);
        let new = Area::after(Some(old), gb / 2.0, scale);
        let hot = Area::after(Some(old), hot_gb, scale);
        Files { old, new, hot: Area { bytes: hot.bytes.min(new.bytes), ..hot } }
    }
}

/// End and time of the last I/O of a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    end: u64,
    /// Number of that I/O among its kind, from 1; 0 if there is none.
    number: u64,
    /// End of its files.
    limit: u64,
    /// Index in [`AddressGenerator::ends`] of the file that it writes, if any.
    file: Option<usize>,
}

/// Streams of one kind, reads or writes.
#[derive(Clone, Debug, Default)]
struct StreamSet {
    streams: [Stream; STREAMS_MAX],
    turn: usize,
    /// Consecutive small records: a journal. It keeps the other streams on whole pages.
    journal: Stream,
    last: Stream,
    last_on_page: Stream,
    count: u64,
}

impl StreamSet {
    /// True if an I/O of `bytes` bytes can continue the stream and still counts as sequential.
    #[inline]
    fn continues(&self, stream: Stream, bytes: u64) -> bool {
        stream.number > 0
            && stream.number + STREAMS as u64 > self.count
            && stream.end + bytes <= stream.limit
    }
}

/// Generator of a trace's addresses.
#[derive(Clone, Debug)]
pub(crate) struct AddressGenerator {
    system: Files,
    /// Files of each phase.
    data: Vec<Files>,
    phase: usize,
    streams: u64,
    /// Probabilities in units of 2^-32.
    hot: u64,
    system_part: u64,
    seek: u64,
    old: u64,
    /// Smallest write that begins a file.
    file_bytes: u64,
    /// True if this phase's own files are written in place.
    in_place: bool,
    kinds: [StreamSet; 2],
    /// Per phase (the system's files last) and stream: end of the file written last.
    ends: Vec<u64>,
    rng: Rng,
}

impl AddressGenerator {
    pub(crate) fn new(profile: &Profile, scale: f64, rng: Rng) -> AddressGenerator {
        let chosen = &profile.chosen;
        let system = Files::after(None, chosen.system_gb, chosen.system_gb / 2.0, scale);
        let mut data: Vec<Files> = Vec::new();
        for phase in &profile.phases {
            let before = data.last().unwrap_or(&system).new;
            data.push(Files::after(Some(before), phase.data_gb, phase.hot_gb, scale));
        }
        AddressGenerator {
            system,
            data,
            phase: 0,
            streams: 1,
            hot: 0,
            system_part: part(chosen.system_percent),
            seek: part(chosen.seek_percent),
            old: part(chosen.old_percent),
            file_bytes: chosen.file_kib << 10,
            in_place: false,
            kinds: Default::default(),
            ends: vec![0; (profile.phases.len() + 1) * STREAMS_MAX],
            rng,
        }
    }

    /// End of the highest address.
    pub(crate) fn extent_bytes(&self) -> u64 {
        self.data.last().unwrap_or(&self.system).new.end()
    }

    pub(crate) fn begin_phase(&mut self, index: usize, profile: &Profile) {
        let phase = &profile.phases[index];
        self.phase = index;
        self.hot = part(phase.hot_percent);
        self.streams = phase.streams as u64;
        self.in_place = phase.in_place;
    }

    /// Selects the streams of the next group.
    #[inline]
    pub(crate) fn turn(&mut self) {
        for kind in &mut self.kinds {
            kind.turn = self.rng.below(self.streams) as usize;
        }
    }

    /// Returns the first byte of the next I/O. Cost: one or two draws.
    #[inline]
    pub(crate) fn next(&mut self, write: bool, sequential: bool, bytes: u64) -> u64 {
        let (start, limit) = if sequential {
            self.sequential_address(write, bytes)
        } else {
            self.random_address(write, bytes)
        };
        let kind = &mut self.kinds[usize::from(write)];
        kind.count += 1;
        kind.last = Stream { end: start + bytes, number: kind.count, limit, file: None };
        if kind.last.end.is_multiple_of(PAGE) {
            kind.last_on_page = kind.last;
        }
        start
    }

    #[inline]
    fn random_address(&mut self, write: bool, bytes: u64) -> (u64, u64) {
        let rng = &mut self.rng;
        let seek = is_drawn(self.seek, rng);
        let of_system = is_drawn(self.system_part, rng);
        let files = if of_system { self.system } else { self.data[self.phase] };
        let new_file = write && (seek || bytes >= self.file_bytes) && (of_system || !self.in_place);
        if new_file && bytes.is_multiple_of(PAGE) {
            let whose = if of_system { self.data.len() } else { self.phase };
            return self.begin_file(whose, files.new, bytes);
        }
        let area = if !write && is_drawn(self.old, rng) {
            files.old
        } else if !seek && is_drawn(self.hot, rng) {
            files.hot
        } else {
            files.new
        };
        let start = area.draw(bytes, &mut self.rng);
        if seek && bytes.is_multiple_of(PAGE) {
            let kind = &mut self.kinds[usize::from(write)];
            let (end, number) = (start + bytes, kind.count + 1);
            kind.streams[kind.turn] = Stream { end, number, limit: area.end(), file: None };
        }
        (start, area.end())
    }

    /// Begins a new file of the current stream where a file system would put it: after the previous
    /// file, or at the front of the stream's part of the area when its end is reached.
    #[inline]
    fn begin_file(&mut self, whose: usize, area: Area, bytes: u64) -> (u64, u64) {
        let kind = &mut self.kinds[1];
        let share = area.bytes / self.streams / PAGE * PAGE;
        let front = area.start + kind.turn as u64 * share;
        let limit = front + share;
        let file = whose * STREAMS_MAX + kind.turn;
        // One page is left out, so that the new file does not count as a continuation.
        let behind = self.ends[file].next_multiple_of(PAGE) + PAGE;
        let fits = (front..limit).contains(&behind) && behind + bytes <= limit;
        // The largest request may be longer than a stream's part.
        let start = if fits { behind } else { front.min(area.end() - bytes) };
        let (end, number) = (start + bytes, kind.count + 1);
        self.ends[file] = end;
        kind.streams[kind.turn] = Stream { end, number, limit, file: Some(file) };
        (start, limit)
    }

    /// Continues the current stream, or the best one that counts as sequential; returns the address
    /// and the end of its files.
    #[inline]
    fn sequential_address(&mut self, write: bool, bytes: u64) -> (u64, u64) {
        let kind = &mut self.kinds[usize::from(write)];
        let number = kind.count + 1;
        if !bytes.is_multiple_of(PAGE) {
            let from = if kind.continues(kind.journal, bytes) { kind.journal } else { kind.last };
            if kind.continues(from, bytes) {
                kind.journal = Stream { end: from.end + bytes, number, ..from };
                return (from.end, from.limit);
            }
        } else {
            let own = kind.streams[kind.turn];
            for from in [own, kind.last_on_page, kind.last] {
                if kind.continues(from, bytes) {
                    kind.streams[kind.turn] = Stream { end: from.end + bytes, number, ..from };
                    if let Some(file) = from.file {
                        self.ends[file] = from.end + bytes;
                    }
                    return (from.end, from.limit);
                }
            }
        }
        // The first I/O, or one at the end of all data.
        let files = self.data[self.phase];
        let area = if write { files.new } else { files.old };
        let start = area.draw(bytes, &mut self.rng);
        let kind = &mut self.kinds[usize::from(write)];
        kind.streams[kind.turn] =
            Stream { end: start + bytes, number, limit: area.end(), file: None };
        (start, area.end())
    }
}
