//! The seam between protocols and a drive: four traits, each a question that a protocol has, and
//! [`Drive`], which is all of them. NBD, NVMe, AHCI and ublk see nothing else; [`crate::Engine`]
//! implements them with the model, a test with a vector of bytes (`tests/memory_drive.rs`).
//!
//! **Threads.** A drive and its sessions belong to one thread, that of the event loop. Every call
//! of a [`crate::Session`] gets the drive as `&mut dyn Drive`; none is kept, and none blocks for
//! longer than a read of the host's page cache takes, except where a method says so.
//!
//! **Addresses** are sectors of 512 B of the whole drive. A namespace is a range of them; who
//! translates is the protocol.
//!
//! **Errors.** What a host asks for fails in the completion ([`crate::Status`]), never in
//! [`Io::submit`]. What an `io::Error` is returned for has failed in the store: the data could not
//! be read, written or synced.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use drivebay_drive::{Counters, DeviceError, HandleUse, Health, Sanitize, Zone};
use drivebay_units::Nanos;

use crate::error::ServeError;
use crate::events::Event;
use crate::faults::{Fault, FaultError};
use crate::latency_monitor::LatencyMonitor;
use crate::namespace::{
    NAMESPACES_MAX, Namespace, NamespaceError, NamespaceFigures, NamespaceTable, NewNamespace,
    Placement,
};
use crate::power_cut::PowerCut;
use crate::report::Report;
use crate::request::Request;
use crate::snapshots::SnapshotError;
use crate::store::Extent;

/// All that a session may ask of a drive.
pub trait Drive: Io + Data + Namespaces + Control {}

impl<T: Io + Data + Namespaces + Control> Drive for T {}

/// Requests in, completions out.
///
/// **Completion.** Each request completes once, through [`crate::Session::complete`] of the session
/// that submitted it, in a later call than [`Io::submit`], also one that is refused. Exceptions:
/// after a power cut or a restored snapshot requests that were in flight never complete, which
/// [`crate::Session::power_cut`] tells, and nobody hears those of a session that has ended.
///
/// **Order.** Completions come in the order of the drive's time, not of submission. What a write,
/// TRIM or write-zeroes changes is in [`Data`] when `submit` returns; a read takes its data from
/// there when it completes. So each request takes effect at one moment while it is in flight, and a
/// read sees every write that completed before it was submitted.
///
/// **Durability.** A flush completes when all that completed before it was submitted outlives a
/// power cut; a write, TRIM or write-zeroes with FUA when it does itself.
pub trait Io {
    /// Takes a request of the session that is being called. `data` is what a write carries, 512
    /// bytes for each of its sectors, and empty for others; it is not needed after the call.
    ///
    /// Ends in [`crate::Status::OutOfRange`] beyond the drive's end or for no sectors, in
    /// `ReadOnly`, `NoSpace`, `MediaError` or `Internal` as these say.
    fn submit(&mut self, request: Request, data: &[u8]);

    /// The drive's health log at this moment.
    fn health(&mut self) -> Health;

    /// What it has counted so far.
    fn counters(&mut self) -> Counters;

    /// What OCP's latency monitor has counted.
    fn latency_monitor(&mut self) -> &mut LatencyMonitor;

    /// What went through each reclaim unit handle of each reclaim group so far, and behind them
    /// through the frontiers of copies where they share one; nothing without placement.
    fn handle_use(&self) -> Vec<HandleUse> {
        Vec::new()
    }

    /// The zones, in the order of their addresses, as they are once all that was submitted is done;
    /// none on a drive without.
    fn zones(&self) -> &[Zone] {
        &[]
    }

    /// The drive's time at this moment.
    fn now(&self) -> Nanos;

    /// Reads of these sectors fail with [`crate::Status::MediaError`] until they are written,
    /// trimmed or erased. Returns whether that can be: there may be too many such pieces.
    fn spoil(&mut self, lba: u64, sectors: u64) -> bool;

    /// Whether it refuses to be written now, as it has worn out.
    fn is_read_only(&mut self) -> bool;

    /// Whether the power is off since a power cut: nothing that is submitted is of any use.
    fn is_off(&self) -> bool;

    /// Power cuts so far.
    fn power_cuts(&self) -> u64 {
        0
    }
}

/// What the sectors hold now, submitted writes included.
///
/// A protocol calls these when a read completes, or to answer what needs no time of the drive.
/// Ranges lie on the drive: who asks for others has not checked them, and gets a panic or an error.
pub trait Data {
    /// Sectors of the drive.
    fn sectors(&self) -> u64;

    /// Sectors that hold data: written and not deallocated since, in whole pages of the drive's
    /// map.
    fn used_sectors(&self) -> u64;

    /// Whether zeros need not be written.
    fn zeroes_fast(&self) -> bool;

    /// Reads whole sectors into `into`; what was never written, or deallocated, reads as zeros.
    ///
    /// # Errors
    /// The store could not be read; `into` holds anything then.
    fn read(&self, lba: u64, into: &mut [u8]) -> io::Result<()>;

    /// Reads whole sectors to the end of `out`.
    ///
    /// # Errors
    /// As [`Data::read`]; `out` stays as it was.
    fn append(&self, lba: u64, sectors: u32, out: &mut Vec<u8>) -> io::Result<()>;

    /// Where sectors lie in memory, in order, as far as `into` has places; returns the number of
    /// pieces. They may end early, or there may be none, where data is not in memory: it is read
    /// then. Valid until the next `&mut` call.
    fn pieces<'a>(&'a self, lba: u64, sectors: u32, into: &mut [IoSlice<'a>]) -> usize;

    /// Where the data of a write of these sectors may be put before the write is submitted, without
    /// data: all of it in one piece, which holds what the sectors hold. None where it must be
    /// submitted with its data. Valid until the next `&mut` call; to be asked for again then.
    fn place(&mut self, _lba: u64, _sectors: u32) -> Option<&mut [u8]> {
        None
    }

    /// Data and holes from `lba` on, over at most `sectors` sectors and `most` extents, without a
    /// gap. A hole reads as zeros; what is data may.
    ///
    /// # Errors
    /// The store could not be searched.
    fn extents(&self, lba: u64, sectors: u64, most: usize) -> io::Result<Vec<Extent>>;

    /// Format or sanitize: these sectors read as zeros from now on, whatever the power does.
    /// Commands in flight take effect before. Returns when the drive is done with it, on its clock;
    /// what is submitted before waits until then. `how` is meant for the whole drive; a part of it
    /// is trimmed. May take as long as the host's file system does.
    ///
    /// # Errors
    /// The store could not be written: some sectors may hold what they did.
    fn erase(&mut self, sectors: Range<u64>, how: Sanitize) -> io::Result<Nanos>;

    /// As [`Data::erase`] of the whole drive, but what holds data still does, and reads as
    /// `pattern` over and over. Returns also whether that could be: else all reads as zeros.
    ///
    /// # Errors
    /// As [`Data::erase`].
    fn overwrite(&mut self, how: Sanitize, pattern: u32) -> io::Result<(Nanos, bool)>;

    /// About what erasing all of a drive that is full takes; none where nobody knows.
    fn erase_time(&self, _how: Sanitize) -> Option<Nanos> {
        None
    }
}

/// The parts of the drive that hosts see as drives of their own, by their numbers from 1 to
/// [`NAMESPACES_MAX`].
///
/// None overlap. A [`Namespace`] is a live view, which sessions of other threads may hold: its size
/// changes in place, and is 0 once it is deleted.
pub trait Namespaces {
    /// The one of this number.
    fn namespace(&self, nsid: u32) -> Option<&Arc<Namespace>>;

    /// How often the one of this number has been made, changed or deleted.
    fn changes(&self, nsid: u32) -> u64;

    /// Sectors of no namespace.
    fn free_sectors(&self) -> u64;

    /// The placement that the drive has, if it has any.
    fn placement(&self) -> Option<Placement> {
        None
    }

    /// Whether the drive has placement, and it is switched on.
    fn is_placed(&self) -> bool {
        self.placement().is_some_and(|placement| placement.is_on)
    }

    /// Switches placement on or off, while there are no namespaces.
    ///
    /// # Errors
    /// As for `create_namespace`.
    fn set_placed(&mut self, _is_placed: bool) -> Result<(), ControlError> {
        Ok(())
    }

    /// Makes one, in one piece; returns its number. It holds nothing.
    ///
    /// # Errors
    /// [`ControlError::Namespace`]: there is no piece or no number, or the drive must not change.
    /// Any other: it is made, but may hold what was written there before, or the next start will
    /// not know of it.
    fn create_namespace(&mut self, wanted: NewNamespace) -> Result<u32, ControlError>;

    /// Gives one blocks of so many bytes, as a power of two. Its data stays as it is.
    ///
    /// # Errors
    /// As for `create_namespace`.
    fn format_namespace(&mut self, nsid: u32, block_shift: u8) -> Result<(), ControlError>;

    /// Deletes one and what it held.
    ///
    /// # Errors
    /// [`ControlError::Namespace`]: there is none, or it must not change. Any other as for
    /// `create_namespace`.
    fn delete_namespace(&mut self, nsid: u32) -> Result<(), ControlError>;

    /// The numbers of all, in order.
    fn namespace_ids(&self) -> Vec<u32> {
        (1..=NAMESPACES_MAX as u32).filter(|&nsid| self.namespace(nsid).is_some()).collect()
    }

    /// Whether one of them refuses all that changes its data.
    fn any_is_read_only(&self) -> bool {
        let all = (1..=NAMESPACES_MAX as u32).filter_map(|nsid| self.namespace(nsid));
        all.into_iter().any(|one| one.is_read_only())
    }
}

impl Namespaces for NamespaceTable {
    fn namespace(&self, nsid: u32) -> Option<&Arc<Namespace>> {
        self.get(nsid)
    }

    fn changes(&self, nsid: u32) -> u64 {
        self.changes(nsid)
    }

    fn free_sectors(&self) -> u64 {
        self.free_sectors()
    }

    fn create_namespace(&mut self, wanted: NewNamespace) -> Result<u32, ControlError> {
        Ok(self.create(wanted)?)
    }

    fn format_namespace(&mut self, nsid: u32, block_shift: u8) -> Result<(), ControlError> {
        Ok(self.format(nsid, block_shift)?)
    }

    fn delete_namespace(&mut self, nsid: u32) -> Result<(), ControlError> {
        self.delete(nsid)?;
        Ok(())
    }
}

/// What a person or a script does to the drive, besides reading and writing: the control socket
/// calls these.
pub trait Control {
    /// The figures so far.
    fn report(&mut self) -> Report;

    /// What has happened since event `from`, as far as it is kept: at most `most` events, oldest
    /// first.
    fn events(&self, from: u64, most: usize) -> Vec<Event>;

    /// Cuts the power and restores it: commands in flight never complete, data that is not durable
    /// is lost, and the drive takes its time to become ready.
    ///
    /// # Errors
    /// The store could not be written back: it holds neither the old nor the new data.
    fn power_cut(&mut self) -> io::Result<PowerCut>;

    /// Lets hosts connect again after a power cut.
    fn power_on(&mut self);

    /// Sets the ambient temperature, -40 to 100 degrees Celsius.
    fn set_ambient_c(&mut self, ambient_c: f64);

    /// Notes in the recording of the drive what a workload was promised, in its own words.
    ///
    /// # Errors
    /// [`ControlError::NotRecorded`].
    fn mark(&mut self, text: &str) -> Result<(), ControlError>;

    /// Adds a fault, whose times count from now.
    ///
    /// # Errors
    /// [`ControlError::Fault`]: it is not possible.
    fn add_fault(&mut self, fault: Fault) -> Result<(), ControlError>;

    /// Ends all faults.
    fn clear_faults(&mut self);

    /// Gives a namespace, the only one if none is named, another size, bytes. What it loses is
    /// trimmed, for good.
    ///
    /// # Errors
    /// [`ControlError::Namespace`] or [`ControlError::WhichNamespace`]: nothing has changed. Any
    /// other as for [`Namespaces::create_namespace`].
    fn resize(&mut self, nsid: Option<u32>, bytes: u64) -> Result<NamespaceFigures, ControlError>;

    /// Takes a snapshot, in place of one of the same name. Returns for how long the drive stood
    /// still, seconds of the host's clock; None if memory for it is being made: to be called again,
    /// a little later.
    ///
    /// # Errors
    /// [`ControlError::Snapshot`]: there is none.
    fn snapshot(&mut self, name: &str) -> Result<Option<f64>, ControlError>;

    /// Makes the drive what it was at a snapshot, which stays. Commands in flight never complete,
    /// and connections drop, as hosts know another drive than this. Returns as
    /// [`Control::snapshot`].
    ///
    /// # Errors
    /// [`ControlError::Snapshot`]; where the store failed it holds neither the old nor the new
    /// data.
    fn restore(&mut self, name: &str) -> Result<f64, ControlError>;

    /// Ends a snapshot and frees what it took. Returns and fails as [`Control::snapshot`].
    fn forget_snapshot(&mut self, name: &str) -> Result<f64, ControlError>;

    /// Writes a snapshot as a new folder with `data` and `state`, as a server takes them. Returns
    /// as [`Control::snapshot`].
    ///
    /// # Errors
    /// [`ControlError::Snapshot`]: there is no folder of this name then.
    fn clone_snapshot(&mut self, name: &str, folder: &Path) -> Result<f64, ControlError>;
}

/// Why something besides reading and writing failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The store's file could not be written.
    #[error("the store failed: {0}\nhint: see the disk: df, dmesg")]
    Store(#[from] io::Error),
    /// The fault is not possible.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// A snapshot is not possible.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A namespace cannot be so.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The namespaces are changed, but the next start will not know.
    #[error(transparent)]
    Kept(#[from] ServeError),
    /// There is no recording, or a power cut or a restored snapshot has ended it.
    #[error("the drive is not recorded\nhint: drivebay serve DRIVE --record FILE")]
    NotRecorded,
    /// The drive does not take the TRIM of what a namespace loses.
    #[error("the drive refuses: {0}\nhint: drivebay ctl SOCKET status")]
    Drive(#[from] DeviceError),
    /// Nobody said which namespace.
    #[error("which namespace? There are {0}\nhint: resize NSID SIZE")]
    WhichNamespace(usize),
}
