//! The formats: what each line means. One file per family; detection by trying them all.
//!
//! A parser turns one line into at most a few requests and knows nothing of files or order. It refuses
//! what it cannot read; it leaves out, and counts, only what its format is known to hold besides I/Os.

mod columns;
mod kernel;
mod number;
mod pairs;
mod tools;
mod vscsi;

use crate::error::{Problem, TraceError};
use crate::request::{Op, Request};
use drivebay_units::Nanos;

pub(crate) use columns::{Alibaba, Csv, Msr, Own, Spc, Systor, Tencent, Vscsi};
pub(crate) use kernel::{Blkparse, Ftrace};
pub(crate) use tools::{Biosnoop, DiskSim, Etw, Iolog};
pub(crate) use vscsi::{RECORD_BYTES, record as vscsi_record};

/// A trace format that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// MSR Cambridge CSV.
    Msr,
    /// SYSTOR '17 CSV.
    Systor,
    /// Alibaba block traces, CSV.
    Alibaba,
    /// Tencent block storage traces, CSV.
    Tencent,
    /// CloudPhysics (VMware vscsiStats), CSV.
    Vscsi,
    /// CloudPhysics, 32-byte binary records (version 1).
    VscsiBinary,
    /// Storage Performance Council: Financial, WebSearch.
    Spc,
    /// DiskSim ASCII: times in milliseconds.
    DiskSim,
    /// MQSim ASCII: DiskSim's columns with times in whole nanoseconds.
    MqSim,
    /// blkparse's default text.
    Blkparse,
    /// ftrace text with block_rq_issue and block_rq_complete.
    Ftrace,
    /// bcc's biosnoop.
    Biosnoop,
    /// xperf's disk I/O text.
    Etw,
    /// fio's iolog, version 3.
    Iolog,
    /// This program's own CSV.
    Csv,
}

impl Format {
    /// Every format and its name. Where a file fits two equally, the earlier wins.
    pub const ALL: [(Format, &'static str); 15] = [
        (Format::Msr, "msr"),
        (Format::Systor, "systor"),
        (Format::Alibaba, "alibaba"),
        (Format::Tencent, "tencent"),
        (Format::Vscsi, "vscsi"),
        (Format::VscsiBinary, "vscsi-binary"),
        (Format::Spc, "spc"),
        (Format::MqSim, "mqsim"),
        (Format::DiskSim, "disksim"),
        (Format::Blkparse, "blkparse"),
        (Format::Ftrace, "ftrace"),
        (Format::Biosnoop, "biosnoop"),
        (Format::Etw, "etw"),
        (Format::Iolog, "iolog"),
        (Format::Csv, "csv"),
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        Format::ALL.iter().find(|(format, _)| *format == self).expect("ALL has every format").1
    }

    /// The format of that name.
    ///
    /// # Errors
    /// [`TraceError::UnknownFormat`].
    pub fn from_name(name: &str) -> Result<Format, TraceError> {
        let found = Format::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(format, _)| *format).ok_or_else(|| TraceError::UnknownFormat(name.to_string()))
    }

    /// All names in one line.
    #[must_use]
    pub fn list() -> String {
        Format::ALL.map(|(_, name)| name).join(", ")
    }
}

/// What a format holds besides requests, and what was left out of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
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
}

impl LeftOut {
    /// One sentence for each kind that occurred.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let kinds = [
            (self.incomplete, "lines with empty fields were left out"),
            (self.no_bytes, "requests of no bytes were left out"),
            (self.other_events, "events that are no read, write, trim or flush were left out"),
            (self.lost, "events were lost while recording, as the recorder says"),
            (self.unmatched, "completions have no issue in the recording"),
        ];
        kinds.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect()
    }
}

/// Where a parser puts what it finds.
pub(crate) struct Out<'a> {
    pub requests: &'a mut Vec<Request>,
    pub left_out: &'a mut LeftOut,
}

/// One text format.
pub(crate) trait Parse: Default {
    /// Takes one line, not empty; true if it was an I/O or event of this format.
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem>;

    /// Gives what was held back for its completion.
    fn end(&mut self, _out: &mut Out<'_>) {}
}

/// Longest read or write.
pub(crate) const TRANSFER_BYTES_MAX: u64 = u32::MAX as u64;
/// Longest response, and the clock's start for recordings that stamp completions: 73 years.
pub(crate) const RESPONSE_NS_MAX: u64 = 1 << 61;
/// Added to times from which a response is taken off, so that the first cannot fall below zero.
pub(crate) const BIAS_NS: u64 = 1 << 62;

impl Out<'_> {
    /// Checks a request and takes it.
    #[inline]
    pub(crate) fn take(&mut self, request: Request) -> Result<bool, Problem> {
        if request.bytes == 0 && request.op != Op::Flush {
            self.left_out.no_bytes += 1;
            return Ok(true);
        }
        check(&request)?;
        self.requests.push(request);
        Ok(true)
    }
}

#[inline]
fn check(request: &Request) -> Result<(), Problem> {
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

/// The request that ended at `end_ns` after `response_ns`; for recordings that stamp completions.
pub(crate) fn ended(end_ns: u64, response_ns: u64) -> Result<(Nanos, Option<Nanos>), Problem> {
    if end_ns > RESPONSE_NS_MAX || response_ns > RESPONSE_NS_MAX {
        return Err(Problem::new("a time is later than 73 years"));
    }
    Ok((Nanos(BIAS_NS + end_ns - response_ns), Some(Nanos(response_ns))))
}

/// Numbers for devices that have names, in order of appearance.
#[derive(Default)]
pub(crate) struct Names(Vec<Box<[u8]>>);

/// Most devices of a trace.
pub(crate) const DEVICES_MAX: usize = 1 << 16;
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

/// How many lines of a file's start are looked at.
const DETECT_LINES: usize = 2_000;

/// The format whose parser knows the most lines of `sample`; None if none knows any.
pub(crate) fn detect(sample: &[u8]) -> Option<Format> {
    if vscsi::looks_like(sample) {
        return Some(Format::VscsiBinary);
    }
    if sample.starts_with(b"fio version ") {
        return Some(Format::Iolog);
    }
    let mut best = (0, None);
    for (format, _) in Format::ALL {
        let known = match format {
            Format::Msr => known::<Csv<Msr>>(sample),
            Format::Systor => known::<Csv<Systor>>(sample),
            Format::Alibaba => known::<Csv<Alibaba>>(sample),
            Format::Tencent => known::<Csv<Tencent>>(sample),
            Format::Vscsi => known::<Csv<Vscsi>>(sample),
            Format::Spc => known::<Csv<Spc>>(sample),
            Format::MqSim => known::<DiskSim<false>>(sample),
            Format::DiskSim => known::<DiskSim<true>>(sample),
            Format::Blkparse => known::<Blkparse>(sample),
            Format::Ftrace => known::<Ftrace>(sample),
            Format::Biosnoop => known::<Biosnoop>(sample),
            Format::Etw => known::<Etw>(sample),
            Format::Csv => known::<Csv<Own>>(sample),
            Format::VscsiBinary | Format::Iolog => 0,
        };
        if known > best.0 {
            best = (known, Some(format));
        }
    }
    best.1
}

fn known<P: Parse>(sample: &[u8]) -> usize {
    let mut parser = P::default();
    let (mut requests, mut left_out) = (Vec::new(), LeftOut::default());
    let lines = sample.split(|byte| matches!(byte, b'\n' | b'\r')).filter(|line| !line.is_empty());
    lines
        .take(DETECT_LINES)
        .filter(|line| {
            let mut out = Out { requests: &mut requests, left_out: &mut left_out };
            parser.line(line, &mut out).unwrap_or(false)
        })
        .count()
}
