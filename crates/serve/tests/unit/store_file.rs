//! Unit tests of `store/file.rs`, with access to its private items.

use super::*;

fn made(folder: &Path, bytes: u64) -> DataFile {
    let waker = Waker::new().expect("an eventfd");
    DataFile::open(&folder.join("data"), bytes / SECTOR_BYTES, waker).expect("a file")
}

fn blocks(file: &DataFile) -> u64 {
    file.file.metadata().expect("a file").blocks()
}

#[test]
fn zeros_that_the_file_system_has_no_room_for_change_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let found = rustix::fs::statvfs(folder.path()).expect("a file system");
    let free = (found.f_bavail * found.f_frsize).next_multiple_of(4096) + (1 << 30);
    let file = made(folder.path(), free);
    file.write(0, &[7; 4096]).expect("room");
    let before = blocks(&file);
    let full = file.zero(0, free / SECTOR_BYTES, true).expect_err("no room");
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    assert_eq!(blocks(&file), before);
    let mut found = [0; 4096];
    file.read(0, &mut found).expect("data");
    assert_eq!(found, [7; 4096]);
    file.zero(0, free / SECTOR_BYTES, false).expect("holes take none");
}

#[test]
fn zeros_keep_their_space_or_give_it_back_as_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = made(folder.path(), 1 << 20);
    file.write(3, &[7; 4096]).expect("room");
    file.zero(0, 2048, true).expect("room");
    assert!(blocks(&file) >= 2048, "{} sectors", blocks(&file));
    file.zero(0, 2048, true).expect("it is there already");
    let mut found = vec![9; 1 << 20];
    file.read(0, &mut found).expect("data");
    assert!(found.iter().all(|&byte| byte == 0));
    file.zero(0, 2048, false).expect("holes");
    assert!(blocks(&file) < 2048);
}

#[test]
fn a_reserve_of_the_file_system_stays_free() {
    let file = tempfile::tempfile().expect("a file");
    let found = fstatvfs(&file).expect("a file system");
    let free = found.f_bavail * found.f_frsize;
    assert!(check_room(&file, free).is_err());
}
