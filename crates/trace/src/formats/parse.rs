//! What the parsers of all formats share: the loop over the input, where requests go, and their checks.

use drivebay_units::Nanos;

use crate::error::{Problem, TraceError};
use crate::input::{LINE_BYTES_MAX, LineError, Lines};
use crate::request::{Op, Request};

/// Lines or records taken by one call of [`Parse::pump`]: some ten milliseconds.
const LINES_PER_CALL: usize = 1 << 16;
/// Longest read or write.
const TRANSFER_BYTES_MAX: u64 = u32::MAX as u64;
/// Longest response, and the clock's start for recordings that stamp completions: 73 years.
const RESPONSE_NS_MAX: u64 = 1 << 61;
/// Added to times from which a response is taken off, so that the first cannot fall below zero.
const BIAS_NS: u64 = 1 << 62;

/// What a recording lacks, counted by reason: most are entries that became no request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Lines that the format is known to leave incomplete (SYSTOR's empty fields).
    pub incomplete: u64,
    /// Reads, writes and trims of no bytes.
    pub no_bytes: u64,
    /// Events of other kinds, and SCSI commands other than read and write.
    pub other_events: u64,
    /// Events that the recorder says it lost.
    pub lost: u64,
    /// Completions whose issue is not in the recording.
    pub unmatched: u64,
    /// Requests, all kept, of a format that does not say what they are.
    pub no_op: u64,
}

impl Skipped {
    /// One sentence for each reason that occurred.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let reasons = [
            (self.incomplete, "lines with empty fields were left out"),
            (self.no_bytes, "requests of no bytes were left out"),
            (self.other_events, "events that are no read, write, trim or flush were left out"),
            (self.lost, "events were lost while recording, as the recorder says"),
            (self.unmatched, "completions have no issue in the recording"),
            (self.no_op, "requests count as reads: this format does not say what they are"),
        ];
        reasons.iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{n} {why}")).collect()
    }
}

/// Where a parser puts the requests that it finds.
pub(crate) struct Out<'a> {
    pub requests: &'a mut Vec<Request>,
    pub skipped: &'a mut Skipped,
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
}

/// The input of a parser, with its position.
pub(crate) struct Input {
    pub file: String,
    pub lines: Lines,
    pub skipped: Skipped,
    pub ended: bool,
}

impl Input {
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
        let hint = "is the disk or the connection all right? see: dmesg";
        return TraceError::Io { file: file.to_string(), what: "cannot be read", error, hint };
    }
    TraceError::File {
        file: file.to_string(),
        problem: format!("the compressed data are damaged or cut short after line {line}: {error}"),
        hint: "copy it again; gzip -t, bzip2 -t or zstd -t checks it".to_string(),
    }
}

/// The reader of one trace format.
pub(crate) trait Parse: Send {
    /// Parses one line, not empty; true if it was an I/O or event of this format.
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem>;

    /// Gives what was held back for its completion.
    fn end(&mut self, _out: &mut Out<'_>) {}

    /// Parses the next line; false at the end of the input.
    #[inline]
    fn next(&mut self, input: &mut Input, into: &mut Vec<Request>) -> Result<bool, TraceError> {
        let mut out = Out { requests: into, skipped: &mut input.skipped };
        match input.lines.next() {
            Ok(Some([])) => {}
            Ok(Some(line)) => {
                if let Err(problem) = self.line(line, &mut out) {
                    return Err(input.error_at("line", problem));
                }
            }
            Ok(None) => {
                self.end(&mut out);
                return Ok(false);
            }
            Err(LineError::TooLong) => {
                let what = format!("is longer than {LINE_BYTES_MAX} bytes");
                return Err(input.error_at("line", Problem::new(what)));
            }
            Err(LineError::Io(error)) => return Err(input.read_error(error)),
        }
        Ok(true)
    }

    /// Parses until `into` holds `len_max` requests, the input ends, or [`LINES_PER_CALL`] lines are read.
    /// A provided method, so that the loop over lines is compiled for each format without dynamic calls.
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
    let end = request.offset_bytes.checked_add(request.bytes);
    if end.is_none_or(|end| end > LAST) {
        return Err(Problem::new(format!(
            "offset {} and {} bytes lie beyond 2^63 - 1",
            request.offset_bytes, request.bytes
        )));
    }
    if request.bytes > TRANSFER_BYTES_MAX && request.op.moves_data() {
        return Err(Problem::new(format!(
            "a {} of {} bytes is too long; must be below 4 GiB",
            request.op.name(),
            request.bytes
        )));
    }
    if request.response.is_some_and(|response| response.0 > RESPONSE_NS_MAX) {
        return Err(Problem::new("the response time is longer than 73 years"));
    }
    Ok(())
}

/// When a request was issued that ended at `end_ns` after `response_ns`, and its response; for
/// recordings that stamp completions.
pub(crate) fn issued(end_ns: u64, response_ns: u64) -> Result<(Nanos, Option<Nanos>), Problem> {
    if end_ns > RESPONSE_NS_MAX || response_ns > RESPONSE_NS_MAX {
        return Err(Problem::new("a time is later than 73 years"));
    }
    Ok((Nanos(BIAS_NS + end_ns - response_ns), Some(Nanos(response_ns))))
}

/// Numbers for devices that have names, in order of appearance.
#[derive(Default)]
pub(crate) struct Names(Vec<Box<[u8]>>);

/// Most names of devices, which are searched one by one.
const NAMES_MAX: usize = 1024;

impl Names {
    pub(crate) fn number(&mut self, name: &[u8]) -> Result<u32, Problem> {
        if let Some(at) = self.0.iter().position(|known| **known == *name) {
            return Ok(at as u32);
        }
        if self.0.len() == NAMES_MAX {
            return Err(Problem::new(format!("more than {NAMES_MAX} devices or files are named")));
        }
        self.0.push(name.into());
        Ok(self.0.len() as u32 - 1)
    }
}
