//! PCI device for a virtual machine that accesses it over vfio-user, independent of the kind of
//! device.
//!
//! `vfio.rs` serves the virtual machine on a separate thread: configuration space (`config.rs`),
//! the guest's memory (`memory.rs`) and its interrupts (`guest.rs`). `nvme/pci` and `ahci`
//! implement the registers. Sources: PCI Local Bus 3.0; PCI Express base specification 3.0, section
//! 7; the vfio-user protocol 0.1 (QEMU, docs/interop/vfio-user.rst). Left out: pin interrupts,
//! registers shared as memory (each access is a message), migration, memory without a file
//! descriptor.

pub(crate) mod config;
pub(crate) mod guest;
pub(crate) mod memory;
pub(crate) mod vfio;
