//! Lines of a text trace, with bounded length, and binary records.
//!
//! Lines end with LF, CR LF or CR, in any mixture. A run of NUL bytes also ends a line, because the
//! text before and after it does not belong together: a file system leaves such runs after a crash
//! during a write. UTF-16 is decoded; it is recognized by its byte order mark or by the zeros of
//! its first letters. A UTF-8 mark is skipped at the start of any line, because files are often
//! concatenated. Bytes that are not UTF-8 are left unchanged: they occur in names, which no format
//! needs as text. Bounds: a line is at most [`LINE_BYTES_MAX`].

use std::io::{self, Cursor, Read};

use drivebay_units::refuse_if;

use crate::unpack::{Bytes, read_full};

/// Longest line of a text trace.
pub const LINE_BYTES_MAX: usize = 64 * 1024;
/// The byte order mark of UTF-8.
pub(crate) const MARK: &[u8] = b"\xef\xbb\xbf";

const BUFFER_BYTES: usize = 256 * 1024;

/// Errors of [`Lines::next`].
#[derive(Debug)]
pub(crate) enum LineError {
    /// The line is longer than [`LINE_BYTES_MAX`].
    TooLong,
    /// The file cannot be read or decompressed.
    Io(io::Error),
}

/// Lines of a file, or its records.
pub(crate) struct Lines {
    from: Bytes,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    ended: bool,
    /// True if the previous line ended with CR, so that an LF right after it belongs to the same
    /// line end.
    after_cr: bool,
    /// Line ends passed so far.
    ends: u64,
    number: u64,
    /// True if the last line had no line end: the file may be cut off there.
    pub cut: bool,
    /// Runs of NUL bytes between lines.
    pub holes: u64,
    /// True after a run of NUL bytes; at the end of a file it does not count as a hole.
    after_hole: bool,
}

impl Lines {
    pub(crate) fn new(from: Bytes) -> Lines {
        Lines {
            from,
            buffer: vec![0; BUFFER_BYTES].into(),
            start: 0,
            end: 0,
            ended: false,
            after_cr: false,
            ends: 0,
            number: 0,
            cut: false,
            holes: 0,
            after_hole: false,
        }
    }

    /// Number of the last line or record, counted from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the buffered start of the file, for detection; must be called before
    /// [`Lines::next`].
    pub(crate) fn peek(&mut self) -> io::Result<&[u8]> {
        if self.end == 0 && !self.ended {
            self.end = read_full(&mut self.from, &mut self.buffer)?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Decodes the rest of the input if it is UTF-16; must be called after [`Lines::peek`].
    pub(crate) fn decode(&mut self) -> io::Result<()> {
        let big_endian = match self.buffer[self.start..self.end] {
            [0xff, 0xfe, ..] => false,
            [0xfe, 0xff, ..] => true,
            [1..0x80, 0, 1..0x80, 0, ..] => false,
            [0, 1..0x80, 0, 1..0x80, ..] => true,
            _ => return Ok(()),
        };
        let held = Cursor::new(self.buffer[self.start..self.end].to_vec());
        let rest = std::mem::replace(&mut self.from, Box::new(io::empty()));
        self.from = Box::new(Utf16 {
            from: Box::new(held.chain(rest)),
            big_endian,
            half: None,
            text: String::new(),
            given: 0,
        });
        (self.start, self.end) = (0, 0);
        self.peek().map(|_| ())
    }

    /// Returns the next line without its end.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, LineError> {
        let mut searched = self.start;
        loop {
            let unseen = &self.buffer[searched..self.end];
            if let Some(at) = memchr::memchr3(b'\n', b'\r', 0, unseen) {
                let end = searched + at;
                let start = std::mem::replace(&mut self.start, end + 1);
                match self.buffer[end] {
                    b'\n' if self.after_cr && start == end => {
                        self.after_cr = false;
                        searched = self.start;
                        continue;
                    }
                    0 => {
                        self.pass_zeros();
                        self.number = self.ends + 1;
                    }
                    byte => {
                        self.after_cr = byte == b'\r';
                        self.ends += 1;
                        self.number = self.ends;
                    }
                }
                return self.line(start, end);
            }
            if self.end - self.start > LINE_BYTES_MAX {
                self.number = self.ends + 1;
                return Err(LineError::TooLong);
            }
            if self.ended {
                let rest = self.start..self.end;
                self.start = self.end;
                if rest.is_empty() {
                    return Ok(None);
                }
                self.number = self.ends + 1;
                self.cut = true;
                return self.line(rest.start, rest.end);
            }
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            searched = self.end;
            match self.from.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(len) => self.end += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(LineError::Io(error)),
            }
        }
    }

    #[inline]
    fn line(&mut self, start: usize, end: usize) -> Result<Option<&[u8]>, LineError> {
        refuse_if(end - start > LINE_BYTES_MAX, LineError::TooLong)?;
        let line = &self.buffer[start..end];
        if !line.is_empty() && self.after_hole {
            self.holes += 1;
            self.after_hole = false;
        }
        Ok(Some(line.strip_prefix(MARK).unwrap_or(line)))
    }

    /// Skips a run of NUL bytes within the buffer, once per run: sparse files consist mostly of
    /// such runs.
    #[cold]
    fn pass_zeros(&mut self) {
        let rest = &self.buffer[self.start..self.end];
        self.start += rest.iter().position(|byte| *byte != 0).unwrap_or(rest.len());
        self.after_hole = true;
    }

    /// Reads the next record of `N` bytes; it is shorter only at the end of the file.
    pub(crate) fn record<const N: usize>(&mut self) -> io::Result<([u8; N], usize)> {
        let mut record = [0; N];
        let held = (self.end - self.start).min(N);
        record[..held].copy_from_slice(&self.buffer[self.start..self.start + held]);
        self.start += held;
        let mut len = held;
        if len < N {
            self.start = 0;
            self.end = read_full(&mut self.from, &mut self.buffer)?;
            let more = self.end.min(N - len);
            record[len..len + more].copy_from_slice(&self.buffer[..more]);
            self.start = more;
            len += more;
        }
        self.number += u64::from(len > 0);
        Ok((record, len))
    }
}

/// Decoder from UTF-16 to UTF-8; invalid characters become U+FFFD.
struct Utf16 {
    from: Bytes,
    big_endian: bool,
    /// First half of a surrogate pair whose second half was not read yet.
    half: Option<u16>,
    text: String,
    given: usize,
}

impl Read for Utf16 {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.text.len() {
            let mut raw = [0; 8192];
            let len = read_full(&mut self.from, &mut raw)?;
            if len == 0 && self.half.is_none() {
                return Ok(0);
            }
            let unit = |pair: &[u8]| {
                let pair = [pair[0], *pair.get(1).unwrap_or(&0)];
                if self.big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
            };
            let mut units: Vec<u16> = self.half.into_iter().collect();
            units.extend(raw[..len].chunks(2).map(unit));
            self.half =
                if len > 0 { units.pop_if(|last| (0xd800..0xdc00).contains(last)) } else { None };
            let characters = char::decode_utf16(units);
            self.text = characters.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
            self.given = 0;
        }
        let len = buffer.len().min(self.text.len() - self.given);
        buffer[..len].copy_from_slice(&self.text.as_bytes()[self.given..self.given + len]);
        self.given += len;
        Ok(len)
    }
}

#[cfg(test)]
#[path = "../tests/unit/input.rs"]
mod tests;
