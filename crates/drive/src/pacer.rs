//! The pacer: a token bucket that limits the rate of work for which other work waits.
//!
//! Source: the token bucket of traffic shaping, the reverse of the leaky bucket of ITU-T I.371. A
//! bucket is fed with tokens, and work draws them, also ahead; tokens that are not drawn are kept
//! up to a bound. The drive's pacers:
//!
//! - Admission of writes (`host/admission.rs`): a token is 1 ns. Fed by time, and by reads if the
//!   profile specifies it. A write draws its interval; `together` writes may draw ahead. Keeps
//!   none.
//! - Balance of garbage collection (`firmware/gc/pacing.rs`): a token is 1/65536 reclaimed page.
//!   Fed by host pages, drawn by an extent at least. Keeps none. Deferred copies: drawn by a round
//!   at least, keeps all.
//! - Duty limit of garbage collection: a token is 1 ns of the flash core. Fed by host pages, drawn
//!   by an extent at least. Keeps none.
//! - Runs of garbage collection: a token is a host page. Fed by host pages, drawn by a command or a
//!   word line at least. Keeps less than that.
//! - Background copies: a token is 1 ns. Fed by time, drawn by an extent at least. Keeps none.
//! - Foreground collection: a token is a host page. Fed by victims, drawn by a number of victims
//!   (`gc.foreground_victims`) or a superblock at least. Keeps their reclaimed pages.
//! - Folding (`firmware/slc_cache.rs`): a token is 1/256 page. Fed by host pages, drawn by a flash
//!   page at least. Keeps none.

use drivebay_units::Nanos;

use crate::persist::{StateError, TIME_MAX, ensure, persist};

/// Maximum number of tokens that are kept.
pub const TOKENS_MAX: i64 = 1 << 50;

/// A token bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// Number of tokens; negative if tokens were drawn ahead.
    tokens: i64,
    /// Time up to which time has fed the bucket, if it does.
    fed_until: Nanos,
}

persist!(Pacer: tokens, fed_until);

impl Pacer {
    /// Adds tokens.
    #[inline(always)]
    pub fn feed(&mut self, tokens: u64) {
        self.tokens = (self.tokens + tokens as i64).min(TOKENS_MAX);
    }

    /// Adds a token for each nanosecond up to `at`, as long as there are no more than `most`;
    /// returns the nanoseconds since the last call.
    #[inline(always)]
    pub fn feed_time(&mut self, at: Nanos, most: i64) -> Nanos {
        let elapsed = at.since_or_zero(self.fed_until);
        self.fed_until = self.fed_until.max(at);
        self.tokens = self.tokens.max((self.tokens + elapsed.0 as i64).min(most));
        elapsed
    }

    /// Takes tokens, also more than there are.
    #[inline(always)]
    pub fn draw(&mut self, tokens: u64) {
        self.tokens -= tokens as i64;
    }

    /// Takes all tokens if there are at least `quantum`.
    #[inline(always)]
    pub fn draw_quantum(&mut self, quantum: u64) -> Option<u64> {
        let due = self.tokens >= quantum as i64;
        due.then(|| std::mem::take(&mut self.tokens) as u64)
    }

    /// True if there are tokens.
    #[inline(always)]
    pub fn allows(&self) -> bool {
        self.tokens > 0
    }

    /// Number of tokens; negative if tokens were drawn ahead.
    #[inline(always)]
    pub fn tokens(&self) -> i64 {
        self.tokens
    }

    /// Discards tokens beyond `most`.
    #[inline(always)]
    pub fn keep(&mut self, most: i64) {
        self.tokens = self.tokens.min(most);
    }

    /// Checks that the bucket holds at most `most` tokens, and that no more were drawn ahead than
    /// possible.
    pub fn check(&self, most: i64) -> Result<(), StateError> {
        let held = self.tokens <= most && self.tokens >= -(TIME_MAX as i64);
        ensure(held && self.fed_until.0 <= TIME_MAX, "a pacer's tokens")
    }
}

#[cfg(test)]
#[path = "../tests/unit/pacer.rs"]
mod tests;
