//! Unit tests of `pacing/starvation.rs`, with access to its private items.

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
