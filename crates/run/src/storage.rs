//! What jobs run on: a drive, or an array of drives. Compiled for each, so that a drive pays
//! nothing for it.

use drivebay_drive::{Completion, Counters, Device, DeviceError, Io, Posted, Spec};
use drivebay_units::Nanos;

/// A drive or an array; its functions are those of [`Device`].
pub(crate) trait Storage {
    /// What the host sees of it.
    fn spec(&self) -> &Spec;
    /// Time of the last submission, or the end of the last idle time.
    fn now(&self) -> Nanos;
    /// Everything counted so far.
    fn counters(&self) -> Counters;
    /// Highest power since the last call, watt.
    fn take_peak_power_w(&mut self) -> f64;
    /// Nothing is asked of it until `until`.
    fn idle_until(&mut self, until: Nanos);
    /// The one drive that it is, whose inside can be watched.
    fn one(&mut self) -> Option<&mut Device>;
    /// Starts fetching what an I/O at `lba` will need.
    fn prefetch(&self, lba: u64);
    /// When another command can be fetched.
    fn fetch_free_at(&self) -> Nanos;
    /// The host puts a command into a submission queue.
    fn post(&mut self, queue: usize, now: Nanos) -> Posted;
    /// A posted command is fetched.
    fn fetch(&mut self, posted: Posted, room: Nanos, io: Io, tag: u32) -> Result<(), DeviceError>;
    /// A command is posted and fetched at once.
    fn accept(&mut self, now: Nanos, io: Io, tag: u32) -> Result<(), DeviceError>;
    /// When something happens next to what was accepted.
    fn next_arrival(&self) -> Nanos;
    /// What happens next; a completion, if it completes a command of the host.
    fn serve(&mut self) -> Result<Option<Completion>, DeviceError>;
}

impl Storage for Device {
    fn spec(&self) -> &Spec {
        Device::spec(self)
    }
    fn now(&self) -> Nanos {
        Device::now(self)
    }
    fn counters(&self) -> Counters {
        Device::counters(self)
    }
    fn take_peak_power_w(&mut self) -> f64 {
        Device::take_peak_power_w(self)
    }
    fn idle_until(&mut self, until: Nanos) {
        Device::idle_until(self, until);
    }
    fn one(&mut self) -> Option<&mut Device> {
        Some(self)
    }
    #[inline(always)]
    fn prefetch(&self, lba: u64) {
        Device::prefetch(self, lba);
    }
    #[inline(always)]
    fn fetch_free_at(&self) -> Nanos {
        Device::fetch_free_at(self)
    }
    #[inline(always)]
    fn post(&mut self, queue: usize, now: Nanos) -> Posted {
        Device::post(self, queue, now)
    }
    #[inline(always)]
    fn fetch(&mut self, posted: Posted, room: Nanos, io: Io, tag: u32) -> Result<(), DeviceError> {
        Device::fetch(self, posted, room, io, tag)
    }
    #[inline(always)]
    fn accept(&mut self, now: Nanos, io: Io, tag: u32) -> Result<(), DeviceError> {
        Device::accept(self, now, io, tag, Nanos::ZERO).map(drop)
    }
    #[inline(always)]
    fn next_arrival(&self) -> Nanos {
        Device::next_arrival(self)
    }
    #[inline(always)]
    fn serve(&mut self) -> Result<Option<Completion>, DeviceError> {
        Device::serve(self)
    }
}
