//! The pacer: a token bucket, which says how fast work may go that other work waits for.
//!
//! Source: the token bucket of traffic shaping, the leaky bucket of ITU-T I.371 the other way
//! round. A bucket is fed with tokens and work draws them, also ahead; what is not drawn is kept up
//! to a bound. The drive's pacers:
//!
//! | pacer | a token | fed by | drawn by, at least | kept |
//! |---|---|---|---|---|
//! | admission of writes (`host/admission.rs`) | ns | time; reads, where the profile says so | a write | none; `together` writes ahead |
//! | garbage collection's balance (`firmware/gc/pacing.rs`) | 1/65536 page given back | host pages | an extent; deferred, a round | none; deferred, all |
//! | its duty limit | ns of the flash core | host pages | an extent | none |
//! | when it runs | host page | host pages | a command, or a word line | less than that |
//! | what is copied in the background | ns | time | an extent | none |
//! | foreground collection | host page | victims | so many victims (`gc.foreground_victims`), or a superblock | what they gave |
//! | folding (`firmware/slc_cache.rs`) | 1/256 page | host pages | a flash page | none |

use drivebay_units::Nanos;

use crate::persist::{StateError, TIME_MAX, ensure, persist};

/// Most tokens that are kept.
pub const TOKENS_MAX: i64 = 1 << 50;

/// A token bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    /// Below zero what was drawn ahead.
    tokens: i64,
    /// Up to when time has fed it, if time does.
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
    /// returns how many there were.
    #[inline(always)]
    pub fn feed_time(&mut self, at: Nanos, most: i64) -> Nanos {
        let elapsed = at.since_or_zero(self.fed_until);
        self.fed_until = self.fed_until.max(at);
        self.tokens = self.tokens.max((self.tokens + elapsed.0 as i64).min(most));
        elapsed
    }

    /// Takes tokens, of which there may be fewer.
    #[inline(always)]
    pub fn draw(&mut self, tokens: u64) {
        self.tokens -= tokens as i64;
    }

    /// Takes all, if there are as many as a quantum.
    #[inline(always)]
    pub fn draw_quantum(&mut self, quantum: u64) -> Option<u64> {
        let due = self.tokens >= quantum as i64;
        due.then(|| std::mem::take(&mut self.tokens) as u64)
    }

    /// Whether there are some.
    #[inline(always)]
    pub fn allows(&self) -> bool {
        self.tokens > 0
    }

    /// How many there are; below zero what was drawn ahead.
    #[inline(always)]
    pub fn tokens(&self) -> i64 {
        self.tokens
    }

    /// Keeps no more than so many.
    #[inline(always)]
    pub fn keep(&mut self, most: i64) {
        self.tokens = self.tokens.min(most);
    }

    /// Whether it holds at most so many, and was not drawn ahead further than can be.
    pub fn check(&self, most: i64) -> Result<(), StateError> {
        let held = self.tokens <= most && self.tokens >= -(TIME_MAX as i64);
        ensure(held && self.fed_until.0 <= TIME_MAX, "a pacer's tokens")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_ahead_is_made_up_for_and_what_is_not_drawn_is_kept_as_far_as_said() {
        let mut pacer = Pacer::default();
        pacer.feed(10);
        pacer.draw(25);
        assert!(!pacer.allows() && pacer.tokens() == -15);
        pacer.feed(20);
        assert!(pacer.allows());
        pacer.keep(3);
        assert_eq!(pacer.tokens(), 3);
        assert_eq!([4, 3].map(|quantum| pacer.draw_quantum(quantum)), [None, Some(3)]);
        assert_eq!(pacer.tokens(), 0);
    }

    #[test]
    fn time_feeds_once() {
        let mut pacer = Pacer::default();
        assert_eq!([5, 3, 9].map(|at| pacer.feed_time(Nanos(at), 7).0), [5, 0, 4]);
        assert_eq!(pacer.tokens(), 7);
        pacer.feed(2);
        pacer.feed_time(Nanos(20), 7);
        assert_eq!(pacer.tokens(), 9, "what else fed it stays");
    }

    #[test]
    fn what_cannot_be_held_is_no_state() {
        let pacer = |tokens| Pacer { tokens, fed_until: Nanos::ZERO };
        assert!(pacer(7).check(7).is_ok() && pacer(-7).check(0).is_ok());
        assert!(pacer(8).check(7).is_err() && pacer(i64::MIN).check(0).is_err());
    }
}
