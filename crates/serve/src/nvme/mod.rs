//! NVMe: the drive as a controller, over TCP and as a PCIe device.
//!
//! `subsystem.rs` is what all controllers share, `controller.rs` one host's view: registers, features,
//! events. `admin.rs`, `management.rs` and `io.rs` are the command sets; they know no transport. `tcp/` and `pci/` carry
//! commands and data. To follow one write over TCP: `event_loop.rs` -> `tcp/connection.rs` ->
//! `tcp/queue.rs` -> `nvme/io.rs` -> `engine.rs` -> the model; the PDU is parsed by `wire`'s `pdu.rs`.
//!
//! Source: NVM Express base specification 1.4. Left out: metadata and protection information, fused
//! commands, firmware download, self-test, security, reservations, autonomous
//! power state transitions (the model sleeps by the profile), the time that Format and Sanitize take.

mod admin;
mod controller;
mod events;
mod features;
mod identity;
mod io;
mod logs;
mod management;
pub(crate) mod pci;
mod subsystem;
pub mod tcp;

pub use identity::Identity;
pub use subsystem::{Shared, Subsystem, Subsystems};
