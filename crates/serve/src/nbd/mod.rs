//! The NBD server: connections and their handshake. What the bytes mean is in `wire::nbd`.
//!
//! A connection begins with the handshake (`handshake.rs`), then transmits (`connection.rs`). Each
//! namespace of a drive is an export; the empty name means the first. Several connections share one
//! drive, and a flush on any of them covers all (CAN_MULTI_CONN). Left out: extended headers. A
//! client that is connected cannot be told of a new size: the protocol has no word for it.

mod connection;
mod handshake;
mod stream;
pub mod tls;

pub use connection::Connection;
pub use handshake::{Export, Exports};
pub use stream::Stream;
