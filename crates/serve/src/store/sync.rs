//! Thread that calls fdatasync for the store's file, so that the event loop never waits for the
//! disk.
//!
//! One fdatasync serves all sync requests that were made before it began.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use crate::waker::Waker;

/// Number of a sync request; numbers grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SyncId(u64);

#[derive(Default)]
struct Outcome {
    /// Last completed request.
    completed: AtomicU64,
    failed: AtomicBool,
}

/// Calls fdatasync on request.
pub(super) struct Syncer {
    requested: SyncId,
    outcome: Arc<Outcome>,
    /// The thread, and its requests; it ends when they end.
    thread: Option<(Sender<SyncId>, JoinHandle<()>)>,
}

impl Syncer {
    pub fn new(file: File, waker: Waker) -> io::Result<Syncer> {
        let (sender, requests) = channel();
        let outcome = Arc::new(Outcome::default());
        let theirs = Arc::clone(&outcome);
        let work = move || theirs.work(&requests, &file, &waker);
        let thread = Builder::new().name("fdatasync".into()).spawn(work)?;
        Ok(Syncer { requested: SyncId::default(), outcome, thread: Some((sender, thread)) })
    }

    /// Requests that everything written so far is synced to the disk.
    pub fn request(&mut self) -> SyncId {
        self.requested.0 += 1;
        if let Some((requests, _)) = &self.thread {
            let _ = requests.send(self.requested);
        }
        self.requested
    }

    /// Result of a request, if it has completed. After a sync has failed it is unknown which data
    /// the kernel has dropped, so all later requests fail.
    pub fn result(&self, id: SyncId) -> Option<Result<(), ()>> {
        let is_completed = self.outcome.completed.load(Ordering::Acquire) >= id.0;
        let failed = self.outcome.failed.load(Ordering::Relaxed);
        is_completed.then_some(if failed { Err(()) } else { Ok(()) })
    }
}

impl Outcome {
    fn work(&self, requests: &Receiver<SyncId>, file: &File, waker: &Waker) {
        while let Ok(first) = requests.recv() {
            let id = requests.try_iter().last().unwrap_or(first);
            self.failed.fetch_or(rustix::fs::fdatasync(file).is_err(), Ordering::Relaxed);
            self.completed.store(id.0, Ordering::Release);
            waker.wake();
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        if let Some((requests, thread)) = self.thread.take() {
            drop(requests);
            let _ = thread.join();
        }
    }
}
