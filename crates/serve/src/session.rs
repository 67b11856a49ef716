//! What a transport must do to be served by the event loop.
//!
//! Life of a session: its listener makes it; in each turn in which its socket has bytes it reads them
//! and submits requests ([`Session::readable`]); when their time has come it gets each completion
//! ([`Session::complete`]); at the end of every turn in which one of these was called it writes what it
//! has to say, in one go, and tells what it waits for ([`Session::flush`]).
//!
//! Memory: a session bounds what it keeps: requests under way, bytes of answers. When it has enough it
//! returns `read: false` until it has room again. Its `readable` must not read without end: one buffer
//! full per turn, as others wait.

use std::any::Any;
use std::io;
use std::os::fd::BorrowedFd;

use drivebay_units::Nanos;

use crate::engine::{Done, Engine};

/// The name of a session; never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl SessionId {
    /// For tests that use an engine without a loop.
    #[must_use]
    pub const fn numbered(index: u32) -> SessionId {
        SessionId { index, generation: 0 }
    }
}

/// What a session waits for after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Goes on.
    Wait {
        /// Wants to hear of bytes to read.
        read: bool,
        /// Wants to hear when the socket takes bytes again.
        write: bool,
    },
    /// Is at its end; the loop drops it, which closes its socket.
    Close,
}

/// A connection, or a device, of a transport. All calls come from the engine's thread.
pub trait Session: Send {
    /// The socket to be watched; a session without one is driven by letters ([`Session::mail`]).
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// There are bytes to read, or the other side has hung up.
    ///
    /// # Errors
    /// Whatever ends the session; it is dropped then.
    fn readable(&mut self, engine: &mut Engine, me: SessionId) -> io::Result<()>;

    /// A request of this session is done, and its time has come. Read data is taken from the store now.
    fn complete(&mut self, engine: &mut Engine, done: Done);

    /// The turn ends, or the socket takes bytes again: write what there is.
    ///
    /// # Errors
    /// As [`Session::readable`].
    fn flush(&mut self, engine: &mut Engine) -> io::Result<Next>;

    /// A letter from another thread, sent with [`crate::Message::Mail`].
    ///
    /// # Errors
    /// As [`Session::readable`].
    fn mail(
        &mut self,
        _engine: &mut Engine,
        _me: SessionId,
        _letter: Box<dyn Any + Send>,
    ) -> io::Result<()> {
        Ok(())
    }

    /// Called some ten times a second: keep-alive, temperature events. `now` is the drive's time.
    ///
    /// # Errors
    /// As [`Session::readable`].
    fn tick(&mut self, _engine: &mut Engine, _now: Nanos) -> io::Result<()> {
        Ok(())
    }

    /// The drive has lost its power. Requests under way are gone: no completion will come.
    ///
    /// Returns whether the session stays; a connection over a network drops.
    fn power_cut(&mut self) -> bool {
        false
    }
}

/// A socket on which connections arrive.
pub trait Listen: Send {
    /// The socket to be watched.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Takes the next connection; None if there is none at present.
    ///
    /// # Errors
    /// If one cannot be taken now (too many open files); the loop goes on.
    fn accept(&mut self) -> io::Result<Option<Box<dyn Session>>>;
}
