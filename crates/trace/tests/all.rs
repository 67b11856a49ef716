//! Integration tests of trace formats, order, statistics and synthesis, as one binary.

mod formats;
mod kernel;
mod mutated;
mod order;
mod prop_parse;
mod readme;
mod stats;
mod support;
mod synth;
