//! Features, with the values that hold for one controller until its reset.
//!
//! Source: NVM Express base specification 1.4, section 5.21.1. No value outlasts a reset. Power
//! Management and Arbitration are kept and given back; the model does not act on them: what the states
//! PS1 and PS2 do to a drive's speed is not known, and it sleeps by its profile.

use drivebay_wire::nvme::{Feature, Select, Sqe, Status};

use super::identity::Identity;

/// Temperatures with thresholds: the composite one.
const SENSORS: usize = 1;
/// The threshold that is never passed.
const NEVER_OVER: u16 = 0xffff;
/// Get Features, capabilities: it can be changed.
const CHANGEABLE: u32 = 1 << 2;

/// Present values.
#[derive(Clone, Debug)]
pub(super) struct Features {
    arbitration: u32,
    power_state: u32,
    /// Over and under, kelvin.
    thresholds: [[u16; 2]; SENSORS],
    error_recovery: u32,
    pub write_cache: bool,
    queues: u32,
    coalescing: u32,
    vectors: u32,
    atomicity: u32,
    pub events: u32,
    pub keep_alive_ms: u32,
    pub host_id: [u8; 16],
    queues_max: u32,
    power_states: u32,
}

impl Features {
    pub fn new(identity: &Identity) -> Features {
        let queues_max = u32::from(identity.io_queues_max) - 1;
        let warning = match identity.warning_k() {
            0 => NEVER_OVER,
            kelvin => kelvin,
        };
        let mut thresholds = [[NEVER_OVER, 0]; SENSORS];
        thresholds[0][0] = warning;
        Features {
            arbitration: u32::from(identity.own.arbitration_burst_log2),
            power_state: 0,
            thresholds,
            error_recovery: 0,
            write_cache: true,
            queues: queues_max | queues_max << 16,
            coalescing: 0,
            vectors: 0,
            atomicity: 0,
            events: 0,
            keep_alive_ms: 0,
            host_id: [0; 16],
            queues_max,
            power_states: identity.own.power_states.len().max(1) as u32,
        }
    }

    /// Whether the composite temperature is beyond a threshold.
    pub fn is_beyond(&self, kelvin: u16) -> bool {
        let [over, under] = self.thresholds[0];
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
            Feature::Arbitration => self.arbitration,
            Feature::PowerManagement => self.power_state,
            Feature::TemperatureThreshold => {
                let (sensor, which) = threshold_of(cdw11)?;
                u32::from(self.thresholds[sensor][which])
            }
            Feature::ErrorRecovery => self.error_recovery,
            Feature::VolatileWriteCache => u32::from(self.write_cache),
            Feature::NumberOfQueues => self.queues,
            Feature::InterruptCoalescing => self.coalescing,
            Feature::InterruptVector => self.vectors | cdw11 & 0xffff,
            Feature::WriteAtomicity => self.atomicity,
            Feature::AsyncEvents => self.events,
            Feature::KeepAliveTimer => self.keep_alive_ms,
            Feature::HostIdentifier => {
                let wide = cdw11 & 1 != 0;
                return Ok((0, self.host_id[..if wide { 16 } else { 8 }].to_vec()));
            }
        };
        Ok((number, Vec::new()))
    }

    /// Set Features; gives back what the completion carries.
    pub fn set(&mut self, sqe: &Sqe) -> Result<u32, Status> {
        let feature = feature_of(sqe)?;
        if sqe.cdw10.get() >> 31 != 0 {
            return Err(Status::FEATURE_NOT_SAVEABLE.dnr());
        }
        let value = sqe.cdw11.get();
        match feature {
            Feature::Arbitration => self.arbitration = value & 0xffff_ff07,
            Feature::PowerManagement => {
                if value & 0x1f >= self.power_states {
                    return Err(Status::INVALID_FIELD.dnr());
                }
                self.power_state = value & 0xff;
            }
            Feature::TemperatureThreshold => {
                let (sensor, which) = threshold_of(value)?;
                self.thresholds[sensor][which] = value as u16;
            }
            Feature::ErrorRecovery => self.error_recovery = value & 0xffff,
            Feature::VolatileWriteCache => self.write_cache = value & 1 != 0,
            Feature::NumberOfQueues => {
                let (submission, completion) = (value & 0xffff, value >> 16);
                if submission == 0xffff || completion == 0xffff {
                    return Err(Status::INVALID_FIELD.dnr());
                }
                let max = self.queues_max;
                self.queues = submission.min(max) | completion.min(max) << 16;
                return Ok(self.queues);
            }
            Feature::InterruptCoalescing => self.coalescing = value & 0xffff,
            Feature::InterruptVector => self.vectors = value & 1 << 16,
            Feature::WriteAtomicity => self.atomicity = value & 1,
            Feature::AsyncEvents => self.events = value,
            Feature::KeepAliveTimer => self.keep_alive_ms = value,
            Feature::HostIdentifier => return Err(Status::COMMAND_SEQUENCE.dnr()),
        }
        Ok(0)
    }
}

fn feature_of(sqe: &Sqe) -> Result<Feature, Status> {
    Feature::of(sqe.cdw10.get() as u8).ok_or(Status::INVALID_FIELD.dnr())
}

/// Sensor and kind of threshold that a temperature feature names.
fn threshold_of(cdw11: u32) -> Result<(usize, usize), Status> {
    let (sensor, which) = ((cdw11 >> 16 & 0xf) as usize, (cdw11 >> 20 & 3) as usize);
    // All sensors at once: the composite temperature is the one there is.
    let sensor = if sensor == 0xf { 0 } else { sensor };
    if sensor == 0 && which < 2 { Ok((sensor, which)) } else { Err(Status::INVALID_FIELD.dnr()) }
}
