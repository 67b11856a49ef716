//! Trace replay on real files, tested from outside, as one binary.

mod files;
mod schedule;
