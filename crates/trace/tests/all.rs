//! Trace formats, order, statistics and synthesis, tested from outside, as one binary.

mod formats;
mod kernel;
mod mutated;
mod order;
mod prop_parse;
mod stats;
mod support;
mod synth;
