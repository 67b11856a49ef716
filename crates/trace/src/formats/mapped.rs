//! Columns identified by name: libCacheSim's CSV, Meta's block traces, and files whose columns the
//! user names.
//!
//! Sources: libCacheSim's doc and its tracePrint for the names, enum.h for the operations; the
//! README of cache_dataset for Meta's columns. The header may follow other lines and may be
//! repeated, with the columns in any order. Fields have the header's separator and may be quoted.
//! libCacheSim: an object id is a sector of 512 bytes, as in its conversions of block traces; ids
//! from 2^53 on are hashes, taken modulo that. Without a column `op` all requests are reads. Not
//! read: key-value traces, whose ids are names. Meta: a chunk (a shard of a Tectonic block) has no
//! drive address. Chunks get addresses in order of appearance, [`CHUNK_BYTES`] apart, the largest
//! chunk in Meta's description; the `op_count` requests of a line come at once. Effect: the layout,
//! and seeks between chunks, are artificial.

use drivebay_units::{Nanos, SECTOR_BYTES};

use super::columns::{for_op, scsi_op};
use super::kernel::rwbs_op;
use super::number::{device, measure, split, whole};
use super::parse::{Names, Out, Parse};
use super::records::OBJECT_SECTORS;
use crate::error::{Problem, shown};
use crate::request::{Op, Request, TimeUnit};

/// Distance of Meta's chunks.
const CHUNK_BYTES: u64 = 16 << 20;
/// Most requests per line; Meta's traces have some hundred.
const COUNT_MAX: u64 = 10_000;
/// Most columns that are read of a line.
const COLUMNS_MAX: usize = 64;

/// Content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Time,
    Offset,
    Length,
    Op,
    Device,
    Response,
    Block,
    Shard,
    Count,
}

const FIELDS: usize = Field::Count as usize + 1;

/// Fields whose columns the user may name: name of the field, and column name in drivebay's own
/// files.
const OF_USER: [(Field, &str, &str); 6] = [
    (Field::Time, "time", "at_ns"),
    (Field::Offset, "offset", "offset_bytes"),
    (Field::Length, "length", "bytes"),
    (Field::Op, "op", "op"),
    (Field::Device, "device", "device"),
    (Field::Response, "response", "response_ns"),
];
const REQUIRED: [Field; 4] = [Field::Time, Field::Offset, Field::Length, Field::Op];

/// The user's map of columns: `time=ts:us,offset=lba:512,length=len,op=rw`.
///
/// After the colon comes a factor to bytes or nanoseconds, or a unit of time; for `op`, the word
/// for a read, and all other words are writes. In files without a header, a column is given by
/// number, from 1. Fields that are not given use the field's name or drivebay's own column name.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnMap(Vec<Wanted>);

/// A column, identified by any of its names.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    field: Field,
    names: Vec<String>,
    required: bool,
    /// Factor of its numbers; `None` for whole nanoseconds or bytes.
    unit: Option<u64>,
    /// For `op`: the word for a read.
    read: Option<String>,
}

impl Wanted {
    fn new(field: Field, names: &[&str], required: bool) -> Wanted {
        let mut names: Vec<_> = names.iter().map(ToString::to_string).collect();
        names.dedup();
        Wanted { field, names, required, unit: None, read: None }
    }

    fn is_time(&self) -> bool {
        matches!(self.field, Field::Time | Field::Response)
    }
}

impl ColumnMap {
    /// Parses the user's text.
    ///
    /// # Errors
    /// The problem, and a hint after a line break.
    pub fn parse(text: &str) -> Result<ColumnMap, String> {
        let column = |&(field, name, own): &(Field, &str, &str)| {
            Wanted::new(field, &[own, name], REQUIRED.contains(&field))
        };
        let mut wanted: Vec<Wanted> = OF_USER.iter().map(column).collect();
        let refuse = |what: String| {
            let hint = "--columns time=ts:us,offset=lba:512,length=len:512,op=type";
            Err(format!("--columns: {what}\nhint: {hint}"))
        };
        for part in text.split(',') {
            let Some((field, column)) = part.split_once('=') else {
                return refuse(format!("'{part}' is not FIELD=COLUMN"));
            };
            let field = field.trim();
            let Some(at) = OF_USER.iter().position(|(_, name, own)| [*name, *own].contains(&field))
            else {
                let known = OF_USER.map(|(_, name, _)| name).join(", ");
                return refuse(format!("'{field}' is not a field; must be one of {known}"));
            };
            let entry = &mut wanted[at];
            let (name, unit) = match column.rsplit_once(':') {
                Some((name, unit)) => (name.trim(), Some(unit.trim())),
                None => (column.trim(), None),
            };
            if name.is_empty() {
                return refuse(format!("'{part}' names no column"));
            }
            entry.names = vec![name.to_string()];
            entry.required = true;
            let Some(unit) = unit else { continue };
            let is_time = entry.is_time();
            let time = TimeUnit::from_name(unit).filter(|_| is_time).map(TimeUnit::ns);
            let number = unit.parse().ok().filter(|number| *number > 0);
            match (entry.field, time.or(number)) {
                (Field::Op, _) => entry.read = Some(unit.to_string()),
                (Field::Device, _) => return refuse(format!("'{part}': a device has no unit")),
                (_, Some(number)) => entry.unit = Some(number),
                (_, None) => {
                    let must =
                        if is_time { "s, ms, us, ns or a number" } else { "a number of bytes" };
                    return refuse(format!("'{unit}' is not a unit of {field}; must be {must}"));
                }
            }
        }
        Ok(ColumnMap(wanted))
    }
}

/// Parser of an operation.
type Word = fn(&[u8]) -> Option<Op>;

/// Parser for columns that a header names.
pub(crate) struct Mapped {
    wanted: Vec<Wanted>,
    word: Word,
    /// Index of each field's column; `None` before the header.
    places: Option<[Option<usize>; FIELDS]>,
    /// Separator of fields; `None` before the first line.
    separator: Option<u8>,
    by_user: bool,
    devices: Names,
    chunks: Names,
}

impl Mapped {
    /// Creates a parser; times without a unit of their own are in `unit`.
    fn new(mut wanted: Vec<Wanted>, unit: Option<TimeUnit>, word: Word) -> Mapped {
        let times = wanted.iter_mut().filter(|column| column.is_time() && column.unit.is_none());
        times.for_each(|column| column.unit = unit.map(TimeUnit::ns));
        Mapped {
            wanted,
            word,
            places: None,
            separator: None,
            by_user: false,
            devices: Names::default(),
            chunks: Names::default(),
        }
    }

    /// Creates the parser for libCacheSim's columns, with times in seconds by default.
    pub(crate) fn lib_cache_sim(unit: Option<TimeUnit>) -> Mapped {
        let wanted = vec![
            Wanted::new(Field::Time, &["clock_time", "time", "timestamp", "real_time"], true),
            Wanted::new(Field::Offset, &["lbn", "obj_id", "object_id", "object", "obj"], true),
            Wanted::new(Field::Length, &["obj_size", "object_size", "size"], true),
            Wanted::new(Field::Op, &["op"], false),
        ];
        Mapped::new(wanted, unit.or(Some(TimeUnit::S)), |word| {
            // A number in libCacheSim's list; with a leading zero it is a SCSI opcode.
            let is_number = word.len() == 1 || !word.starts_with(b"0");
            let number = std::str::from_utf8(word).ok().filter(|_| is_number);
            let name = number.and_then(|text| CACHE_OPS.get(text.parse::<usize>().ok()?));
            op_word(name.map_or(word, |name| name.as_bytes()))
        })
    }

    /// Creates the parser for Meta's columns, with times in seconds by default; without a header,
    /// the published columns are assumed.
    pub(crate) fn meta(unit: Option<TimeUnit>) -> Mapped {
        let wanted = vec![
            Wanted::new(Field::Time, &["op_time"], true),
            Wanted::new(Field::Block, &["block_id"], true),
            Wanted::new(Field::Length, &["io_size"], true),
            Wanted::new(Field::Offset, &["io_offset"], true),
            Wanted::new(Field::Op, &["op_name", "op"], true),
            Wanted::new(Field::Count, &["op_count"], false),
            Wanted::new(Field::Shard, &["rs_shard_id"], false),
        ];
        let mut mapped = Mapped::new(wanted, unit.or(Some(TimeUnit::S)), |word| match word {
            [b'g', b'e', b't', b'C', b'h', b'u', b'n', b'k', ..] => Some(Op::Read),
            [b'p', b'u', b't', b'C', b'h', b'u', b'n', b'k', ..] => Some(Op::Write),
            _ => None,
        });
        let published =
            b"op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,\
                          op_name,op_count,host_name,rs_shard_id";
        mapped.header(published);
        mapped
    }

    /// Creates the parser for the user's columns.
    pub(crate) fn by(columns: &ColumnMap, unit: Option<TimeUnit>) -> Mapped {
        let mut mapped = Mapped::new(columns.0.clone(), unit, op_word);
        mapped.by_user = true;
        let number = |column: &Wanted| {
            column.names[0].parse().ok().filter(|at| (1..=COLUMNS_MAX).contains(at))
        };
        if mapped.wanted.iter().all(|column| !column.required || number(column).is_some()) {
            let mut places = [None; FIELDS];
            for column in mapped.wanted.iter_mut().filter(|column| column.required) {
                places[column.field as usize] = number(column).map(|at| at - 1);
                column.names[0].insert_str(0, "column ");
            }
            mapped.places = Some(places);
        }
        mapped
    }

    /// Reads the columns of a header; returns false if the line is not a header.
    fn header(&mut self, line: &[u8]) -> bool {
        let line = line.strip_prefix(b"#").unwrap_or(line);
        let separator = separator_of(line);
        let (fields, _) = fields(line, separator);
        let mut places = [None; FIELDS];
        for column in &mut self.wanted {
            let place = |name: &String| {
                fields.iter().position(|field| field.eq_ignore_ascii_case(name.as_bytes()))
            };
            match column.names.iter().enumerate().find_map(|(at, name)| Some((at, place(name)?))) {
                Some((at, place)) => {
                    column.names.swap(0, at); // first name, used in messages
                    places[column.field as usize] = Some(place);
                }
                None if column.required => return false,
                None => {}
            }
        }
        (self.places, self.separator) = (Some(places), Some(separator));
        true
    }

    #[cold]
    fn no_header(&self, line: &[u8]) -> Problem {
        let (fields, count) = fields(line, separator_of(line));
        let names: Vec<_> = fields.iter().take(count.min(20)).map(|name| shown(name)).collect();
        let names = names.join(", ");
        let is_present =
            |name: &String| fields.iter().any(|field| field.eq_ignore_ascii_case(name.as_bytes()));
        let mut missing = self
            .wanted
            .iter()
            .filter(|column| column.required && !column.names.iter().any(is_present));
        let missing = missing.next().map(|column| column.names.join(" or ")).unwrap_or_default();
        let what = format!("no column is named {missing}; this line has {names}");
        if self.by_user {
            let hint =
                "--columns time=NAME:us,offset=NAME:512,length=NAME,op=NAME, or numbers from 1";
            Problem::of_file(what, hint)
        } else {
            Problem::new(what)
        }
    }

    fn row(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem> {
        let places = self.places.as_ref().expect("a header was read");
        let separator = *self.separator.get_or_insert_with(|| separator_of(line));
        let (fields, count) = fields(line, separator);
        let field = |field: Field| places[field as usize].map(|at| fields[at]);
        if let Some(last) = places.iter().flatten().max().filter(|last| **last >= count) {
            let what = format!("{count} columns in {}; must be {} or more", shown(line), last + 1);
            return Err(Problem::new(what));
        }
        let (mut at, mut offset_bytes, mut bytes, mut response) = (0, 0, 0, None);
        let mut op = Op::Read;
        let mut has_op = false;
        for column in &self.wanted {
            let Some(value) = field(column.field) else { continue };
            let name = &column.names[0];
            match column.field {
                Field::Time => at = measure(value, column.unit, name)?,
                Field::Offset if self.by_user || places[Field::Block as usize].is_some() => {
                    offset_bytes = measure(value, column.unit, name)?;
                }
                Field::Offset => offset_bytes = whole(value, name)? % OBJECT_SECTORS * SECTOR_BYTES,
                Field::Length => bytes = measure(value, column.unit, name)?,
                Field::Response if value.is_empty() => {}
                Field::Response => response = Some(Nanos(measure(value, column.unit, name)?)),
                Field::Op => {
                    has_op = true;
                    op = match &column.read {
                        Some(read) if read.as_bytes().eq_ignore_ascii_case(value) => Op::Read,
                        Some(_) => Op::Write,
                        None => {
                            (self.word)(value).ok_or_else(|| not_a_kind(value, self.by_user))?
                        }
                    };
                }
                Field::Device | Field::Block | Field::Shard | Field::Count => {}
            }
        }
        let device = match field(Field::Device) {
            None => 0,
            Some(name) => match device(name, "") {
                Ok(number) => number,
                Err(_) => self.devices.number(name)?,
            },
        };
        if let Some(block) = field(Field::Block) {
            let chunk = self.chunks.number((block, field(Field::Shard)))?;
            offset_bytes = offset_bytes.saturating_add(u64::from(chunk) * CHUNK_BYTES);
        }
        let count = match field(Field::Count) {
            Some(count) => whole(count, "op_count")?.max(1),
            None => 1,
        };
        if count > COUNT_MAX {
            return Err(Problem::new(format!("op_count is {count}; must be {COUNT_MAX} or less")));
        }
        out.skipped.no_op += u64::from(!has_op);
        let request = for_op(Request { at: Nanos(at), offset_bytes, bytes, response, device, op });
        for _ in 0..count {
            out.push(request)?;
        }
        Ok(true)
    }
}

impl Parse for Mapped {
    fn line(&mut self, line: &[u8], out: &mut Out<'_>) -> Result<bool, Problem> {
        // Blanks at the ends may separate empty fields, so they are kept.
        let Some(first) = line.trim_ascii().first().copied() else { return Ok(false) };
        if self.places.is_some() {
            return match self.row(line, out) {
                Err(_) if self.header(line) || first == b'#' => Ok(false),
                read => read,
            };
        }
        match self.header(line) {
            false if first != b'#' => Err(self.no_header(line)),
            is_header => Ok(is_header),
        }
    }
}

/// Separator of the fields in a line.
fn separator_of(line: &[u8]) -> u8 {
    [b',', b';', b'\t', b'|', b' '].into_iter().find(|byte| line.contains(byte)).unwrap_or(b',')
}

/// Splits a line into fields, without surrounding blanks and quotes.
fn fields(line: &[u8], separator: u8) -> ([&[u8]; COLUMNS_MAX], usize) {
    let (mut fields, count) = match memchr::memchr(b'"', line) {
        None => split(line, separator),
        Some(_) => {
            let (mut fields, mut count, mut start, mut quoted) =
                ([&line[..0]; COLUMNS_MAX], 0, 0, false);
            for (at, byte) in line.iter().copied().chain([separator]).enumerate() {
                quoted ^= byte == b'"';
                if byte == separator && (!quoted || at == line.len()) {
                    if let Some(field) = fields.get_mut(count) {
                        *field = &line[start..at];
                    }
                    (count, start) = (count + 1, at + 1);
                }
            }
            (fields, count)
        }
    };
    for field in fields.iter_mut().take(count) {
        *field = field.trim_ascii();
        if let [b'"', inner @ .., b'"'] = *field {
            *field = inner;
        }
    }
    (fields, count.min(COLUMNS_MAX))
}

/// libCacheSim's operations by number.
const CACHE_OPS: [&str; 15] = [
    "nop", "get", "gets", "set", "add", "cas", "replace", "append", "prepend", "delete", "incr",
    "decr", "read", "write", "update",
];

/// Operation for a word, a SCSI opcode as two hexadecimal digits, or the kernel's letters.
fn op_word(word: &[u8]) -> Option<Op> {
    const WORDS: [(Op, &[&str]); 4] = [
        (Op::Read, &["read", "r", "rd", "get", "gets"]),
        (
            Op::Write,
            &[
                "write", "w", "wr", "put", "set", "add", "cas", "replace", "append", "prepend",
                "incr", "decr", "update",
            ],
        ),
        (Op::Trim, &["trim", "t", "discard", "d", "unmap", "delete"]),
        (Op::Flush, &["flush", "f", "sync", "fsync", "fdatasync", "datasync"]),
    ];
    let is_word = |words: &[&str]| words.iter().any(|w| word.eq_ignore_ascii_case(w.as_bytes()));
    if let Some((op, _)) = WORDS.iter().find(|(_, words)| is_word(words)) {
        return Some(*op);
    }
    if word.len() == 2 && word[0].is_ascii_digit() {
        return u64::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok().and_then(scsi_op);
    }
    let is_letters = word.iter().all(|letter| b"RWDFSMAU".contains(letter)) && !word.is_empty();
    is_letters.then(|| rwbs_op(word, 1)).flatten()
}

#[cold]
fn not_a_kind(field: &[u8], by_user: bool) -> Problem {
    let what = format!("the operation is {}", shown(field));
    if by_user && field.iter().all(u8::is_ascii_alphanumeric) {
        let hint = "give the word for a read; all others are writes: --columns op=COLUMN:WORD";
        return Problem::of_file(what, hint);
    }
    Problem::new(format!("{what}; must be a word like read or write"))
}
