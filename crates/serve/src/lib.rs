//! A virtual drive attached to real hosts, paced by the wall clock.
//!
//! One thread for each drive does everything: the event loop (`event_loop.rs`) reads requests from the sessions of all
//! transports; the engine (`engine.rs`) asks the model when each is done and keeps it in flight until
//! then; the loop hands completions back when they are due. Data lies in the store (`store/`).
//! A transport implements [`Session`] (`session.rs`), sees a [`Drive`] (`drive.rs`), and knows nothing of
//! the engine or of other transports. The words that all share are in `request.rs`.
//!
//! An NVMe/TCP write passes six files on its way to the model: `event_loop.rs`,
//! `nvme/tcp/connection.rs`, `nvme/tcp/queue.rs`, `nvme/io.rs`, `engine.rs`, and `nvme/pdu.rs` of `wire`,
//! which parses it. On the way the engine puts its data into the store.
//!
//! This crate must not know what is inside the drive's translation layer, nor Python.

pub mod ahci;
mod buffers;
mod channel;
mod clock;
mod control;
mod drive;
mod engine;
mod event_loop;
mod events;
mod faults;
mod identity;
mod inflight;
mod lateness;
mod listener;
mod lock;
mod memory_limit;
mod namespace;
mod namespace_file;
pub mod nbd;
pub mod nvme;
mod pci;
mod power_cut;
mod precondition;
mod report;
mod request;
mod server;
mod session;
mod snapshots;
mod starvation;
mod store;
pub mod ublk;
mod waker;

pub use channel::{Channel, Handle};
pub use clock::{Pace, TimeScale, TimeScaleError};
pub use drive::{ControlCommand, ControlError, ControlReply, Drive};
pub use engine::{Engine, SessionDrive};
pub use event_loop::EventLoop;
pub use events::{Event, What};
pub use faults::{Fault, FaultError, Kind};
pub use identity::{DriveIdentity, IdentityError, IdentityOptions};
pub use lateness::LatenessFigures;
pub use listener::{Address, AddressError, Listener};
pub use memory_limit::MemoryLimit;
pub use namespace::{Namespace, NamespaceError, NamespaceFigures, NamespaceOptions, Namespaces};
pub use namespace_file::NamespaceFileError;
pub use pci::memory::GuestMemory;
pub use pci::vfio::VfioError;
pub use power_cut::{AfterCut, AfterCutError, PowerCut, PowerCutPlan, PowerCutPlanError};
pub use precondition::Precondition;
pub use report::Report;
pub use request::{Completion, Op, Request, SessionId, Status};
pub use server::{DriveOptions, Options, ServeError, Server};
pub use session::{Listen, Next, Session};
pub use snapshots::SnapshotError;
pub use socket2::Socket;
pub use store::{Extent, HostDurability, PowerCutLoss, Store, StoreError};
pub use waker::Waker;
