//! Bytes on their way in and out of a connection. Their number is bounded by the session.

use std::io;

/// Size of one read.
const CHUNK: usize = 256 << 10;

/// From so many bytes on a message is long. guess: a quarter of a read.
const LONG: usize = CHUNK / 4;

/// What is read behind a long message: more than the longest head of a protocol.
pub(crate) const HEAD: usize = 128;

/// An empty buffer that has grown beyond this is freed.
const KEEP: usize = 1 << 20;

/// Bytes that have come and are not used yet.
#[derive(Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    /// Bytes received and not consumed yet.
    pub fn ready(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The first `count` bytes are used.
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

    /// Reads once, at most the head of a message, where nothing is ready; returns how many bytes
    /// came for this buffer. `read` tells that, and may have put others elsewhere.
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

    /// Reads once; `wanted` bytes are needed for the message in hand. Returns how many came, and
    /// whether there may be more. The buffer at most doubles, so what is announced costs nothing
    /// until it comes.
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
        // Of a long message no more than it needs, and the head of the next one: what is left over
        // would be moved, and a small buffer stays in the processor's cache.
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

/// Bytes that are to be sent.
#[derive(Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    start: usize,
}

impl Output {
    /// To append to.
    pub fn append(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What is to be sent.
    pub fn unsent(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The first `count` bytes have been sent.
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

    /// Writes what the socket takes; returns whether it took everything.
    pub fn drain(&mut self, mut write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<bool> {
        while !self.unsent().is_empty() {
            match write(self.unsent()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent(count),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    // What has been sent makes room when it is worth the copy.
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
