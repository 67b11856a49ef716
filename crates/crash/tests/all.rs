//! The tests of the crate, in one binary.

mod every_state;
mod files;
mod support;
