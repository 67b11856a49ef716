//! Interface between the event loop, the protocols and a drive: the traits of a session and of a
//! drive, and the data that they exchange besides requests (`request.rs`).

pub(crate) mod drive;
pub(crate) mod events;
pub(crate) mod latency_histogram;
pub(crate) mod latency_monitor;
pub(crate) mod report;
pub(crate) mod session;
