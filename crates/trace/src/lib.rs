//! Traces: the formats people have, in; fio's and CSV, out; their order and their statistics.
//!
//! A trace streams: memory is bounded whatever its length, see `docs/concepts/traces.md`. Text is parsed
//! by hand, without allocation per line. This crate must not know drives, runs, wall clocks or Python.
