//! The virtual drive: answers "when is this I/O done, and why then?"
//!
//! The path of one I/O: [`Device::accept`] (`device.rs`) takes it through the host interface and the link
//! (`host_interface.rs`, `link.rs`) to the controller's cores (`controller.rs`); [`Device::serve`] on through
//! map, write buffer and dies (`flash.rs`), and back. Resources are timelines (`timeline.rs`), not events:
//! each hands out time once. A [`Device`] is composed of parts that own their state; an optional one is an
//! `Option<Box<_>>`, so that a profile without it pays one comparison at most.
//!
//! This crate must not know sockets, files, the wall clock, Python or statistics.

mod admission;
mod arbiter;
mod command_queue;
mod controller;
mod device;
mod events;
mod flash;
mod flash_core;
mod ftl;
mod gc;
mod health;
mod host_interface;
mod in_place;
mod io;
mod link;
mod map_access;
mod map_cache;
mod map_journal;
mod memory;
mod nand;
mod network;
mod persist;
mod plugin;
mod policy_plugin;
mod power;
mod read_ahead;
mod reliability;
mod slc_cache;
mod spec;
mod stage;
mod staggered_erase;
mod superblock;
mod thermal;
mod timeline;
mod victim_policy;
mod write_buffer;

pub use device::power_cut::Recovery;
pub use device::sanitize::Sanitize;
pub use device::state::STATE_VERSION;
pub use device::{Counters, Device};
pub use events::{Activity, Event, EventKind, Events, FlashActivity, SuperblockState, Trigger};
pub use flash::StreamPage;
pub use ftl::Ftl;
pub use health::Health;
pub use io::{Completion, DeviceError, Io, NextCommand, Op, Posted};
pub use map_cache::MapTraffic;
pub use nand::Variation;
pub use persist::StateError;
pub use policy_plugin::{
    Decides, Decisions, DieRead, DriveView, HostWrite, NONE, Pace, PolicyPlugin, RetriedRead,
    SuperblockView,
};
pub use reliability::Reliability;
pub use spec::{
    Identify, Interface, PowerState, Protocol, QUEUES_MAX, RawSpec, Spec, SpecError, whole_profile,
};
pub use stage::{STAGE_COUNT, Stage, Stages};
pub use superblock::State;
pub use timeline::{Calendar, Fifo};
pub use victim_policy::{Candidate, Choice, VictimPolicy};
