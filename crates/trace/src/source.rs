//! Where a replay's requests come from: a file, or the synthesizer.

use std::path::PathBuf;

use serde::Deserialize;

use crate::error::TraceError;
use crate::formats::Format;
use crate::order::{KeepRunning, Order, Trace};
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
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum TraceSource {
    /// A recording.
    File {
        /// Where it is.
        path: PathBuf,
        /// One of [`Format::ALL`]; detected if not given.
        #[serde(default)]
        format: Option<String>,
        /// Sort all of it first, through a temporary file.
        #[serde(default)]
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
        #[serde(default)]
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
            TraceSource::File { path, format, sort } => {
                let format = format.as_deref().map(Format::from_name).transpose()?;
                let order = if *sort { Order::Sort } else { Order::Window };
                Ok(Box::new(Trace::open(path, format, order)?))
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
}
