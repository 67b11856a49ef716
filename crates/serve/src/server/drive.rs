//! A served drive: its model, its data and its event loop.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};

use drivebay_drive::Device;
use drivebay_run::Control as RunControl;
use drivebay_run::snapshot;
use drivebay_units::SECTOR_BYTES;

use super::checks::CheckedDrive;
use super::existing_data::{adopt, close_zones};
use super::kept_logs::KeptLogs;
use super::options::DriveOptions;
use crate::ahci;
use crate::engine::Engine;
use crate::error::ServeError;
use crate::event_loop::EventLoop;
use crate::event_loop::channel::{Channel, Handle};
use crate::interface::drive::{Control as _, Io as _};
use crate::interface::report::Report;
use crate::memory_limit::MemoryLimit;
use crate::namespace::NamespaceTable;
use crate::nvme::{self, Shared, Subsystem};
use crate::state::identity::DriveIdentity;
use crate::store::{Image, PowerCutLoss, Store};
use crate::ublk;

/// Drive with its event loop.
pub(super) struct ServedDrive {
    pub(super) event_loop: EventLoop,
    /// Block devices of this machine by their namespaces; dropped after the loop, which keeps them
    /// open.
    ublk: Vec<(u32, ublk::Control)>,
    pub(super) handle: Handle,
    pub(super) nvme: Shared,
    pub(super) name: String,
    pub(super) namespaces: NamespaceTable,
    pub(super) vfio_user: Option<PathBuf>,
    identity: DriveIdentity,
    state: Option<PathBuf>,
}

impl ServedDrive {
    /// Creates the drive, opens its data and, for a virtual machine, its socket. `memory` is the
    /// limit that all drives share, `portals` the number of addresses for NVMe/TCP.
    pub(super) fn new(
        mut checked: CheckedDrive,
        memory: &MemoryLimit,
        portals: usize,
        may_be_cut: bool,
        control: &RunControl,
    ) -> Result<ServedDrive, ServeError> {
        let channel = Channel::new()?;
        let handle = channel.handle();
        let saved = checked.device.take();
        let (device, store) = open_data(&checked, saved, &handle, memory, control)?;
        let (spec, identity) = (&checked.spec, &checked.identity);
        let processors = thread::available_parallelism().map_or(1, usize::from);
        // Every protocol reports this. Capacitors protect the drive's buffer, but not the cache of
        // the host's disk, and not the data that a power cut is configured to lose. Hosts do not
        // flush a drive that reports no volatile cache.
        let has_volatile_cache = !spec.power_loss_protection
            || store.syncs()
            || checked.options.loss == PowerCutLoss::Unflushed;
        let shape = ublk::Shape::new(spec, processors, has_volatile_cache);
        let ata_identity = ahci::Identity::new(spec, &identity.serial);
        let mut nvme_identity = nvme::Identity::new(spec, identity.clone(), has_volatile_cache);
        nvme_identity.portals = portals;
        let mut engine = new_engine(&mut checked, device, store, may_be_cut)?;
        engine.set_portals(portals);
        let CheckedDrive { options, namespaces, identity, .. } = checked;
        let mut event_loop = EventLoop::new(engine, channel)?;
        let nvme = Subsystem::shared(nvme_identity, &namespaces);
        event_loop.engine().nvme_errors = Arc::clone(&nvme.lock().error_count);
        if let Some(secrets) = checked.secrets {
            nvme.lock().require(secrets);
        }
        if let Some(logs) = checked.logs {
            event_loop.engine().restore_logs(logs.drive);
            let now = event_loop.engine().now();
            nvme.lock().restore_records(logs.records, now);
        }
        if let Some(path) = &options.vfio_user {
            if checked.is_ahci {
                ahci::registers::serve(&mut event_loop, &handle, ata_identity, path)?;
            } else {
                nvme::pci::registers::serve(&mut event_loop, &handle, &nvme, path)?;
            }
        }
        let shown = namespaces.iter().filter(|_| options.ublk);
        let is_cancelled = || control.cancelled();
        let ublk = shown
            .map(|(nsid, namespace)| {
                Ok((nsid, ublk::Control::new(&mut event_loop, shape, namespace, &is_cancelled)?))
            })
            .collect::<Result<_, ServeError>>()?;
        let DriveOptions { name, state, vfio_user, .. } = options;
        Ok(ServedDrive {
            event_loop,
            ublk,
            handle,
            nvme,
            name,
            namespaces,
            vfio_user,
            identity,
            state,
        })
    }

    /// Saves the identity next to the state, if there is one.
    pub(super) fn keep_identity(&self) -> Result<(), ServeError> {
        self.state.as_deref().map_or(Ok(()), |state| self.identity.keep_beside(state))
    }

    /// Paths of the drive's block devices, each with its export name over NBD.
    pub(super) fn block_devices(&self) -> impl Iterator<Item = String> {
        let device = |(nsid, control): &(u32, ublk::Control)| match self.ublk.len() {
            1 => format!("ublk:{} {}", control.path(), self.name),
            _ => format!("ublk:{} {}/{nsid}", control.path(), self.name),
        };
        self.ublk.iter().map(device)
    }

    /// Serves until stopped, saves the drive's state, and returns the figures.
    pub(super) fn run(self) -> Result<Report, ServeError> {
        let ServedDrive { mut event_loop, ublk, handle, nvme, state, .. } = self;
        event_loop.engine().keep_namespaces()?;
        let (engine, shown) = thread::scope(|scope| {
            let show = |(_, device): (u32, ublk::Control)| {
                let handle = handle.clone();
                scope.spawn(move || device.run().inspect_err(|_| handle.stop()))
            };
            let devices: Vec<_> = ublk.into_iter().map(show).collect();
            let engine = event_loop.run();
            let join = |thread: ScopedJoinHandle<'_, _>| thread.join().expect("it does not panic");
            (engine, devices.into_iter().try_for_each(join))
        });
        let mut engine = engine?;
        engine.end_recording().map_err(|why| {
            ServeError::machine(format!("the recording could not be written: {why}"), "df")
        })?;
        if let Some(path) = &state {
            snapshot::save(engine.device(), path)?;
            let now = engine.now();
            let records = nvme.lock().take_records(now, engine.device().now().max(now));
            KeptLogs { records, drive: engine.logs() }.save(path)?;
        }
        shown?;
        Ok(engine.report())
    }
}

/// Opens the data, and prepares the model: restored, or new and preconditioned.
fn open_data(
    checked: &CheckedDrive,
    saved: Option<Device>,
    handle: &Handle,
    memory: &MemoryLimit,
    control: &RunControl,
) -> Result<(Device, Store), ServeError> {
    let (spec, options) = (&checked.spec, &checked.options);
    let sectors = spec.capacity_bytes() / SECTOR_BYTES;
    // A path that is not a regular file counts as existing; opening it reports the error.
    let exists = |path: &&PathBuf| {
        path.metadata().is_ok_and(|metadata| !metadata.is_file() || metadata.len() > 0)
    };
    let existing = options.data.as_ref().filter(exists);
    let image = options.image.as_ref().filter(|_| existing.is_none());
    let image = image.map(|path| Image::open(path, sectors)).transpose()?;
    let open = |path: &PathBuf| {
        Store::open(path, sectors, options.host_durability, handle.waker(), memory)
    };
    // Existing data is checked and locked at once. New data is created last, so that a cancelled
    // preconditioning leaves no file.
    let existing = existing.map(open).transpose()?;
    let known = options.state.as_deref().filter(|_| saved.is_some());
    let device = match saved {
        Some(mut device) => {
            device.count_power_cycle(true);
            close_zones(&mut device)?;
            device
        }
        None => {
            let mut device = Device::new(spec.clone(), options.seed)?;
            options.precondition.apply(&mut device, options.seed, control)?;
            device
        }
    };
    let store = match (existing, &options.data, image) {
        (Some(store), ..) => store,
        (None, Some(path), image) => {
            let cancelled = || control.cancelled();
            image.map_or(Ok(()), |image| image.copy_to(path, sectors, cancelled))?;
            open(path)?
        }
        (None, None, Some(image)) => Store::over(image, sectors, memory)?,
        (None, None, None) => Store::memory(sectors, memory),
    };
    let data = options.data.as_deref().or(options.image.as_deref());
    Ok((adopt(device, &store, known, data)?, store))
}

/// Creates the engine with the drive's options.
fn new_engine(
    checked: &mut CheckedDrive,
    device: Device,
    store: Store,
    may_be_cut: bool,
) -> Result<Engine, ServeError> {
    let options = &checked.options;
    let mut engine =
        Engine::with_time_scale(device, store, options.pace, options.time_scale, options.seed);
    engine.name.clone_from(&options.name);
    engine.namespaces = checked.namespaces.clone();
    // A read-only drive leaves the namespace file unchanged.
    engine.namespace_file = checked.namespace_file.take().filter(|_| !options.is_read_only);
    engine.is_of_fixed_size = checked.is_ahci;
    engine.is_write_protected = options.is_read_only;
    if options.power_cut.is_some() || may_be_cut {
        engine.allow_power_cuts(options.power_cut, options.loss);
    }
    engine.set_after_cut(options.after_cut);
    let requests_only = options.requests_only;
    options.record.as_deref().map_or(Ok(()), |path| engine.record(path, requests_only))?;
    for &fault in &options.faults {
        engine.add_fault(fault).expect("all were checked");
    }
    Ok(engine)
}
