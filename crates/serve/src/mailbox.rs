//! Letters to the engine's thread from others: stop, do this, this is for that session.

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::{EventfdFlags, eventfd};

use crate::engine::Engine;
use crate::session::SessionId;

/// A letter.
pub enum Message {
    /// Answer what is under way, then end.
    Stop,
    /// Do this between two turns.
    Call(Box<dyn FnOnce(&mut Engine) + Send>),
    /// For [`crate::Session::mail`] of this session.
    Mail(SessionId, Box<dyn Any + Send>),
}

/// Wakes the loop.
#[derive(Clone)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(crate) fn new() -> io::Result<Waker> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker(Arc::new(fd)))
    }

    pub(crate) fn wake(&self) {
        // Full means that it is awake already.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0; 8]);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends letters, from any thread.
#[derive(Clone)]
pub struct Handle {
    sender: Sender<Message>,
    waker: Waker,
}

impl Handle {
    /// Sends a letter; one to a loop that has ended is lost.
    pub fn send(&self, message: Message) {
        let _ = self.sender.send(message);
        self.waker.wake();
    }

    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Has the engine's thread do something and waits for what it gives; None if the loop has ended.
    pub fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = channel();
        self.send(Message::Call(Box::new(move |engine| {
            // Whoever asked may have gone.
            let _ = sender.send(work(engine));
        })));
        receiver.recv().ok()
    }

    /// Asks the loop to end.
    pub fn stop(&self) {
        self.send(Message::Stop);
    }
}

/// Where letters arrive.
pub(crate) struct Mailbox {
    receiver: Receiver<Message>,
    handle: Handle,
}

impl Mailbox {
    pub(crate) fn new(waker: Waker) -> Mailbox {
        let (sender, receiver) = channel();
        Mailbox { receiver, handle: Handle { sender, waker } }
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    pub(crate) fn next(&self) -> Option<Message> {
        self.receiver.try_recv().ok()
    }
}
