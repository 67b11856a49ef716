//! Test support: recordings, and the content of states.

use std::path::{Path, PathBuf};

use drivebay_crash::{Header, Op, Recorder, Recording, Rules, State, States, View};
use tempfile::TempDir;

pub const PAGE: usize = 4096;

/// Rules of a drive whose buffer no test exceeds.
pub fn rules() -> Rules {
    Rules {
        buffer_bytes: 1 << 30,
        atomic_bytes: 4096,
        protected: false,
        ignores_flush: false,
        standard: None,
    }
}

/// A recorded step.
#[derive(Clone, Debug)]
pub enum Step {
    /// Write of sectors filled with a byte.
    Write {
        lba: u64,
        sectors: u64,
        fill: u8,
        fua: bool,
    },
    Discard {
        lba: u64,
        sectors: u64,
    },
    Flush,
    /// Completion of an outstanding command, by its index from the oldest.
    Complete(usize),
    Mark(String),
}

/// Writes steps into a new recording of a drive with `sectors` sectors.
pub fn record(folder: &TempDir, sectors: u64, steps: &[Step]) -> PathBuf {
    let made = std::fs::read_dir(folder.path()).expect("a folder").count();
    let path = folder.path().join(format!("recording-{made}"));
    let rules = Some(rules());
    let header = Header { drive: "test".into(), sectors, rules, ..Header::default() };
    let mut recorder = Recorder::create(&path, &header).expect("a new file");
    let mut waiting = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let (at, number) = (number as u64 * 1000, number as u64);
        let mut submit = |op, fua, lba, sectors, data: &[u8]| {
            recorder.submitted(at, number, (op, fua), (lba, sectors), data);
            waiting.push(number);
        };
        match step {
            &Step::Write { lba, sectors, fill, fua } => {
                submit(Op::Write, fua, lba, sectors, &vec![fill; 512 * sectors as usize]);
            }
            &Step::Discard { lba, sectors } => submit(Op::Discard, false, lba, sectors, &[]),
            Step::Flush => submit(Op::Flush, false, 0, 0, &[]),
            &Step::Complete(which) if which < waiting.len() => {
                let number = waiting.remove(which);
                recorder.completed(at, number, true);
            }
            Step::Complete(_) => {}
            Step::Mark(text) => recorder.mark(at, text),
        }
    }
    recorder.end().expect("written");
    path
}

/// Returns a write that completes before the next step.
pub fn write(page: u64, fill: u8) -> [Step; 2] {
    [Step::Write { lba: page * 8, sectors: 8, fill, fua: false }, Step::Complete(0)]
}

/// Returns a flush that completes.
pub fn flush() -> [Step; 2] {
    [Step::Flush, Step::Complete(0)]
}

pub fn states(path: &Path, rules: Rules) -> States {
    States::new(Recording::open(path).expect("a recording"), Some(rules), None).expect("rules")
}

/// Returns the mark and content of all states, shown in one view.
pub fn bytes_of(
    folder: &TempDir,
    states: &States,
    list: &[State],
) -> Vec<(Option<String>, Vec<u8>)> {
    let path = folder.path().join("view");
    let mut view = View::create(&path).expect("a new file");
    let show = |state: &State| {
        view.show(states, state).expect("a state");
        let mark = states.mark_of(state).map(str::to_owned);
        (mark, std::fs::read(&path).expect("a file"))
    };
    let shown = list.iter().map(show).collect();
    std::fs::remove_file(path).expect("it is there");
    shown
}
