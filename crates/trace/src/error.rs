//! Why a trace was refused, with the place.

/// Why a trace was refused. Shown as `error:`; what follows the line break as `hint:`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line or record that cannot be read.
    #[error("{file}, {unit} {number}: {problem}\nhint: {hint}")]
    Position {
        /// The file, as the user named it.
        file: String,
        /// "line" or "record".
        unit: &'static str,
        /// Counted from 1.
        number: u64,
        /// What is wrong there, and what is allowed.
        problem: String,
        /// The hint shown to the user.
        hint: String,
    },
    /// The file as a whole.
    #[error("{file}: {problem}\nhint: {hint}")]
    File {
        /// The file, as the user named it.
        file: String,
        /// What is wrong with it.
        problem: String,
        /// The hint shown to the user.
        hint: String,
    },
    /// A format name that is not known; says which are.
    #[error("format {0}\nhint: leave it out to have it detected")]
    UnknownFormat(String),
    /// The machine: no such file, no permission, disk full.
    #[error("{file}: {what}: {error}\nhint: {hint}")]
    Io {
        /// The file, as the user named it.
        file: String,
        /// What failed.
        what: &'static str,
        /// What the operating system answered.
        error: std::io::Error,
        /// The hint shown to the user.
        hint: &'static str,
    },
    /// A request further back in time than the reorder window holds: needs [`crate::Order::Sort`].
    #[error(
        "{file}: a request lies {late_s:.6} s before one that came {window} or more requests earlier\nhint: sort it as a whole, through a temporary file"
    )]
    TooFarBack {
        /// The file, as the user named it.
        file: String,
        /// Seconds by which the request is out of order.
        late_s: f64,
        /// Length of the window in requests.
        window: usize,
    },
    /// A profile to synthesize from, or an option of it.
    #[error(transparent)]
    Synth(#[from] SynthError),
    /// The caller asked to stop.
    #[error("cancelled\nhint: give the same command again")]
    Cancelled,
}

/// Why a synthesis profile or option is refused.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {problem}\nhint: {hint}")]
pub struct SynthError {
    place: String,
    problem: String,
    hint: String,
}

impl SynthError {
    pub(crate) fn new(place: &str, problem: impl Into<String>, hint: &str) -> SynthError {
        SynthError { place: place.into(), problem: problem.into(), hint: hint.into() }
    }
}

/// What a parser found wrong with one line; the reader adds the position.
#[derive(Debug)]
pub struct Problem {
    /// What is wrong, and what is allowed.
    pub what: String,
    /// The hint shown to the user.
    pub hint: String,
    /// It says something of the whole file, so the line cannot be left out.
    pub of_file: bool,
}

impl Problem {
    /// Of the whole file, with a hint of its own.
    #[cold]
    pub fn of_file(what: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem { what: what.into(), hint: hint.into(), of_file: true }
    }

    /// Of this line alone.
    #[cold]
    pub fn new(what: impl Into<String>) -> Problem {
        let hint = "mend or remove that line; is --format (or --from) the right one?".to_string();
        Problem { what: what.into(), hint, of_file: false }
    }
}

/// The first bytes of what was found, printable, for messages.
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
