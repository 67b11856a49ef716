//! NVMe: queue entries, data structures, fabrics commands, and the PDUs of NVMe over TCP.
//!
//! Sources: NVM Express base specification 1.4 (queue entries, identify data, log pages, features),
//! NVM Express over Fabrics 1.1 (capsules, connect, properties, discovery log) and its TCP
//! transport (TP 8000). Structures are laid out byte by byte, little-endian, and read from bytes
//! without conversion; reserved bytes are written as zero and ignored when read. Left out:
//! metadata, directives other than data placement, TLS.

mod auth;
mod entry;
mod fabrics;
mod feature;
mod identify;
mod layout;
mod log;
mod pdu;
mod placement;
mod reservation;
mod status;
mod zones;

pub use auth::*;
pub use entry::*;
pub use fabrics::*;
pub use feature::*;
pub use identify::*;
pub use layout::bytes_of;
pub use log::*;
pub use pdu::*;
pub use placement::*;
pub use reservation::*;
pub use status::*;
pub use zones::*;

#[cfg(test)]
#[path = "../../tests/unit/nvme.rs"]
mod tests;
