//! Energy, heat and throttle stages.

use super::constants::{THROTTLE_STAGES_MAX, THROTTLE_STEPS};
use super::controller::{Costs, slowed};
use super::flash::Geometry;
use super::key::{Number, SpecError};
use super::schema::{RawNetwork, RawSpec, RawThermal};

/// Energy per operation in nanojoules, and power in microwatts (nanojoules per millisecond).
#[derive(Clone, Copy, Debug)]
pub struct Energy {
    /// Power asleep, in microwatts.
    pub idle_uw: u64,
    /// Power awake, in microwatts.
    pub active_uw: u64,
    /// Additional power of the busy flash core, in microwatts.
    pub core_busy_uw: u64,
    /// Energy to program 4 KiB.
    pub program_4k_nj: u64,
    /// Energy to program 4 KiB with one bit per cell.
    pub slc_program_4k_nj: u64,
    /// Energy to read a flash page.
    pub read_page_nj: u64,
    /// Energy to move 4 KiB of read data through channel and error correction.
    pub read_4k_nj: u64,
    /// Energy to erase a superblock.
    pub erase_superblock_nj: u64,
    /// Energy to move 4 KiB over the link.
    pub link_4k_nj: u64,
}

/// Maximum number of heat nodes.
pub const NODES_MAX: usize = 4;

/// A network of one or more heat nodes.
#[derive(Clone, Debug)]
pub struct ThermalSpec {
    /// Temperature of the air, degrees Celsius.
    pub ambient_c: f64,
    /// Names of the nodes in profiles; the controller's node is the first.
    pub names: &'static [&'static str],
    /// Heat capacities, in joules per kelvin.
    pub capacity: [f64; NODES_MAX],
    /// Conductance between nodes, in watts per kelvin; symmetric.
    pub between: [[f64; NODES_MAX]; NODES_MAX],
    /// Conductance to the air, in watts per kelvin.
    pub to_air: [f64; NODES_MAX],
    /// The node that array operations heat.
    pub nand: usize,
    /// The sensor of the health log.
    pub sensor: Sensing,
}

/// Sensor of the health log's temperature.
#[derive(Clone, Copy, Debug)]
pub struct Sensing {
    /// Index of the heat node that the sensor measures.
    pub node: usize,
    /// Steps of 100 ms between readings.
    pub interval_steps: u64,
}

/// A throttle stage, or one step of a stage that takes effect gradually.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThrottleStage {
    /// Number of the stage in the profile; 0 for no throttling.
    pub number: usize,
    /// Temperature at which the stage is entered, degrees Celsius.
    pub on_c: f64,
    /// Temperature below which the stage is left, degrees Celsius.
    pub off_c: f64,
    /// Costs during the stage.
    pub costs: Costs,
}

pub(super) fn energy(raw: &RawSpec, geometry: &Geometry) -> Energy {
    let e = &raw.energy;
    let blocks = u64::from(geometry.superblock_blocks);
    let thousandth = |number: &Number| (number.value * 1000.0).round() as u64;
    Energy {
        idle_uw: thousandth(&e.idle_mw),
        active_uw: thousandth(&e.active_mw),
        core_busy_uw: thousandth(&e.core_busy_mw),
        program_4k_nj: thousandth(&e.program_4k_uj),
        slc_program_4k_nj: raw.slc_cache.as_ref().map_or(0, |slc| thousandth(&slc.program_4k_uj)),
        read_page_nj: thousandth(&e.read_page_uj),
        read_4k_nj: e.read_4k_uj.as_ref().map_or(0, thousandth),
        erase_superblock_nj: thousandth(&e.erase_block_uj) * blocks,
        link_4k_nj: thousandth(&e.link_4k_uj),
    }
}

/// Names of the nodes: a single node, or a network without or with a heatsink.
const SINGLE: &[&str] = &["drive"];
const BARE: &[&str] = &["controller", "nand", "module"];
const COOLED: &[&str] = &["controller", "nand", "module", "heatsink"];

pub(super) fn check_thermal(thermal: &RawThermal) -> Result<ThermalSpec, SpecError> {
    let mut nodes = match (&thermal.network, &thermal.resistance_k_per_w, &thermal.capacity_j_per_k)
    {
        (None, Some(resistance), Some(capacity)) => {
            let mut node = ThermalSpec::empty(SINGLE);
            node.capacity[0] = capacity.value;
            node.to_air[0] = conductance(resistance);
            node
        }
        (Some(network), None, None) => ThermalSpec::from_network(network),
        _ => {
            let hint = "give thermal.resistance_k_per_w and thermal.capacity_j_per_k, or [thermal.network]";
            let allowed = "a single node, or a network";
            return Err(SpecError::out("thermal", "this combination", allowed, hint));
        }
    };
    nodes.ambient_c = thermal.ambient_c.value;
    if let Some(sensor) = &thermal.sensor {
        let interval = sensor.interval_ms.value;
        if interval % 100 != 0 {
            let hint = format!("use {}", interval / 100 * 100);
            let field = "thermal.sensor.interval_ms";
            return Err(SpecError::out(field, interval, "a multiple of 100", &hint));
        }
        let names: Vec<(&str, usize)> = nodes.names.iter().copied().zip(0..).collect();
        nodes.sensor = Sensing {
            node: sensor.node.choose("thermal.sensor.node", &names)?,
            interval_steps: interval / 100,
        };
    }
    Ok(nodes)
}

impl ThermalSpec {
    fn empty(names: &'static [&'static str]) -> ThermalSpec {
        ThermalSpec {
            ambient_c: 0.0,
            names,
            capacity: [1.0; NODES_MAX],
            between: [[0.0; NODES_MAX]; NODES_MAX],
            to_air: [0.0; NODES_MAX],
            nand: 0,
            sensor: Sensing { node: 0, interval_steps: 1 },
        }
    }

    fn from_network(network: &RawNetwork) -> ThermalSpec {
        let [controller, nand, module, heatsink] = [0, 1, 2, 3];
        let mut heat = ThermalSpec::empty(BARE);
        heat.nand = nand;
        heat.capacity[controller] = network.controller_j_per_k.value;
        heat.capacity[nand] = network.nand_j_per_k.value;
        heat.capacity[module] = network.module_j_per_k.value;
        heat.join(controller, module, conductance(&network.controller_to_module_k_per_w));
        heat.join(nand, module, conductance(&network.nand_to_module_k_per_w));
        heat.to_air[module] = conductance(&network.module_to_air_k_per_w);
        if let Some(sink) = &network.heatsink {
            heat.names = COOLED;
            heat.capacity[heatsink] = sink.capacity_j_per_k.value;
            heat.join(controller, heatsink, conductance(&sink.from_controller_k_per_w));
            heat.join(nand, heatsink, conductance(&sink.from_nand_k_per_w));
            heat.to_air[heatsink] = conductance(&sink.to_air_k_per_w);
        }
        heat
    }

    fn join(&mut self, a: usize, b: usize, watt_per_kelvin: f64) {
        self.between[a][b] = watt_per_kelvin;
        self.between[b][a] = watt_per_kelvin;
    }
}

fn conductance(resistance: &Number) -> f64 {
    1.0 / resistance.value
}

pub(super) fn check_throttle(
    thermal: &RawThermal,
    nominal: Costs,
) -> Result<Vec<ThrottleStage>, SpecError> {
    if thermal.throttle.len() > THROTTLE_STAGES_MAX {
        let hint = "join stages that hardly differ";
        let allowed = format!("at most {THROTTLE_STAGES_MAX} stages");
        return Err(SpecError::out("thermal.throttle", thermal.throttle.len(), allowed, hint));
    }
    let mut stages = vec![ThrottleStage {
        number: 0,
        on_c: f64::NEG_INFINITY,
        off_c: f64::NEG_INFINITY,
        costs: nominal,
    }];
    for (i, raw) in thermal.throttle.iter().enumerate() {
        let name = |key: &str| format!("thermal.throttle[{i}].{key}");
        let (on_c, off_c) = (raw.on_c.value, raw.off_c.value);
        if off_c >= on_c {
            let hint = "a stage needs hysteresis; set off_c some degrees below on_c";
            let allowed = format!("below on_c = {on_c}");
            return Err(SpecError::out(&name("off_c"), off_c, allowed, hint));
        }
        let before = stages[stages.len() - 1];
        if on_c <= before.on_c {
            let hint = "order the stages from mild to severe";
            let allowed = format!("above the stage before, {}", before.on_c);
            return Err(SpecError::out(&name("on_c"), on_c, allowed, hint));
        }
        let [write_limit, read_limit] = [&raw.write_mb_per_s, &raw.read_mb_per_s]
            .map(|rate| rate.as_ref().map_or(0, Number::fs_per_byte));
        let (steps, step_c) = match &raw.full_c {
            None => (1, 0.0),
            Some(full) if full.value <= on_c => {
                let allowed = format!("above on_c = {on_c}");
                let hint = "leave it out for a stage that takes effect at once";
                return Err(SpecError::out(&name("full_c"), full.value, allowed, hint));
            }
            Some(full) => (THROTTLE_STEPS, (full.value - on_c) / f64::from(THROTTLE_STEPS - 1)),
        };
        for step in 0..steps {
            let share = f64::from(step + 1) / f64::from(steps);
            let mut costs = slowed(nominal, 100.0 - (100.0 - raw.clock_percent.value) * share);
            costs.write_path_fs_per_byte = costs.write_path_fs_per_byte.max(write_limit);
            costs.read_limit_fs_per_byte = costs.read_limit_fs_per_byte.max(read_limit);
            let rise = step_c * f64::from(step);
            let (on_c, off_c) = (on_c + rise, off_c + rise);
            stages.push(ThrottleStage { number: i + 1, on_c, off_c, costs });
        }
    }
    Ok(stages)
}
