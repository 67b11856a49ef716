//! Energy, heat and throttle stages.

use super::checker::{Checker, SpecError, fs_per_byte};
use super::controller::{Costs, slowed};
use super::{Geometry, THROTTLE_STAGES_MAX};
use crate::raw::{Number, RawHeat, RawSpec};

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
    /// Reading a flash page.
    pub read_page_nj: u64,
    /// Erasing a superblock.
    pub erase_superblock_nj: u64,
    /// 4 KiB over the link.
    pub link_4k_nj: u64,
}

/// One heat node.
#[derive(Clone, Debug)]
pub struct Heat {
    /// Air, degrees Celsius.
    pub ambient_c: f64,
    /// Kelvin per watt to the air.
    pub resistance: f64,
    /// Joule per kelvin.
    pub capacity: f64,
}

/// One throttle stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThrottleStage {
    /// Entered at this temperature, degrees Celsius.
    pub on_c: f64,
    /// Left below this temperature.
    pub off_c: f64,
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
        read_page_nj: thousandth("energy.read_page_uj", &e.read_page_uj, 1e4)?,
        erase_superblock_nj: thousandth("energy.erase_block_uj", &e.erase_block_uj, 1e6)? * blocks,
        link_4k_nj: thousandth("energy.link_4k_uj", &e.link_4k_uj, 1e4)?,
    })
}

pub(super) fn check_heat(heat: &RawHeat) -> Result<Heat, SpecError> {
    Ok(Heat {
        ambient_c: Checker::float("heat.ambient_c", &heat.ambient_c, -40.0, 100.0)?,
        resistance: Checker::float(
            "heat.resistance_k_per_w",
            &heat.resistance_k_per_w,
            0.01,
            1000.0,
        )?,
        capacity: Checker::float("heat.capacity_j_per_k", &heat.capacity_j_per_k, 0.1, 1e6)?,
    })
}

pub(super) fn check_throttle(
    heat: &RawHeat,
    nominal: Costs,
) -> Result<Vec<ThrottleStage>, SpecError> {
    if heat.throttle.len() > THROTTLE_STAGES_MAX {
        let hint = "join stages that hardly differ";
        let allowed = format!("at most {THROTTLE_STAGES_MAX} stages");
        return Err(Checker::out("heat.throttle", heat.throttle.len(), allowed, hint));
    }
    let mut stages =
        vec![ThrottleStage { on_c: f64::NEG_INFINITY, off_c: f64::NEG_INFINITY, costs: nominal }];
    for (i, raw) in heat.throttle.iter().enumerate() {
        let name = |key: &str| format!("heat.throttle[{i}].{key}");
        let on_c = Checker::float(&name("on_c"), &raw.on_c, -40.0, 200.0)?;
        let off_c = Checker::float(&name("off_c"), &raw.off_c, -40.0, 200.0)?;
        if off_c >= on_c {
            let hint = "a stage needs hysteresis: leave it some degrees below where it begins";
            return Err(Checker::out(&name("off_c"), off_c, format!("below on_c = {on_c}"), hint));
        }
        if on_c <= stages[i].on_c {
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
        stages.push(ThrottleStage { on_c, off_c, costs });
    }
    Ok(stages)
}
