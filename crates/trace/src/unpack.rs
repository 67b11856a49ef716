//! Decompression of traces: gzip, bzip2, zstd and xz, recognized by their magic bytes.
//!
//! Sources: RFC 1952 (gzip), RFC 8878 (zstd), the bzip2 format's "BZh" header, the .xz file format
//! 1.2.1. Files that consist of several members, frames or streams are read to their end. Bounds:
//! compressed data may expand to at most [`UNPACK_RATIO_MAX`] times its size (after
//! [`UNPACK_FREE_BYTES`]); a zstd window or an xz dictionary may have at most 128 MiB.

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::GzDecoder;
use lzma_rust2::XzReader;

/// Largest expansion. Compressed text traces expand 3 to 30 times; gzip's limit is 1032.
pub const UNPACK_RATIO_MAX: u64 = 250;
/// Decompressed bytes to which the ratio does not apply.
pub const UNPACK_FREE_BYTES: u64 = 16 << 20;

/// Largest xz dictionary, in KiB; `xz -9` uses 64 MiB.
const XZ_KIB_MAX: u32 = 128 << 10;

/// Bytes of a file, plain or decompressed.
pub(crate) type Bytes = Box<dyn Read + Send>;

/// Decompresses `raw` if it is compressed.
pub(crate) fn unpack(mut raw: Bytes) -> io::Result<Bytes> {
    let mut start = [0; 4];
    let len = read_full(&mut raw, &mut start)?;
    let raw = Box::new(Cursor::new(start).take(len as u64).chain(raw));
    let packed = Arc::new(AtomicU64::new(0));
    let counted = Counted { inner: raw, bytes: Arc::clone(&packed) };
    let counted = BufReader::with_capacity(256 * 1024, counted);
    let unpacked: Bytes = match &start[..len] {
        [0x1f, 0x8b, ..] => Box::new(Members(Some(GzDecoder::new(counted)))),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => {
            Box::new(bzip2::bufread::MultiBzDecoder::new(counted))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            Box::new(zstd::Decoder::with_buffer(counted)?)
        }
        [0xfd, b'7', b'z', b'X', ..] => {
            Box::new(XzReader::new_mem_limit(counted, true, XZ_KIB_MAX))
        }
        _ => return Ok(Box::new(counted)),
    };
    Ok(Box::new(Guard { inner: unpacked, packed, unpacked: 0 }))
}

/// Reads until `buffer` is full or the input ends.
pub(crate) fn read_full(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let (most, mut into) = (buffer.len() as u64, buffer);
    Ok(io::copy(&mut from.take(most), &mut into)? as usize)
}

/// Members of a gzip file. Zeros between and after them are padding, as gzip(1) accepts it.
struct Members(Option<GzDecoder<BufReader<Counted>>>);

impl Read for Members {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let len = member.read(buffer)?;
            if len > 0 || buffer.is_empty() {
                return Ok(len);
            }
            let Some(mut rest) = self.0.take().map(GzDecoder::into_inner) else { break };
            while rest.fill_buf()?.first() == Some(&0) {
                rest.consume(1);
            }
            self.0 = (!rest.fill_buf()?.is_empty()).then(|| GzDecoder::new(rest));
        }
        Ok(0)
    }
}

/// Counts the bytes read from the file.
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

/// Rejects decompression bombs.
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
            let what = format!(
                "it unpacks to more than {UNPACK_RATIO_MAX} times its size, unlike any trace"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(len)
    }
}

#[cfg(test)]
#[path = "../tests/unit/unpack.rs"]
mod tests;
