//! Unit tests of `namespace/table.rs`, with access to its private items.

use super::*;

const MIB: u64 = 1 << 20;

fn of(bytes: u64, start_bytes: Option<u64>) -> NamespaceOptions {
    NamespaceOptions { bytes, start_bytes, is_read_only: false }
}

fn private(sectors: u64) -> NewNamespace {
    NewNamespace { is_shared: false, ..NewNamespace::plain(sectors) }
}

fn drive(wanted: &[NamespaceOptions]) -> Result<NamespaceTable, NamespaceError> {
    NamespaceTable::new(wanted, 16 * MIB / SECTOR_BYTES)
}

fn kept(all: &NamespaceTable) -> String {
    serde_json::to_string(&all.to_keep()).expect("numbers")
}

fn restored(kept: &str, sectors: u64) -> Result<NamespaceTable, NamespaceError> {
    NamespaceTable::restore(serde_json::from_str(kept).expect("as it was kept"), sectors, false)
}

#[test]
fn they_lie_one_behind_the_other_or_where_the_user_puts_them() {
    let wanted = [of(MIB + 511, None), of(MIB, Some(4 * MIB - 1)), of(MIB, None)];
    let figures = drive(&wanted).expect("room").figures();
    let places: Vec<_> = figures.iter().map(|one| (one.start_bytes, one.bytes)).collect();
    assert_eq!(places, [(0, MIB), (4 * MIB, MIB), (5 * MIB, MIB)]);
}

#[test]
fn none_is_empty_inside_another_or_behind_the_drive() {
    let refused = |wanted: &[NamespaceOptions]| drive(wanted).expect_err("refused");
    assert_eq!(refused(&[of(4095, None)]), NamespaceError::Empty(1));
    let inside = [of(8 * MIB, None), of(MIB, Some(7 * MIB))];
    assert_eq!(refused(&inside), NamespaceError::Overlap { nsid: 2, other: 1 });
    let same = [of(MIB, None), of(MIB, Some(0))];
    assert_eq!(refused(&same), NamespaceError::Overlap { nsid: 1, other: 2 });
    for behind in [of(17 * MIB, None), of(u64::MAX, None), of(MIB, Some(u64::MAX))] {
        assert!(matches!(refused(&[behind]), NamespaceError::NoRoom { nsid: 1, .. }));
    }
    assert_eq!(refused(&[of(MIB, None); 33]), NamespaceError::TooMany(33));
}

#[test]
fn one_grows_into_what_is_free_behind_it_and_gives_back_what_it_loses() {
    let mut all = drive(&[of(MIB, None), of(MIB, Some(4 * MIB))]).expect("room");
    assert_eq!(all.resize(1, 4 * MIB), Ok(2048..2048));
    assert_eq!(
        all.resize(1, 5 * MIB),
        Err(NamespaceError::NoRoom { nsid: 1, bytes: 5 * MIB, room: 4 * MIB })
    );
    assert_eq!(all.resize(1, 3 * MIB), Ok(6144..8192));
    assert_eq!(all.resize(2, 12 * MIB), Ok(10240..10240));
    assert!(matches!(all.resize(2, 13 * MIB), Err(NamespaceError::NoRoom { .. })));
    assert_eq!(all.resize(3, MIB), Err(NamespaceError::Unknown(3)));
    assert_eq!(all.resize(0, MIB), Err(NamespaceError::Unknown(0)));
    assert_eq!([1, 2, 3].map(|nsid| all.changes(nsid)), [2, 1, 0]);
}

#[test]
fn one_is_made_in_the_first_free_piece_that_holds_it() {
    let mut all = drive(&[of(MIB, None), of(MIB, Some(4 * MIB))]).expect("room");
    assert_eq!(all.free_sectors() * SECTOR_BYTES, 14 * MIB);
    assert_eq!(all.create(NewNamespace::plain(4 * 2048)), Ok(3));
    assert_eq!(all.create(private(1)), Ok(4));
    let places: Vec<_> = all.figures().iter().map(|one| (one.start_bytes, one.bytes)).collect();
    assert_eq!(places, [(0, MIB), (4 * MIB, MIB), (5 * MIB, 4 * MIB), (MIB, 512)]);
    assert_eq!(all.free_sectors() * SECTOR_BYTES, 10 * MIB - 4096, "whole pages are taken");
    let (bytes, largest) = (8 * MIB, 7 * MIB);
    assert_eq!(
        all.create(NewNamespace::plain(8 * 2048)),
        Err(NamespaceError::NoPiece { bytes, largest })
    );
    assert_eq!(all.create(NewNamespace::plain(0)), Err(NamespaceError::Empty(5)));
    let numbers = (5..=NAMESPACES_MAX as u32).map(|_| all.create(NewNamespace::plain(1)));
    assert_eq!(numbers.last(), Some(Ok(32)));
    assert_eq!(all.create(NewNamespace::plain(1)), Err(NamespaceError::TooMany(33)));
}

#[test]
fn what_is_deleted_is_free_and_empty_for_who_still_has_it() {
    let read_only = NamespaceOptions { is_read_only: true, ..of(MIB, None) };
    let mut all = drive(&[of(MIB, None), read_only]).expect("room");
    let held = Arc::clone(all.iter().next().expect("the first").1);
    assert_eq!(all.delete(1), Ok(0..2048));
    assert_eq!((held.sectors(), all.iter().count()), (0, 1));
    assert_eq!(all.delete(1), Err(NamespaceError::Unknown(1)));
    assert_eq!(all.delete(2), Err(NamespaceError::ReadOnly(2)));
    assert_eq!(all.create(NewNamespace::plain(8)), Ok(1));
    assert_eq!(all.changes(1), 2);
}

#[test]
fn blocks_of_another_size_are_a_change_that_is_kept() {
    let mut all = drive(&[of(MIB, None)]).expect("room");
    assert_eq!(all.get(1).expect("there").block_shift(), 9);
    all.format(1, 12).expect("there");
    all.format(1, 12).expect("there");
    assert_eq!((all.changes(1), all.format(2, 12)), (1, Err(NamespaceError::Unknown(2))));
    let again = restored(&kept(&all), all.drive_sectors).expect("as it was");
    assert_eq!(again.get(1).expect("there").block_sectors_log2(), 3);
    let odd = kept(&all).replace("\"block_shift\":12", "\"block_shift\":10");
    assert!(restored(&odd, all.drive_sectors).is_err());
}

#[test]
fn what_was_kept_is_what_it_was() {
    let mut all = drive(&[of(MIB, None), of(MIB, None)]).expect("room");
    all.delete(1).expect("there");
    all.create(private(9)).expect("room");
    all.create(NewNamespace::plain(8)).expect("room");
    all.resize(2, 2 * MIB).expect("room");
    let sectors = all.drive_sectors;
    let again = restored(&kept(&all), sectors).expect("as it was");
    assert_eq!(kept(&again), kept(&all));
    // On a drive that is smaller than before.
    assert!(restored(&kept(&all), sectors / 16).is_err());
}
