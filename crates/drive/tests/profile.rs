//! Bad profiles: an error that names the field and the allowed values, and has a hint; never a
//! panic.

use crate::support::{HOST, PROFILE, Profile};
use drivebay_drive::Spec;

fn refusal(text: &str) -> String {
    Spec::from_family(HOST, text).map(|_| ()).expect_err("this profile must be refused").to_string()
}

#[track_caller]
fn assert_refused(name: &str, value: impl Into<toml::Value>, says: &str) {
    let error = refusal(&Profile::sm951().set(name, value).0.to_string());
    assert!(error.starts_with(name), "names the field: {error}");
    assert!(error.contains(says), "says '{says}': {error}");
    assert!(error.contains("\nhint: "), "has a hint: {error}");
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    assert_refused("nand.channels", 12, "use 8 or 16");
    assert_refused("nand.planes", 0, "1 to 8");
    assert_refused("nand.page_kib", 2, "4, 8, 16");
    assert_refused("nand.read_us", -1.0, "0 to 1000000");
    assert_refused("nand.read_us", f64::NAN, "0 to 1000000");
    assert_refused("nand.read_us", f64::INFINITY, "0 to 1000000");
    assert_refused("nand.program_us", Vec::<f64>::new(), "1 to 4 times");
    assert_refused("nand.bad_superblocks", 1024, "0 to 1020");
    assert_refused("link.generation", 6, "1 to 5");
    assert_refused("link.lanes", 3, "use 2 or 4");
    assert_refused("host_interface.protocol", "scsi", "one of ahci, nvme");
    assert_refused("host_interface.queue_depth_max", 33, "1 to 32");
    assert_refused("gc.victim_policy", "lifo", "one of greedy, fifo");
    assert_refused("gc.gain_min", 2, "from 0 to 1");
    assert_refused("gc.duty_growth", 0, "from 1 to 100");
    assert_refused("write_buffer.size_kib", 64, "data waits until all planes");
    assert_refused("drive.capacity_sectors", 1_073_741_824_i64, "less than the flash holds");
    assert_refused("drive.capacity_sectors", 1_068_000_000_i64, "superblocks");
    assert_refused("drive.capacity_sectors", 1_000_215_217_i64, "multiple of 8");
    assert_refused("thermal.network.module_to_air_k_per_w", 0, "0.01 to 1000");
}

#[test]
fn values_of_optional_sections_are_refused_by_name() {
    let worn = |name: &str, value: toml::Value, says: &str| {
        let profile = Profile::sm951().wearing().map_cache(64, 0, 0.0).set(name, value);
        let error = refusal(&profile.0.to_string());
        assert!(error.starts_with(name) && error.contains(says), "{error}");
        assert!(error.contains("\nhint: "), "{error}");
    };
    worn("reliability.codeword_bytes", 1000.into(), "use 512 or 1024");
    worn("reliability.codeword_bytes", 256.into(), "512, 1024");
    worn("reliability.retry_gain", 1.5.into(), "0.01 to 1");
    worn("reliability.fresh_rber", f64::NAN.into(), "0 to 0.5");
    worn("reliability.retries_max", 65.into(), "0 to 64");
    worn("map_cache.sram_kib", 6.into(), "multiple of 4");
    worn("map_cache.sram_kib", 0.into(), "4 to");
    worn("map_cache.host_buffer_us", (-1.0).into(), "0 to 1000000");
    let three = toml::toml! { value = [50, 70, 90]
    source = "guess: a test's" };
    let mut types = Profile::sm951();
    let nand = types.0["nand"].as_table_mut().expect("a section");
    nand.insert("read_by_type_us".to_owned(), three.into());
    let error = refusal(&types.0.to_string());
    assert!(error.starts_with("nand.read_by_type_us: 3 times"), "{error}");
    let both = Profile::sm951().with("nand.resumed_program", "not-suspended");
    let error = refusal(&both.with("nand.suspend_mean_us", 66.0).0.to_string());
    assert!(error.starts_with("nand.suspend_mean_us: 66"), "{error}");
    let mut incomplete = Profile::sm951().wearing();
    incomplete.0["reliability"].as_table_mut().expect("a section").remove("retry_gain");
    assert!(refusal(&incomplete.0.to_string()).contains("retry_gain"));
}

#[test]
fn a_value_outside_its_own_stated_range_is_refused() {
    let text = PROFILE.replace("read_us = { value = 61.7", "read_us = { value = 30");
    assert!(refusal(&text).contains("nand.read_us: 30 is not allowed"));
}

#[test]
fn unknown_missing_and_mistyped_keys_are_named() {
    let unknown = PROFILE.replace("[nand]", "[nand]\nspeed = 3");
    assert!(refusal(&unknown).contains("unknown field `speed`"), "{}", refusal(&unknown));
    let missing = PROFILE.replace("ambient_c =", "# ambient_c =");
    assert!(refusal(&missing).contains("ambient_c"), "{}", refusal(&missing));
    let mistyped = PROFILE.replace("channels = { value = 8", "channels = { value = \"eight\"");
    assert!(refusal(&mistyped).starts_with("nand.channels"), "{}", refusal(&mistyped));
    assert!(refusal("not a profile").starts_with("profile"));
    assert!(Spec::from_json("[1, 2").is_err());
}

#[test]
fn a_value_needs_a_source() {
    for source in ["", "  ", "guess:"] {
        let text = PROFILE
            .replace("source = \"64 dies over 8 channels\"", &format!("source = \"{source}\""));
        assert!(refusal(&text).starts_with("nand.dies_per_channel: has no source"));
    }
}

#[test]
fn throttle_stages_must_be_ordered_and_have_hysteresis() {
    let upside_down =
        PROFILE.replace("on_c = { value = 87.1, range = [65, 105]", "on_c = { value = 50");
    let upside_down =
        upside_down.replace("off_c = { value = 45, range = [30, 70]", "off_c = { value = 39");
    assert!(
        refusal(&upside_down).starts_with("thermal.throttle[1].on_c"),
        "{}",
        refusal(&upside_down)
    );
    let no_hysteresis =
        PROFILE.replace("off_c = { value = 54.5, range = [45, 79]", "off_c = { value = 57");
    assert!(refusal(&no_hysteresis).starts_with("thermal.throttle[0].off_c"));
    let no_way =
        PROFILE.replace("full_c = { value = 86, range = [60, 100]", "full_c = { value = 55");
    assert!(refusal(&no_way).starts_with("thermal.throttle[0].full_c"));
}
