//! The data path between the translation layer and the dies: write buffer, programs that wait for
//! their time, stripes with parity, and the map's own reads and writes. It knows no policy.

pub mod deferred;
pub mod map_access;
pub mod map_cache;
pub mod map_journal;
pub mod stripes;
pub mod write_buffer;
