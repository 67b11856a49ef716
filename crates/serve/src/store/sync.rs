//! Thread that calls fdatasync for the store's file, so that the event loop never waits for the
//! disk.
//!
//! One fdatasync serves all sync requests that were made before it began.

use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::lock::lock;
use crate::waker::Waker;

/// Number of a sync request; numbers grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SyncId(u64);

#[derive(Default)]
struct State {
    requested: SyncId,
    completed: SyncId,
    failed: bool,
    is_over: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// Calls fdatasync on request.
pub(super) struct Syncer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    pub fn new(file: File, waker: Waker) -> io::Result<Syncer> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread =
            Builder::new().name("fdatasync".into()).spawn(move || theirs.work(&file, &waker))?;
        Ok(Syncer { shared, thread: Some(thread) })
    }

    /// Requests that everything written so far is synced to the disk.
    pub fn request(&self) -> SyncId {
        let mut state = lock(&self.shared.state);
        state.requested.0 += 1;
        self.shared.changed.notify_one();
        state.requested
    }

    /// Result of a request, if it has completed. After a sync has failed it is unknown which data
    /// the kernel has dropped, so all later requests fail.
    pub fn result(&self, id: SyncId) -> Option<Result<(), ()>> {
        let state = lock(&self.shared.state);
        (state.completed >= id).then_some(if state.failed { Err(()) } else { Ok(()) })
    }
}

impl Shared {
    fn work(&self, file: &File, waker: &Waker) {
        loop {
            let mut state = lock(&self.state);
            while state.requested == state.completed && !state.is_over {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.requested == state.completed {
                return;
            }
            let id = state.requested;
            drop(state);
            let failed = rustix::fs::fdatasync(file).is_err();
            let mut state = lock(&self.state);
            state.completed = id;
            state.failed |= failed;
            drop(state);
            waker.wake();
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        lock(&self.shared.state).is_over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
