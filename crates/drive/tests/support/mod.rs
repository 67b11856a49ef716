//! Small drives for tests: the catalog's profile with changed numbers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use drivebay_drive::samples::SM951_NVME_256;
pub use drivebay_drive::samples::{SM951_AHCI_512 as PROFILE, WINDOWS_8_1_Z97 as HOST};
use drivebay_drive::{Completion, Device, Io, Op, Spec, SpecError, VictimPolicy};
use drivebay_units::Nanos;

/// Number of random cases, or size of a drive: the full number in `make test-long`, a quarter
/// otherwise.
pub fn repeated(cases: u32) -> u32 {
    if std::env::var_os("DRIVEBAY_LONG").is_some() { cases } else { cases.div_ceil(4) }
}

/// A profile under construction: `set("nand.channels", 1)`.
#[derive(Clone, Debug)]
pub struct Profile(pub toml::Table);

impl Profile {
    /// The SM951 from the catalog without optional behaviour, so that tests add what they need: no
    /// read-ahead, no idle garbage collection, greedy victims, a duty limit that counts all pages
    /// of a command, reads limited only by link and channels, the same times in all places, no
    /// journal of the map.
    pub fn sm951() -> Profile {
        let whole = drivebay_drive::whole_profile(HOST, PROFILE);
        let whole = Profile(whole.expect("the catalog's profile is TOML"));
        whole
            .without("read_ahead")
            .without("gc.idle")
            .without("gc.duty_pages_max")
            .set("gc.victim_policy", "greedy")
            .without("controller.read_path_mb_per_s")
            .without("nand.variation")
            .without("nand.read_by_type_us")
            .without("map_journal")
    }

    /// The SM951 with 256 GB and NVMe firmware, with the same changes.
    pub fn sm951_nvme() -> Profile {
        let base = toml::to_string(&Profile::sm951().0).expect("TOML");
        Profile(
            drivebay_drive::whole_profile(&base, SM951_NVME_256)
                .expect("the catalog's profile is TOML"),
        )
        .without("gc.idle")
    }

    /// Replaces the network by one heat node: 10 K/W to the air, 8.5 J/K.
    pub fn one_node(self) -> Profile {
        self.without("thermal.network")
            .without("thermal.sensor")
            .with("thermal.resistance_k_per_w", 10.0)
            .with("thermal.capacity_j_per_k", 8.5)
    }

    /// Sets a value by its dotted name; the range of the original is dropped.
    pub fn set(mut self, name: &str, value: impl Into<toml::Value>) -> Profile {
        let (path, key) = name.rsplit_once('.').expect("section.key");
        let section = path
            .split('.')
            .fold(&mut self.0, |table, part| table[part].as_table_mut().expect("a section"));
        let leaf = section[key].as_table_mut().expect("a leaf with value and source");
        leaf.insert("value".to_owned(), value.into());
        leaf.remove("range");
        self
    }

    /// Sets a value that the profile may lack, at any depth: `with("gc.idle.free_mb", 2.0)`.
    pub fn with(mut self, name: &str, value: impl Into<toml::Value>) -> Profile {
        let (path, key) = name.rsplit_once('.').expect("section.key");
        let mut table = &mut self.0;
        for part in path.split('.') {
            let next = table.entry(part).or_insert_with(|| toml::Table::new().into());
            table = next.as_table_mut().expect("a section");
        }
        let mut leaf = toml::Table::new();
        leaf.insert("value".to_owned(), value.into());
        leaf.insert("source".to_owned(), "test".into());
        table.insert(key.to_owned(), leaf.into());
        self
    }

    /// Sets the victim policy, and its parameter if it has one.
    pub fn victims(self, policy: VictimPolicy, parameter: i64) -> Profile {
        let profile = self.set("gc.victim_policy", policy.word);
        match policy.parameter {
            Some(key) => profile.with(&format!("gc.{key}"), parameter),
            None => profile,
        }
    }

    /// Removes a key or section.
    pub fn without(mut self, name: &str) -> Profile {
        let (path, key) = name.rsplit_once('.').unwrap_or(("", name));
        let mut table = &mut self.0;
        for part in path.split('.').filter(|part| !part.is_empty()) {
            table = table[part].as_table_mut().expect("a section");
        }
        table.remove(key);
        self
    }

    /// Adds an optional section of numbers.
    pub fn section(mut self, name: &str, numbers: &[(&str, f64)]) -> Profile {
        let leaf = |&(key, value): &(&str, f64)| {
            let value: toml::Value = match value {
                whole if whole.fract() == 0.0 => (whole as i64).into(),
                other => other.into(),
            };
            let source = toml::Value::from("guess: a test's");
            let leaf = [("value".to_owned(), value), ("source".to_owned(), source)];
            (key.to_owned(), toml::Value::Table(leaf.into_iter().collect()))
        };
        let section: toml::Table = numbers.iter().map(leaf).collect();
        self.0.insert(name.to_owned(), toml::Value::Table(section));
        self
    }

    /// Adds wear: 72-layer TLC by Kim, Choi and Min (FAST 2019), 72 bits of 1 KiB corrected.
    pub fn wearing(self) -> Profile {
        self.section(
            "reliability",
            &[
                ("fresh_rber", 1.48e-3),
                ("wear_factor", 3.90e-10),
                ("wear_exponent", 2.05),
                ("disturb_factor", 3.73e-9),
                ("disturb_cycle_exponent", 0.33),
                ("disturb_read_exponent", 1.71),
                ("age_factor", 6.28e-5),
                ("age_cycle_exponent", 0.14),
                ("age_exponent", 0.54),
                ("page_spread", 0.2),
                ("codeword_bytes", 1024.0),
                ("correctable_bits", 72.0),
                ("retries_max", 8.0),
                ("retry_gain", 0.8),
                ("retry_read_us", 90.0),
                ("refresh_reads", 0.0),
                ("block_life_cycles", 1e9),
                ("block_life_shape", 6.0),
                ("spare_blocks", 0.0),
            ],
        )
    }

    /// Adds a map cache, with memory of the host if `host_mib` is not 0.
    pub fn map_cache(self, sram_kib: u32, host_mib: u32, host_us: f64) -> Profile {
        self.section(
            "map_cache",
            &[
                ("sram_kib", f64::from(sram_kib)),
                ("host_buffer_mib", f64::from(host_mib)),
                ("host_buffer_us", host_us),
            ],
        )
    }

    /// Adds an SLC cache: MB of static and dynamic cache, MB that it must leave free, policy when
    /// full, pages folded per page written. Programs take 200 us, reads 25 us; idle folding begins
    /// after 100 ms.
    pub fn slc_cache(self, mb: [f64; 3], when_full: &str, fold_ratio: f64) -> Profile {
        self.section(
            "slc_cache",
            &[
                ("static_mb", mb[0]),
                ("dynamic_mb", mb[1]),
                ("keep_mb", mb[2]),
                ("program_us", 200.0),
                ("read_us", 25.0),
                ("fold_ratio", fold_ratio),
                ("fold_after_ms", 100.0),
                ("cycle_weight", 0.125),
                ("program_4k_uj", 2.0),
            ],
        )
        .with("slc_cache.when_full", when_full)
    }

    /// Removes throttling.
    pub fn cool(mut self) -> Profile {
        self.0["thermal"].as_table_mut().expect("a section").remove("throttle");
        self
    }

    /// Sets all times and energies of the model to zero: only the map and garbage collection
    /// matter.
    pub fn timeless(self) -> Profile {
        ["controller.host_core_us", "controller.read_command_us", "controller.read_page_us"]
            .into_iter()
            .chain(["controller.write_command_us", "controller.write_page_us"])
            .chain(["gc.copy_extent_us", "gc.copy_page_us", "gc.duty_limit_us"])
            .chain(["nand.read_us", "nand.erase_us", "nand.suspend_us"])
            .fold(self, |profile, name| profile.set(name, 0.0))
            .set("nand.program_us", vec![1.0])
            .set("gc.duty_growth", 1.0)
            .cool()
    }

    /// Sets four dies on two channels, 40 superblocks of 64 flash pages per plane.
    pub fn four_dies(self, user_pages: u64) -> Profile {
        self.set("nand.channels", 2)
            .set("nand.dies_per_channel", 2)
            .set("nand.blocks_per_plane", 40)
            .set("nand.pages_per_block", 64)
            .set("nand.bad_superblocks", 0)
            .set("drive.capacity_sectors", user_pages as i64 * 8)
            .set("write_buffer.size_kib", 1024)
    }

    /// Sets one die, one plane, pages of 4 KiB, `pages` per block: superblocks are blocks.
    pub fn one_die(self, blocks: u32, pages: u32, user_pages: u32) -> Profile {
        self.set("nand.channels", 1)
            .set("nand.dies_per_channel", 1)
            .set("nand.planes", 1)
            .set("nand.page_kib", 4)
            .set("nand.blocks_per_plane", i64::from(blocks))
            .set("nand.pages_per_block", i64::from(pages))
            .set("nand.bad_superblocks", 0)
            .set("drive.capacity_sectors", i64::from(user_pages) * 8)
            .set("write_buffer.size_kib", 1024)
    }

    /// Adds placement handles with this isolation.
    pub fn placed(self, handles: i64, isolation: &str) -> Profile {
        self.with("fdp.handles", handles).with("fdp.isolation", isolation)
    }

    /// Adds zones of `superblocks` superblocks with limits of active and open zones; an append, a
    /// reset and a finish have costs.
    pub fn zoned(self, superblocks: i64, active: i64, open: i64) -> Profile {
        let zones = [("zone_superblocks", superblocks), ("active", active), ("open", open)];
        let costs = [("append_us", 2.0), ("append_latency_us", 1.0), ("write_latency_us", 0.0)];
        let more = [
            ("reset_us", 1_000.0),
            ("reset_us_per_gib", 100_000.0),
            ("close_us", 500.0),
            ("slice_us", 40.0),
        ];
        let profile = zones.iter().fold(self, |p, (key, n)| p.with(&format!("zns.{key}"), *n));
        costs.iter().chain(&more).fold(profile, |p, (key, us)| p.with(&format!("zns.{key}"), *us))
    }

    /// Returns the checked profile.
    pub fn spec(&self) -> Spec {
        self.checked().unwrap_or_else(|e| panic!("{e}"))
    }

    /// Checks the profile.
    pub fn checked(&self) -> Result<Spec, SpecError> {
        Spec::from_toml(&self.0.to_string())
    }

    /// A fresh drive.
    pub fn device(&self) -> Device {
        Device::new(self.spec(), 1).expect("memory for a small drive")
    }
}

/// A 4 KiB request on page `lpn`.
pub fn page(op: Op, lpn: u64) -> Io {
    Io::new(op, lpn * 8, 8)
}

/// Submits requests one after another, each when the previous one is done; returns the end.
pub fn one_by_one(device: &mut Device, ios: impl IntoIterator<Item = Io>) -> Nanos {
    let mut now = device.now();
    for io in ios {
        now = device.submit(now, io).expect("the request lies on the drive").done;
    }
    now
}

/// Keeps `depth` requests outstanding; returns the time of the last completion.
pub fn at_depth(device: &mut Device, depth: usize, ios: impl IntoIterator<Item = Io>) -> Nanos {
    let mut last = device.now();
    closed_loop(device, depth, ios, |served| last = last.max(served.done));
    last
}

/// Keeps `depth` requests outstanding, from the drive's present time on; `tag` counts the requests.
pub fn closed_loop(
    device: &mut Device,
    depth: usize,
    ios: impl IntoIterator<Item = Io>,
    mut seen: impl FnMut(&Completion),
) {
    let start = device.now();
    let mut free: BinaryHeap<Reverse<Nanos>> = (0..depth).map(|_| Reverse(start)).collect();
    let mut serve = |device: &mut Device, free: &mut BinaryHeap<Reverse<Nanos>>| {
        let Some(served) = device.serve().expect("the drive has room") else { return };
        seen(&served);
        free.push(Reverse(served.done));
    };
    for (tag, io) in ios.into_iter().enumerate() {
        while free.peek().is_none_or(|&Reverse(at)| device.next_arrival() <= at) {
            serve(device, &mut free);
        }
        let Reverse(now) = free.pop().expect("the loop ends with a free slot");
        device.accept(now, io, tag as u32, Nanos::ZERO).expect("the request lies on the drive");
    }
    while device.next_arrival() < Nanos(u64::MAX) {
        serve(device, &mut free);
    }
}
