//! The drive as an AHCI controller with one port, for a virtual machine that accesses it over
//! vfio-user: like an M.2 drive with AHCI firmware.
//!
//! `registers.rs` runs on the vfio-user thread; the registers (`hba.rs`) are behind a lock that it
//! shares with the event loop. There `device.rs` takes commands from the command list in the
//! guest's memory (`list.rs`), and completes them; `ata.rs` decides the action for each command.
//! The path of a read: `registers.rs` -> `hba.rs` -> `device.rs` -> `ata.rs` -> the engine ->
//! `device.rs`.
//!
//! Sources: Serial ATA AHCI 1.3.1; Serial ATA 3.1; ACS-3. Left out: pin interrupts (one MSI vector;
//! firmware polls), more ports, port multipliers, packet devices, FIS-based switching, command
//! completion coalescing, link power states, hot plug, PIO data-out, security. Each register access
//! is a message, so timing is that of the virtual machine.

mod ata;
mod device;
mod hba;
mod list;
pub(crate) mod registers;

pub use ata::Identity;
pub use device::{AhciDevice, Shared};
