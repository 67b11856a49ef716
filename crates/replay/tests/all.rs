//! Integration tests of trace replay on real files, as one binary.

mod files;
mod schedule;
