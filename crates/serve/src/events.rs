//! What has happened to a drive, for people and scripts that watch it: the last events, each with a
//! number.
//!
//! Bounded: a new event takes the place of the oldest. Nobody is waited for; who comes too late is
//! told how many events are gone.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::faults::Kind;
use crate::power_cut::PowerCut;

/// Events that are kept of a drive. guess: at one in a second a quarter of an hour.
const KEPT: usize = 1024;

/// What has happened; times are seconds of the host's clock, or of the drive's where the name says
/// so.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields are named as they are told")]
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
    /// The drive is so hot that it slows itself down, in stages from 1 on; its sensor says so.
    ThrottleBegins {
        stage: usize,
        temperature_c: f64,
    },
    /// It is as fast as it was.
    ThrottleEnds {
        temperature_c: f64,
    },
    /// The link is down, and connections end; how often it has been so.
    LinkDown {
        outages: u64,
    },
    /// It refuses to be written, as it has worn out.
    ReadOnlyBegins,
    ReadOnlyEnds,
    /// In the second before, the host was too slow for the drive: the latencies of the model over
    /// these with what the host added, percent.
    HostLate {
        kept_up_percent: f64,
    },
    /// In the second before, it was not.
    HostKeepsUp {
        kept_up_percent: f64,
    },
    /// With `--time-scale auto`: from now on so many seconds of the drive's clock pass in one of
    /// the host's.
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
    /// So many connections were refused within a tenth of a second, or ended for what they did.
    Refused {
        count: u64,
        why: &'static str,
    },
    /// A snapshot was taken, for which the drive stood still.
    Snapshot {
        name: String,
        held_s: f64,
    },
    /// The drive is what it was at a snapshot.
    Restored {
        name: String,
        held_s: f64,
    },
    /// A snapshot has ended.
    Forgotten {
        name: String,
    },
    /// A snapshot was written as a folder.
    Cloned {
        name: String,
        folder: PathBuf,
    },
    /// A host has made a namespace.
    NamespaceCreated {
        nsid: u32,
        bytes: u64,
    },
    /// A host has deleted a namespace.
    NamespaceDeleted {
        nsid: u32,
    },
    /// A namespace has another size.
    Resized {
        nsid: u32,
        bytes: u64,
    },
    /// Format or Sanitize: all data is gone, or that of a namespace.
    Erased,
}

/// One event.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// Counts a drive's events, from 0.
    pub number: u64,
    /// Seconds since 1970, of the host's clock.
    pub time_s: f64,
    /// The drive's name.
    pub drive: String,
    /// The drive's time since the server started, seconds.
    pub drive_s: f64,
    /// What has happened.
    #[serde(flatten)]
    pub what: What,
}

/// The last events of a drive.
#[derive(Default)]
pub(crate) struct Events {
    kept: VecDeque<Event>,
    /// The number of the next one.
    next: u64,
}

impl Events {
    /// It happens now, at this time of the drive.
    pub fn note(&mut self, drive: &str, drive_s: f64, what: What) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        let time_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let number = self.next;
        self.next += 1;
        self.kept.push_back(Event { number, time_s, drive: drive.to_owned(), drive_s, what });
    }

    /// Those from number `from` on that are kept, oldest first.
    pub fn since(&self, from: u64) -> impl Iterator<Item = &Event> {
        let oldest = self.next - self.kept.len() as u64;
        self.kept.iter().skip(from.saturating_sub(oldest) as usize)
    }
}

#[cfg(test)]
#[path = "../tests/unit/events.rs"]
mod tests;
