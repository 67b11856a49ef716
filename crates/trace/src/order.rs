//! Ordering of requests by time, in bounded memory.
//!
//! [`Order::Window`] holds the next [`WINDOW`] requests and sorts among them. It streams, and is
//! enough for recorders that log at completion or per processor. [`Order::Sort`] sorts everything
//! through a temporary file (37 bytes per request); it needs disk space, and reads the whole input
//! before the first output. Both keep the file's order among requests with the same time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;

use drivebay_units::{Nanos, refuse_if};

use crate::error::TraceError;
use crate::reader::{Reader, TraceFile};
use crate::request::{Op, Request};

/// Most requests by which a request may be late in the file: 2 x 262,144 x 48 bytes are held.
pub const WINDOW: usize = 1 << 18;
/// Requests that [`Order::Sort`] sorts in memory at once: 48 MiB, and half of that in addition
/// while sorting.
pub const RUN: usize = 1 << 20;
/// Total read buffers of all runs while merging, unless there are more than 16,384 runs.
const MERGE_BYTES: usize = 64 << 20;
const MERGE_BYTES_PER_RUN: (usize, usize) = (4096, 1 << 20);

/// Method of ordering a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Streaming; a request more than [`WINDOW`] requests late is an error.
    Window,
    /// Sorting of the whole trace through a temporary file.
    Sort,
}

/// A trace in time order, with the first request at 0.
pub struct Trace {
    reader: Reader,
    state: State,
    window: usize,
    run: usize,
    block: Vec<Request>,
    /// Requests at the start of `block` that were already returned.
    given: usize,
    origin: Option<Nanos>,
    last: Nanos,
}

enum State {
    Window { ended: bool },
    Unsorted,
    Merge(Merge),
}

/// Callback that returns false to cancel; called every few tens of milliseconds.
pub type KeepRunning<'a> = &'a mut dyn FnMut() -> bool;

impl Trace {
    /// Opens a file, compressed or not; the format is detected unless given.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn open(file: &TraceFile, order: Order) -> Result<Trace, TraceError> {
        Ok(Trace::new(Reader::open(file)?, order))
    }

    /// Orders the requests of a reader.
    #[must_use]
    pub fn new(reader: Reader, order: Order) -> Trace {
        Trace::sized(reader, order, WINDOW, RUN)
    }

    /// Creates a trace with other bounds, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn sized(reader: Reader, order: Order, window: usize, run: usize) -> Trace {
        let state = match order {
            Order::Window => State::Window { ended: false },
            Order::Sort => State::Unsorted,
        };
        let (block, origin, last) = (Vec::new(), None, Nanos::ZERO);
        Trace { reader, state, window, run, block, given: 0, origin, last }
    }

    /// The file, with its format and the entries skipped so far.
    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Returns the next requests, at most [`WINDOW`]; `None` at the end.
    ///
    /// # Errors
    /// Errors of the reader; [`TraceError::TooFarBack`] from [`Order::Window`];
    /// [`TraceError::Cancelled`].
    pub fn next_block(
        &mut self,
        keep_running: KeepRunning<'_>,
    ) -> Result<Option<&[Request]>, TraceError> {
        if matches!(self.state, State::Unsorted) {
            self.state = self.sort(keep_running)?;
        }
        self.block.drain(..self.given);
        self.given = 0;
        let len = match &mut self.state {
            State::Window { .. } => self.fill_window(keep_running)?,
            State::Merge(merge) => {
                refuse_if(!keep_running(), TraceError::Cancelled)?;
                merge.fill(&mut self.block, self.window)?;
                self.block.len()
            }
            State::Unsorted => unreachable!("was sorted above"),
        };
        let block = &mut self.block[..len];
        let (Some(first), Some(last)) = (block.first(), block.last()) else { return Ok(None) };
        self.last = last.at;
        let origin = *self.origin.get_or_insert(first.at);
        for request in block.iter_mut() {
            request.at = request.at.since(origin);
        }
        self.given = len;
        Ok(Some(&self.block[..len]))
    }

    /// Fills the block to twice the window; returns the number of requests that are in final order.
    fn fill_window(&mut self, keep_running: KeepRunning<'_>) -> Result<usize, TraceError> {
        let State::Window { ended } = &mut self.state else { unreachable!("called for a window") };
        let sorted = self.block.len().saturating_sub(1);
        while !*ended && self.block.len() < 2 * self.window {
            *ended = !self.reader.read(&mut self.block, 2 * self.window)?;
            refuse_if(!keep_running(), TraceError::Cancelled)?;
        }
        if !self.block[sorted..].is_sorted_by_key(|request| request.at) {
            self.block.sort_by_key(|request| request.at);
        }
        if let Some(first) = self.block.first().filter(|first| first.at < self.last) {
            return Err(TraceError::TooFarBack {
                file: self.reader.file().to_string(),
                late_s: self.last.since(first.at).as_secs_f64(),
                window: self.window,
            });
        }
        Ok(self.block.len().min(self.window))
    }

    fn sort(&mut self, keep_running: KeepRunning<'_>) -> Result<State, TraceError> {
        let mut runs = Runs::default();
        let mut run = Vec::new();
        loop {
            let more = self.reader.read(&mut run, self.run)?;
            refuse_if(!keep_running(), TraceError::Cancelled)?;
            if more && run.len() < self.run {
                continue;
            }
            run.sort_by_key(|request| request.at);
            if !more && runs.ends.is_empty() {
                self.block = run; // the whole trace, returned window by window
                return Ok(State::Window { ended: true });
            }
            if !run.is_empty() {
                runs.write(&run)?;
            }
            run.clear();
            if !more {
                return Ok(State::Merge(Merge::new(runs)?));
            }
        }
    }
}

const RECORD: usize = 37;

fn pack(request: &Request) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..8].copy_from_slice(&request.at.0.to_le_bytes());
    record[8..16].copy_from_slice(&request.offset_bytes.to_le_bytes());
    record[16..24].copy_from_slice(&request.bytes.to_le_bytes());
    let response = request.response.map_or(u64::MAX, |response| response.0);
    record[24..32].copy_from_slice(&response.to_le_bytes());
    record[32..36].copy_from_slice(&request.device.to_le_bytes());
    record[36] = request.op as u8;
    record
}

fn unpack(record: &[u8; RECORD]) -> Request {
    let eight =
        |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("8 bytes of 37"));
    let response = eight(24);
    Request {
        at: Nanos(eight(0)),
        offset_bytes: eight(8),
        bytes: eight(16),
        response: (response != u64::MAX).then_some(Nanos(response)),
        device: u32::from_le_bytes(record[32..36].try_into().expect("4 bytes of 37")),
        op: Op::ALL[usize::from(record[36])],
    }
}

/// Sorted runs, one after the other in an unnamed temporary file that vanishes with the process.
#[derive(Default)]
struct Runs {
    file: Option<File>,
    /// End of each run, in records.
    ends: Vec<u64>,
}

#[cold]
fn temporary(what: &'static str) -> impl FnOnce(std::io::Error) -> TraceError {
    move |error| TraceError::Io {
        file: std::env::temp_dir().display().to_string(),
        what,
        error,
        hint: "sorting needs 37 bytes per request there; another place: TMPDIR=/path drivebay ...",
    }
}

impl Runs {
    fn write(&mut self, run: &[Request]) -> Result<(), TraceError> {
        let what = "the temporary file cannot be written";
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile().map_err(temporary(what))?);
        }
        let mut out = BufWriter::with_capacity(1 << 20, self.file.as_ref().expect("just made"));
        for request in run {
            out.write_all(&pack(request)).map_err(temporary(what))?;
        }
        out.flush().map_err(temporary(what))?;
        self.ends.push(self.ends.last().unwrap_or(&0) + run.len() as u64);
        Ok(())
    }
}

/// Merge of the runs. For equal times the earlier run goes first, which keeps the file's order.
struct Merge {
    file: File,
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    cursors: Vec<Cursor>,
}

/// Cursor of a run, read buffer by buffer.
struct Cursor {
    next: u64,
    end: u64,
    buffer: Box<[u8]>,
    /// Records already taken from the buffer, and records in it.
    taken: usize,
    held: usize,
}

impl Merge {
    fn new(runs: Runs) -> Result<Merge, TraceError> {
        let file = runs.file.expect("runs were written");
        let (least, most) = MERGE_BYTES_PER_RUN;
        let records = (MERGE_BYTES / runs.ends.len()).clamp(least, most) / RECORD;
        let mut merge = Merge { file, heads: BinaryHeap::new(), cursors: Vec::new() };
        let mut start = 0;
        for end in runs.ends {
            let buffer = vec![0; records * RECORD].into();
            merge.cursors.push(Cursor { next: start, end, buffer, taken: 0, held: 0 });
            start = end;
        }
        for at in 0..merge.cursors.len() {
            merge.advance(at)?;
        }
        Ok(merge)
    }

    /// Pushes the time of the run's next request to the heap, if there is one.
    fn advance(&mut self, run: usize) -> Result<(), TraceError> {
        let cursor = &mut self.cursors[run];
        if cursor.taken == cursor.held {
            let left = (cursor.end - cursor.next) as usize;
            let records = left.min(cursor.buffer.len() / RECORD);
            if records == 0 {
                cursor.buffer = Box::default();
                return Ok(());
            }
            self.file
                .read_exact_at(&mut cursor.buffer[..records * RECORD], cursor.next * RECORD as u64)
                .map_err(temporary("the temporary file cannot be read"))?;
            cursor.next += records as u64;
            (cursor.taken, cursor.held) = (0, records);
        }
        self.heads.push(Reverse((cursor.head().at.0, run)));
        Ok(())
    }

    fn fill(&mut self, into: &mut Vec<Request>, len_max: usize) -> Result<(), TraceError> {
        while into.len() < len_max
            && let Some(Reverse((_, run))) = self.heads.pop()
        {
            let cursor = &mut self.cursors[run];
            into.push(cursor.head());
            cursor.taken += 1;
            self.advance(run)?;
        }
        Ok(())
    }
}

impl Cursor {
    fn head(&self) -> Request {
        let start = self.taken * RECORD;
        let record = self.buffer[start..start + RECORD].try_into();
        unpack(record.expect("37 bytes"))
    }
}
