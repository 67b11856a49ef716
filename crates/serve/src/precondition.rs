//! What was done to the drive before its first host: nothing, a fill, or a fill and hours of random
//! writes.
//!
//! In the model's own time, before the server's clock starts; no data is stored, so that what
//! nobody wrote reads as zeros, but comes from flash. Sources: the reviews fill with 128 KiB once
//! and rest (AnandTech 8979), or fill twice and write at random (Custom PC Review); two fills and
//! then random writes of the capacity is SNIA SSS PTS 2.0.2's workload-independent preconditioning,
//! and half of what it asks for the dependent one.

use drivebay_drive::Device;
use drivebay_run::{Control, Pattern, RunError, Stop, Workload, run};
use drivebay_units::Nanos;
use serde::Deserialize;

/// How the drive is prepared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precondition {
    /// As it left the factory: reads of what was not written do not reach the flash.
    #[default]
    New,
    /// All addresses written once, in order, then half an hour of rest: full and cool.
    Filled,
    /// Filled twice, then random writes of 4 KiB of the capacity's size: worn in, and hot.
    Steady,
}

const FILL_BLOCK: u64 = 128 << 10;
pub(crate) const REST: Nanos = Nanos::secs(1800);

impl Precondition {
    /// Does it to a new drive; `control` may cancel it.
    pub(crate) fn apply(
        self,
        device: &mut Device,
        seed: u64,
        control: &Control,
    ) -> Result<(), RunError> {
        let fills = match self {
            Precondition::New => return Ok(()),
            Precondition::Filled => 1,
            Precondition::Steady => 2,
        };
        let bytes = device.spec().capacity_bytes();
        let fill = Workload {
            pattern: Pattern::Sequential,
            block_bytes: FILL_BLOCK,
            span_bytes: bytes,
            stop: Stop::after_bytes(bytes / FILL_BLOCK * FILL_BLOCK),
            ..Workload::default()
        };
        for pass in 0..fills {
            run(device, &fill, seed.wrapping_add(pass), control)?;
        }
        if self == Precondition::Steady {
            let stop = Stop::after_bytes(bytes / 4096 * 4096);
            let random = Workload { span_bytes: bytes, stop, ..Workload::default() };
            run(device, &random, seed.wrapping_add(fills), control)?;
        } else {
            device.idle_until(device.now().after(REST));
        }
        Ok(())
    }
}
