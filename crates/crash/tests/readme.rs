//! The example of the README.

use drivebay_crash::{Header, Op, Recorder, Recording, Rules, States};

#[test]
fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("recording");
    let rules = Rules {
        buffer_bytes: 1 << 20,
        atomic_bytes: 4096,
        protected: false,
        ignores_flush: false,
        standard: None,
    };
    let header = Header { sectors: 2048, rules: Some(rules), ..Header::default() };
    let mut recorder = Recorder::create(&path, &header).expect("a new file");
    // Two writes of 4 KiB complete, and no flush follows.
    for number in 0..2 {
        recorder.submitted(number, number, (Op::Write, false), (number * 8, 8), &[1; 4096]);
        recorder.completed(number, number, true);
    }
    recorder.end().expect("space for it");
    let recording = Recording::open(&path).expect("a recording");
    let states = States::new(recording, None, None).expect("the recording's rules");
    let (list, _) = states.enumerate(100, 1).expect("a readable file");
    println!("{} states, such as {}", list.len(), list[0]);
    assert_eq!(list.len(), 4); // neither write, the first, the second, both
}
