//! Latency monitor: counts of commands by latency, in four buckets for reads, writes and
//! deallocations.
//!
//! Source: OCP Datacenter NVMe SSD specification 2.0, Latency Monitoring (log page C3h, feature
//! C5h); its defaults are those of nvme-cli's `ocp set-latency-monitor-feature`, which copy it. A
//! latency is the model's, from the moment at which the server has read the command to its
//! completion by the drive's clock, so the counts match the model exactly. When the bucket timer
//! reaches its threshold, the active counts become the static ones, and start again at zero. Left
//! out: the debug log.

use drivebay_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::request::Op;

/// Unit of a threshold.
const THRESHOLD: Nanos = Nanos::millis(5);
/// Unit of the bucket timer.
const TIMER: Nanos = Nanos::secs(300);
/// Unit of the least time between two timestamps of a bucket.
const WINDOW: Nanos = Nanos::millis(100);

/// Settings of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencySettings {
    /// True if the monitor is enabled.
    pub is_on: bool,
    /// Threshold of the bucket timer, in units of five minutes.
    pub timer_threshold: u16,
    /// Lower latency bound of each bucket: units of 5 ms, minus one.
    pub thresholds: [u8; 4],
    /// Stored for the host, without effect.
    pub config: u16,
    /// Least time between two timestamps, in units of 100 ms.
    pub minimum_window: u8,
}

impl Default for LatencySettings {
    fn default() -> Self {
        LatencySettings {
            is_on: true,
            timer_threshold: 0x7e0,
            thresholds: [0x05, 0x13, 0x1e, 0x2e],
            config: 0xfff,
            minimum_window: 0xa,
        }
    }
}

/// Kinds of commands that are counted.
const KINDS: usize = 3;

/// Counts of a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyCounts {
    /// Commands by bucket: reads, writes, deallocations.
    pub commands: [[u32; KINDS]; 4],
    /// Longest latency of the last window by bucket and kind, and its time on the drive's clock.
    pub longest: [[Option<(Nanos, Nanos)>; KINDS]; 4],
}

/// Latency monitor of a drive.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LatencyMonitor {
    settings: LatencySettings,
    /// Lower bounds of the buckets; shorter latencies are not counted.
    begins: [Nanos; 4],
    /// Start of the active counts.
    since: Nanos,
    active: LatencyCounts,
    frozen: LatencyCounts,
}

impl LatencyMonitor {
    /// Creates a monitor with the specification's defaults.
    pub fn new(now: Nanos) -> LatencyMonitor {
        let mut monitor = LatencyMonitor::default();
        monitor.set(LatencySettings::default(), now);
        monitor
    }

    /// Starts again with other settings.
    pub fn set(&mut self, settings: LatencySettings, now: Nanos) {
        let from = |units: u8| Nanos(THRESHOLD.0 * (u64::from(units) + 1));
        *self = LatencyMonitor {
            settings,
            begins: settings.thresholds.map(from),
            since: now,
            ..LatencyMonitor::default()
        };
    }

    /// Current settings.
    pub fn settings(&self) -> LatencySettings {
        self.settings
    }

    /// Returns the bucket timer in its units, the active and the static counts.
    pub fn counts(&mut self, now: Nanos) -> (u16, &LatencyCounts, &LatencyCounts) {
        self.turn(now);
        ((now.since_or_zero(self.since).0 / TIMER.0) as u16, &self.active, &self.frozen)
    }

    /// Counts a completed command with this latency.
    #[inline]
    pub(crate) fn record(&mut self, op: Op, latency: Nanos, now: Nanos) {
        if latency < self.begins[0] || !self.settings.is_on {
            return;
        }
        self.count(op, latency, now);
    }

    #[cold]
    fn count(&mut self, op: Op, latency: Nanos, now: Nanos) {
        let kind = match op {
            Op::Read => 0,
            Op::Write { .. } | Op::Append { .. } => 1,
            Op::Trim { .. } => 2,
            _ => return,
        };
        let Some(bucket) = self.begins.iter().rposition(|&begin| latency >= begin) else { return };
        self.turn(now);
        let count = &mut self.active.commands[bucket][kind];
        *count = count.saturating_add(1);
        let window = Nanos(WINDOW.0 * u64::from(self.settings.minimum_window));
        let longest = &mut self.active.longest[bucket][kind];
        if longest.is_none_or(|(most, at)| latency > most || now > at.after(window)) {
            *longest = Some((latency, now));
        }
    }

    fn turn(&mut self, now: Nanos) {
        let whole = Nanos(TIMER.0 * u64::from(self.settings.timer_threshold));
        if whole > Nanos::ZERO && now.since_or_zero(self.since) >= whole {
            self.frozen = std::mem::take(&mut self.active);
            self.since = now;
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/interface_latency_monitor.rs"]
mod tests;
