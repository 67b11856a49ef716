//! A device on the PCI bus of a virtual machine that reaches it over vfio-user, whatever it is.
//!
//! `machine.rs` serves the machine on a thread of its own: configuration space (`config.rs`), memory to
//! be reached (`memory.rs`). What its registers mean the devices know: `nvme/pci`, `ahci`.
//! Sources: PCI Local Bus 3.0; PCI Express base specification 3.0, section 7; the vfio-user protocol
//! 0.1 (QEMU, docs/interop/vfio-user.rst).
//! Left out: pin interrupts, registers shared as memory (each access is a message), migration, memory
//! without a file descriptor.

mod config;
mod machine;
pub(crate) mod memory;

pub(crate) use config::{CONFIG_BYTES, Config, Interrupts, Layout};
pub use machine::VfioError;
pub(crate) use machine::{Device, serve};
pub(crate) use memory::Memory;
