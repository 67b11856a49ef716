//! Where a replay's requests come from: a file, or the synthesizer.

use crate::error::TraceError;
use crate::formats::Skipped;
use crate::order::{KeepRunning, Order, Trace};
use crate::placement::Rule;
use crate::reader::TraceFile;
use crate::request::Request;
use crate::synth::{Profile, Synth};

/// Requests in the order of their times, the first at 0, in blocks.
pub trait RequestSource: Send {
    /// The next requests; None at the end.
    ///
    /// # Errors
    /// What the file gives; [`TraceError::Cancelled`] when `keep_running` says no.
    fn next_requests(
        &mut self,
        keep_running: KeepRunning<'_>,
    ) -> Result<Option<&[Request]>, TraceError>;

    /// What stands in messages for where the requests come from.
    fn name(&self) -> &str;

    /// Name of the format.
    fn format(&self) -> &'static str {
        "synthesized"
    }

    /// What was skipped so far.
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
        self.file()
    }

    fn format(&self) -> &'static str {
        Trace::format(self).name()
    }

    fn skipped(&self) -> Skipped {
        Trace::skipped(self)
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

/// A source as data.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceSource {
    /// A recorded trace in a file.
    File {
        /// Where it is, and how to read it.
        file: TraceFile,
        /// Sort all of it first, through a temporary file.
        sort: bool,
    },
    /// Synthesized as it is needed.
    Synth {
        /// One of [`Profile::names`].
        name: String,
        /// Times the published number of I/Os.
        scale: f64,
        /// Of the generator.
        seed: u64,
        /// The text of a profile to be used in place of the one of that name.
        profile: Option<String>,
    },
}

impl TraceSource {
    /// Opens the file, or makes the profile ready.
    ///
    /// # Errors
    /// What is wrong with either.
    pub fn open(&self) -> Result<Box<dyn RequestSource>, TraceError> {
        match self {
            TraceSource::File { file, sort } => {
                let order = if *sort { Order::Sort } else { Order::Window };
                Ok(Box::new(Trace::open(file, order)?))
            }
            TraceSource::Synth { .. } => Ok(Box::new(self.synth()?.expect("it is one"))),
        }
    }

    /// The synthesizer, where it is one.
    ///
    /// # Errors
    /// What is wrong with its profile or options.
    pub fn synth(&self) -> Result<Option<Synth>, TraceError> {
        let TraceSource::Synth { name, scale, seed, profile } = self else { return Ok(None) };
        let text = match profile {
            Some(text) => text,
            None => Profile::text(name)?,
        };
        Ok(Some(Synth::new(Profile::parse(text)?, *scale, *seed)?))
    }

    /// Where the highest address may end, as a placement needs it: of a file 0, for not known,
    /// unless addresses are scaled; then the file is read through.
    ///
    /// # Errors
    /// What is wrong with the trace; [`TraceError::Cancelled`].
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
