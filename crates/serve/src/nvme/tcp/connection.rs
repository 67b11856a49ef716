//! Connection: its socket, and the PDUs in and out.
//!
//! Memory: a PDU has at most [`DATA_MAX`] of data in addition to its header; incoming data is
//! limited by `INCOMING_MAX` (further commands wait before they are asked for data); completions
//! are encoded while the output has space, the others wait as commands. The number of commands is
//! limited by the queue's entries. A host that exceeds a limit is disconnected.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use drivebay_units::refuse_if;
use drivebay_wire::nvme::{
    ALIGNMENT_MAX, Decoder, Digests, FLAG_LAST, Fault, FaultKind, HEADER_BYTES, InitPdu, Pdu,
    TermPdu, encode,
};
use socket2::Socket;

use super::output::Output;
use super::queue::{DATA_MAX, Queue};
use crate::buffers::Input;
use crate::interface::drive::Drive;
use crate::interface::session::{Next, Session};
use crate::nvme::identity::CAPSULE_DATA_MAX;
use crate::nvme::subsystem::Subsystems;
use crate::request::Completion;

/// Longest time from the start of a connection to a connected queue.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connection with its socket.
pub(crate) struct Connection {
    socket: Socket,
    protocol: Protocol,
    input: Input,
    is_closed_by_host: bool,
}

impl Connection {
    /// Creates a connection in the event loop of this drive.
    pub fn new(socket: Socket, subsystems: Subsystems, drive: usize) -> io::Result<Connection> {
        let address = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::InvalidInput)?;
        let protocol = Protocol::new(subsystems, drive, address);
        Ok(Connection { socket, protocol, input: Input::default(), is_closed_by_host: false })
    }

    /// Handles received bytes, while there is space for completions; returns the number of bytes
    /// handled.
    fn advance(&mut self, drive: &mut dyn Drive) -> usize {
        let used = self.protocol.input(drive, self.input.ready());
        self.input.consume(used);
        used
    }
}

impl Session for Connection {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn readable(&mut self, drive: &mut dyn Drive) -> io::Result<()> {
        match self.input.fill(0, |into| self.socket.read(into)) {
            Ok((0, _)) => self.is_closed_by_host = true,
            Ok(_) => {}
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
        self.advance(drive);
        Ok(())
    }

    fn complete(&mut self, drive: &mut dyn Drive, completion: Completion) {
        self.protocol.complete(drive, completion);
    }

    fn flush(&mut self, drive: &mut dyn Drive) -> io::Result<Next> {
        if self.is_closed_by_host {
            return Ok(Next::Close);
        }
        let all_sent = loop {
            self.protocol.poll(drive);
            let all_sent = self.protocol.out.buffer.drain(|bytes| self.socket.write(bytes))?;
            if let Some(drive) = self.protocol.queue.next_drive() {
                return Ok(Next::Move(drive));
            }
            if self.advance(drive) == 0 && !self.protocol.can_write_more() {
                break all_sent && self.protocol.output().is_empty();
            }
        };
        if let Phase::Closing(why) = self.protocol.phase
            && all_sent
        {
            return Err(why.into());
        }
        Ok(Next::Wait { read: self.protocol.has_room(), write: !all_sent })
    }

    fn tick(&mut self, drive: &mut dyn Drive) -> io::Result<()> {
        self.protocol.tick(drive);
        Ok(())
    }

    fn protocol(&self) -> Option<&'static str> {
        self.protocol.queue.is_of_a_drive().then_some("nvme-tcp")
    }

    fn power_cut(&mut self) -> bool {
        self.protocol.queue.is_of_no_drive()
    }
}

enum Phase {
    /// No PDU was received yet.
    New,
    /// Digests are agreed on.
    Initialized,
    /// The connection ends after the output is sent.
    Closing(io::ErrorKind),
}

/// State of a connection without its socket.
pub struct Protocol {
    phase: Phase,
    decoder: Decoder,
    queue: Queue,
    out: Output,
    begun: Instant,
}

impl Protocol {
    /// Creates a connection at the server's `address`, in the event loop of this drive.
    pub fn new(subsystems: Subsystems, drive: usize, address: SocketAddr) -> Protocol {
        Protocol {
            phase: Phase::New,
            decoder: Decoder { digests: Digests::default(), data_bytes_max: DATA_MAX },
            queue: Queue::new(subsystems, drive, address),
            out: Output::default(),
            begun: Instant::now(),
        }
    }

    /// Handles complete PDUs from the host; returns the number of bytes handled.
    pub fn input(&mut self, drive: &mut dyn Drive, bytes: &[u8]) -> usize {
        let mut used = 0;
        while self.has_room() {
            match self.decoder.decode(&bytes[used..]) {
                Ok(None) => break,
                Ok(Some((pdu, length))) => {
                    used += length;
                    if let Err(fault) = self.take(drive, pdu) {
                        self.fail(fault, &bytes[used - length..]);
                    }
                }
                Err(fault) => self.fail(fault, &bytes[used..]),
            }
        }
        if self.is_over() { bytes.len() } else { used }
    }

    /// Handles the completion of a request of this connection.
    pub fn complete(&mut self, drive: &mut dyn Drive, completion: Completion) {
        self.queue.complete(drive, &mut self.out, completion);
    }

    /// Encodes completions that waited for space, and events.
    pub fn poll(&mut self, drive: &mut dyn Drive) {
        if self.queue.poll(drive, &mut self.out).is_err() {
            self.phase = Phase::Closing(io::ErrorKind::UnexpectedEof);
        }
    }

    /// Handles timed tasks; called about ten times a second.
    pub fn tick(&mut self, drive: &mut dyn Drive) {
        let is_idle = !self.queue.is_connected() && self.begun.elapsed() > CONNECT_TIMEOUT;
        if is_idle || self.queue.tick(drive, &mut self.out).is_err() {
            self.phase = Phase::Closing(io::ErrorKind::TimedOut);
        }
    }

    /// Bytes to send.
    pub fn output(&self) -> &[u8] {
        self.out.buffer.unsent()
    }

    /// Records that this number of bytes has been sent.
    pub fn sent(&mut self, bytes: usize) {
        self.out.buffer.sent(bytes);
    }

    /// True if the connection ends after the output is sent.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closing(_))
    }

    /// True if the connection accepts more bytes from the host.
    fn has_room(&self) -> bool {
        !self.is_over() && !self.queue.is_moving() && self.out.has_room()
    }

    /// True if completions wait that could be encoded now.
    fn can_write_more(&self) -> bool {
        self.out.has_room() && self.queue.has_waiting()
    }

    fn take(&mut self, drive: &mut dyn Drive, pdu: Pdu<'_>) -> Result<(), Fault> {
        match (&self.phase, pdu) {
            (Phase::New, Pdu::IcReq(request)) => self.initialize(request),
            (Phase::Initialized, Pdu::Command(sqe, data)) => {
                let is_too_long = data.bytes.len() > CAPSULE_DATA_MAX as usize;
                refuse_if(is_too_long, Fault::new(FaultKind::DataLimitExceeded))?;
                self.queue.command(drive, &mut self.out, *sqe, data)
            }
            (Phase::Initialized, Pdu::DataToController(head, flags, data)) => {
                let is_last = flags & FLAG_LAST != 0;
                self.queue.data(drive, &mut self.out, head, is_last, data)
            }
            (_, Pdu::HostTerm(_)) => {
                self.phase = Phase::Closing(io::ErrorKind::UnexpectedEof);
                Ok(())
            }
            _ => Err(Fault::new(FaultKind::Sequence)),
        }
    }

    fn initialize(&mut self, request: InitPdu) -> Result<(), Fault> {
        let unsupported =
            |information| Fault { kind: FaultKind::UnsupportedParameter, information };
        refuse_if(request.version.get() != 0, unsupported(8))?;
        refuse_if(request.alignment > ALIGNMENT_MAX, unsupported(10))?;
        let digests = Digests::from_bits(request.digests);
        let response =
            InitPdu { digests: digests.bits(), max: DATA_MAX.into(), ..InitPdu::default() };
        self.out.put(&Pdu::IcResp(response));
        self.decoder.digests = digests;
        self.out.digests = digests.aligned(request.alignment);
        self.phase = Phase::Initialized;
        Ok(())
    }

    /// Reports the reason for the end of the connection to the host, with the header of the faulty
    /// PDU.
    fn fail(&mut self, fault: Fault, at: &[u8]) {
        let mut term = Vec::new();
        encode(&mut term, &Pdu::ControllerTerm(TermPdu::new(fault)), Digests::default());
        let head = &at[..at.len().min(HEADER_BYTES)];
        term.extend_from_slice(head);
        let whole = term.len() as u32;
        term[4..8].copy_from_slice(&whole.to_le_bytes());
        self.out.buffer.append().extend_from_slice(&term);
        self.phase = Phase::Closing(io::ErrorKind::InvalidData);
    }
}
