//! NVMe: the drive as a controller, over TCP and as a PCIe device.
//!
//! `subsystem.rs` is what all controllers share, `controller.rs` one host's view: registers,
//! features, events. `admin.rs`, `management.rs` and `io.rs` are the command sets; they know no
//! transport. `tcp/` and `pci/` carry commands and data. To follow one write over TCP:
//! `event_loop.rs` -> `tcp/connection.rs` -> `tcp/queue.rs` -> `nvme/io.rs` -> `engine.rs` -> the
//! model; the PDU is parsed by `wire`'s `pdu.rs`.
//!
//! Sources: NVM Express base specification and NVM command set specification 2.0; zones:
//! `zones.rs`. Left out: metadata and protection information, fused commands, security, several
//! endurance groups, what power states and their autonomous transitions would do (the model sleeps
//! by the profile). A Copy is reads and writes to the model, so it takes the link's time, and its
//! data counts as the host's.

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
mod reservations;
mod subsystem;
pub mod tcp;
mod timestamp;
mod zones;

pub use identity::Identity;
pub(crate) use records::Records;
pub use subsystem::{Shared, Subsystem, Subsystems};
