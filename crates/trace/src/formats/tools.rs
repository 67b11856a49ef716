//! Text output of tools: biosnoop, iosnoop, Windows' xperf, fio's iolog.
//!
//! Sources: bcc's tools/biosnoop.py (the printed time is that of the completion); xperf's own
//! header lines for the columns, and the ETW class DiskIo_TypeGroup1 (logged at completion); fio's
//! HOWTO, sections "Trace file format v2" and "v3", the behaviour of fio 3.33 for the unit,
//! microseconds, and iolog.c for the waits of version 2. bpftrace's
//! tools/biosnoop.bt as of 2026; perf-tools' iosnoop of 2014 (the script itself). Not read:
//! xperf's DiskFlush (its columns are not published).
//! Effect: Windows traces have no flushes.

use drivebay_units::{Nanos, SECTOR_BYTES};

use super::columns::for_op;
use super::kernel::rwbs_op;
use super::number::{
    Clock, decimal_ns, device, hex_or_whole, scaled, split, trimmed, whole, words,
};
use super::parse::{Names, Out, Parse, issued};
use crate::error::{Problem, shown};
use crate::request::{Op, Request, TimeUnit};

/// bcc's biosnoop: `TIME(s) COMM PID DISK T SECTOR BYTES [P] [QUE(ms)] LAT(ms)`; and perf-tools'
/// iosnoop: `[STARTs] [ENDs] COMM PID TYPE DEV BLOCK BYTES LATms`.
#[derive(Default)]
pub(crate) struct Biosnoop {
    disks: Names,
    /// Number of columns between BYTES and LAT: the pattern (-P), the time in the queue (-Q).
    columns_between: usize,
    /// True if the lines begin with STARTs, and with ENDs; `None` for lines of biosnoop.
    stamps: Option<[bool; 2]>,
}

impl Parse for Biosnoop {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem> {
        let line = line.trim_ascii();
        if line.starts_with(b"TIME(ms)") {
            return Err(Problem::of_file(
                "these are lines of bpftrace's biosnoop.bt, which have the end and the duration of an I/O, \
                 but neither its operation nor its address nor its size",
                "record with bcc's biosnoop, or: sudo drivebay trace record /dev/DEVICE",
            ));
        }
        if line.starts_with(b"TIME") {
            let behind = memchr::memmem::find(line, b"BYTES").map_or(&line[..0], |at| &line[at..]);
            self.columns_between = words::<1>(behind).1.saturating_sub(2);
            return Ok(!behind.is_empty());
        }
        if line.ends_with(b"LATms") {
            let has = |name| memchr::memmem::find(line, name).is_some();
            self.stamps = Some([has(b"STARTs"), has(b"ENDs")]);
            return Ok(true);
        }
        let others: [&[u8]; 3] = [b"Tracing", b"Attach", b"Ending"];
        if line.is_empty() || others.iter().any(|other| line.starts_with(other)) {
            return Ok(false);
        }
        // Parsed from the right, because a command's name may contain blanks.
        let mut from_right = line.rsplit(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let mut next = || from_right.next().ok_or_else(|| too_few(line));
        let latency = next()?;
        for _ in 0..self.columns_between {
            next()?;
        }
        let (bytes, sector, letters, disk, pid) = (next()?, next()?, next()?, next()?, next()?);
        let (letters, disk) = if self.stamps.is_some() { (disk, letters) } else { (letters, disk) };
        whole(pid, "PID")?;
        let time = line.split(u8::is_ascii_whitespace).next().ok_or_else(|| too_few(line))?;
        if time.as_ptr() == pid.as_ptr() {
            return Err(too_few(line));
        }
        let latency = decimal_ns(latency, 1_000_000, "LAT(ms)")?;
        let ns = |at: usize| decimal_ns(words::<2>(line).0[at], 1_000_000_000, "TIME(s)");
        let (at, response) = match self.stamps {
            None | Some([false, true]) => issued(ns(0)?, latency)?,
            // Only the order of the requests is known.
            Some([false, false]) => (Nanos(0), Some(Nanos(latency))),
            Some([true, false]) => (Nanos(ns(0)?), Some(Nanos(latency))),
            // Microseconds, where LATms has hundredths of a millisecond.
            Some([true, true]) => (Nanos(ns(0)?), Some(Nanos(ns(1)?.saturating_sub(ns(0)?)))),
        };
        out.skipped.no_time += u64::from(self.stamps == Some([false; 2]));
        let bytes = whole(bytes, "BYTES")?;
        let known = letters.iter().all(|l| b"RWDFNSMABEZ".contains(l));
        if !known {
            let must = "must be letters like R or W (iosnoop needs its line of column names)";
            return Err(Problem::new(format!("T is {}; {must}", shown(letters))));
        }
        let Some(op) = rwbs_op(letters, bytes / SECTOR_BYTES) else {
            out.skipped.other_events += 1;
            return Ok(true);
        };
        let has_place = op != Op::Flush && bytes > 0;
        let offset_bytes = if has_place { scaled(sector, SECTOR_BYTES, "SECTOR")? } else { 0 };
        let device = self.disks.number(disk)?;
        out.push(for_op(Request { at, offset_bytes, bytes, response, device, op }))
    }
}

#[cold]
fn too_few(line: &[u8]) -> Problem {
    Problem::new(format!("{} has too few words", shown(line)))
}

/// xperf's text of disk events; all other events are ignored.
#[derive(Default)]
pub(crate) struct Etw;

impl Parse for Etw {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem> {
        let start = line.trim_ascii_start();
        let comma = memchr::memchr(b',', start).unwrap_or(start.len());
        let op = match start[..comma].trim_ascii_end() {
            b"DiskRead" => Op::Read,
            b"DiskWrite" => Op::Write,
            b"DiskFlush" => {
                out.skipped.other_events += 1;
                return Ok(true);
            }
            _ if line.iter().all(|byte| *byte >= b' ' || *byte == b'\t') => return Ok(false),
            _ => return Err(Problem::new(format!("{} is not text", shown(line)))),
        };
        let rest = start.get(comma + 1..).ok_or_else(|| breaks_off(line))?;
        let comma = memchr::memchr(b',', rest).ok_or_else(|| breaks_off(line))?;
        let time = trimmed(&rest[..comma]);
        if time == b"TimeStamp" {
            return Ok(true); // the header's line for this event
        }
        // The process ends with ")," and may itself contain commas.
        let process = memchr::memmem::find(&rest[comma + 1..], b"),");
        let process = process.ok_or_else(|| breaks_off(line))?;
        let (f, count) = split::<6>(&rest[comma + 1 + process + 2..], b',');
        if count < 6 {
            return Err(breaks_off(line));
        }
        let end_ns = scaled(time, 1_000, "TimeStamp")?;
        let (at, response) = issued(end_ns, scaled(f[4], 1_000, "ElapsedTime")?)?;
        out.push(Request {
            at,
            offset_bytes: hex_or_whole(f[2], "ByteOffset")?,
            bytes: hex_or_whole(f[3], "IOSize")?,
            response,
            device: device(f[5], "DiskNum")?,
            op,
        })
    }
}

#[cold]
fn breaks_off(line: &[u8]) -> Problem {
    Problem::new(format!("{} is cut off", shown(line)))
}

/// fio's iolog: version 3, `timestamp file action [offset length]`, and version 2, which has no
/// timestamps but `file wait ms`, the earliest time of what follows, since the job began.
pub(crate) struct Iolog {
    files: Names,
    version: u8,
    waited_ns: u64,
    clock: Clock,
    /// Timed requests, and those of whole milliseconds.
    timed: (u64, u64),
}

impl Iolog {
    /// Creates a parser with times in microseconds, or in the user's unit.
    pub(crate) fn new(unit: Option<TimeUnit>) -> Iolog {
        let clock = Clock::whole(1_000).in_unit(unit);
        Iolog { files: Names::default(), version: 0, waited_ns: 0, clock, timed: (0, 0) }
    }

    /// Fewest requests that show the resolution of times.
    const JUDGED_MIN: u64 = 100;
}

impl Parse for Iolog {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem> {
        let (words, count) = words::<5>(line);
        if line.starts_with(b"fio version ") {
            self.version = match words[2] {
                b"2" => 2,
                b"3" => 3,
                other => {
                    let what = format!("iolog version {}; must be 2 or 3", shown(other));
                    return Err(Problem::of_file(what, "record it again: fio --write_iolog=FILE"));
                }
            };
            return Ok(false);
        }
        if self.version == 0 {
            let what = format!("{} comes before the line: fio version 3 iolog", shown(line));
            return Err(Problem::of_file(what, "is --format (or --from) the right one?"));
        }
        if count == 0 {
            return Ok(false);
        }
        let timed = self.version == 3;
        let first = usize::from(timed);
        let (file, action, count) = (words[first], words[first + 1], count - first);
        let (offset, length) = (words[first + 2], words[first + 3]);
        let at = match timed {
            true => self.clock.ns(words[0], "timestamp")?,
            false => self.waited_ns,
        };
        let op = match (action, count) {
            (b"add" | b"open" | b"close", 2) => return Ok(false),
            (b"wait", 3 | 4) if !timed => {
                self.waited_ns = self.waited_ns.max(scaled(offset, 1_000_000, "the wait")?);
                return Ok(true);
            }
            (b"wait", _) if timed => {
                out.skipped.other_events += 1;
                return Ok(true);
            }
            (b"read", 4) => Op::Read,
            (b"write", 4) => Op::Write,
            (b"trim", 4) => Op::Trim,
            (b"sync" | b"datasync", 2 | 4) => Op::Flush,
            _ => {
                return Err(Problem::new(format!(
                    "{} is not an action; must be: {}file read|write|trim|sync|datasync offset length, or add, \
                     open, close{}",
                    shown(line),
                    if timed { "timestamp " } else { "" },
                    if timed { "" } else { ", or wait and milliseconds" },
                )));
            }
        };
        let device = self.files.number(file)?;
        let (offset_bytes, bytes) = match op {
            Op::Flush => (0, 0),
            _ => (whole(offset, "offset")?, whole(length, "length")?),
        };
        out.skipped.no_time += u64::from(!timed);
        self.timed.0 += 1;
        self.timed.1 += u64::from(timed && self.clock.unit_ns == 1_000 && at % 1_000_000 == 0);
        out.push(Request { at: Nanos(at), offset_bytes, bytes, response: None, device, op })
    }

    fn end(&mut self, out: &mut Out<'_>) -> Result<(), Problem> {
        let (all, coarse) = self.timed;
        out.skipped.coarse = if coarse >= Iolog::JUDGED_MIN && coarse == all { all } else { 0 };
        Ok(())
    }
}
