//! What Linux's block layer prints: blkparse's default text, and ftrace text.
//!
//! Sources: blktrace's blkparse_fmt.c and manual page; include/trace/events/block.h (block_rq_issue,
//! block_rq_complete); blk_fill_rwbs() for the letters of a request's kind.
//! A request begins at its issue to the driver (blkparse: action D) and ends at its completion (C).
//! Other events are passed over: they are the same requests at other places, not I/Os left out.

use drivebay_units::{Nanos, SECTOR_BYTES};

use super::columns::for_op;
use super::number::{decimal_ns, device, scaled, words};
use super::pairs::Pairs;
use super::parse::{Out, Parse, check};
use crate::error::{Problem, shown};
use crate::request::{Op, Request};

const SECOND: u64 = 1_000_000_000;

/// The kind of a request of so many sectors by its letters; None for what is no I/O of data.
pub(crate) fn rwbs_op(letters: &[u8], sectors: u64) -> Option<Op> {
    let has = |letter| letters.contains(&letter);
    if has(b'Z') || has(b'N') && !has(b'F') {
        None // zone management, driver commands
    } else if has(b'D') {
        Some(Op::Trim)
    } else if has(b'W') && !(sectors == 0 && has(b'F')) {
        Some(Op::Write)
    } else if has(b'R') {
        Some(Op::Read)
    } else {
        has(b'F').then_some(Op::Flush)
    }
}

/// "8,16" as one number, major above minor, as the kernel does it.
fn major_minor(field: &[u8]) -> Result<u32, Problem> {
    let wrong = || Problem::new(format!("the device is {}; must be major,minor", shown(field)));
    let comma = memchr::memchr(b',', field).ok_or_else(wrong)?;
    let major = device(&field[..comma], "the device's major number")?;
    let minor = device(&field[comma + 1..], "the device's minor number")?;
    if major >= 1 << 12 || minor >= 1 << 20 { Err(wrong()) } else { Ok(major << 20 | minor) }
}

/// "sector + count": the request's place; a flush may have no count.
fn place(sector: &[u8], plus: &[u8], count: &[u8]) -> Result<(u64, u64), Problem> {
    // The kernel's "no sector" is all ones.
    if sector == b"18446744073709551615" {
        return Ok((0, 0));
    }
    let sectors = if plus == b"+" { scaled(count, 1, "the number of sectors")? } else { 0 };
    Ok((scaled(sector, SECTOR_BYTES, "the sector")?, sectors))
}

/// A line of a tool's head or summary: printable.
fn is_text(line: &[u8]) -> bool {
    line.iter().all(|byte| *byte >= b' ' || *byte == b'\t')
}

/// blkparse's default text.
#[derive(Default)]
pub(crate) struct Blkparse(Pairs);

impl Parse for Blkparse {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem> {
        let (f, count) = words::<10>(line);
        if count == 0 || f[0][0].is_ascii_alphabetic() && is_text(line) {
            return Ok(false); // the summary: CPU0 (8,0): Reads Queued: ...
        }
        let device = major_minor(f[0])?;
        if count < 6 {
            return Err(Problem::new(format!("{} has too few words", shown(line))));
        }
        if !matches!(f[5], b"D" | b"C") {
            let known = f[5].len() <= 2 && f[5].iter().all(u8::is_ascii_alphabetic);
            let what = || format!("the action is {}; must be letters, like D or C", shown(f[5]));
            return if known { Ok(false) } else { Err(Problem::new(what())) };
        }
        if count < 8 {
            return if count == 7 && f[6].contains(&b'N') || f[7].starts_with(b"[") {
                Ok(false)
            } else {
                Err(Problem::new(format!("{} has no sector", shown(line))))
            };
        }
        let at = Nanos(decimal_ns(f[3], SECOND, "the time")?);
        if f[7].starts_with(b"[") || f[6].contains(&b'N') && !f[6].contains(&b'F') {
            out.skipped.other_events += u64::from(f[5] == b"D");
            return Ok(true); // a driver's command
        }
        let (offset_bytes, sectors) = place(f[7], f[8], f[9])?;
        let Some(op) = rwbs_op(f[6], sectors) else {
            out.skipped.other_events += u64::from(f[5] == b"D");
            return Ok(true);
        };
        if f[8] != b"+" && op != Op::Flush {
            return Err(Problem::new(format!("{} has no number of sectors", shown(line))));
        }
        let event = event(at, device, op, offset_bytes, sectors)?;
        match f[5] {
            b"D" => self.0.issue(event, out)?,
            _ => self.0.complete(&event, out)?,
        }
        Ok(true)
    }

    fn end(&mut self, out: &mut Out<'_>) {
        self.0.end(out);
    }
}

fn event(at: Nanos, device: u32, op: Op, offset: u64, sectors: u64) -> Result<Request, Problem> {
    let bytes = sectors
        .checked_mul(SECTOR_BYTES)
        .ok_or_else(|| Problem::new(format!("{sectors} sectors are too many")))?;
    let request = for_op(Request { at, offset_bytes: offset, bytes, response: None, device, op });
    check(&request)?;
    Ok(request)
}

/// ftrace text: `trace`, `trace_pipe` and `trace-cmd report`.
#[derive(Default)]
pub(crate) struct Ftrace(Pairs);

const ISSUE: &[u8] = b"block_rq_issue: ";
const COMPLETE: &[u8] = b"block_rq_complete: ";

impl Parse for Ftrace {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem> {
        let found = |name| memchr::memmem::find(line, name);
        let (is_issue, start, name) = match (found(ISSUE), found(COMPLETE)) {
            (Some(start), None) => (true, start, ISSUE),
            (None, Some(start)) => (false, start, COMPLETE),
            (Some(_), Some(_)) => {
                return Err(Problem::new(format!("{} holds two events", shown(line))));
            }
            (None, None) => return other_event(line, out),
        };
        // Before the name: "comm-pid [cpu] flags time:".
        let head = line[..start].trim_ascii_end();
        let time =
            head.strip_suffix(b":").and_then(|head| head.rsplit(|byte| *byte == b' ').next());
        let time = time.ok_or_else(|| Problem::new("no time stands before the event's name"))?;
        let at = Nanos(decimal_ns(time, SECOND, "the time")?);
        // After it: "maj,min rwbs [bytes] (command) sector + count ...".
        let rest = &line[start + name.len()..];
        let (f, _) = words::<2>(rest);
        let device = major_minor(f[0])?;
        let command = memchr::memchr(b'(', rest)
            .and_then(|open| memchr::memchr(b')', &rest[open..]).map(|close| open + close + 1))
            .ok_or_else(|| Problem::new(format!("{} breaks off", shown(rest))))?;
        let (place_words, count) = words::<3>(&rest[command..]);
        if count < 3 || place_words[1] != b"+" {
            return Err(Problem::new(format!("{} has no sector + count", shown(rest))));
        }
        let (offset_bytes, sectors) = place(place_words[0], place_words[1], place_words[2])?;
        let Some(op) = rwbs_op(f[1], sectors) else {
            out.skipped.other_events += u64::from(is_issue);
            return Ok(true);
        };
        let event = event(at, device, op, offset_bytes, sectors)?;
        if is_issue {
            self.0.issue(event, out)?;
        } else {
            self.0.complete(&event, out)?;
        }
        Ok(true)
    }

    fn end(&mut self, out: &mut Out<'_>) {
        self.0.end(out);
    }
}

/// Comments, other events, and "CPU:3 [LOST 123 EVENTS]".
fn other_event(line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem> {
    if let Some(start) = memchr::memmem::find(line, b"[LOST ") {
        let (f, _) = words::<1>(&line[start + 6..]);
        out.skipped.lost = out.skipped.lost.saturating_add(scaled(f[0], 1, "LOST")?);
        return Ok(false);
    }
    let truncated = !line.starts_with(b"#")
        && [&b"block_rq_issue"[..], b"block_rq_complete"].iter().any(|name| {
            memchr::memmem::find(line, name).is_some_and(|at| at + name.len() + 2 >= line.len())
        });
    if truncated || !is_text(line) {
        return Err(Problem::new(format!("{} is no line of a trace", shown(line))));
    }
    Ok(false)
}
