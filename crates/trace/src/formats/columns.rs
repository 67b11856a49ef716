//! Formats with columns, separated by commas or blanks, one request per line.
//!
//! Sources: the header or README published with each collection. MSR Cambridge (SNIA IOTTA 388),
//! SYSTOR '17 (IOTTA 4928), Alibaba (github.com/alibaba/block-traces), Tencent (IOTTA 27917),
//! K5cloud (IOTTA 26930), CloudPhysics (data/trace.csv of libCacheSim: 7,200 s in whole seconds),
//! SPC trace file format specification 1.0.1, DiskSim 4.0 manual (ASCII traces), MQSim's README,
//! FIU (IOTTA 390). Not read: MSR's host name (a file has one host).
//! Effect: in a concatenation of several hosts' files, disks with the same number are mixed.

use std::marker::PhantomData;

use drivebay_units::{Nanos, SECTOR_BYTES};

use super::number::{Clock, device, scaled, split, trimmed, whole, words};
use super::parse::{Out, Parse};
use crate::error::{Problem, shown};
use crate::request::{Op, Request, TimeUnit};

const SECOND: u64 = 1_000_000_000;

use Holds::{Device, Kind, Length, Minor, Offset, Other, Response, Time};

/// Content of a column.
#[derive(Clone, Copy)]
enum Holds {
    Time,
    Kind(ReadKind),
    /// Numbers in units of the given number of bytes.
    Offset(u64),
    Length(u64),
    Device,
    /// Minor number of the device, after its major number.
    Minor,
    /// May be empty.
    Response,
    /// Ignored.
    Other,
}

/// Parser of a column with the operation; `None` for entries that are not I/Os.
type ReadKind = fn(&[u8]) -> Result<Option<Op>, Problem>;

/// Columns of a format in order, with their names.
pub(crate) struct Table {
    /// Notation of times, unless the user gives a unit.
    clock: Clock,
    columns: &'static [(&'static str, Holds)],
    /// True if further, ignored columns may follow.
    open: bool,
    /// True if lines with empty fields are skipped and counted.
    may_be_incomplete: bool,
    /// True if blanks separate the columns.
    blank: bool,
    /// True if detection counts only lines whose time has a decimal point.
    point: bool,
}

/// Defines formats by rows `Name(clock, flag): "column" content, ...`.
macro_rules! rows {
    ($($(#[$doc:meta])* $name:ident($clock:expr $(, $so:ident)*): $($column:literal $holds:expr),*;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl Row for $name {
            const TABLE: Table = Table {
                $($so: true,)*
                ..Table { clock: $clock, columns: &[$(($column, $holds)),*], ..PLAIN }
            };
        }
    )*};
}

const PLAIN: Table = Table {
    clock: Clock::whole(1),
    columns: &[],
    open: false,
    may_be_incomplete: false,
    blank: false,
    point: false,
};

/// A format with columns. Each is a type, so that its parser is compiled separately.
pub(crate) trait Row: Send {
    const TABLE: Table;
}

/// Parser for a format with columns. Headers and comments are skipped anywhere, because files are
/// often concatenated.
pub(crate) struct Csv<R>(Clock, PhantomData<R>);

impl<R: Row> Csv<R> {
    /// Creates a parser with times in the format's own unit, or in the user's.
    pub(crate) fn new(unit: Option<TimeUnit>) -> Csv<R> {
        Csv(R::TABLE.clock.in_unit(unit), PhantomData)
    }

    /// Returns `None` for lines that are skipped and counted.
    #[inline]
    fn request(&self, fields: &[&[u8]; 8], out: &mut Out<'_>) -> Result<Option<Request>, Problem> {
        let (at, response, op) = (Nanos::ZERO, None, Op::Read);
        let mut request = Request { at, offset_bytes: 0, bytes: 0, response, device: 0, op };
        let mut is_io = true;
        for ((name, holds), field) in R::TABLE.columns.iter().zip(fields) {
            let needed = !matches!(holds, Response);
            if R::TABLE.may_be_incomplete && needed && trimmed(field).is_empty() {
                out.skipped.incomplete += 1;
                return Ok(None);
            }
            match *holds {
                Time => request.at = Nanos(self.0.ns(field, name)?),
                Kind(kind) => match kind(field)? {
                    Some(op) => request.op = op,
                    None => is_io = false,
                },
                Offset(unit) => request.offset_bytes = scaled(field, unit, name)?,
                Length(unit) => request.bytes = scaled(field, unit, name)?,
                Device => request.device = device(field, name)?,
                Minor => request.device = request.device << 20 | device(field, name)? & 0xf_ffff,
                Response if trimmed(field).is_empty() => {}
                Response => request.response = Some(Nanos(self.0.ns(field, name)?)),
                Other => {}
            }
        }
        out.skipped.other_events += u64::from(!is_io);
        Ok(is_io.then(|| for_op(request)))
    }
}

impl<R: Row> Parse for Csv<R> {
    #[inline]
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem> {
        let (fields, count) = match R::TABLE.blank {
            true => words::<8>(line),
            false => split::<8>(line, b','),
        };
        let wanted = R::TABLE.columns.len();
        if count < wanted || count > wanted && !R::TABLE.open {
            return not_a_row(&R::TABLE, line, count);
        }
        match self.request(&fields, out) {
            Ok(Some(request)) => {
                let known = !R::TABLE.point || fields[0].contains(&b'.');
                out.push(request).map(|_| known)
            }
            Ok(None) => Ok(false),
            Err(_) if is_header(&R::TABLE, line) => Ok(is_whole_header(&R::TABLE, &fields)),
            Err(problem) => Err(problem),
        }
    }
}

#[cold]
fn not_a_row(table: &Table, line: &[u8], count: usize) -> Result<bool, Problem> {
    if is_header(table, line) {
        return Ok(false);
    }
    let names: Vec<_> = table.columns.iter().map(|(name, _)| *name).collect();
    let (wanted, names) = (names.len(), names.join(","));
    Err(Problem::new(format!("{count} columns in {}; must be {wanted}: {names}", shown(line))))
}

/// True for an empty line, a comment, or a line that begins with the first column's name, in any
/// case.
fn is_header(table: &Table, line: &[u8]) -> bool {
    let (line, (first, _)) = (line.trim_ascii(), table.columns[0]);
    line.is_empty()
        || line[0] == b'#'
        || line.get(..first.len()).is_some_and(|start| start.eq_ignore_ascii_case(first.as_bytes()))
}

/// True if the fields are the names of all columns.
fn is_whole_header(table: &Table, fields: &[&[u8]]) -> bool {
    let is_name = |(field, (name, _)): (&&[u8], &(&str, Holds))| {
        trimmed(field).eq_ignore_ascii_case(name.as_bytes())
    };
    fields.iter().zip(table.columns).all(is_name)
}

#[cold]
fn wrong_op(field: &[u8], must: &str) -> Problem {
    Problem::new(format!("the operation is {}; must be {must}", shown(field)))
}

/// One of two words, in any case.
#[inline(always)]
fn either(field: &[u8], read: &[u8], write: &[u8], must: &str) -> Result<Option<Op>, Problem> {
    match trimmed(field) {
        word if word == read => Ok(Some(Op::Read)),
        word if word == write => Ok(Some(Op::Write)),
        word if word.eq_ignore_ascii_case(read) => Ok(Some(Op::Read)),
        word if word.eq_ignore_ascii_case(write) => Ok(Some(Op::Write)),
        word => Err(wrong_op(word, must)),
    }
}

fn letter(field: &[u8]) -> Result<Option<Op>, Problem> {
    either(field, b"R", b"W", "R or W")
}

fn word(field: &[u8]) -> Result<Option<Op>, Problem> {
    either(field, b"Read", b"Write", "Read or Write")
}

fn zero_or_one(field: &[u8]) -> Result<Option<Op>, Problem> {
    either(field, b"0", b"1", "0 (read) or 1 (write)")
}

#[inline]
fn own_word(field: &[u8]) -> Result<Option<Op>, Problem> {
    let name = trimmed(field);
    let op = Op::ALL.into_iter().find(|op| op.name().as_bytes() == name);
    op.map(Some).ok_or_else(|| wrong_op(name, "read, write, trim or flush"))
}

/// Flags of DiskSim: the lowest is 1 for a read.
fn read_flag(field: &[u8]) -> Result<Option<Op>, Problem> {
    Ok(Some(if whole(field, "type")? & 1 == 1 { Op::Read } else { Op::Write }))
}

fn one_or_zero(field: &[u8]) -> Result<Option<Op>, Problem> {
    match whole(field, "type")? {
        0 | 1 => read_flag(field),
        _ => Err(Problem::new(format!("type is {}; must be 1 (read) or 0 (write)", shown(field)))),
    }
}

/// A SCSI operation code in hexadecimal.
fn scsi_code(field: &[u8]) -> Result<Option<Op>, Problem> {
    let code = trimmed(field);
    let hex = code.strip_prefix(b"0x").unwrap_or(code);
    let text = std::str::from_utf8(hex).ok().filter(|text| text.len() == 2);
    let code = text.and_then(|text| u64::from_str_radix(text, 16).ok());
    let must = "a SCSI opcode as two hexadecimal digits";
    code.map(scsi_op).ok_or_else(|| wrong_op(field, must))
}

rows! {
    /// MSR Cambridge: times in 100 ns (Windows file time), stamped at issue.
    Msr(Clock::whole(100)): "Timestamp" Time, "Hostname" Other, "DiskNumber" Device,
        "Type" Kind(word), "Offset" Offset(1), "Size" Length(1), "ResponseTime" Response;

    /// SYSTOR '17: seconds; stamped at issue and logged at completion, so the order varies. Fields
    /// may be empty: a request without a response time counts, a line with any other empty field is
    /// skipped.
    Systor(Clock::decimal(SECOND), may_be_incomplete): "Timestamp" Time, "Response" Response,
        "IOType" Kind(letter), "LUN" Device, "Offset" Offset(1), "Size" Length(1);

    /// Alibaba: microseconds, bytes.
    Alibaba(Clock::whole(1_000)): "device_id" Device, "opcode" Kind(letter), "offset" Offset(1),
        "length" Length(1), "timestamp" Time;

    /// Tencent: whole seconds, sectors of 512 bytes, 0 = read, 1 = write; not in order.
    Tencent(Clock::whole(SECOND)): "timestamp" Time, "offset" Offset(SECTOR_BYTES),
        "size" Length(SECTOR_BYTES), "io_type" Kind(zero_or_one), "volume_id" Device;

    /// FUJITSU K5 cloud service: seconds since the first request of all volumes, bytes.
    K5cloud(Clock::decimal(SECOND)): "ID" Device, "Timestamp" Time, "Type" Kind(letter),
        "Offset" Offset(1), "Length" Length(1);

    /// SPC: sectors of 512 bytes, bytes, seconds; optional columns after them are not read.
    Spc(Clock::decimal(SECOND), open): "ASU" Device, "LBA" Offset(SECTOR_BYTES),
        "Size" Length(1), "Opcode" Kind(letter), "Timestamp" Time;

    /// MQSim: nanoseconds, sectors of 512 bytes, 1 = read.
    MqSim(Clock::whole(1), blank): "time" Time, "device" Device, "LBA" Offset(SECTOR_BYTES),
        "size" Length(SECTOR_BYTES), "type" Kind(one_or_zero);

    /// DiskSim: the same with milliseconds, which have a decimal point; the type has more flags.
    DiskSim(Clock::decimal(1_000_000), blank, point): "time" Time, "device" Device,
        "LBA" Offset(SECTOR_BYTES), "size" Length(SECTOR_BYTES), "type" Kind(read_flag);

    /// FIU: nanoseconds, sectors of 512 bytes; hashes follow.
    Fiu(Clock::whole(1), blank, open): "time" Time, "pid" Other, "process" Other,
        "LBA" Offset(SECTOR_BYTES), "size" Length(SECTOR_BYTES), "operation" Kind(letter),
        "major" Device, "minor" Minor;

    /// This program's own format, with all fields of a request.
    Own(Clock::whole(1)): "at_ns" Time, "op" Kind(own_word), "offset_bytes" Offset(1),
        "bytes" Length(1), "device" Device, "response_ns" Response;

    /// CloudPhysics as libCacheSim writes it: whole seconds, SCSI opcodes in hexadecimal, bytes,
    /// sectors of 512 bytes.
    Vscsi(Clock::whole(SECOND)): "version" Other, "time" Time, "op" Kind(scsi_code),
        "size" Length(1), "lbn" Offset(SECTOR_BYTES);
}

/// The first line of this program's own CSV.
pub const CSV_HEADER: &str = "at_ns,op,offset_bytes,bytes,device,response_ns";

/// The same format, distinguished from vscsiStats' own text, which has the same columns with times
/// in microseconds. Read as seconds, those requests would be implausibly far apart. If the times
/// cannot be seconds, the user must give the unit; it is never guessed.
pub(crate) struct VscsiText {
    rows: Csv<Vscsi>,
    unit: Option<TimeUnit>,
    requests: u64,
    /// Earliest and latest time.
    times: (Nanos, Nanos),
}

impl VscsiText {
    /// Longest mean time between requests in seconds; traced disks are busier than this.
    const INTERVAL_S_MAX: u64 = 10;
    /// Additional length that is accepted before the end of the file: some pauses of a day.
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
            format!("times of {requests} requests span {length_s} seconds, if they are seconds"),
            "give the unit of the times: --time-unit us (or s)",
        ))
    }
}

impl Parse for VscsiText {
    #[inline]
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem> {
        let (fields, count) = split::<5>(line, b',');
        let is_row = count == 5 && !is_header(&Vscsi::TABLE, line);
        if is_row && !matches!(trimmed(fields[0]), b"1" | b"2") {
            let version = shown(trimmed(fields[0]));
            return Err(Problem::new(format!("version is {version}; must be 1 or 2")));
        }
        if is_row && self.unit.is_none_or(|unit| unit == TimeUnit::S) {
            must_be_seconds(fields[1])?;
        }
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

/// Rejects times that are not seconds of any clock.
fn must_be_seconds(field: &[u8]) -> Result<(), Problem> {
    /// The year 2106, the end of libCacheSim's 32 bits of seconds.
    const SECONDS_MAX: u64 = u32::MAX as u64;
    if whole(field, "time").is_ok_and(|time| time > SECONDS_MAX) {
        return Err(Problem::of_file(
            format!("time is {}, which cannot be seconds", shown(trimmed(field))),
            "give the unit of the times: --time-unit us",
        ));
    }
    Ok(())
}

/// Operation of a SCSI opcode (SBC-3); `None` for commands that transfer no blocks.
pub(crate) fn scsi_op(code: u64) -> Option<Op> {
    match code {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Op::Read),
        0x0a | 0x2a | 0xaa | 0x8a => Some(Op::Write),
        0x35 | 0x91 => Some(Op::Flush),
        _ => None,
    }
}

/// Clears address and length of a flush.
pub(crate) fn for_op(request: Request) -> Request {
    match request.op {
        Op::Flush => Request { offset_bytes: 0, bytes: 0, ..request },
        _ => request,
    }
}
