//! The drive as a PCIe device, for a virtual machine that accesses it over vfio-user.
//!
//! `registers.rs` has the registers, on the thread that answers the virtual machine (`crate::pci`).
//! What needs the drive it sends to the event loop; there `device.rs` takes commands from the
//! queues and completes them; `prp.rs` finds their data. Source: NVM Express base specification
//! 1.4, sections 2 to 4 and 7. Left out: pin and MSI interrupts (MSI-X alone, firmware polls),
//! SGLs, the controller memory buffer.

mod device;
mod prp;
pub(crate) mod registers;
mod shared;
