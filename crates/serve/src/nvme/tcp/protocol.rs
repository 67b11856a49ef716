//! One connection, without its socket: PDUs in, PDUs out.
//!
//! Memory: a PDU is at most [`DATA_MAX`] of data and its header; data on its way in is bounded by
//! [`INCOMING_MAX`] (further commands wait for their turn to be asked for data); answers are made
//! while less than [`OUTPUT_MAX`] waits to be sent, the rest of what is done waits as commands. The
//! number of commands is bounded by the queue's entries. A host that breaks a bound is cut off.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use drivebay_wire::nvme::{
    Data, DataPdu, Decoder, Digests, FLAG_LAST, Fault, FaultKind, HEADER_BYTES, InitPdu, Pdu,
    TermPdu, encode,
};

use super::queue::Queue;
use crate::engine::{Done, Engine};
use crate::nvme::subsystem::Shared;
use crate::session::SessionId;

/// Most data of a PDU to the controller (MAXH2CDATA), and of a command (MDTS allows no more).
pub(super) const DATA_MAX: u32 = 128 << 10;
/// Room for a PDU and a half.
pub(super) const INPUT_BYTES: usize = 256 << 10;
/// Answers that wait to be sent, bytes; one more may come on top.
pub(super) const OUTPUT_MAX: usize = 1 << 20;
/// How long a connection may take to connect to a queue.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

enum Phase {
    /// Nothing has come yet.
    Fresh,
    /// Digests are agreed on.
    Open,
    /// The rest is sent, then it ends.
    Over,
}

/// A connection's state.
pub struct Protocol {
    phase: Phase,
    decoder: Decoder,
    queue: Queue,
    out: Output,
    begun: Instant,
}

/// Bytes on their way to the host.
#[derive(Default)]
pub(super) struct Output {
    pub bytes: Vec<u8>,
    sent: usize,
    pub digests: Digests,
}

impl Output {
    /// Whether more may be put in.
    pub fn has_room(&self) -> bool {
        self.bytes.len() - self.sent < OUTPUT_MAX
    }

    pub fn put(&mut self, pdu: &Pdu<'_>) {
        encode(&mut self.bytes, pdu, self.digests);
    }

    /// Data for a command.
    pub fn put_data(&mut self, cid: u16, bytes: &[u8]) {
        let head = DataPdu::new(cid, 0, 0, bytes.len() as u32);
        self.put(&Pdu::DataToHost(head, FLAG_LAST, Data { bytes, is_damaged: false }));
    }

    fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
            if self.bytes.capacity() > OUTPUT_MAX {
                self.bytes = Vec::new();
            }
        } else if self.sent > OUTPUT_MAX / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

impl Protocol {
    /// A connection to a subsystem, at our `address`.
    #[must_use]
    pub fn new(subsystem: Shared, address: SocketAddr) -> Protocol {
        Protocol {
            phase: Phase::Fresh,
            decoder: Decoder { digests: Digests::default(), data_bytes_max: DATA_MAX },
            queue: Queue::new(subsystem, address),
            out: Output::default(),
            begun: Instant::now(),
        }
    }

    /// Handles whole PDUs from the host; how many bytes they were.
    pub fn input(&mut self, engine: &mut Engine, me: SessionId, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while !self.is_over() && self.out.has_room() {
            match self.decoder.decode(&bytes[taken..]) {
                Ok(None) => break,
                Ok(Some((pdu, length))) => {
                    taken += length;
                    if let Err(fault) = self.take(engine, me, pdu) {
                        self.fail(fault, &bytes[taken - length..]);
                    }
                }
                Err(fault) => self.fail(fault, &bytes[taken..]),
            }
        }
        if self.is_over() { bytes.len() } else { taken }
    }

    /// A request of the engine is done.
    pub fn complete(&mut self, engine: &mut Engine, done: Done) {
        self.queue.complete(engine, &mut self.out, done);
    }

    /// Puts out what has waited for room, or for something to happen.
    pub fn poll(&mut self, engine: &mut Engine) {
        if self.queue.poll(engine, &mut self.out).is_err() {
            self.phase = Phase::Over;
        }
    }

    /// Time passes.
    pub fn tick(&mut self, engine: &mut Engine) {
        let idle = !self.queue.is_connected() && self.begun.elapsed() > CONNECT_WITHIN;
        if idle || self.queue.tick(engine).is_err() {
            self.phase = Phase::Over;
        }
    }

    /// What is to be sent.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.out.unsent()
    }

    /// So many bytes have been sent.
    pub fn sent(&mut self, bytes: usize) {
        self.out.advance(bytes);
    }

    /// Whether more bytes from the host are welcome.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.is_over() && self.out.has_room()
    }

    /// Whether answers wait that could be put out now.
    #[must_use]
    pub fn can_write_more(&self) -> bool {
        self.out.has_room() && self.queue.has_answers()
    }

    /// Whether the connection ends once the output is sent.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    fn take(&mut self, engine: &mut Engine, me: SessionId, pdu: Pdu<'_>) -> Result<(), Fault> {
        match (&self.phase, pdu) {
            (Phase::Fresh, Pdu::IcReq(request)) => self.initialize(request),
            (Phase::Open, Pdu::Command(sqe, data)) => {
                if data.bytes.len() > crate::nvme::identity::CAPSULE_DATA_MAX as usize {
                    return Err(Fault::of(FaultKind::DataLimitExceeded));
                }
                self.queue.command(engine, me, &mut self.out, *sqe, data)
            }
            (Phase::Open, Pdu::DataToController(head, flags, data)) => {
                let is_last = flags & FLAG_LAST != 0;
                self.queue.data(engine, me, &mut self.out, head, is_last, data)
            }
            (_, Pdu::HostTerm(_)) => {
                self.phase = Phase::Over;
                Ok(())
            }
            _ => Err(Fault::of(FaultKind::Sequence)),
        }
    }

    fn initialize(&mut self, request: InitPdu) -> Result<(), Fault> {
        if request.version.get() != 0 {
            return Err(Fault { kind: FaultKind::UnsupportedParameter, information: 8 });
        }
        // Alignment of data that the host wants; ours starts right behind the header.
        if request.alignment != 0 {
            return Err(Fault { kind: FaultKind::UnsupportedParameter, information: 10 });
        }
        let digests = Digests::of(request.digests);
        let response =
            InitPdu { digests: digests.bits(), max: DATA_MAX.into(), ..InitPdu::default() };
        self.out.put(&Pdu::IcResp(response));
        self.decoder.digests = digests;
        self.out.digests = digests;
        self.phase = Phase::Open;
        Ok(())
    }

    /// Tells the host why the connection ends; it gets the head of the offending PDU back.
    fn fail(&mut self, fault: Fault, at: &[u8]) {
        let mut term = Vec::new();
        encode(&mut term, &Pdu::ControllerTerm(TermPdu::new(fault)), Digests::default());
        let head = &at[..at.len().min(HEADER_BYTES)];
        term.extend_from_slice(head);
        let whole = term.len() as u32;
        term[4..8].copy_from_slice(&whole.to_le_bytes());
        self.out.bytes.extend_from_slice(&term);
        self.phase = Phase::Over;
    }
}
