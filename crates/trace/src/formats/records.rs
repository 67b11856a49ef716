//! Formats of binary records of fixed length, little endian.
//!
//! Sources: libCacheSim's readers, which define the layouts. CloudPhysics (vscsi), version 1, 32
//! bytes: serial u32, length in bytes u32, segments u32, command u16, version u16 (its high byte is
//! 1), sector u64, microseconds u64. oracleGeneral, 24 bytes: seconds u32, object id u64, size u32,
//! number of the next request for the same object i64 (-1 or the largest if there is none). Not
//! read: vscsi's version 2 (40 bytes, with a response time of unspecified unit); oracleGeneral's
//! next request. oracleGeneral has no operations: all requests are reads.

use drivebay_units::{Nanos, SECTOR_BYTES};

use super::columns::{for_op, scsi_op};
use super::parse::{Input, Out, Parse};
use crate::error::{Problem, TraceError};
use crate::request::{Op, Request, TimeUnit};

const VSCSI_BYTES: usize = 32;
const ORACLE_BYTES: usize = 24;

/// Records that detection reads.
const LOOKED_AT: usize = 8;

/// An object id is the number of a 512-byte sector, as in libCacheSim's conversions of block
/// traces. Ids from 2^53 on are hashes; they are taken modulo this, so that all addresses fit.
pub(crate) const OBJECT_SECTORS: u64 = 1 << 53;

/// True if a file with this start holds vscsi records.
pub(crate) fn looks_like_vscsi(sample: &[u8]) -> bool {
    looks_like::<VSCSI_BYTES>(sample, |_, r| r[15] == 1 && r[13] == 0 && eight(r, 16) < 1 << 54)
}

/// True if a file with this start holds oracleGeneral records: times never fall, and next requests
/// come after the request itself.
pub(crate) fn looks_like_oracle(sample: &[u8]) -> bool {
    let mut last = 0;
    looks_like::<ORACLE_BYTES>(sample, |number, r| {
        let (at, next) = (four(r, 0), eight(r, 16) as i64);
        let in_order = at >= std::mem::replace(&mut last, at);
        in_order && (matches!(next, -1 | i64::MAX) || (number as i64 + 1..1 << 40).contains(&next))
    })
}

fn looks_like<const N: usize>(
    sample: &[u8],
    mut plausible: impl FnMut(usize, &[u8; N]) -> bool,
) -> bool {
    let (records, rest) = sample.as_chunks::<N>();
    let enough = !records.is_empty() && (records.len() >= LOOKED_AT || rest.is_empty());
    let looked_at = records.iter().take(LOOKED_AT).enumerate();
    enough && looked_at.fold(true, |so_far, (number, record)| so_far && plausible(number, record))
}

fn eight(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(record[at..at + 8].try_into().expect("8 bytes of a record"))
}

fn four(record: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(record[at..at + 4].try_into().expect("4 bytes of a record")))
}

/// Reads the next record of `N` bytes; returns false at the end of the input.
fn next_record<const N: usize>(
    input: &mut Input,
    into: &mut Vec<Request>,
    parse: impl Fn(&[u8; N], &mut Out<'_>) -> Result<(), Problem>,
) -> Result<bool, TraceError> {
    let read = input.lines.record::<N>();
    let (record, len) = read.map_err(|error| input.read_error(error))?;
    if len == 0 {
        return Ok(false);
    }
    let Input { skipped, pairs, .. } = input;
    let mut out = Out { requests: into, skipped, pairs };
    let parsed = if len < N {
        let what = format!("has {len} bytes; must be {N}");
        Err(Problem::of_file(what, "the file is cut short: copy it again"))
    } else {
        parse(&record, &mut out)
    };
    parsed.map_err(|problem| input.error_at("record", problem)).map(|()| true)
}

/// Parser of CloudPhysics' records.
pub(crate) struct VscsiRecords;

impl Parse for VscsiRecords {
    fn next(&mut self, input: &mut Input, into: &mut Vec<Request>) -> Result<bool, TraceError> {
        next_record::<VSCSI_BYTES>(input, into, parse_vscsi)
    }
}

fn parse_vscsi(record: &[u8; VSCSI_BYTES], out: &mut Out<'_>) -> Result<(), Problem> {
    let version = record[15];
    if version != 1 {
        let what = format!("the record's version is {version}; must be 1");
        return Err(Problem::of_file(what, "convert it to text: version,time,op,size,lbn"));
    }
    let Some(op) = scsi_op(u64::from(u16::from_le_bytes([record[12], record[13]]))) else {
        out.skipped.other_events += 1;
        return Ok(());
    };
    let too_large = |what: &str| Problem::new(format!("{what} is too large"));
    let (sector, us) = (eight(record, 16), eight(record, 24));
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

/// Parser of oracleGeneral's records.
pub(crate) struct OracleRecords {
    unit_ns: u64,
}

impl OracleRecords {
    /// Creates a parser with times in seconds, or in the user's unit.
    pub(crate) fn new(unit: Option<TimeUnit>) -> OracleRecords {
        OracleRecords { unit_ns: unit.unwrap_or(TimeUnit::S).ns() }
    }
}

impl Parse for OracleRecords {
    fn next(&mut self, input: &mut Input, into: &mut Vec<Request>) -> Result<bool, TraceError> {
        let unit_ns = self.unit_ns;
        next_record::<ORACLE_BYTES>(input, into, |record, out| {
            out.skipped.no_op += 1;
            let request = Request {
                at: Nanos(four(record, 0) * unit_ns),
                offset_bytes: eight(record, 4) % OBJECT_SECTORS * SECTOR_BYTES,
                bytes: four(record, 12),
                response: None,
                device: 0,
                op: Op::Read,
            };
            out.push(request).map(|_| ())
        })
    }
}
