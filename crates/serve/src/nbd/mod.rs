//! The NBD server: listeners and connections on the engine. What the bytes mean is in `wire::nbd`.
//!
//! A connection goes through the handshake (`handshake.rs`), then transmits (`connection.rs`). Every
//! export name but the drive's and the empty one is refused. Several connections see one drive, and a
//! flush on any of them covers all (CAN_MULTI_CONN).
//! Left out: extended headers; resizing; read-only exports.

mod buffers;
mod connection;
mod handshake;
mod stream;
pub mod tls;

use std::sync::Arc;

use rustls::ServerConfig;

pub use connection::Connection;
pub use stream::Stream;

/// What is exported.
#[derive(Clone, Debug)]
pub struct Export {
    /// TLS is offered, and then required.
    pub tls: Option<Arc<ServerConfig>>,
    /// The drive's name.
    pub name: String,
    /// Its capacity, bytes.
    pub bytes: u64,
}
