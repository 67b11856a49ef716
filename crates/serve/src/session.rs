//! What a transport must do to be served by the event loop.
//!
//! Life of a session: its listener makes it; in each iteration in which its socket has bytes it
//! reads them and submits requests ([`Session::readable`]); when they are due it gets each
//! completion ([`Session::complete`]); at the end of every iteration in which one of these was
//! called it writes its answers at once and tells what it waits for ([`Session::flush`]).
//!
//! Memory: a session bounds what it keeps: requests in flight, bytes of answers. At the bound it
//! returns `read: false` until it has room again. Its `readable` must not read without end, as
//! others wait.

use std::io;
use std::os::fd::BorrowedFd;

use crate::drive::Drive;
use crate::request::Completion;

/// What a session waits for after an iteration of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Events of its socket.
    Wait {
        /// Bytes to read.
        read: bool,
        /// Room to write.
        write: bool,
    },
    /// The event loop of the drive of this number, which may be the one that it is in: there it is
    /// flushed again. It has no requests in flight.
    Move(usize),
    /// Nothing: the loop drops it, which closes its socket.
    Close,
}

/// A connection, or a device of a virtual machine. All calls come from the event loop's thread; an
/// error ends the session.
pub trait Session: Send {
    /// The socket to be watched; a session without one is driven by [`Session::notified`].
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// There are bytes to read, or the other side has hung up.
    fn readable(&mut self, _drive: &mut dyn Drive) -> io::Result<()> {
        Ok(())
    }

    /// A request of this session completes. The data of a read is to be taken now.
    fn complete(&mut self, drive: &mut dyn Drive, completion: Completion);

    /// The iteration ends, or the socket has room again: write the answers.
    fn flush(&mut self, drive: &mut dyn Drive) -> io::Result<Next>;

    /// Another thread has called for this session.
    fn notified(&mut self, _drive: &mut dyn Drive) -> io::Result<()> {
        Ok(())
    }

    /// Called some ten times a second: keep-alive, temperature events.
    fn tick(&mut self, _drive: &mut dyn Drive) -> io::Result<()> {
        Ok(())
    }

    /// The protocol of a host that has chosen its drive; none before, and of what is no host.
    fn protocol(&self) -> Option<&'static str> {
        None
    }

    /// The power was cut, or the link is down: requests in flight never complete. Returns whether
    /// the session stays; a connection over a network drops.
    fn power_cut(&mut self) -> bool {
        false
    }

    /// Asked when the server is to stop, until it is true: whether nothing is to be done any more.
    /// Until then the session is served as before.
    fn is_stopped(&mut self) -> bool {
        true
    }
}

/// A socket on which connections arrive.
pub trait Listen: Send {
    /// The socket to be watched.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Takes the next connection; None if there is none at present. After an error (too many open
    /// files) the loop tries again later.
    fn accept(&mut self) -> io::Result<Option<Box<dyn Session>>>;
}
