//! Namespaces of a drive: ranges of its addresses, each of which hosts see as a separate drive.
//!
//! At the start they lie one after the other, or where the user places them; hosts over NVMe may
//! delete and create namespaces. A namespace is contiguous and never moves; its size may change,
//! into the free space after it. Addresses outside of all namespaces are never written: they are
//! spare to the model. Source: NVM Express base specification 1.4, sections 5.20 and 6.1. The
//! attachment of namespaces to controllers belongs to NVMe (`nvme/subsystem.rs`). Left out: thin
//! provisioning, namespaces of several ranges. On a drive with placement (Flexible Data Placement,
//! NVMe 2.1) each namespace has a list of handles, which is fixed when it is created. On a drive
//! with zones each namespace consists of whole zones, with blocks of 4 KiB; the zone limits apply
//! to all namespaces together.

mod access;
mod error;
mod placement;
mod table;
mod view;

pub use access::AccessState;
pub use error::NamespaceError;
pub use placement::Placement;
pub use table::NamespaceTable;
pub(crate) use view::ZONED_BLOCK_SHIFT;
pub use view::{
    BLOCK_SHIFTS, NAMESPACES_MAX, Namespace, NamespaceFigures, NamespaceOptions, NewNamespace,
    SECTOR_SHIFT,
};
