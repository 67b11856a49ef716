//! Heat: counted energy heats the nodes of a network, and their temperatures control throttling.
//!
//! Steps of 100 ms are each exact for their mean power (`physics/network.rs`). Array operations
//! heat the flash, everything else the controller; in a profile of one node they are the same. Work
//! is recorded when its command comes, evenly over the time until the flash core has done it.
//! Without sleep states, a step with a command counts as awake, one without as idle; with them,
//! each nanosecond counts by its state (`physics/power.rs`). The sensor of the health log is read
//! at intervals in whole degrees; throttling follows the nodes themselves. Not modelled: leakage
//! that grows with temperature (a hot drive would draw some per cent more).

use drivebay_units::Nanos;

use crate::persist::{StateError, ensure, persist};
use crate::physics::network::Network;
use crate::profile::{Energy, NODES_MAX, Power, Rated, Spec, THROTTLE_STAGES_MAX};

/// Length of one step.
pub const STEP: Nanos = Nanos::millis(100);

/// Index of the controller's node.
const CONTROLLER: usize = 0;

/// Work done so far, by kind. Differences between two moments heat the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// 4 KiB pages programmed.
    pub programmed: u64,
    /// 4 KiB pages programmed with one bit per cell; part of `programmed`.
    pub slc_programmed: u64,
    /// Flash pages read.
    pub page_reads: u64,
    /// Bytes read over the flash channels.
    pub read_bytes: u64,
    /// Superblocks erased.
    pub erases: u64,
    /// Payload bytes over the link.
    pub link_bytes: u64,
    /// Time that the flash core has worked, in nanoseconds.
    pub core_ns: u64,
    /// Host commands.
    pub commands: u64,
}

persist!(Work: programmed, slc_programmed, page_reads, read_bytes, erases, link_bytes, core_ns, commands);

/// Times for the health log, summed over steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThermalLog {
    /// Time in each throttle stage; entry 0 is unused.
    pub stage_time: [Nanos; THROTTLE_STAGES_MAX + 1],
    /// Entries of each stage from the milder one.
    pub stage_entries: [u64; THROTTLE_STAGES_MAX + 1],
    /// Time at or above the warning temperature and below the critical temperature.
    pub warning: Nanos,
    /// Time at or above the critical temperature.
    pub critical: Nanos,
}

persist!(ThermalLog: stage_time, stage_entries, warning, critical);

/// Temperatures, energy and throttle stage.
pub struct Thermal {
    energy: Energy,
    network: Network,
    nand: usize,
    power: Option<Power>,
    /// Steps of the throttle stages: (number of the stage, on, off); entry 0 is none.
    steps: Vec<(usize, f64, f64)>,
    temperature_c: [f64; NODES_MAX],
    sensor: Sensor,
    rated: Rated,
    /// Current step of a throttle stage, an index of `steps`; [`Thermal::stage`] is the stage that
    /// it belongs to.
    stage: usize,
    next_step: Nanos,
    last: Work,
    /// True if a command has come in the current step.
    awake: bool,
    /// Energy of the current step, by node, in nanojoules.
    pending_nj: [u64; NODES_MAX],
    /// Energy of requested work that is not yet spent, by node, in nanojoules.
    backlog_nj: [u64; NODES_MAX],
    /// Time up to which the sleep states have been accounted for.
    accounted: Nanos,
    /// Energy up to the last step, in nanojoules.
    pub energy_nj: u64,
    peak_nj: u64,
    /// Counters for the health log.
    pub log: ThermalLog,
}

persist!(Thermal: temperature_c, sensor, stage, next_step, last, awake, pending_nj, backlog_nj, accounted, energy_nj,
    peak_nj, log; given: energy, network, nand, power, steps, rated);

/// Energy of a power over a time, in nanojoules. An hour of 100 W in femtojoules needs more than 64
/// bits.
fn nanojoule(microwatt: u64, nanoseconds: u64) -> u64 {
    (u128::from(microwatt) * u128::from(nanoseconds) / 1_000_000) as u64
}

/// Temperature sensor of the health log.
#[derive(Clone, Copy, PartialEq)]
struct Sensor {
    node: usize,
    interval_steps: u64,
    reads_c: f64,
}

persist!(Sensor: reads_c; given: node, interval_steps);

impl Sensor {
    fn step(&mut self, temperature_c: &[f64; NODES_MAX], number: u64) {
        if number.is_multiple_of(self.interval_steps) {
            self.reads_c = temperature_c[self.node].round();
        }
    }
}

impl Thermal {
    /// Creates the state of a drive at ambient temperature.
    pub fn new(spec: &Spec) -> Thermal {
        let (thermal, step_s) = (&spec.thermal, STEP.as_secs_f64());
        let sensor = Sensor {
            node: thermal.sensor.node,
            interval_steps: thermal.sensor.interval_steps,
            reads_c: thermal.ambient_c.round(),
        };
        Thermal {
            energy: spec.energy,
            network: Network::new(thermal, step_s),
            nand: thermal.nand,
            power: spec.power.clone(),
            steps: spec.throttle.iter().map(|s| (s.number, s.on_c, s.off_c)).collect(),
            temperature_c: [thermal.ambient_c; NODES_MAX],
            sensor,
            rated: spec.rated,
            stage: 0,
            next_step: STEP,
            last: Work::default(),
            awake: false,
            pending_nj: [0; NODES_MAX],
            backlog_nj: [0; NODES_MAX],
            accounted: Nanos::ZERO,
            energy_nj: 0,
            peak_nj: 0,
            log: ThermalLog::default(),
        }
    }

    /// Changes the ambient temperature from the next step on.
    pub fn set_ambient_c(&mut self, ambient_c: f64) {
        self.network.set_ambient_c(ambient_c);
    }

    /// Checks that the state is possible for a drive that has done this work by `now`.
    pub fn check(&self, now: Nanos, work: Work) -> Result<(), StateError> {
        let bearable = |celsius: &f64| (-1e4..=1e6).contains(celsius);
        let felt = self.temperature_c.iter().chain([&self.sensor.reads_c]).all(bearable);
        let due = self.next_step > now && self.next_step <= now.after(STEP);
        let timed = due && self.next_step.0.is_multiple_of(STEP.0) && self.accounted <= now;
        let Work {
            programmed,
            slc_programmed,
            page_reads,
            read_bytes,
            erases,
            link_bytes,
            core_ns,
            commands,
        } = self.last;
        let done = programmed <= work.programmed
            && slc_programmed <= work.slc_programmed
            && page_reads <= work.page_reads
            && read_bytes <= work.read_bytes
            && erases <= work.erases
            && link_bytes <= work.link_bytes
            && core_ns <= work.core_ns
            && commands <= work.commands;
        ensure(felt && timed && done && self.stage < self.steps.len(), "heat and throttling")
    }

    /// Index of the current throttle step in the spec; 0 for none.
    pub fn step_held(&self) -> usize {
        self.stage
    }

    /// Current throttle stage; 0 for none.
    pub fn stage(&self) -> usize {
        self.steps[self.stage].0
    }

    /// Time at which the next step is due.
    #[inline(always)]
    pub fn next_step(&self) -> Nanos {
        self.next_step
    }

    /// Advances to `now`. The drive has had no commands since `idle_since`, and the flash core
    /// works on earlier commands until `works_until`. Returns the index of the throttle step that
    /// then applies.
    pub fn advance(
        &mut self,
        now: Nanos,
        work: Work,
        works_until: Nanos,
        idle_since: Nanos,
    ) -> usize {
        self.awake |= work.commands > self.last.commands;
        self.take(work);
        while self.next_step <= now {
            let awake = std::mem::take(&mut self.awake);
            self.pending_nj[CONTROLLER] += self.base_nj(self.next_step, idle_since, awake);
            let rests = self.spend(works_until);
            let before = (self.temperature_c, self.sensor, self.stage);
            let energy_nj = self.step();
            self.next_step = self.next_step.after(STEP);
            let settled = before == (self.temperature_c, self.sensor, self.stage)
                && !awake
                && rests
                && self.sleep_is_settled(idle_since);
            if settled && self.next_step <= now {
                self.repeat(energy_nj, 1 + now.since(self.next_step).0 / STEP.0);
            }
        }
        if self.power.is_some() {
            self.pending_nj[CONTROLLER] += self.base_nj(now, idle_since, self.awake);
        }
        self.stage
    }

    /// Adds the energy of the work since the last call to the backlog.
    fn take(&mut self, work: Work) {
        let (e, last) = (&self.energy, &self.last);
        let slc_pages = work.slc_programmed - last.slc_programmed;
        let pages = (work.programmed - last.programmed).saturating_sub(slc_pages);
        self.backlog_nj[self.nand] += pages * e.program_4k_nj
            + slc_pages * e.slc_program_4k_nj
            + (work.page_reads - last.page_reads) * e.read_page_nj
            + (work.erases - last.erases) * e.erase_superblock_nj;
        self.backlog_nj[CONTROLLER] += (work.link_bytes - last.link_bytes) * e.link_4k_nj / 4096
            + (work.read_bytes - last.read_bytes) * e.read_4k_nj / 4096
            + nanojoule(e.core_busy_uw, work.core_ns - last.core_ns);
        self.last = work;
    }

    /// Moves the backlog, or a step's share of it if the work takes longer, to the current step.
    /// Returns true if there was no backlog.
    fn spend(&mut self, works_until: Nanos) -> bool {
        let spans = STEP.after(works_until.since_or_zero(self.next_step));
        let rests = self.backlog_nj == [0; NODES_MAX];
        for (pending, backlog) in self.pending_nj.iter_mut().zip(&mut self.backlog_nj) {
            let share = u128::from(*backlog) * u128::from(STEP.0) / u128::from(spans.0);
            *pending += share as u64;
            *backlog -= share as u64;
        }
        rests
    }

    /// Energy without work up to `to`, as far as it is not yet accounted for.
    fn base_nj(&mut self, to: Nanos, idle_since: Nanos, awake: bool) -> u64 {
        let Some(power) = &self.power else {
            let base_uw = if awake { self.energy.active_uw } else { self.energy.idle_uw };
            return base_uw * STEP.0 / 1_000_000;
        };
        let awake_until = to.min(idle_since).max(self.accounted);
        let awake_ns = awake_until.since(self.accounted).0;
        let idle_nj = power
            .idle_energy_nj(awake_until.since_or_zero(idle_since), to.since_or_zero(idle_since));
        self.accounted = to;
        nanojoule(self.energy.active_uw, awake_ns) + idle_nj
    }

    /// True if more idle time does not change the power.
    fn sleep_is_settled(&self, idle_since: Nanos) -> bool {
        self.power.as_ref().is_none_or(|power| {
            self.next_step.since_or_zero(STEP.after(idle_since)) >= power.settled_after()
        })
    }

    /// Runs one step with the pending energy, which it returns.
    fn step(&mut self) -> u64 {
        let energy_nj = self.pending_nj.iter().sum();
        let watt = self.pending_nj.map(|nj| nj as f64 / 1e9 / STEP.as_secs_f64());
        self.pending_nj = [0; NODES_MAX];
        self.network.step(&mut self.temperature_c, &watt);
        self.sensor.step(&self.temperature_c, self.next_step.0 / STEP.0);
        self.peak_nj = self.peak_nj.max(energy_nj);
        self.count(energy_nj, 1);
        self.change_stage();
        energy_nj
    }

    /// Counts a step that happened `times` times.
    fn count(&mut self, energy_nj: u64, times: u64) {
        let len = STEP.times(times);
        self.energy_nj += energy_nj * times;
        let number = self.stage();
        if number > 0 {
            self.log.stage_time[number] = self.log.stage_time[number].after(len);
        }
        let reads_c = self.sensor.reads_c;
        if self.rated.critical_c.is_some_and(|limit| reads_c >= limit) {
            self.log.critical = self.log.critical.after(len);
        } else if self.rated.warning_c.is_some_and(|limit| reads_c >= limit) {
            self.log.warning = self.log.warning.after(len);
        }
    }

    /// Enters the next stage, or leaves the current stage.
    fn change_stage(&mut self) {
        let felt_c = self.temperature_c[CONTROLLER];
        if let Some(&(number, on_c, _)) = self.steps.get(self.stage + 1)
            && felt_c >= on_c
        {
            self.log.stage_entries[number] += u64::from(number > self.stage());
            self.stage += 1;
        } else if self.stage > 0 {
            self.stage -= usize::from(felt_c < self.steps[self.stage].2);
        }
    }

    /// Counts `times` steps at once, if nothing changes any more.
    fn repeat(&mut self, energy_nj: u64, times: u64) {
        self.count(energy_nj, times);
        let len = STEP.times(times);
        self.next_step = self.next_step.after(len);
        self.accounted = self.accounted.after(len);
    }

    /// Temperature of the controller at the last step, degrees Celsius.
    pub fn temperature_c(&self) -> f64 {
        self.temperature_c[CONTROLLER]
    }

    /// Temperatures of all nodes at the last step, degrees Celsius.
    pub fn node_temperatures_c(&self) -> [f64; NODES_MAX] {
        self.temperature_c
    }

    /// Temperature in the health log: whole degrees Celsius.
    pub fn sensor_c(&self) -> f64 {
        self.sensor.reads_c
    }

    /// Maximum energy of a step since the last call, in nanojoules.
    pub fn take_peak_nj(&mut self) -> u64 {
        std::mem::take(&mut self.peak_nj)
    }

    /// Time spent in any throttle stage.
    pub fn throttled(&self) -> Nanos {
        self.log.stage_time.iter().fold(Nanos::ZERO, |sum, &len| sum.after(len))
    }
}
