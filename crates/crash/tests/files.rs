//! Tests of files: complete, truncated, damaged and foreign recordings, and views.

use std::fs;
use std::os::unix::fs::FileExt;

use drivebay_crash::{Op, Recording, State, States, View, Why};
use tempfile::tempdir;

use crate::support::{PAGE, Step, bytes_of, flush, record, rules, states, write};

#[test]
fn equal_data_is_in_the_file_once() {
    let folder = tempdir().expect("a folder");
    let steps: Vec<Step> = (0..100).flat_map(|n| write(n % 4, (n % 2) as u8 + 1)).collect();
    let path = record(&folder, 64, &steps);
    let recording = Recording::open(&path).expect("a recording");
    assert_eq!(recording.bytes(), (100 * PAGE as u64, 2 * PAGE as u64));
    assert!(fs::metadata(&path).expect("a file").len() < 5 * PAGE as u64);
    assert_eq!((recording.counts(), recording.is_truncated), ((100, 0, 0), false));
}

#[test]
fn a_truncated_recording_is_used_up_to_its_last_record() {
    let folder = tempdir().expect("a folder");
    let steps = [write(0, 1), write(1, 2), flush()].concat();
    let path = record(&folder, 64, &steps);
    let whole = fs::read(&path).expect("a file");
    let header = whole.windows(2).position(|two| two == b"}B").expect("a block") + 1;
    // Cut in place: some file systems flush a file that is emptied and written again.
    let file = fs::OpenOptions::new().write(true).open(&path).expect("a file");
    let cut = |length: usize| file.set_len(length as u64).expect("cut");
    for length in (header..whole.len()).rev() {
        cut(length);
        let recording = Recording::open(&path).expect("still a recording");
        assert!(recording.is_truncated);
        let states = States::new(recording, None, None).expect("rules of its own");
        states.enumerate(100, 1).expect("readable");
    }
    for length in (0..header).rev() {
        cut(length);
        Recording::open(&path).map(|recording| assert!(recording.is_truncated)).unwrap_or_default();
    }
}

#[test]
fn no_damage_to_a_recording_causes_a_panic() {
    let folder = tempdir().expect("a folder");
    let steps = [write(0, 1).to_vec(), vec![Step::Discard { lba: 0, sectors: 40 }]].concat();
    let path = record(&folder, 64, &steps);
    let whole = fs::read(&path).expect("a file");
    let file = fs::OpenOptions::new().write(true).open(&path).expect("a file");
    for at in 0..whole.len().min(700) {
        file.write_all_at(&[whole[at] ^ 0x81], at as u64).expect("written");
        if let Ok(recording) = Recording::open(&path)
            && let Ok(states) = States::new(recording, Some(rules()), None)
        {
            states.enumerate(100, 1).ok();
        }
        file.write_all_at(&whole[at..=at], at as u64).expect("written");
    }
}

#[test]
fn a_modified_view_is_rebuilt() {
    let folder = tempdir().expect("a folder");
    let path = record(&folder, 64, &[write(0, 1), flush(), write(1, 2)].concat());
    let states = states(&path, rules());
    let file = folder.path().join("view");
    let mut view = View::create(&file).expect("a new file");
    let last = states.last().expect("it has commands");
    assert_eq!(view.show(&states, &last).expect("a state"), 2);
    assert_eq!(view.show(&states, &last).expect("a state"), 0, "nothing differs");
    let lost: State = "1:prefix:0".parse().expect("a name");
    assert_eq!(view.show(&states, &lost).expect("a state"), 1, "a page differs");
    let before = fs::read(&file).expect("a file");
    fs::write(&file, b"a check's own").expect("written");
    view.clear(&states).expect("emptied");
    assert_eq!(fs::read(&file).expect("a file"), vec![0; 64 * 512]);
    view.show(&states, &lost).expect("a state");
    assert_eq!(fs::read(&file).expect("a file"), before);
}

#[test]
fn names_of_states_are_read_back_and_others_refused() {
    let folder = tempdir().expect("a folder");
    let path = record(&folder, 64, &[write(0, 1), write(1, 2)].concat());
    let states = states(&path, rules());
    let bytes = |name: &str| {
        let state: State = name.parse().expect("a name");
        assert_eq!(state.to_string(), name);
        bytes_of(&folder, &states, &[state]).remove(0).1
    };
    assert_eq!(bytes("0:missing:0"), bytes("0:only:1"));
    assert_eq!(bytes("0:prefix:1"), bytes("0:lost:1"));
    assert_eq!(bytes("0:choice:3"), bytes("0:lost:"));
    for wrong in ["", "0", "0:", "0:prefix", "0:prefix:x", "0:torn:1", "x:prefix:0", "0:all:1"] {
        assert!(wrong.parse::<State>().is_err(), "{wrong}");
    }
    for nowhere in ["9:prefix:0", "0:missing:2", "0:choice:4", "0:lost:1,0"] {
        let state = nowhere.parse().expect("a name");
        assert!(states.lost_units(&state).is_err(), "{nowhere}");
    }
}

#[test]
fn a_timeline_says_which_flush_was_missing() {
    let folder = tempdir().expect("a folder");
    let write = |page: u64, fill| Step::Write { lba: page * 8, sectors: 8, fill, fua: false };
    let why = |steps: &[Step], ignores_flush| {
        let path = record(&folder, 64, steps);
        let states = states(&path, drivebay_crash::Rules { ignores_flush, ..rules() });
        let last = states.last().expect("it has commands");
        let lost = states.with_lost(&last, vec![0]).expect("it is volatile");
        let timeline = states.timeline(&lost).expect("a state");
        let first = &timeline.events[0];
        assert_eq!((first.op, first.lost_units, first.units), (Some(Op::Write), 1, 1));
        first.why.expect("it is lost")
    };
    let done = Step::Complete(0);
    assert_eq!(why(&[write(0, 1)], false), Why::InFlight);
    assert_eq!(why(&[write(0, 1), done.clone()], false), Why::NoFlush);
    let in_flight = [write(0, 1), done.clone(), Step::Flush];
    assert_eq!(why(&in_flight, false), Why::FlushInFlight);
    let early = [write(0, 1), Step::Flush, done.clone(), done.clone()];
    assert_eq!(why(&early, false), Why::FlushTooEarly);
    assert_eq!(why(&[&in_flight[..], &[done]].concat(), true), Why::FlushIgnored);
}

/// Returns a log as dm-log-writes writes it, with 512 B sectors.
fn log(entries: &[(u64, u64, u64, &[u8])]) -> Vec<u8> {
    let mut log = Vec::new();
    let sector = |fields: &[u64]| {
        let mut bytes: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
        bytes.resize(512, 0);
        bytes
    };
    log.extend(sector(&[0x006a_7366_7773_6872, 1, entries.len() as u64, 512]));
    for &(lba, sectors, flags, data) in entries {
        let mut entry = sector(&[lba, sectors, flags, data.len() as u64]);
        if flags & 8 != 0 {
            entry[32..32 + data.len()].copy_from_slice(data);
        }
        log.extend(entry);
        if flags & 8 == 0 {
            log.extend(data);
        }
    }
    log
}

#[test]
fn a_log_of_dm_log_writes_is_a_recording() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("log");
    let (first, second) = ([1; 4096], [2; 512]);
    let entries: [(u64, u64, u64, &[u8]); 5] = [
        (0, 8, 0, &first),
        (0, 0, 1, &[]),
        (0, 0, 8, b"promised"),
        (9, 1, 0, &second),
        (8, 8, 4, &[]),
    ];
    let whole = log(&entries);
    fs::write(&path, &whole).expect("written");
    let states = states(&path, rules());
    assert_eq!(states.recording().counts(), (3, 1, 0));
    assert_eq!(states.recording().marks(), ["promised"]);
    let (enumerated, _) = states.enumerate(100, 1).expect("readable");
    let shown = bytes_of(&folder, &states, &enumerated);
    let mut wanted = vec![0; 8192];
    let mut all = Vec::new();
    all.push((None, wanted.clone()));
    wanted[..4096].fill(1);
    all.push((None, wanted.clone()));
    all.push((Some("promised".to_owned()), wanted.clone()));
    wanted[9 * 512..10 * 512].fill(2);
    all.push((Some("promised".to_owned()), wanted));
    let sorted = |mut list: Vec<_>| {
        list.sort();
        list
    };
    assert_eq!(sorted(shown), sorted(all));
    fs::write(&path, &whole[..whole.len() - 600]).expect("written");
    assert!(Recording::open(&path).expect("a log").is_truncated);
}
