//! A client that says anything, for fuzzing: one connection, a small drive, no loop. And a machine
//! that does anything ([`Machine`]).

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use drivebay_drive::{Device, Spec};
use drivebay_units::SECTOR_BYTES;

pub use crate::ahci::Machine;
use crate::clock::Pace;
use crate::engine::Engine;
use crate::listener::Socket;
use crate::nbd::{Connection, Export, Stream};
use crate::session::{Next, Session, SessionId};
use crate::store::Store;

/// A connection and its other side.
pub struct Probe {
    engine: Engine,
    connection: Connection,
    client: UnixStream,
    alive: bool,
}

impl Probe {
    /// A connection to a drive of this profile, at its beginning or past its handshake.
    ///
    /// # Panics
    /// If the system has no socket or no memory.
    #[must_use]
    pub fn new(spec: Spec, past_handshake: bool) -> Probe {
        let bytes = spec.capacity_bytes();
        let device = Device::new(spec, 1).expect("memory");
        let store = Store::memory(bytes / SECTOR_BYTES, 64 << 20);
        let (client, theirs) = UnixStream::pair().expect("a socket");
        theirs.set_nonblocking(true).expect("a socket");
        client.set_nonblocking(true).expect("a socket");
        let export = Arc::new(Export { tls: None, name: "drive".into(), bytes });
        let connection = Connection::new(Stream::Plain(Socket::Unix(theirs)), export);
        let engine = Engine::new(device, store, Pace::None, 1);
        let mut probe = Probe { engine, connection, client, alive: true };
        probe.turn();
        if past_handshake {
            let mut hello = 3u32.to_be_bytes().to_vec();
            hello.extend(b"IHAVEOPT\0\0\0\x08\0\0\0\0");
            hello.extend(b"IHAVEOPT\0\0\0\x01\0\0\0\0");
            probe.feed(&hello, hello.len());
        }
        probe
    }

    /// Says `bytes` in pieces of `piece`, with a turn after each; returns whether it is still connected.
    pub fn feed(&mut self, bytes: &[u8], piece: usize) -> bool {
        for part in bytes.chunks(piece.max(1)) {
            if !self.alive {
                break;
            }
            if self.client.write_all(part).is_err() {
                return false;
            }
            self.turn();
        }
        self.alive
    }

    /// As the event loop's turn.
    fn turn(&mut self) {
        self.engine.begin_turn();
        let me = SessionId::numbered(0);
        self.alive = match self.connection.readable(&mut self.engine, me) {
            Ok(()) => self.go_on(),
            Err(_) => false,
        };
        self.swallow();
    }

    fn go_on(&mut self) -> bool {
        while let Some(done) = self.engine.next_done() {
            self.connection.complete(&mut self.engine, done);
        }
        matches!(self.connection.flush(&mut self.engine), Ok(Next::Wait { .. }))
    }

    /// The client reads what was answered, and forgets it.
    fn swallow(&mut self) {
        let mut sink = [0; 65536];
        while self.client.read(&mut sink).is_ok_and(|got| got > 0) {}
    }
}
