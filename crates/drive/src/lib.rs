//! The virtual drive: answers "when is this I/O done, and why then?"
//!
//! The path of one I/O: [`Device::submit`] (`device.rs`) takes it through the host interface and the
//! link (`front.rs`), the firmware cores (`controller.rs`), the map (`ftl/`) and the flash
//! (`nand.rs`), and back. Resources are timelines (`timeline.rs`), not events: each hands out time once.
//!
//! This crate must not know sockets, files, the wall clock, Python or statistics.

mod buffer;
mod controller;
mod device;
mod front;
mod ftl;
mod heat;
mod map_cache;
mod memory;
mod nand;
mod portable;
mod raw;
mod reliability;
mod spec;
mod stage;
mod timeline;

pub use device::{Completion, Counters, Device, DeviceError, Io, Op};
pub use ftl::Ftl;
pub use map_cache::MapTraffic;
pub use raw::RawSpec;
pub use reliability::Reliability;
pub use spec::{Spec, SpecError};
pub use stage::{STAGE_COUNT, Stage, Stages};
pub use timeline::{Calendar, Fifo};
