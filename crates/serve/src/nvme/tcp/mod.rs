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
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};

use super::subsystem::Shared;
use crate::session::{Listen, Session};
pub use protocol::Protocol;

/// A socket that listens for hosts.
pub struct Target {
    listener: TcpListener,
    subsystem: Shared,
    shown: String,
}

/// Why it cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// Not an address.
    #[error("--nvme-tcp {0}: not HOST:PORT\nhint: --nvme-tcp 127.0.0.1:4420")]
    NotAnAddress(String),
    /// The machine.
    #[error(
        "--nvme-tcp {address}: {why}\nhint: another port, such as 127.0.0.1:4421; ss -ltn shows those in use"
    )]
    Machine {
        /// What was asked for.
        address: String,
        /// The system's words.
        why: io::Error,
    },
}

impl TargetError {
    /// Whether the machine lacks something.
    #[must_use]
    pub fn is_machine(&self) -> bool {
        matches!(self, TargetError::Machine { .. })
    }
}

impl Target {
    /// Listens at `HOST:PORT`.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn bind(address: &str, subsystem: Shared) -> Result<Target, TargetError> {
        let not_one = || TargetError::NotAnAddress(address.to_owned());
        let (_, port) = address.rsplit_once(':').ok_or_else(not_one)?;
        port.parse::<u16>().map_err(|_| not_one())?;
        let machine = |why| TargetError::Machine { address: address.to_owned(), why };
        let listener = TcpListener::bind(address).map_err(machine)?;
        listener.set_nonblocking(true).map_err(machine)?;
        let (nqn, at) = (subsystem.lock().identity().nqn.clone(), listener.local_addr());
        let shown = format!("nvme-tcp:{} {nqn}", at.map_err(machine)?);
        Ok(Target { listener, subsystem, shown })
    }

    /// Where it listens, and for which subsystem; the port is the system's choice if 0 was asked for.
    #[must_use]
    pub fn address(&self) -> String {
        self.shown.clone()
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
