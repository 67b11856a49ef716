//! Messages from other threads to the event loop's thread, which alone uses the engine.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::engine::Engine;
use crate::interface::session::Session;
use crate::request::SessionId;
use crate::waker::Waker;

/// Message to the event loop.
pub(crate) enum Message {
    /// Complete the commands in flight, then end.
    Stop,
    /// Run this between two iterations of the loop.
    Call(Box<dyn FnOnce(&mut Engine) + Send>),
    /// Call [`Session::notified`] of this session.
    Notify(SessionId),
    /// Adopt a session that has chosen this drive.
    Adopt(Box<dyn Session>),
}

/// Sender of messages to the event loop, for any thread. A message to a loop that has ended is
/// lost.
#[derive(Clone)]
pub struct Handle {
    sender: Sender<Message>,
    waker: Waker,
}

impl Handle {
    pub(crate) fn send(&self, message: Message) {
        let _ = self.sender.send(message);
        self.waker.wake();
    }

    /// Returns a waker, which wakes the loop without a message; the store's file needs it.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Runs `work` on the event loop's thread and waits for its result; `None` if the loop has
    /// ended.
    pub fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = channel();
        self.send(Message::Call(Box::new(move |engine| {
            // The caller's thread may have ended.
            let _ = sender.send(work(engine));
        })));
        receiver.recv().ok()
    }

    /// Asks the loop to end.
    pub fn stop(&self) {
        self.send(Message::Stop);
    }
}

/// Receiving end; created before the loop, as the store's file and listeners need its handle.
pub struct Channel {
    receiver: Receiver<Message>,
    handle: Handle,
}

impl Channel {
    /// Creates a channel.
    ///
    /// # Errors
    /// The process may open no more files.
    pub fn new() -> io::Result<Channel> {
        let (sender, receiver) = channel();
        Ok(Channel { receiver, handle: Handle { sender, waker: Waker::new()? } })
    }

    /// Returns a sender of messages to the loop.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.handle.waker
    }

    pub(crate) fn next(&self) -> Option<Message> {
        self.receiver.try_recv().ok()
    }
}
