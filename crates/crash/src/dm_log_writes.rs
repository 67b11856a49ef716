//! Reader for logs of Linux's dm-log-writes, or of QEMU's driver blklogwrites, which record the
//! writes of a real drive.
//!
//! Source: Documentation/admin-guide/device-mapper/log-writes.rst of Linux, struct log_write_super
//! and log_write_entry in drivers/md/dm-log-writes.c. The log is in completion order and has no
//! times: each command counts as completed at once, and its number is its time. Left out:
//! overlapping commands, so those states are missing; and the drive's former content, which must
//! have been zeros.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use drivebay_units::SECTOR_BYTES;
use xxhash_rust::xxh3::xxh3_128;

use crate::recording::{Block, Op, PAGE_BYTES, PAGE_SECTORS, Recording, ZEROS, read};

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;

/// True if a file with this start is such a log.
pub(crate) fn is_log(start: &[u8; 16]) -> bool {
    start[..8] == MAGIC.to_le_bytes() && start[8..] == VERSION.to_le_bytes()
}

/// Reads a log into an empty recording.
pub(crate) fn read_log(into: &mut Recording, from: &mut BufReader<File>) -> io::Result<()> {
    let impossible = || io::Error::from(io::ErrorKind::InvalidData);
    from.seek(SeekFrom::Start(16))?;
    let entries = u64::from_le_bytes(read(from)?);
    let sector_bytes = u64::from(u32::from_le_bytes(read(from)?));
    if !(SECTOR_BYTES..=1 << 16).contains(&sector_bytes) || !sector_bytes.is_power_of_two() {
        return Err(impossible());
    }
    let mut at = sector_bytes;
    let mut known = HashMap::new();
    for time in 0..entries {
        from.seek(SeekFrom::Start(at))?;
        let [sector, sectors, flags, text_bytes] =
            [read(from)?, read(from)?, read(from)?, read(from)?].map(u64::from_le_bytes);
        at += sector_bytes;
        if flags & MARK != 0 {
            let mut text = vec![0; text_bytes.min(sector_bytes - 32) as usize];
            from.read_exact(&mut text)?;
            into.mark(time, String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned());
            continue;
        }
        let of_drive = |count: u64| count.checked_mul(sector_bytes / SECTOR_BYTES);
        let (Some(lba), Some(length)) = (of_drive(sector), of_drive(sectors)) else {
            return Err(impossible());
        };
        let end = lba.checked_add(length).ok_or_else(impossible)?;
        // A flush with data precedes it (REQ_PREFLUSH).
        if flags & FLUSH != 0 {
            let flush = into.submit(time, (Op::Flush, false), (0, 0), 0);
            into.complete(time, flush);
        }
        if length == 0 {
            continue;
        }
        let first = into.data.len();
        let op = if flags & DISCARD != 0 { Op::Discard } else { Op::Write };
        if op == Op::Write {
            from.seek(SeekFrom::Start(at))?;
            let mut sector = lba;
            while sector < end {
                let within = sector % PAGE_SECTORS;
                let count = (PAGE_SECTORS - within).min(end - sector);
                let block = Block {
                    at: at + (sector - lba) * SECTOR_BYTES,
                    within: (within * SECTOR_BYTES) as u16,
                    bytes: (count * SECTOR_BYTES) as u16,
                    hash: 0,
                };
                let (mut bytes, begin) = ([0; PAGE_BYTES], usize::from(block.within));
                from.read_exact(&mut bytes[begin..begin + usize::from(block.bytes)])?;
                let hash = xxh3_128(&bytes);
                let next = into.blocks.len() as u32;
                let number = *known.entry(hash).or_insert(next);
                if number == next {
                    into.blocks.push(Block { hash, ..block });
                }
                into.data.push(if bytes == [0; PAGE_BYTES] { ZEROS } else { number });
                sector += count;
            }
            at += length * SECTOR_BYTES;
        }
        into.header.sectors = into.header.sectors.max(end);
        let command = into.submit(time, (op, flags & FUA != 0), (lba, length), first);
        into.complete(time, command);
    }
    Ok(())
}
