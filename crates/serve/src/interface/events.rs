//! Events of a drive, for people and scripts that watch it: the most recent ones, each with a
//! number.
//!
//! The number of stored events is limited: a new event replaces the oldest. Nothing waits for
//! readers; a late reader sees from the numbers how many events are lost.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::faults::Kind;
use crate::faults::power_cut::PowerCut;
use crate::namespace::AccessState;

/// Stored events of a drive. guess: with one per second this is a quarter of an hour.
const KEPT: usize = 1024;

/// Kind of event; times are seconds of the host's clock, or of the drive's where the name says so.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields have the names of the output")]
pub enum What {
    /// The power was cut.
    PowerCut(PowerCut),
    /// Hosts may connect again.
    PowerOn,
    FaultBegins {
        kind: Kind,
    },
    FaultEnds {
        kind: Kind,
    },
    /// The drive throttles itself because it is hot, in stages from 1 on; the temperature is the
    /// sensor's.
    ThrottleBegins {
        stage: usize,
        temperature_c: f64,
    },
    /// The drive runs at full speed again.
    ThrottleEnds {
        temperature_c: f64,
    },
    /// The link is down, and connections end; `outages` counts all outages.
    LinkDown {
        outages: u64,
    },
    /// The drive refuses writes, as it is worn out.
    ReadOnlyBegins,
    ReadOnlyEnds,
    /// In the last second the host was too slow for the drive: latencies of the model divided by
    /// the latencies including the host's time, percent.
    HostLate {
        kept_up_percent: f64,
    },
    /// In the last second the host was fast enough again.
    HostKeepsUp {
        kept_up_percent: f64,
    },
    /// New scale of `--time-scale auto`: seconds of the drive's clock per second of the host's.
    TimeScale {
        time_scale: f64,
        kept_up_percent: f64,
    },
    /// A host has chosen this drive.
    Connected {
        protocol: &'static str,
    },
    /// Its connection has ended.
    Disconnected {
        protocol: &'static str,
    },
    /// This number of connections was refused within a tenth of a second, or ended for a violation.
    Refused {
        count: u64,
        why: &'static str,
    },
    /// A snapshot was taken, for which the drive stood still.
    Snapshot {
        name: String,
        held_s: f64,
    },
    /// The drive was restored to a snapshot.
    Restored {
        name: String,
        held_s: f64,
    },
    /// A snapshot was deleted.
    Forgotten {
        name: String,
    },
    /// A snapshot was written as a folder.
    Cloned {
        name: String,
        folder: PathBuf,
    },
    /// A host has created a namespace.
    NamespaceCreated {
        nsid: u32,
        bytes: u64,
    },
    /// A host has deleted a namespace.
    NamespaceDeleted {
        nsid: u32,
    },
    /// A namespace has a new size.
    Resized {
        nsid: u32,
        bytes: u64,
    },
    /// The access through a portal has a new state.
    AnaState {
        portal: usize,
        state: AccessState,
    },
    /// Format or Sanitize has erased all data, or that of a namespace.
    Erased,
}

/// Event of a drive.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// Number among the drive's events, from 0.
    pub number: u64,
    /// Seconds since 1970, of the host's clock.
    pub time_s: f64,
    /// The drive's name.
    pub drive: String,
    /// The drive's time since the server started, seconds.
    pub drive_s: f64,
    /// Kind of event.
    #[serde(flatten)]
    pub what: What,
}

/// Most recent events of a drive.
#[derive(Default)]
pub(crate) struct Events {
    kept: VecDeque<Event>,
    /// Number of the next event.
    next: u64,
}

impl Events {
    /// Adds an event that happens now, at this time of the drive.
    pub fn note(&mut self, drive: &str, drive_s: f64, what: What) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        let time_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let number = self.next;
        self.next += 1;
        self.kept.push_back(Event { number, time_s, drive: drive.to_owned(), drive_s, what });
    }

    /// Stored events from number `from` on, oldest first.
    pub fn since(&self, from: u64) -> impl Iterator<Item = &Event> {
        let oldest = self.next - self.kept.len() as u64;
        self.kept.iter().skip(from.saturating_sub(oldest) as usize)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/interface_events.rs"]
mod tests;
