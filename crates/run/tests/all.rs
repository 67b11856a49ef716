//! Integration tests of workloads and replay on virtual drives, as one binary.

mod array;
mod readme;
mod replay;
mod runs;
