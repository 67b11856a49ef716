//! The wire: what the bytes of a protocol mean, and which bytes say something.
//!
//! Parsers take slices and give typed values or an error; writers append to a buffer. Nothing here
//! keeps state from message to message. This crate must not know drives, sockets, files or clocks.

pub mod ata;
pub mod nbd;
pub mod nvme;
