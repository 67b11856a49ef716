//! A virtual drive attached to real hosts, paced by the wall clock.
//!
//! Each drive has one thread. Its event loop (`event_loop/`) reads requests from the sessions of
//! all transports. The engine (`engine/`) asks the model when each request completes and keeps it
//! in flight until then; the loop passes completions to the sessions when they are due (`pacing/`).
//! The store (`store/`) holds the data. A transport (`nbd/`, `nvme/`, `ahci/`, `ublk/`,
//! `control.rs`) implements [`Session`] and sees a [`Drive`], which consists of four traits (both
//! in `interface/`); it knows nothing of the engine or of other transports. `request.rs` has the
//! types that all of them share. `faults/` injects faults and power cuts, `state/` has snapshots
//! and the files next to the model's state, and `server/` creates all of it from options. README.md
//! describes the use without the model; `tests/test_rooms.py` has the rules for imports between the
//! folders.
//!
//! An NVMe/TCP write passes six files on its way to the model: `event_loop/mod.rs`,
//! `nvme/tcp/connection.rs`, `nvme/tcp/queue.rs`, `nvme/io.rs`, `engine/mod.rs`, and `nvme/pdu.rs`
//! of `wire`, which parses it. The engine also puts its data into the store.
//!
//! This crate must not know the internals of the drive's translation layer, nor Python.

pub mod ahci;
mod buffers;
mod control;
mod engine;
mod error;
mod event_loop;
mod faults;
mod interface;
mod lock;
mod memory_limit;
mod namespace;
pub mod nbd;
pub mod nvme;
mod pacing;
mod pci;
mod request;
mod server;
mod state;
mod store;
pub mod ublk;
mod waker;

pub use engine::Engine;
pub use error::ServeError;
pub use event_loop::EventLoop;
pub use event_loop::channel::{Channel, Handle};
pub use event_loop::listener::{Address, Listener};
pub use faults::power_cut::{AfterCut, PowerCut, PowerCutPlan};
pub use faults::{FailureMode, Fault, FaultError, Kind};
pub use interface::drive::{Control, ControlError, Data, Drive, Io, Namespaces};
pub use interface::events::{Event, What};
pub use interface::latency_histogram::LatencyFigures;
pub use interface::latency_monitor::{LatencyCounts, LatencyMonitor, LatencySettings};
pub use interface::report::Report;
pub use interface::session::{Listen, Next, Session};
pub use memory_limit::MemoryLimit;
pub use namespace::{
    AccessState, BLOCK_SHIFTS, NAMESPACES_MAX, Namespace, NamespaceError, NamespaceFigures,
    NamespaceOptions, NamespaceTable, NewNamespace, Placement,
};
pub use pacing::clock::{Pace, TimeScale};
pub use pacing::lateness::LatenessFigures;
pub use pci::memory::GuestMemory;
pub use request::{Completion, Op, Request, SessionId, Status};
pub use server::Server;
pub use server::options::{Document, DriveOptions, Options};
pub use server::precondition::Precondition;
pub use socket2::Socket;
pub use state::identity::{DriveIdentity, IdentityOptions};
pub use state::snapshots::SnapshotError;
pub use store::{Extent, HostDurability, PowerCutLoss, Store};
pub use waker::Waker;
