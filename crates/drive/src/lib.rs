//! The virtual drive: computes when an I/O completes, and why.
//!
//! Folders: `host/` (interface, link, queue), `firmware/`, `nand/` (dies, and media written in
//! place), `physics/` (heat, power, errors) and `profile/`; `tests/test_rooms.py` defines which
//! folder may import which.
//!
//! The path of one I/O: [`Device::accept`] (`device.rs`) takes it through the host interface and
//! the link (`host/interface.rs`, `host/link.rs`) to the controller's cores
//! (`firmware/controller.rs`); [`Device::serve`] takes it through map, write buffer and dies
//! (`firmware/backend.rs`), and back. Resources are timelines (`timeline.rs`), not events: each
//! assigns a time once. A [`Device`] is composed of parts that own their state; an optional part is
//! an `Option<Box<_>>`, so that a profile without it pays one comparison at most.
//!
//! This crate must not know sockets, files, the wall clock, Python or statistics.

mod device;
mod events;
mod firmware;
mod host;
mod io;
mod memory;
mod nand;
mod operations;
mod pacer;
mod per_stream;
mod persist;
mod physics;
mod plugin;
mod policy_plugin;
mod profile;
pub mod samples;
mod stage;
mod superblock;
mod timeline;
mod victim_policies;

pub use device::life::Mark;
pub use device::power_cut::Recovery;
pub use device::report::HandleUse;
pub use device::sanitize::Sanitize;
pub use device::state::STATE_VERSION;
pub use device::{Counters, Device};
pub use events::{Activity, Event, EventKind, Events, FlashActivity, SuperblockState, Trigger};
pub use firmware::datapath::StreamPage;
pub use firmware::datapath::map_cache::MapTraffic;
pub use firmware::ftl::Ftl;
pub use firmware::health::Health;
pub use firmware::zones::{Zone, ZoneState};
pub use io::{Completion, DeviceError, Io, NextCommand, Op, Posted, ZoneProblem};
pub use operations::{NOWHERE, Operation, OperationKind};
pub use persist::StateError;
pub use physics::reliability::Reliability;
pub use physics::variation::Variation;
pub use policy_plugin::{
    Decides, Decisions, DieRead, DriveView, HostWrite, NONE, Pace, PolicyPlugin, RetriedRead,
    SuperblockView,
};
pub use profile::{
    Identify, Interface, PowerState, Protocol, QUEUES_MAX, RawSpec, Spec, SpecError, ZoneSpec,
    ZrwaSpec, whole_profile,
};
pub use stage::{STAGE_COUNT, Stage, Stages};
pub use superblock::State;
pub use timeline::{Calendar, Fifo};
pub use victim_policies::{Sealed, VICTIM_POLICIES, VictimPolicy};
