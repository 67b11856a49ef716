//! Preconditioning of the drive before its first host: none, a fill, or a fill and hours of random
//! writes.
//!
//! It runs in the model's own time, before the server's clock starts. No data is stored, so sectors
//! that no host wrote read as zeros, but the reads go to flash. Sources: the reviews fill with 128
//! KiB once and rest (AnandTech 8979), or fill twice and write at random (Custom PC Review); two
//! fills and then random writes of the capacity is SNIA SSS PTS 2.0.2's workload-independent
//! preconditioning, and half of the requirement for the dependent one.

use drivebay_drive::Device;
use drivebay_run::{Control, Pattern, RunError, Stop, Workload, run};
use drivebay_units::Nanos;
use serde::Deserialize;

/// Preconditioning of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precondition {
    /// Factory state: reads of unwritten sectors do not reach the flash.
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
    /// Preconditions a new drive; `control` may cancel it.
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
