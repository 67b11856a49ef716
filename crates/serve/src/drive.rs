//! The drive as protocols see it: the one seam between a session and the engine.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use drivebay_drive::{DeviceError, Health};
use serde::Serialize;

use crate::events::Event;
use crate::faults::{Fault, FaultError};
use crate::namespace::{NamespaceError, NamespaceFigures, Namespaces};
use crate::namespace_file::NamespaceFileError;
use crate::power_cut::PowerCut;
use crate::report::Report;
use crate::request::Request;
use crate::snapshots::SnapshotError;
use crate::store::Store;

/// A drive that a session submits requests to. Completions come later, one by one, through
/// [`crate::session::Session::complete`].
pub trait Drive {
    /// Takes a request; `data` is what a write carries. One that is refused completes, too.
    fn submit(&mut self, request: Request, data: &[u8]);

    /// The data, to be read when a read completes.
    fn data(&self) -> &Store;

    /// The drive's health log at this moment.
    fn health(&mut self) -> Health;

    /// Whether it refuses to be written, as it has worn out.
    fn is_read_only(&mut self) -> bool;

    /// Whether the power is off since a power cut.
    fn is_off(&self) -> bool;

    /// Its parts, as hosts see them.
    fn namespaces(&self) -> &Namespaces;

    /// Makes a namespace of so many sectors, which several controllers may have at a time or not, and returns its number.
    fn create_namespace(&mut self, sectors: u64, is_shared: bool) -> Result<u32, ControlError>;

    /// Deletes a namespace and what it held.
    fn delete_namespace(&mut self, nsid: u32) -> Result<(), ControlError>;

    /// Sectors that hold data: written and not deallocated since, in whole pages of the drive's map.
    fn used_sectors(&self) -> u64;

    /// Format or secure erase: the data of these sectors is gone. Commands in flight are served first.
    fn erase(&mut self, sectors: Range<u64>) -> io::Result<()>;

    /// What has happened since event `from`, as far as it is kept: at most `most` events, oldest first.
    fn events(&self, from: u64, most: usize) -> Vec<Event>;

    /// What a person or a script does to the drive, besides reading and writing.
    fn control(&mut self, command: ControlCommand) -> Result<ControlReply, ControlError>;
}

/// A command of the control socket.
#[derive(Clone, Debug)]
pub enum ControlCommand {
    /// The figures so far.
    Report,
    /// Cuts the power, and restores it.
    PowerCut,
    /// Lets hosts connect again after a power cut.
    PowerOn,
    /// Sets the ambient temperature, -40 to 100 degrees Celsius.
    Ambient(f64),
    /// Injects a fault, whose times count from now.
    AddFault(Fault),
    /// Ends all faults.
    ClearFaults,
    /// Gives a namespace, the only one if none is named, another size, bytes.
    Resize(Option<u32>, u64),
    /// Takes a snapshot of this name.
    Snapshot(String),
    /// Makes the drive what it was at a snapshot.
    Restore(String),
    /// Ends a snapshot.
    Forget(String),
    /// Writes a snapshot as a folder of this name.
    Clone(String, PathBuf),
}

/// What a control command returns.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum ControlReply {
    /// The figures that were asked for.
    Report(Box<Report>),
    /// What the power cut did.
    PowerCut(PowerCut),
    /// It is done.
    Held {
        /// For how long the drive stood still, seconds of the host's clock.
        held_s: f64,
    },
    /// A namespace as it is now.
    Resized(NamespaceFigures),
    /// It is being prepared: to be asked again.
    #[serde(skip)]
    Later,
    /// The command has no reply of its own.
    Success,
}

/// Why a control command failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The store's file could not be written back after a power cut.
    #[error("the store failed: {0}\nhint: see the disk: df, dmesg")]
    Store(#[from] io::Error),
    /// The fault is not possible.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// A snapshot is not possible.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A namespace cannot have this size.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The namespaces are changed, but the next start will not know.
    #[error(transparent)]
    NamespaceFile(#[from] NamespaceFileError),
    /// The drive does not take the TRIM of what a namespace loses.
    #[error("the drive refuses: {0}\nhint: drivebay ctl SOCKET status")]
    Drive(#[from] DeviceError),
    /// Nobody said which namespace.
    #[error("which namespace? There are {0}\nhint: resize NSID SIZE")]
    WhichNamespace(usize),
}
