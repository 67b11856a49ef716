//! The C interface, called from Rust.
#![allow(unsafe_code)]

#[allow(dead_code, reason = "kinds of requests that only C names")]
#[path = "../src/lib.rs"]
mod capi;
mod equal;
mod errors;
