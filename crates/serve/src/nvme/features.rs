//! Features, with the values that hold for one controller until its reset.
//!
//! Source: NVM Express base specification 1.4, section 5.21.1. No value outlasts a reset. Power
//! Management and Arbitration are kept and given back; the model does not act on them: what the states
//! PS1 and PS2 do to a drive's speed is not known, and it sleeps by its profile.

use std::ops::{Index, IndexMut};

use drivebay_wire::nvme::{Feature, Select, Sqe, Status};

use super::identity::{Identity, KEEP_ALIVE_GRAIN};

/// The threshold that is never passed.
const NEVER_OVER: u16 = 0xffff;
/// Get Features, capabilities: it can be changed.
const CHANGEABLE: u32 = 1 << 2;

/// Present values.
#[derive(Clone, Debug)]
pub(super) struct Features {
    /// By identifier, of those that are plain numbers.
    values: [u32; 16],
    /// Over and under, kelvin, of the composite temperature.
    thresholds: [u16; 2],
    pub host_id: [u8; 16],
    queues_max: u32,
    power_states: u32,
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
        let over = match identity.warning_k() {
            0 => NEVER_OVER,
            kelvin => kelvin,
        };
        let power_states = identity.own.power_states.len().max(1) as u32;
        let (values, thresholds, host_id) = ([0; 16], [over, 0], [0; 16]);
        let mut features = Features { values, thresholds, host_id, queues_max, power_states };
        features[Feature::Arbitration] = u32::from(identity.own.arbitration_burst_log2);
        features[Feature::VolatileWriteCache] = 1;
        features[Feature::NumberOfQueues] = queues_max | queues_max << 16;
        features
    }

    /// Whether the composite temperature is beyond a threshold.
    pub fn is_beyond(&self, kelvin: u16) -> bool {
        let [over, under] = self.thresholds;
        (kelvin >= over && over != NEVER_OVER) || kelvin <= under
    }

    /// Get Features; the host identifier comes as data.
    pub fn get(&self, sqe: &Sqe, identity: &Identity) -> Result<(u32, Vec<u8>), Status> {
        let feature = feature_of(sqe)?;
        let select =
            Select::of((sqe.cdw10.get() >> 8 & 7) as u8).ok_or(Status::INVALID_FIELD.dnr())?;
        match select {
            Select::Capabilities => {
                let fixed = feature == Feature::HostIdentifier;
                Ok((if fixed { 0 } else { CHANGEABLE }, Vec::new()))
            }
            Select::Current => self.value(feature, sqe),
            Select::Default | Select::Saved => Features::new(identity).value(feature, sqe),
        }
    }

    fn value(&self, feature: Feature, sqe: &Sqe) -> Result<(u32, Vec<u8>), Status> {
        let cdw11 = sqe.cdw11.get();
        let number = match feature {
            Feature::TemperatureThreshold => self.thresholds[threshold_of(cdw11)?].into(),
            Feature::InterruptVector => self[feature] | cdw11 & 0xffff,
            Feature::HostIdentifier => {
                let is_wide = cdw11 & 1 != 0;
                return Ok((0, self.host_id[..if is_wide { 16 } else { 8 }].to_vec()));
            }
            _ => self[feature],
        };
        Ok((number, Vec::new()))
    }

    /// Set Features; returns dword 0 of the completion.
    pub fn set(&mut self, sqe: &Sqe) -> Result<u32, Status> {
        let feature = feature_of(sqe)?;
        if sqe.cdw10.get() >> 31 != 0 {
            return Err(Status::FEATURE_NOT_SAVEABLE.dnr());
        }
        let value = sqe.cdw11.get();
        let mask = match feature {
            Feature::Arbitration => 0xffff_ff07,
            Feature::PowerManagement if value & 0x1f >= self.power_states => {
                return Err(Status::INVALID_FIELD.dnr());
            }
            Feature::PowerManagement => 0xff,
            Feature::TemperatureThreshold => {
                self.thresholds[threshold_of(value)?] = value as u16;
                return Ok(0);
            }
            Feature::NumberOfQueues => {
                let (submission, completion) = (value & 0xffff, value >> 16);
                if submission == 0xffff || completion == 0xffff {
                    return Err(Status::INVALID_FIELD.dnr());
                }
                let max = self.queues_max;
                self[feature] = submission.min(max) | completion.min(max) << 16;
                return Ok(self[feature]);
            }
            Feature::ErrorRecovery | Feature::InterruptCoalescing => 0xffff,
            Feature::InterruptVector => 1 << 16,
            Feature::VolatileWriteCache | Feature::WriteAtomicity => 1,
            Feature::KeepAliveTimer => {
                self[feature] = in_grains(value);
                return Ok(self[feature]);
            }
            Feature::AsyncEvents => u32::MAX,
            Feature::HostIdentifier => return Err(Status::COMMAND_SEQUENCE.dnr()),
        };
        self[feature] = value & mask;
        Ok(0)
    }
}

/// A keep-alive timeout, milliseconds, as the controller keeps it: rounded up to whole grains (KAS), as the specification
/// has it; 0 stays "none".
pub(super) fn in_grains(ms: u32) -> u32 {
    let grain = 100 * u32::from(KEEP_ALIVE_GRAIN);
    ms.checked_next_multiple_of(grain).unwrap_or(u32::MAX / grain * grain)
}

fn feature_of(sqe: &Sqe) -> Result<Feature, Status> {
    Feature::of(sqe.cdw10.get() as u8).ok_or(Status::INVALID_FIELD.dnr())
}

/// Which threshold a temperature feature names: 0 for over, 1 for under.
fn threshold_of(cdw11: u32) -> Result<usize, Status> {
    let (sensor, which) = (cdw11 >> 16 & 0xf, (cdw11 >> 20 & 3) as usize);
    // 0xf stands for all sensors: the composite temperature is the only one.
    if matches!(sensor, 0 | 0xf) && which < 2 {
        Ok(which)
    } else {
        Err(Status::INVALID_FIELD.dnr())
    }
}
