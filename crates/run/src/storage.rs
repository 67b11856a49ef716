//! The device that jobs run on: a drive, or an array of drives. Generic code is compiled for each,
//! so a single drive has no overhead.

use drivebay_drive::{Completion, Counters, Device, DeviceError, Io, Posted, Spec};
use drivebay_units::Nanos;

/// A drive or an array; the methods match those of [`Device`].
pub(crate) trait Storage {
    /// Specification as the host sees it.
    fn spec(&self) -> &Spec;
    /// Time of the last submission, or the end of the last idle time.
    fn now(&self) -> Nanos;
    /// Counters so far.
    fn counters(&self) -> Counters;
    /// Highest power since the last call, watt.
    fn take_peak_power_w(&mut self) -> f64;
    /// Leaves the device idle until `until`.
    fn idle_until(&mut self, until: Nanos);
    /// Returns the drive if this is a single one, so that its inside can be watched.
    fn single(&mut self) -> Option<&mut Device>;
    /// Prefetches the memory that an I/O at `lba` needs.
    fn prefetch(&self, lba: u64);
    /// Time when another command can be fetched.
    fn fetch_free_at(&self) -> Nanos;
    /// Posts a command of the host to a submission queue.
    fn post(&mut self, queue: usize, now: Nanos) -> Posted;
    /// Fetches a posted command.
    fn fetch(&mut self, posted: Posted, room: Nanos, io: Io, tag: u32) -> Result<(), DeviceError>;
    /// Posts and fetches a command at once.
    fn accept(&mut self, now: Nanos, io: Io, tag: u32) -> Result<(), DeviceError>;
    /// Time of the next event of the accepted commands.
    fn next_arrival(&self) -> Nanos;
    /// Processes the next event; returns a completion if it completes a command of the host.
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
    fn single(&mut self) -> Option<&mut Device> {
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
