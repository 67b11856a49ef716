//! Addresses of a synthesized trace: files that are read and written in sequence, and random I/Os.
//!
//! Each phase has its own data: old files that it only reads, and what it writes, with a hot part;
//! all share the system's files, which are divided so as well. (What was written a moment ago is
//! read from the host's cache, so that reads reach a drive mostly for what is old.) A sequential
//! I/O goes on where one of the last [`crate::STREAMS`] of its kind ended, as the statistics define
//! it. A random one falls anywhere on 4 KiB pages of its area, uniformly; but a write that begins a
//! stream or is large begins a new file, and those lie one behind the other, as a file system
//! places them (next fit), and come round. Left out: scattered files. A stream goes on without a
//! break until it is begun elsewhere.

use drivebay_units::Rng;

use super::profile::{Profile, STREAMS_MAX, is_drawn, part};
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
        let start = before.map_or(0, Area::end);
        let bytes = ((gb * 1e9 * scale) as u64 / AREA_UNIT * AREA_UNIT).max(AREA_BYTES_MIN);
        Area { start, bytes }
    }

    fn end(self) -> u64 {
        self.start + self.bytes
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

/// Old files, then those that are written, and the hot part of these.
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

/// Where the next I/O of a stream begins, and when its last one was.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    end: u64,
    /// Number of that I/O among its kind, from 1; 0 for none.
    number: u64,
    /// Where its files end.
    limit: u64,
    /// The file that it writes, if it is one: an index of [`AddressGenerator::ends`].
    file: Option<usize>,
}

/// The streams of one kind: reads or writes.
#[derive(Clone, Debug, Default)]
struct StreamSet {
    streams: [Stream; STREAMS_MAX],
    turn: usize,
    /// Small records one after the other: a journal. Keeps the other streams on whole pages.
    journal: Stream,
    last: Stream,
    last_on_page: Stream,
    count: u64,
}

impl StreamSet {
    /// Whether that stream may be continued by so many bytes and still counts as sequential.
    #[inline]
    fn continues(&self, stream: Stream, bytes: u64) -> bool {
        stream.number > 0
            && stream.number + STREAMS as u64 > self.count
            && stream.end + bytes <= stream.limit
    }
}

/// Draws the addresses of a trace.
#[derive(Clone, Debug)]
pub(crate) struct AddressGenerator {
    system: Files,
    /// By phase.
    data: Vec<Files>,
    phase: usize,
    streams: u64,
    /// Parts of 2^32.
    hot: u64,
    system_part: u64,
    seek: u64,
    old: u64,
    /// Smallest write that begins a file.
    file_bytes: u64,
    /// Whether this phase's own files are written in place.
    in_place: bool,
    kinds: [StreamSet; 2],
    /// By phase (the system's files last) and stream: where the file written last ends.
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

    /// Where the highest address ends.
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

    /// A new file of the stream whose turn it is, where a file system would put it: behind the one
    /// before, and at the front of the stream's part of the area when its end is reached.
    #[inline]
    fn begin_file(&mut self, whose: usize, area: Area, bytes: u64) -> (u64, u64) {
        let kind = &mut self.kinds[1];
        let share = area.bytes / self.streams / PAGE * PAGE;
        let front = area.start + kind.turn as u64 * share;
        let limit = front + share;
        let file = whose * STREAMS_MAX + kind.turn;
        // One page is left out, so that it does not count as the same file going on.
        let behind = self.ends[file].next_multiple_of(PAGE) + PAGE;
        let fits = (front..limit).contains(&behind) && behind + bytes <= limit;
        // The largest request may be longer than a stream's part.
        let start = if fits { behind } else { front.min(area.end() - bytes) };
        let (end, number) = (start + bytes, kind.count + 1);
        self.ends[file] = end;
        kind.streams[kind.turn] = Stream { end, number, limit, file: Some(file) };
        (start, limit)
    }

    /// Goes on with the stream whose turn it is, or the best one that counts as sequential; gives
    /// the place and where its files end.
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
        // The very first, or at the end of all data.
        let files = self.data[self.phase];
        let area = if write { files.new } else { files.old };
        let start = area.draw(bytes, &mut self.rng);
        let kind = &mut self.kinds[usize::from(write)];
        kind.streams[kind.turn] =
            Stream { end: start + bytes, number, limit: area.end(), file: None };
        (start, area.end())
    }
}
