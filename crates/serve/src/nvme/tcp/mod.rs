//! NVMe over TCP: a socket on which hosts reach the drive and the list of what is there.
//!
//! Source: NVMe over Fabrics 1.1 with the TCP transport (TP 8000). One connection is one queue.
//! `session.rs` is the socket, `protocol.rs` the PDUs of a connection, `queue.rs` the commands of a
//! connected queue, `fabrics.rs` connecting and properties.
//! Left out: TLS and authentication; so it listens on loopback unless told otherwise.

mod fabrics;
mod protocol;
mod queue;
mod session;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};

use super::subsystem::Shared;
use crate::session::{Listen, Session};
pub use protocol::Protocol;

/// A socket that listens for hosts.
pub struct Target {
    listener: TcpListener,
    subsystem: Shared,
}

impl Target {
    /// Listens on an address.
    ///
    /// # Errors
    /// The system's: the port is taken, the address is not this machine's.
    pub fn bind(address: SocketAddr, subsystem: Shared) -> io::Result<Target> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Target { listener, subsystem })
    }

    /// Where it listens; the port is the system's choice if 0 was asked for.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Listen for Target {
    fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    fn accept(&mut self) -> io::Result<Option<Box<dyn Session>>> {
        match self.listener.accept() {
            Ok((stream, _)) => {
                let session = session::Connection::new(stream, self.subsystem.clone())?;
                Ok(Some(Box::new(session)))
            }
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(why) => Err(why),
        }
    }
}
