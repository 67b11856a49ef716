//! The thread that brings a file's data to its disk, so that the engine never waits for it.
//!
//! Tickets are numbers that grow. One fdatasync serves all tickets that were drawn before it began.

use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::mailbox::Waker;

#[derive(Default)]
struct State {
    drawn: u64,
    done: u64,
    failed: bool,
    over: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// Calls fdatasync when asked.
pub struct Syncer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    pub(crate) fn new(file: File, waker: Waker) -> io::Result<Syncer> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread =
            Builder::new().name("fdatasync".into()).spawn(move || theirs.work(&file, &waker))?;
        Ok(Syncer { shared, thread: Some(thread) })
    }

    /// Draws a ticket: everything written so far shall be on disk.
    pub fn draw(&self) -> u64 {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.drawn += 1;
        self.shared.changed.notify_one();
        state.drawn
    }

    /// Whether a ticket has been served, and whether it was in vain. Once a sync has failed, what the
    /// kernel has dropped is not known, so nothing succeeds after.
    pub fn look(&self, ticket: u64) -> Option<Result<(), ()>> {
        let state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.done >= ticket).then_some(if state.failed { Err(()) } else { Ok(()) })
    }
}

impl Shared {
    fn work(&self, file: &File, waker: &Waker) {
        loop {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            while state.drawn == state.done && !state.over {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.drawn == state.done {
                return;
            }
            let ticket = state.drawn;
            drop(state);
            let failed = rustix::fs::fdatasync(file).is_err();
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.done = ticket;
            state.failed |= failed;
            drop(state);
            waker.wake();
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
