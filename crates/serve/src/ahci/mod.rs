//! The drive as an AHCI controller with one port, for a virtual machine that reaches it over vfio-user:
//! what an M.2 drive with AHCI firmware is to its host.
//!
//! `front.rs` is on the thread that answers the machine; the registers (`hba.rs`) are behind a lock that
//! it shares with the event loop. There `device.rs` takes commands from the list in the machine's
//! memory (`list.rs`), and answers them; `ata.rs` says what the drive does for a command.
//! To follow one read: `front.rs` -> `hba.rs` -> `device.rs` -> `ata.rs` -> the engine -> `device.rs`.
//!
//! Sources: Serial ATA AHCI 1.3.1; Serial ATA 3.1; ACS-3.
//! Left out: pin interrupts (one MSI vector; firmware polls), more ports, port multipliers, packet
//! devices, FIS-based switching, command completion coalescing, link power states, hot plug, PIO
//! data-out, security. Each register access is a message, so timing is that of the virtual machine.

mod ata;
mod device;
mod front;
mod hba;
mod list;
mod probe;

pub use ata::Names;
pub use front::serve;
pub use probe::Machine;
