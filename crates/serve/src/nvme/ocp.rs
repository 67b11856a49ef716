//! OCP's log pages and features: SMART extended, latency monitor, error recovery, capabilities;
//! error injection, failure mode. Only drives have them whose profile says so (`identify.ocp`).
//!
//! Source: OCP Datacenter NVMe SSD specification 2.0. Physical bytes are those of the pages that
//! the model has programmed; a throttled drive reports the number of its stage. Left out, as zeros:
//! values without a counterpart in the model (unaligned I/O, endurance estimate, retrained links,
//! changed power states), telemetry's strings, TCG. Later versions of the specification add fields
//! to C0h (dies, average erases, highest temperature), where 2.0 reserves bytes 208 to 493.

use drivebay_drive::{Counters, Health};
use drivebay_units::Nanos;
use drivebay_wire::nvme::{LogPage, OcpLatency, OcpSmart, Status, bytes_of, ocp_trailer};

use super::identity::Identity;
use super::refuse::refuse_if;
use crate::faults::{FailureMode, Fault, Kind};
use crate::interface::drive::Drive;
use crate::interface::latency_monitor::{LatencyCounts, LatencySettings};

/// UUID of OCP's vendor-specific pages.
pub(super) const UUID: u128 = 0xc194_d55b_e094_4794_a21d_2999_8f56_be6f;
/// Bytes of one error to inject.
pub(super) const INJECTION_BYTES: usize = 32;
/// Duration of an injected hang, seconds. guess: shorter than Linux's timeout of 30 s.
const HANG_S: f64 = 10.0;
/// Additional latency of an injected latency spike. guess: above the last of the latency monitor's
/// thresholds, 235 ms.
const SPIKE_US: u64 = 500_000;

/// Returns an OCP page, with its GUID at the end.
pub(super) fn page(page: LogPage, drive: &mut dyn Drive, identity: &Identity) -> Vec<u8> {
    let mut bytes = match page {
        LogPage::OcpSmart => {
            let (health, counters) = (drive.health(), drive.counters());
            smart(&health, &counters, identity, drive.used_sectors())
        }
        LogPage::OcpLatency => latency(drive),
        // No panics to recover from.
        LogPage::OcpErrorRecovery => vec![0; 512],
        LogPage::OcpCapabilities => capabilities(),
        _ => vec![0; 4096],
    };
    if let Some((version, guid)) = ocp_trailer(page) {
        let end = bytes.len();
        bytes[end - 18..end - 16].copy_from_slice(&version.to_le_bytes());
        bytes[end - 16..].copy_from_slice(&guid);
    }
    bytes
}

fn smart(health: &Health, counters: &Counters, identity: &Identity, used_sectors: u64) -> Vec<u8> {
    let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX).into();
    let reliability = &counters.reliability;
    let throttled: u64 = health.throttling.iter().map(|stage| stage.0).sum();
    let [erases_min, erases_max, _] = health.erases.map(u64::from);
    let mut refreshes = [0; 7];
    refreshes.copy_from_slice(&reliability.refreshes.to_le_bytes()[..7]);
    bytes_of(&OcpSmart {
        physical_bytes_written: u128::from(counters.placed_pages * 4096).into(),
        physical_bytes_read: u128::from(counters.read_bytes).into(),
        // Raw value in the lower six bytes, normalized value, which begins at 100, above.
        bad_user_blocks: (reliability.failed_blocks & 0xffff_ffff_ffff
            | u64::from(health.available_spare_percent) << 48)
            .into(),
        bad_system_blocks: (100 << 48).into(),
        uncorrectable_reads: health.media_errors.into(),
        soft_ecc_errors: reliability.retried_reads.into(),
        system_data_percent: health.percentage_used.unwrap_or(0),
        refreshes,
        erases_max: narrow(erases_max),
        erases_min: narrow(erases_min),
        throttle_events: throttled.min(255) as u8,
        throttle_status: counters.throttle_stage.min(3) as u8,
        // Version of the specification: 2.0, no errata.
        version: [0, 0, 0, 0, 0, 2],
        incomplete_shutdowns: narrow(health.unsafe_shutdowns),
        free_percent: health.available_spare_percent,
        capacitor_percent: if identity.is_protected { 100 } else { 0xffff }.into(),
        total_nuse: used_sectors.into(),
        plp_starts: u128::from(health.unsafe_shutdowns).into(),
        ..OcpSmart::default()
    })
}

fn latency(drive: &mut dyn Drive) -> Vec<u8> {
    let now = drive.now();
    let monitor = drive.latency_monitor();
    let settings = monitor.settings();
    let (timer, active, frozen) = monitor.counts(now);
    // Order of the kinds (reads, writes, deallocations) of a bucket in the log.
    let counters = |counts: &LatencyCounts| {
        counts
            .commands
            .map(|[reads, writes, trims]| [0.into(), trims.into(), writes.into(), reads.into()])
    };
    let by_place = |counts: &LatencyCounts| {
        let [a, b, c, d] = counts.longest;
        [d, c, b, a].map(|[read, write, trim]| [trim, write, read])
    };
    let stamp =
        |longest: Option<(Nanos, Nanos)>| longest.map_or(u64::MAX, |(_, at)| at.0 / 1_000_000);
    let length = |longest: Option<(Nanos, Nanos)>| {
        longest.map_or(0, |(latency, _)| (latency.0 / 1_000_000).min(0xffff) as u16)
    };
    bytes_of(&OcpLatency {
        status: u8::from(settings.is_on) << 1 | u8::from(settings.is_on),
        bucket_timer: timer.into(),
        bucket_timer_threshold: settings.timer_threshold.into(),
        thresholds: settings.thresholds,
        config: settings.config.into(),
        minimum_window: settings.minimum_window,
        active_counters: counters(active),
        active_stamps: by_place(active).map(|kinds| kinds.map(|longest| stamp(longest).into())),
        active_latencies: by_place(active).map(|kinds| kinds.map(|longest| length(longest).into())),
        static_counters: counters(frozen),
        static_stamps: by_place(frozen).map(|kinds| kinds.map(|longest| stamp(longest).into())),
        static_latencies: by_place(frozen).map(|kinds| kinds.map(|longest| length(longest).into())),
        ..OcpLatency::default()
    })
}

/// Capabilities of the commands that OCP lists: the lowest bit of each is "supported".
fn capabilities() -> Vec<u8> {
    let mut page = vec![0; 4096];
    let supported = 1_u16.to_le_bytes();
    // Write Zeroes, Sanitize, Dataset Management, Write Uncorrectable.
    for at in [4, 6, 8, 10] {
        page[at..at + 2].copy_from_slice(&supported);
    }
    page
}

/// Set Features, latency monitor.
pub(super) fn set_latency_monitor(drive: &mut dyn Drive, data: &[u8]) -> Result<(), Status> {
    let Some(&[low, high, a, b, c, d, config, more, window, _, _, _, on]) = data.first_chunk()
    else {
        return Err(Status::SGL_LENGTH_INVALID.dnr());
    };
    let thresholds = [a, b, c, d];
    refuse_if(!thresholds.is_sorted(), Status::INVALID_FIELD)?;
    let settings = LatencySettings {
        is_on: on != 0,
        timer_threshold: u16::from_le_bytes([low, high]),
        thresholds,
        config: u16::from_le_bytes([config, more]),
        minimum_window: window,
    };
    let now = drive.now();
    drive.latency_monitor().set(settings, now);
    Ok(())
}

/// Set Features, EOL/PLP failure mode, in the highest two bits of the value; 0 restores the
/// default.
pub(super) fn set_failure_mode(drive: &mut dyn Drive, value: u32) {
    drive.set_failure_mode(match value >> 30 {
        2 => FailureMode::WriteThrough,
        3 => FailureMode::Normal,
        _ => FailureMode::ReadOnly,
    });
}

/// Set Features, error injection: injects all of these errors, or none. A disabled entry ends all
/// injected errors.
pub(super) fn inject(drive: &mut dyn Drive, data: &[u8]) -> Result<(), Status> {
    let invalid = Status::INVALID_FIELD.dnr();
    let mut faults = Vec::new();
    for entry in data.chunks_exact(INJECTION_BYTES) {
        let (is_enabled, kind) = (entry[0] & 1 != 0, u16::from_le_bytes([entry[2], entry[3]]));
        faults.push(match kind {
            _ if !is_enabled => None,
            // A controller or flash that hangs, or a command that exceeds its time.
            1 | 2 | 16 => Some(Fault { for_s: Some(HANG_S), ..Fault::new(Kind::Hang) }),
            // No spare blocks are left.
            10 => Some(Fault::new(Kind::ReadOnly)),
            14 => Some(Fault {
                extra_us: Some(SPIKE_US),
                for_s: Some(HANG_S),
                ..Fault::new(Kind::Latency)
            }),
            _ => return Err(invalid),
        });
    }
    for fault in faults {
        match fault {
            Some(fault) => drive.add_fault(fault).map_err(|_| invalid)?,
            None => drive.clear_faults(),
        }
    }
    Ok(())
}
