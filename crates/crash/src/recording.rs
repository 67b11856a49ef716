//! Recordings: the commands of a drive in event order, and their data, with each distinct 4 KiB
//! block stored once.
//!
//! The file: [`MAGIC`], the length of the header (u32) and the header as JSON, then records. All
//! numbers are little-endian:
//!
//! | tag | record |
//! |---|---|
//! | `B` | a block: its hash (u128), 4096 bytes; blocks are numbered from 0 in file order |
//! | `P` | a block that the drive held at the start: page (u64), block (u32) |
//! | `S` | submission: time (u64, ns), LBA (u64), sectors (u64), operation (u8), FUA (u8), blocks |
//! | `C` | a completion: time (u64), the command's number (u64, from 0), success (u8) |
//! | `M` | a mark: time (u64), length (u32), text |
//! | `E` | an orderly end |
//!
//! The submission of a write has a block (u32) for each page that it touches, with zeros outside of
//! its sectors.
//!
//! [`ZEROS`] is a block of zeros. The hash is XXH3, 128 bits; two blocks with the same hash are
//! assumed to be equal. A file that ends in the middle of a record, or without `E`, is truncated:
//! its complete records count.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use drivebay_units::{SECTOR_BYTES, refuse_if};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::rules::Rules;

pub(crate) const MAGIC: &[u8; 16] = b"drivebay-crash-1";
/// Bytes of a page, and of a block.
pub(crate) const PAGE_BYTES: usize = 4096;
pub(crate) const PAGE_SECTORS: u64 = PAGE_BYTES as u64 / SECTOR_BYTES;
/// Number of the block of zeros.
pub(crate) const ZEROS: u32 = u32::MAX;
/// Stands for an event that never happens.
pub(crate) const NEVER: u32 = u32::MAX;
/// Longest mark or header, bytes.
const TEXT_MAX: u32 = 1 << 16;

/// Reason why a recording cannot be created or read.
#[derive(Debug, thiserror::Error)]
pub enum CrashError {
    /// The file cannot be used.
    #[error("{path}: {error}\nhint: ls -l {path}; df")]
    File {
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The file is not a recording.
    #[error(
        "{0} is not a recording\nhint: drivebay crash record DRIVE --out FILE -- COMMAND, or the log device of dm-log-writes"
    )]
    Foreign(String),
    /// No state has this name.
    #[error("there is no state {0}\nhint: drivebay crash show FOLDER lists those that failed")]
    NoState(String),
    /// Another error, with its hint.
    #[error("{0}\nhint: {1}")]
    Refused(String, String),
}

impl CrashError {
    pub(crate) fn file(path: &Path, error: io::Error) -> CrashError {
        CrashError::File { path: path.display().to_string(), error }
    }
}

/// The recorded drive, and the rules of its persistence.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Header {
    /// Profile of the drive; empty for a recording from another program.
    pub drive: String,
    /// Size of the drive, sectors of 512 B.
    pub sectors: u64,
    /// Rules of the drive, if known.
    pub rules: Option<Rules>,
    /// True if all writes are recorded as zeros, and reads are recorded as well.
    #[serde(default)]
    pub requests_only: bool,
}

/// Operation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Op {
    /// Write with data.
    Write,
    /// Zeroing without a data transfer.
    WriteZeroes,
    /// Deallocation; deallocated sectors read as zeros.
    Discard,
    /// Flush: completed data becomes durable.
    Flush,
    /// Read; only in a recording without data.
    Read,
}

/// Writes a recording while a drive is served.
pub struct Recorder {
    out: BufWriter<File>,
    blocks: HashMap<u128, u32>,
    /// Number in the recording of each outstanding command, by the server's number.
    inflight: HashMap<u64, u64>,
    commands: u64,
    /// True if no data is recorded, but reads are.
    pub requests_only: bool,
    failed: Option<io::Error>,
}

impl Recorder {
    /// Creates a new file.
    ///
    /// # Errors
    /// The file exists, or cannot be written.
    pub fn create(path: &Path, header: &Header) -> Result<Recorder, CrashError> {
        let file = File::create_new(path).map_err(|why| CrashError::file(path, why))?;
        let mut recorder = Recorder {
            out: BufWriter::with_capacity(1 << 18, file),
            blocks: HashMap::new(),
            inflight: HashMap::new(),
            commands: 0,
            requests_only: header.requests_only,
            failed: None,
        };
        let text = serde_json::to_vec(header).expect("numbers and texts");
        recorder.put(&[MAGIC, &(text.len() as u32).to_le_bytes(), &text]);
        match recorder.failed.take() {
            Some(why) => Err(CrashError::file(path, why)),
            None => Ok(recorder),
        }
    }

    /// Writes a record, given by its parts, unless an earlier one failed.
    fn put(&mut self, parts: &[&[u8]]) {
        if self.failed.is_none() {
            self.failed = parts.iter().try_for_each(|part| self.out.write_all(part)).err();
        }
    }

    /// Returns the number of a block, after writing it if it is new.
    fn block(&mut self, bytes: &[u8; PAGE_BYTES]) -> u32 {
        if self.requests_only || bytes.iter().all(|&byte| byte == 0) {
            return ZEROS;
        }
        let hash = xxh3_128(bytes);
        let next = self.blocks.len() as u32;
        let block = *self.blocks.entry(hash).or_insert(next);
        if block == next {
            self.put(&[b"B", &hash.to_le_bytes(), bytes]);
        }
        block
    }

    /// Records sectors that the drive holds at the start of the recording; they begin at a page.
    pub fn begins_with(&mut self, lba: u64, data: &[u8]) {
        for (i, piece) in data.chunks(PAGE_BYTES).enumerate() {
            let block = self.block(&padded(piece, 0));
            if block != ZEROS {
                let page = lba / PAGE_SECTORS + i as u64;
                self.put(&[b"P", &page.to_le_bytes(), &block.to_le_bytes()]);
            }
        }
    }

    /// Records a submission at time `at` in nanoseconds; `number` is the server's number of the
    /// command.
    pub fn submitted(
        &mut self,
        at: u64,
        number: u64,
        (op, fua): (Op, bool),
        (lba, sectors): (u64, u64),
        data: &[u8],
    ) {
        let mut blocks = Vec::new();
        let (mut sector, mut rest) = (lba, data);
        while !rest.is_empty() {
            let within = (sector % PAGE_SECTORS * SECTOR_BYTES) as usize;
            let (piece, after) = rest.split_at(rest.len().min(PAGE_BYTES - within));
            blocks.extend(self.block(&padded(piece, within)).to_le_bytes());
            (sector, rest) = (sector + piece.len() as u64 / SECTOR_BYTES, after);
        }
        self.inflight.insert(number, self.commands);
        self.commands += 1;
        let [at, lba, sectors] = [at, lba, sectors].map(u64::to_le_bytes);
        self.put(&[b"S", &at, &lba, &sectors, &[op as u8, fua.into()], &blocks]);
    }

    /// Records a completion; commands that were not recorded are ignored.
    pub fn completed(&mut self, at: u64, number: u64, ok: bool) {
        if let Some(command) = self.inflight.remove(&number) {
            self.put(&[b"C", &at.to_le_bytes(), &command.to_le_bytes(), &[ok.into()]]);
        }
    }

    /// Records a promise to the workload, in its own words; only the first 64 KiB are kept.
    pub fn mark(&mut self, at: u64, text: &str) {
        let text = &text.as_bytes()[..text.len().min(TEXT_MAX as usize)];
        self.put(&[b"M", &at.to_le_bytes(), &(text.len() as u32).to_le_bytes(), text]);
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// The file could not be written; it ends where writing failed.
    pub fn end(mut self) -> io::Result<()> {
        self.put(&[b"E"]);
        match self.failed {
            Some(why) => Err(why),
            None => self.out.flush(),
        }
    }
}

fn padded(piece: &[u8], from: usize) -> [u8; PAGE_BYTES] {
    let mut block = [0; PAGE_BYTES];
    block[from..from + piece.len()].copy_from_slice(piece);
    block
}

/// A command of a recording.
#[derive(Clone, Debug)]
pub struct Command {
    /// Operation.
    pub op: Op,
    /// True if it is durable once completed (Force Unit Access).
    pub fua: bool,
    /// First sector of 512 B.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// Event of the submission, and its time in nanoseconds.
    pub(crate) submitted: u32,
    pub(crate) submitted_ns: u64,
    /// Event of the completion; [`NEVER`] if the command did not complete or failed.
    pub(crate) completed: u32,
    pub(crate) completed_ns: u64,
    /// For a write: index in [`Recording::data`] of its blocks, one for each page.
    pub(crate) blocks: usize,
}

/// An event of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Submitted(u32),
    Completed(u32),
    Mark(u32),
}

/// A page of data: its position in the file, and its hash. The range given by `within` and `bytes`
/// is in the file, the rest is zeros.
pub(crate) struct Block {
    pub at: u64,
    pub within: u16,
    pub bytes: u16,
    pub hash: u128,
}

/// A recording; the data stays in its file.
pub struct Recording {
    /// Header of the recording.
    pub header: Header,
    /// True if the file is truncated.
    pub is_truncated: bool,
    pub(crate) commands: Vec<Command>,
    pub(crate) events: Vec<Event>,
    /// Marks: time in nanoseconds, and text.
    pub(crate) marks: Vec<(u64, String)>,
    /// Blocks of writes.
    pub(crate) data: Vec<u32>,
    /// Initial content of the drive, by page.
    pub(crate) base: BTreeMap<u64, u32>,
    pub(crate) blocks: Vec<Block>,
    file: File,
}

impl Recording {
    /// Creates an empty recording for a file, to be read into.
    pub(crate) fn empty(file: File) -> Recording {
        Recording {
            header: Header::default(),
            is_truncated: false,
            commands: Vec::new(),
            events: Vec::new(),
            marks: Vec::new(),
            data: Vec::new(),
            base: BTreeMap::new(),
            blocks: Vec::new(),
            file,
        }
    }

    pub(crate) fn read(&mut self, from: &mut BufReader<File>) -> io::Result<()> {
        from.seek(SeekFrom::Start(MAGIC.len() as u64))?;
        let text = read_text(from)?;
        self.header = serde_json::from_slice(&text).map_err(|_| io::ErrorKind::InvalidData)?;
        while self.record(from)? {}
        Ok(())
    }

    /// Reads a record; returns false at the end.
    fn record(&mut self, from: &mut BufReader<File>) -> io::Result<bool> {
        let damaged = || io::Error::from(io::ErrorKind::InvalidData);
        let known = |block: u32, blocks: &[_]| block == ZEROS || (block as usize) < blocks.len();
        match u8::from_le_bytes(read(from)?) {
            b'B' => {
                let hash = u128::from_le_bytes(read(from)?);
                let at = from.stream_position()?;
                let _: [u8; PAGE_BYTES] = read(from)?;
                self.blocks.push(Block { at, within: 0, bytes: PAGE_BYTES as u16, hash });
            }
            b'P' => {
                let (page, block) =
                    (u64::from_le_bytes(read(from)?), u32::from_le_bytes(read(from)?));
                let is_outside = page >= self.header.sectors.div_ceil(PAGE_SECTORS);
                refuse_if(is_outside || !known(block, &self.blocks), damaged())?;
                self.base.insert(page, block);
            }
            b'S' => {
                let [submitted_ns, lba, sectors] =
                    [read(from)?, read(from)?, read(from)?].map(u64::from_le_bytes);
                let [op, fua]: [u8; 2] = read(from)?;
                let ops = [Op::Write, Op::WriteZeroes, Op::Discard, Op::Flush, Op::Read];
                let &op = ops.get(usize::from(op)).ok_or_else(damaged)?;
                let end = lba.checked_add(sectors);
                refuse_if(end.is_none_or(|end| end > self.header.sectors), damaged())?;
                let first = self.data.len();
                if op == Op::Write {
                    let pages = (lba + sectors).div_ceil(PAGE_SECTORS) - lba / PAGE_SECTORS;
                    for _ in 0..pages {
                        let block = read(from).map(u32::from_le_bytes);
                        let block = block.inspect_err(|_| self.data.truncate(first))?;
                        refuse_if(!known(block, &self.blocks), damaged())?;
                        self.data.push(block);
                    }
                }
                self.submit(submitted_ns, (op, fua != 0), (lba, sectors), first);
            }
            b'C' => {
                let [at, number] = [read(from)?, read(from)?].map(u64::from_le_bytes);
                let [ok]: [u8; 1] = read(from)?;
                refuse_if(number >= self.commands.len() as u64, damaged())?;
                if ok != 0 {
                    self.complete(at, number as u32);
                }
            }
            b'M' => {
                let at = u64::from_le_bytes(read(from)?);
                let text = read_text(from)?;
                self.mark(at, String::from_utf8_lossy(&text).into_owned());
            }
            b'E' => return Ok(false),
            _ => return Err(damaged()),
        }
        Ok(true)
    }

    pub(crate) fn submit(
        &mut self,
        submitted_ns: u64,
        (op, fua): (Op, bool),
        (lba, sectors): (u64, u64),
        blocks: usize,
    ) -> u32 {
        let number = self.commands.len() as u32;
        let submitted = self.events.len() as u32;
        self.commands.push(Command {
            op,
            fua,
            lba,
            sectors,
            submitted,
            submitted_ns,
            completed: NEVER,
            completed_ns: 0,
            blocks,
        });
        self.events.push(Event::Submitted(number));
        number
    }

    pub(crate) fn complete(&mut self, at: u64, number: u32) {
        let command = &mut self.commands[number as usize];
        (command.completed, command.completed_ns) = (self.events.len() as u32, at);
        self.events.push(Event::Completed(number));
    }

    pub(crate) fn mark(&mut self, at: u64, text: String) {
        self.events.push(Event::Mark(self.marks.len() as u32));
        self.marks.push((at, text));
    }

    /// Reads a block.
    pub(crate) fn read_block(&self, block: u32, into: &mut [u8; PAGE_BYTES]) -> io::Result<()> {
        into.fill(0);
        if block != ZEROS {
            let &Block { at, within, bytes, .. } = &self.blocks[block as usize];
            let within = usize::from(within);
            self.file.read_exact_at(&mut into[within..within + usize::from(bytes)], at)?;
        }
        Ok(())
    }

    /// Hash of a block; 0 for zeros.
    pub(crate) fn hash(&self, block: u32) -> u128 {
        if block == ZEROS { 0 } else { self.blocks[block as usize].hash }
    }

    /// Number of writes (all commands except flushes), of commands that make data durable (flushes
    /// and FUA), and of commands with FUA.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let count = |is: fn(&Command) -> bool| self.commands.iter().filter(|&one| is(one)).count();
        let (flushes, fua) = (count(|one| one.op == Op::Flush && !one.fua), count(|one| one.fua));
        (count(|one| one.op != Op::Flush), flushes + fua, fua)
    }

    /// Time of an event, nanoseconds.
    pub(crate) fn time_of(&self, event: Event) -> u64 {
        match event {
            Event::Submitted(number) => self.commands[number as usize].submitted_ns,
            Event::Completed(number) => self.commands[number as usize].completed_ns,
            Event::Mark(number) => self.marks[number as usize].0,
        }
    }

    /// Requests after the last mark `start`, or all, with the times of their submissions and
    /// completions. No two events have the same time, so that their order is kept.
    pub fn requests(&self) -> impl Iterator<Item = (&Command, u64, Option<u64>)> {
        let mut now = 0;
        let times = self.events.iter().map(|&event| {
            now = self.time_of(event).max(now + 1);
            now
        });
        let times: Vec<u64> = times.collect();
        let is_start = |n: u32| self.marks[n as usize].1 == "start";
        let is_start = |event: &Event| matches!(event, Event::Mark(n) if is_start(*n));
        let first = self.events.iter().rposition(is_start).unwrap_or(0) as u32;
        self.commands.iter().filter(move |command| command.submitted >= first).map(move |command| {
            let completed = times.get(command.completed as usize).copied();
            (command, times[command.submitted as usize], completed)
        })
    }

    /// Returns the marks, in order.
    #[must_use]
    pub fn marks(&self) -> Vec<&str> {
        self.marks.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Bytes carried by writes, and bytes of distinct blocks.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        let written = self.commands.iter().filter(|command| command.op == Op::Write);
        let written = written.map(|command| command.sectors * SECTOR_BYTES).sum();
        (written, self.blocks.len() as u64 * PAGE_BYTES as u64)
    }
}

/// Reads a text and its length.
fn read_text(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let length = u32::from_le_bytes(read(from)?);
    refuse_if(length > TEXT_MAX, io::ErrorKind::InvalidData)?;
    let mut text = vec![0; length as usize];
    from.read_exact(&mut text)?;
    Ok(text)
}

/// Reads the next `N` bytes of a file.
pub(crate) fn read<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}
