//! Block devices of this machine, /dev/ublkbN, whose commands the server gets from the kernel.
//!
//! Sources: Documentation/block/ublk.rst and drivers/block/ublk_drv.c of Linux 6.12. Why not by the
//! crate libublk: docs/adr/0030-ublk-without-libublk.md. Each namespace is a device. `control.rs`
//! makes it, shows it once its commands are waited for, and takes it away; `device.rs` is its
//! session in the event loop, whose thread is the only one that the kernel hands commands to;
//! `ring.rs` is what both say to the kernel. Left out: recovery. The kernel fails the commands of a
//! server that was killed and takes its device away; what is left, a character device, goes when a
//! server is started with ublk again. Also left out: a new size while it is served (Linux 6.16),
//! which the next start has.

mod control;
mod device;
#[cfg(test)]
mod null;
mod ring;

pub(crate) use control::{Control, Shape};
