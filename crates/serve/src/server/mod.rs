//! Server: drives, each with its store and event loop, and the listeners that they share.

mod checks;
mod drive;
mod existing_data;
mod kept_logs;
pub(crate) mod options;
pub(crate) mod precondition;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};

use drivebay_drive::Spec;
use drivebay_run::Control as RunControl;
use rustls::ServerConfig;

use self::checks::CheckedServer;
use self::drive::ServedDrive;
use self::options::{DriveOptions, Options};
use crate::control::ControlConnection;
use crate::error::ServeError;
use crate::event_loop::channel::Handle;
use crate::event_loop::listener::{Address, Listener, OpenSession};
use crate::interface::report::Report;
use crate::memory_limit::MemoryLimit;
use crate::nbd::{self, Export, Exports, Stream};
use crate::nvme::{self, Subsystems};

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
        let CheckedServer { drives, memory, tls, nbd, nvme_tcp, control: control_socket } =
            CheckedServer::new(drives, options)?;
        let may_be_cut = control_socket.is_some();
        // The steps from here on create files.
        let drives = drives
            .into_iter()
            .map(|drive| ServedDrive::new(drive, &memory, nvme_tcp.len(), may_be_cut, control))
            .collect::<Result<Vec<_>, _>>()?;
        let mut server = Server { drives, addresses: Vec::new() };
        server.listen_for_nbd(&nbd, tls, &memory)?;
        server.listen_for_nvme(&nvme_tcp, &memory)?;
        let vfio_users = server.drives.iter().filter_map(|drive| drive.vfio_user.as_deref());
        let vfio_users = vfio_users.map(|path| format!("vfio-user:{}", path.display()));
        let block_devices = server.drives.iter().flat_map(ServedDrive::block_devices);
        let local_addresses: Vec<String> = vfio_users.chain(block_devices).collect();
        server.addresses.extend(local_addresses);
        if let Some(address) = &control_socket {
            server.listen_for_control(address)?;
        }
        if let several @ [_, _, ..] = &mut server.drives[..] {
            let handles: Vec<Handle> = several.iter().map(|drive| drive.handle.clone()).collect();
            for (number, drive) in several.iter_mut().enumerate() {
                drive.event_loop.join(number, handles.clone());
            }
        }
        // The identity is saved last, so that a refused start leaves none.
        server.drives.iter().try_for_each(ServedDrive::keep_identity)?;
        Ok(server)
    }

    fn listen_for_nbd(
        &mut self,
        addresses: &[Address],
        tls: Option<Arc<ServerConfig>>,
        memory: &MemoryLimit,
    ) -> Result<(), ServeError> {
        let drives = self.drives.iter().enumerate();
        let exports =
            drives.flat_map(|(n, drive)| Export::for_drive(&drive.name, n, &drive.namespaces));
        let all = exports.collect();
        let exports = Arc::new(Exports { tls, memory: memory.clone(), all });
        for address in addresses {
            let listener = self.listen(address, |drive| {
                let exports = Arc::clone(&exports);
                Box::new(move |socket| {
                    let stream = Stream::Plain(socket);
                    Ok(Box::new(nbd::Connection::new(stream, Arc::clone(&exports), drive)))
                })
            })?;
            self.addresses.push(listener);
        }
        Ok(())
    }

    fn listen_for_control(&mut self, address: &Address) -> Result<(), ServeError> {
        let names: Arc<[String]> = self.drives.iter().map(|drive| drive.name.clone()).collect();
        self.listen(address, |drive| {
            let names = Arc::clone(&names);
            Box::new(move |s| Ok(Box::new(ControlConnection::new(s, Arc::clone(&names), drive))))
        })?;
        Ok(())
    }

    fn listen_for_nvme(
        &mut self,
        addresses: &[Address],
        memory: &MemoryLimit,
    ) -> Result<(), ServeError> {
        let shared = self.drives.iter().map(|drive| drive.nvme.clone());
        let subsystems = Subsystems::new(shared, memory);
        let names: Vec<String> = subsystems.names().map(str::to_owned).collect();
        let mut portals = Vec::new();
        for address in addresses {
            let listener = self.listen(address, |drive| {
                let subsystems = subsystems.clone();
                Box::new(move |socket| {
                    Ok(Box::new(nvme::tcp::Connection::new(socket, subsystems.clone(), drive)?))
                })
            })?;
            portals.extend(listener.parse::<SocketAddr>());
            for (nqn, drive) in names.iter().zip(&self.drives) {
                // With several drives, the address includes the drive's name.
                let name = if names.len() > 1 { &drive.name } else { "" };
                self.addresses
                    .push(format!("nvme-tcp:{listener} {nqn} {name}").trim_end().to_owned());
            }
        }
        subsystems.set_portals(portals);
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
