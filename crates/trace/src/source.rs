//! Sources of a replay's requests: a file, requests in memory, or the synthesizer.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::TraceError;
use crate::formats::Skipped;
use crate::order::{KeepRunning, Order, Trace};
use crate::placement::Rule;
use crate::reader::TraceFile;
use crate::request::Request;
use crate::synth::{Profile, Synth};

/// Requests in time order, the first at 0, in blocks.
pub trait RequestSource: Send {
    /// Returns the next requests; `None` at the end.
    ///
    /// # Errors
    /// Errors of the file; [`TraceError::Cancelled`] if `keep_running` returns false.
    fn next_requests(
        &mut self,
        keep_running: KeepRunning<'_>,
    ) -> Result<Option<&[Request]>, TraceError>;

    /// Name of the source in messages.
    fn name(&self) -> &str;

    /// Name of the format, and the reason for it; empty for synthesized traces.
    fn format(&self) -> (&'static str, &str) {
        ("synthesized", "")
    }

    /// Skipped entries so far.
    fn skipped(&self) -> Skipped {
        Skipped::default()
    }
}

impl RequestSource for Trace {
    fn next_requests(
        &mut self,
        keep_running: KeepRunning<'_>,
    ) -> Result<Option<&[Request]>, TraceError> {
        self.next_block(keep_running)
    }

    fn name(&self) -> &str {
        self.reader().file()
    }

    fn format(&self) -> (&'static str, &str) {
        (self.reader().format().name(), self.reader().why())
    }

    fn skipped(&self) -> Skipped {
        self.reader().skipped()
    }
}

impl RequestSource for Synth {
    fn next_requests(
        &mut self,
        keep_running: KeepRunning<'_>,
    ) -> Result<Option<&[Request]>, TraceError> {
        if keep_running() { Ok(self.next_block()) } else { Err(TraceError::Cancelled) }
    }

    fn name(&self) -> &str {
        Synth::name(self)
    }
}

/// Requests in memory.
struct Listed {
    path: PathBuf,
    requests: Arc<[Request]>,
    is_done: bool,
}

impl RequestSource for Listed {
    fn next_requests(
        &mut self,
        _keep_running: KeepRunning<'_>,
    ) -> Result<Option<&[Request]>, TraceError> {
        let is_done = std::mem::replace(&mut self.is_done, true) || self.requests.is_empty();
        Ok((!is_done).then_some(&*self.requests))
    }

    fn name(&self) -> &str {
        self.path.to_str().unwrap_or_default()
    }

    fn format(&self) -> (&'static str, &str) {
        ("recording", "the file begins as recordings of drivebay do")
    }
}

/// Description of a source.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceSource {
    /// A recorded trace in a file.
    File {
        /// Path and properties of the file.
        file: TraceFile,
        /// True to sort the whole trace first, through a temporary file.
        sort: bool,
    },
    /// The requests of a recording, in time order.
    Recording {
        /// Path of the file.
        path: PathBuf,
        /// Its requests.
        requests: Arc<[Request]>,
    },
    /// A trace that is synthesized on the fly.
    Synth {
        /// One of [`Profile::names`].
        name: String,
        /// Factor on the published number of I/Os.
        scale: f64,
        /// Seed of the generator.
        seed: u64,
        /// Text of a profile to use instead of the built-in one.
        profile: Option<String>,
    },
}

impl TraceSource {
    /// Opens the file, or prepares the synthesizer.
    ///
    /// # Errors
    /// Errors of the file or the profile.
    pub fn open(&self) -> Result<Box<dyn RequestSource>, TraceError> {
        match self {
            TraceSource::File { file, sort } => {
                let order = if *sort { Order::Sort } else { Order::Window };
                Ok(Box::new(Trace::open(file, order)?))
            }
            TraceSource::Recording { path, requests } => Ok(Box::new(Listed {
                path: path.clone(),
                requests: Arc::clone(requests),
                is_done: false,
            })),
            TraceSource::Synth { .. } => Ok(Box::new(self.synth()?.expect("it is one"))),
        }
    }

    /// Creates the synthesizer; `None` for a file.
    ///
    /// # Errors
    /// Errors of the profile or its options.
    pub fn synth(&self) -> Result<Option<Synth>, TraceError> {
        let TraceSource::Synth { name, scale, seed, profile } = self else { return Ok(None) };
        let text = match profile {
            Some(text) => text,
            None => Profile::text(name)?,
        };
        Ok(Some(Synth::new(Profile::parse(text)?, *scale, *seed)?))
    }

    /// Upper bound of the highest address, as a placement requires it. For a file it is 0 (unknown)
    /// unless addresses are scaled; then the whole file is read.
    ///
    /// # Errors
    /// Errors of the trace; [`TraceError::Cancelled`].
    pub fn recorded_bytes(
        &self,
        rule: Rule,
        keep_running: KeepRunning<'_>,
    ) -> Result<u64, TraceError> {
        if let Some(synth) = self.synth()? {
            return Ok(synth.extent_bytes());
        }
        let mut highest = 0;
        if rule == Rule::Scale {
            let mut source = self.open()?;
            while let Some(block) = source.next_requests(keep_running)? {
                let ends = block.iter().map(|request| request.offset_bytes + request.bytes);
                highest = ends.max().unwrap_or(0).max(highest);
            }
        }
        Ok(highest)
    }
}
