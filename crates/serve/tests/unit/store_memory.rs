//! Unit tests of `store/memory.rs`, with access to its private items.

use super::*;
use drivebay_units::Rng;

const SECTORS: u64 = 3 * GROUP as u64 * PAGE_SECTORS + 5;

#[test]
fn it_holds_what_a_flat_array_holds() {
    let memory = Memory::new(SECTORS, MemoryLimit::new(1 << 30, 1 << 30, 1 << 30));
    compare(memory, vec![0_u8; (SECTORS * SECTOR_BYTES) as usize]);
}

#[test]
fn over_an_image_it_holds_what_a_copy_of_that_holds_and_the_image_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    let mut flat: Vec<u8> = (0..200 * SECTOR_BYTES).map(|i| (i / 7) as u8).collect();
    flat[8192..65536].fill(0);
    std::fs::write(&path, &flat[..flat.len() - 100]).expect("room");
    let image = Image::open(&path, SECTORS).expect("an image");
    let limit = MemoryLimit::new(1 << 30, 1 << 30, 1 << 30);
    let memory = Memory::over(image, SECTORS, limit).expect("extents");
    flat.truncate(flat.len() - 100);
    let before = flat.clone();
    flat.resize((SECTORS * SECTOR_BYTES) as usize, 0);
    compare(memory, flat);
    assert!(std::fs::read(&path).expect("it is there") == before);
}

#[test]
fn the_table_of_an_image_counts_and_one_too_large_says_what_it_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    let file = std::fs::File::create(&path).expect("room");
    // Data in the first and the third group of pages, twice in the first.
    for page in [0, 5, 2 * GROUP] {
        std::os::unix::fs::FileExt::write_all_at(
            &file,
            &[5; PAGE_BYTES],
            (page * PAGE_BYTES) as u64,
        )
        .expect("room");
    }
    let over = |limit: &MemoryLimit| {
        Memory::over(Image::open(&path, SECTORS).expect("an image"), SECTORS, limit.clone())
    };
    let limit = MemoryLimit::new(3 * GROUP_BYTES, 1 << 30, 1 << 30);
    let memory = over(&limit).expect("room");
    assert_eq!(limit.used(Use::Data), 2 * GROUP_BYTES);
    let mut second = Memory::new(SECTORS, limit.clone());
    let pages = [0..6, 2 * GROUP..2 * GROUP + 1];
    assert_eq!(second.make_groups(&pages), Err(2 * GROUP_BYTES), "one is free");
    let why = over(&limit).err().expect("no room").to_string();
    assert!(why.contains("takes 1 MiB") && why.contains("hint: --memory 256MiB at least"), "{why}");
    drop(memory);
    assert_eq!(limit.used(Use::Data), 0);
}

#[test]
fn over_an_image_only_what_is_written_takes_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    std::fs::write(&path, vec![5; 100 * PAGE_BYTES]).expect("room");
    let image = Image::open(&path, SECTORS).expect("an image");
    let limit = MemoryLimit::new(2 * PAGE_BYTES as u64 + GROUP_BYTES, 1 << 30, 1 << 30);
    let mut memory = Memory::over(image, SECTORS, limit).expect("extents");
    memory.write(3, &[1; 512], Limit::Holds).unwrap();
    memory.zero(8, 9 * PAGE_SECTORS, false).unwrap();
    memory.write(8, &[2; 512], Limit::Holds).unwrap();
    assert!(memory.write(800, &[1; 512], Limit::Holds).is_err(), "two pages at most");
    let mut found = [0; 2 * PAGE_BYTES];
    memory.read(0, &mut found).unwrap();
    let parts = [(0..1536, 5), (1536..2048, 1), (2048..4096, 5), (4096..4608, 2), (4608..8192, 0)];
    for (range, byte) in parts {
        assert!(found[range.clone()].iter().all(|&found| found == byte), "{range:?}");
    }
    // Pages of the image in a snapshot take only the memory of its table.
    let mut table = memory.empty_table();
    assert!(memory.copy_page(50, &mut table, Limit::Holds).is_err());
    memory.copy_page(50, &mut table, Limit::MayBeExceeded).unwrap();
    memory.zero(50 * PAGE_SECTORS, PAGE_SECTORS, false).unwrap();
    memory.read_table(&table, 50 * PAGE_SECTORS, &mut found[..PAGE_BYTES]).unwrap();
    assert!(found[..PAGE_BYTES].iter().all(|&byte| byte == 5));
    memory.take_back(50, &mut table);
    memory.free_table(table);
    memory.read(50 * PAGE_SECTORS, &mut found[..PAGE_BYTES]).unwrap();
    assert!(found[..PAGE_BYTES].iter().all(|&byte| byte == 5));
    assert_eq!((memory.frames.taken, memory.frames.free.len()), (2, 0));
}

/// Random writes, zeros and reads compared with a flat array.
fn compare(mut memory: Memory, mut flat: Vec<u8>) {
    let mut rng = Rng::new(1);
    for step in 0..4000_u32 {
        // Often near the beginning, so that they overlap.
        let reach = if step % 4 == 0 { SECTORS } else { 200 };
        let lba = rng.below(reach);
        let sectors = (1 + rng.below(40)).min(SECTORS - lba);
        let here = (lba * SECTOR_BYTES) as usize..((lba + sectors) * SECTOR_BYTES) as usize;
        match rng.below(4) {
            0 => memory.zero(lba, sectors, rng.below(2) == 0).unwrap(),
            1 => {
                let mut found = vec![7; 3];
                memory.append(lba, here.len(), &mut found).unwrap();
                assert_eq!(found[3..], flat[here.clone()]);
                found.resize(here.len(), 9);
                memory.read(lba, &mut found).unwrap();
                assert_eq!(found, flat[here]);
                continue;
            }
            _ => {
                let data: Vec<u8> = (0..here.len()).map(|i| (step as usize + i) as u8).collect();
                memory.write(lba, &data, Limit::Holds).unwrap();
                flat[here].copy_from_slice(&data);
                continue;
            }
        }
        flat[here].fill(0);
    }
    for lba in 0..SECTORS.min(400) {
        let bytes = (SECTORS - lba).min(1 + lba % 90) as usize * SECTOR_BYTES as usize;
        let mut places = [IoSlice::new(&[]); 4];
        let count = memory.pieces(lba, bytes, &mut places);
        let from = (lba * SECTOR_BYTES) as usize;
        let found: Vec<u8> = places[..count].iter().flat_map(|piece| piece.to_vec()).collect();
        assert!(found[..] == flat[from..from + found.len()] && found.len() <= bytes);
        let is_of_image = memory.table.frame(lba as usize / 8) == Some(IMAGE);
        assert!(is_of_image == found.is_empty(), "{lba}");
    }
    let mut whole = vec![1; flat.len()];
    memory.read(0, &mut whole).unwrap();
    assert!(whole == flat);
    let extents = memory.extents(0, SECTORS, usize::MAX);
    assert_eq!(extents.iter().map(|one| one.sectors).sum::<u64>(), SECTORS);
    let mut at = 0;
    for Extent { sectors, data } in extents {
        let end = at + (sectors * SECTOR_BYTES) as usize;
        assert!(data || flat[at..end].iter().all(|&byte| byte == 0));
        at = end;
    }
}

#[test]
fn frames_of_deallocated_pages_are_used_again() {
    let mut memory =
        Memory::new(SECTORS, MemoryLimit::new(2 * PAGE_BYTES as u64 + GROUP_BYTES, 1 << 30, 0));
    memory.write(0, &[1; 2 * PAGE_BYTES], Limit::Holds).unwrap();
    let full = memory.write(80, &[1; 512], Limit::Holds).expect_err("two pages at most");
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    assert!(memory.zero(80, 8, true).is_err());
    memory.write(9, &[2; 512], Limit::Holds).unwrap();
    memory.zero(0, SECTORS, false).unwrap();
    assert_eq!(memory.extents(0, SECTORS, 8), [Extent { sectors: SECTORS, data: false }]);
    memory.write(83, &[3; 512], Limit::Holds).unwrap();
    let mut found = [9; 3 * 512];
    memory.read(82, &mut found).unwrap();
    assert_eq!(found, *[[0; 512], [3; 512], [0; 512]].as_flattened());
    assert_eq!(memory.frames.taken, 2);
}
