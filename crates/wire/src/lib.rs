//! Wire formats: parsers and writers of protocol bytes.
//!
//! Parsers take slices and return typed values or an error; writers append to a buffer. Nothing
//! here keeps state between messages. This crate must not know drives, sockets, files or clocks.

pub mod ata;
mod codes;
pub mod nbd;
pub mod nvme;
pub mod ublk;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
