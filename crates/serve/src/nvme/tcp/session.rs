//! The socket of a connection: bytes in, bytes out.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use drivebay_units::Nanos;

use super::protocol::{INPUT_BYTES, Protocol};
use crate::engine::{Done, Engine};
use crate::nvme::subsystem::Shared;
use crate::session::{Next, Session, SessionId};

/// A connection.
pub(super) struct Connection {
    stream: TcpStream,
    protocol: Protocol,
    input: Box<[u8]>,
    /// What of `input` is waiting.
    filled: std::ops::Range<usize>,
    me: Option<SessionId>,
    peer_closed: bool,
}

impl Connection {
    pub fn new(stream: TcpStream, subsystem: Shared) -> io::Result<Connection> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let address = stream.local_addr()?;
        Ok(Connection {
            stream,
            protocol: Protocol::new(subsystem, address),
            input: vec![0; INPUT_BYTES].into(),
            filled: 0..0,
            me: None,
            peer_closed: false,
        })
    }

    /// Handles what has been read, as far as there is room for answers.
    fn advance(&mut self, engine: &mut Engine) {
        let Some(me) = self.me else { return };
        let waiting = &self.input[self.filled.clone()];
        self.filled.start += self.protocol.input(engine, me, waiting);
        if self.filled.is_empty() {
            self.filled = 0..0;
        }
    }

    fn write(&mut self) -> io::Result<()> {
        while !self.protocol.output().is_empty() {
            match self.stream.write(self.protocol.output()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.protocol.sent(written),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }
}

impl Session for Connection {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.stream.as_fd())
    }

    fn readable(&mut self, engine: &mut Engine, me: SessionId) -> io::Result<()> {
        self.me = Some(me);
        if self.filled.end == self.input.len() {
            self.input.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        match self.stream.read(&mut self.input[self.filled.end..]) {
            Ok(0) => self.peer_closed = true,
            Ok(read) => self.filled.end += read,
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
        self.advance(engine);
        Ok(())
    }

    fn complete(&mut self, engine: &mut Engine, done: Done) {
        self.protocol.complete(engine, done);
    }

    fn flush(&mut self, engine: &mut Engine) -> io::Result<Next> {
        if self.peer_closed {
            return Ok(Next::Close);
        }
        loop {
            self.protocol.poll(engine);
            self.write()?;
            let before = self.filled.len();
            self.advance(engine);
            if self.filled.len() == before && !self.protocol.can_write_more() {
                break;
            }
        }
        let unsent = !self.protocol.output().is_empty();
        if self.protocol.is_over() && !unsent {
            return Ok(Next::Close);
        }
        Ok(Next::Wait { read: self.protocol.has_room(), write: unsent })
    }

    fn tick(&mut self, engine: &mut Engine, _now: Nanos) -> io::Result<()> {
        self.protocol.tick(engine);
        Ok(())
    }
}
