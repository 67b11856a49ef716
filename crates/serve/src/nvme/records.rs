//! Records of a subsystem for its logs: failed commands, self-tests, telemetry, events, sanitize,
//! time and firmware.
//!
//! Source: NVM Express base specification 2.0, Get Log Page and the commands and features that its
//! pages describe. Time is the drive's. Everything but a partly downloaded image is saved next to
//! the drive's state (`server/kept_logs.rs`).

use std::collections::VecDeque;

use drivebay_units::Nanos;
use drivebay_wire::nvme::{
    ErrorEntry, LogPage, PersistentEvent, PersistentKind, SELF_TEST_NONE, SELF_TESTS, SelfTestLog,
    SelfTestResult, TELEMETRY_BLOCK, TelemetryHeader, bytes_of,
};
use serde::{Deserialize, Serialize};
use zerocopy::IntoBytes;

use super::placement;
use super::reservations::Reservations;
use super::timestamp::Timestamp;
use crate::state::sidecar::as_bytes;

/// Most stored events. guess: a few hundred kilobytes at the most.
const EVENTS_MAX: usize = 1000;
/// Firmware slots; the first is read-only.
pub(super) const SLOTS: usize = 3;
const HOUR: u64 = 3_600_000_000_000;

/// Records of a subsystem.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Records {
    /// Error log entries, newest first.
    #[serde(with = "as_bytes")]
    pub(super) errors: VecDeque<ErrorEntry>,
    /// Number of errors over the drive's lifetime.
    pub(super) error_count: u64,
    #[serde(default)]
    pub(super) timestamp: Timestamp,
    pub(super) events: PersistentEvents,
    /// Host-initiated and controller-initiated telemetry.
    pub(super) telemetry: [Telemetry; 2],
    pub(super) self_tests: SelfTests,
    pub(super) sanitize: Option<Sanitization>,
    pub(super) firmware: Firmware,
    /// Placement events while they are saved; otherwise the subsystem has them.
    #[serde(default)]
    pub(super) placement: placement::Events,
    /// Registrations and reservations that outlast a loss of power, while they are saved.
    #[serde(default)]
    pub(super) reservations: Reservations,
}

impl Records {
    /// Checks saved records: the named slots have firmware, and the reservations are valid.
    pub fn are_sound(&self) -> bool {
        let Firmware { slots, active, next, .. } = &self.firmware;
        let is_used =
            |slot: u8| slots.get(usize::from(slot).wrapping_sub(1)).is_some_and(Option::is_some);
        is_used(*active) && (*next == 0 || is_used(*next)) && self.reservations.are_sound()
    }
}

/// Whole hours.
pub(super) fn hours(time: Nanos) -> u64 {
    time.0 / HOUR
}

/// Sanitize operation.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Sanitization {
    /// Command dword 10.
    pub cdw10: u32,
    pub from: Nanos,
    pub until: Nanos,
    /// True if its end has been reported.
    pub is_told: bool,
    /// True if blocks were deallocated although a host wanted them to stay allocated.
    #[serde(default)]
    pub is_deallocated: bool,
    /// Power cuts so far.
    #[serde(default)]
    pub cuts: u64,
}

impl Sanitization {
    pub fn goes_on(&self, now: Nanos) -> bool {
        // Earlier times are possible after a restore of an older state.
        (self.from..self.until).contains(&now)
    }

    /// Number of overwrite passes of a Sanitize with this dword; `None` for other methods.
    pub fn passes(cdw10: u32) -> Option<u32> {
        const OVERWRITE: u32 = 3;
        let passes = cdw10 >> 4 & 0xf;
        (cdw10 & 7 == OVERWRITE).then_some(if passes == 0 { 16 } else { passes })
    }

    /// Status for the log: the outcome, and the completed passes of an overwrite.
    pub fn status(&self, now: Nanos) -> u16 {
        let passes = Self::passes(self.cdw10).unwrap_or(0);
        let (code, done) = match (self.goes_on(now), self.is_deallocated) {
            (true, _) => (2, (u32::from(self.progress(now)) * passes) >> 16),
            (false, false) => (1, passes),
            (false, true) => (4, passes),
        };
        code | (done as u16) << 3
    }

    /// Progress in parts of 65,536; all ones when it is done.
    pub fn progress(&self, now: Nanos) -> u16 {
        if !self.goes_on(now) {
            return u16::MAX;
        }
        let (done, whole) = (now.since(self.from).0, self.until.since(self.from).0);
        ((u128::from(done) << 16) / u128::from(whole)) as u16
    }
}

/// Firmware images, by slot.
#[derive(Serialize, Deserialize)]
pub(super) struct Firmware {
    pub slots: [Option<[u8; 8]>; SLOTS],
    /// Active slot, counted from 1.
    pub active: u8,
    /// Slot that the next reset activates; 0 for none.
    pub next: u8,
    /// Downloaded part of the next image.
    #[serde(skip)]
    pub image: Vec<u8>,
}

impl Firmware {
    /// Revision of the active image.
    pub fn revision(&self) -> [u8; 8] {
        self.slots[usize::from(self.active) - 1].unwrap_or_default()
    }
}

impl Default for Firmware {
    fn default() -> Self {
        Firmware { slots: [None; SLOTS], active: 1, next: 0, image: Vec::new() }
    }
}

/// Telemetry of one kind.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Telemetry {
    generation: u8,
    /// True if no host has read the data yet.
    pub is_new: bool,
    reason: String,
    data: Vec<u8>,
}

impl Telemetry {
    /// Captures this data as the drive's current state.
    pub fn take(&mut self, reason: &str, mut data: Vec<u8>) {
        data.resize(data.len().next_multiple_of(TELEMETRY_BLOCK), 0);
        self.generation = self.generation.wrapping_add(1);
        (self.is_new, self.reason, self.data) = (true, reason.to_owned(), data);
    }
}

/// Telemetry page of either kind: data area 1 has all the data.
pub(super) fn telemetry_page(telemetry: &[Telemetry; 2], page: LogPage, oui: u32) -> Vec<u8> {
    let current = &telemetry[usize::from(page == LogPage::TelemetryController)];
    let last = (current.data.len() / TELEMETRY_BLOCK) as u16;
    let [host, controller] = telemetry;
    let mut header = TelemetryHeader {
        page: page as u8,
        last_blocks: [last.into(); 3],
        host: [0, host.generation],
        controller: [controller.is_new.into(), controller.generation],
        ..TelemetryHeader::default()
    };
    header.oui.copy_from_slice(&oui.to_le_bytes()[..3]);
    for (to, from) in header.reason.iter_mut().zip(current.reason.bytes()) {
        *to = from;
    }
    [header.as_bytes(), &current.data].concat()
}

/// Events, oldest first, and the read context of a host.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct PersistentEvents {
    all: VecDeque<Vec<u8>>,
    /// The page as it was when a host began to read it.
    #[serde(skip)]
    pub context: Option<Vec<u8>>,
    pub generation: u16,
}

impl PersistentEvents {
    pub fn add(&mut self, kind: PersistentKind, cntlid: u16, timestamp: u64, data: &[u8]) {
        let header = PersistentEvent {
            kind: kind as u8,
            revision: 1,
            header_bytes: (size_of::<PersistentEvent>() - 3) as u8,
            cntlid: cntlid.into(),
            timestamp: timestamp.into(),
            bytes: (data.len() as u16).into(),
            ..PersistentEvent::default()
        };
        self.all.truncate(EVENTS_MAX - 1);
        self.all.push_front([header.as_bytes(), data].concat());
    }

    /// Returns the number of events, and their bytes, newest first.
    pub fn bytes(&self) -> (u32, Vec<u8>) {
        (self.all.len() as u32, self.all.iter().flatten().copied().collect())
    }

    /// Most bytes of the page.
    pub const fn bytes_max() -> usize {
        512 + EVENTS_MAX * (size_of::<PersistentEvent>() + 512)
    }
}

/// Running self-test.
#[derive(Serialize, Deserialize)]
struct Running {
    kind: u8,
    nsid: u32,
    from: Nanos,
    until: Nanos,
}

/// Running self-test, and results of the last ones.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct SelfTests {
    running: Option<Running>,
    #[serde(with = "as_bytes")]
    results: VecDeque<SelfTestResult>,
}

/// Result codes of self-tests.
pub(super) const PASSED: u8 = 0;
pub(super) const ABORTED_BY_COMMAND: u8 = 1;
pub(super) const ABORTED_BY_RESET: u8 = 2;
pub(super) const ABORTED_BY_FORMAT: u8 = 4;
pub(super) const SEGMENT_FAILED: u8 = 7;
pub(super) const ABORTED_BY_SANITIZE: u8 = 9;
/// Kinds of self-tests; a reset aborts the short one.
pub(super) const SHORT: u8 = 1;
pub(super) const EXTENDED: u8 = 2;

impl SelfTests {
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub fn begin(&mut self, kind: u8, nsid: u32, from: Nanos, takes: Nanos) {
        self.running = Some(Running { kind, nsid, from, until: from.after(takes) });
    }

    /// Ends the running self-test, if it is of one of these kinds.
    pub fn end(&mut self, kinds: &[u8], result: u8, now: Nanos) {
        let Some(Running { kind, nsid, .. }) =
            self.running.take_if(|running| kinds.contains(&running.kind))
        else {
            return;
        };
        self.results.truncate(SELF_TESTS - 1);
        self.results.push_front(SelfTestResult {
            status: kind << 4 | result,
            // The namespace is valid.
            valid: 1,
            power_on_hours: hours(now).into(),
            nsid: nsid.into(),
            ..SelfTestResult::default()
        });
    }

    /// Ends a self-test that is done by now; on a drive that refuses writes it fails.
    pub fn settle(&mut self, now: Nanos, is_healthy: bool) {
        if self.running.as_ref().is_some_and(|running| running.until <= now) {
            let result = if is_healthy { PASSED } else { SEGMENT_FAILED };
            self.end(&[SHORT, EXTENDED], result, now);
        }
    }

    pub fn page(&self, now: Nanos) -> Vec<u8> {
        let none = SelfTestResult { status: SELF_TEST_NONE, ..SelfTestResult::default() };
        let mut log = SelfTestLog { results: [none; SELF_TESTS], ..SelfTestLog::default() };
        for (to, from) in log.results.iter_mut().zip(&self.results) {
            *to = *from;
        }
        if let Some(Running { kind, from, until, .. }) = self.running {
            log.current = kind;
            log.percent = (now.since_or_zero(from).0 * 100 / until.since(from).0.max(1)) as u8;
        }
        bytes_of(&log)
    }
}
