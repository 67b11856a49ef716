//! Where a replay's requests come from: a file, or the synthesizer.

use crate::error::TraceError;
use crate::order::{GoOn, Trace};
use crate::request::Request;
use crate::synth::Synth;

/// Requests in the order of their times, the first at 0, in blocks.
pub trait Source: Send {
    /// The next requests; None at the end.
    ///
    /// # Errors
    /// What the file gives; [`TraceError::Cancelled`] when `go_on` says no.
    fn next_requests(&mut self, go_on: GoOn<'_>) -> Result<Option<&[Request]>, TraceError>;

    /// What stands in messages for where the requests come from.
    fn name(&self) -> &str;
}

impl Source for Trace {
    fn next_requests(&mut self, go_on: GoOn<'_>) -> Result<Option<&[Request]>, TraceError> {
        self.next_block(go_on)
    }

    fn name(&self) -> &str {
        self.file()
    }
}

impl Source for Synth {
    fn next_requests(&mut self, go_on: GoOn<'_>) -> Result<Option<&[Request]>, TraceError> {
        if go_on() { Ok(self.next_block()) } else { Err(TraceError::Cancelled) }
    }

    fn name(&self) -> &str {
        Synth::name(self)
    }
}
