//! Byte buffers for the input and output of a connection. The session limits their size.

use std::io;

/// Bytes of one read.
const CHUNK: usize = 256 << 10;

/// Size from which a message counts as long. guess: a quarter of a read.
const LONG: usize = CHUNK / 4;

/// Bytes read beyond the end of a long message: more than the longest header of a protocol.
pub(crate) const HEAD: usize = 128;

/// Capacity beyond which an empty buffer is freed.
const KEEP: usize = 1 << 20;

/// Bytes that were received and are not consumed yet.
#[derive(Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    /// Returns the received bytes that are not consumed yet.
    pub fn ready(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Marks the first `count` bytes as consumed.
    pub fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > KEEP {
                self.bytes = Vec::new();
            }
        }
    }

    /// Reads once into an empty buffer, at most the header of a message; returns the number of
    /// bytes for this buffer, as `read` reports it. `read` may put other bytes elsewhere.
    pub fn fill_head(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        debug_assert!(self.start == self.end);
        if self.bytes.len() < HEAD {
            self.bytes.resize(CHUNK, 0);
        }
        (self.start, self.end) = (0, 0);
        self.end = read(&mut self.bytes[..HEAD])?;
        Ok(self.end)
    }

    /// Reads once; the current message needs `wanted` bytes. Returns the number of bytes read, and
    /// true if there may be more. The buffer at most doubles, so an announced length costs no
    /// memory before the bytes arrive.
    pub fn fill(
        &mut self,
        wanted: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<(usize, bool)> {
        if self.start > 0 && self.bytes.len() - self.end < CHUNK / 2 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.bytes.len() {
            let more = self.bytes.len().clamp(CHUNK, wanted.max(CHUNK));
            self.bytes.resize(self.bytes.len() + more, 0);
        }
        // Of a long message it reads only the missing bytes and the header of the next one: excess
        // bytes would have to be moved, and a small buffer stays in the processor's cache.
        let missing = (self.start + wanted).saturating_sub(self.end);
        let room = match self.bytes.len() - self.end {
            space if wanted > LONG && missing > 0 => space.min(missing + HEAD),
            space => space,
        };
        let got = read(&mut self.bytes[self.end..self.end + room])?;
        self.end += got;
        Ok((got, got == room))
    }
}

/// Bytes to send.
#[derive(Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    start: usize,
}

impl Output {
    /// Returns the buffer for appending.
    pub fn append(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Bytes that are not sent yet.
    pub fn unsent(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Marks the first `count` bytes as sent.
    pub fn sent(&mut self, count: usize) {
        self.start += count;
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
            if self.bytes.capacity() > KEEP {
                self.bytes = Vec::new();
            }
        }
    }

    /// Writes until the socket is full; returns true if everything was written.
    pub fn drain(&mut self, mut write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<bool> {
        while !self.unsent().is_empty() {
            match write(self.unsent()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent(count),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    // The sent part is freed when that is worth the copy.
                    if self.start > self.bytes.len() / 2 {
                        self.bytes.drain(..self.start);
                        self.start = 0;
                    }
                    return Ok(false);
                }
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        Ok(true)
    }
}
