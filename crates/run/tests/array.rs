//! Tests of arrays against theory: member commands, bandwidth, latency, and the time of a rebuild.

use drivebay_drive::samples::{SM951_AHCI_512, WINDOWS_8_1_Z97};
use drivebay_drive::{Device, Spec, whole_profile};
use drivebay_run::{
    Array, Control, Layout, Level, Outcome, Pattern, Stop, WHOLE, Workload, run_array, run_jobs,
};

/// 64 KiB.
const CHUNK: u64 = 128;
const MEMBER_SECTORS: u64 = 8_000_000;

/// A small SM951 with `from` replaced by `to` in its profile.
fn device_with(from: &str, to: &str) -> Device {
    let small = SM951_AHCI_512
        .replace("blocks_per_plane = { value = 1024", "blocks_per_plane = { value = 64")
        .replace("free_mb = { value = 33000, range = [10000, 35500]", "free_mb = { value = 1000")
        .replace("value = 1000215216", &format!("value = {MEMBER_SECTORS}"))
        .replace(from, to);
    let mut whole = whole_profile(WINDOWS_8_1_Z97, &small).unwrap_or_else(|e| panic!("{e}"));
    whole.remove("map_journal");
    let spec = Spec::from_toml(&whole.to_string()).unwrap_or_else(|e| panic!("{e}"));
    Device::new(spec, 1).expect("memory")
}

fn device() -> Device {
    device_with("", "")
}

fn array_of(level: Level, devices: Vec<Device>, standing: &[Option<u64>]) -> Array {
    let layout = Layout { level, members: devices.len(), chunk: CHUNK };
    Array::new(layout, devices, standing.to_vec(), None).unwrap_or_else(|e| panic!("{e}"))
}

fn array(level: Level, members: usize) -> Array {
    array_of(level, (0..members).map(|_| device()).collect(), &vec![Some(WHOLE); members])
}

fn load(pattern: Pattern, read_percent: f64, block_bytes: u64, queue_depth: u32) -> Workload {
    let (span_bytes, stop) = (1 << 30, Stop::after_s(1.0));
    Workload {
        pattern,
        read_percent,
        block_bytes,
        queue_depth,
        span_bytes,
        stop,
        ..Workload::default()
    }
}

fn go(array: &mut Array, load: &Workload) -> Outcome {
    let mut outcomes = run_array(array, &[(load.clone(), 7)], &Control::default())
        .unwrap_or_else(|e| panic!("{e}"));
    outcomes.remove(0)
}

fn alone(device: &mut Device, load: &Workload) -> Outcome {
    let ran = run_jobs(device, &[(load.clone(), 7)], &Control::default(), 0);
    ran.unwrap_or_else(|e| panic!("{e}")).0.remove(0)
}

/// Writes the data that later workloads read, in whole stripes.
fn filled(mut array: Array) -> Array {
    let block = CHUNK * 512 * 60; // whole stripes of up to six columns
    let fill =
        Workload { stop: Stop::after_bytes(1 << 30), ..load(Pattern::Sequential, 0.0, block, 32) };
    go(&mut array, &fill);
    array
}

fn ios(outcome: &Outcome) -> u64 {
    outcome.queues.iter().map(|queue| queue.ios).sum()
}

fn latency_us(outcome: &Outcome) -> f64 {
    let sum: u64 = outcome.queues.iter().map(|queue| queue.latency_ns_sum).sum();
    sum as f64 / 1e3 / ios(outcome) as f64
}

/// Reads and writes of all members per request of a workload.
fn commands(array: Array, load: &Workload, requests: u64) -> (f64, f64) {
    let load = Workload { stop: Stop::after_bytes(requests * load.block_bytes), ..load.clone() };
    let mut array = array;
    go(&mut array, &load);
    let (devices, _) = array.into_parts();
    let each = devices.iter().map(Device::health);
    let (reads, writes) =
        each.fold((0, 0), |sum, health| (sum.0 + health.host_reads, sum.1 + health.host_writes));
    (reads as f64 / requests as f64, writes as f64 / requests as f64)
}

#[test]
fn a_small_write_reads_the_blocks_for_its_parity() {
    let small = load(Pattern::Random, 0.0, 4096, 1);
    let small_write = |level, members| commands(array(level, members), &small, 500);
    assert_eq!(small_write(Level::Raid5, 5), (2.0, 2.0), "old data, old parity: read-modify-write");
    assert_eq!(small_write(Level::Raid5, 3), (1.0, 2.0), "the other data: reconstruct-write");
    assert_eq!(small_write(Level::Raid5, 4), (2.0, 2.0), "as many either way");
    assert_eq!(small_write(Level::Raid6, 8), (3.0, 3.0));
    assert_eq!(small_write(Level::Raid6, 4), (1.0, 3.0));
    assert_eq!(small_write(Level::Raid1, 3), (0.0, 3.0));
    assert_eq!(small_write(Level::Raid10, 6), (0.0, 2.0));
    assert_eq!(small_write(Level::Raid0, 4), (0.0, 1.0));
}

#[test]
fn a_whole_stripe_reads_nothing() {
    let stripes = |data: u64| load(Pattern::Sequential, 0.0, data * CHUNK * 512, 4);
    assert_eq!(commands(array(Level::Raid5, 5), &stripes(4), 200), (0.0, 5.0));
    assert_eq!(commands(array(Level::Raid6, 6), &stripes(4), 200), (0.0, 6.0));
}

#[test]
fn reads_of_a_failed_member_use_all_others() {
    let mut standing = vec![Some(WHOLE); 5];
    standing[2] = None;
    let devices = |members| (0..members).map(|_| device()).collect::<Vec<_>>();
    let reads = load(Pattern::Random, 100.0, 4096, 1);
    let (reads, _) = commands(array_of(Level::Raid5, devices(5), &standing), &reads, 5000);
    // A read of the lost fifth of the chunks needs the four others; all other reads are direct.
    assert!((reads - (0.8 + 0.2 * 4.0)).abs() < 0.03, "{reads}");
    let writes = load(Pattern::Random, 0.0, 4096, 1);
    let (reads, writes) = commands(array_of(Level::Raid5, devices(5), &standing), &writes, 5000);
    // Data lost (1/5): read the three others, write parity; parity lost (1/5): write data alone;
    // otherwise old data and parity.
    assert!((reads - (0.2 * 3.0 + 0.6 * 2.0)).abs() < 0.05, "{reads}");
    assert!((writes - (0.2 + 0.2 + 0.6 * 2.0)).abs() < 0.03, "{writes}");
}

#[test]
fn stripes_have_the_bandwidth_of_all_members() {
    let members = 4;
    for (pattern, block, depth) in
        [(Pattern::Sequential, CHUNK * 512, 8), (Pattern::Random, 4096, 32)]
    {
        for read_percent in [100.0, 0.0] {
            let single_load = load(pattern, read_percent, block, depth);
            // Small random requests never spread evenly over the members' queues, so a higher queue
            // depth is needed.
            let more = if pattern == Pattern::Random { 4 } else { 1 };
            let all = Workload { queue_depth: depth * members * more, ..single_load.clone() };
            let mut single = device();
            alone(
                &mut single,
                &Workload {
                    stop: Stop::after_bytes(1 << 30),
                    ..load(Pattern::Sequential, 0.0, 1 << 17, 32)
                },
            );
            let gain = ios(&go(&mut filled(array(Level::Raid0, members as usize)), &all)) as f64
                / ios(&alone(&mut single, &single_load)) as f64;
            assert!(
                (gain / f64::from(members) - 1.0).abs() < 0.05,
                "{pattern:?} {read_percent}: {gain}"
            );
        }
    }
}

#[test]
fn mirrors_read_from_all_and_write_as_the_slower_one() {
    let reads = load(Pattern::Random, 100.0, 4096, 16);
    let mut single = device();
    alone(
        &mut single,
        &Workload {
            stop: Stop::after_bytes(1 << 30),
            ..load(Pattern::Sequential, 0.0, 1 << 17, 32)
        },
    );
    let rate = ios(&alone(&mut single, &reads)) as f64;
    let twice = Workload { queue_depth: 32, ..reads };
    let gain = ios(&go(&mut filled(array(Level::Raid1, 2)), &twice)) as f64 / rate;
    assert!((1.9..=2.05).contains(&gain), "{gain}");

    // At depth 1 all members are idle and the first one reads, exactly like a single drive.
    let read = load(Pattern::Random, 100.0, 4096, 1);
    let (mirrored, plain) = (go(&mut array(Level::Raid1, 2), &read), alone(&mut device(), &read));
    assert_eq!(mirrored.recorder.rows, plain.recorder.rows);

    let (fast, slow) =
        ("mb_per_s = { value = 1550, range = [1500", "mb_per_s = { value = 300, range = [100");
    let slow = || device_with(fast, slow);
    let writes = load(Pattern::Random, 0.0, 65536, 1);
    let slower = alone(&mut slow(), &writes);
    let mut pair = array_of(Level::Raid1, vec![device(), slow()], &[Some(WHOLE); 2]);
    let both = go(&mut pair, &writes);
    assert!(latency_us(&slower) > 2.0 * latency_us(&alone(&mut device(), &writes)));
    assert!((latency_us(&both) / latency_us(&slower) - 1.0).abs() < 1e-3);
}

#[test]
fn a_rebuild_takes_its_members_bytes_at_its_rate() {
    let bytes = MEMBER_SECTORS / CHUNK * CHUNK * 512;
    for (level, members) in
        [(Level::Raid1, 2), (Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)]
    {
        let (devices, mut standing) = filled(array(level, members)).into_parts();
        standing[1] = Some(0);
        let layout = Layout { level, members, chunk: CHUNK };
        let mut capped = Array::new(layout, devices, standing, Some(200e6)).expect("it survives");
        let took = capped.rebuild(&Control::default()).expect("it ends").as_secs_f64();
        assert!((took / (bytes as f64 / 200e6) - 1.0).abs() < 0.001, "{level:?}: {took}");
        assert!(capped.into_parts().1.iter().all(|good| *good == Some(WHOLE)));
    }
}

#[test]
fn a_rebuild_without_a_rate_is_as_fast_as_its_members() {
    let bytes = MEMBER_SECTORS / CHUNK * CHUNK * 512;
    let (devices, mut standing) = array(Level::Raid5, 3).into_parts();
    standing[0] = Some(0);
    let mut fast = array_of(Level::Raid5, devices, &standing);
    let took = fast.rebuild(&Control::default()).expect("it ends").as_secs_f64();
    let stop = Stop::after_bytes(bytes);
    let copy =
        |read| Workload { stop, span_bytes: bytes, ..load(Pattern::Sequential, read, 65536, 16) };
    let time = |outcome: Outcome| outcome.end.since(outcome.start).as_secs_f64();
    let write = time(alone(&mut device(), &copy(0.0)));
    let read = time(alone(&mut device(), &copy(100.0)));
    assert!(took >= write.max(read) * 0.98, "{took} of {write} and {read}");
    assert!(took <= write + read, "{took} of {write} and {read}");
}

#[test]
fn a_rebuild_continues_during_a_load_and_in_the_next_one() {
    let (devices, mut standing) = filled(array(Level::Raid5, 4)).into_parts();
    standing[3] = Some(0);
    let mut healing = array_of(Level::Raid5, devices, &standing);
    let reads = load(Pattern::Random, 100.0, 4096, 4);
    let during = latency_us(&go(&mut healing, &reads));
    let (devices, standing) = healing.into_parts();
    let good = standing[3].expect("it works");
    assert!(good > 0 && good < WHOLE, "{good}");
    let mut healing = array_of(Level::Raid5, devices, &standing);
    healing.rebuild(&Control::default()).expect("it ends");
    let after = latency_us(&go(&mut healing, &reads));
    assert!(during > 1.1 * after, "{during} during, {after} after");
}

#[test]
fn jobs_share_an_array_and_results_repeat() {
    let jobs = [
        (load(Pattern::Random, 70.0, 4096, 8), 1),
        (load(Pattern::Sequential, 0.0, 1 << 18, 2), 2),
    ];
    let together = || {
        let mut array = array(Level::Raid5, 4);
        run_array(&mut array, &jobs, &Control::default()).expect("they fit")
    };
    let (first, second) = (together(), together());
    for (a, b) in first.iter().zip(&second) {
        assert!(ios(a) > 100);
        assert_eq!(a.recorder.rows, b.recorder.rows);
        for row in &a.recorder.rows {
            assert_eq!(row.stage_ns.iter().sum::<u64>(), row.io.latency_ns_sum, "stages add up");
        }
    }
}

#[test]
fn impossible_arrays_are_refused() {
    let refused = |level, members: usize, standing: Vec<Option<u64>>| {
        let layout = Layout { level, members, chunk: CHUNK };
        let devices = (0..members).map(|_| device()).collect();
        Array::new(layout, devices, standing, None).err().map(|error| error.field)
    };
    assert_eq!(refused(Level::Raid5, 2, vec![Some(WHOLE); 2]).as_deref(), Some("members"));
    assert_eq!(refused(Level::Raid10, 5, vec![Some(WHOLE); 5]).as_deref(), Some("members"));
    let lost = [Some(WHOLE), None, None];
    assert_eq!(refused(Level::Raid5, 3, lost.to_vec()).as_deref(), Some("failed members"));
    assert_eq!(
        refused(Level::Raid0, 2, vec![Some(WHOLE), None]).as_deref(),
        Some("failed members")
    );
    assert_eq!(refused(Level::Raid1, 3, lost.to_vec()), None, "one mirror is left");
    let trims = Workload { trim_percent: 10.0, ..load(Pattern::Random, 0.0, 4096, 1) };
    let ran = run_array(&mut array(Level::Raid5, 3), &[(trims, 1)], &Control::default());
    assert!(ran.is_err_and(|error| error.to_string().starts_with("trim_percent")));
}
