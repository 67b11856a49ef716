//! Unit tests of `nand/dies.rs` with access to its private parts.

use super::*;
use crate::profile::{Spec, SuspensionSpec};
use crate::samples::{SM951_AHCI_512, WINDOWS_8_1_Z97};

/// The SM951's flash without variation between places, and the pages of a die's two planes in a
/// row.
fn flash(independent: bool) -> (Nand, [u32; 2]) {
    let spec =
        Spec::from_family(WINDOWS_8_1_Z97, SM951_AHCI_512).expect("the catalog's profile is good");
    let timing = NandTiming {
        spread: None,
        read_by_type: None,
        independent_planes: independent,
        ..spec.nand
    };
    (Nand::new(&timing, &spec.geometry, 8, &Rng::new(1)), [0, spec.geometry.dies()])
}

/// Ends of reads of these pages that are requested at the same time, tR, and the time of a
/// transfer.
fn reads(independent: bool, which: [usize; 2]) -> ([Nanos; 2], Nanos, Nanos) {
    let (mut nand, pages) = flash(independent);
    let from = Nanos(1000);
    let done = which.map(|i| nand.read(Nanos::ZERO, from, pages[i], 16_384).done.since(from));
    (done, nand.read_time(), transfer(16_384, nand.channel_fs_per_byte))
}

#[test]
fn reads_of_two_planes_overlap_and_share_the_channel() {
    let (done, read, data) = reads(true, [0, 1]);
    assert!(data < read);
    assert_eq!(done, [read.after(data), read.after(data).after(data)]);
}

#[test]
fn a_read_waits_for_another_of_its_plane_or_of_its_die() {
    for (independent, which) in [(true, [0, 0]), (false, [0, 1])] {
        let (done, read, data) = reads(independent, which);
        assert_eq!(done, [read.after(data), read.after(read).after(data)]);
    }
}

/// Flash with these waits for suspended operations.
fn drawn(mean: Option<u64>, erase: Option<u64>) -> Nand {
    let (mean, erase) = (mean.map(Nanos), erase.map(Nanos));
    suspending(SuspensionSpec { mean, erase, restarts: false }, Nanos(500_000))
}

/// Flash whose programs restart, and wait 1 us before they do.
fn restarting() -> Nand {
    suspending(SuspensionSpec { mean: None, erase: None, restarts: true }, Nanos(1000))
}

fn suspending(waits: SuspensionSpec, longest: Nanos) -> Nand {
    let spec =
        Spec::from_family(WINDOWS_8_1_Z97, SM951_AHCI_512).expect("the catalog's profile is good");
    let timing = NandTiming {
        spread: None,
        read_by_type: None,
        suspension: Some(waits),
        suspend: longest,
        ..spec.nand
    };
    Nand::new(&timing, &spec.geometry, 8, &Rng::new(1))
}

/// Waits of reads that come at random while a write runs. `start` begins the write and returns the
/// range of times for reads.
fn waits(nand: &mut Nand, mut start: impl FnMut(&mut Nand, Nanos) -> [Nanos; 2]) -> Vec<u64> {
    let mut rng = Rng::new(3);
    let mut clock = Nanos::ZERO;
    let wait = |_| {
        let [begin, end] = start(nand, clock);
        let from = begin.after(Nanos(rng.below(end.since(begin).0)));
        clock = end.after(Nanos(10_000_000));
        nand.read(from, from, 0, 4096).begin.since(from).0
    };
    (0..20_000).map(wait).collect()
}

/// Mean of the smaller of an exponential wait and the rest of the program: m - m^2 (1 - e^(-L/m)) /
/// L.
#[test]
fn the_wait_for_a_program_is_drawn_around_its_mean() {
    let mean = 66_000;
    let mut len = 0.0;
    let all = waits(&mut drawn(Some(mean), None), |nand, at| {
        let program = nand.program(at, at, 0);
        len = nand.end_of(program).since(nand.begin_of(program)).0 as f64;
        [nand.begin_of(program), nand.end_of(program)]
    });
    let m = mean as f64;
    let expected = m - m * m * (1.0 - (-len / m).exp()) / len;
    let got = all.iter().sum::<u64>() as f64 / all.len() as f64;
    assert!((got / expected - 1.0).abs() < 0.03, "{got} against {expected}");
    assert!(all.iter().all(|&wait| wait <= 500_000));
    let long = all.iter().filter(|&&wait| wait > 2 * mean).count() as f64 / all.len() as f64;
    let expected = (-2.0f64).exp() * (1.0 - 2.0 * m / len);
    assert!((long / expected - 1.0).abs() < 0.05, "{long} against {expected}");
}

#[test]
fn the_wait_for_an_erase_is_what_is_left_of_a_pulse() {
    let longest = 800_000;
    let mut nand = drawn(Some(66_000), Some(longest));
    let all = waits(&mut nand, |nand, at| {
        nand.erase_superblock(at, 0);
        let end = nand.dies[0].newest(&nand.writes[..8]).until;
        // Reads during the last pulse would wait for the end of the erase.
        [at, Nanos(end.0 - longest)]
    });
    let got = all.iter().sum::<u64>() as f64 / all.len() as f64;
    assert!((got / (longest as f64 / 2.0) - 1.0).abs() < 0.03, "{got}");
    assert!(all.iter().all(|&wait| wait < longest));
}

/// Additional time, beyond the reads, of programs of both pages of a word line in a row, which
/// reads at these times after the second's beginning suspend.
fn lost(inside: bool, reads: &[u64]) -> u64 {
    let mut nand = restarting();
    let row = nand.geometry.row_pages() as u32;
    let [_, second] = [0, row].map(|page| nand.program(Nanos::ZERO, Nanos::ZERO, page));
    let (begin, end) = (nand.begin_of(second), nand.end_of(second));
    let mut read = 0;
    for &at in reads {
        let from = begin.after(Nanos(at));
        let times = if inside {
            nand.read_inside(from, from, 0, 4096)
        } else {
            nand.read(from, from, 0, 4096)
        };
        read += times.sensed.since(times.begin).0;
    }
    nand.end_of(second).since(end).0 - read
}

#[test]
fn a_program_restarts_with_its_word_line_for_the_hosts_reads() {
    let nand = restarting();
    let [first, second] =
        [0, nand.geometry.row_pages() as u32].map(|page| nand.timing.program(page).0);
    assert!(first > 0 && second > 400_000);
    // Suspended after 100 us of the second page.
    assert_eq!(lost(false, &[99_000]), first + 100_000);
    assert_eq!(lost(true, &[99_000]), 0, "reads of the firmware's own");
    // The second read comes after the first; the third while the program runs again, for 10 us.
    let read = nand.timing.read(0).0;
    let third = 100_000 + 2 * read + 9_000;
    assert_eq!(lost(false, &[99_000, 101_000, third]), first + 100_000 + 10_000);
}

#[test]
fn a_program_that_restarted_often_is_finished() {
    let mut nand = restarting();
    let program = nand.program(Nanos::ZERO, Nanos::ZERO, 0);
    let mut at = nand.begin_of(program).after(Nanos(20_000));
    for _ in 0..10 {
        let read = nand.read(at, at, 0, 4096);
        assert_eq!(read.begin.since(at), Nanos(1000));
        at = read.sensed.after(Nanos(20_000));
    }
    let end = nand.end_of(program);
    assert_eq!(nand.read(at, at, 0, 4096).begin, end);
    assert_eq!(nand.end_of(program), end);
}

#[test]
fn a_word_line_that_is_not_suspended_is_programmed_with_its_last_page() {
    let spec = Spec::from_family(WINDOWS_8_1_Z97, SM951_AHCI_512).expect("the profile is good");
    let timing = NandTiming { spread: None, one_pass: true, suspend: Nanos(1 << 50), ..spec.nand };
    let mut nand = Nand::new(&timing, &spec.geometry, 8, &Rng::new(1));
    let row = nand.geometry.row_pages() as u32;
    let [first, second] = [0, row].map(|page| nand.program(Nanos::ZERO, Nanos::ZERO, page));
    assert_eq!(nand.end_of(first), nand.begin_of(first));
    let (begin, end) = (nand.begin_of(second), nand.end_of(second));
    assert_eq!(end.since(begin), timing.program[0].after(timing.program[1]));
    // The next word line's data moves meanwhile; a read waits for the end, and passes it.
    let next = [2, 3].map(|line| nand.program(Nanos::ZERO, Nanos::ZERO, line * row))[1];
    assert_eq!(nand.begin_of(next), end);
    let read = nand.read(begin, begin.after(Nanos(1000)), 0, 4096);
    assert_eq!((read.begin, nand.begin_of(next)), (end, read.sensed));
}

/// Reads of two planes begin together when the program is suspended. It waits for the longer of
/// them, and for later reads of one of them.
#[test]
fn a_program_waits_while_any_plane_reads() {
    let (mut nand, pages) = flash(true);
    let read = nand.read_time();
    let program = nand.program(Nanos::ZERO, Nanos::ZERO, pages[0]);
    let (begin, end) = (nand.begin_of(program), nand.end_of(program));
    let suspended = begin.after(Nanos(1000)).after(nand.suspend);
    assert!(suspended < end);
    let mut ask = |from: u64, plane: usize| {
        let times = nand.read(Nanos::ZERO, begin.after(Nanos(from)), pages[plane], 4096);
        (times.begin, nand.end_of(program).since(end))
    };
    assert_eq!(ask(1000, 0), (suspended, read));
    assert_eq!(ask(2000, 1), (suspended, read));
    let third = suspended.since(begin).0 + read.0 / 2;
    assert_eq!(ask(third, 1), (suspended.after(read), read.after(read)));
    // The first plane has been free for half of the third read.
    let fourth = third + read.0;
    assert_eq!(
        ask(fourth, 0),
        (begin.after(Nanos(fourth)), read.after(read).after(Nanos(read.0 / 2)))
    );
}
