//! Checks of the options of a server and its drives, which precede the creation of files.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use drivebay_drive::{Device, Protocol, Spec};
use drivebay_run::snapshot::{self, SnapshotError};
use drivebay_units::SECTOR_BYTES;
use rustix::fs::{Access, access};
use rustls::ServerConfig;

use super::kept_logs::KeptLogs;
use super::options::{DriveOptions, Options};
use crate::error::ServeError;
use crate::event_loop::listener::{Address, Listener};
use crate::faults;
use crate::memory_limit::MemoryLimit;
use crate::namespace::{NamespaceError, NamespaceOptions, NamespaceTable};
use crate::nbd;
use crate::nvme::tcp::Secrets;
use crate::pci::vfio;
use crate::state::identity::DriveIdentity;
use crate::state::namespace_file::NamespaceFile;

/// Options of a server after the checks for user errors.
pub(super) struct CheckedServer {
    pub(super) drives: Vec<CheckedDrive>,
    pub(super) memory: MemoryLimit,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) nbd: Vec<Address>,
    pub(super) nvme_tcp: Vec<Address>,
    pub(super) control: Option<Address>,
}

impl CheckedServer {
    /// Checks the options of a server and its drives; creates nothing.
    pub(super) fn new(
        drives: Vec<(Spec, DriveOptions)>,
        options: &Options,
    ) -> Result<CheckedServer, ServeError> {
        let tls =
            options.tls.as_ref().map(|(cert, key)| nbd::tls::config(cert, key)).transpose()?;
        let names = drives.iter().map(|(_, drive)| drive.name.as_str());
        refuse_same(names, "are called", "name them: NAME=DRIVE")?;
        let memory = MemoryLimit::of_all(options.memory_max_bytes);
        let memory = memory.ok_or_else(|| {
            let (given, least) = (options.memory_max_bytes >> 20, MemoryLimit::LEAST >> 20);
            let what =
                format!("--memory {given} MiB is too little: it must be {least} MiB at least");
            ServeError::refused(what, "--memory 1GiB")
        })?;
        let nbd = options.nbd.iter().map(|text| text.parse()).collect::<Result<Vec<_>, _>>()?;
        let nvme_tcp = options.nvme_tcp.iter().map(|text| nvme_address(text));
        let nvme_tcp = nvme_tcp.collect::<Result<Vec<_>, _>>()?;
        let control = options.control.as_deref().map(control_address).transpose()?;
        for address in nbd.iter().chain(&nvme_tcp).chain(&control) {
            Listener::check(address)?;
        }
        for (spec, drive) in &drives {
            refuse_with_zones(spec, drive, options)?;
        }
        let drives =
            drives.into_iter().map(CheckedDrive::new).collect::<Result<Vec<_>, ServeError>>()?;
        // Hosts distinguish them by it.
        let nqns = drives.iter().map(|drive| drive.identity.nqn.as_str());
        refuse_same(nqns, "have the NQN", "give each drive a different one, or none")?;
        Ok(CheckedServer { drives, memory, tls, nbd, nvme_tcp, control })
    }
}

/// Refuses two drives of the same name or NQN: `what` they have in common.
fn refuse_same<'a>(
    mut names: impl Iterator<Item = &'a str>,
    what: &str,
    hint: &str,
) -> Result<(), ServeError> {
    let mut seen = HashSet::new();
    let twice = names.find(|name| !seen.insert(*name));
    let refusal = |name| ServeError::refused(format!("two drives {what} {name}"), hint);
    twice.map_or(Ok(()), |name| Err(refusal(name)))
}

/// Options of a drive after the checks for user errors, which precede the creation of files.
pub(super) struct CheckedDrive {
    pub(super) spec: Spec,
    pub(super) options: DriveOptions,
    pub(super) is_ahci: bool,
    pub(super) namespaces: NamespaceTable,
    pub(super) namespace_file: Option<NamespaceFile>,
    pub(super) identity: DriveIdentity,
    /// Model and logs from the saved state, if there is one.
    pub(super) device: Option<Device>,
    pub(super) logs: Option<KeptLogs>,
    pub(super) secrets: Option<Secrets>,
}

impl CheckedDrive {
    /// Checks the options and loads the saved parts of the drive; creates nothing.
    fn new((spec, options): (Spec, DriveOptions)) -> Result<CheckedDrive, ServeError> {
        if let Some(path) = options.vfio_user.as_deref().filter(|path| path.exists()) {
            return Err(vfio::exists(path));
        }
        let sectors = spec.capacity_bytes() / SECTOR_BYTES;
        faults::check_all(&options.faults, sectors)?;
        let is_ahci = spec.protocol != Protocol::Nvme && options.vfio_user.is_some();
        let is_saved = options.state.as_deref().map(is_saved).transpose()?.unwrap_or(false);
        let saved = options.state.as_deref().filter(|_| is_saved);
        // First, so that a state of another drive is refused for that reason.
        let device = saved.map(|path| snapshot::restore(spec.clone(), None, path)).transpose()?;
        let file = options.state.as_deref().filter(|_| !is_ahci);
        let file = file.map(|state| NamespaceFile::beside(state, &options.namespaces));
        let kept =
            file.as_ref().map(|file| file.load(sectors, options.is_read_only)).transpose()?;
        let namespaces = choose_namespaces(kept.flatten(), &options, sectors, is_ahci)?;
        let namespaces = namespaces.on(&spec)?;
        let (profile, oui) = (&spec.raw.drive.name, spec.identify.as_ref().map_or(0, |id| id.oui));
        let identity =
            DriveIdentity::choose(&options.identity, options.state.as_deref(), profile, oui)?;
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

/// Returns the saved namespaces, or those of the options; by default one for the whole drive.
fn choose_namespaces(
    kept: Option<NamespaceTable>,
    options: &DriveOptions,
    sectors: u64,
    is_ahci: bool,
) -> Result<NamespaceTable, ServeError> {
    Ok(match (kept, &options.namespaces[..]) {
        (Some(kept), _) => kept,
        (None, []) => NamespaceTable::whole(sectors, options.is_read_only),
        _ if is_ahci => return Err(NamespaceError::Ahci.into()),
        (None, requested) => {
            let requested = requested.iter().map(|namespace| NamespaceOptions {
                is_read_only: namespace.is_read_only || options.is_read_only,
                ..*namespace
            });
            NamespaceTable::new(&requested.collect::<Vec<_>>(), sectors)?
        }
    })
}

/// Refuses protocols and options that do not support a drive with zones.
fn refuse_with_zones(
    spec: &Spec,
    drive: &DriveOptions,
    options: &Options,
) -> Result<(), ServeError> {
    let unsupported = [
        (!options.nbd.is_empty(), "--nbd", "NBD does not support zones"),
        (drive.ublk, "--ublk", "this block device has no zones"),
        (drive.record.is_some(), "--record", "zone commands are not recorded"),
        (drive.image.is_some(), "--from", "an image has no zone states"),
    ];
    let conflict = unsupported.into_iter().find(|&(is_given, ..)| is_given && spec.zones.is_some());
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
