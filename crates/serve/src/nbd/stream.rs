//! The socket of a connection, plain or inside TLS. Never blocks.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// A connected socket.
pub enum Socket {
    /// On this machine.
    Unix(UnixStream),
    /// Over a network.
    Tcp(TcpStream),
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => socket.read(into),
            Socket::Tcp(socket) => socket.read(into),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => socket.write(bytes),
            Socket::Tcp(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a connection speaks through.
pub enum Stream {
    /// As it is.
    Plain(Socket),
}

impl Stream {
    /// The socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        let Stream::Plain(socket) = self;
        match socket {
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Tcp(socket) => socket.as_fd(),
        }
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// The system's; `WouldBlock` if there is nothing.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Stream::Plain(socket) = self;
        socket.read(into)
    }

    /// Writes what fits.
    ///
    /// # Errors
    /// The system's; `WouldBlock` if nothing does.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Stream::Plain(socket) = self;
        socket.write(bytes)
    }
}
