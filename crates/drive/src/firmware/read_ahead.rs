//! Reading ahead of sequential streams: what the drive fetches before it is asked for.
//!
//! Source: no firmware is documented; that reads of the SM951 reach their full rate at queue depth
//! 2 and not at 4 or 8 (AnandTech 8979) asks for it. Model: a read that begins where one of the
//! last streams ended continues it; then the flash pages behind it are fetched too, up to a window.
//! A page fetched ahead is in the controller from the end of its transfer on. Left out: room in
//! memory (a few hundred KiB), pages fetched for nothing at the end of a stream are counted and
//! cost time, and a write to a page that has been fetched ahead does not drop it.

use drivebay_units::Nanos;

use crate::persist::persist;
use crate::profile::ReadAheadSpec;

/// One sequential stream, in pages (mapping units).
#[derive(Clone)]
struct Stream {
    /// Up to where it has been fetched.
    ahead: u32,
    /// When it was last used, counted in reads.
    used: u64,
    /// When each page is in the controller, by its last bits.
    ready: Vec<Nanos>,
}

/// The streams that the drive knows.
pub struct ReadAhead {
    spec: ReadAheadSpec,
    streams: Vec<Stream>,
    /// Where the next read of each stream begins, side by side: every read is compared with all of
    /// them.
    nexts: Vec<u32>,
    reads: u64,
    /// The streams by when they were last used: a ring that begins with the least recently used at
    /// `oldest`.
    by_age: Vec<u8>,
    oldest: usize,
}

persist!(Stream: ahead, used, ready);
persist!(ReadAhead: streams, nexts, reads; given: spec, by_age, oldest);

impl ReadAhead {
    /// Starts without knowledge of any stream.
    pub fn new(spec: ReadAheadSpec) -> ReadAhead {
        let places = spec.window_pages.next_power_of_two() as usize;
        let ready = vec![Nanos::ZERO; places];
        let unused = Stream { ahead: 0, used: 0, ready };
        let streams = spec.streams as usize;
        ReadAhead {
            spec,
            streams: vec![unused; streams],
            nexts: vec![u32::MAX; streams],
            reads: 0,
            by_age: (0..spec.streams as u8).collect(),
            oldest: 0,
        }
    }

    /// Finds the order of the streams, which have been filled otherwise than by reads.
    pub fn find_ages(&mut self) {
        self.by_age = (0..self.spec.streams as u8).collect();
        self.by_age.sort_by_key(|&index| self.streams[usize::from(index)].used);
        self.oldest = 0;
    }

    /// Forgets all streams.
    pub fn forget(&mut self) {
        *self = ReadAhead::new(self.spec);
    }

    /// Finds the stream that a read of these pages continues; otherwise it begins one, over the one
    /// that was used least recently. Cost: one comparison per stream, several at once.
    #[inline]
    pub fn continued(&mut self, first: u32, last: u32) -> Option<usize> {
        self.reads += 1;
        // Without a branch for each, so that the comparisons become vector instructions.
        let is_known = self.nexts.iter().fold(false, |known, &next| known | (next == first));
        let index = if is_known { self.use_stream(first) } else { self.use_oldest() };
        self.nexts[index] = last + 1;
        let stream = &mut self.streams[index];
        stream.used = self.reads;
        if !is_known {
            stream.ahead = last + 1;
        }
        is_known.then_some(index)
    }

    /// The stream that was used least recently becomes the newest.
    #[inline]
    fn use_oldest(&mut self) -> usize {
        let index = self.by_age[self.oldest];
        self.oldest += 1;
        if self.oldest == self.by_age.len() {
            self.oldest = 0;
        }
        usize::from(index)
    }

    /// The stream that goes on at `first` becomes the newest.
    fn use_stream(&mut self, first: u32) -> usize {
        self.by_age.rotate_left(self.oldest);
        self.oldest = 0;
        let index = self.nexts.iter().position(|&next| next == first);
        let age = self.by_age.iter().position(|&i| Some(usize::from(i)) == index);
        let newer = &mut self.by_age[age.unwrap_or(0)..];
        newer.rotate_left(1);
        usize::from(newer[newer.len() - 1])
    }

    /// How many pages from `page` to `last` came with one fetch ahead, and when they are in; none
    /// if `page` was not fetched.
    #[inline]
    pub fn fetched(&self, stream: usize, page: u32, last: u32) -> Option<(u32, Nanos)> {
        let stream = &self.streams[stream];
        let at = |page: u32| stream.ready[page as usize & (stream.ready.len() - 1)];
        let end = stream.ahead.min(last + 1);
        if page >= end {
            return None;
        }
        let len = (page..end).take_while(|&other| at(other) == at(page)).count();
        Some((len as u32, at(page)))
    }

    /// What is to be fetched behind a read that ended with `last`: half a window at least, or
    /// nothing.
    #[inline]
    pub fn wanted(&mut self, stream: usize, last: u32, pages: u32) -> std::ops::Range<u32> {
        let stream = &mut self.streams[stream];
        let begin = stream.ahead.max(last + 1);
        let end = pages.min(last.saturating_add(1 + self.spec.window_pages));
        if begin + self.spec.window_pages / 2 > end {
            return begin..begin;
        }
        stream.ahead = end;
        begin..end
    }

    /// These pages will be in the controller at `ready`.
    #[inline]
    pub fn put(&mut self, stream: usize, pages: std::ops::Range<u32>, ready: Nanos) {
        let stream = &mut self.streams[stream];
        let mask = stream.ready.len() - 1;
        for page in pages {
            stream.ready[page as usize & mask] = ready;
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/firmware_read_ahead.rs"]
mod tests;
