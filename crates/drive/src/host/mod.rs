//! The host's side of the drive: its interface, the link, and admission of writes.

pub mod admission;
pub mod interface;
pub mod link;
