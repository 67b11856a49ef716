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
mod tests {
    use super::*;

    #[test]
    fn the_second_figure_is_the_time_on_the_run_queue() {
        assert_eq!(second_number(b"123 456 789\n"), Some(456));
        for nonsense in [&b""[..], b"1", b"1 x 3", b"\xff \xff", b"1 -2 3"] {
            assert_eq!(second_number(nonsense), None);
        }
    }

    #[test]
    fn a_thread_that_shares_its_processor_has_waited() {
        let own = rustix::thread::sched_getaffinity(None).expect("a set");
        let first = (0..1024).find(|&cpu| own.is_set(cpu)).expect("a processor");
        let mut one = rustix::thread::CpuSet::new();
        one.set(first);
        let busy = move || {
            rustix::thread::sched_setaffinity(None, &one).expect("allowed");
            let mut waited = Starvation::of_this_thread();
            waited.file.as_ref()?;
            let end = std::time::Instant::now() + std::time::Duration::from_millis(400);
            while std::time::Instant::now() < end {
                std::hint::spin_loop();
            }
            Some((waited.take(), waited.take()))
        };
        let threads: Vec<_> = (0..2).map(|_| std::thread::spawn(busy)).collect();
        for thread in threads {
            if let Some((found, after)) = thread.join().expect("no panic") {
                assert!(found > Nanos::millis(20) && after < found, "{found:?} {after:?}");
            }
        }
    }
}
