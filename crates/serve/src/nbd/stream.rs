//! Byte stream of a connection, plain or over TLS. Never blocks.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use socket2::Socket;

/// Byte stream of a connection.
pub enum Stream {
    /// Unencrypted.
    Plain(Socket),
    /// Encrypted.
    Tls(Box<StreamOwned<ServerConnection, Socket>>),
}

impl Stream {
    /// The socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Plain(socket) => socket.as_fd(),
            Stream::Tls(stream) => stream.sock.as_fd(),
        }
    }

    /// Switches to TLS; the client sends the first message.
    ///
    /// # Errors
    /// The stream is TLS already, or the configuration is invalid.
    pub fn start_tls(&mut self, config: &Arc<ServerConfig>) -> io::Result<()> {
        let Stream::Plain(socket) = self else { return Err(io::ErrorKind::InvalidInput.into()) };
        let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        let socket = socket.try_clone()?;
        *self = Stream::Tls(Box::new(StreamOwned::new(connection, socket)));
        Ok(())
    }

    /// Reads available bytes.
    ///
    /// # Errors
    /// The system's; `WouldBlock` if no bytes are available.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(into),
            Stream::Tls(stream) => stream.read(into),
        }
    }

    /// Like [`Stream::read`], into one slice after the other; over TLS only into the first.
    ///
    /// # Errors
    /// Like [`Stream::read`].
    pub fn read_pieces(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read_vectored(pieces),
            Stream::Tls(stream) => stream.read(&mut pieces[0]),
        }
    }

    /// Writes as many bytes as possible.
    ///
    /// # Errors
    /// The system's; `WouldBlock` if none can be written.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    /// Like [`Stream::write`], from slices; over TLS nothing is written.
    ///
    /// # Errors
    /// Like [`Stream::write`].
    pub fn write_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write_vectored(pieces),
            Stream::Tls(_) => Ok(0),
        }
    }

    /// Passes buffered bytes to the socket; returns true if all were passed.
    pub fn finish(&mut self) -> io::Result<bool> {
        let Stream::Tls(stream) = self else { return Ok(true) };
        while stream.conn.wants_write() {
            match stream.conn.write_tls(&mut stream.sock) {
                Ok(_) => {}
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(why) => return Err(why),
            }
        }
        Ok(true)
    }

    /// True if received bytes may be buffered that the socket does not report any more.
    pub fn holds_bytes(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }
}
