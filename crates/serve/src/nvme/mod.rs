//! NVMe: the drive as a controller, over TCP and as a PCIe device.
//!
//! `subsystem.rs` is what all controllers share, `controller.rs` one host's view: registers, features,
//! events. `admin.rs` and `io.rs` are the command sets; they know no transport. `tcp/` and `pci/` carry
//! commands and data. To follow one read over TCP: `tcp/protocol.rs` -> `io.rs` -> the engine ->
//! `io.rs` -> `tcp/protocol.rs`.
//!
//! Source: NVM Express base specification 1.4. Left out: metadata and protection information, fused
//! commands, namespace management, firmware download, self-test, security, reservations, autonomous
//! power state transitions (the model sleeps by the profile), the time that Format and Sanitize take.

mod admin;
mod controller;
mod events;
mod features;
mod identity;
mod io;
mod logs;
pub mod pci;
mod subsystem;
pub mod tcp;

pub use identity::Identity;
pub use subsystem::{Shared, Subsystem};

/// The one namespace.
const NSID: u32 = 1;
/// Stands for all namespaces.
const NSID_ALL: u32 = 0xffff_ffff;
/// Bytes of a block.
const BLOCK_BYTES: u32 = 512;
/// Version of the specification that controllers report: 1.4.
const VERSION: u32 = 0x0001_0400;
