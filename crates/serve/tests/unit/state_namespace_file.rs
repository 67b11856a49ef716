//! Unit tests of `state/namespace_file.rs`, with access to its private items.

use std::fs;

use super::*;

const SECTORS: u64 = 1 << 20;

fn of(bytes: u64) -> NamespaceOptions {
    NamespaceOptions { bytes, start_bytes: None, is_read_only: false }
}

#[test]
fn namespaces_are_kept_for_the_options_that_they_came_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state");
    let file = NamespaceFile::beside(&state, &[of(1 << 20)]);
    assert!(file.load(SECTORS, false).expect("no file").is_none());
    let mut namespaces = NamespaceTable::new(&[of(1 << 20)], SECTORS).expect("room");
    namespaces.resize(1, 2 << 20).expect("room");
    file.save(&namespaces).expect("a folder");
    let found = file.load(SECTORS, false).expect("readable").expect("kept");
    assert_eq!(format!("{:?}", found.to_keep()), format!("{:?}", namespaces.to_keep()));
    let protected = file.load(SECTORS, true).expect("readable").expect("kept");
    assert!(protected.iter().all(|(_, namespace)| namespace.is_read_only));
    let other = NamespaceFile::beside(&state, &[of(4 << 20)]);
    assert!(other.load(SECTORS, false).expect("readable").is_none());
}

#[test]
fn what_is_no_such_file_is_refused_with_a_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = NamespaceFile::beside(&folder.path().join("state"), &[of(1 << 20)]);
    let refused = || file.load(8, false).expect_err("refused").to_string();
    fs::write(&file.path, "{}").expect("a folder");
    assert!(refused().contains("hint: to start with those of --namespace: rm "));
    file.save(&NamespaceTable::new(&[of(1 << 20)], SECTORS).expect("room")).expect("a folder");
    let error = refused();
    assert!(error.contains("namespace 1 cannot have 1048576 bytes"), "{error}");
    assert_eq!(error.lines().count(), 2, "{error}");
}
