//! Fault injection, from a script.
//!
//! A fault begins after a time or a number of requests, and lasts for a time or for ever. It
//! changes what the host sees; the model itself is not changed, except for the ambient temperature.
//! Unreadable sectors become readable once they have been written, trimmed or erased, as a drive
//! then stores their data elsewhere. Simplified: also if a power cut undoes that write.

use std::collections::BTreeMap;

use drivebay_units::{Nanos, Rng};
use serde::{Deserialize, Serialize};

use crate::error::ServeError;
use crate::request::{Op, Request, Status};

/// Most faults of a script.
const FAULTS_MAX: usize = 1000;
/// Most pieces of an unreadable range. Writes break a range into pieces; beyond this number the
/// smaller part of a piece that breaks becomes readable, too.
const PIECES_MAX: usize = 100_000;

/// Kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Reads of `lba` and `sectors` fail with a media error, until the sectors are written.
    ReadError,
    /// Completions take `extra_us` longer, for one request in `one_in`.
    Latency,
    /// The drive stops answering.
    Hang,
    /// The drive is worn out: it refuses writes.
    ReadOnly,
    /// The ambient temperature is `celsius`, and stays so after the fault is over.
    Ambient,
}

/// Behavior after [`Kind::ReadOnly`]: OCP's EOL/PLP failure mode, by its number. The model's own
/// end of life, without flash to write to, is always read-only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum FailureMode {
    /// Writes are refused.
    #[default]
    ReadOnly = 1,
    /// Each write is durable when it completes.
    WriteThrough = 2,
    /// Nothing changes.
    Normal = 3,
}

/// Fault of a script, with its begin and duration.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: Kind,
    /// Time from the start of the server to the fault, seconds.
    #[serde(default)]
    pub after_s: f64,
    /// Number of requests before the fault begins.
    #[serde(default)]
    pub after_ios: u64,
    /// Duration, seconds; for ever if missing.
    pub for_s: Option<f64>,
    /// First unreadable sector.
    pub lba: Option<u64>,
    /// Number of sectors; 1 if missing.
    pub sectors: Option<u64>,
    /// Additional latency, microseconds.
    pub extra_us: Option<u64>,
    /// Applies to one request in `one_in`, at random; to every one if missing.
    pub one_in: Option<u64>,
    /// Ambient temperature, degrees Celsius.
    pub celsius: Option<f64>,
}

impl Fault {
    /// Returns a fault that affects every request, from the start on and for ever.
    pub(crate) fn new(kind: Kind) -> Fault {
        let (lba, sectors, extra_us, one_in) = (None, None, None, None);
        let (after_s, after_ios, for_s, celsius) = (0.0, 0, None, None);
        Fault { kind, after_s, after_ios, for_s, lba, sectors, extra_us, one_in, celsius }
    }
}

/// Reason for which a script is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fault {number}: {what}\nhint: {hint}")]
pub struct FaultError {
    number: usize,
    what: &'static str,
    hint: &'static str,
}

impl From<FaultError> for ServeError {
    fn from(why: FaultError) -> ServeError {
        ServeError::option(why.to_string())
    }
}

/// Effect of the faults on a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    /// Status with which the request fails.
    pub status: Option<Status>,
    /// Additional latency.
    pub extra: Nanos,
    /// True if a write is durable when it completes.
    pub is_write_through: bool,
}

struct Running {
    fault: Fault,
    /// Begin on the drive's clock since the server started.
    began: Option<Nanos>,
    /// True after the ambient temperature has been passed to the model.
    is_applied: bool,
    /// True if the fault was reported as active.
    is_reported: bool,
    bad: BadSectors,
}

/// Unreadable sectors: first sector and end of each piece.
#[derive(Default)]
struct BadSectors(BTreeMap<u64, u64>);

impl BadSectors {
    fn touch(&self, request: &Request) -> bool {
        let (lba, end) = (request.lba, request.lba + u64::from(request.sectors));
        self.0.range(..end).next_back().is_some_and(|(_, &until)| until > lba)
    }

    /// Makes sectors readable again.
    fn heal(&mut self, lba: u64, end: u64) {
        while let Some((&first, &until)) =
            self.0.range(..end).next_back().filter(|&(_, &until)| until > lba)
        {
            self.0.remove(&first);
            let mut parts = [(first, lba), (end, until)];
            if self.0.len() >= PIECES_MAX {
                let smaller = usize::from(lba.saturating_sub(first) > until.saturating_sub(end));
                parts[smaller] = (0, 0);
            }
            self.0.extend(parts.into_iter().filter(|(first, until)| first < until));
        }
    }
}

impl Running {
    fn ends(&self) -> Nanos {
        let began = self.began.unwrap_or_default();
        self.fault.for_s.map_or(Nanos(u64::MAX), |s| began.after(nanos(s)))
    }

    fn is_active(&self, now: Nanos) -> bool {
        self.began.is_some() && now < self.ends()
    }
}

fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}

/// Faults of a server.
pub(crate) struct Faults {
    running: Vec<Running>,
    /// Sectors that a host has made unreadable (Write Uncorrectable).
    spoiled: BadSectors,
    /// Draws the requests that a fault affects.
    pub rng: Rng,
    /// Reads that failed with a media error.
    pub media_errors: u64,
    pub failure_mode: FailureMode,
    /// Sectors of the drive.
    sectors: u64,
}

impl Faults {
    /// No faults of a drive with this number of sectors.
    pub fn new(rng: Rng, sectors: u64) -> Faults {
        Faults {
            running: Vec::new(),
            spoiled: BadSectors::default(),
            rng,
            media_errors: 0,
            failure_mode: FailureMode::default(),
            sectors,
        }
    }

    /// Adds a fault; its times count from the start of the server.
    pub fn add(&mut self, fault: Fault) -> Result<(), FaultError> {
        let number = self.running.len() + 1;
        check(&fault, number, self.sectors)?;
        let first = fault.lba.unwrap_or_default();
        let end = first.saturating_add(fault.sectors.unwrap_or(1));
        let bad = BadSectors(fault.lba.map(|_| (first, end)).into_iter().collect());
        let (is_applied, is_reported) = (false, false);
        self.running.push(Running { fault, began: None, is_applied, is_reported, bad });
        Ok(())
    }

    /// Ends all faults; returns those that were active.
    pub fn clear(&mut self) -> Vec<Kind> {
        let running = std::mem::take(&mut self.running);
        running.into_iter().filter(|r| r.is_reported).map(|r| r.fault.kind).collect()
    }

    /// Faults that have begun (true) or ended (false) since the last call.
    pub fn changes(&mut self, now: Nanos) -> Vec<(Kind, bool)> {
        let changed = self.running.iter_mut().filter(|r| r.is_active(now) != r.is_reported);
        let tell = |r: &mut Running| {
            r.is_reported = !r.is_reported;
            (r.fault.kind, r.is_reported)
        };
        changed.map(tell).collect()
    }

    /// Begins the faults that are due. Returns a new ambient temperature.
    pub fn begin(&mut self, now: Nanos, requests: u64) -> Option<f64> {
        let mut ambient_c = None;
        for running in &mut self.running {
            let Fault { after_s, after_ios, kind, celsius, .. } = running.fault;
            if running.began.is_none() && now >= nanos(after_s) && requests >= after_ios {
                running.began = Some(now);
            }
            if kind == Kind::Ambient && running.began.is_some() && !running.is_applied {
                running.is_applied = true;
                ambient_c = celsius;
            }
        }
        ambient_c
    }

    /// True if there are any faults that commands may meet.
    pub fn are_any(&self) -> bool {
        !self.running.is_empty()
    }

    /// Returns the effect of the faults on a request that is submitted now.
    pub fn effect(&mut self, now: Nanos, request: &Request) -> Effect {
        let mut effect = Effect::default();
        for running in self.running.iter().filter(|r| r.is_active(now)) {
            let fault = &running.fault;
            match fault.kind {
                Kind::ReadError if request.op == Op::Read && running.bad.touch(request) => {
                    effect.status = Some(Status::MediaError);
                }
                Kind::Latency if self.rng.below(fault.one_in.unwrap_or(1)) == 0 => {
                    let extra = Nanos::micros(fault.extra_us.unwrap_or_default());
                    effect.extra = effect.extra.after(extra);
                }
                Kind::ReadOnly if request.op.changes_data() => match self.failure_mode {
                    FailureMode::ReadOnly => effect.status = Some(Status::ReadOnly),
                    FailureMode::WriteThrough => effect.is_write_through = true,
                    FailureMode::Normal => {}
                },
                _ => {}
            }
        }
        if request.op == Op::Read && self.spoiled.touch(request) {
            effect.status = Some(Status::MediaError);
        }
        self.media_errors += u64::from(effect.status == Some(Status::MediaError));
        effect
    }

    /// Makes reads of these sectors fail until they are written or erased, as a host requests.
    /// Returns false if there are too many pieces.
    pub fn spoil(&mut self, lba: u64, sectors: u64) -> bool {
        self.spoiled.heal(lba, lba + sectors);
        let has_room = self.spoiled.0.len() < PIECES_MAX;
        if has_room {
            self.spoiled.0.insert(lba, lba + sectors);
        }
        has_room
    }

    /// Makes sectors readable that have been written or erased.
    pub fn heal(&mut self, now: Nanos, lba: u64, sectors: u64) {
        for running in self.running.iter_mut().filter(|r| r.is_active(now)) {
            running.bad.heal(lba, lba + sectors);
        }
        self.spoiled.heal(lba, lba + sectors);
    }

    /// True if the drive refuses writes now.
    pub fn is_read_only(&self, now: Nanos) -> bool {
        self.failure_mode == FailureMode::ReadOnly
            && self.running.iter().any(|r| r.fault.kind == Kind::ReadOnly && r.is_active(now))
    }

    /// Time until which nothing completes, if the drive hangs now.
    pub fn hangs_until(&self, now: Nanos) -> Option<Nanos> {
        let hanging =
            self.running.iter().filter(|r| r.fault.kind == Kind::Hang && r.is_active(now));
        hanging.map(Running::ends).max()
    }
}

/// Checks that all faults of a script are valid.
pub(crate) fn check_all(faults: &[Fault], sectors: u64) -> Result<(), FaultError> {
    faults.iter().zip(1..).try_for_each(|(fault, number)| check(fault, number, sectors))
}

fn check(fault: &Fault, number: usize, drive_sectors: u64) -> Result<(), FaultError> {
    let wrong = |what, hint| Err(FaultError { number, what, hint });
    if number > FAULTS_MAX {
        return wrong("a script has at most 1000", "leave some out");
    }
    let time = |s: f64| (0.0..=1e8).contains(&s);
    if !time(fault.after_s) || !fault.for_s.is_none_or(time) {
        return wrong("after_s and for_s are 0 to 1e8 seconds", "after_s = 10.0");
    }
    let Fault { kind, lba, sectors, extra_us, one_in, celsius, .. } = *fault;
    if (kind == Kind::ReadError) != lba.is_some() || (sectors.is_some() && lba.is_none()) {
        return wrong(
            "lba and sectors belong to read-error, which needs lba",
            "kind = \"read-error\", lba = 2048, sectors = 8",
        );
    }
    let end = lba.unwrap_or_default().saturating_add(sectors.unwrap_or(1));
    if lba.is_some() && end > drive_sectors {
        return wrong("lba and sectors end beyond the drive", "sectors of 512 B count from 0");
    }
    if (kind == Kind::Latency) != extra_us.is_some() || (one_in.is_some() && extra_us.is_none()) {
        return wrong(
            "extra_us and one_in belong to latency, which needs extra_us",
            "kind = \"latency\", extra_us = 20000, one_in = 1000",
        );
    }
    if extra_us.is_some_and(|us| us > 100_000_000_000) || one_in == Some(0) || sectors == Some(0) {
        return wrong("extra_us is at most 1e11, one_in and sectors at least 1", "one_in = 1000");
    }
    let possible = |c: f64| (-40.0..=100.0).contains(&c);
    if (kind == Kind::Ambient) != celsius.is_some() || !celsius.is_none_or(possible) {
        return wrong(
            "celsius, -40 to 100, belongs to ambient, which needs it",
            "kind = \"ambient\", celsius = 70.0",
        );
    }
    Ok(())
}

#[cfg(test)]
#[path = "../../tests/unit/faults_injected.rs"]
mod tests;
