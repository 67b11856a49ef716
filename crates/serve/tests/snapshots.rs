//! A restored drive equals the drive at the snapshot, and continues in the same way.

use std::thread;
use std::time::Duration;

use crate::support::{drain, request, spec, submit};
use drivebay_drive::Device;
use drivebay_serve::{
    Channel, Completion, Control as _, ControlError, Engine, HostDurability, MemoryLimit, Op, Pace,
    PowerCutLoss, SnapshotError, Status, Store,
};
use drivebay_units::{Rng, SECTOR_BYTES};

const SECTORS: u64 = 8192;
const SECTOR: usize = SECTOR_BYTES as usize;

fn drive(store: Store) -> Engine {
    let device = Device::new(spec(store.sectors() as i64, false), 1).expect("memory");
    let mut engine = Engine::new(device, store, Pace::None, 1);
    engine.allow_power_cuts(None, PowerCutLoss::Random);
    engine
}

fn in_memory() -> Engine {
    drive(Store::memory(SECTORS, &MemoryLimit::new(1 << 30, 1 << 30, 1 << 30)))
}

/// Memory for this number of pages and the model of a snapshot, with the page tables of both, a
/// group of 4 KiB each.
fn limit_of(pages: u64) -> MemoryLimit {
    let mut probe = in_memory();
    let before = probe.report().memory_bytes;
    snapshot(&mut probe, "probe");
    MemoryLimit::new((pages + 2) * 4096 + probe.report().memory_bytes - before, 0, 0)
}

fn snapshot(engine: &mut Engine, name: &str) {
    while engine.snapshot(name).expect("a snapshot").is_none() {
        thread::sleep(Duration::from_millis(1));
    }
}

fn data(engine: &Engine) -> Vec<u8> {
    let mut bytes = vec![0; (engine.store().sectors() * SECTOR_BYTES) as usize];
    engine.store().read(0, &mut bytes).expect("data");
    bytes
}

fn model(engine: &mut Engine) -> Vec<u8> {
    let mut bytes = Vec::new();
    engine.device().save(&mut bytes).expect("memory");
    bytes
}

/// Random writes and other changes of data; returns the drive's answers.
fn work(engine: &mut Engine, seed: u64, commands: u64) -> Vec<(Op, u64, Status)> {
    let mut rng = Rng::new(seed).fork("work");
    let sectors_max = engine.store().sectors();
    let mut answers = Vec::new();
    for number in 0..commands {
        let lba = rng.below(sectors_max);
        let sectors = (1 + rng.below(64)).min(sectors_max - lba);
        let fill = (seed + number) as u8;
        let (op, data) = match rng.below(12) {
            0 => (Op::Trim { fua: false }, Vec::new()),
            1 => (Op::WriteZeroes { fua: false, allocated: true }, Vec::new()),
            2 => (Op::Flush, Vec::new()),
            3 => (Op::Read, Vec::new()),
            _ => (Op::Write { fua: false }, vec![fill; sectors as usize * SECTOR]),
        };
        let (lba, sectors) = if op == Op::Flush { (0, 0) } else { (lba, sectors as u32) };
        engine.begin_iteration();
        submit(engine, request(op, lba, sectors, number), &data);
        let told = |c: Completion| (c.request.op, c.request.token, c.status);
        answers.extend(drain(engine).into_iter().map(told));
    }
    answers
}

/// Submits a write of a page.
fn write(engine: &mut Engine, token: u64) {
    engine.begin_iteration();
    let data = vec![token as u8 + 1; 8 * SECTOR];
    submit(engine, request(Op::Write { fua: false }, 8 * token, 8, token), &data);
}

fn a_hundred_times(engine: &mut Engine) {
    work(engine, 1, 600);
    snapshot(engine, "aged");
    let (data_then, model_then) = (data(engine), model(engine));
    let mut first = None;
    for _ in 0..100 {
        let answers = work(engine, 2, 60);
        for token in 0..8 {
            write(engine, token);
        }
        let cut = engine.power_cut().expect("a store").lost_bytes;
        let after = (answers, cut, data(engine), model(engine));
        assert!(data_then != after.2 && model_then != after.3 && cut > 0);
        // The same commands on the same drive give the same answers and losses.
        assert!(*first.get_or_insert_with(|| after.clone()) == after);
        engine.restore("aged").expect("a snapshot");
        assert!(data(engine) == data_then && model(engine) == model_then);
    }
}

#[test]
fn a_drive_in_memory_is_restored_a_hundred_times_bit_for_bit() {
    a_hundred_times(&mut in_memory());
}

#[test]
fn a_drive_in_a_file_is_restored_a_hundred_times_bit_for_bit() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(
        &folder.path().join("data"),
        SECTORS,
        HostDurability::None,
        Channel::new().expect("an eventfd").handle().waker(),
        &MemoryLimit::new(1 << 30, 0, 0),
    );
    a_hundred_times(&mut drive(store.expect("a file")));
    assert_eq!(folder.path().read_dir().expect("a folder").count(), 1, "snapshots have no name");
}

/// Taken, restored, replaced and deleted in any order, compared with copies of the whole data.
#[test]
fn snapshots_do_not_disturb_each_other() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed).fork("snapshots");
        let mut engine = in_memory();
        let mut known: Vec<(String, Vec<u8>)> = Vec::new();
        for step in 0..40 {
            work(&mut engine, 100 * seed + step, 5);
            if rng.below(10) == 0 {
                engine.power_cut().expect("memory");
            }
            let name = format!("s{}", rng.below(5));
            let place = known.iter().position(|(one, _)| *one == name);
            match (rng.below(4), place) {
                (0 | 1, Some(place)) => {
                    engine.restore(&name).expect("a snapshot");
                    assert!(data(&engine) == known[place].1, "seed {seed}, step {step}: {name}");
                }
                (2, Some(place)) => {
                    engine.forget_snapshot(&name).expect("a snapshot");
                    known.remove(place);
                }
                (_, place) => {
                    place.map(|place| known.remove(place));
                    snapshot(&mut engine, &name);
                    known.push((name, data(&engine)));
                }
            }
        }
    }
}

#[test]
fn a_drive_that_is_erased_or_trimmed_whole_comes_back() {
    let mut engine = in_memory();
    work(&mut engine, 1, 20);
    snapshot(&mut engine, "before");
    let before = data(&engine);
    engine.begin_iteration();
    submit(&mut engine, request(Op::Trim { fua: false }, 3, SECTORS as u32 - 5, 1), &[]);
    assert_eq!(drain(&mut engine).len(), 1);
    assert!(data(&engine) != before);
    engine.restore("before").expect("a snapshot");
    assert!(data(&engine) == before);
}

#[test]
fn commands_in_flight_at_a_restore_never_complete_and_those_at_a_snapshot_do() {
    let mut engine = in_memory();
    write(&mut engine, 1);
    snapshot(&mut engine, "busy");
    assert_eq!(drain(&mut engine).len(), 1);
    write(&mut engine, 2);
    engine.restore("busy").expect("a snapshot");
    assert!(drain(&mut engine).is_empty());
    write(&mut engine, 3);
    assert_eq!(drain(&mut engine).len(), 1);
}

#[test]
fn what_snapshots_keep_counts_as_data_in_memory() {
    let mut engine = drive(Store::memory(SECTORS, &limit_of(24)));
    let write = |engine: &mut Engine, page: u64, fill| {
        engine.begin_iteration();
        let data = vec![fill; 8 * SECTOR];
        submit(engine, request(Op::Write { fua: false }, 8 * page, 8, page), &data);
        drain(engine)[0].status
    };
    assert!((0..16).all(|page| write(&mut engine, page, 1) == Status::Ok));
    snapshot(&mut engine, "full");
    let answers: Vec<Status> = (0..16).map(|page| write(&mut engine, page, 2)).collect();
    assert_eq!(answers, [[Status::Ok; 8], [Status::NoSpace; 8]].as_flattened());
    engine.restore("full").expect("a snapshot");
    assert!(data(&engine)[..16 * 4096].iter().all(|&byte| byte == 1));
    engine.forget_snapshot("full").expect("a snapshot");
    assert!((0..24).all(|page| write(&mut engine, page, 3) == Status::Ok));
}

#[test]
fn a_snapshot_that_cannot_be_taken_leaves_the_one_of_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("drive");
    std::fs::create_dir(&place).expect("a folder");
    let waker = Channel::new().expect("an eventfd").handle().waker();
    let limit = MemoryLimit::new(1 << 30, 0, 0);
    let store = Store::open(&place.join("data"), SECTORS, HostDurability::None, waker, &limit);
    let mut engine = drive(store.expect("a file"));
    write(&mut engine, 1);
    snapshot(&mut engine, "kept");
    let kept = data(&engine);
    // The folder of its file is gone.
    std::fs::remove_dir_all(&place).expect("a folder");
    let failed = loop {
        match engine.snapshot("kept") {
            Ok(None) => thread::sleep(Duration::from_millis(1)),
            other => break other,
        }
    };
    assert!(matches!(failed, Err(ControlError::Snapshot(SnapshotError::Store(_)))));
    std::fs::create_dir(&place).expect("a folder");
    write(&mut engine, 2);
    assert!(data(&engine) != kept);
    engine.restore("kept").expect("a snapshot");
    assert!(data(&engine) == kept);
}

#[test]
fn a_trim_and_a_restore_after_a_snapshot_take_no_memory() {
    let mut engine = drive(Store::memory(SECTORS, &limit_of(16)));
    for page in 0..16 {
        write(&mut engine, page);
    }
    assert!(drain(&mut engine).iter().all(|done| done.status == Status::Ok));
    snapshot(&mut engine, "full");
    let full = data(&engine);
    for _ in 0..3 {
        engine.begin_iteration();
        submit(&mut engine, request(Op::Trim { fua: false }, 0, SECTORS as u32, 1), &[]);
        assert_eq!(drain(&mut engine)[0].status, Status::Ok);
        assert!(data(&engine).iter().all(|&byte| byte == 0));
        write(&mut engine, 1);
        assert_eq!(drain(&mut engine)[0].status, Status::NoSpace, "the snapshot has it all");
        engine.restore("full").expect("a snapshot");
        assert!(data(&engine) == full);
    }
    engine.forget_snapshot("full").expect("a snapshot");
    assert!(data(&engine) == full);
}

#[test]
fn a_clone_holds_the_data_and_the_state_of_the_snapshot() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut engine = in_memory();
    work(&mut engine, 1, 200);
    snapshot(&mut engine, "aged");
    let (data_then, model_then) = (data(&engine), model(&mut engine));
    work(&mut engine, 2, 100);
    let place = folder.path().join("clone");
    engine.clone_snapshot("aged", &place).expect("room");
    assert!(std::fs::read(place.join("data")).expect("data") == data_then);
    let spec = spec(SECTORS as i64, false);
    let device = drivebay_run::snapshot::restore(spec, None, &place.join("state")).expect("state");
    let mut bytes = Vec::new();
    device.save(&mut bytes).expect("memory");
    assert!(bytes == model_then);
    let again = engine.clone_snapshot("aged", &place);
    assert!(matches!(again, Err(ControlError::Snapshot(SnapshotError::Exists(_)))));
    assert_eq!(folder.path().read_dir().expect("a folder").count(), 1);
}

#[test]
fn a_name_that_is_not_known_is_refused_with_those_that_are() {
    let mut engine = in_memory();
    snapshot(&mut engine, "one");
    for refused in [engine.restore("two"), engine.forget_snapshot("two")] {
        assert_eq!(refused.expect_err("none").to_string(), "there is no snapshot two\nhint: one");
    }
    assert!(matches!(
        engine.snapshot(&"x".repeat(65)),
        Err(ControlError::Snapshot(SnapshotError::Name))
    ));
    for number in 1..16 {
        snapshot(&mut engine, &number.to_string());
    }
    assert!(matches!(
        engine.snapshot("more"),
        Err(ControlError::Snapshot(SnapshotError::TooMany(_)))
    ));
}
