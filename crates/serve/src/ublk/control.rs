//! Life of a block device, from creation to removal.
//!
//! To start it, the kernel waits until the event loop waits for commands, and reads partition
//! tables, which the loop serves; to stop it, the kernel writes the rest of the page cache, which
//! the loop also serves. So both run in a separate thread.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::io::ErrorKind::{PermissionDenied, TimedOut};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use drivebay_drive::Spec;
use drivebay_wire::ublk::{
    ANY_DEVICE, ATTR_FUA, ATTR_READ_ONLY, ATTR_VOLATILE_CACHE, CONTROL_PATH, ControlOp, DeviceInfo,
    PARAMS_BASIC_AND_DISCARD, Params, STATE_DEAD, USER_COPY,
};

use super::device::UblkDevice;
use super::ring::{ANSWER_MAX, ControlRing, QueueRing};
use crate::error::ServeError;
use crate::event_loop::EventLoop;
use crate::namespace::Namespace;

/// Logical block: the drive's sectors of 512 B.
const LOGICAL_SHIFT: u8 = 9;
/// Physical block: mapping unit of the drive, 4 KiB; smaller writes read the rest first.
const PHYSICAL_SHIFT: u8 = 12;
/// Most commands of a queue: the default of ublksrv, the kernel author's own server.
const DEPTH_MAX: u32 = 128;
/// Most data of a command, a power of two: what Linux sends to most disks at once (max_sectors_kb
/// is 1280 by default).
const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// Most sectors of a command without data: 1 GiB, as the kernel's NVMe driver cannot ask for more
/// than 2 TiB, and a command of that size would delay others. guess.
const DISCARD_SECTORS_MAX: u32 = 1 << 21;
/// Marks devices as drivebay's, in the upper half of the number that the kernel stores for a
/// server; the lower half is the process ID.
const MARK: u64 = 0x6462_6179 << 32;

/// Error for a user other than root.
fn no_permission(why: io::Error) -> ServeError {
    let what = format!("--ublk: {CONTROL_PATH} cannot be used: {why}");
    ServeError::machine(what, "run it as root: sudo drivebay serve")
}

/// Error if io_uring is disabled.
fn no_ring(why: io::Error) -> ServeError {
    let hint = "sudo sysctl kernel.io_uring_disabled=0; in a container: its seccomp rules";
    ServeError::machine(format!("--ublk: io_uring is not available: {why}"), hint)
}

/// Error for a command that the kernel refused, or did not answer.
fn failed(what: &str, why: io::Error) -> ServeError {
    if why.kind() == PermissionDenied {
        return no_permission(why);
    }
    if why.kind() == TimedOut {
        let system = rustix::system::uname();
        let release = system.release().to_string_lossy();
        let what = format!("--ublk: {what}: Linux {release} does not answer within");
        let hint = "ublk of this kernel is broken until a reboot (sudo dmesg | grep ublk): boot \
                    another kernel, or serve with --nbd, and nbd-client";
        return ServeError::machine(format!("{what} {} s", ANSWER_MAX.as_secs()), hint);
    }
    let hint = "the kernel log may have the reason: sudo dmesg | tail";
    ServeError::machine(format!("--ublk: {what} failed: {why}"), hint)
}

/// Parameters of a drive's block devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Number of queues; at most one per processor.
    queues: u16,
    /// Commands per queue.
    depth: u16,
    /// Most data of a command, bytes.
    transfer_bytes_max: u32,
    /// True if written data is durable only after a flush.
    has_volatile_cache: bool,
    /// Mapping unit, bytes.
    unit_bytes: u32,
}

impl Shape {
    /// Chooses the parameters for a drive, on a machine with this number of processors. The kernel
    /// sends flushes only to a device with a volatile cache.
    pub fn new(spec: &Spec, processors: usize, has_volatile_cache: bool) -> Shape {
        Shape {
            queues: (processors as u64).clamp(1, spec.host_interface.queues_max.into()) as u16,
            depth: spec.queue_depth_max.clamp(1, DEPTH_MAX) as u16,
            transfer_bytes_max: TRANSFER_BYTES_MAX.min(spec.host.transfer_max << LOGICAL_SHIFT),
            has_volatile_cache,
            unit_bytes: spec.geometry.unit_bytes() as u32,
        }
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            nr_hw_queues: self.queues,
            queue_depth: self.depth,
            max_io_buf_bytes: self.transfer_bytes_max,
            dev_id: ANY_DEVICE,
            flags: USER_COPY,
            ublksrv_flags: MARK | u64::from(std::process::id()),
            ..DeviceInfo::default()
        }
    }

    fn params(&self, namespace: &Namespace) -> Params {
        let cache = if self.has_volatile_cache { ATTR_VOLATILE_CACHE | ATTR_FUA } else { 0 };
        let read_only = if namespace.is_read_only { ATTR_READ_ONLY } else { 0 };
        Params {
            len: std::mem::offset_of!(Params, unused) as u32,
            types: PARAMS_BASIC_AND_DISCARD,
            attrs: cache | read_only,
            logical_bs_shift: LOGICAL_SHIFT,
            physical_bs_shift: PHYSICAL_SHIFT,
            io_opt_shift: self.unit_bytes.ilog2() as u8,
            io_min_shift: self.unit_bytes.ilog2() as u8,
            max_sectors: self.transfer_bytes_max >> LOGICAL_SHIFT,
            dev_sectors: namespace.sectors(),
            discard_granularity: self.unit_bytes,
            max_discard_sectors: DISCARD_SECTORS_MAX,
            max_write_zeroes_sectors: DISCARD_SECTORS_MAX,
            max_discard_segments: 1,
            ..Params::default()
        }
    }
}

/// Server's end of a block device.
pub(crate) struct Control {
    ring: ControlRing,
    id: u32,
    /// Signals that the device must end, by a message or by being dropped.
    ending: Receiver<()>,
}

impl Control {
    /// Creates a device for a namespace, with its session in the event loop; it is not visible to
    /// hosts yet. `is_cancelled` ends waits for the kernel.
    pub fn new(
        event_loop: &mut EventLoop,
        shape: Shape,
        namespace: &Arc<Namespace>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Control, ServeError> {
        let mut ring = ControlRing::new(open_control()?).map_err(no_ring)?;
        let mut features = 0_u64;
        let asked = ring.with(ControlOp::GetFeatures, ANY_DEVICE, &mut features, is_cancelled);
        match asked {
            Err(why) if [PermissionDenied, TimedOut].contains(&why.kind()) => {
                return Err(failed("asking for its features", why));
            }
            Ok(()) if features & USER_COPY != 0 => {}
            _ => {
                let what = "--ublk: this kernel's ublk cannot copy by read and write";
                return Err(ServeError::machine(what, "Linux 6.5 or later is needed: uname -r"));
            }
        }
        remove_left_over(&mut ring, is_cancelled);
        let mut info = shape.info();
        let added = ring.with(ControlOp::AddDevice, ANY_DEVICE, &mut info, is_cancelled);
        added.map_err(|why| failed("adding a device", why))?;
        let (sender, ending) = channel();
        // From here on a drop removes the device.
        let mut control = Control { ring, id: info.dev_id, ending };
        let mut params = shape.params(namespace);
        control
            .ring
            .with(ControlOp::SetParams, info.dev_id, &mut params, is_cancelled)
            .map_err(|why| failed("setting its size", why))?;
        let path = format!("/dev/ublkc{}", info.dev_id);
        let file =
            open(Path::new(&path)).map_err(|why| failed("opening its character device", why))?;
        // The kernel may grant less than requested.
        let (queues, depth) = (info.nr_hw_queues, info.queue_depth);
        let ring = QueueRing::new(file, queues, depth).map_err(no_ring)?;
        let device = UblkDevice::new(ring, namespace, shape.transfer_bytes_max, sender);
        let session = event_loop.add(Box::new(device)).map_err(|why| failed("watching it", why))?;
        event_loop.notify(session);
        Ok(control)
    }

    /// Path of the block device.
    pub fn path(&self) -> String {
        format!("/dev/ublkb{}", self.id)
    }

    /// Makes the block device visible until its session signals the end, then removes it. The event
    /// loop must run.
    pub fn run(mut self) -> Result<(), ServeError> {
        let pid = u64::from(std::process::id());
        let started = self.ring.command(ControlOp::StartDevice, self.id, pid);
        started.map_err(|why| failed("starting the device", why))?;
        // An error means that the session has ended.
        let _ = self.ending.recv();
        let stopped = self.ring.command(ControlOp::StopDevice, self.id, 0);
        stopped.map_err(|why| failed("stopping the device", why))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.ring.delete(self.id);
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

fn open_control() -> Result<File, ServeError> {
    open(Path::new(CONTROL_PATH)).map_err(|why| match why.kind() {
        PermissionDenied => no_permission(why),
        _ => ServeError::machine(
            format!("--ublk: there is no {CONTROL_PATH}"),
            "sudo modprobe ublk_drv (Linux 6.5 or later); without it: --nbd, and nbd-client",
        ),
    })
}

/// Removes devices that killed servers of drivebay have left.
fn remove_left_over(ring: &mut ControlRing, is_cancelled: &dyn Fn() -> bool) {
    let Ok(devices) = fs::read_dir("/dev") else { return };
    let number = |name: std::ffi::OsString| name.to_str()?.strip_prefix("ublkc")?.parse().ok();
    for id in devices.flatten().filter_map(|entry| number(entry.file_name())) {
        let mut info = DeviceInfo::default();
        let known = ring.with(ControlOp::GetDeviceInfo, id, &mut info, is_cancelled);
        if known.is_ok() && is_left_over(&info) {
            ring.delete(id);
        }
    }
}

fn is_left_over(info: &DeviceInfo) -> bool {
    let (mark, process) = (info.ublksrv_flags & !0xffff_ffff, info.ublksrv_flags as u32);
    info.state == STATE_DEAD && mark == MARK && !Path::new(&format!("/proc/{process}")).exists()
}

#[cfg(test)]
#[path = "../../tests/unit/ublk_null.rs"]
mod null;
#[cfg(test)]
#[path = "../../tests/unit/ublk_control.rs"]
mod tests;
