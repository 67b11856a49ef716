//! NBD
