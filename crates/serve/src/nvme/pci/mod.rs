//! The drive as a PCIe device, for a virtual machine that accesses it over vfio-user.
//!
//! `registers.rs` implements the registers, on the thread that answers the virtual machine
//! (`crate::pci`), and sends tasks that need the drive to the event loop. There `device.rs` takes
//! commands from the queues and completes them; `prp.rs` locates their data. Source: NVM Express
//! base specification 1.4, sections 2 to 4 and 7. Left out: pin and MSI interrupts (only MSI-X,
//! firmware polls), SGLs, the controller memory buffer.

mod device;
mod prp;
pub(crate) mod registers;
mod shared;
