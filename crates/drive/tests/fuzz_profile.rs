//! Any profile, however wrong, is refused by an error that names a field and has a hint, or gives a
//! drive that serves all requests. There is never a panic, an overflow or a hang.
//!
//! Each case takes a small drive with all optional sections and replaces, removes or adds some of
//! its leaves. Half of the new values are just inside or outside of usual values, half are
//! nonsense.

use crate::support::{Profile, repeated};
use drivebay_drive::{Device, DeviceError, Io, Op, Spec};
use drivebay_units::{Nanos, Rng};
use proptest::prelude::*;
use toml::Value;

/// Maximum map size of drives that are run; larger ones are only checked.
const PAGES_MAX: u64 = 8 << 20;
/// Maximum buffer size of drives that are run; larger ones are only checked.
const BUFFER_PAGES_MAX: u32 = 1 << 16;

/// A small drive with all sections, and without its own ranges, which would refuse too much.
fn base() -> Value {
    let mut base = Value::Table(small().0);
    let types: toml::Table =
        "value = [50, 70.5]\nsource = \"guess: a test's\"".parse().expect("TOML");
    base["nand"]
        .as_table_mut()
        .expect("a section")
        .insert("read_by_type_us".to_owned(), types.into());
    drop_ranges(&mut base);
    base
}

fn drop_ranges(value: &mut Value) {
    match value {
        Value::Table(table) => {
            table.remove("range");
            table.iter_mut().for_each(|(_, inner)| drop_ranges(inner));
        }
        Value::Array(array) => array.iter_mut().for_each(drop_ranges),
        _ => {}
    }
}

fn small() -> Profile {
    Profile::sm951()
        .set("nand.channels", 2)
        .set("nand.dies_per_channel", 2)
        .set("nand.blocks_per_plane", 40)
        .set("nand.pages_per_block", 16)
        .set("nand.bad_superblocks", 1)
        .set("drive.capacity_sectors", 8 * 512 * 32)
        .set("write_buffer.size_kib", 1024)
        .set("gc.threshold_mb", 1)
        .set("gc.target_mb", 6)
        .wearing()
        .set("reliability.block_life_cycles", 20)
        .map_cache(4, 1, 3.0)
        .slc_cache([1.0, 4.0, 1.0], "fold", 0.5)
        .with("gc.host_frontiers", "one")
        .with("nand.read_planes", "independent")
        .with("nand.page_order", "word-lines-first")
        .with("write_buffer.power_loss_protection", true)
        .with("write_buffer.release", "word-lines")
}

/// The path of a value: keys and indices.
type Path = Vec<String>;

/// Collects the paths of all sections and leaves of a profile, and of their contents.
fn paths(value: &Value, at: &Path, all: &mut Vec<Path>) {
    let mut go = |key: String, inner: &Value| {
        let path: Path = at.iter().cloned().chain([key]).collect();
        all.push(path.clone());
        paths(inner, &path, all);
    };
    match value {
        Value::Table(table) => table.iter().for_each(|(key, inner)| go(key.clone(), inner)),
        Value::Array(array) => array.iter().enumerate().for_each(|(i, v)| go(i.to_string(), v)),
        _ => {}
    }
}

/// Changes the value at a path; does nothing if an earlier change has removed it.
fn change(root: &mut Value, path: &[String], how: Change) {
    let (last, before) = path.split_last().expect("a path has a key");
    let mut at = root;
    for key in before {
        let next = match at {
            Value::Table(table) => table.get_mut(key),
            Value::Array(array) => key.parse().ok().and_then(|i: usize| array.get_mut(i)),
            _ => None,
        };
        let Some(next) = next else { return };
        at = next;
    }
    // An earlier change may have put an array where a table was, or shortened it.
    let index = last.parse().unwrap_or(usize::MAX);
    let old = match at {
        Value::Table(table) => table.get_mut(last),
        Value::Array(array) => array.get_mut(index),
        _ => None,
    };
    match (old, how) {
        (None, _) => {}
        (Some(old), Change::Set(new)) => *old = new,
        (Some(Value::Integer(old)), Change::Scale(by)) => *old = (*old as f64 * by) as i64,
        (Some(Value::Float(old)), Change::Scale(by)) => *old *= by,
        (Some(_), Change::Scale(_)) => {}
        (Some(_), Change::Remove) => match at {
            Value::Table(table) => drop(table.remove(last)),
            Value::Array(array) => drop(array.remove(index)),
            _ => {}
        },
    }
}

fn value() -> impl Strategy<Value = Value> {
    let float = prop::sample::select(vec![
        0.0,
        -0.0,
        1e-300,
        1e-9,
        0.01,
        0.5,
        1.0,
        1.5,
        100.0,
        1e4,
        1e6,
        1e9,
        1e18,
        1e300,
        -1.0,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ]);
    let integer = prop::sample::select(vec![
        0,
        1,
        2,
        3,
        4,
        7,
        8,
        16,
        63,
        64,
        65,
        1 << 14,
        1 << 20,
        1 << 24,
        1 << 32,
        1 << 35,
        -1,
        i64::MAX,
        i64::MIN,
    ]);
    let nonsense = prop_oneof![
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec!["", "8", "nvme", "guess:", "fifo", "\u{0}"])
            .prop_map(Value::from),
        prop::collection::vec(-1.0..2e6, 0..6).prop_map(Value::from),
        Just(Value::from(vec![f64::NAN, 0.0])),
        Just(Value::Table(toml::Table::new())),
    ];
    prop_oneof![
        4 => float.prop_map(Value::from),
        4 => integer.prop_map(Value::from),
        3 => (0i64..200).prop_map(Value::from),
        3 => (0.0..2000.0f64).prop_map(Value::from),
        2 => any::<i64>().prop_map(Value::from),
        2 => any::<f64>().prop_map(Value::from),
        2 => nonsense,
    ]
}

/// A change of one value.
#[derive(Clone, Debug)]
enum Change {
    Remove,
    Set(Value),
    /// Multiplies a number by this factor; the result is mostly still a valid drive.
    Scale(f64),
}

fn a_change() -> impl Strategy<Value = Change> {
    let factors = vec![0.0, 0.01, 0.5, 0.9, 1.1, 2.0, 4.0, 16.0, 1000.0, -1.0];
    prop_oneof![
        1 => Just(Change::Remove),
        10 => value().prop_map(Change::Set),
        10 => prop::sample::select(factors).prop_map(Change::Scale),
    ]
}

/// Submits requests of all kinds, half of them at the edges of drives.
fn serve(mut device: Device, seed: u64) -> Result<(), TestCaseError> {
    let capacity = device.spec().capacity_bytes() / 512;
    let mut rng = Rng::new(seed);
    let mut now = Nanos::ZERO;
    for i in 0..400 {
        let op = [Op::Write, Op::Write, Op::Read, Op::Trim][rng.below(4) as usize];
        let lba = match rng.below(8) {
            0 => capacity,
            1 => capacity - 1 - rng.below(capacity.min(20)),
            2 => u64::MAX - rng.below(3),
            3 => 0,
            _ => rng.below(capacity),
        };
        let sectors = match rng.below(8) {
            0 => 0,
            1 => u32::MAX - rng.below(2) as u32,
            2 => capacity.min(1 << 14) as u32,
            3 => 1,
            _ => 1 + rng.below(70) as u32,
        };
        let fits =
            sectors > 0 && lba.checked_add(u64::from(sectors)).is_some_and(|e| e <= capacity);
        match device.submit(now, Io::new(op, lba, sectors)) {
            Ok(io) => {
                prop_assert!(fits);
                prop_assert_eq!(io.stages.total(), io.done.since(now));
                if rng.below(3) > 0 {
                    now = io.done;
                }
            }
            Err(error) => {
                let out = matches!(error, DeviceError::OutOfRange { .. });
                prop_assert!(fits != out, "{}", error);
                prop_assert!(error.to_string().contains("\nhint: "), "{}", error);
                prop_assert!(!matches!(error, DeviceError::NoSpace), "{}", error);
            }
        }
        match i {
            200 => device.secure_erase(),
            300 => now = now.after(Nanos::secs(100)),
            _ => {}
        }
    }
    device.idle_until(now.after(Nanos::secs(5)));
    prop_assert!(device.counters().temperature_c.is_finite());
    device.ftl().check_invariants();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: repeated(1000), ..ProptestConfig::default() })]

    #[test]
    fn any_profile_is_refused_with_a_hint_or_serves(
        picks in prop::collection::vec(
            (any::<prop::sample::Index>(), a_change()),
            1..4,
        ),
        inside in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut root = base();
        let mut all = Vec::new();
        paths(&root, &Path::new(), &mut all);
        if inside {
            // Changes only numbers: such profiles pass more checks than those of a wrong form.
            all.retain(|path| path.last().is_some_and(|key| key == "value"));
        }
        for (index, how) in picks {
            change(&mut root, &all[index.index(all.len())], how);
        }
        let text = toml::to_string(&root).expect("TOML");
        let spec = match Spec::from_toml(&text) {
            Ok(spec) => spec,
            Err(error) => {
                let error = error.to_string();
                let field = error.split(':').next().unwrap_or_default();
                prop_assert!(!field.is_empty() && !field.contains(' '), "{}", error);
                prop_assert!(error.contains("\nhint: "), "{}", error);
                return Ok(());
            }
        };
        let g = &spec.geometry;
        let pages = u64::from(g.superblocks) * u64::from(g.superblock_pages);
        if pages <= PAGES_MAX && spec.buffer_pages <= BUFFER_PAGES_MAX {
            serve(Device::new(spec, seed).expect("memory for a small drive"), seed)?;
        }
    }
}
