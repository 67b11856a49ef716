//! A virtual drive attached to real hosts, paced by the wall clock.
//!
//! One thread does everything: the event loop (`event_loop.rs`) reads requests from the sessions of all
//! transports, the engine (`engine.rs`) asks the model when each is done and keeps what is due, and the
//! loop hands completions back when their time has come. Data lies in the store (`store.rs`). A
//! transport implements [`Session`] and [`Listen`] (`session.rs`) and knows nothing of the others.
//! To follow one I/O: `event_loop.rs` -> `nbd/` -> `engine.rs` -> `event_loop.rs` -> `nbd/`.
//!
//! This crate must not know what is inside the drive's translation layer, nor Python.

mod ahci;
mod clock;
mod control;
mod engine;
mod event_loop;
mod faults;
mod lateness;
mod listener;
mod mailbox;
pub mod nbd;
pub mod nvme;
mod pci;
mod power;
pub mod probe;
mod report;
mod server;
mod session;
mod slab;
mod store;
mod sync;
mod volatile;

pub use clock::{Clock, Pace};
pub use engine::{Cut, Done, Engine, Op, Request, Status, Traffic};
pub use event_loop::{Ended, EventLoop, Limits, Post};
pub use faults::{Effect, Fault, FaultError, Faults, Kind};
pub use lateness::{LATE, Lateness};
pub use listener::{Address, AddressError, Listener, Socket};
pub use mailbox::{Handle, Message};
pub use pci::VfioError;
pub use power::{Cuts, CutsError};
pub use report::{LatenessFigures, Report};
pub use server::{Options, ServeError, Server};
pub use session::{Listen, Next, Session, SessionId};
pub use store::{Extent, Store, StoreError};
pub use volatile::Loss;
