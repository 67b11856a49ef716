//! Time for which the server was runnable but had no processor.
//!
//! A request that waits in its socket during this time is older than the model knows, and no clock
//! of the server shows it. Source: the second figure of /proc/thread-self/schedstat (Linux,
//! Documentation/scheduler/sched-stats.rst), nanoseconds on a run queue; on kernels without it
//! nothing is counted. Leaves out time taken by a hypervisor, and the kernel's own work on the
//! socket.

use std::fs::File;

use drivebay_units::Nanos;

/// Time that the calling thread has waited for a processor.
pub(crate) struct Starvation {
    file: Option<File>,
    last: u64,
}

impl Starvation {
    /// Starts to measure the calling thread.
    pub fn of_this_thread() -> Starvation {
        let mut starvation =
            Starvation { file: File::open("/proc/thread-self/schedstat").ok(), last: 0 };
        starvation.take();
        starvation
    }

    /// Returns the time added since the last call.
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
#[path = "../../tests/unit/pacing_starvation.rs"]
mod tests;
