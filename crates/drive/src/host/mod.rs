//! The host's side of the drive: its interface, the link, and how writes are admitted.

pub mod admission;
pub mod interface;
pub mod link;
