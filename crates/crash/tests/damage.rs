//! Tests of the content that NVMe, ATA and hard disks permit for data that was not durable.

use std::collections::BTreeSet;

use drivebay_crash::{Kind, Rules, Standard, State, States};
use tempfile::{TempDir, tempdir};

use crate::support::{PAGE, Step, bytes_of, flush, record, rules, states, write};

fn of(standard: Standard, atomic_bytes: u64) -> Rules {
    Rules { standard: Some(standard), atomic_bytes, ..rules() }
}

fn sectors(lba: u64, sectors: u64, fill: u8) -> [Step; 2] {
    [Step::Write { lba, sectors, fill, fua: false }, Step::Complete(0)]
}

/// Returns the names of all states with damage.
fn damaged(states: &States) -> BTreeSet<String> {
    let (list, coverage) = states.enumerate(10_000, 1).expect("readable");
    let names: BTreeSet<String> =
        list.iter().map(State::to_string).filter(|name| name.contains('+')).collect();
    assert_eq!((coverage.cuts, coverage.damaged), (coverage.cuts_exhausted, names.len()));
    names
}

fn units(names: &BTreeSet<String>, kind: &str) -> BTreeSet<u32> {
    let damage = names.iter().filter_map(|name| name.split_once(&format!("+{kind}:")));
    damage.map(|(_, unit)| unit.parse().expect("a number")).collect()
}

fn shown(folder: &TempDir, states: &States, name: &str) -> Vec<u8> {
    bytes_of(folder, states, &[name.parse().expect("a name")]).remove(0).1
}

#[test]
fn without_a_standard_nothing_is_damaged() {
    let folder = tempdir().expect("a folder");
    let path = record(&folder, 64, &[write(0, 1), write(1, 2)].concat());
    assert!(damaged(&states(&path, rules())).is_empty());
}

#[test]
fn nvme_damages_parts_of_writes_above_the_atomic_size_only() {
    let folder = tempdir().expect("a folder");
    let steps = [write(0, 1), flush(), sectors(0, 8, 2), sectors(8, 16, 3)].concat();
    let path = record(&folder, 64, &steps);
    let states = states(&path, of(Standard::Nvme, 4096));
    let names = damaged(&states);
    for kind in ["garbage", "sheared", "unreadable"] {
        assert_eq!(units(&names, kind), [2, 3].into(), "{kind}");
    }
    // The last cut is after the flush; unit 2 is the first half of the large write.
    let cut = states.last().expect("it has commands").to_string();
    let name = |suffix: &str| cut.replace("lost:", &format!("lost:+{suffix}"));
    let sheared = shown(&folder, &states, &name("sheared:2"));
    assert_eq!(sheared[PAGE..2 * PAGE], [[3u8; 2048], [0; 2048]].concat());
    let garbage = shown(&folder, &states, &name("garbage:2"));
    assert_eq!((garbage[..PAGE].to_vec(), garbage[2 * PAGE]), (vec![2; PAGE], 3));
    assert!(garbage[PAGE..2 * PAGE].iter().collect::<BTreeSet<_>>().len() > 100);
    assert_eq!(garbage, shown(&folder, &states, &name("garbage:2")), "the same each time");
    let unreadable = states.timeline(&name("unreadable:2").parse().expect("a name"));
    assert_eq!(unreadable.expect("a state").damage, Some((Kind::Unreadable, 8, 8)));
}

#[test]
fn nvme_keeps_a_write_up_to_the_atomic_size_whole_wherever_it_begins() {
    let folder = tempdir().expect("a folder");
    let path = record(&folder, 64, &sectors(4, 8, 1));
    for (standard, torn) in [(Standard::Nvme, false), (Standard::Disk, true)] {
        let states = states(&path, of(standard, 4096));
        let (list, _) = states.enumerate(100, 1).expect("readable");
        let whole = list.iter().filter(|state| !state.to_string().contains('+')).cloned();
        let contents = bytes_of(&folder, &states, &whole.collect::<Vec<_>>());
        let count = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == 1).count();
        let counts: BTreeSet<usize> = contents.iter().map(|(_, bytes)| count(bytes)).collect();
        assert_eq!(counts.contains(&2048), torn, "{standard:?}");
        assert!(counts.contains(&0) && counts.contains(&PAGE));
    }
}

#[test]
fn an_unreadable_part_takes_its_physical_sector_with_it_on_ata_only() {
    let folder = tempdir().expect("a folder");
    let steps = [write(0, 1), flush(), sectors(3, 1, 2)].concat();
    let path = record(&folder, 64, &steps);
    for (standard, wanted) in [(Standard::Ata, (0, 8)), (Standard::Disk, (3, 1))] {
        let states = states(&path, of(standard, 512));
        let names = damaged(&states);
        let kept = units(&names, "sheared").len() + units(&names, "garbage").len();
        assert_eq!(kept > 0, standard == Standard::Ata);
        let unit = *units(&names, "unreadable").last().expect("the last write");
        let cut = states.last().expect("it has commands").to_string();
        let name = format!("{cut}+unreadable:{unit}");
        let damage = states.timeline(&name.parse().expect("a name")).expect("a state").damage;
        assert_eq!(damage, Some((Kind::Unreadable, wanted.0, wanted.1)), "{standard:?}");
        let bytes = shown(&folder, &states, &name);
        let old = bytes[..PAGE].chunks(512).filter(|sector| *sector == [1u8; 512]).count();
        assert_eq!(old as u64, 8 - wanted.1);
    }
}

#[test]
fn sectors_without_data_hold_garbage_where_the_standard_promises_no_zeros() {
    let folder = tempdir().expect("a folder");
    let discard = [Step::Discard { lba: 8, sectors: 8 }, Step::Complete(0)];
    let steps = [write(1, 1).to_vec(), discard.to_vec(), write(2, 0).to_vec(), flush().to_vec()];
    let steps = [&steps.concat()[..], &sectors(24, 1, 4)].concat();
    let path = record(&folder, 64, &steps);
    let zeros = |standard| {
        let states = states(&path, of(standard, 4096));
        let cut = states.last().expect("it has commands").to_string();
        let name: State = format!("{cut}+unwritten:0").parse().expect("a name");
        let bytes = bytes_of(&folder, &states, &[name, cut.parse().expect("a name")]);
        let again =
            |page: usize| bytes[1].1[page * PAGE..][..PAGE] == bytes[0].1[page * PAGE..][..PAGE];
        let damaged = (0..4).filter(|&page| !again(page)).collect::<Vec<_>>();
        assert_eq!(bytes[0].1[3 * PAGE..][..512], [4u8; 512], "what was written");
        damaged
    };
    // Page 1 was deallocated, page 2 has written zeros, page 3 is written in part.
    assert_eq!(zeros(Standard::Nvme), [1, 3]);
    assert_eq!(zeros(Standard::Ata), [1, 3]);
    let disk = states(&path, of(Standard::Disk, 4096));
    assert!(units(&damaged(&disk), "unwritten").is_empty());
}

#[test]
fn damage_to_a_durable_or_foreign_part_is_no_state() {
    let folder = tempdir().expect("a folder");
    let path = record(&folder, 64, &[write(0, 1), flush(), sectors(8, 16, 2)].concat());
    let states = states(&path, of(Standard::Nvme, 4096));
    let cut = states.last().expect("it has commands").to_string();
    for wrong in ["garbage:0", "garbage:99", "unwritten:1"] {
        let name: State = format!("{cut}+{wrong}").parse().expect("a name");
        assert!(states.lost_units(&name).is_err(), "{wrong}");
    }
    for wrong in ["garbage", "garbage:x", "torn:1"] {
        assert!(format!("{cut}+{wrong}").parse::<State>().is_err(), "{wrong}");
    }
    let small: State = format!("{cut}+garbage:1").parse().expect("a name");
    let fewer = states.with_lost(&small, vec![2]).expect("a state").to_string();
    assert!(fewer.ends_with(":lost:2+garbage:1"), "{fewer}");
}
