//! Block device that completes every command at once and moves no data, to measure the time of ublk
//! itself.
//!
//! To measure the time that drives add, run fio on this device and on a served one, in turns. By
//! hand, as root, on a kernel that has ublk (docs/concepts/serving.md): `cargo test --release -p
//! drivebay-serve --lib null_target -- --ignored`, which prints its path and serves until it is
//! killed.

use std::thread;

use super::*;
use crate::namespace::NamespaceTable;

const SECTORS: u64 = 1 << 21;

#[test]
#[ignore = "needs root and a kernel with ublk, and does not end"]
fn null_target() {
    let mut control = ControlRing::new(open_control().expect("ublk")).expect("io_uring");
    let namespaces = NamespaceTable::whole(SECTORS, false);
    let namespace = Arc::clone(namespaces.iter().next().expect("one").1);
    let shape = Shape {
        queues: 1,
        depth: DEPTH_MAX as u16,
        transfer_bytes_max: TRANSFER_BYTES_MAX,
        has_volatile_cache: false,
        unit_bytes: 4096,
    };
    let mut info = shape.info();
    let mut params = shape.params(&namespace);
    control.with(ControlOp::AddDevice, u32::MAX, &mut info, &|| false).expect("a device");
    control.with(ControlOp::SetParams, info.dev_id, &mut params, &|| false).expect("a size");
    let path = format!("/dev/ublkc{}", info.dev_id);
    let file = OpenOptions::new().read(true).write(true).open(path).expect("its device");
    let mut ring = QueueRing::new(file, info.nr_hw_queues, info.queue_depth).expect("queues");
    thread::spawn(move || {
        ring.fetch_all().expect("commands are asked for");
        loop {
            ring.wait().expect("a command");
            while let Some((slot, command)) = ring.next() {
                let bytes = command.expect("no end").nr_sectors * 512;
                ring.commit(slot, bytes as i32);
            }
        }
    });
    let pid = u64::from(std::process::id());
    control.command(ControlOp::StartDevice, info.dev_id, pid).expect("a start");
    println!("/dev/ublkb{}", info.dev_id);
    loop {
        thread::park();
    }
}
