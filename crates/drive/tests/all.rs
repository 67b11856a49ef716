//! The drive's model, tested from outside: every file is a module of this one binary, which compiles and links once.

mod coalescing;
mod commands;
mod compression;
mod events;
mod formula;
mod fuzz_profile;
mod host_interface;
mod idle;
mod lifespan;
mod map_cache;
mod map_journal;
mod oracle;
mod page_types;
mod power;
mod power_cut;
mod profile;
mod prop_ftl;
mod reliability;
mod sanitize;
mod slc_cache;
mod state;
mod steady_state;
mod support;
mod thermal;
mod tlc_drive;
mod wear;
