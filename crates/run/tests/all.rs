//! Workloads and replay on the virtual drive, tested from outside, as one binary.

mod replay;
mod runs;
