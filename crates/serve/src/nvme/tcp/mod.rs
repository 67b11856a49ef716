//! NVMe over TCP: one connection is one queue.
//!
//! Source: NVMe over Fabrics 1.1 with the TCP transport (TP 8000). `connection.rs` handles the
//! socket and its PDUs, `queue.rs` the commands of a connected queue, `fabrics.rs` connecting and
//! properties, `auth.rs` the authentication of hosts by a secret. Left out: TLS; therefore it
//! listens on loopback by default.

mod auth;
mod connection;
mod fabrics;
mod output;
mod queue;

pub(crate) use auth::Secrets;
pub(crate) use connection::Connection;
pub use connection::Protocol;
