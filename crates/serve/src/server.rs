//! A server: drive, store, listeners and event loop.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use drivebay_drive::{Device, DeviceError, Io, Op, Protocol, Spec};
use drivebay_run::snapshot::{self, SnapshotError};
use drivebay_run::{Control as RunControl, RunError};
use drivebay_units::{Lpn, SECTOR_BYTES};

use crate::ahci;
use crate::channel::{Channel, Handle};
use crate::clock::{Pace, TimeScale};
use crate::control::Control;
use crate::engine::Engine;
use crate::event_loop::EventLoop;
use crate::faults::{Fault, FaultError};
use crate::identity::{DriveIdentity, IdentityError, IdentityOptions};
use crate::listener::{Address, AddressError, Listener};
use crate::nbd::tls::TlsError;
use crate::nbd::{self, Export, Stream};
use crate::nvme::{self, Subsystem};
use crate::pci::vfio::VfioError;
use crate::power_cut::{AfterCut, AfterCutError, PowerCutPlan, PowerCutPlanError};
use crate::precondition::Precondition;
use crate::report::Report;
use crate::session::Session;
use crate::store::{HostDurability, PowerCutLoss, Store, StoreError};

/// What is served, and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The export's name.
    pub name: String,
    /// Where NBD clients connect: `unix:PATH` or `HOST:PORT`.
    pub nbd: Vec<String>,
    /// Where NVMe/TCP hosts connect: `HOST:PORT`.
    pub nvme_tcp: Vec<String>,
    /// Where a virtual machine connects for a PCIe device: the path of a socket.
    pub vfio_user: Option<PathBuf>,
    /// The file with the data; without it the data is in memory.
    pub data: Option<PathBuf>,
    /// What flushes make of that file.
    pub host_durability: HostDurability,
    /// Most bytes of data in memory.
    pub memory_max_bytes: u64,
    /// The file of the drive's state: read at the start if it exists, written at an orderly end.
    pub state: Option<PathBuf>,
    /// What was done to a drive without a state before.
    pub precondition: Precondition,
    /// How the server meets the model's times.
    pub pace: Pace,
    /// How fast the drive's clock runs.
    pub time_scale: TimeScale,
    /// Certificate chain and key for TLS, PEM files.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Where the control socket is: `unix:PATH`.
    pub control: Option<String>,
    /// When the power is cut, as [`PowerCutPlan`] is written.
    pub power_cut: Option<String>,
    /// What hosts meet after a power cut, as [`AfterCut`] is written; at once if left out.
    pub after_cut: Option<String>,
    /// What a power cut takes.
    pub loss: PowerCutLoss,
    /// Faults to inject.
    pub faults: Vec<Fault>,
    /// The drive's identity, as far as it is given.
    pub identity: IdentityOptions,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The data's files cannot be opened or hold something else.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An address to listen at is not one.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A virtual machine's socket cannot be opened.
    #[error(transparent)]
    Vfio(#[from] VfioError),
    /// The certificate or key of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The plan of power cuts is not valid.
    #[error(transparent)]
    PowerCutPlan(#[from] PowerCutPlanError),
    /// What hosts are to meet after a power cut is not valid.
    #[error(transparent)]
    AfterCut(#[from] AfterCutError),
    /// A fault to inject is not valid.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// The identity is not valid, or its file cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The control socket is for this machine alone.
    #[error("{0} is no place for a control socket\nhint: --control unix:/tmp/drive.control")]
    Control(String),
    /// The drive's state cannot be read.
    #[error(transparent)]
    State(#[from] SnapshotError),
    /// The data is another drive's.
    #[error(
        "{} does not belong to {}: it knows nothing of {pages} pages of 4 KiB that hold data\nhint: name the state that was saved beside this data, or start as new, with this data on the drive: rm {}",
        .state.display(), .data.display(), .state.display()
    )]
    AnotherState {
        /// The drive's state.
        state: PathBuf,
        /// The data's file.
        data: PathBuf,
        /// Pages with data that are not mapped in the state.
        pages: u64,
    },
    /// A drive with a past is prepared already.
    #[error(
        "--precondition has no meaning with the state that {} holds\nhint: leave it out, or name a new --state", .0.display()
    )]
    HasState(PathBuf),
    /// The drive cannot be brought into its precondition.
    #[error(transparent)]
    Precondition(#[from] RunError),
    /// The drive's model cannot be built.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The operating system gives no event loop.
    #[error("no event loop: {0}\nhint: ulimit -n shows how many files may be open")]
    Machine(#[from] io::Error),
}

impl ServeError {
    /// Whether the system lacks something; otherwise an option is wrong.
    pub fn is_machine(&self) -> bool {
        match self {
            ServeError::Store(error) => {
                matches!(error, StoreError::Machine { .. } | StoreError::Locked(_))
            }
            ServeError::Address(error) => {
                matches!(error, AddressError::Machine(..) | AddressError::InUse(_))
            }
            ServeError::State(error) => {
                matches!(error, SnapshotError::File { .. } | SnapshotError::Memory(_))
            }
            ServeError::Identity(error) => matches!(error, IdentityError::File { .. }),
            ServeError::Vfio(_) | ServeError::Device(_) | ServeError::Machine(_) => true,
            ServeError::Tls(_)
            | ServeError::PowerCutPlan(_)
            | ServeError::AfterCut(_)
            | ServeError::HasState(_)
            | ServeError::Precondition(_)
            | ServeError::Fault(_)
            | ServeError::AnotherState { .. }
            | ServeError::Control(_) => false,
        }
    }
}

/// A drive that is ready to be served.
pub struct Server {
    event_loop: EventLoop,
    handle: Handle,
    addresses: Vec<String>,
    state: Option<PathBuf>,
}

impl Server {
    /// Makes the drive, opens its data, and begins to listen.
    pub fn new(spec: Spec, seed: u64, options: &Options) -> Result<Server, ServeError> {
        Server::watched(spec, seed, options, &RunControl::default())
    }

    /// As [`Server::new`]; `control` may cancel the preconditioning, which takes seconds to minutes.
    pub fn watched(
        spec: Spec,
        seed: u64,
        options: &Options,
        control: &RunControl,
    ) -> Result<Server, ServeError> {
        // What the user may have got wrong comes before anything is made.
        let power_cuts: Option<PowerCutPlan> =
            options.power_cut.as_deref().map(str::parse).transpose()?;
        let after_cut: Option<AfterCut> =
            options.after_cut.as_deref().map(str::parse).transpose()?;
        let tls =
            options.tls.as_ref().map(|(cert, key)| nbd::tls::config(cert, key)).transpose()?;
        let channel = Channel::new()?;
        let handle = channel.handle();
        let bytes = spec.capacity_bytes();
        let sectors = bytes / SECTOR_BYTES;
        let store = match &options.data {
            Some(path) => Store::open(path, sectors, options.host_durability, handle.waker())?,
            None => Store::memory(sectors, options.memory_max_bytes),
        };
        let (profile, oui) = (&spec.raw.drive.name, spec.identify.as_ref().map_or(0, |id| id.oui));
        let identity =
            DriveIdentity::choose(&options.identity, options.state.as_deref(), profile, oui)?;
        let ata_identity = ahci::Identity::new(&spec, &identity.serial);
        let nvme_identity = nvme::Identity::new(&spec, identity);
        let is_nvme = spec.protocol == Protocol::Nvme;
        let known = options.state.as_ref().filter(|path| path.exists());
        let mut device = match known {
            Some(path) if options.precondition != Precondition::New => {
                return Err(ServeError::HasState(path.clone()));
            }
            Some(path) => snapshot::restore(spec, None, path)?,
            None => Device::new(spec, seed)?,
        };
        options.precondition.apply(&mut device, seed, control)?;
        let device = adopt(device, &store, known.map(PathBuf::as_path), options.data.as_deref())?;
        let mut engine =
            Engine::with_time_scale(device, store, options.pace, options.time_scale, seed);
        if power_cuts.is_some() || options.control.is_some() {
            engine.allow_power_cuts(power_cuts, options.loss);
        }
        engine.set_after_cut(after_cut.unwrap_or_default());
        for &fault in &options.faults {
            engine.add_fault(fault)?;
        }
        let mut event_loop = EventLoop::new(engine, channel)?;
        let export = Arc::new(Export { tls, name: options.name.clone(), bytes });
        let mut addresses = Vec::new();
        for text in &options.nbd {
            let export = Arc::clone(&export);
            let open = move |socket| -> io::Result<Box<dyn Session>> {
                Ok(Box::new(nbd::Connection::new(Stream::Plain(socket), Arc::clone(&export))))
            };
            let listener = Listener::new(&text.parse()?, Box::new(open))?;
            addresses.push(listener.address());
            event_loop.listen(Box::new(listener))?;
        }
        let subsystem = Subsystem::shared(nvme_identity);
        for text in &options.nvme_tcp {
            let address = match text.parse() {
                Ok(address @ Address::Tcp(..)) => address,
                _ => return Err(AddressError::NotTcp(text.clone()).into()),
            };
            let shared = subsystem.clone();
            let open = move |socket| -> io::Result<Box<dyn Session>> {
                Ok(Box::new(nvme::tcp::Connection::new(socket, shared.clone())?))
            };
            let listener = Listener::new(&address, Box::new(open))?;
            let nqn = subsystem.lock().identity().drive.nqn.clone();
            addresses.push(format!("nvme-tcp:{} {nqn}", listener.address()));
            event_loop.listen(Box::new(listener))?;
        }
        if let Some(path) = &options.vfio_user {
            if is_nvme {
                nvme::pci::registers::serve(&mut event_loop, &handle, &subsystem, path)?;
            } else {
                ahci::registers::serve(&mut event_loop, &handle, ata_identity, path)?;
            }
            addresses.push(format!("vfio-user:{}", path.display()));
        }
        if let Some(text) = &options.control {
            let address: Address = text.parse()?;
            if !matches!(address, Address::Unix(_)) {
                return Err(ServeError::Control(text.clone()));
            }
            let listener = Listener::new(&address, Box::new(|s| Ok(Box::new(Control::new(s)))))?;
            listener.restrict_to_owner()?;
            event_loop.listen(Box::new(listener))?;
        }
        Ok(Server { event_loop, handle, addresses, state: options.state.clone() })
    }

    /// Where clients find it, in the order of the options.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Stops it, and asks how it is.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves until stopped, saves the drive's state, and tells how it went.
    pub fn run(self) -> Result<Report, ServeError> {
        let mut engine = self.event_loop.run()?;
        if let Some(path) = &self.state {
            snapshot::save(engine.device(), path)?;
        }
        Ok(engine.report())
    }
}

/// Sectors of a mapping unit.
const PAGE_SECTORS: u64 = 8;

/// Extents of the store with data in pages that the model has not mapped: first sector, number of
/// sectors. Also the number of pages with data.
type Unmapped = (Vec<(u64, u64)>, u64);

fn unmapped(device: &Device, store: &Store, is_new: bool) -> Result<Unmapped, ServeError> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    let (mut lba, mut data_pages) = (0, 0);
    while lba < store.sectors() {
        for extent in store.extents(lba, store.sectors() - lba, 1024)? {
            let end = lba + extent.sectors;
            let pages =
                if extent.data { lba / PAGE_SECTORS..end.div_ceil(PAGE_SECTORS) } else { 0..0 };
            data_pages += pages.end - pages.start;
            for page in pages {
                let is_mapped = !is_new && device.ftl().look_up(Lpn(page as u32)).is_some();
                if is_mapped || (!is_new && is_zero(store, page)?) {
                    continue;
                }
                let first = page * PAGE_SECTORS;
                match found.last_mut() {
                    Some((start, sectors)) if *start + *sectors == first => {
                        *sectors += PAGE_SECTORS
                    }
                    _ => found.push((first, PAGE_SECTORS)),
                }
            }
            lba = end;
        }
    }
    Ok((found, data_pages))
}

fn is_zero(store: &Store, page: u64) -> io::Result<bool> {
    let mut bytes = [0; (PAGE_SECTORS * SECTOR_BYTES) as usize];
    let sectors = PAGE_SECTORS.min(store.sectors() - page * PAGE_SECTORS);
    store.read(page * PAGE_SECTORS, &mut bytes[..(sectors * SECTOR_BYTES) as usize])?;
    Ok(bytes.iter().all(|&byte| byte == 0))
}

/// Maps the data that the file holds already and the model has not mapped: it is written once, in order,
/// before the first host connects, so that reads of it go to flash.
///
/// A state that was not written at an orderly end lacks what was written after it. One that lacks most
/// of the data belongs to another drive, and is refused.
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
        let (state, data) = (state.to_owned(), data.to_owned());
        return Err(ServeError::AnotherState { state, data, pages });
    }
    for (first, sectors) in extents {
        let end = (first + sectors).min(store.sectors());
        for lba in (first..end).step_by(PIECE as usize) {
            let sectors = PIECE.min(end - lba) as u32;
            let io = Io { op: Op::Write, lba, sectors };
            let done = device.submit(device.now(), io)?.done;
            device.idle_until(done);
        }
    }
    Ok(device)
}
