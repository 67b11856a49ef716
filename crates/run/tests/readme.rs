//! The example of the README.

use drivebay_drive::samples::{SM951_AHCI_512, WINDOWS_8_1_Z97};
use drivebay_drive::{Device, Spec};
use drivebay_run::{Control, Pattern, Stop, Workload, run};

#[test]
fn main() {
    let spec = Spec::from_family(WINDOWS_8_1_Z97, SM951_AHCI_512).expect("a valid profile");
    let mut drive = Device::new(spec, 1).expect("memory for the map");
    let load = Workload {
        pattern: Pattern::Random,
        read_percent: 0.0,
        queue_depth: 32,
        span_bytes: 16 << 30,
        stop: Stop::after_s(3.0),
        ..Workload::default()
    };
    let outcome = run(&mut drive, &load, 1, &Control::default()).expect("a valid load");
    for (second, row) in outcome.recorder.rows.iter().enumerate() {
        println!("second {second}: {} writes of 4 KiB", row.io.writes);
    }
    assert_eq!(outcome.recorder.rows.len(), 3);
}
