//! NVMe: the drive as a controller, over TCP and as a PCIe device.
//!
//! `subsystem.rs` has the state that all controllers share, `controller.rs` one host's view:
//! registers, features, events. `admin/`, `management.rs` and `io.rs` are the command sets,
//! independent of the transport. `tcp/` and `pci/` transfer commands and data. The path of a write
//! over TCP: `event_loop/mod.rs` -> `tcp/connection.rs` -> `tcp/queue.rs` -> `nvme/io.rs` ->
//! `engine/mod.rs` -> the model; the PDU is parsed by `wire`'s `nvme/pdu.rs`.
//!
//! Sources: NVM Express base specification and NVM command set specification 2.0; zones:
//! `zones.rs`. Left out: metadata and protection information, fused commands, security, several
//! endurance groups, effects of power states and their autonomous transitions (the model sleeps by
//! the profile). The model sees a Copy as reads and writes, so it takes the link's time, and its
//! data counts as the host's.

mod access;
mod admin;
mod controller;
mod events;
mod features;
mod identity;
mod io;
mod logs;
mod management;
mod ocp;
pub(crate) mod pci;
mod placement;
mod placement_logs;
mod records;
mod refuse;
mod reservations;
mod subsystem;
pub mod tcp;
mod timestamp;
mod zones;

pub use identity::Identity;
pub(crate) use records::Records;
pub use subsystem::{Shared, Subsystem, Subsystems};
