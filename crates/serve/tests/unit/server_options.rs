//! Unit tests of `server/options.rs`, with its private items in reach.

use super::*;

fn read(text: &str) -> Result<Document, String> {
    serde_json::from_str(text).map_err(|why| why.to_string())
}

#[test]
fn what_is_left_out_is_usual() {
    let document = read(r#"{"drives": [{"name": "one", "power_cut": "ios=3"}]}"#);
    let drive = &document.expect("known keys").drives[0];
    assert_eq!(drive.power_cut, Some(PowerCutPlan::Requests(3)));
    assert_eq!((drive.pace, drive.time_scale), (Pace::Hybrid, TimeScale::default()));
}

#[test]
fn unknown_keys_and_values_are_refused_in_words() {
    for (text, message) in [
        (r#"{"drive": []}"#, "unknown field `drive`"),
        (r#"{"server": {"ndb": []}}"#, "unknown field `ndb`"),
        (r#"{"drives": [{"read-only": true}]}"#, "unknown field `read-only`"),
        (r#"{"drives": [{"pace": "fast"}]}"#, "unknown variant `fast`"),
        (r#"{"drives": [{"time_scale": "0"}]}"#, "--time-scale 0: must be"),
        (r#"{"drives": [{"after_cut": "never"}]}"#, "--after-cut never: must be"),
        (r#"{"drives": [{"faults": [{"kind": "hang", "for": 1}]}]}"#, "unknown field `for`"),
    ] {
        let why = read(text).expect_err(text);
        assert!(why.contains(message), "{text}: {why}");
    }
}
