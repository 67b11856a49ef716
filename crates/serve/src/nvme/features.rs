//! Features: the values of one controller until its reset.
//!
//! Source: NVM Express base specification 2.0, Set Features; `wire` has a table of the form of each
//! feature. No value of a controller outlasts a reset; those of the subsystem (`records.rs`,
//! `ocp.rs`) do. Power Management, Autonomous Power State Transition and Arbitration are stored and
//! returned, but the model does not act on them: the effect of the states PS1 and PS2 on a drive's
//! speed is unknown, and the drive sleeps by its profile. Host behaviors are also only stored: this
//! controller delays no commands, and no format needs them.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use drivebay_wire::nvme::{AdminOpcode, Feature, Select, Sqe, Status};

use super::identity::{Identity, KEEP_ALIVE_GRAIN};
use super::ocp;
use super::refuse::refuse_if;

/// Threshold that is never exceeded.
const NEVER_OVER: u16 = 0xffff;
/// Get Features, capabilities: the feature can be changed.
const CHANGEABLE: u32 = 1 << 2;
/// Get Features, capabilities: the feature can be saved.
const SAVEABLE: u32 = 1;

/// Current values.
#[derive(Clone, Debug)]
pub(super) struct Features {
    /// Values of the numeric features, by identifier.
    values: [u32; 256],
    /// Values that a host has set as data, by identifier.
    data: BTreeMap<u8, Vec<u8>>,
    /// Upper and lower threshold of the composite temperature, kelvin.
    thresholds: [u16; 2],
    pub host_id: [u8; 16],
    queues_max: u32,
    has_volatile_cache: bool,
    /// True for each power state that serves I/O.
    power_states: Vec<bool>,
}

impl Index<Feature> for Features {
    type Output = u32;

    fn index(&self, feature: Feature) -> &u32 {
        &self.values[feature as usize]
    }
}

impl IndexMut<Feature> for Features {
    fn index_mut(&mut self, feature: Feature) -> &mut u32 {
        &mut self.values[feature as usize]
    }
}

impl Features {
    pub fn new(identity: &Identity) -> Features {
        let queues_max = u32::from(identity.io_queues_max) - 1;
        let over = identity.warning_k();
        let states = identity.own.power_states.iter();
        let mut features = Features {
            values: [0; 256],
            data: BTreeMap::new(),
            thresholds: [over, 0],
            host_id: [0; 16],
            queues_max,
            has_volatile_cache: identity.has_volatile_cache,
            power_states: states.map(|state| state.operational).collect(),
        };
        features[Feature::Arbitration] = u32::from(identity.own.arbitration_burst_log2);
        features[Feature::VolatileWriteCache] = identity.has_volatile_cache.into();
        features[Feature::NumberOfQueues] = queues_max | queues_max << 16;
        features
    }

    /// True if writes may stay in the buffer: a host has not disabled the cache, or the cache does
    /// not lose data.
    pub fn write_cache(&self) -> bool {
        !self.has_volatile_cache || self[Feature::VolatileWriteCache] != 0
    }

    /// Composite temperature above which the drive warns.
    pub fn threshold_k(&self) -> u16 {
        self.thresholds[0]
    }

    /// True if the composite temperature is beyond a threshold.
    pub fn is_beyond(&self, kelvin: u16) -> bool {
        let [over, under] = self.thresholds;
        (kelvin >= over && over != NEVER_OVER) || kelvin <= under
    }

    /// Get Features: returns dword 0 of the completion, and data.
    pub fn get(&self, sqe: &Sqe, identity: &Identity) -> Result<(u32, Vec<u8>), Status> {
        let feature = feature_of(sqe)?;
        let select = select_of(sqe).ok_or(Status::INVALID_FIELD.dnr())?;
        match select {
            Select::Capabilities => {
                let changeable = CHANGEABLE * u32::from(feature != Feature::HostIdentifier);
                let saveable = SAVEABLE * u32::from(feature.shape().is_saveable);
                Ok((changeable | saveable, Vec::new()))
            }
            Select::Current => self.value(feature, sqe),
            Select::Default | Select::Saved => Features::new(identity).value(feature, sqe),
        }
    }

    fn value(&self, feature: Feature, sqe: &Sqe) -> Result<(u32, Vec<u8>), Status> {
        let cdw11 = sqe.cdw11.get();
        let number = match feature {
            Feature::VolatileWriteCache if !self.has_volatile_cache => {
                return Err(Status::INVALID_FIELD.dnr());
            }
            Feature::TemperatureThreshold => self.thresholds[threshold_of(cdw11)?].into(),
            Feature::InterruptVector => self[feature] | cdw11 & 0xffff,
            _ => self[feature],
        };
        let bytes = data_bytes(sqe) as usize;
        let mut data = match feature {
            Feature::HostIdentifier => self.host_id.to_vec(),
            _ => self.data.get(&(feature as u8)).cloned().unwrap_or_default(),
        };
        data.resize(bytes, 0);
        Ok((number, data))
    }

    /// Set Features; returns dword 0 of the completion.
    pub fn set(&mut self, sqe: &Sqe, data: &[u8]) -> Result<u32, Status> {
        let feature = feature_of(sqe)?;
        let shape = feature.shape();
        refuse_if(sqe.cdw10.get() >> 31 != 0 && !shape.is_saveable, Status::FEATURE_NOT_SAVEABLE)?;
        let invalid = Err(Status::INVALID_FIELD.dnr());
        let value = sqe.cdw11.get();
        let states = self.power_states.len().max(1) as u32;
        match feature {
            Feature::VolatileWriteCache if !self.has_volatile_cache => return invalid,
            Feature::PowerManagement if value & 0x1f >= states => return invalid,
            Feature::TemperatureThreshold => {
                self.thresholds[threshold_of(value)?] = value as u16;
                return Ok(0);
            }
            Feature::NumberOfQueues => {
                let (submission, completion) = (value & 0xffff, value >> 16);
                if submission == 0xffff || completion == 0xffff {
                    return invalid;
                }
                let max = self.queues_max;
                self[feature] = submission.min(max) | completion.min(max) << 16;
                return Ok(self[feature]);
            }
            Feature::KeepAliveTimer => {
                self[feature] = in_grains(value);
                return Ok(self[feature]);
            }
            // The only combination is that of the NVM command set.
            Feature::CommandSetProfile if value & 0x1ff != 0 => return invalid,
            Feature::AutonomousTransitions if !data.chunks_exact(8).all(|t| self.may_go(t)) => {
                return invalid;
            }
            // Each of its bytes turns a behavior on or off.
            Feature::HostBehavior if data.iter().take(3).any(|&on| on > 1) => return invalid,
            Feature::HostIdentifier => return Err(Status::COMMAND_SEQUENCE.dnr()),
            _ => {}
        }
        if shape.bytes > 0 {
            self.data.insert(feature as u8, data.to_vec());
        }
        self[feature] = value & shape.mask;
        Ok(0)
    }

    /// True if the transition of a power state is empty or leads to a state without I/O.
    fn may_go(&self, transition: &[u8]) -> bool {
        let (state, ms) = (transition[0] >> 3, &transition[1..4]);
        ms == [0; 3] || self.power_states.get(usize::from(state)) == Some(&false)
    }
}

/// Value that Get Features asks for.
pub(super) fn select_of(sqe: &Sqe) -> Option<Select> {
    Select::from_code((sqe.cdw10.get() >> 8 & 7) as u8)
}

/// Bytes of data that a feature command transfers.
pub(super) fn data_bytes(sqe: &Sqe) -> u32 {
    let Some(feature) = Feature::from_code(sqe.cdw10.get() as u8) else { return 0 };
    let is_get = AdminOpcode::from_code(sqe.opcode) == Some(AdminOpcode::GetFeatures);
    let cdw11 = sqe.cdw11.get();
    match feature {
        _ if is_get && select_of(sqe) == Some(Select::Capabilities) => 0,
        Feature::HostIdentifier => 8 << (cdw11 & 1),
        // This feature is read as a log page.
        Feature::OcpLatencyMonitor if is_get => 0,
        Feature::OcpErrorInjection if is_get => 127 * ocp::INJECTION_BYTES as u32,
        // Kinds of events; their settings take two bytes each.
        Feature::PlacementEvents => (cdw11 >> 16 & 0xff) << u32::from(is_get),
        Feature::OcpErrorInjection => (cdw11 & 0x7f) * ocp::INJECTION_BYTES as u32,
        _ => feature.shape().bytes.into(),
    }
}

/// Rounds a keep-alive timeout, milliseconds, up to the granularity (KAS), as the specification
/// requires; 0 stays "none".
pub(super) fn in_grains(ms: u32) -> u32 {
    let grain = 100 * u32::from(KEEP_ALIVE_GRAIN);
    ms.checked_next_multiple_of(grain).unwrap_or(u32::MAX / grain * grain)
}

fn feature_of(sqe: &Sqe) -> Result<Feature, Status> {
    Feature::from_code(sqe.cdw10.get() as u8).ok_or(Status::INVALID_FIELD.dnr())
}

/// Threshold of a temperature feature: 0 for over, 1 for under.
fn threshold_of(cdw11: u32) -> Result<usize, Status> {
    let (sensor, which) = (cdw11 >> 16 & 0xf, (cdw11 >> 20 & 3) as usize);
    // 0xf means all sensors: the composite temperature is the only one.
    refuse_if(!matches!(sensor, 0 | 0xf) || which > 1, Status::INVALID_FIELD)?;
    Ok(which)
}
