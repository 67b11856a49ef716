//! Unit tests of `state/identity.rs`, with access to its private items.

use super::*;

fn choose(options: &IdentityOptions, state: Option<&Path>) -> DriveIdentity {
    DriveIdentity::choose(options, state, "profile", 0x2538).expect("possible")
}

#[test]
fn two_drives_of_a_profile_share_nothing() {
    let [one, two] = [(); 2].map(|()| choose(&IdentityOptions::default(), None));
    assert!(one.serial != two.serial && one.nqn != two.nqn && one.eui64 != two.eui64);
    assert!(one.eui64.starts_with("002538") && one.serial.len() == 20);
}

#[test]
fn a_state_keeps_the_identity_and_options_change_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let none = IdentityOptions::default();
    let first = choose(&none, Some(&state));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    first.keep_beside(&state).expect("a folder");
    assert_eq!(choose(&none, Some(&state)), first);
    let serial = IdentityOptions { serial: Some("DB1".into()), ..IdentityOptions::default() };
    let second = choose(&serial, Some(&state));
    assert_eq!(second, DriveIdentity { serial: "DB1".into(), ..first });
    second.keep_beside(&state).expect("a folder");
    assert_eq!(choose(&none, Some(&state)), second);
}

#[test]
fn nonsense_is_refused() {
    let options = |serial: &str, nqn: &str, eui64: &str| IdentityOptions {
        serial: Some(serial.into()),
        nqn: Some(nqn.into()),
        eui64: Some(eui64.into()),
    };
    let result = |options| DriveIdentity::choose(&options, None, "profile", 0);
    assert!(result(options("S1", "nqn.x", "0123456789abcdef")).is_ok());
    for (serial, nqn, eui64) in [
        ("", "nqn.x", "0123456789abcdef"),
        ("123456789012345678901", "nqn.x", "0123456789abcdef"),
        ("S 1", "nqn.x", "0123456789abcdef"),
        ("S1", "iqn.x", "0123456789abcdef"),
        ("S1", "nqn.x", "0123456789abcde"),
        ("S1", "nqn.x", "0000000000000000"),
        ("S1", "nqn.x", "+123456789abcdef"),
    ] {
        assert!(result(options(serial, nqn, eui64)).is_err(), "{serial} {nqn} {eui64}");
    }
}
