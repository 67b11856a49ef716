//! CloudPhysics' binary records, version 1: 32 bytes, little endian.
//!
//! Source: the record's layout as libCacheSim publishes it: serial u32, length in bytes u32, segments
//! u32, command u16, version u16 (its high byte is 1), sector u64, microseconds u64.
//! Version 2 (40 bytes, with a response time of unstated unit) is not read.

use drivebay_units::{Nanos, SECTOR_BYTES};

use super::columns::{for_op, scsi_op};
use super::parse::{Input, Out, Parse};
use crate::error::{Problem, TraceError};
use crate::request::Request;

/// Length of a record.
const RECORD_BYTES: usize = 32;

/// Records that are looked at to recognise the format.
const LOOKED_AT: usize = 8;

/// Whether a file that begins so holds such records.
pub(crate) fn looks_like(sample: &[u8]) -> bool {
    let (records, rest) = sample.as_chunks::<RECORD_BYTES>();
    let plausible = |r: &[u8; RECORD_BYTES]| {
        r[15] == 1 && r[13] == 0 && u64::from_le_bytes(eight(r, 16)) < 1 << 54
    };
    let enough = !records.is_empty() && (records.len() >= LOOKED_AT || rest.is_empty());
    enough && records.iter().take(LOOKED_AT).all(plausible)
}

fn eight(record: &[u8; RECORD_BYTES], at: usize) -> [u8; 8] {
    record[at..at + 8].try_into().expect("8 bytes of 32")
}

fn four(record: &[u8; RECORD_BYTES], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(record[at..at + 4].try_into().expect("4 bytes of 32")))
}

/// Reads the records.
pub(crate) struct VscsiRecords;

impl Parse for VscsiRecords {
    fn line(&mut self, _line: &[u8], _out: &mut Out<'_>) -> Result<bool, Problem> {
        Ok(false) // it has records, no lines
    }

    fn next(&mut self, input: &mut Input, into: &mut Vec<Request>) -> Result<bool, TraceError> {
        let read = input.lines.record::<RECORD_BYTES>();
        let (record, len) = read.map_err(|error| input.read_error(error))?;
        if len == 0 {
            return Ok(false);
        }
        let mut out = Out { requests: into, skipped: &mut input.skipped };
        let parsed = if len < RECORD_BYTES {
            Err(Problem::with_hint(
                format!("has {len} bytes; must be {RECORD_BYTES}"),
                "the file is cut short: copy it again",
            ))
        } else {
            parse_record(&record, &mut out)
        };
        parsed.map_err(|problem| input.error_at("record", problem)).map(|()| true)
    }
}

fn parse_record(record: &[u8; RECORD_BYTES], out: &mut Out<'_>) -> Result<(), Problem> {
    let version = record[15];
    if version != 1 {
        return Err(Problem::with_hint(
            format!("the record's version is {version}; must be 1"),
            "convert it to text: version,time,op,size,lbn",
        ));
    }
    let Some(op) = scsi_op(u64::from(u16::from_le_bytes([record[12], record[13]]))) else {
        out.skipped.other_events += 1;
        return Ok(());
    };
    let too_large = |what: &str| Problem::new(format!("{what} is too large"));
    let sector = u64::from_le_bytes(eight(record, 16));
    let us = u64::from_le_bytes(eight(record, 24));
    let request = Request {
        at: Nanos(us.checked_mul(1_000).ok_or_else(|| too_large("the time"))?),
        offset_bytes: sector.checked_mul(SECTOR_BYTES).ok_or_else(|| too_large("the sector"))?,
        bytes: four(record, 4),
        response: None,
        device: 0,
        op,
    };
    out.push(for_op(request)).map(|_| ())
}
