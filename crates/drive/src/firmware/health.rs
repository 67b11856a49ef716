//! The health log, as SMART reports it.
//!
//! Source: NVM Express base specification, SMART / Health Information log (page 02h): its fields,
//! units and roundings. Where the log rounds to minutes or hours, whole nanoseconds are given here
//! too. `waf` and the throttle stages beyond the second are not in the log; vendors report them
//! elsewhere. Left out: errors of commands (the model's hosts make none that the drive would log).

use drivebay_units::{Nanos, SECTOR_BYTES};

use crate::io::Op;
use crate::persist::{StateError, ensure, persist};
use crate::profile::NODES_MAX;

/// Sectors of one data unit: 512,000 bytes.
const UNIT_BYTES: u64 = 1000 * SECTOR_BYTES;

/// The drive's health.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// Composite temperature as the sensor reads it, whole degrees Celsius.
    pub temperature_c: f64,
    /// Exact temperature of each heat node, degrees Celsius, with its name.
    pub node_temperatures_c: Vec<(&'static str, f64)>,
    /// Flash left that may fail, per cent of what it was at the beginning; 100 where failing is not
    /// modelled.
    pub available_spare_percent: u8,
    /// Wear against the rated cycles, per cent, up to 255; none where the profile gives no rating.
    pub percentage_used: Option<u8>,
    /// Units of 512,000 bytes read by the host, rounded up.
    pub data_units_read: u64,
    /// Units written.
    pub data_units_written: u64,
    /// Read commands of the host.
    pub host_reads: u64,
    /// Write commands.
    pub host_writes: u64,
    /// Time with a command outstanding.
    pub busy: Nanos,
    /// How often the drive was switched on.
    pub power_cycles: u64,
    /// Time switched on.
    pub power_on: Nanos,
    /// Power lost without warning.
    pub unsafe_shutdowns: u64,
    /// Reads that no error correction could save.
    pub media_errors: u64,
    /// Time at or above the warning temperature, below the critical one.
    pub warning_time: Nanos,
    /// Time at or above the critical temperature.
    pub critical_time: Nanos,
    /// By throttle stage, mildest first: how often it was entered, and time spent in it.
    pub throttling: Vec<(u64, Nanos)>,
    /// How often drive or link were woken from sleep.
    pub wakes: u64,
    /// Time in which drive or link slept, or fell asleep.
    pub asleep: Nanos,
    /// How often the link was down.
    pub link_outages: u64,
    /// Erases of a superblock: the fewest, the most, and the mean, rounded down; those after use
    /// with one bit per cell by what they wear.
    pub erases: [u32; 3],
    /// 4 KiB pages programmed per page written by the host, without what a worn drive had behind
    /// it; none before the first.
    pub waf: Option<f64>,
}

/// Room to count commands by [`Op`].
const OPS_MAX: usize = 16;

/// Commands, idle times and power cycles so far.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    commands: [u64; OPS_MAX],
    /// Latest completion so far: the drive is idle from then on.
    busy_until: Nanos,
    /// Time without a command.
    idle: Nanos,
    /// Up to where it is counted: when a command last ended it.
    idle_until: Nanos,
    wakes: u64,
    asleep: Nanos,
    power_cycles: u64,
    unsafe_shutdowns: u64,
}

persist!(Log: commands, busy_until, idle, idle_until, wakes, asleep, power_cycles, unsafe_shutdowns);

impl Log {
    /// A drive that is switched on for the first time.
    pub fn new() -> Log {
        Log {
            commands: [0; OPS_MAX],
            busy_until: Nanos::ZERO,
            idle: Nanos::ZERO,
            idle_until: Nanos::ZERO,
            wakes: 0,
            asleep: Nanos::ZERO,
            power_cycles: 1,
            unsafe_shutdowns: 0,
        }
    }

    #[inline(always)]
    pub fn count_command(&mut self, op: Op) {
        self.commands[op as usize] += 1;
    }

    /// Host commands so far.
    #[inline(always)]
    pub fn commands(&self) -> u64 {
        self.commands.iter().sum()
    }

    /// Latest completion so far.
    #[inline(always)]
    pub fn busy_until(&self) -> Nanos {
        self.busy_until
    }

    /// A command completes at `done`.
    #[inline(always)]
    pub fn complete(&mut self, done: Nanos) {
        self.busy_until = self.busy_until.max(done);
    }

    /// The power went at `at`: later completions never came.
    pub fn cut(&mut self, at: Nanos) {
        self.busy_until = self.busy_until.min(at);
    }

    /// Since when the drive has been idle, or will be: a command that was refused, or never
    /// answered because of a power cut, ended an idle time as well, which must not count twice.
    fn idle_from(&self) -> Nanos {
        self.busy_until.max(self.idle_until)
    }

    /// A command that begins at `at` ends an idle time, which it returns.
    pub fn end_idle(&mut self, at: Nanos) -> Nanos {
        let idle = at.since_or_zero(self.idle_from());
        self.idle = self.idle.after(idle);
        self.idle_until = at;
        idle
    }

    /// Drive or link were woken that had slept for so long.
    pub fn wake(&mut self, asleep: Nanos) {
        self.wakes += 1;
        self.asleep = self.asleep.after(asleep);
    }

    /// The drive was switched off and on again; `clean` if the host announced it.
    pub fn count_power_cycle(&mut self, clean: bool) {
        self.power_cycles += 1;
        self.unsafe_shutdowns += u64::from(!clean);
    }

    pub fn check(&self, now: Nanos) -> Result<(), StateError> {
        let few = self.commands.iter().all(|&count| count < 1 << 50);
        ensure(few && self.idle <= now && self.asleep <= now, "the drive's counters")
    }

    /// The log's own share of the health at `now`; `asleep`: how much of an idle time is slept
    /// through.
    pub fn report(&self, now: Nanos, asleep: impl Fn(Nanos) -> Option<Nanos>) -> Health {
        let idle_now = now.since_or_zero(self.idle_from());
        let idle = self.idle.after(idle_now);
        Health {
            host_reads: self.commands[Op::Read as usize],
            host_writes: [Op::Write, Op::WriteFua, Op::Append, Op::ZrwaWrite]
                .map(|op| self.commands[op as usize])
                .iter()
                .sum(),
            busy: now.max(self.busy_until).since(idle),
            power_cycles: self.power_cycles,
            power_on: now,
            unsafe_shutdowns: self.unsafe_shutdowns,
            wakes: self.wakes,
            asleep: self.asleep.after(asleep(idle_now).unwrap_or_default()),
            ..Health::default()
        }
    }
}

/// So many bytes in the log's units.
pub fn data_units(bytes: u64) -> u64 {
    bytes.div_ceil(UNIT_BYTES)
}

/// Cycles against their rating, as the log gives it.
pub fn percentage_used(cycles: f64, rated: f64) -> u8 {
    (cycles / rated * 100.0).floor().clamp(0.0, 255.0) as u8
}

/// The nodes' names beside their temperatures.
pub fn named(names: &[&'static str], celsius: [f64; NODES_MAX]) -> Vec<(&'static str, f64)> {
    names.iter().copied().zip(celsius).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_round_as_the_log_does() {
        assert_eq!([0, 1, 512_000, 512_001].map(data_units), [0, 1, 1, 2]);
        assert_eq!(percentage_used(29.99, 3000.0), 0);
        assert_eq!(percentage_used(30.0, 3000.0), 1);
        assert_eq!(percentage_used(1e9, 3000.0), 255);
    }
}
