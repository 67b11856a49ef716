//! Heat and power: one thermal node fed by counted energy, and the throttle stages it drives.
//!
//! `dT/dt = (P - (T - ambient) / R) / C`, stepped every 100 ms by Euler's rule (with R x C of minutes
//! the error is under 0.1 %; only additions and multiplications, so every platform agrees bit for bit).
//! Not modelled: separate controller and flash nodes, the sensor's own lag and rounding; a burst
//! shorter than some seconds heats the controller less than the real one.

use drivebay_units::Nanos;

use crate::spec::{Energy, Heat, Spec};

/// Length of one step.
pub const STEP: Nanos = Nanos::millis(100);

/// Work done so far, by kind; differences between two moments feed the node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// 4 KiB pages programmed.
    pub programmed: u64,
    /// Flash pages read.
    pub page_reads: u64,
    /// Superblocks erased.
    pub erases: u64,
    /// Payload bytes over the link.
    pub link_bytes: u64,
    /// Flash core at work, nanoseconds.
    pub core_ns: u64,
    /// Host commands.
    pub commands: u64,
}

/// Temperature, energy so far and throttle stage.
pub struct Thermal {
    energy: Energy,
    node: Heat,
    /// Turn points of the stages: (on, off), entry 0 unused.
    turns: Vec<(f64, f64)>,
    temperature_c: f64,
    stage: usize,
    next_step: Nanos,
    last: Work,
    energy_nj: u64,
    throttled: Nanos,
}

impl Thermal {
    /// A drive at ambient temperature.
    pub fn new(spec: &Spec) -> Thermal {
        Thermal {
            energy: spec.energy,
            node: spec.heat.clone(),
            turns: spec.throttle.iter().map(|s| (s.on_c, s.off_c)).collect(),
            temperature_c: spec.heat.ambient_c,
            stage: 0,
            next_step: STEP,
            last: Work::default(),
            energy_nj: 0,
            throttled: Nanos::ZERO,
        }
    }

    /// When the next step is due.
    #[inline(always)]
    pub fn next_step(&self) -> Nanos {
        self.next_step
    }

    /// Steps up to `now`; returns the throttle stage that holds then.
    pub fn advance(&mut self, now: Nanos, work: Work) -> usize {
        // Work since the last call belongs to its first step; the rest of the time was idle.
        let mut energy_nj = self.energy_of(work);
        let mut awake = work.commands > self.last.commands;
        self.last = work;
        while self.next_step <= now {
            let base_uw = if awake { self.energy.active_uw } else { self.energy.idle_uw };
            energy_nj += base_uw * STEP.0 / 1_000_000;
            self.step(energy_nj);
            self.next_step = self.next_step.after(STEP);
            (energy_nj, awake) = (0, false);
        }
        self.stage
    }

    fn energy_of(&self, work: Work) -> u64 {
        let (e, last) = (&self.energy, &self.last);
        (work.programmed - last.programmed) * e.program_4k_nj
            + (work.page_reads - last.page_reads) * e.read_page_nj
            + (work.erases - last.erases) * e.erase_superblock_nj
            + (work.link_bytes - last.link_bytes) * e.link_4k_nj / 4096
            + (work.core_ns - last.core_ns) / 1000 * e.core_busy_uw / 1000
    }

    fn step(&mut self, energy_nj: u64) {
        let seconds = STEP.as_secs_f64();
        let watt = energy_nj as f64 / 1e9 / seconds;
        let lost = (self.temperature_c - self.node.ambient_c) / self.node.resistance;
        self.temperature_c += (watt - lost) / self.node.capacity * seconds;
        self.energy_nj += energy_nj;
        if self.stage > 0 {
            self.throttled = self.throttled.after(STEP);
        }
        if self.stage + 1 < self.turns.len() && self.temperature_c >= self.turns[self.stage + 1].0 {
            self.stage += 1;
        } else if self.stage > 0 && self.temperature_c < self.turns[self.stage].1 {
            self.stage -= 1;
        }
    }

    /// Degrees Celsius at the last step.
    pub fn temperature_c(&self) -> f64 {
        self.temperature_c
    }

    /// Nanojoule up to the last step.
    pub fn energy_nj(&self) -> u64 {
        self.energy_nj
    }

    /// Time spent in any throttle stage.
    pub fn throttled(&self) -> Nanos {
        self.throttled
    }
}
