//! NVMe over TCP: one connection is one queue.
//!
//! Source: NVMe over Fabrics 1.1 with the TCP transport (TP 8000).
//! `connection.rs` is the socket and its PDUs, `queue.rs` the commands of a connected queue,
//! `fabrics.rs` connecting and properties.
//! Left out: TLS and authentication; so it listens on loopback unless told otherwise.

mod connection;
mod fabrics;
mod output;
mod queue;

pub(crate) use connection::Connection;
pub use connection::Protocol;
