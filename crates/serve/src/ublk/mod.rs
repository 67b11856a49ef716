//! Block devices of this machine, /dev/ublkbN: the kernel sends their commands to the server.
//!
//! Sources: Documentation/block/ublk.rst and drivers/block/ublk_drv.c of Linux 6.12.
//! docs/adr/0030-ublk-without-libublk.md says why the crate libublk is not used. Each namespace is
//! a device. `control.rs` creates it, makes it visible once the server waits for its commands, and
//! removes it; `device.rs` is its session in the event loop, whose thread is the only one that gets
//! commands from the kernel; `ring.rs` exchanges messages with the kernel for both. Left out:
//! recovery. The kernel fails the commands of a killed server and removes its block device; the
//! remaining character device is removed when a server is started with ublk again. Also left out: a
//! new size while it is served (Linux 6.16); the next start uses the new size.

mod control;
mod device;
mod ring;

pub(crate) use control::{Control, Shape};
