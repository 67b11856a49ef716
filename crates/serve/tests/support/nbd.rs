//! NBD client that sends any bytes: one connection, a small drive, no event loop.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use drivebay_drive::{Device, Spec};
use drivebay_serve::nbd::{Connection, Export, Exports, Stream};
use drivebay_serve::{Engine, MemoryLimit, NamespaceTable, Next, Pace, Session, SessionId, Store};

/// Connection and its other side.
pub struct NbdClient {
    pub engine: Engine,
    connection: Connection,
    client: UnixStream,
    alive: bool,
}

impl NbdClient {
    /// Connects to a drive of this profile, before or after the handshake.
    pub fn new(spec: Spec, past_handshake: bool) -> NbdClient {
        let bytes = spec.capacity_bytes();
        let device = Device::new(spec, 1).expect("memory");
        let store = Store::memory(bytes / 512, &MemoryLimit::new(64 << 20, 1 << 30, 1 << 30));
        let (client, theirs) = UnixStream::pair().expect("a socket");
        theirs.set_nonblocking(true).expect("a socket");
        client.set_nonblocking(true).expect("a socket");
        let export = Arc::new(Exports {
            tls: None,
            memory: MemoryLimit::new(0, 1 << 30, 1 << 30),
            all: Export::for_drive("drive", 0, &NamespaceTable::whole(bytes / 512, false)),
        });
        let connection = Connection::new(Stream::Plain(theirs.into()), export, 0);
        let engine = Engine::new(device, store, Pace::None, 1);
        let mut this = NbdClient { engine, connection, client, alive: true };
        this.iterate();
        if past_handshake {
            let mut hello = 3u32.to_be_bytes().to_vec();
            hello.extend(b"IHAVEOPT\0\0\0\x08\0\0\0\0");
            hello.extend(b"IHAVEOPT\0\0\0\x01\0\0\0\0");
            this.feed(&hello, hello.len());
        }
        this
    }

    /// Sends `bytes` in pieces of `piece`, with an iteration of the event loop after each; returns
    /// true if the connection still exists.
    pub fn feed(&mut self, bytes: &[u8], piece: usize) -> bool {
        for part in bytes.chunks(piece.max(1)) {
            if !self.alive {
                break;
            }
            if self.client.write_all(part).is_err() {
                return false;
            }
            self.iterate();
        }
        self.alive
    }

    /// One iteration of the event loop.
    fn iterate(&mut self) {
        let me = SessionId::numbered(0);
        self.engine.begin_iteration();
        self.alive = self.connection.readable(self.engine.drive_of(me)).is_ok();
        if self.alive {
            while let Some(completion) = self.engine.next_completion() {
                self.connection.complete(self.engine.drive_of(me), completion);
            }
            let next = self.connection.flush(self.engine.drive_of(me));
            self.alive = matches!(next, Ok(Next::Wait { .. }));
        }
        // The client reads the replies, and drops them.
        let mut sink = [0; 65536];
        while self.client.read(&mut sink).is_ok_and(|got| got > 0) {}
    }
}
