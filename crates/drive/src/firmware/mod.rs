//! The firmware: cores, map, placement, write buffer, garbage collection, caches, and the log it
//! keeps.

pub mod backend;
pub mod controller;
pub mod flash_core;
pub mod flash_media;
pub mod ftl;
pub mod gc;
pub mod health;
pub mod in_place;
pub mod map_access;
pub mod map_cache;
pub mod map_journal;
pub mod media;
pub mod path;
pub mod read_ahead;
pub mod scheduler;
pub mod slc_cache;
pub mod stripes;
pub mod write_buffer;
pub mod zones;
