//! How long the server could have run and was not let: its thread was runnable and had no
//! processor.
//!
//! A request that waits in its socket meanwhile is older than the model knows, and no clock of the
//! server's sees it. Source: the second figure of /proc/thread-self/schedstat (Linux,
//! Documentation/scheduler/ sched-stats.rst), nanoseconds on a run queue; where the kernel does not
//! have it, nothing is known and nothing is counted. Leaves out what a hypervisor takes, and the
//! kernel's own work on the socket.

use std::fs::File;

use drivebay_units::Nanos;

/// The time that the calling thread has waited for a processor.
pub(crate) struct Starvation {
    file: Option<File>,
    last: u64,
}

impl Starvation {
    /// Of this thread, from now on.
    pub fn of_this_thread() -> Starvation {
        let mut found =
            Starvation { file: File::open("/proc/thread-self/schedstat").ok(), last: 0 };
        found.take();
        found
    }

    /// What has come since this was asked before.
    pub fn take(&mut self) -> Nanos {
        let total = self.file.as_ref().and_then(waited).unwrap_or(self.last);
        Nanos(total - std::mem::replace(&mut self.last, total).min(total))
    }
}

fn waited(file: &File) -> Option<u64> {
    let mut buffer = [0; 64];
    let length = rustix::io::pread(file, &mut buffer, 0).ok()?;
    second_number(&buffer[..length])
}

fn second_number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
#[path = "../tests/unit/starvation.rs"]
mod tests;
