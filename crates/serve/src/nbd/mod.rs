//! NBD server: connections and their handshake. `wire::nbd` parses and writes the bytes.
//!
//! A connection begins with the handshake (`handshake.rs`), then transmits (`connection.rs`). Each
//! namespace of a drive is an export; the empty name means the first. Several connections share one
//! drive, and a flush on any of them covers all (CAN_MULTI_CONN). Left out: extended headers. A
//! connected client cannot be notified of a new size: the protocol has no message for it.

mod connection;
mod handshake;
mod stream;
pub mod tls;

pub use connection::Connection;
pub use handshake::{Export, Exports};
pub use stream::Stream;
