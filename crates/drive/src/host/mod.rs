//! The host's side of the drive: interface, link, and what waits for the firmware.

pub mod admission;
pub mod arbiter;
pub mod command_queue;
pub mod interface;
pub mod link;
