//! Small drive and store for tests.

pub mod ahci;
pub mod nbd;

use std::time::Duration;

use drivebay_drive::samples::{SM951_AHCI_512, WINDOWS_8_1_Z97};
use drivebay_drive::{Device, Spec, whole_profile};
use drivebay_serve::{Completion, Engine, MemoryLimit, Op, Pace, Request, SessionId, Store};
use toml::Value;

/// Time after which a drive without an answer fails its test; a busy machine must not reach it.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// The catalog's SM951, cut to a few megabytes.
pub fn spec(sectors: i64, lying: bool) -> Spec {
    changed_spec(sectors, lying, |_| ())
}

/// Like [`spec`], with other changes of the profile.
pub fn changed_spec(sectors: i64, lying: bool, change: impl FnOnce(&mut Value)) -> Spec {
    let mut raw = Value::from(whole_profile(WINDOWS_8_1_Z97, SM951_AHCI_512).expect("TOML"));
    for (name, value) in [
        ("nand.channels", Value::from(2)),
        ("nand.dies_per_channel", Value::from(2)),
        ("nand.planes", Value::from(2)),
        ("nand.page_kib", Value::from(16)),
        ("nand.blocks_per_plane", Value::from(24 + sectors / 1024)),
        ("nand.pages_per_block", Value::from(4)),
        ("nand.bad_superblocks", Value::from(0)),
        ("drive.capacity_sectors", Value::from(sectors)),
        ("write_buffer.size_kib", Value::from(512)),
        ("gc.reserve_superblocks", Value::from(4)),
        ("gc.threshold_mb", Value::from(2.0)),
        ("gc.target_mb", Value::from(2.5)),
    ] {
        let (section, key) = name.split_once('.').expect("section.key");
        let leaf = raw[section][key].as_table_mut().expect("a leaf with value and source");
        leaf.insert("value".into(), value);
        leaf.remove("range");
    }
    raw["gc"].as_table_mut().expect("a section").remove("idle");
    if lying {
        let leaf = r#"{ value = true, source = "test" }"#;
        let leaf: toml::Table = format!("leaf = {leaf}").parse().expect("TOML");
        let buffer = raw["write_buffer"].as_table_mut().expect("a section");
        buffer.insert("ignore_flush".into(), leaf["leaf"].clone());
    }
    change(&mut raw);
    let json = serde_json::to_string(&raw).expect("values");
    Spec::from_json(&json).unwrap_or_else(|error| panic!("{error}"))
}

/// An engine that answers at once.
pub fn engine(sectors: u64, seed: u64, lying: bool) -> Engine {
    engine_of(spec(sectors as i64, lying), seed)
}

/// Engine of a drive with this profile.
pub fn engine_of(spec: Spec, seed: u64) -> Engine {
    let sectors = spec.geometry.user_sectors;
    let device = Device::new(spec, seed).expect("memory");
    let store = Store::memory(sectors, &MemoryLimit::new(1 << 30, 1 << 30, 1 << 30));
    Engine::new(device, store, Pace::None, seed)
}

pub fn request(op: Op, lba: u64, sectors: u32, token: u64) -> Request {
    Request::new(op, lba, sectors, token)
}

/// Submits a request of the only session.
pub fn submit(engine: &mut Engine, request: Request, data: &[u8]) {
    engine.drive_of(SessionId::numbered(0)).submit(request, data);
}

/// Returns all completions that are due.
pub fn drain(engine: &mut Engine) -> Vec<Completion> {
    engine.begin_iteration();
    let completions = std::iter::from_fn(|| engine.next_completion()).collect();
    engine.end_iteration();
    completions
}
