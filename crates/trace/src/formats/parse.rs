//! Common parts of all parsers: the loop over the input, the output of requests, and their checks.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use drivebay_units::Nanos;

use super::pairs::{Key, Pairs};
use crate::error::{Problem, TraceError};
use crate::input::{LINE_BYTES_MAX, LineError, Lines};
use crate::request::{Op, Request};

/// Lines or records per call of [`Parse::pump`]: some ten milliseconds.
const LINES_PER_CALL: usize = 1 << 16;
/// Longest read or write.
const TRANSFER_BYTES_MAX: u64 = u32::MAX as u64;
/// Longest response time, and latest time of recordings that stamp completions: 73 years.
const RESPONSE_NS_MAX: u64 = 1 << 61;
/// Added to times from which a response time is subtracted, so that the result cannot fall below
/// zero.
const BIAS_NS: u64 = 1 << 62;

/// Lines per unreadable line that is accepted. Recorders, consoles and crashes leave such lines.
const LINES_PER_ODD: u64 = 100;
/// Additional unreadable lines that are accepted before the end of the file.
const ODD_AHEAD: u64 = 100;

/// Gaps of a recording, counted by reason; most are entries that became no request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Unreadable lines.
    pub odd: u64,
    /// Number of the first unreadable line, with its problem.
    pub first_odd: Option<String>,
    /// Runs of NUL bytes between lines.
    pub holes: u64,
    /// Lines that the format is known to leave incomplete (SYSTOR's empty fields).
    pub incomplete: u64,
    /// Reads, writes and trims of zero bytes.
    pub no_bytes: u64,
    /// Events that are not I/Os, and SCSI commands other than read and write.
    pub other_events: u64,
    /// Events that the recorder reports as lost.
    pub lost: u64,
    /// Completions without an issue in the recording.
    pub unmatched: u64,
    /// Issues that the driver requeued; the request counts from its next issue.
    pub requeued: u64,
    /// Requests of a format without operations; all are kept, as reads.
    pub no_op: u64,
    /// Requests of a format with their order but without times; all are kept.
    pub no_time: u64,
    /// Requests whose addresses are in blocks of unknown size; all are kept.
    pub no_block_size: u64,
    /// Requests of a file in microseconds whose times are all whole milliseconds.
    pub coarse: u64,
}

impl Skipped {
    /// Returns one sentence per reason that occurred.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let reasons = [
            (self.holes, "runs of NUL bytes, as after a crash, may have replaced lines"),
            (self.incomplete, "lines with empty fields were left out"),
            (self.no_bytes, "requests of no bytes were left out"),
            (self.other_events, "events other than read, write, trim and flush were left out"),
            (self.lost, "events were lost while recording, as the recorder reports"),
            (self.unmatched, "completions have no issue in the recording"),
            (
                self.requeued,
                "issues were requeued by the driver; their requests count once, from the last issue",
            ),
            (self.no_op, "requests count as reads: this file has no operations"),
            (self.no_time, "requests have no times: this format has only their order and pauses"),
            (
                self.no_block_size,
                "requests count blocks of the namespace, taken for 512 bytes each",
            ),
            (
                self.coarse,
                "requests have times of whole milliseconds: if these are nanoseconds, give --time-unit ns",
            ),
        ];
        let odd = self.first_odd.iter().map(|first| {
            let (lines, were) = if self.odd == 1 { ("line", "was") } else { ("lines", "were") };
            let count = format!("{} {lines} that cannot be read {were} left out", self.odd);
            format!("{count}; the first is {first}")
        });
        let others = reasons.iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{n} {why}"));
        odd.chain(others).collect()
    }
}

/// Output of a parser.
pub(crate) struct Out<'a> {
    pub requests: &'a mut Vec<Request>,
    pub skipped: &'a mut Skipped,
    pub pairs: &'a mut Pairs,
}

impl Out<'_> {
    /// Checks a request and adds it.
    #[inline]
    pub(crate) fn push(&mut self, request: Request) -> Result<bool, Problem> {
        if request.bytes == 0 && request.op != Op::Flush {
            self.skipped.no_bytes += 1;
            return Ok(true);
        }
        check(&request)?;
        self.requests.push(request);
        Ok(true)
    }

    /// Adds the issue of a request, whose completion is on another line.
    pub(crate) fn issue(&mut self, key: Key, request: Request) -> Result<(), Problem> {
        self.pairs.add(key, request).map_or(Ok(()), |oldest| self.push(oldest).map(drop))
    }

    /// Completes a request at `at`; returns true if its issue was seen.
    pub(crate) fn complete(&mut self, key: Key, at: Nanos) -> Result<bool, Problem> {
        let Some(request) = self.pairs.take_oldest(key) else { return Ok(false) };
        let response = at.0.checked_sub(request.at.0).map(Nanos);
        self.push(Request { response, ..request })
    }

    /// Ends the recording: adds all open issues without a response time.
    fn end(&mut self) {
        for request in std::mem::take(self.pairs).into_open() {
            self.push(request).expect("was checked when it was issued");
        }
    }
}

/// Input of a parser, with its position.
pub(crate) struct Input {
    pub file: String,
    pub lines: Lines,
    pub skipped: Skipped,
    pub pairs: Pairs,
    pub ended: bool,
    first_odd: Option<TraceError>,
}

impl Input {
    pub(crate) fn new(file: &str, lines: Lines) -> Input {
        let (file, skipped) = (file.to_string(), Skipped::default());
        let pairs = Pairs::default();
        Input { file, lines, skipped, pairs, ended: false, first_odd: None }
    }

    /// Skips an unreadable line, if such lines are few and the line is not cut off by the end of
    /// the file.
    #[cold]
    fn leave_out(&mut self, problem: Problem) -> Result<(), TraceError> {
        if problem.of_file || self.lines.cut {
            return Err(self.error_at("line", problem));
        }
        self.skipped.odd += 1;
        if self.first_odd.is_none() {
            let first = format!("line {}: {}", self.lines.number(), problem.what);
            self.skipped.first_odd = Some(first);
            self.first_odd = Some(self.error_at("line", problem));
        }
        self.judge(ODD_AHEAD)
    }

    /// Returns the first unreadable line as an error if there are too many, allowing `ahead` more.
    fn judge(&mut self, ahead: u64) -> Result<(), TraceError> {
        let (odd, lines) = (self.skipped.odd, self.lines.number());
        if odd <= ahead + lines / LINES_PER_ODD {
            return Ok(());
        }
        let Some(mut first) = self.first_odd.take() else { return Ok(()) };
        if let TraceError::Position { problem, .. } = &mut first
            && odd > 1
        {
            problem.push_str(&format!("; {} more of {lines} lines cannot be read", odd - 1));
        }
        Err(first)
    }

    #[cold]
    pub(crate) fn error_at(&self, unit: &'static str, problem: Problem) -> TraceError {
        let cut = "the file ends in the middle of that line: copy it again, or remove the line";
        TraceError::Position {
            file: self.file.clone(),
            unit,
            number: self.lines.number(),
            problem: problem.what,
            hint: if self.lines.cut { cut.to_string() } else { problem.hint },
        }
    }

    #[cold]
    pub(crate) fn read_error(&self, error: std::io::Error) -> TraceError {
        read_error(&self.file, self.lines.number(), error)
    }
}

#[cold]
pub(crate) fn read_error(file: &str, line: u64, error: std::io::Error) -> TraceError {
    use std::io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    if !matches!(error.kind(), InvalidData | InvalidInput | Other | UnexpectedEof) {
        let hint = "check the disk or the connection: dmesg";
        return TraceError::Io { file: file.to_string(), what: "cannot be read", error, hint };
    }
    let what = format!("the compressed data are damaged or cut short after line {line}: {error}");
    TraceError::file(file, what, "copy it again; gzip -t, bzip2 -t or zstd -t checks it")
}

/// Parser of a trace format.
pub(crate) trait Parse: Send {
    /// Parses a line that is not empty; returns true if it was an I/O or event of this format.
    /// Formats of records have no lines.
    fn line(&mut self, _line: &[u8], _out: &mut Out<'_>) -> Result<bool, Problem> {
        Ok(false)
    }

    /// Checks properties of the whole file.
    fn end(&mut self, _out: &mut Out<'_>) -> Result<(), Problem> {
        Ok(())
    }

    /// Parses the next line; returns false at the end of the input.
    #[inline]
    fn next(&mut self, input: &mut Input, into: &mut Vec<Request>) -> Result<bool, TraceError> {
        let Input { skipped, pairs, .. } = input;
        let mut out = Out { requests: into, skipped, pairs };
        match input.lines.next() {
            Ok(Some([])) => {}
            Ok(Some(line)) => {
                if let Err(problem) = self.line(line, &mut out) {
                    input.leave_out(problem)?;
                }
            }
            Ok(None) => {
                out.end();
                self.end(&mut out).map_err(|problem| input.error_at("line", problem))?;
                return input.judge(0).map(|()| false);
            }
            Err(LineError::TooLong) => {
                let what = format!("is longer than {LINE_BYTES_MAX} bytes");
                return Err(input.error_at("line", Problem::new(what)));
            }
            Err(LineError::Io(error)) => return Err(input.read_error(error)),
        }
        Ok(true)
    }

    /// Parses until `into` holds `len_max` requests, the input ends, or [`LINES_PER_CALL`] lines
    /// are read. A provided method, so that the loop over lines is compiled for each format without
    /// dynamic calls.
    fn pump(
        &mut self,
        input: &mut Input,
        into: &mut Vec<Request>,
        len_max: usize,
    ) -> Result<(), TraceError> {
        for _ in 0..LINES_PER_CALL {
            if into.len() >= len_max {
                break;
            }
            if !self.next(input, into)? {
                input.ended = true;
                break;
            }
        }
        Ok(())
    }
}

#[inline]
pub(crate) fn check(request: &Request) -> Result<(), Problem> {
    const LAST: u64 = i64::MAX as u64;
    let Request { offset_bytes, bytes, response, op, .. } = *request;
    if offset_bytes.checked_add(bytes).is_none_or(|end| end > LAST) {
        let what = format!("offset {offset_bytes} and {bytes} bytes lie beyond 2^63 - 1");
        return Err(Problem::new(what));
    }
    if bytes > TRANSFER_BYTES_MAX && op.moves_data() {
        let what = format!("a {} of {bytes} bytes is too long; must be below 4 GiB", op.name());
        return Err(Problem::new(what));
    }
    if response.is_some_and(|response| response.0 > RESPONSE_NS_MAX) {
        return Err(Problem::new("the response time is longer than 73 years"));
    }
    Ok(())
}

/// Issue time and response time of a request that ended at `end_ns` after `response_ns`; for
/// recordings that stamp completions.
pub(crate) fn issued(end_ns: u64, response_ns: u64) -> Result<(Nanos, Option<Nanos>), Problem> {
    if end_ns > RESPONSE_NS_MAX || response_ns > RESPONSE_NS_MAX {
        return Err(Problem::new("a time is later than 73 years"));
    }
    Ok((Nanos(BIAS_NS + end_ns - response_ns), Some(Nanos(response_ns))))
}

/// Numbers of named entities (disks, files, blocks) in order of appearance. At most [`Names::MAX`],
/// distinguished by a 64-bit hash.
#[derive(Default)]
pub(crate) struct Names(HashMap<u64, u32>);

impl Names {
    /// Some 150 MB of names.
    const MAX: usize = 1 << 22;

    pub(crate) fn number(&mut self, name: impl Hash) -> Result<u32, Problem> {
        let mut hash = DefaultHasher::new();
        name.hash(&mut hash);
        let next = self.0.len();
        let number = *self.0.entry(hash.finish()).or_insert(next as u32);
        if number as usize == Names::MAX {
            let hint = "split the file; is --format (or --from) the right one?";
            return Err(Problem::of_file(format!("more than {} names", Names::MAX), hint));
        }
        Ok(number)
    }
}
