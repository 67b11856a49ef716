//! Formats that are comma-separated columns, one request per line.
//!
//! Sources: the header or README that each collection is published with. MSR Cambridge (SNIA IOTTA 388),
//! SYSTOR '17 (IOTTA 4928), Alibaba (github.com/alibaba/block-traces), Tencent (IOTTA 27917), K5cloud (IOTTA
//! 26930), CloudPhysics (data/trace.csv of libCacheSim: 7,200 s in whole seconds), SPC trace file format
//! specification 1.0.1.
//! Not read: MSR's host name (a file has one host). Effect: files of several hosts put into one mix
//! disks of the same number.

use std::marker::PhantomData;

use drivebay_units::{Nanos, SECTOR_BYTES};

use super::number::{Clock, device, scaled, split, trimmed, whole};
use super::parse::{Out, Parse};
use crate::error::{Problem, shown};
use crate::request::{Op, Request, TimeUnit};

const SECOND: u64 = 1_000_000_000;

/// Columns of one format.
pub(crate) trait Row: Send {
    /// How its header begins, lower case.
    const HEADER: &'static [u8];
    /// Names of the columns, for messages.
    const COLUMNS: &'static str;
    /// How many there must be at least, and may be at most.
    const COUNT: (usize, usize);
    /// How it writes times, unless the user says otherwise.
    const CLOCK: Clock;

    fn row(fields: &[&[u8]; 8], clock: Clock, out: &mut Out<'_>) -> Result<Found, Problem>;
}

/// What a row held.
pub(crate) enum Found {
    Request(Request),
    /// Left out and counted.
    Nothing,
}

/// Parser for a format of columns: headers and comments are passed over anywhere, since people put
/// files together.
pub(crate) struct Csv<R>(Clock, PhantomData<R>);

impl<R: Row> Csv<R> {
    /// With times in the format's own unit, or in that which the user named.
    pub(crate) fn new(unit: Option<TimeUnit>) -> Csv<R> {
        Csv(R::CLOCK.in_unit(unit), PhantomData)
    }
}

impl<R: Row> Parse for Csv<R> {
    #[inline]
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem> {
        let (fields, count) = split::<8>(line, b',');
        if count < R::COUNT.0 || count > R::COUNT.1 {
            return not_a_row::<R>(line, count);
        }
        match R::row(&fields, self.0, out) {
            Ok(Found::Request(request)) => out.push(request),
            Ok(Found::Nothing) => Ok(false),
            Err(problem) => {
                if is_header::<R>(line) {
                    Ok(false)
                } else {
                    Err(problem)
                }
            }
        }
    }
}

#[cold]
fn not_a_row<R: Row>(line: &[u8], count: usize) -> Result<bool, Problem> {
    if is_header::<R>(line) {
        return Ok(false);
    }
    let wanted = R::COUNT.0;
    Err(Problem::new(format!(
        "{count} columns in {}; must be {wanted}: {}",
        shown(line),
        R::COLUMNS
    )))
}

fn is_header<R: Row>(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.is_empty()
        || line[0] == b'#'
        || line.get(..R::HEADER.len()).is_some_and(|start| start.eq_ignore_ascii_case(R::HEADER))
}

#[cold]
fn wrong_op(field: &[u8], must: &str) -> Problem {
    Problem::new(format!("the kind of request is {}; must be {must}", shown(field)))
}

/// R or W, in either case.
#[inline]
fn letter(field: &[u8]) -> Result<Op, Problem> {
    match trimmed(field) {
        b"R" | b"r" => Ok(Op::Read),
        b"W" | b"w" => Ok(Op::Write),
        other => Err(wrong_op(other, "R or W")),
    }
}

/// MSR Cambridge: times in 100 ns (Windows file time), stamped at issue.
pub(crate) struct Msr;

impl Row for Msr {
    const HEADER: &'static [u8] = b"timestamp";
    const COLUMNS: &'static str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
    const COUNT: (usize, usize) = (7, 7);
    const CLOCK: Clock = Clock::whole(100);

    #[inline]
    fn row(f: &[&[u8]; 8], clock: Clock, _out: &mut Out<'_>) -> Result<Found, Problem> {
        let at = clock.ns(f[0], "Timestamp")?;
        let op = match f[3] {
            b"Read" => Op::Read,
            b"Write" => Op::Write,
            other => match trimmed(other) {
                word if word.eq_ignore_ascii_case(b"read") => Op::Read,
                word if word.eq_ignore_ascii_case(b"write") => Op::Write,
                word => return Err(wrong_op(word, "Read or Write")),
            },
        };
        Ok(Found::Request(Request {
            at: Nanos(at),
            offset_bytes: whole(f[4], "Offset")?,
            bytes: whole(f[5], "Size")?,
            response: Some(Nanos(clock.ns(f[6], "ResponseTime")?)),
            device: device(f[2], "DiskNumber")?,
            op,
        }))
    }
}

/// SYSTOR '17: seconds; stamped at issue, logged at completion, so not in order. Fields may be empty:
/// without a response the request counts, without anything else the line is left out.
pub(crate) struct Systor;

impl Row for Systor {
    const HEADER: &'static [u8] = b"timestamp";
    const COLUMNS: &'static str = "Timestamp,Response,IOType,LUN,Offset,Size";
    const COUNT: (usize, usize) = (6, 6);
    const CLOCK: Clock = Clock::decimal(SECOND);

    #[inline]
    fn row(f: &[&[u8]; 8], clock: Clock, out: &mut Out<'_>) -> Result<Found, Problem> {
        if [0, 2, 3, 4, 5].iter().any(|at| trimmed(f[*at]).is_empty()) {
            out.skipped.incomplete += 1;
            return Ok(Found::Nothing);
        }
        let response = match trimmed(f[1]) {
            b"" => None,
            field => Some(Nanos(clock.ns(field, "Response")?)),
        };
        Ok(Found::Request(Request {
            at: Nanos(clock.ns(f[0], "Timestamp")?),
            offset_bytes: whole(f[4], "Offset")?,
            bytes: whole(f[5], "Size")?,
            response,
            device: device(f[3], "LUN")?,
            op: letter(f[2])?,
        }))
    }
}

/// Alibaba: microseconds, bytes.
pub(crate) struct Alibaba;

impl Row for Alibaba {
    const HEADER: &'static [u8] = b"device_id";
    const COLUMNS: &'static str = "device_id,opcode,offset,length,timestamp";
    const COUNT: (usize, usize) = (5, 5);
    const CLOCK: Clock = Clock::whole(1_000);

    #[inline]
    fn row(f: &[&[u8]; 8], clock: Clock, _out: &mut Out<'_>) -> Result<Found, Problem> {
        Ok(Found::Request(Request {
            at: Nanos(clock.ns(f[4], "timestamp")?),
            offset_bytes: whole(f[2], "offset")?,
            bytes: whole(f[3], "length")?,
            response: None,
            device: device(f[0], "device_id")?,
            op: letter(f[1])?,
        }))
    }
}

/// Tencent: whole seconds, sectors of 512 bytes, 0 = read, 1 = write; not in order.
pub(crate) struct Tencent;

impl Row for Tencent {
    const HEADER: &'static [u8] = b"timestamp";
    const COLUMNS: &'static str = "timestamp,offset,size,io_type,volume_id";
    const COUNT: (usize, usize) = (5, 5);
    const CLOCK: Clock = Clock::whole(SECOND);

    #[inline]
    fn row(f: &[&[u8]; 8], clock: Clock, _out: &mut Out<'_>) -> Result<Found, Problem> {
        let op = match trimmed(f[3]) {
            b"0" => Op::Read,
            b"1" => Op::Write,
            other => return Err(wrong_op(other, "0 (read) or 1 (write)")),
        };
        Ok(Found::Request(Request {
            at: Nanos(clock.ns(f[0], "timestamp")?),
            offset_bytes: scaled(f[1], SECTOR_BYTES, "offset")?,
            bytes: scaled(f[2], SECTOR_BYTES, "size")?,
            response: None,
            device: device(f[4], "volume_id")?,
            op,
        }))
    }
}

/// FUJITSU K5 cloud service: seconds since the first request of all volumes, bytes.
pub(crate) struct K5cloud;

impl Row for K5cloud {
    const HEADER: &'static [u8] = b"id";
    const COLUMNS: &'static str = "ID,Timestamp,Type,Offset,Length";
    const COUNT: (usize, usize) = (5, 5);
    const CLOCK: Clock = Clock::decimal(SECOND);

    #[inline]
    fn row(f: &[&[u8]; 8], clock: Clock, _out: &mut Out<'_>) -> Result<Found, Problem> {
        Ok(Found::Request(Request {
            op: letter(f[2])?,
            at: Nanos(clock.ns(f[1], "Timestamp")?),
            offset_bytes: whole(f[3], "Offset")?,
            bytes: whole(f[4], "Length")?,
            response: None,
            device: device(f[0], "ID")?,
        }))
    }
}

/// CloudPhysics as libCacheSim writes it: whole seconds, SCSI opcodes in hexadecimal, bytes, sectors of 512
/// bytes.
pub(crate) struct Vscsi;

/// The same, where it must be told from vscsiStats' own text, which has these columns in microseconds: taken as
/// seconds, its requests lie far apart. What cannot be seconds is asked for, never guessed.
pub(crate) struct VscsiText {
    rows: Csv<Vscsi>,
    unit: Option<TimeUnit>,
    requests: u64,
    /// Earliest and latest time.
    times: (Nanos, Nanos),
}

impl VscsiText {
    /// Seconds between requests on average: disks that are traced are busier.
    const INTERVAL_S_MAX: u64 = 10;
    /// Let go before the end of the file: some pauses of a day.
    const PAUSES_S: u64 = 3 * 86_400;

    pub(crate) fn new(unit: Option<TimeUnit>) -> VscsiText {
        VscsiText { rows: Csv::new(unit), unit, requests: 0, times: (Nanos(u64::MAX), Nanos::ZERO) }
    }

    fn judge(&self, pauses_s: u64) -> Result<(), Problem> {
        let (first, last) = self.times;
        let length_s = last.0.saturating_sub(first.0) / SECOND;
        let may_s = self.requests.saturating_mul(Self::INTERVAL_S_MAX).saturating_add(pauses_s);
        if self.unit.is_some() || length_s <= may_s {
            return Ok(());
        }
        let requests = self.requests;
        Err(Problem::of_file(
            format!(
                "times of {requests} requests reach over {length_s} seconds, if they are seconds"
            ),
            "say in which unit the times are: --time-unit us (or s)",
        ))
    }
}

impl Parse for VscsiText {
    #[inline]
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem> {
        let before = out.requests.len();
        let known = self.rows.line(line, out)?;
        if let Some(request) = out.requests.get(before) {
            self.requests += 1;
            self.times = (self.times.0.min(request.at), self.times.1.max(request.at));
            self.judge(Self::PAUSES_S)?;
        }
        Ok(known)
    }

    fn end(&mut self, _out: &mut Out<'_>) -> Result<(), Problem> {
        self.judge(0)
    }
}

/// A time; what is no seconds of any clock is asked for at once.
#[inline]
fn vscsi_ns(field: &[u8], clock: Clock) -> Result<u64, Problem> {
    /// The year 2106: where libCacheSim's own 32 bits of seconds end.
    const SECONDS_MAX: u64 = u32::MAX as u64;
    if clock.unit_ns == SECOND && whole(field, "time").is_ok_and(|time| time > SECONDS_MAX) {
        return Err(Problem::of_file(
            format!("time is {}, which are no seconds", shown(trimmed(field))),
            "say in which unit the times are: --time-unit us",
        ));
    }
    clock.ns(field, "time")
}

/// What a SCSI opcode asks (SBC-3); None for what moves no blocks.
pub(crate) fn scsi_op(code: u64) -> Option<Op> {
    match code {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Op::Read),
        0x0a | 0x2a | 0xaa | 0x8a => Some(Op::Write),
        0x35 | 0x91 => Some(Op::Flush),
        _ => None,
    }
}

impl Row for Vscsi {
    const HEADER: &'static [u8] = b"version";
    const COLUMNS: &'static str = "version,time,op,size,lbn";
    const COUNT: (usize, usize) = (5, 5);
    const CLOCK: Clock = Clock::whole(SECOND);

    #[inline]
    fn row(f: &[&[u8]; 8], clock: Clock, out: &mut Out<'_>) -> Result<Found, Problem> {
        let version = trimmed(f[0]);
        if !matches!(version, b"1" | b"2") {
            return Err(Problem::new(format!("version is {}; must be 1 or 2", shown(version))));
        }
        let code = trimmed(f[2]);
        let hex = code.strip_prefix(b"0x").unwrap_or(code);
        let code = match std::str::from_utf8(hex).ok().filter(|text| text.len() == 2) {
            Some(text) => u64::from_str_radix(text, 16).ok(),
            None => None,
        };
        let code = code.ok_or_else(|| wrong_op(f[2], "a SCSI opcode as two hexadecimal digits"))?;
        let request = Request {
            at: Nanos(vscsi_ns(f[1], clock)?),
            offset_bytes: scaled(f[4], SECTOR_BYTES, "lbn")?,
            bytes: whole(f[3], "size")?,
            response: None,
            device: 0,
            op: Op::Read,
        };
        let Some(op) = scsi_op(code) else {
            out.skipped.other_events += 1;
            return Ok(Found::Nothing);
        };
        Ok(Found::Request(for_op(Request { op, ..request })))
    }
}

/// A flush has neither place nor bytes.
pub(crate) fn for_op(request: Request) -> Request {
    match request.op {
        Op::Flush => Request { offset_bytes: 0, bytes: 0, ..request },
        _ => request,
    }
}

/// SPC: sectors of 512 bytes, bytes, seconds; optional columns after them are not read.
pub(crate) struct Spc;

impl Row for Spc {
    const HEADER: &'static [u8] = b"asu";
    const COLUMNS: &'static str = "ASU,LBA,Size,Opcode,Timestamp";
    const COUNT: (usize, usize) = (5, usize::MAX);
    const CLOCK: Clock = Clock::decimal(SECOND);

    #[inline]
    fn row(f: &[&[u8]; 8], clock: Clock, _out: &mut Out<'_>) -> Result<Found, Problem> {
        Ok(Found::Request(Request {
            op: letter(f[3])?,
            at: Nanos(clock.ns(f[4], "Timestamp")?),
            offset_bytes: scaled(f[1], SECTOR_BYTES, "LBA")?,
            bytes: whole(f[2], "Size")?,
            response: None,
            device: device(f[0], "ASU")?,
        }))
    }
}

/// The first line of this program's own CSV.
pub const CSV_HEADER: &str = "at_ns,op,offset_bytes,bytes,device,response_ns";

/// This program's own: everything a request has.
pub(crate) struct Own;

impl Row for Own {
    const HEADER: &'static [u8] = b"at_ns";
    const COLUMNS: &'static str = CSV_HEADER;
    const COUNT: (usize, usize) = (6, 6);
    const CLOCK: Clock = Clock::whole(1);

    #[inline]
    fn row(f: &[&[u8]; 8], clock: Clock, _out: &mut Out<'_>) -> Result<Found, Problem> {
        let op = match trimmed(f[1]) {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Trim,
            b"flush" => Op::Flush,
            other => return Err(wrong_op(other, "read, write, trim or flush")),
        };
        let response = match trimmed(f[5]) {
            b"" => None,
            field => Some(Nanos(clock.ns(field, "response_ns")?)),
        };
        Ok(Found::Request(Request {
            at: Nanos(clock.ns(f[0], "at_ns")?),
            offset_bytes: whole(f[2], "offset_bytes")?,
            bytes: whole(f[3], "bytes")?,
            response,
            device: device(f[4], "device")?,
            op,
        }))
    }
}
