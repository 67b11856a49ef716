//! Sleep states, and the ratings of the health log.
//!
//! Sources: NVM Express base specification, power management: non-operational states with idle
//! time, entry and exit latency; PCI Express 3.1, L1 PM substates; Serial ATA 3.x, Partial (exit
//! under 10 us), Slumber (10 ms) and DevSleep (20 ms). Left out: operational states that cap power
//! (PS1, PS2): it is not known how drives stay within them.

use drivebay_units::Nanos;

use super::key::{Key, Number, SpecError};
use super::schema::{RawSleep, RawSpec};
use super::thermal::Energy;

/// Maximum number of states of a ladder.
const STATES_MAX: usize = 8;

/// Ladders of sleep states of the drive and of its link, which are entered independently.
#[derive(Clone, Debug)]
pub struct Power {
    /// Power of the awake drive without its link, in microwatts.
    pub awake_uw: u64,
    /// Power of the awake link, in microwatts.
    pub link_awake_uw: u64,
    /// Sleep states of the drive, lightest first.
    pub device: Vec<Sleep>,
    /// Sleep states of the link, lightest first.
    pub link: Vec<Sleep>,
}

/// A sleep state.
#[derive(Clone, Copy, Debug)]
pub struct Sleep {
    /// Idle time after which the state is entered.
    pub after: Nanos,
    /// Time to enter the state. During it the drive consumes the power of the previous state.
    pub entry: Nanos,
    /// Time to leave the state.
    pub exit: Nanos,
    /// Power in microwatts.
    pub power_uw: u64,
}

/// Ratings for the health log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rated {
    /// Program/erase cycles at which the drive counts as worn out.
    pub cycles: Option<f64>,
    /// Warning temperature, degrees Celsius.
    pub warning_c: Option<f64>,
    /// Critical temperature, degrees Celsius.
    pub critical_c: Option<f64>,
}

pub(super) fn check_power(raw: &RawSpec, energy: &Energy) -> Result<Option<Power>, SpecError> {
    let Some(power) = &raw.power else { return Ok(None) };
    let awake_mw = energy.active_uw as f64 / 1e3;
    power.link_awake_mw.check("power.link_awake_mw", 0.0..=awake_mw)?;
    let link_awake_uw = (power.link_awake_mw.value * 1e3).round() as u64;
    let awake_uw = energy.active_uw - link_awake_uw;
    Ok(Some(Power {
        awake_uw,
        link_awake_uw,
        device: check_ladder("power.device", &power.device, awake_uw)?,
        link: check_ladder("power.link", &power.link, link_awake_uw)?,
    }))
}

/// Checks that each state is entered after the previous one, and consumes no more power.
fn check_ladder(place: &str, raw: &[RawSleep], awake_uw: u64) -> Result<Vec<Sleep>, SpecError> {
    if raw.len() > STATES_MAX {
        let allowed = format!("at most {STATES_MAX} states");
        let hint = "leave out states that hardly differ";
        return Err(SpecError::out(place, raw.len(), allowed, hint));
    }
    let mut earliest = 1;
    let mut most_uw = awake_uw;
    let mut ladder = Vec::new();
    for (i, state) in raw.iter().enumerate() {
        let name = |key: &str| format!("{place}[{i}].{key}");
        if state.name.trim().is_empty() {
            let hint = "name it as its standard does, for example \"PS3\" or \"L1.2\"";
            return Err(SpecError::out(&name("name"), "\"\"", "a name", hint));
        }
        let (after, entry) = (state.after_us.micros(), state.entry_us.micros());
        if after.0 < earliest {
            let allowed =
                format!("at least {} (when the state before is entered)", earliest as f64 / 1e3);
            let hint = "order the states from light to deep";
            return Err(SpecError::out(&name("after_us"), state.after_us.value, allowed, hint));
        }
        let milliwatt = state.power_mw.value;
        let power_uw = (milliwatt * 1e3).round() as u64;
        if power_uw > most_uw {
            let allowed = format!("at most {} (the state before)", most_uw as f64 / 1e3);
            let hint = "a deeper state takes no more power; power.link has the link's share";
            return Err(SpecError::out(&name("power_mw"), milliwatt, allowed, hint));
        }
        earliest = after.after(entry).0;
        most_uw = power_uw;
        ladder.push(Sleep { after, entry, exit: state.exit_us.micros(), power_uw });
    }
    Ok(ladder)
}

pub(super) fn check_rated(raw: &RawSpec) -> Result<Rated, SpecError> {
    let Some(health) = &raw.health else { return Ok(Rated::default()) };
    let value = |number: &Option<Number>| number.as_ref().map(|n| n.value);
    let (warning_c, critical_c) = (value(&health.warning_c), value(&health.critical_c));
    if let (Some(warning), Some(critical)) = (warning_c, critical_c)
        && critical < warning
    {
        let allowed = format!("at least health.warning_c = {warning}");
        let hint = "the critical temperature is not below the warning temperature";
        return Err(SpecError::out("health.critical_c", critical, allowed, hint));
    }
    Ok(Rated { cycles: value(&health.rated_cycles), warning_c, critical_c })
}
