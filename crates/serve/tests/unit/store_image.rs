//! Unit tests of `store/image.rs`, with access to its private items.

use super::*;

const SECTORS: u64 = 4096;

fn image_of(path: &Path, parts: &[(u64, &[u8])], bytes: u64) {
    let file = File::create(path).expect("a file");
    for (at, data) in parts {
        file.write_all_at(data, *at).expect("room");
    }
    file.set_len(bytes).expect("room");
}

#[test]
fn it_reads_as_zeros_behind_its_end_and_says_where_its_data_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    image_of(&path, &[(0, &[1; 4096]), (1 << 20, &[2; 700])], (1 << 20) + 700);
    let image = Image::open(&path, SECTORS).expect("an image");
    let mut found = [9; 1024];
    image.read(1 << 20, &mut found).expect("data");
    assert!(found[..700] == [2; 700] && found[700..] == [0; 324]);
    image.read(1 << 21, &mut found).expect("zeros");
    assert_eq!(found, [0; 1024]);
    let extents = image.extents().expect("extents");
    assert_eq!(extents.iter().map(|one| one.sectors).sum::<u64>(), 2050);
    assert!(extents[0].data && extents.last().expect("some").data);
    assert!(extents.iter().any(|one| !one.data), "the file system has holes");
}

#[test]
fn a_copy_is_as_long_as_the_drive_and_as_sparse_as_the_image() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("image"), folder.path().join("copy"));
    image_of(&path, &[(8192, &[3; 5000])], 1 << 20);
    let image = Image::open(&path, SECTORS).expect("an image");
    image.copy_to(&copy, SECTORS, || false).expect("room");
    let found = std::fs::read(&copy).expect("a file");
    assert_eq!(found.len() as u64, SECTORS * SECTOR_BYTES);
    assert!(found[8192..13192].iter().all(|&byte| byte == 3));
    assert_eq!(found.iter().filter(|&&byte| byte != 0).count(), 5000);
    let blocks = std::os::unix::fs::MetadataExt::blocks(&copy.metadata().expect("a file"));
    assert!(blocks < 100, "{blocks}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2);
}

#[test]
fn a_copy_takes_the_place_of_an_empty_file_and_of_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name| folder.path().join(name);
    image_of(&path("image"), &[(0, &[1; 4096])], 4096);
    let image = Image::open(&path("image"), SECTORS).expect("an image");
    std::fs::write(path("theirs"), "theirs").expect("room");
    std::fs::create_dir(path("folder")).expect("room");
    rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), rustix::fs::Mode::RUSR).expect("a pipe");
    for name in ["theirs", "folder", "pipe"] {
        let before = path(name).metadata().expect("it is there").file_type();
        assert!(image.copy_to(&path(name), SECTORS, || false).is_err(), "{name}");
        assert_eq!(path(name).metadata().expect("it is there").file_type(), before);
    }
    assert_eq!(std::fs::read(path("theirs")).expect("it is there"), b"theirs");
    File::create(path("empty")).expect("room");
    std::os::unix::fs::symlink("empty", path("link")).expect("a link");
    image.copy_to(&path("link"), SECTORS, || false).expect("an empty file");
    assert!(path("link").is_symlink());
    assert_eq!(path("empty").metadata().expect("a file").len(), SECTORS * SECTOR_BYTES);
}

#[test]
fn a_copy_that_is_cancelled_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("image"), folder.path().join("copy"));
    image_of(&path, &[(0, &[1; 4096])], 4096);
    let image = Image::open(&path, SECTORS).expect("an image");
    // If the file system shares space there is nothing to cancel.
    if image.copy_to(&copy, SECTORS, || true).is_err() {
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}

#[test]
fn what_is_no_image_of_this_drive_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    image_of(&path, &[], SECTORS * SECTOR_BYTES + 1);
    let refused = |path: &Path, as_machine: bool, said: &str| {
        let why = Image::open(path, SECTORS).err().expect("refused");
        assert!(why.to_string().contains(said) && why.is_machine() == as_machine, "{why}");
    };
    refused(&path, false, "more than the drive's");
    refused(folder.path(), false, "is neither a regular file nor a block device");
    refused(Path::new("/dev/null"), false, "is neither a regular file nor a block device");
    refused(&folder.path().join("none"), true, "cannot be read");
    let served = File::open(&path).expect("a file");
    flock(&served, FlockOperation::LockExclusive).expect("free");
    refused(&path, true, "is in use by another drivebay serve");
}
