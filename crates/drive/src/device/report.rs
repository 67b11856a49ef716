//! What the drive says about itself: the health log, peak power; and the end of an idle time.

use drivebay_units::Nanos;

use super::Device;
use crate::health::{Health, data_units, named, percentage_used};
use crate::io::Op;
use crate::power::Wake;
use crate::thermal::STEP;

impl Device {
    /// A command that the host begins at `at` ends an idle time: what it has to wake.
    #[cold]
    pub(super) fn end_idle(&mut self, at: Nanos) -> Wake {
        let idle = at.since(self.log.busy_until);
        self.log.idle = self.log.idle.after(idle);
        let Some(power) = &self.spec.power else { return Wake::default() };
        let wake = power.wake(idle);
        if let Some(asleep) = power.asleep(idle) {
            self.log.wakes += 1;
            self.log.asleep = self.log.asleep.after(asleep);
            // Account for the states while it is known when the idle time began.
            self.heat_up(at);
        }
        wake
    }

    /// The health log at this moment.
    #[must_use]
    pub fn health(&self) -> Health {
        let heat = self.thermal.log();
        let now = self.now;
        let rests = now.since_or_zero(self.log.busy_until);
        let idle = self.log.idle.after(rests);
        let sleeps = self.spec.power.as_ref().and_then(|power| power.asleep(rests));
        let g = &self.spec.geometry;
        let slc_erases = self.ftl.slc_erases() as f64;
        let slc_weight =
            self.spec.slc_cache.map_or(1.0, |slc| f64::from(slc.cycle_weight_256) / 256.0);
        let erases = self.nand.superblock_erases as f64 - slc_erases * (1.0 - slc_weight);
        let cycles = erases / f64::from(g.superblocks - g.bad_superblocks);
        let stages = 1..self.spec.throttle.len();
        let waf =
            (self.host_pages > 0).then(|| self.placed_pages() as f64 / self.host_pages as f64);
        Health {
            temperature_c: self.thermal.sensor_c(),
            node_temperatures_c: named(self.spec.thermal.names, self.thermal.node_temperatures_c()),
            available_spare_percent: self.available_spare_percent(),
            percentage_used: self.spec.rated.cycles.map(|rated| percentage_used(cycles, rated)),
            data_units_read: data_units(self.front.bytes_up),
            data_units_written: data_units(self.front.bytes_down),
            host_reads: self.commands[Op::Read as usize],
            host_writes: self.commands[Op::Write as usize] + self.commands[Op::WriteFua as usize],
            busy: now.max(self.log.busy_until).since(idle),
            power_cycles: self.log.power_cycles,
            power_on: now,
            unsafe_shutdowns: self.log.unsafe_shutdowns,
            media_errors: self.reliability().media_errors,
            warning_time: heat.warning,
            critical_time: heat.critical,
            throttling: stages.map(|i| (heat.stage_entries[i], heat.stage_time[i])).collect(),
            wakes: self.log.wakes,
            asleep: self.log.asleep.after(sleeps.unwrap_or_default()),
            waf,
        }
    }

    /// Counts that the drive was switched off and on again; `clean` if the host announced it.
    pub fn count_power_cycle(&mut self, clean: bool) {
        self.log.power_cycles += 1;
        self.log.unsafe_shutdowns += u64::from(!clean);
    }

    /// Highest mean power of a step of 100 ms since the last call, watt.
    pub fn take_peak_power_w(&mut self) -> f64 {
        self.thermal.take_peak_nj() as f64 / 1e9 / STEP.as_secs_f64()
    }
}
