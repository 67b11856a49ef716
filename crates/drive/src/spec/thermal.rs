//! Energy, heat and throttle stages.
//!
//! Air flow: forced convection over a plate grows with the square root of the air's speed (laminar
//! boundary layer, any heat transfer textbook), on top of what still air and radiation carry.

use super::checker::{Checker, SpecError, fs_per_byte};
use super::constants::THROTTLE_STAGES_MAX;
use super::controller::{Costs, slowed};
use super::flash::Geometry;
use crate::raw::{Number, RawNetwork, RawSpec, RawThermal, Word};

/// Energy per operation, in nanojoule; powers in nanojoule per millisecond, that is in microwatt.
#[derive(Clone, Copy, Debug)]
pub struct Energy {
    /// Microwatt asleep.
    pub idle_uw: u64,
    /// Microwatt awake.
    pub active_uw: u64,
    /// Microwatt of the busy flash core, on top.
    pub core_busy_uw: u64,
    /// Programming 4 KiB.
    pub program_4k_nj: u64,
    /// Programming 4 KiB with one bit per cell.
    pub slc_program_4k_nj: u64,
    /// Reading a flash page.
    pub read_page_nj: u64,
    /// Erasing a superblock.
    pub erase_superblock_nj: u64,
    /// 4 KiB over the link.
    pub link_4k_nj: u64,
}

/// Most heat nodes.
pub const NODES_MAX: usize = 4;

/// A network of heat nodes; one node is the smallest.
#[derive(Clone, Debug)]
pub struct ThermalSpec {
    /// Air, degrees Celsius.
    pub ambient_c: f64,
    /// What profiles call the nodes; the controller's is the first.
    pub names: &'static [&'static str],
    /// Joule per kelvin.
    pub capacity: [f64; NODES_MAX],
    /// Watt per kelvin between nodes; symmetric.
    pub between: [[f64; NODES_MAX]; NODES_MAX],
    /// Watt per kelvin to the air.
    pub to_air: [f64; NODES_MAX],
    /// The node that array operations heat.
    pub nand: usize,
    /// The sensor of the health log.
    pub sensor: Sensing,
}

/// How the health log's temperature comes about.
#[derive(Clone, Copy, Debug)]
pub struct Sensing {
    /// Its node.
    pub node: usize,
    /// Steps of 100 ms between readings.
    pub interval_steps: u64,
    /// Time constant in seconds; zero for none.
    pub lag_s: f64,
}

/// One throttle stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThrottleStage {
    /// Entered at this temperature, degrees Celsius.
    pub on_c: f64,
    /// Left below this temperature.
    pub off_c: f64,
    /// The node that it follows.
    pub node: usize,
    /// Costs while it holds.
    pub costs: Costs,
}

pub(super) fn check_energy(raw: &RawSpec, geometry: &Geometry) -> Result<Energy, SpecError> {
    let e = &raw.energy;
    let blocks = u64::from(geometry.dies()) << geometry.plane_shift;
    let thousandth = |field: &str, n: &Number, high: f64| -> Result<u64, SpecError> {
        Ok((Checker::float(field, n, 0.0, high)? * 1000.0).round() as u64)
    };
    Ok(Energy {
        idle_uw: thousandth("energy.idle_mw", &e.idle_mw, 1e5)?,
        active_uw: thousandth("energy.active_mw", &e.active_mw, 1e5)?,
        core_busy_uw: thousandth("energy.core_busy_mw", &e.core_busy_mw, 1e5)?,
        program_4k_nj: thousandth("energy.program_4k_uj", &e.program_4k_uj, 1e4)?,
        slc_program_4k_nj: match &raw.slc_cache {
            Some(slc) => thousandth("slc_cache.program_4k_uj", &slc.program_4k_uj, 1e4)?,
            None => 0,
        },
        read_page_nj: thousandth("energy.read_page_uj", &e.read_page_uj, 1e4)?,
        erase_superblock_nj: thousandth("energy.erase_block_uj", &e.erase_block_uj, 1e6)? * blocks,
        link_4k_nj: thousandth("energy.link_4k_uj", &e.link_4k_uj, 1e4)?,
    })
}

/// One node, or the network's.
const ONE: &[&str] = &["drive"];
const BARE: &[&str] = &["controller", "nand", "module"];
const COOLED: &[&str] = &["controller", "nand", "module", "heatsink"];

pub(super) fn check_thermal(thermal: &RawThermal) -> Result<ThermalSpec, SpecError> {
    let ambient_c = Checker::float("thermal.ambient_c", &thermal.ambient_c, -40.0, 100.0)?;
    let mut nodes = match (&thermal.network, &thermal.resistance_k_per_w, &thermal.capacity_j_per_k)
    {
        (None, Some(resistance), Some(capacity)) => {
            let mut one = ThermalSpec::empty(ONE);
            one.capacity[0] = Checker::float("thermal.capacity_j_per_k", capacity, 0.1, 1e6)?;
            one.to_air[0] = conductance("thermal.resistance_k_per_w", resistance)?;
            one
        }
        (Some(network), None, None) => check_network(network)?,
        _ => {
            let hint = "give thermal.resistance_k_per_w and thermal.capacity_j_per_k, or [thermal.network]";
            return Err(Checker::out("thermal", "this mixture", "one node, or a network", hint));
        }
    };
    nodes.ambient_c = ambient_c;
    if let Some(air) = &thermal.air {
        let speed = Checker::float("thermal.air.speed_m_per_s", &air.speed_m_per_s, 0.0, 100.0)?;
        let gain = Checker::float("thermal.air.gain", &air.gain, 0.0, 100.0)?;
        for to_air in &mut nodes.to_air {
            *to_air *= 1.0 + gain * speed.sqrt();
        }
    }
    if let Some(sensor) = &thermal.sensor {
        let interval =
            Checker::integer("thermal.sensor.interval_ms", &sensor.interval_ms, 100, 60_000)?;
        if interval % 100 != 0 {
            let hint = format!("use {}", interval / 100 * 100);
            return Err(Checker::out(
                "thermal.sensor.interval_ms",
                interval,
                "a multiple of 100",
                &hint,
            ));
        }
        nodes.sensor = Sensing {
            node: nodes.node("thermal.sensor.node", &sensor.node)?,
            interval_steps: interval / 100,
            lag_s: Checker::float("thermal.sensor.lag_ms", &sensor.lag_ms, 0.0, 1e6)? / 1e3,
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
            sensor: Sensing { node: 0, interval_steps: 1, lag_s: 0.0 },
        }
    }

    fn join(&mut self, a: usize, b: usize, watt_per_kelvin: f64) {
        self.between[a][b] = watt_per_kelvin;
        self.between[b][a] = watt_per_kelvin;
    }

    /// The node that a profile names.
    fn node(&self, field: &str, name: &Word) -> Result<usize, SpecError> {
        let nodes: Vec<(&str, usize)> =
            self.names.iter().enumerate().map(|(i, &name)| (name, i)).collect();
        Checker::one_of(field, name, &nodes)
    }
}

fn conductance(field: &str, resistance: &Number) -> Result<f64, SpecError> {
    Ok(1.0 / Checker::float(field, resistance, 0.01, 1000.0)?)
}

fn check_network(network: &RawNetwork) -> Result<ThermalSpec, SpecError> {
    let [controller, nand, module, heatsink] = [0, 1, 2, 3];
    let joule =
        |key: &str, n: &Number| Checker::float(&format!("thermal.network.{key}"), n, 0.1, 1e6);
    let path = |key: &str, n: &Number| conductance(&format!("thermal.network.{key}"), n);
    let mut heat = ThermalSpec::empty(BARE);
    heat.nand = nand;
    heat.capacity[controller] = joule("controller_j_per_k", &network.controller_j_per_k)?;
    heat.capacity[nand] = joule("nand_j_per_k", &network.nand_j_per_k)?;
    heat.capacity[module] = joule("module_j_per_k", &network.module_j_per_k)?;
    let from_controller = &network.controller_to_module_k_per_w;
    heat.join(controller, module, path("controller_to_module_k_per_w", from_controller)?);
    heat.join(nand, module, path("nand_to_module_k_per_w", &network.nand_to_module_k_per_w)?);
    heat.to_air[module] = path("module_to_air_k_per_w", &network.module_to_air_k_per_w)?;
    if let Some(sink) = &network.heatsink {
        heat.names = COOLED;
        heat.capacity[heatsink] = joule("heatsink.capacity_j_per_k", &sink.capacity_j_per_k)?;
        let through_pad = path("heatsink.from_controller_k_per_w", &sink.from_controller_k_per_w)?;
        heat.join(controller, heatsink, through_pad);
        heat.join(nand, heatsink, path("heatsink.from_nand_k_per_w", &sink.from_nand_k_per_w)?);
        heat.to_air[heatsink] = path("heatsink.to_air_k_per_w", &sink.to_air_k_per_w)?;
    }
    Ok(heat)
}

pub(super) fn check_throttle(
    thermal: &RawThermal,
    nodes: &ThermalSpec,
    nominal: Costs,
) -> Result<Vec<ThrottleStage>, SpecError> {
    if thermal.throttle.len() > THROTTLE_STAGES_MAX {
        let hint = "join stages that hardly differ";
        let allowed = format!("at most {THROTTLE_STAGES_MAX} stages");
        return Err(Checker::out("thermal.throttle", thermal.throttle.len(), allowed, hint));
    }
    let mut stages = vec![ThrottleStage {
        on_c: f64::NEG_INFINITY,
        off_c: f64::NEG_INFINITY,
        node: 0,
        costs: nominal,
    }];
    for (i, raw) in thermal.throttle.iter().enumerate() {
        let name = |key: &str| format!("thermal.throttle[{i}].{key}");
        let on_c = Checker::float(&name("on_c"), &raw.on_c, -40.0, 200.0)?;
        let off_c = Checker::float(&name("off_c"), &raw.off_c, -40.0, 200.0)?;
        if off_c >= on_c {
            let hint = "a stage needs hysteresis: leave it some degrees below where it begins";
            return Err(Checker::out(&name("off_c"), off_c, format!("below on_c = {on_c}"), hint));
        }
        let node = match &raw.sensor {
            Some(sensor) => nodes.node(&name("sensor"), sensor)?,
            None => 0,
        };
        if node == stages[i].node && on_c <= stages[i].on_c {
            let hint = "order the stages from mild to severe";
            return Err(Checker::out(
                &name("on_c"),
                on_c,
                format!("above the stage before, {}", stages[i].on_c),
                hint,
            ));
        }
        let percent = Checker::float(&name("clock_percent"), &raw.clock_percent, 1.0, 100.0)?;
        let mut costs = slowed(nominal, percent);
        if let Some(limit) = &raw.write_mb_per_s {
            let rate = Checker::float(&name("write_mb_per_s"), limit, 0.1, 100_000.0)?;
            costs.write_path_fs_per_byte = costs.write_path_fs_per_byte.max(fs_per_byte(rate));
        }
        if let Some(limit) = &raw.read_mb_per_s {
            let rate = Checker::float(&name("read_mb_per_s"), limit, 0.1, 100_000.0)?;
            costs.read_limit_fs_per_byte = costs.read_limit_fs_per_byte.max(fs_per_byte(rate));
        }
        stages.push(ThrottleStage { on_c, off_c, node, costs });
    }
    Ok(stages)
}
