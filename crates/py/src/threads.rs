//! Work without the interpreter lock, stopped by Ctrl-C within 100 ms.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

/// Interval between checks for Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// Returns false once Ctrl-C was pressed.
pub(crate) fn keep_running() -> bool {
    Python::attach(|py| py.check_signals().is_ok())
}

/// Runs `work` in a thread of its own while this thread checks for Ctrl-C, which calls `stop`;
/// returns the work's result, and the exception of the signal.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    stop: impl Fn() + Send + Sync,
    work: impl FnOnce() -> T + Send,
) -> (T, Option<PyErr>) {
    py.detach(|| {
        thread::scope(|scope| {
            let (running, ended) = channel::<()>();
            let worker = scope.spawn(move || {
                let _running = running;
                work()
            });
            let mut signal = None;
            while ended.recv_timeout(SIGNALS_EVERY) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = Python::attach(|py| py.check_signals()) {
                    stop();
                    signal.get_or_insert(error);
                }
            }
            match worker.join() {
                Ok(result) => (result, signal),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    })
}
