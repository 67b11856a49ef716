//! A PCI device for a virtual machine that accesses it over vfio-user, whatever the device is.
//!
//! `vfio.rs` serves the virtual machine on a thread of its own: configuration space (`config.rs`),
//! the guest's memory (`memory.rs`) and its interrupts (`guest.rs`). What the registers mean is in
//! `nvme/pci` and `ahci`. Sources: PCI Local Bus 3.0; PCI Express base specification 3.0, section
//! 7; the vfio-user protocol 0.1 (QEMU, docs/interop/vfio-user.rst). Left out: pin interrupts,
//! registers shared as memory (each access is a message), migration, memory without a file
//! descriptor.

pub(crate) mod config;
pub(crate) mod guest;
pub(crate) mod memory;
pub(crate) mod vfio;
