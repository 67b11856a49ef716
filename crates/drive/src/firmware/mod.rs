//! The firmware: cores, map, placement, write buffer, garbage collection, caches, and the log it
//! keeps.

pub mod backend;
pub mod controller;
pub mod datapath;
pub mod ftl;
pub mod ftl_core;
pub mod gc;
pub mod health;
pub mod in_place;
pub mod media;
pub mod page_mapped;
pub mod path;
pub mod read_ahead;
pub mod scheduler;
pub mod slc_cache;
pub mod zones;
