//! The bytes of a connection, plain or inside TLS. Never blocks.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use socket2::Socket;

/// What a connection speaks through.
pub enum Stream {
    /// As it is.
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

    /// From now on inside TLS; the client speaks first.
    ///
    /// # Errors
    /// If it is TLS already, or the configuration does not work.
    pub fn start_tls(&mut self, config: &Arc<ServerConfig>) -> io::Result<()> {
        let Stream::Plain(socket) = self else { return Err(io::ErrorKind::InvalidInput.into()) };
        let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        let socket = socket.try_clone()?;
        *self = Stream::Tls(Box::new(StreamOwned::new(connection, socket)));
        Ok(())
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// The system's; `WouldBlock` if there is nothing.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(into),
            Stream::Tls(stream) => stream.read(into),
        }
    }

    /// As [`Stream::read`], into the first piece and then the next; inside TLS into the first
    /// alone.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn read_pieces(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read_vectored(pieces),
            Stream::Tls(stream) => stream.read(&mut pieces[0]),
        }
    }

    /// Takes what fits.
    ///
    /// # Errors
    /// The system's; `WouldBlock` if nothing does.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    /// As [`Stream::write`], of pieces; inside TLS nothing.
    ///
    /// # Errors
    /// As [`Stream::write`].
    pub fn write_pieces(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write_vectored(pieces),
            Stream::Tls(_) => Ok(0),
        }
    }

    /// Hands what was taken to the socket; returns whether all went.
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

    /// Whether bytes may have come that the socket does not tell of any more.
    pub fn holds_bytes(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }
}
