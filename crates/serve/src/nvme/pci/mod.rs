//! The drive as a PCIe device, for a virtual machine that reaches it over vfio-user.
//!
//! `vfio.rs` answers the virtual machine on a thread of its own: configuration space (`config.rs`),
//! registers, memory to be reached (`memory.rs`), interrupts. What needs the drive it sends to the
//! event loop as letters; there `device.rs` takes commands from the queues and completes them.
//! Sources: NVM Express base specification 1.4, sections 2 to 4 and 7; PCI Express base specification
//! 3.0, section 7; the vfio-user protocol 0.1 (QEMU, docs/interop/vfio-user.rst).
//! Left out: pin and MSI interrupts (MSI-X alone, firmware polls), SGLs, the controller memory buffer,
//! doorbells shared as memory (each is a message), migration, memory without a file descriptor.

mod config;
mod device;
mod memory;
mod shared;
mod vfio;

pub use device::PciDevice;
pub use vfio::{VfioError, serve};
