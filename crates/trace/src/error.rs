//! Errors of reading and synthesizing traces.

/// Reason why a trace was refused. The text before the line break is shown as `error:`, the rest as
/// `hint:`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line or record cannot be read.
    #[error("{file}, {unit} {number}: {problem}\nhint: {hint}")]
    Position {
        /// Name of the file as the user gave it.
        file: String,
        /// "line" or "record".
        unit: &'static str,
        /// Number of the line or record, counted from 1.
        number: u64,
        /// The problem, and the allowed values.
        problem: String,
        /// The hint shown to the user.
        hint: String,
    },
    /// A file as a whole is refused, or a profile or option of a synthesis.
    #[error("{file}: {problem}\nhint: {hint}")]
    File {
        /// Name of the file, profile or option as the user gave it.
        file: String,
        /// The problem.
        problem: String,
        /// The hint shown to the user.
        hint: String,
    },
    /// Unknown format name, with a list of the known ones.
    #[error("format {0}\nhint: omit it to detect the format")]
    UnknownFormat(String),
    /// An operation of the system failed: no such file, no permission, disk full.
    #[error("{file}: {what}: {error}\nhint: {hint}")]
    Io {
        /// Name of the file as the user gave it.
        file: String,
        /// The failed operation.
        what: &'static str,
        /// Error of the operating system.
        error: std::io::Error,
        /// The hint shown to the user.
        hint: &'static str,
    },
    /// A request is later than the reorder window allows; [`crate::Order::Sort`] is required.
    #[error(
        "{file}: a request is {late_s:.6} s earlier than one that is {window} or more requests before it\nhint: sort the whole trace, through a temporary file"
    )]
    TooFarBack {
        /// Name of the file as the user gave it.
        file: String,
        /// Seconds by which the request is out of order.
        late_s: f64,
        /// Length of the window in requests.
        window: usize,
    },
    /// The job was cancelled.
    #[error("cancelled\nhint: give the same command again")]
    Cancelled,
}

impl TraceError {
    /// Refuses a file as a whole, or a profile or option of a synthesis.
    #[cold]
    pub(crate) fn file(
        file: &str,
        problem: impl Into<String>,
        hint: impl Into<String>,
    ) -> TraceError {
        TraceError::File { file: file.into(), problem: problem.into(), hint: hint.into() }
    }
}

/// Problem that a parser found in a line; the reader adds the position.
#[derive(Debug)]
pub struct Problem {
    /// The problem, and the allowed values.
    pub what: String,
    /// The hint shown to the user.
    pub hint: String,
    /// True if the problem concerns the whole file, so that the line cannot be skipped.
    pub of_file: bool,
}

impl Problem {
    /// Creates a problem of the whole file, with its own hint.
    #[cold]
    pub fn of_file(what: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem { what: what.into(), hint: hint.into(), of_file: true }
    }

    /// Creates a problem of a single line.
    #[cold]
    pub fn new(what: impl Into<String>) -> Problem {
        let hint = "fix or remove that line; is --format (or --from) the right one?".to_string();
        Problem { what: what.into(), hint, of_file: false }
    }
}

/// Printable form of the first bytes of a field, for messages.
#[cold]
pub(crate) fn shown(bytes: &[u8]) -> String {
    const LONGEST: usize = 40;
    let cut = &bytes[..bytes.len().min(LONGEST)];
    let mut text: String = String::from_utf8_lossy(cut)
        .chars()
        .map(|c| if c.is_control() || c == char::REPLACEMENT_CHARACTER { '?' } else { c })
        .collect();
    if bytes.len() > LONGEST {
        text.push_str("...");
    }
    format!("'{text}'")
}
