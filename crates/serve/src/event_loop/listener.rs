//! Sockets that accept clients, `unix:PATH` or `HOST:PORT`, for any transport.

use std::fs::{File, Permissions};
use std::io;
use std::net::{TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};

use crate::error::ServeError;
use crate::interface::session::{Listen, Session};

/// Bytes of answers that the kernel buffers for a client of a Unix socket, as far as it allows
/// (net.core.wmem_max): eight reads of 128 KiB. The default, 208 KiB, holds one, and the second is
/// sent in parts.
const SEND_BUFFER: usize = 1 << 20;

/// Time without data after which the kernel probes a TCP peer. A peer that does not answer, or
/// takes no data, for twice as long is considered gone. guess: short enough for tests, long enough
/// for a host that is busy.
const SILENCE: Duration = Duration::from_secs(15);

/// Clients of a Unix socket that wait for acceptance, as in the standard library.
const BACKLOG: i32 = 128;

const EXAMPLES: &str = "unix:/tmp/drive.sock, or 127.0.0.1:10809";

/// Address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Unix socket at this path.
    Unix(PathBuf),
    /// TCP host, as given, and port.
    Tcp(String, u16),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

impl FromStr for Address {
    type Err = ServeError;

    fn from_str(text: &str) -> Result<Address, ServeError> {
        let form = || ServeError::refused(format!("{text} is not an address"), EXAMPLES);
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(form()) } else { Ok(Address::Unix(path.into())) };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(form)?;
        let port = port.parse().map_err(|_| form())?;
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        match (host, bare) {
            ("", _) => Ok(Address::Tcp("127.0.0.1".into(), port)),
            (_, Some(host)) => Ok(Address::Tcp(host.into(), port)),
            (host, None) if host.contains(':') => Err(form()),
            (host, None) => Ok(Address::Tcp(host.into(), port)),
        }
    }
}

/// Creates a session for each client; if that fails, the client is dropped.
pub type OpenSession = Box<dyn FnMut(Socket) -> io::Result<Box<dyn Session>> + Send>;

/// Listener for clients of one transport.
pub struct Listener {
    socket: Socket,
    is_tcp: bool,
    /// Path of a Unix socket, which is removed at the end.
    path: Option<PathBuf>,
    open_session: OpenSession,
}

impl Listener {
    /// Checks that the server could listen there now; creates nothing.
    pub(crate) fn check(address: &Address) -> Result<(), ServeError> {
        let checked = match address {
            Address::Unix(path) => {
                is_stale(path, address)?;
                let folder = path.parent().unwrap_or(Path::new("")).join(".");
                SocketAddr::from_pathname(path).and_then(|_| folder.metadata()).map(drop)
            }
            Address::Tcp(host, port) => try_to_bind(host, *port),
        };
        checked.map_err(|why| refused(address, why))
    }

    /// Begins to listen.
    pub fn new(address: &Address, open_session: OpenSession) -> Result<Listener, ServeError> {
        let machine = |why| refused(address, why);
        let (socket, path) = match address {
            Address::Unix(path) => {
                remove_stale(path, address)?;
                (bind_unix(path), Some(path.clone()))
            }
            Address::Tcp(host, port) => {
                (TcpListener::bind((host.as_str(), *port)).map(Socket::from), None)
            }
        };
        let socket = socket.map_err(machine)?;
        socket.set_nonblocking(true).map_err(machine)?;
        Ok(Listener { socket, is_tcp: path.is_none(), path, open_session })
    }

    /// Returns another listener at the same address; each client reaches one of them.
    pub fn share(&self, open_session: OpenSession) -> io::Result<Listener> {
        Ok(Listener {
            socket: self.socket.try_clone()?,
            is_tcp: self.is_tcp,
            path: None,
            open_session,
        })
    }

    /// Address for clients, with the actual port if port 0 was requested.
    pub fn address(&self) -> String {
        match &self.path {
            Some(path) => format!("unix:{}", path.display()),
            None => {
                let address = self.socket.local_addr().ok().and_then(|address| address.as_socket());
                address.map_or_else(String::new, |address| address.to_string())
            }
        }
    }
}

fn refused(address: &Address, why: io::Error) -> ServeError {
    match why.kind() {
        io::ErrorKind::AddrInUse => in_use(address),
        _ => ServeError::machine(format!("cannot listen on {address}: {why}"), EXAMPLES),
    }
}

fn in_use(address: &Address) -> ServeError {
    let hint = "stop the other server, or take another address";
    ServeError::machine(format!("{address} is in use"), hint)
}

/// Listens at a path; only its owner may connect. Linux creates the file with the mode that the
/// socket has before it is bound (`unix_bind_bsd`).
fn bind_unix(path: &Path) -> io::Result<Socket> {
    let socket = File::from(OwnedFd::from(Socket::new(Domain::UNIX, Type::STREAM, None)?));
    socket.set_permissions(Permissions::from_mode(0o600))?;
    let socket = Socket::from(OwnedFd::from(socket));
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Binds a port like a listener does, and releases it; clients cannot connect during the check.
fn try_to_bind(host: &str, port: u16) -> io::Result<()> {
    let mut tried = Err(io::ErrorKind::AddrNotAvailable.into());
    for address in (host, port).to_socket_addrs()? {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        tried = socket.bind(&address.into());
        if tried.is_ok() {
            break;
        }
    }
    tried
}

/// True if there is a socket on which nobody listens any more.
fn is_stale(path: &Path, address: &Address) -> Result<bool, ServeError> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(false) };
    if !metadata.file_type().is_socket() {
        let what = format!("{} exists and is not a socket", path.display());
        return Err(ServeError::refused(what, "take another path"));
    }
    match UnixStream::connect(path) {
        Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
        _ => Err(in_use(address)),
    }
}

/// Removes a socket on which nobody listens any more.
fn remove_stale(path: &Path, address: &Address) -> Result<(), ServeError> {
    if is_stale(path, address)? {
        std::fs::remove_file(path).map_err(|why| refused(address, why))?;
    }
    Ok(())
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Listen for Listener {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn accept(&mut self) -> io::Result<Option<Box<dyn Session>>> {
        let accepted = self.socket.accept().and_then(|(socket, _)| {
            socket.set_nonblocking(true)?;
            if self.is_tcp {
                socket.set_tcp_nodelay(true)?;
                let probes = TcpKeepalive::new().with_time(SILENCE).with_interval(SILENCE / 3);
                socket.set_tcp_keepalive(&probes.with_retries(3))?;
                socket.set_tcp_user_timeout(Some(2 * SILENCE))?;
            } else {
                // The kernel sizes the buffers of TCP itself.
                socket.set_send_buffer_size(SEND_BUFFER)?;
            }
            Ok(socket)
        });
        match accepted {
            Ok(socket) => Ok((self.open_session)(socket).ok()),
            Err(why) => match why.kind() {
                io::ErrorKind::WouldBlock => Ok(None),
                // The client has gone again, or a signal came.
                io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(why),
            },
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/event_loop_listener.rs"]
mod tests;
