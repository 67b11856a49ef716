//! NBD: the fixed newstyle handshake, and the transmission phase with simple and structured
//! replies.
//!
//! Source: <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>. All numbers are
//! big-endian. Names are the document's, without the prefix. Left out: the old style of handshake,
//! extended headers, resizing, payloads in BLOCK_STATUS.

mod bytes;
mod handshake;
mod transmission;

pub use handshake::*;
pub use transmission::*;
