//! The state of a drive as a value: copied in memory, written to a stream, read back.
//!
//! The state contains map, wear, clock, heat, requests under way, and the positions of all random
//! streams. A copy continues exactly as its original. A state is checked before it is used: no
//! foreign or damaged input can cause an index out of bounds or a count below zero. `drivebay-run`
//! stores streams in files.

use std::io::{BufReader, BufWriter, Read, Write};

use drivebay_units::Nanos;

use super::Device;
use crate::firmware::media::Media;
use crate::io::DeviceError;
use crate::persist::{Persist, StateError, ensure, persist};
use crate::profile::Spec;

/// Version of the format, raised with every change of it; older states are not read.
pub const STATE_VERSION: u32 = 34;

persist!(Device: host_interface, link, controller, scheduler, media, thermal, log, lived, zones; given: spec, work_at);

impl Device {
    /// Copies the drive, with its own memory.
    ///
    /// # Errors
    /// [`DeviceError::Memory`].
    pub fn duplicate(&self) -> Result<Device, DeviceError> {
        Ok(self.copied_into(Device::new(self.spec.clone(), 0)?))
    }

    /// Copies the drive as [`Device::duplicate`], but reuses the memory of another drive where it
    /// fits, which is cheaper.
    ///
    /// # Errors
    /// [`DeviceError::Memory`].
    pub fn duplicate_into(&self, other: Device) -> Result<Device, DeviceError> {
        Ok(self.copied_into(other.reset(self.spec.clone(), 0)?))
    }

    /// Copies the state into `fresh`, a new drive of the same profile.
    fn copied_into(&self, mut fresh: Device) -> Device {
        fresh.copy_from(self);
        fresh.derive();
        fresh
    }

    /// Recomputes derived values from the state.
    fn derive(&mut self) {
        self.controller.set_costs(self.spec.throttle[self.thermal.step_held()].costs);
        self.media.page_mapped_mut().into_iter().for_each(|flash| flash.derive());
        self.scheduler.arrange();
        self.work_at = Nanos::ZERO;
    }

    /// Writes the state without the profile.
    ///
    /// # Errors
    /// Errors of the stream.
    pub fn save(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, out);
        Persist::save(self, &mut out)?;
        out.flush()
    }

    /// Creates a drive of this profile in a state that [`Device::save`] wrote.
    ///
    /// `memory` is a drive whose memory is reused where it fits. A profile that differs from that
    /// of the saved drive is detected only if it needs tables of other sizes.
    ///
    /// # Errors
    /// [`StateError`] if the stream ends early or does not hold a state of such a drive.
    pub fn restore(
        spec: Spec,
        memory: Option<Device>,
        from: &mut dyn Read,
    ) -> Result<Device, StateError> {
        let fresh = Self::with_memory(spec, 0, memory.map(|device| device.media));
        let mut device = fresh.map_err(|e| StateError::Memory(e.to_string()))?;
        let mut from = BufReader::with_capacity(1 << 16, from);
        device.load(&mut from)?;
        let mut more = [0];
        ensure(from.read(&mut more)? == 0, "more than a drive of this profile")?;
        device.check_state()?;
        device.derive();
        Ok(device)
    }

    /// Checks that this drive can be in the state that was read.
    fn check_state(&self) -> Result<(), StateError> {
        self.host_interface.check()?;
        self.link.check()?;
        self.controller.check()?;
        let written = match &self.media {
            Media::PageMapped(flash) => {
                flash.check(self.controller.work().1)?;
                flash.host_pages
            }
            Media::InPlace(media) => {
                media.check()?;
                0
            }
        };
        self.log.check(self.now())?;
        self.thermal.check(self.now(), self.work())?;
        self.zones.iter().try_for_each(|zones| zones.check())?;
        self.scheduler.check(|io| self.check(io).is_ok(), written)
    }
}
