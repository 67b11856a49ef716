//! What the bytes of a protocol mean, and nothing else.
//!
//! No bytes make this crate panic: what cannot be understood is an error with the name the protocol
//! has for it. This crate must not know drives, sockets, files or clocks.

pub mod nvme;
