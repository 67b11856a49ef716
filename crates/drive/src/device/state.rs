//! A drive's state as a value: copied in memory, written to a stream, read back.
//!
//! All of it: map, wear, clock, heat, requests under way, and where every random stream stands. A
//! copy goes on exactly as its original does. What is read back is checked before it is used:
//! nothing that was written by something else can make the drive index where nothing is, or count
//! below zero. How a stream becomes a file is `drivebay-run`'s part.

use std::io::{BufReader, BufWriter, Read, Write};

use drivebay_units::Nanos;

use super::Device;
use crate::firmware::media::Media;
use crate::io::DeviceError;
use crate::persist::{Persist, StateError, ensure, persist};
use crate::profile::Spec;

/// Raised with every change of what is written: older states are not read.
pub const STATE_VERSION: u32 = 33;

persist!(Device: host_interface, link, controller, scheduler, media, thermal, log, lived, zones; given: spec, work_at);

impl Device {
    /// A drive in the same state, with memory of its own.
    ///
    /// # Errors
    /// [`DeviceError::Memory`].
    pub fn duplicate(&self) -> Result<Device, DeviceError> {
        Ok(self.copied_into(Device::new(self.spec.clone(), 0)?))
    }

    /// As [`Device::duplicate`], in the memory of another drive where that fits: cheaper.
    ///
    /// # Errors
    /// [`DeviceError::Memory`].
    pub fn duplicate_into(&self, other: Device) -> Result<Device, DeviceError> {
        Ok(self.copied_into(other.reset(self.spec.clone(), 0)?))
    }

    /// `fresh` is a new drive of the same profile.
    fn copied_into(&self, mut fresh: Device) -> Device {
        fresh.copy_from(self);
        fresh.derive();
        fresh
    }

    /// Works out what follows from the state.
    fn derive(&mut self) {
        self.controller.set_costs(self.spec.throttle[self.thermal.step_held()].costs);
        self.media.page_mapped_mut().into_iter().for_each(|flash| flash.derive());
        self.scheduler.arrange();
        self.work_at = Nanos::ZERO;
    }

    /// Writes the state; the profile is not part of it.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn save(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, out);
        Persist::save(self, &mut out)?;
        out.flush()
    }

    /// A drive of this profile in a state that was written by [`Device::save`].
    ///
    /// `memory`: a drive whose memory is used where it fits. A profile other than that of the drive
    /// that was saved is noticed only if it needs tables of other sizes.
    ///
    /// # Errors
    /// [`StateError`], if the stream ends early or holds no state of such a drive.
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

    /// Checks that what was read is a state that this drive can be in.
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
