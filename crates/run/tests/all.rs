//! Workloads and replay on the virtual drive, tested from outside, as one binary.

mod array;
mod replay;
mod runs;
