//! The example of the README.

use drivebay_drive::samples::{SM951_AHCI_512, WINDOWS_8_1_Z97};
use drivebay_drive::{Device, Io, Op, Spec, Stage};

#[test]
fn main() {
    let spec = Spec::from_family(WINDOWS_8_1_Z97, SM951_AHCI_512).expect("a valid profile");
    let mut drive = Device::new(spec, 1).expect("memory for the map");
    let mut now = drive.now();
    // 4 KiB each; a write starts when the one before it is complete.
    for page in 0..1000 {
        let write = drive.submit(now, Io::new(Op::Write, page * 8, 8)).expect("a healthy drive");
        now = write.done;
    }
    let read = drive.submit(now, Io::new(Op::Read, 0, 8)).expect("a healthy drive");
    let latency = read.done.since(read.submitted);
    println!("a 4 KiB read takes {} ns:", latency.0);
    for (stage, ns) in Stage::ALL.iter().zip(read.stages.0) {
        println!("{ns:8} {}", stage.name());
    }
    assert_eq!(read.stages.0.iter().sum::<u64>(), latency.0);
}
