//! Interface between protocols and a drive: four traits for different purposes, and [`Drive`],
//! which combines them. NBD, NVMe, AHCI and ublk see nothing else. [`crate::Engine`] implements the
//! traits with the model, a test with a vector of bytes (`tests/memory_drive.rs`).
//!
//! **Threads.** A drive and its sessions belong to one thread, that of the event loop. Every call
//! of a [`crate::Session`] gets the drive as `&mut dyn Drive`, which it must not keep. No call
//! blocks for longer than a read from the host's page cache, except where a method says so.
//!
//! **Addresses** are sectors of 512 B of the whole drive. A namespace is a range of sectors; the
//! protocol translates the addresses.
//!
//! **Errors.** A failed command of a host is reported by its completion ([`crate::Status`]), never
//! by [`Io::submit`]. An `io::Error` reports a failure of the store: the data could not be read,
//! written or synced.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use drivebay_drive::{Counters, DeviceError, HandleUse, Health, Sanitize, Zone};
use drivebay_units::Nanos;

use crate::error::ServeError;
use crate::faults::power_cut::PowerCut;
use crate::faults::{FailureMode, Fault, FaultError};
use crate::interface::events::Event;
use crate::interface::latency_monitor::LatencyMonitor;
use crate::interface::report::Report;
use crate::namespace::{
    AccessState, Namespace, NamespaceError, NamespaceFigures, NamespaceTable, NewNamespace,
    Placement,
};
use crate::request::Request;
use crate::state::snapshots::SnapshotError;
use crate::store::Extent;

/// Interface of a drive for a session.
pub trait Drive: Io + Data + Namespaces + Control {}

impl<T: Io + Data + Namespaces + Control> Drive for T {}

/// Requests and their completions.
///
/// **Completion.** Each request completes once, through [`crate::Session::complete`] of the session
/// that submitted it, in a later call than [`Io::submit`], even if it is refused. Exceptions:
/// requests in flight at a power cut or at the restore of a snapshot never complete
/// ([`crate::Session::power_cut`] reports both), and completions of a session that has ended are
/// dropped.
///
/// **Order.** Completions come in the order of the drive's time, not of submission. The effect of a
/// write, TRIM or write-zeroes is visible in [`Data`] when `submit` returns; a read takes its data
/// from there when it completes. So each request takes effect at one moment while it is in flight,
/// and a read sees every write that completed before it was submitted.
///
/// **Durability.** A flush completes when everything that completed before its submission survives
/// a power cut; a write, TRIM or write-zeroes with FUA completes when its own effect does.
pub trait Io {
    /// Submits a request of the session that is being called. `data` is the data of a write, 512
    /// bytes per sector, and empty for other requests; it is not needed after the call.
    ///
    /// The status of the completion is [`crate::Status::OutOfRange`] beyond the drive's end or for
    /// zero sectors, and `ReadOnly`, `NoSpace`, `MediaError` or `Internal` as these are documented.
    fn submit(&mut self, request: Request, data: &[u8]);

    /// Returns the drive's current health log.
    fn health(&mut self) -> Health;

    /// Returns the model's counters.
    fn counters(&mut self) -> Counters;

    /// Returns the counters of OCP's latency monitor.
    fn latency_monitor(&mut self) -> &mut LatencyMonitor;

    /// Traffic of each reclaim unit handle of each reclaim group, followed by that of the frontiers
    /// for copies where handles share one; empty without placement.
    fn handle_use(&self) -> Vec<HandleUse> {
        Vec::new()
    }

    /// Zones in the order of their addresses, in the state after all submitted commands; empty for
    /// a drive without zones.
    fn zones(&self) -> &[Zone] {
        &[]
    }

    /// Returns the drive's current time.
    fn now(&self) -> Nanos;

    /// Makes reads of these sectors fail with [`crate::Status::MediaError`] until they are written,
    /// trimmed or erased. Returns false if there are too many such ranges.
    fn spoil(&mut self, lba: u64, sectors: u64) -> bool;

    /// True if the drive refuses writes because it is worn out.
    fn is_read_only(&mut self) -> bool;

    /// Behavior of the drive after an injected end of life.
    fn failure_mode(&self) -> FailureMode {
        FailureMode::default()
    }

    /// Sets the behavior of the drive after an injected end of life.
    fn set_failure_mode(&mut self, _mode: FailureMode) {}

    /// True if the power is off after a power cut: submitted requests have no effect.
    fn is_off(&self) -> bool;

    /// Number of power cuts.
    fn power_cuts(&self) -> u64 {
        0
    }
}

/// Current content of the sectors, including submitted writes.
///
/// A protocol calls these methods when a read completes, or to answer commands that take no drive
/// time. Ranges must lie on the drive; the caller checks them, otherwise a method panics or returns
/// an error.
pub trait Data {
    /// Number of sectors of the drive.
    fn sectors(&self) -> u64;

    /// Sectors with data: written and not deallocated since, in whole pages of the drive's map.
    fn used_sectors(&self) -> u64;

    /// True if zeros need not be written.
    fn zeroes_fast(&self) -> bool;

    /// Reads whole sectors into `into`; sectors that were never written, or were deallocated, read
    /// as zeros.
    ///
    /// # Errors
    /// The store could not be read; the content of `into` is then undefined.
    fn read(&self, lba: u64, into: &mut [u8]) -> io::Result<()>;

    /// Reads whole sectors and appends them to `out`.
    ///
    /// # Errors
    /// As [`Data::read`]; `out` is then unchanged.
    fn append(&self, lba: u64, sectors: u32, out: &mut Vec<u8>) -> io::Result<()>;

    /// Stores in `into` the slices of memory that hold the sectors, in order, and returns their
    /// number. The slices may cover only the first sectors, or none, if the data is not in memory;
    /// the caller then reads it. Valid until the next `&mut` call.
    fn pieces<'a>(&'a self, lba: u64, sectors: u32, into: &mut [IoSlice<'a>]) -> usize;

    /// Returns the memory into which the data of a write can be put before the write is submitted
    /// without data. It is one slice with the current content of the sectors. Returns `None` if the
    /// write must be submitted with its data. Valid until the next `&mut` call; the caller asks
    /// again after that.
    fn place(&mut self, _lba: u64, _sectors: u32) -> Option<&mut [u8]> {
        None
    }

    /// Data and holes from `lba` on, without gaps, for at most `sectors` sectors and at most `most`
    /// extents. A hole reads as zeros; data may also read as zeros.
    ///
    /// # Errors
    /// The store could not be searched.
    fn extents(&self, lba: u64, sectors: u64, most: usize) -> io::Result<Vec<Extent>>;

    /// Erases sectors for Format or Sanitize: they read as zeros from now on, even after a power
    /// cut. Commands in flight take effect before. Returns the time of the drive at which the
    /// operation ends; commands submitted before then wait. `how` applies to the whole drive; a
    /// part of the drive is trimmed. The call may take as long as the host's file system needs.
    ///
    /// # Errors
    /// The store could not be written: some sectors may keep their content.
    fn erase(&mut self, sectors: Range<u64>, how: Sanitize) -> io::Result<Nanos>;

    /// Like [`Data::erase`] for the whole drive, but the sectors with data read as repetitions of
    /// `pattern`. Also returns true if the pattern could be written; otherwise all sectors read as
    /// zeros.
    ///
    /// # Errors
    /// Like [`Data::erase`].
    fn overwrite(&mut self, how: Sanitize, pattern: u32) -> io::Result<(Nanos, bool)>;

    /// Approximate time to erase a full drive; `None` if it is unknown.
    fn erase_time(&self, _how: Sanitize) -> Option<Nanos> {
        None
    }
}

/// Parts of the drive that hosts see as separate drives, with numbers from 1 to [`NAMESPACES_MAX`].
///
/// Namespaces do not overlap. A [`Namespace`] is a live view, which sessions of other threads may
/// hold: its size changes in place, and is 0 after the namespace is deleted.
pub trait Namespaces {
    /// The namespaces, and the drive's placement.
    fn table(&self) -> &NamespaceTable;

    /// Returns the namespace with this number.
    fn namespace(&self, nsid: u32) -> Option<&Arc<Namespace>> {
        self.table().get(nsid)
    }

    /// State of the access through each portal; empty if the drive does not have several.
    fn access(&self) -> &[AccessState] {
        &[]
    }

    /// Placement configuration, for drives with placement.
    fn placement(&self) -> Option<Placement> {
        self.table().placement()
    }

    /// True if the drive has placement and it is enabled.
    fn is_placed(&self) -> bool {
        self.placement().is_some_and(|placement| placement.is_on)
    }

    /// Enables or disables placement; possible only without namespaces.
    ///
    /// # Errors
    /// As for `create_namespace`.
    fn set_placed(&mut self, _is_placed: bool) -> Result<(), ControlError> {
        Ok(())
    }

    /// Creates an empty, contiguous namespace and returns its number.
    ///
    /// # Errors
    /// [`ControlError::Namespace`]: no free range is large enough, all numbers are used, or the
    /// drive is write-protected. After any other error the namespace exists, but may hold old data,
    /// or may be missing after the next start.
    fn create_namespace(&mut self, wanted: NewNamespace) -> Result<u32, ControlError>;

    /// Sets the block size of a namespace, as a power of two. Its data is unchanged.
    ///
    /// # Errors
    /// As for `create_namespace`.
    fn format_namespace(&mut self, nsid: u32, block_shift: u8) -> Result<(), ControlError>;

    /// Deletes a namespace and its data.
    ///
    /// # Errors
    /// [`ControlError::Namespace`]: the namespace does not exist or is write-protected. Other
    /// errors as for `create_namespace`.
    fn delete_namespace(&mut self, nsid: u32) -> Result<(), ControlError>;

    /// Numbers of all namespaces, in order.
    fn namespace_ids(&self) -> Vec<u32> {
        self.table().iter().map(|(nsid, _)| nsid).collect()
    }

    /// True if a namespace refuses all commands that change its data.
    fn any_is_read_only(&self) -> bool {
        self.table().iter().any(|(_, namespace)| namespace.is_read_only)
    }
}

/// Operations of people and scripts on the drive, other than reading and writing; the control
/// socket calls them.
pub trait Control {
    /// Returns the figures so far.
    fn report(&mut self) -> Report;

    /// Returns the stored events from number `from` on: at most `most`, oldest first.
    fn events(&self, from: u64, most: usize) -> Vec<Event>;

    /// Cuts the power and restores it: commands in flight never complete, data that is not durable
    /// is lost, and the drive takes its time to become ready.
    ///
    /// # Errors
    /// The store could not be rolled back: its content is neither the old nor the new data.
    fn power_cut(&mut self) -> io::Result<PowerCut>;

    /// Lets hosts connect again after a power cut.
    fn power_on(&mut self);

    /// Sets the ambient temperature, -40 to 100 degrees Celsius.
    fn set_ambient_c(&mut self, ambient_c: f64);

    /// Adds a workload's note to the recording, for example that data was confirmed as durable.
    ///
    /// # Errors
    /// [`ControlError::NotRecorded`].
    fn mark(&mut self, text: &str) -> Result<(), ControlError>;

    /// Adds a fault, whose times count from now.
    ///
    /// # Errors
    /// [`ControlError::Fault`]: the fault is invalid.
    fn add_fault(&mut self, fault: Fault) -> Result<(), ControlError>;

    /// Removes all faults.
    fn clear_faults(&mut self);

    /// Sets the state of the access through a portal, by its number from 1 on. Returns the states
    /// of all portals.
    ///
    /// # Errors
    /// [`ControlError::Portal`]: there is no such portal, or the drive has only one.
    fn set_access(
        &mut self,
        portal: usize,
        state: AccessState,
    ) -> Result<Vec<AccessState>, ControlError>;

    /// Sets the size of a namespace in bytes; without a number, of the only namespace. Data beyond
    /// the new end is trimmed permanently.
    ///
    /// # Errors
    /// [`ControlError::Namespace`] or [`ControlError::WhichNamespace`]: nothing has changed. Other
    /// errors as for [`Namespaces::create_namespace`].
    fn resize(&mut self, nsid: Option<u32>, bytes: u64) -> Result<NamespaceFigures, ControlError>;

    /// Takes a snapshot, which replaces one of the same name. Returns the pause of the drive in
    /// seconds of the host's clock; `None` while memory for the snapshot is being prepared: the
    /// caller tries again a little later.
    ///
    /// # Errors
    /// [`ControlError::Snapshot`]: no snapshot was taken.
    fn snapshot(&mut self, name: &str) -> Result<Option<f64>, ControlError>;

    /// Restores the drive to a snapshot, which is kept. Commands in flight never complete, and
    /// connections drop because the drive's content changes under the hosts. Returns the pause of
    /// the drive, in seconds.
    ///
    /// # Errors
    /// [`ControlError::Snapshot`]; if the store failed, its content is neither the old nor the new
    /// data.
    fn restore(&mut self, name: &str) -> Result<f64, ControlError>;

    /// Deletes a snapshot and frees its memory. Returns the pause of the drive, in seconds.
    ///
    /// # Errors
    /// Like [`Control::snapshot`].
    fn forget_snapshot(&mut self, name: &str) -> Result<f64, ControlError>;

    /// Writes a snapshot as a new folder with `data` and `state`, which a server can open. Returns
    /// the pause of the drive, in seconds.
    ///
    /// # Errors
    /// [`ControlError::Snapshot`]: the folder was not created.
    fn clone_snapshot(&mut self, name: &str, folder: &Path) -> Result<f64, ControlError>;
}

/// Reason for which an operation other than reading and writing failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The store's file could not be written.
    #[error("the store failed: {0}\nhint: check the disk: df, dmesg")]
    Store(#[from] io::Error),
    /// The fault is invalid.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// The snapshot operation failed.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The namespace operation is not possible.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The namespaces are changed, but the change could not be saved for the next start.
    #[error(transparent)]
    Kept(#[from] ServeError),
    /// There is no recording, or a power cut or a restored snapshot has ended it.
    #[error("the drive is not recorded\nhint: drivebay serve DRIVE --record FILE")]
    NotRecorded,
    /// The drive refused to trim the data that a namespace loses.
    #[error("the drive refuses: {0}\nhint: drivebay ctl SOCKET status")]
    Drive(#[from] DeviceError),
    /// The drive does not have several portals, or not this one.
    #[error(
        "the drive has no portal {0} of several\nhint: drivebay serve DRIVE --nvme-tcp HOST:PORT --nvme-tcp HOST:PORT"
    )]
    Portal(usize),
    /// The request names no namespace, and there are several.
    #[error("which namespace? There are {0}\nhint: resize NSID SIZE")]
    WhichNamespace(usize),
}
