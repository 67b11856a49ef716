//! Server: drives, each with its store and event loop, and the listeners that they share.

mod kept_logs;
pub(crate) mod options;
pub(crate) mod precondition;

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};

use drivebay_drive::{Device, DeviceError, Io, Op, Protocol, Spec, ZoneState};
use drivebay_run::Control as RunControl;
use drivebay_run::snapshot::{self, SnapshotError};
use drivebay_units::SECTOR_BYTES;
use rustix::fs::{Access, access};

use crate::ahci;
use crate::control::ControlConnection;
use crate::engine::Engine;
use crate::error::ServeError;
use crate::event_loop::EventLoop;
use crate::event_loop::channel::{Channel, Handle};
use crate::event_loop::listener::{Address, Listener, OpenSession};
use crate::faults;
use crate::interface::drive::{Control as _, Io as _};
use crate::interface::report::Report;
use crate::memory_limit::MemoryLimit;
use crate::namespace::{NamespaceError, NamespaceOptions, NamespaceTable};
use crate::nbd::{self, Export, Exports, Stream};
use crate::nvme::tcp::Secrets;
use crate::nvme::{self, Shared, Subsystem, Subsystems};
use crate::pci::vfio;
use crate::server::kept_logs::KeptLogs;
use crate::server::options::{DriveOptions, Options};
use crate::server::precondition::REST;
use crate::state::identity::DriveIdentity;
use crate::state::namespace_file::NamespaceFile;
use crate::store::{Image, PowerCutLoss, Store};
use crate::ublk;

/// Options of a drive after the checks for user errors, which precede the creation of files.
struct CheckedDrive {
    spec: Spec,
    options: DriveOptions,
    is_ahci: bool,
    namespaces: NamespaceTable,
    namespace_file: Option<NamespaceFile>,
    identity: DriveIdentity,
    /// Model and logs from the saved state, if there is one.
    device: Option<Device>,
    logs: Option<KeptLogs>,
    secrets: Option<Secrets>,
}

impl CheckedDrive {
    /// Checks the options and loads the saved parts of the drive; creates nothing.
    fn new((spec, options): (Spec, DriveOptions)) -> Result<CheckedDrive, ServeError> {
        faults::check_all(&options.faults)?;
        if let Some(path) = options.vfio_user.as_deref().filter(|path| path.exists()) {
            return Err(vfio::exists(path));
        }
        let sectors = spec.capacity_bytes() / SECTOR_BYTES;
        let is_ahci = spec.protocol != Protocol::Nvme && options.vfio_user.is_some();
        let is_saved = options.state.as_deref().map(is_saved).transpose()?.unwrap_or(false);
        let file = options.state.as_deref().filter(|_| !is_ahci);
        let file = file.map(|state| NamespaceFile::beside(state, &options.namespaces));
        let kept =
            file.as_ref().map(|file| file.load(sectors, options.is_read_only)).transpose()?;
        let namespaces = match (kept.flatten(), &options.namespaces[..]) {
            (Some(kept), _) => kept,
            (None, []) => NamespaceTable::whole(sectors, options.is_read_only),
            _ if is_ahci => return Err(NamespaceError::Ahci.into()),
            (None, some) => {
                let is_read_only =
                    |namespace: &NamespaceOptions| namespace.is_read_only || options.is_read_only;
                let some = some.iter().map(|namespace| NamespaceOptions {
                    is_read_only: is_read_only(namespace),
                    ..*namespace
                });
                NamespaceTable::new(&some.collect::<Vec<_>>(), sectors)?
            }
        };
        let namespaces = namespaces.on(&spec)?;
        let (profile, oui) = (&spec.raw.drive.name, spec.identify.as_ref().map_or(0, |id| id.oui));
        let identity =
            DriveIdentity::choose(&options.identity, options.state.as_deref(), profile, oui)?;
        let saved = options.state.as_deref().filter(|_| is_saved);
        let device = saved.map(|path| snapshot::restore(spec.clone(), None, path)).transpose()?;
        let logs = saved.map(KeptLogs::load).transpose()?.flatten();
        let controller = options.dhchap_ctrl_secret.as_deref();
        let secrets = options.dhchap_secret.as_deref();
        let secrets = secrets.map(|host| Secrets::load(host, controller)).transpose()?;
        let namespace_file = file;
        Ok(CheckedDrive {
            spec,
            options,
            is_ahci,
            namespaces,
            namespace_file,
            identity,
            device,
            logs,
            secrets,
        })
    }
}

/// Refuses protocols and options that do not support a drive with zones.
fn refuse_beside_zones(
    spec: &Spec,
    drive: &DriveOptions,
    options: &Options,
) -> Result<(), ServeError> {
    let beside = [
        (!options.nbd.is_empty(), "--nbd", "NBD does not support zones"),
        (drive.ublk, "--ublk", "this block device has no zones"),
        (drive.record.is_some(), "--record", "zone commands are not recorded"),
        (drive.image.is_some(), "--from", "an image has no zone states"),
    ];
    let conflict = beside.into_iter().find(|&(is_given, ..)| is_given && spec.zones.is_some());
    conflict.map_or(Ok(()), |(_, option, why)| {
        let what = format!("{}: a drive with zones cannot be served with {option}: {why}", drive.name);
        let hint = "serve it over --nvme-tcp or --vfio-user without that option, or without zones: --set zns=none";
        Err(ServeError::refused(what, hint))
    })
}

/// True if a saved state exists. If not, checks that one can be written at the end.
fn is_saved(path: &Path) -> Result<bool, ServeError> {
    let cannot = |doing, error: io::Error| SnapshotError::File {
        doing,
        path: path.display().to_string(),
        error,
    };
    match path.metadata() {
        Ok(metadata) if !metadata.is_file() => Err(ServeError::refused(
            format!("--state: {} is not a regular file", path.display()),
            "name a file; it is created if it does not exist: --state drive.state",
        )),
        Ok(_) => Ok(true),
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().unwrap_or(Path::new("")).join(".");
            access(&folder, Access::WRITE_OK | Access::EXEC_OK)
                .map_err(|why| cannot("cannot save a drive to", why.into()))?;
            Ok(false)
        }
        Err(why) => Err(cannot("cannot read a drive's state from", why).into()),
    }
}

/// Drive with its event loop.
struct ServedDrive {
    event_loop: EventLoop,
    /// Block devices of this machine by their namespaces; dropped after the loop, which keeps them
    /// open.
    ublk: Vec<(u32, ublk::Control)>,
    handle: Handle,
    nvme: Shared,
    name: String,
    namespaces: NamespaceTable,
    identity: DriveIdentity,
    state: Option<PathBuf>,
}

impl ServedDrive {
    /// Creates the drive, opens its data and, for a virtual machine, its socket. `memory` is the
    /// limit that all drives share.
    fn new(
        checked: CheckedDrive,
        memory: &MemoryLimit,
        may_be_cut: bool,
        control: &RunControl,
    ) -> Result<ServedDrive, ServeError> {
        let (spec, options, namespaces) = (checked.spec, checked.options, checked.namespaces);
        let seed = options.seed;
        let channel = Channel::new()?;
        let handle = channel.handle();
        let sectors = spec.capacity_bytes() / SECTOR_BYTES;
        // A path that is not a regular file counts as existing; opening it reports the error.
        let is_there = |path: &&PathBuf| {
            path.metadata().is_ok_and(|metadata| !metadata.is_file() || metadata.len() > 0)
        };
        let existing = options.data.as_ref().filter(is_there);
        let image = options.image.as_ref().filter(|_| existing.is_none());
        let image = image.map(|path| Image::open(path, sectors)).transpose()?;
        let open = |path: &PathBuf| {
            Store::open(path, sectors, options.host_durability, handle.waker(), memory)
        };
        // Existing data is checked and locked at once. New data is created last, so that a
        // cancelled preconditioning leaves no file.
        let existing = existing.map(open).transpose()?;
        let known = options.state.as_deref().filter(|_| checked.device.is_some());
        let device = match checked.device {
            Some(mut device) => {
                device.count_power_cycle(true);
                close_zones(&mut device)?;
                device
            }
            None => {
                let mut device = Device::new(spec.clone(), seed)?;
                options.precondition.apply(&mut device, seed, control)?;
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
        let processors = thread::available_parallelism().map_or(1, usize::from);
        // Every protocol reports this. Capacitors protect the drive's buffer, but not the cache of
        // the host's disk, and not the data that a power cut is configured to lose. Hosts do not
        // flush a drive that reports no volatile cache.
        let has_volatile_cache =
            !spec.power_loss_protection || store.syncs() || options.loss == PowerCutLoss::Unflushed;
        let shape = ublk::Shape::new(&spec, processors, has_volatile_cache);
        let ata_identity = ahci::Identity::new(&spec, &checked.identity.serial);
        let nvme_identity =
            nvme::Identity::new(&spec, checked.identity.clone(), has_volatile_cache);
        let data = options.data.as_deref().or(options.image.as_deref());
        let device = adopt(device, &store, known, data)?;
        let mut engine =
            Engine::with_time_scale(device, store, options.pace, options.time_scale, seed);
        engine.name.clone_from(&options.name);
        engine.namespaces = namespaces.clone();
        // A read-only drive leaves the namespace file unchanged.
        engine.namespace_file = checked.namespace_file.filter(|_| !options.is_read_only);
        engine.is_of_fixed_size = checked.is_ahci;
        engine.is_write_protected = options.is_read_only;
        if options.power_cut.is_some() || may_be_cut {
            engine.allow_power_cuts(options.power_cut, options.loss);
        }
        engine.set_after_cut(options.after_cut);
        options.record.as_deref().map_or(Ok(()), |path| engine.record(path))?;
        for &fault in &options.faults {
            engine.add_fault(fault).expect("all were checked");
        }
        let mut event_loop = EventLoop::new(engine, channel)?;
        let nvme = Subsystem::shared(nvme_identity, &namespaces);
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
        let ublk = shown
            .map(|(nsid, namespace)| {
                Ok((nsid, ublk::Control::new(&mut event_loop, shape, namespace)?))
            })
            .collect::<Result<_, ServeError>>()?;
        let (name, state, identity) = (options.name, options.state, checked.identity);
        Ok(ServedDrive { event_loop, ublk, handle, nvme, name, namespaces, identity, state })
    }

    /// Paths of the drive's block devices, each with its export name over NBD.
    fn block_devices(&self) -> impl Iterator<Item = String> {
        let device = |(nsid, control): &(u32, ublk::Control)| match self.ublk.len() {
            1 => format!("ublk:{} {}", control.path(), self.name),
            _ => format!("ublk:{} {}/{nsid}", control.path(), self.name),
        };
        self.ublk.iter().map(device)
    }

    /// Serves until stopped, saves the drive's state, and returns the figures.
    fn run(self) -> Result<Report, ServeError> {
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

/// Drives that are ready to be served, each with its own thread, clock and state.
pub struct Server {
    drives: Vec<ServedDrive>,
    addresses: Vec<String>,
}

impl Server {
    /// Creates the drives, opens their data, and starts to listen. `control` may cancel the
    /// preconditioning, which takes seconds to minutes.
    ///
    /// # Panics
    /// If `drives` is empty.
    pub fn new(
        drives: Vec<(Spec, DriveOptions)>,
        options: &Options,
        control: &RunControl,
    ) -> Result<Server, ServeError> {
        let tls =
            options.tls.as_ref().map(|(cert, key)| nbd::tls::config(cert, key)).transpose()?;
        for (number, (_, drive)) in drives.iter().enumerate() {
            if drives[..number].iter().any(|(_, other)| other.name == drive.name) {
                let what = format!("two drives are called {}", drive.name);
                return Err(ServeError::refused(what, "name them: NAME=DRIVE"));
            }
        }
        let vfio_users: Vec<PathBuf> =
            drives.iter().filter_map(|(_, drive)| drive.vfio_user.clone()).collect();
        let memory = MemoryLimit::of_all(options.memory_max_bytes);
        let memory = memory.ok_or_else(|| {
            let (given, least) = (options.memory_max_bytes >> 20, MemoryLimit::LEAST >> 20);
            let what =
                format!("--memory {given} MiB is too little: it must be {least} MiB at least");
            ServeError::refused(what, "--memory 1GiB")
        })?;
        let may_be_cut = options.control.is_some();
        let nbd = options.nbd.iter().map(|text| text.parse()).collect::<Result<Vec<_>, _>>()?;
        let nvme_tcp = options
            .nvme_tcp
            .iter()
            .map(|text| nvme_address(text))
            .collect::<Result<Vec<_>, _>>()?;
        let control_socket = options.control.as_deref().map(control_address).transpose()?;
        for address in nbd.iter().chain(&nvme_tcp).chain(&control_socket) {
            Listener::check(address)?;
        }
        for (spec, drive) in &drives {
            refuse_beside_zones(spec, drive, options)?;
        }
        let checked =
            drives.into_iter().map(CheckedDrive::new).collect::<Result<Vec<_>, ServeError>>()?;
        refuse_same_nqn(&checked)?;
        // The steps from here on create files.
        let drives = checked
            .into_iter()
            .map(|drive| ServedDrive::new(drive, &memory, may_be_cut, control))
            .collect::<Result<Vec<_>, _>>()?;
        let mut server = Server { drives, addresses: Vec::new() };
        let drives = server.drives.iter().enumerate();
        let exports =
            drives.flat_map(|(n, drive)| Export::for_drive(&drive.name, n, &drive.namespaces));
        let all = exports.collect();
        let exports = Arc::new(Exports { tls, memory: memory.clone(), all });
        for address in &nbd {
            let listener = server.listen(address, |drive| {
                let exports = Arc::clone(&exports);
                Box::new(move |socket| {
                    let stream = Stream::Plain(socket);
                    Ok(Box::new(nbd::Connection::new(stream, Arc::clone(&exports), drive)))
                })
            })?;
            server.addresses.push(listener);
        }
        server.listen_for_nvme(&nvme_tcp, &memory)?;
        let vfio_users = vfio_users.iter().map(|path| format!("vfio-user:{}", path.display()));
        server.addresses.extend(vfio_users);
        let block_devices = server.drives.iter().flat_map(ServedDrive::block_devices);
        server.addresses.extend(block_devices.collect::<Vec<_>>());
        if let Some(address) = &control_socket {
            let names: Arc<[String]> =
                server.drives.iter().map(|drive| drive.name.clone()).collect();
            server.listen(address, |drive| {
                let names = Arc::clone(&names);
                Box::new(move |s| {
                    Ok(Box::new(ControlConnection::new(s, Arc::clone(&names), drive)))
                })
            })?;
            if let Address::Unix(path) = address {
                // Anyone who can connect may cut the power of the drives.
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
            }
        }
        if let several @ [_, _, ..] = &mut server.drives[..] {
            let handles: Vec<Handle> = several.iter().map(|drive| drive.handle.clone()).collect();
            for (number, drive) in several.iter_mut().enumerate() {
                drive.event_loop.join(number, handles.clone());
            }
        }
        // The identity is saved last, so that a refused start leaves none.
        for drive in &server.drives {
            drive.state.as_deref().map_or(Ok(()), |state| drive.identity.keep_beside(state))?;
        }
        Ok(server)
    }

    fn listen_for_nvme(
        &mut self,
        addresses: &[Address],
        memory: &MemoryLimit,
    ) -> Result<(), ServeError> {
        let shared = self.drives.iter().map(|drive| drive.nvme.clone());
        let subsystems = Subsystems::new(shared, memory);
        let names: Vec<String> = subsystems.names().map(str::to_owned).collect();
        for address in addresses {
            let listener = self.listen(address, |drive| {
                let subsystems = subsystems.clone();
                Box::new(move |socket| {
                    Ok(Box::new(nvme::tcp::Connection::new(socket, subsystems.clone(), drive)?))
                })
            })?;
            for (nqn, drive) in names.iter().zip(&self.drives) {
                // With several drives, the address includes the drive's name.
                let name = if names.len() > 1 { &drive.name } else { "" };
                self.addresses
                    .push(format!("nvme-tcp:{listener} {nqn} {name}").trim_end().to_owned());
            }
        }
        Ok(())
    }

    /// Lets the event loops of all drives listen at `address`; `open_session` creates sessions in
    /// the loop of a drive. Returns the address for clients.
    fn listen(
        &mut self,
        address: &Address,
        mut open_session: impl FnMut(usize) -> OpenSession,
    ) -> Result<String, ServeError> {
        let first = Listener::new(address, open_session(0))?;
        let bound_address = first.address();
        for (number, drive) in self.drives.iter_mut().enumerate().skip(1) {
            let shared = first.share(open_session(number))?;
            drive.event_loop.listen(Box::new(shared))?;
        }
        self.drives[0].event_loop.listen(Box::new(first))?;
        Ok(bound_address)
    }

    /// Addresses for clients, in the order of the options; for NVMe/TCP with the name of each
    /// subsystem.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Handles of the drives, which stop a drive or ask for its status.
    pub fn handles(&self) -> Vec<Handle> {
        self.drives.iter().map(|drive| drive.handle.clone()).collect()
    }

    /// Serves until stopped, saves the states of the drives, and returns the report of each drive.
    /// If one drive fails, all others are stopped.
    pub fn run(self) -> Result<Vec<Report>, ServeError> {
        let handles = &self.handles();
        thread::scope(|scope| {
            let run = |drive: ServedDrive| {
                scope.spawn(move || {
                    let report = drive.run();
                    if report.is_err() {
                        handles.iter().for_each(Handle::stop);
                    }
                    report
                })
            };
            let threads: Vec<_> = self.drives.into_iter().map(run).collect();
            let join = |thread: ScopedJoinHandle<'_, _>| thread.join().expect("it does not panic");
            threads.into_iter().map(join).collect()
        })
    }
}

/// Parses an address for NVMe/TCP.
fn nvme_address(text: &str) -> Result<Address, ServeError> {
    match text.parse() {
        Ok(address @ Address::Tcp(..)) => Ok(address),
        _ => Err(ServeError::refused(
            format!("--nvme-tcp {text}: not HOST:PORT"),
            "--nvme-tcp 127.0.0.1:4420",
        )),
    }
}

/// Parses the address of a control socket.
fn control_address(text: &str) -> Result<Address, ServeError> {
    match text.parse()? {
        address @ Address::Unix(_) => Ok(address),
        Address::Tcp(..) => Err(ServeError::refused(
            format!("{text} is not an address for a control socket"),
            "--control unix:/tmp/drive.control",
        )),
    }
}

/// Refuses two drives with the same NQN, by which hosts distinguish them.
fn refuse_same_nqn(drives: &[CheckedDrive]) -> Result<(), ServeError> {
    for (number, drive) in drives.iter().enumerate() {
        let nqn = &drive.identity.nqn;
        if drives[..number].iter().any(|other| other.identity.nqn == *nqn) {
            let what = format!("two drives have the NQN {nqn}");
            return Err(ServeError::refused(what, "give each drive a different one, or none"));
        }
    }
    Ok(())
}

/// Sectors of a page of the store.
const PAGE_SECTORS: u64 = 8;

/// Extents of the store with data in pages that the model has not mapped (first sector, number of
/// sectors), and the number of pages with data.
type Unmapped = (Vec<(u64, u64)>, u64);

fn unmapped(device: &Device, store: &Store, is_new: bool) -> Result<Unmapped, ServeError> {
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    let (mut lba, mut data_pages) = (0, 0);
    while lba < store.sectors() {
        for extent in store.extents(lba, store.sectors() - lba, 1024)? {
            let end = lba + extent.sectors;
            let pages =
                if extent.data { lba / PAGE_SECTORS..end.div_ceil(PAGE_SECTORS) } else { 0..0 };
            data_pages += pages.end - pages.start;
            for page in pages {
                let is_mapped = !is_new && device.is_mapped(page * PAGE_SECTORS);
                if is_mapped || (!is_new && is_zero(store, page)?) {
                    continue;
                }
                let first = page * PAGE_SECTORS;
                match pieces.last_mut() {
                    Some((start, sectors)) if *start + *sectors == first => {
                        *sectors += PAGE_SECTORS
                    }
                    _ => pieces.push((first, PAGE_SECTORS)),
                }
            }
            lba = end;
        }
    }
    Ok((pieces, data_pages))
}

fn is_zero(store: &Store, page: u64) -> io::Result<bool> {
    let mut bytes = [0; (PAGE_SECTORS * SECTOR_BYTES) as usize];
    let sectors = PAGE_SECTORS.min(store.sectors() - page * PAGE_SECTORS);
    store.read(page * PAGE_SECTORS, &mut bytes[..(sectors * SECTOR_BYTES) as usize])?;
    Ok(bytes.iter().all(|&byte| byte == 0))
}

/// Maps data that the file or the image already holds and the model has not mapped. It is written
/// once, in order, before the first host connects, so that reading it goes to flash. A new drive
/// then rests like one that was filled.
///
/// A state that was not written at an orderly end lacks the data written after it. A state that
/// lacks most of the data belongs to another drive and is refused.
fn adopt(
    mut device: Device,
    store: &Store,
    state: Option<&Path>,
    data: Option<&Path>,
) -> Result<Device, ServeError> {
    const PIECE: u64 = 256;
    let Some(data) = data else { return Ok(device) };
    let (extents, data_pages) = unmapped(&device, store, state.is_none())?;
    let pages: u64 = extents.iter().map(|(_, sectors)| sectors / PAGE_SECTORS).sum();
    if let Some(state) = state
        && 2 * pages > data_pages
    {
        let (state, data) = (state.display(), data.display());
        return Err(ServeError::refused(
            format!(
                "{state} does not belong to {data}: it lacks {pages} pages of 4 KiB that hold data"
            ),
            format!(
                "name the state that was saved with this data, or start as a new drive with this data: rm {state}"
            ),
        ));
    }
    let rests = state.is_none() && !extents.is_empty();
    // No piece spans two zones.
    let zone = device.spec().zones.map_or(u64::MAX, |zones| zones.sectors);
    for (first, sectors) in extents {
        let (mut lba, end) = (first, (first + sectors).min(store.sectors()));
        while lba < end {
            let sectors = PIECE.min(end - lba).min(zone - lba % zone) as u32;
            let io = Io::new(Op::Write, lba, sectors);
            let done = device.submit(device.now(), io).map_err(|why| not_adopted(why, data))?.done;
            device.idle_until(done);
            lba += u64::from(sectors);
        }
    }
    if rests {
        device.idle_until(device.now().after(REST));
    }
    Ok(device)
}

/// Updates the zones for a power cycle: open zones are closed, or become empty if they hold no
/// data.
fn close_zones(device: &mut Device) -> Result<(), DeviceError> {
    for (index, zone) in device.zones().to_vec().into_iter().enumerate() {
        let op = match zone.state {
            ZoneState::Empty | ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline => {
                continue;
            }
            _ if zone.written == 0 => Op::ZoneReset,
            ZoneState::Closed => continue,
            _ => Op::ZoneClose,
        };
        let sectors = device.spec().zones.map_or(0, |zones| zones.sectors);
        device.submit(device.now(), Io::new(op, index as u64 * sectors, 1))?;
    }
    Ok(())
}

/// Error for data that the zones cannot hold without the matching state.
fn not_adopted(why: DeviceError, data: &Path) -> ServeError {
    let DeviceError::Zone { zone, problem, .. } = why else { return why.into() };
    let problem = problem.to_string();
    let problem = problem.lines().next().unwrap_or_default();
    ServeError::refused(
        format!("{}: zone {zone} cannot hold this data: {problem}", data.display()),
        "name the state that was saved with it: --state, or begin with new data",
    )
}
