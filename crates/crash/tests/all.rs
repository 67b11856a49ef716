//! Integration tests of crash states, as one binary.

mod damage;
mod every_state;
mod files;
mod readme;
mod support;
