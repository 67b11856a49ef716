//! Bytes of a trace: gzip, bzip2 and zstd by their magic bytes, and lines with a bounded length.
//!
//! Sources: RFC 1952 (gzip), RFC 8878 (zstd), the bzip2 format's "BZh" header.
//! Files made of several members or frames one after the other are read to their end.
//! Bounds: a line is at most [`LINE_BYTES_MAX`]; compressed data may unpack to at most
//! [`UNPACK_RATIO_MAX`] times its size (after [`UNPACK_FREE_BYTES`]); a zstd window to 128 MiB.

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Longest line of a text trace.
pub const LINE_BYTES_MAX: usize = 64 * 1024;
/// Compressed text traces unpack to 3-30 times their size; gzip's possible most is 1032.
pub const UNPACK_RATIO_MAX: u64 = 250;
/// Unpacked before the ratio counts.
pub const UNPACK_FREE_BYTES: u64 = 16 << 20;

const BUFFER_BYTES: usize = 256 * 1024;

type Bytes = Box<dyn Read + Send>;

/// Unpacks `raw` if it is compressed.
pub(crate) fn unpack(mut raw: Bytes) -> io::Result<Bytes> {
    let mut start = [0; 4];
    let len = read_full(&mut raw, &mut start)?;
    let raw = Box::new(Cursor::new(start).take(len as u64).chain(raw));
    let packed = Arc::new(AtomicU64::new(0));
    let counted = Counted { inner: raw, bytes: Arc::clone(&packed) };
    let counted = BufReader::with_capacity(BUFFER_BYTES, counted);
    let unpacked: Bytes = match &start[..len] {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(counted)),
        [b'B', b'Z', b'h', b'1'..=b'9'] => Box::new(bzip2::bufread::MultiBzDecoder::new(counted)),
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
            Box::new(Zstd { packed: counted, decoder: FrameDecoder::new(), inside: false })
        }
        _ => return Ok(Box::new(counted)),
    };
    Ok(Box::new(Guard { inner: unpacked, packed, unpacked: 0 }))
}

/// Reads until `buffer` is full or the input ends.
pub(crate) fn read_full(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match from.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// Counts what is taken from the file.
struct Counted {
    inner: Bytes,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.inner.read(buffer)?;
        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }
}

/// Refuses a decompression bomb.
struct Guard {
    inner: Bytes,
    packed: Arc<AtomicU64>,
    unpacked: u64,
}

impl Read for Guard {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.inner.read(buffer)?;
        self.unpacked += len as u64;
        let packed = self.packed.load(Ordering::Relaxed);
        if self.unpacked > packed.saturating_mul(UNPACK_RATIO_MAX).max(UNPACK_FREE_BYTES) {
            return Err(damaged(format!(
                "it unpacks to more than {UNPACK_RATIO_MAX} times its size, as no trace does"
            )));
        }
        Ok(len)
    }
}

fn damaged(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// Zstd frames one after the other, skippable ones skipped, checksums checked.
struct Zstd {
    packed: BufReader<Counted>,
    decoder: FrameDecoder,
    inside: bool,
}

impl Read for Zstd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if self.inside {
                while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                    let one = BlockDecodingStrategy::UptoBlocks(1);
                    self.decoder
                        .decode_blocks(&mut self.packed, one)
                        .map_err(|error| damaged(error.to_string()))?;
                }
                let len = self.decoder.read(buffer)?;
                if len > 0 {
                    return Ok(len);
                }
                let stored = self.decoder.get_checksum_from_data();
                if stored.is_some() && stored != self.decoder.get_calculated_checksum() {
                    return Err(damaged("a zstd checksum does not match"));
                }
                self.inside = false;
            } else if self.packed.fill_buf()?.is_empty() {
                return Ok(0);
            } else {
                self.begin_frame()?;
            }
        }
    }
}

impl Zstd {
    fn begin_frame(&mut self) -> io::Result<()> {
        use FrameDecoderError::ReadFrameHeaderError as Header;
        match self.decoder.init(&mut self.packed) {
            Ok(()) => self.inside = true,
            Err(Header(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                let length = u64::from(length);
                if io::copy(&mut (&mut self.packed).take(length), &mut io::sink())? < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) => return Err(damaged(error.to_string())),
        }
        Ok(())
    }
}

/// What [`Lines::next`] can run into besides the end.
#[derive(Debug)]
pub(crate) enum LineError {
    /// Longer than [`LINE_BYTES_MAX`].
    TooLong,
    /// The file cannot be read or unpacked.
    Io(io::Error),
}

/// Lines of a file: ended by LF, CR LF or CR, in any mixture.
pub(crate) struct Lines {
    from: Bytes,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    ended: bool,
    /// The line before ended with CR: an LF right after it belongs to that end.
    after_cr: bool,
    number: u64,
    /// The last line given had no end: the file may have been cut there.
    pub cut: bool,
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
            number: 0,
            cut: false,
        }
    }

    /// Number of the line given last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// What the buffer holds of the file's start, for detection; call before [`Lines::next`].
    pub(crate) fn peek(&mut self) -> io::Result<&[u8]> {
        if self.end == 0 && !self.ended {
            self.end = read_full(&mut self.from, &mut self.buffer)?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Leaves out the first bytes.
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
    }

    /// The next line without its end.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, LineError> {
        let mut searched = self.start;
        loop {
            if let Some(at) = memchr::memchr2(b'\n', b'\r', &self.buffer[searched..self.end]) {
                let end = searched + at;
                let start = std::mem::replace(&mut self.start, end + 1);
                let is_cr = self.buffer[end] == b'\r';
                if self.after_cr && !is_cr && start == end {
                    self.after_cr = false;
                    searched = self.start;
                    continue;
                }
                self.after_cr = is_cr;
                self.number += 1;
                if end - start > LINE_BYTES_MAX {
                    return Err(LineError::TooLong);
                }
                return Ok(Some(&self.buffer[start..end]));
            }
            if self.end - self.start > LINE_BYTES_MAX {
                self.number += 1;
                return Err(LineError::TooLong);
            }
            if self.ended {
                let rest = self.start..self.end;
                self.start = self.end;
                if rest.is_empty() {
                    return Ok(None);
                }
                self.number += 1;
                self.cut = true;
                return Ok(Some(&self.buffer[rest]));
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

    /// The next record of `N` bytes; fewer only at the end of the file.
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

#[cfg(test)]
mod tests;
