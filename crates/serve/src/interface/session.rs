//! Interface between the event loop and a transport.
//!
//! Life of a session: its listener creates it. In each iteration in which its socket has bytes it
//! reads them and submits requests ([`Session::readable`]). It gets each completion when it is due
//! ([`Session::complete`]). At the end of every iteration in which one of these was called, it
//! writes its answers at once and returns the events that it waits for ([`Session::flush`]).
//!
//! Memory: a session limits its requests in flight and the bytes of its answers. At the limit it
//! returns `read: false` until it has space again. `readable` must not read without end, as other
//! sessions wait.

use std::io;
use std::os::fd::BorrowedFd;

use crate::interface::drive::Drive;
use crate::request::Completion;

/// Next state of a session after an iteration of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Waits for events of its socket.
    Wait {
        /// Waits for bytes to read.
        read: bool,
        /// Waits for space to write.
        write: bool,
    },
    /// Moves to the event loop of this drive, where it is flushed again. It may be the current
    /// loop. The session has no requests in flight.
    Move(usize),
    /// Ends: the loop drops the session, which closes its socket.
    Close,
}

/// Connection, or device of a virtual machine. All calls come from the event loop's thread; an
/// error ends the session.
pub trait Session: Send {
    /// Socket to watch; a session without one is driven by [`Session::notified`].
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Reads available bytes; also called if the other side has hung up.
    fn readable(&mut self, _drive: &mut dyn Drive) -> io::Result<()> {
        Ok(())
    }

    /// Takes the completion of a request of this session. The data of a read must be taken now.
    fn complete(&mut self, drive: &mut dyn Drive, completion: Completion);

    /// Writes the answers; called at the end of an iteration, or when the socket has space again.
    fn flush(&mut self, drive: &mut dyn Drive) -> io::Result<Next>;

    /// Handles a notification from another thread.
    fn notified(&mut self, _drive: &mut dyn Drive) -> io::Result<()> {
        Ok(())
    }

    /// Handles timed tasks (keep-alive, temperature events); called about ten times a second.
    fn tick(&mut self, _drive: &mut dyn Drive) -> io::Result<()> {
        Ok(())
    }

    /// Protocol of a host that has chosen its drive; `None` before, and for sessions that are not
    /// hosts.
    fn protocol(&self) -> Option<&'static str> {
        None
    }

    /// Handles a power cut or a link outage: requests in flight never complete. Returns true if the
    /// session stays; a connection over a network drops.
    fn power_cut(&mut self) -> bool {
        false
    }

    /// True if nothing is left to do before the server stops. Called repeatedly while the server
    /// stops; until it returns true the session is served as before.
    fn is_stopped(&mut self) -> bool {
        true
    }
}

/// Socket that accepts connections.
pub trait Listen: Send {
    /// Socket to watch.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Accepts the next connection; `None` if there is none at present. After an error (too many
    /// open files) the loop tries again later.
    fn accept(&mut self) -> io::Result<Option<Box<dyn Session>>>;
}
