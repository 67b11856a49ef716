//! Errors that prevent the start of a server; the last line of the message is a hint.

use std::fmt::Display;
use std::io;

use drivebay_crash::CrashError;
use drivebay_drive::DeviceError;
use drivebay_run::RunError;
use drivebay_run::snapshot::SnapshotError;

/// Reason for which a server, or a part of it, cannot start. Failures while it serves have their
/// own errors ([`crate::ControlError`], [`crate::Status`]).
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct ServeError {
    text: String,
    is_machine: bool,
}

impl ServeError {
    /// Error for an invalid option or file, from a text with a hint.
    pub(crate) fn option(text: String) -> ServeError {
        ServeError { text, is_machine: false }
    }

    /// Error for an invalid option or file.
    pub(crate) fn refused(what: impl Display, hint: impl Display) -> ServeError {
        ServeError::option(format!("{what}\nhint: {hint}"))
    }

    /// Error for a missing resource of the machine, or one that another program uses.
    pub(crate) fn machine(what: impl Display, hint: impl Display) -> ServeError {
        ServeError { is_machine: true, ..ServeError::refused(what, hint) }
    }

    /// True if the machine lacks something; false if an option is wrong.
    pub fn is_machine(&self) -> bool {
        self.is_machine
    }
}

/// Conversions of errors whose message includes a hint.
macro_rules! from {
    ($($kind:ty: $why:ident => $is_machine:expr, $text:expr;)*) => {$(
        impl From<$kind> for ServeError {
            fn from($why: $kind) -> ServeError {
                ServeError { is_machine: $is_machine, text: $text }
            }
        }
    )*};
}

from! {
    RunError: why => false, why.to_string();
    DeviceError: why => true, why.to_string();
    CrashError: why => true, why.to_string();
    SnapshotError: why =>
        matches!(why, SnapshotError::File { .. } | SnapshotError::Memory(_)), why.to_string();
    io::Error: why =>
        true, format!("no event loop: {why}\nhint: ulimit -n shows how many files may be open");
}
