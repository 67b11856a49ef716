//! Text of Linux's block layer and NVMe driver: blkparse's default output, ftrace and perf.
//!
//! Sources: blktrace's blkparse_fmt.c and manual page; include/trace/events/block.h
//! (block_rq_issue, block_rq_complete, block_rq_requeue); drivers/nvme/host/trace.h; perf-trace(1)
//! for its own notation of the same events; blk_fill_rwbs() for the letters of a
//! request's operation; block/blk-flush.c for the parts of a flush. A request begins at its issue
//! to the driver (blkparse: action D) and ends at its completion (C). A request that the driver
//! requeues (R) begins with its next issue. A flush is issued without an address (`D FN
//! [kworker]`). A completion of no sectors that does not belong to a flush (`C WS 0 [0]`) is that
//! of a bio which waited for a flush, as sync issues it; it is not a request. Other events are
//! other stages of the same requests, not skipped I/Os. Not read: zone commands including appends;
//! they are counted.

use drivebay_units::{Nanos, SECTOR_BYTES};

use super::columns::for_op;
use super::number::{decimal_ns, device, scaled, whole, words};
use super::parse::{Names, Out, Parse, check};
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
    fn apply(&self, out: &mut Out<'_>) -> Result<bool, Problem> {
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
                out.issue(key, request)?;
            }
            Action::Complete => {
                let known = out.complete(key, at)?;
                out.skipped.unmatched += u64::from(!known && !of_bio);
            }
            Action::Requeue => {
                out.skipped.requeued += u64::from(out.pairs.take_newest(key).is_some())
            }
        }
        Ok(true)
    }
}

/// blkparse's default text.
pub(crate) struct Blkparse;

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
                return Ok(true);
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
        Event { action, at, device, letters: f[6], offset_bytes, sectors }.apply(out)
    }
}

/// Text of ftrace (`trace`, `trace_pipe`, `trace-cmd report`) and of `perf script`.
pub(crate) struct Ftrace;

const EVENT: &[u8] = b"block_rq_";

impl Parse for Ftrace {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem> {
        let Some(start) = memchr::memmem::find(line, EVENT) else { return other_line(line, out) };
        let rest = &line[start + EVENT.len()..];
        let names: [(&[u8], Action); 3] = [
            (b"issue", Action::Issue),
            (b"complete", Action::Complete),
            (b"requeue", Action::Requeue),
        ];
        let event =
            names.iter().find_map(|(name, action)| Some((rest.strip_prefix(*name)?, *action)));
        let Some((rest, action)) = event.filter(|(rest, _)| !rest.is_empty()) else {
            // Another event, unless the line is cut off inside one of these names.
            let cut = names.iter().any(|(name, _)| name.starts_with(rest));
            return if cut { Err(no_line(line)) } else { other_line(line, out) };
        };
        if memchr::memmem::find(rest, EVENT).is_some() {
            return Err(Problem::new(format!("{} holds two events", shown(line))));
        }
        let rest = match rest {
            [b':', rest @ ..] => rest,
            [b'(', rest @ ..] => return perf_trace(line, rest, action)?.apply(out),
            _ => return other_line(line, out),
        };
        let at = time_before(&line[..start], b"block:")?;
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
        Event { action, at, device, letters: f[1], offset_bytes, sectors }.apply(out)
    }
}

/// Time before an event's name: "comm-pid [cpu] flags time:", or perf's "... time: subsystem:".
fn time_before(head: &[u8], subsystem: &[u8]) -> Result<Nanos, Problem> {
    let head = head.trim_ascii_end();
    let head = head.strip_suffix(subsystem).unwrap_or(head).trim_ascii_end();
    let time = head.strip_suffix(b":").and_then(|head| head.rsplit(|byte| *byte == b' ').next());
    let time = time.ok_or_else(|| Problem::new("there is no time before the event's name"))?;
    Ok(Nanos(decimal_ns(time, SECOND, "the time")?))
}

/// Value after `key` in a list such as "dev: 8, sector: 16)".
fn value<'a>(list: &'a [u8], key: &str) -> Result<&'a [u8], Problem> {
    let after = memchr::memmem::find(list, key.as_bytes()).map(|at| &list[at + key.len()..]);
    let is_end = |byte: &u8| matches!(byte, b',' | b')' | b' ');
    after
        .and_then(|rest| rest.iter().position(is_end).map(|end| &rest[..end]))
        .ok_or_else(|| Problem::new(format!("{} has no value of {}", shown(list), key.trim())))
}

/// Parses a line of `perf trace`: milliseconds, "comm/tid", and the event's fields by name.
fn perf_trace<'a>(line: &[u8], fields: &'a [u8], action: Action) -> Result<Event<'a>, Problem> {
    let (time, _) = words::<1>(line);
    let letters = value(fields, " rwbs: \"")?;
    let (offset_bytes, sectors) =
        place(value(fields, " sector: ")?, b"+", value(fields, " nr_sector: ")?)?;
    Ok(Event {
        action,
        at: Nanos(decimal_ns(time[0], 1_000_000, "the time")?),
        device: device(value(fields, "dev: ")?, "dev")?,
        letters: letters.strip_suffix(b"\"").unwrap_or(letters),
        offset_bytes,
        sectors,
    })
}

/// Text of ftrace and of `perf script` with nvme_setup_cmd and nvme_complete_rq. Commands match by
/// disk, queue and command identifier. Blocks are taken for 512 bytes, as the events lack their
/// size.
#[derive(Default)]
pub(crate) struct FtraceNvme(Names);

impl Parse for FtraceNvme {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem> {
        let events: [&[u8]; 2] = [b"nvme_setup_cmd: ", b"nvme_complete_rq: "];
        let event = events.iter().enumerate().find_map(|(kind, name)| {
            memchr::memmem::find(line, name).map(|at| (kind, at, &line[at + name.len()..]))
        });
        let Some((kind, start, fields)) = event else { return other_line(line, out) };
        if memchr::memmem::find(fields, b"disk=").is_none() {
            return Ok(false); // an admin command
        }
        let at = time_before(&line[..start], b"nvme:")?;
        let device = self.0.number(value(fields, "disk=")?)?;
        let queue = u64::from(super::number::device(value(fields, "qid=")?, "qid")?);
        let id = super::number::device(value(fields, "cmdid=")?, "cmdid")?;
        let key = (device, queue << 32 | u64::from(id), Op::Read);
        if kind == 1 {
            let known = out.complete(key, at)?;
            out.skipped.unmatched += u64::from(!known);
            return Ok(true);
        }
        let op = match value(fields, "cmd=(")? {
            b"nvme_cmd_read" => Op::Read,
            b"nvme_cmd_write" => Op::Write,
            b"nvme_cmd_flush" => Op::Flush,
            _ => {
                out.skipped.other_events += 1;
                return Ok(true);
            }
        };
        let (offset_bytes, blocks) = match op {
            Op::Flush => (0, 0),
            _ => (
                scaled(value(fields, "slba=")?, SECTOR_BYTES, "slba")?,
                whole(value(fields, " len=")?, "len")?.saturating_add(1),
            ),
        };
        let bytes = blocks.saturating_mul(SECTOR_BYTES);
        let request = Request { at, offset_bytes, bytes, response: None, device, op };
        check(&request)?;
        out.skipped.no_block_size += u64::from(op.moves_data());
        out.issue(key, request)?;
        Ok(true)
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
