//! Text of Linux's block layer: blkparse's default output, and output of ftrace and perf.
//!
//! Sources: blktrace's blkparse_fmt.c and manual page; include/trace/events/block.h
//! (block_rq_issue, block_rq_complete, block_rq_requeue); blk_fill_rwbs() for the letters of a
//! request's operation; block/blk-flush.c for the parts of a flush. A request begins at its issue
//! to the driver (blkparse: action D) and ends at its completion (C). A request that the driver
//! requeues (R) begins with its next issue. A flush is issued without an address (`D FN
//! [kworker]`). A completion of no sectors that does not belong to a flush (`C WS 0 [0]`) is that
//! of a bio which waited for a flush, as sync issues it; it is not a request. Other events are
//! other stages of the same requests, not skipped I/Os. Not read: zone commands including appends;
//! they are counted.

use drivebay_units::{Nanos, SECTOR_BYTES};

use super::columns::for_op;
use super::number::{decimal_ns, device, scaled, words};
use super::pairs::Pairs;
use super::parse::{Out, Parse, check};
use crate::error::{Problem, shown};
use crate::request::{Op, Request};

const SECOND: u64 = 1_000_000_000;

/// Operation of a request of `sectors` sectors by its letters; `None` if it transfers no data.
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

/// Encodes a device such as "8,16" as one number with the major number in the upper bits, like the
/// kernel.
fn major_minor(field: &[u8]) -> Result<u32, Problem> {
    let wrong = || Problem::new(format!("the device is {}; must be major,minor", shown(field)));
    let comma = memchr::memchr(b',', field).ok_or_else(wrong)?;
    let major = device(&field[..comma], "the device's major number")?;
    let minor = device(&field[comma + 1..], "the device's minor number")?;
    if major >= 1 << 12 || minor >= 1 << 20 { Err(wrong()) } else { Ok(major << 20 | minor) }
}

/// Parses "sector + count": the address in bytes, and the number of sectors, 0 without a count.
fn place(sector: &[u8], plus: &[u8], count: &[u8]) -> Result<(u64, u64), Problem> {
    // The kernel's "no sector" has all bits set.
    if sector == b"18446744073709551615" {
        return Ok((0, 0));
    }
    let sectors = if plus == b"+" { scaled(count, 1, "the number of sectors")? } else { 0 };
    Ok((scaled(sector, SECTOR_BYTES, "the sector")?, sectors))
}

/// True for a printable line, such as a tool's header or summary.
fn is_text(line: &[u8]) -> bool {
    line.iter().all(|byte| *byte >= b' ' || *byte == b'\t')
}

/// Checks that a line ends with the process or the error in brackets; otherwise it is cut off.
fn ends_in_bracket(line: &[u8]) -> Result<(), Problem> {
    if line.trim_ascii_end().ends_with(b"]") {
        return Ok(());
    }
    Err(Problem::new(format!("{} is cut off: it does not end with ]", shown(line))))
}

/// Event type of a request.
#[derive(Clone, Copy, PartialEq)]
enum Action {
    Issue,
    Complete,
    /// Returned to the queue by the driver.
    Requeue,
}

/// An event of a request.
struct Event<'a> {
    action: Action,
    at: Nanos,
    device: u32,
    letters: &'a [u8],
    offset_bytes: u64,
    sectors: u64,
}

impl Event<'_> {
    fn apply(&self, pairs: &mut Pairs, out: &mut Out<'_>) -> Result<bool, Problem> {
        let Event { action, at, device, letters, offset_bytes, sectors } = *self;
        let Some(op) = rwbs_op(letters, sectors) else {
            out.skipped.other_events += u64::from(action == Action::Issue);
            return Ok(true);
        };
        if sectors == 0 && op != Op::Flush {
            out.skipped.no_bytes += u64::from(action == Action::Issue);
            return Ok(true);
        }
        // The letters of an issued flush differ from those of the bio that requested it: FN, FWS.
        let of_bio = op == Op::Flush && letters.contains(&b'W');
        let place = if op == Op::Flush { u64::from(of_bio) } else { offset_bytes };
        let key = (device, place, op);
        match action {
            Action::Issue => {
                let bytes = sectors
                    .checked_mul(SECTOR_BYTES)
                    .ok_or_else(|| Problem::new(format!("{sectors} sectors are too many")))?;
                let request =
                    for_op(Request { at, offset_bytes, bytes, response: None, device, op });
                check(&request)?;
                pairs.issue(key, request, out)?;
            }
            Action::Complete => {
                let known = pairs.complete(key, at, out)?;
                out.skipped.unmatched += u64::from(!known && !of_bio);
            }
            Action::Requeue => out.skipped.requeued += u64::from(pairs.requeue(key)),
        }
        Ok(true)
    }
}

/// blkparse's default text.
#[derive(Default)]
pub(crate) struct Blkparse(Pairs);

impl Parse for Blkparse {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem> {
        let (f, count) = words::<10>(line);
        if count == 0 || f[0][0].is_ascii_alphabetic() && is_text(line) {
            return Ok(false); // summary: CPU0 (8,0): Reads Queued: ...
        }
        let device = major_minor(f[0])?;
        if count < 6 {
            return Err(Problem::new(format!("{} has too few words", shown(line))));
        }
        let action = match f[5] {
            b"D" => Action::Issue,
            b"C" => Action::Complete,
            b"R" => Action::Requeue,
            other if other.len() <= 2 && other.iter().all(u8::is_ascii_alphabetic) => {
                return Ok(false);
            }
            other => {
                let what = format!("the action is {}; must be letters, like D or C", shown(other));
                return Err(Problem::new(what));
            }
        };
        let at = Nanos(decimal_ns(f[3], SECOND, "the time")?);
        let is_place = |word: &[u8]| !word.is_empty() && !matches!(word[0], b'[' | b'(');
        let (offset_bytes, sectors) = match (f[7], f[8]) {
            (b"", _) => return Err(Problem::new(format!("{} has no sector", shown(line)))),
            (sector, plus) if is_place(sector) => {
                if plus != b"+" && (plus.is_empty() || is_place(plus)) {
                    let what = format!("{} has no number of sectors", shown(line));
                    return Err(Problem::new(what));
                }
                place(sector, plus, f[9])?
            }
            _ => (0, 0),
        };
        ends_in_bracket(line)?;
        Event { action, at, device, letters: f[6], offset_bytes, sectors }.apply(&mut self.0, out)
    }

    fn end(&mut self, out: &mut Out<'_>) -> Result<(), Problem> {
        self.0.end(out);
        Ok(())
    }
}

/// Text of ftrace (`trace`, `trace_pipe`, `trace-cmd report`) and of `perf script`.
#[derive(Default)]
pub(crate) struct Ftrace(Pairs);

const EVENT: &[u8] = b"block_rq_";

impl Parse for Ftrace {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem> {
        let Some(start) = memchr::memmem::find(line, EVENT) else { return other_line(line, out) };
        let rest = &line[start + EVENT.len()..];
        let names: [(&[u8], Action); 3] = [
            (b"issue:", Action::Issue),
            (b"complete:", Action::Complete),
            (b"requeue:", Action::Requeue),
        ];
        let event =
            names.iter().find_map(|(name, action)| Some((rest.strip_prefix(*name)?, *action)));
        let Some((rest, action)) = event else {
            // Another event, unless the line is cut off inside one of these names.
            let cut = names.iter().any(|(name, _)| name.starts_with(rest));
            return if cut { Err(no_line(line)) } else { other_line(line, out) };
        };
        if memchr::memmem::find(rest, EVENT).is_some() {
            return Err(Problem::new(format!("{} holds two events", shown(line))));
        }
        // Before the name: "comm-pid [cpu] flags time:", or perf's "comm pid [cpu] time: block:".
        let head = line[..start].trim_ascii_end();
        let head = head.strip_suffix(b"block:").unwrap_or(head).trim_ascii_end();
        let time =
            head.strip_suffix(b":").and_then(|head| head.rsplit(|byte| *byte == b' ').next());
        let time = time.ok_or_else(|| Problem::new("there is no time before the event's name"))?;
        let at = Nanos(decimal_ns(time, SECOND, "the time")?);
        // After the name: "maj,min rwbs [bytes] (command) sector + count ... [comm or error]".
        let rest = rest.trim_ascii();
        let (f, _) = words::<2>(rest);
        let device = major_minor(f[0])?;
        let command = memchr::memchr(b'(', rest)
            .and_then(|open| memchr::memchr(b')', &rest[open..]).map(|close| open + close + 1))
            .ok_or_else(|| {
                Problem::new(format!("{} is cut off: it has no (command)", shown(rest)))
            })?;
        let (place_words, count) = words::<3>(&rest[command..]);
        if count < 3 || place_words[1] != b"+" {
            return Err(Problem::new(format!("{} has no sector + count", shown(rest))));
        }
        let (offset_bytes, sectors) = place(place_words[0], place_words[1], place_words[2])?;
        ends_in_bracket(rest)?;
        Event { action, at, device, letters: f[1], offset_bytes, sectors }.apply(&mut self.0, out)
    }

    fn end(&mut self, out: &mut Out<'_>) -> Result<(), Problem> {
        self.0.end(out);
        Ok(())
    }
}

/// Handles comments, other events, and "CPU:3 [LOST 123 EVENTS]".
fn other_line(line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem> {
    if let Some(start) = memchr::memmem::find(line, b"[LOST ") {
        let (f, _) = words::<1>(&line[start + 6..]);
        out.skipped.lost = out.skipped.lost.saturating_add(scaled(f[0], 1, "LOST")?);
        return Ok(false);
    }
    if is_text(line) { Ok(false) } else { Err(no_line(line)) }
}

#[cold]
fn no_line(line: &[u8]) -> Problem {
    Problem::new(format!("{} is not a line of a trace", shown(line)))
}
