//! Connection of a client: bytes in, requests to the drive, replies out.
//!
//! Bounds: [`REQUESTS_MAX`] requests in flight, [`BYTES_MAX`] bytes of read data requested or not
//! yet taken by the client, and one payload of 32 MiB on its way in. Beyond these bounds, and while
//! there is too little memory, nothing more is read: a request gets all of its memory before its
//! payload is read, or waits without holding any.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drivebay_units::{SECTOR_BYTES, refuse_if};
use drivebay_wire::nbd::{self as wire, ClientFlags, Command, Error, OptionHeader, StatusExtent};

use super::handshake::{ALLOCATION_ID, After, Exports, Handshake, Negotiated, OPTION_MAX};
use super::stream::Stream;
use crate::buffers::{HEAD, Input, Output};
use crate::interface::drive::{Data, Drive};
use crate::interface::session::{Next, Session};
use crate::memory_limit::{SESSION_BYTES, Share, Use};
use crate::namespace::Namespace;
use crate::request::{Completion, Op, Request, Status};

/// Most requests in flight of a connection.
const REQUESTS_MAX: usize = 1024;
/// Most bytes of replies, requested or waiting: twice the longest reply.
const BYTES_MAX: usize = 2 * wire::MAX_PAYLOAD as usize;
/// Bytes that are covered by the session's own memory.
const BYTES_FREE: u64 = SESSION_BYTES / 2;
/// Most extents in a reply to a block status request.
const EXTENTS_MAX: usize = 4096;
/// Size from which the data of a read is sent directly from the store, and the data of a write is
/// received directly into it; smaller data is copied into a buffer, as a system call for each costs
/// more than the copy. guess: size at which a copy at some GB/s takes ten times as long as a system
/// call.
const DIRECT_MIN: usize = 64 << 10;
/// Slices of memory that are sent at a time: a read of 512 KiB with scattered pages, and the data
/// before it.
const PIECES: usize = 130;
/// Longest time for a handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Reads of the socket in one iteration of the event loop.
const READS_MAX: usize = 4;

enum Phase {
    /// The client's flags are expected.
    Flags,
    Options(Handshake),
    /// TLS begins when the reply has been sent; nothing is read before.
    TlsNext(ClientFlags),
    Transmission(Negotiated),
}

/// Write whose data is received directly into the store.
struct Placing {
    request: Request,
    bytes: usize,
    /// Number of received bytes.
    come: usize,
    /// The whole data, if the memory in the store is not available any more.
    held: Option<Vec<u8>>,
}

/// Session of an NBD client.
pub struct Connection {
    stream: Stream,
    exports: Arc<Exports>,
    /// Number of the drive whose event loop has the connection.
    drive: usize,
    /// Number of the chosen export.
    export: usize,
    /// True if the client has chosen its drive, and the connection waits to move to that drive's
    /// event loop.
    is_moving: bool,
    phase: Phase,
    since: Instant,
    input: Input,
    /// Write whose data is being received directly into the store.
    placing: Option<Placing>,
    /// True if the last request was such a write: the next one may be one, too, so its data must
    /// not be read together with its header.
    reads_heads: bool,
    /// Bytes that the current message needs.
    wanted: usize,
    output: Output,
    inflight: usize,
    /// Bytes of the reads in flight.
    bytes_requested: usize,
    memory: Share,
    /// True if there is too little memory for the next request; tried again at every flush, at
    /// least ten times a second.
    is_short: bool,
    /// True if no more requests are read; the connection ends when all are answered.
    leaving: bool,
}

impl Connection {
    /// Creates a connection that begins with the greeting, in the event loop of this drive.
    pub fn new(stream: Stream, exports: Arc<Exports>, drive: usize) -> Connection {
        let mut output = Output::default();
        wire::greeting(output.append());
        let memory = exports.memory.share(Use::Requests);
        Connection {
            memory,
            is_short: false,
            stream,
            exports,
            drive,
            export: 0,
            is_moving: false,
            phase: Phase::Flags,
            since: Instant::now(),
            input: Input::default(),
            placing: None,
            reads_heads: false,
            wanted: 0,
            output,
            inflight: 0,
            bytes_requested: 0,
            leaving: false,
        }
    }

    fn has_room(&self) -> bool {
        !self.leaving
            && !self.is_short
            && !self.is_moving
            && !matches!(self.phase, Phase::TlsNext(_))
            && self.inflight < REQUESTS_MAX
            && self.bytes_requested + self.output.unsent().len() < BYTES_MAX
    }

    /// Parses the received messages one after the other.
    fn parse(&mut self, drive: &mut dyn Drive) -> io::Result<()> {
        while self.has_room() && self.placing.is_none() {
            let went_on = match &mut self.phase {
                Phase::Flags => self.flags()?,
                Phase::Options(_) => self.option()?,
                Phase::TlsNext(_) => unreachable!("there is no room for more"),
                Phase::Transmission(negotiated) => {
                    let negotiated = *negotiated;
                    self.request(negotiated, drive)?
                }
            };
            if !went_on {
                break;
            }
        }
        Ok(())
    }

    /// True if `count` bytes are available; otherwise the connection waits for them.
    fn has(&mut self, count: usize) -> bool {
        self.wanted = count;
        self.input.ready().len() >= count
    }

    fn flags(&mut self) -> io::Result<bool> {
        let Some(&bytes) = self.input.ready().first_chunk() else { return Ok(false) };
        let client = ClientFlags::parse(bytes).map_err(|_| broken())?;
        self.input.consume(bytes.len());
        let tls_required = self.exports.tls.is_some();
        self.phase =
            Phase::Options(Handshake { client, negotiated: Negotiated::default(), tls_required });
        Ok(true)
    }

    fn option(&mut self) -> io::Result<bool> {
        let Some(head) = self.input.ready().first_chunk() else { return Ok(false) };
        let OptionHeader { option, length } = OptionHeader::parse(head).map_err(|_| broken())?;
        refuse_if(length > OPTION_MAX, broken())?;
        let end = wire::OPTION_BYTES + length as usize;
        if !self.has(end) {
            return Ok(false);
        }
        let Phase::Options(handshake) = &mut self.phase else { unreachable!("the caller looked") };
        let data = &self.input.ready()[wire::OPTION_BYTES..end];
        let after = handshake.option(option, data, &self.exports, self.output.append());
        let (negotiated, client) = (handshake.negotiated, handshake.client);
        self.input.consume(end);
        match after {
            After::Option => {}
            After::Transmission(export) => {
                self.phase = Phase::Transmission(negotiated);
                (self.export, self.drive) = (export, self.exports.all[export].drive);
                self.is_moving = self.exports.are_of_several_drives();
            }
            // Bytes that came before TLS must not be taken for encrypted content.
            After::Tls if !self.input.ready().is_empty() => return Err(broken()),
            After::Tls => self.phase = Phase::TlsNext(client),
            After::End => self.leaving = true,
        }
        Ok(true)
    }

    fn request(&mut self, negotiated: Negotiated, drive: &mut dyn Drive) -> io::Result<bool> {
        let Some(head) = self.input.ready().first_chunk() else { return Ok(false) };
        let request = wire::Request::parse(head).map_err(|_| broken())?;
        let end = wire::REQUEST_BYTES + request.payload as usize;
        let is_read = request.command == Some(Command::Read) && request.length <= wire::MAX_PAYLOAD;
        if !self.reserve(if is_read { request.length } else { request.payload }) {
            return Ok(false);
        }
        self.reads_heads = request.payload as usize >= DIRECT_MIN
            && self.input.ready().len() < end
            && self.begin_placing(&request, negotiated, drive);
        if self.reads_heads {
            return Ok(true);
        }
        if !self.has(end) {
            return Ok(false);
        }
        match self.meaning(&request, negotiated, drive) {
            Ok(Some(op)) => {
                let submitted = self.submitted(op, &request);
                drive.submit(submitted, &self.input.ready()[wire::REQUEST_BYTES..end]);
                self.inflight += 1;
                if op == Op::Read {
                    self.bytes_requested += request.length as usize;
                }
            }
            Ok(None) => {}
            Err(error) => self.answer(negotiated, request.cookie, Some(error)),
        }
        self.input.consume(end);
        Ok(true)
    }

    /// Returns the drive's request for a client's request.
    fn submitted(&self, op: Op, request: &wire::Request) -> Request {
        let (token, sectors) = (request.cookie, request.length / SECTOR_BYTES as u32);
        let lba = self.namespace().first + request.offset / SECTOR_BYTES;
        if op == Op::Flush { Request::flush(token) } else { Request::new(op, lba, sectors, token) }
    }

    /// Starts to receive the data of a write directly into the store; returns false if that is not
    /// possible.
    fn begin_placing(
        &mut self,
        request: &wire::Request,
        negotiated: Negotiated,
        drive: &mut dyn Drive,
    ) -> bool {
        if self.stream.holds_bytes() {
            return false;
        }
        let Ok(Some(op)) = self.meaning(request, negotiated, drive) else { return false };
        let request = self.submitted(op, request);
        let Some(place) = drive.place(request.lba, request.sectors) else { return false };
        let come = &self.input.ready()[wire::REQUEST_BYTES..];
        place[..come.len()].copy_from_slice(come);
        let (bytes, come) = (place.len(), come.len());
        self.input.consume(wire::REQUEST_BYTES + come);
        self.placing = Some(Placing { request, bytes, come, held: None });
        true
    }

    /// Reads once: the missing data of a write, and possibly the next header. Returns the number of
    /// bytes read, and true if there may be more.
    fn receive_placed(&mut self, drive: &mut dyn Drive) -> io::Result<(usize, bool)> {
        let placing = self.placing.as_mut().expect("the caller looked");
        let Placing { request, bytes, come, held } = placing;
        let missing = *bytes - *come;
        if held.is_none() && drive.place(request.lba, request.sectors).is_none() {
            let mut data = vec![0; *bytes];
            drive.read(request.lba, &mut data)?;
            *held = Some(data);
        }
        let place = match held {
            Some(data) => &mut data[..],
            None => drive.place(request.lba, request.sectors).expect("it was there just now"),
        };
        let (stream, mut got) = (&mut self.stream, 0);
        self.input.fill_head(|head| {
            got = stream
                .read_pieces(&mut [IoSliceMut::new(&mut place[*come..]), IoSliceMut::new(head)])?;
            Ok(got.saturating_sub(missing))
        })?;
        *come += got.min(missing);
        if *come == *bytes {
            let placing = self.placing.take().expect("it was there");
            drive.submit(placing.request, placing.held.as_deref().unwrap_or(&[]));
            self.inflight += 1;
        }
        Ok((got, got == missing + HEAD))
    }

    /// Reads once. Returns the number of bytes read, and true if there may be more.
    fn receive(&mut self, drive: &mut dyn Drive) -> io::Result<(usize, bool)> {
        if self.placing.is_some() {
            return self.receive_placed(drive);
        }
        let stream = &mut self.stream;
        if self.reads_heads && self.input.ready().is_empty() {
            let got = self.input.fill_head(|into| stream.read(into))?;
            return Ok((got, got == HEAD));
        }
        self.input.fill(self.wanted, |into| stream.read(into))
    }

    /// Reserves memory for `bytes` in addition to those in flight.
    fn reserve(&mut self, bytes: u32) -> bool {
        let held = (self.bytes_requested + self.output.unsent().len()) as u64 + u64::from(bytes);
        self.is_short = !self.memory.wait_for(held.saturating_sub(BYTES_FREE));
        !self.is_short
    }

    fn namespace(&self) -> &Namespace {
        &self.exports.all[self.export].namespace
    }

    /// Returns the drive's operation for a request; `None` if the request has been answered, or is
    /// the last one.
    fn meaning(
        &mut self,
        request: &wire::Request,
        negotiated: Negotiated,
        drive: &dyn Data,
    ) -> Result<Option<Op>, Error> {
        let command = request.command.ok_or(Error::Inval)?;
        match command {
            Command::Disconnect => {
                self.leaving = true;
                return Ok(None);
            }
            Command::Flush => return Ok(Some(Op::Flush)),
            _ => {}
        }
        let sector = SECTOR_BYTES as u32;
        let end = request.offset.checked_add(u64::from(request.length));
        if request.length == 0 || end.is_none_or(|end| end > self.namespace().bytes()) {
            let writes = matches!(command, Command::Write { .. } | Command::WriteZeroes { .. });
            return Err(if writes && request.length > 0 { Error::NoSpc } else { Error::Inval });
        }
        if !request.offset.is_multiple_of(SECTOR_BYTES) || !request.length.is_multiple_of(sector) {
            return Err(Error::Inval);
        }
        let changes =
            !matches!(command, Command::Read | Command::Cache | Command::BlockStatus { .. });
        refuse_if(changes && self.namespace().is_read_only, Error::Perm)?;
        Ok(Some(match command {
            Command::Read if request.length > wire::MAX_PAYLOAD => return Err(Error::Overflow),
            Command::Read => Op::Read,
            Command::Write { fua } => Op::Write { fua },
            Command::Trim { fua } => Op::Trim { fua },
            Command::WriteZeroes { fast: true, .. } if !drive.zeroes_fast() => {
                return Err(Error::NotSup);
            }
            Command::WriteZeroes { fua, no_hole, .. } => {
                Op::WriteZeroes { fua, allocated: no_hole }
            }
            Command::Cache => {
                self.answer(negotiated, request.cookie, None);
                return Ok(None);
            }
            Command::BlockStatus { first_only } => {
                self.block_status(request, first_only, negotiated, drive)?;
                return Ok(None);
            }
            Command::Flush | Command::Disconnect => unreachable!("looked at before"),
        }))
    }

    fn block_status(
        &mut self,
        request: &wire::Request,
        first_only: bool,
        negotiated: Negotiated,
        drive: &dyn Data,
    ) -> Result<(), Error> {
        refuse_if(negotiated.allocation_of != Some(self.export), Error::Inval)?;
        let lba = self.namespace().first + request.offset / SECTOR_BYTES;
        let sectors = u64::from(request.length) / SECTOR_BYTES;
        let most = if first_only { 1 } else { EXTENTS_MAX };
        let extents = drive.extents(lba, sectors, most).map_err(|_| Error::Io)?;
        let extents: Vec<StatusExtent> = extents
            .iter()
            .map(|e| StatusExtent { length: (e.sectors * SECTOR_BYTES) as u32, hole: !e.data })
            .collect();
        let out = self.output.append();
        wire::structured_block_status(out, request.cookie, ALLOCATION_ID, &extents);
        Ok(())
    }

    /// Reports success or an error to the client.
    fn answer(&mut self, negotiated: Negotiated, cookie: u64, error: Option<Error>) {
        let out = self.output.append();
        match error {
            _ if !negotiated.structured => wire::simple_reply(out, cookie, error),
            Some(error) => wire::structured_error(out, cookie, error),
            None => wire::structured_none(out, cookie),
        }
    }

    /// Appends the header of a read's reply and its data.
    fn answer_read(&mut self, negotiated: Negotiated, request: &Request, drive: &dyn Data) {
        let length = request.sectors as usize * SECTOR_BYTES as usize;
        let first = self.namespace().first;
        let out = self.output.append();
        let before = out.len();
        if negotiated.structured {
            let offset = (request.lba - first) * SECTOR_BYTES;
            wire::structured_data(out, request.token, offset, length as u32);
        } else {
            wire::simple_reply(out, request.token, None);
        }
        let sent = if length >= DIRECT_MIN { self.send_directly(request, drive) } else { 0 };
        // The rest is copied, from the sector on that was sent in part.
        let (lba, left) = (request.lba + (sent as u64 / SECTOR_BYTES), length - sent);
        let sectors = left.div_ceil(SECTOR_BYTES as usize) as u32;
        if sectors > 0 && drive.append(lba, sectors, self.output.append()).is_err() {
            self.output.append().truncate(before);
            return self.answer(negotiated, request.token, Some(Error::Io));
        }
        self.output.sent(sectors as usize * SECTOR_BYTES as usize - left);
    }

    /// Sends the output buffer and then the data of a read directly from memory, if all of it is
    /// there; returns the number of data bytes sent. The caller copies the rest at once, as later
    /// writes must not change it.
    fn send_directly(&mut self, request: &Request, drive: &dyn Data) -> usize {
        let before = self.output.unsent().len();
        let mut pieces = [IoSlice::new(&[]); PIECES];
        pieces[0] = IoSlice::new(self.output.unsent());
        let count = drive.pieces(request.lba, request.sectors, &mut pieces[1..]);
        let bytes: usize = pieces[1..=count].iter().map(|piece| piece.len()).sum();
        if bytes < request.sectors as usize * SECTOR_BYTES as usize {
            return 0;
        }
        // The error is reported again when the rest is sent.
        let sent = self.stream.write_pieces(&pieces[..=count]).unwrap_or(0);
        self.output.sent(sent.min(before));
        sent.saturating_sub(before)
    }

    fn read(&mut self, drive: &mut dyn Drive) -> io::Result<()> {
        for _ in 0..READS_MAX {
            if !self.has_room() {
                return Ok(());
            }
            let (got, more) = match self.receive(drive) {
                Ok(result) => result,
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                Err(why) => return Err(why),
            };
            refuse_if(got == 0, io::ErrorKind::UnexpectedEof)?;
            self.parse(drive)?;
            if !more && !self.stream.holds_bytes() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Starts TLS after the reply to STARTTLS has been sent: all further bytes are encrypted, and
    /// earlier negotiations are void.
    fn start_tls(&mut self, client: ClientFlags) -> io::Result<()> {
        let config = self.exports.tls.as_ref().expect("it was offered");
        self.stream.start_tls(config)?;
        let (negotiated, tls_required) = (Negotiated::default(), false);
        self.phase = Phase::Options(Handshake { client, negotiated, tls_required });
        Ok(())
    }
}

impl Session for Connection {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.stream.fd())
    }

    fn readable(&mut self, drive: &mut dyn Drive) -> io::Result<()> {
        refuse_if(self.leaving, broken())?;
        self.read(drive)
    }

    fn complete(&mut self, drive: &mut dyn Drive, completion: Completion) {
        let Phase::Transmission(negotiated) = self.phase else {
            unreachable!("only this phase has requests")
        };
        let request = completion.request;
        self.inflight -= 1;
        if request.op == Op::Read {
            self.bytes_requested -= request.sectors as usize * SECTOR_BYTES as usize;
        }
        let error = match completion.status {
            Status::Ok if request.op == Op::Read => {
                return self.answer_read(negotiated, &request, drive);
            }
            Status::Ok => None,
            Status::OutOfRange => Some(Error::Inval),
            // Drives with zones are not served over NBD.
            Status::MediaError | Status::Internal | Status::Zone(_) => Some(Error::Io),
            Status::ReadOnly => Some(Error::Perm),
            Status::NoSpace => Some(Error::NoSpc),
        };
        self.answer(negotiated, request.token, error);
    }

    fn flush(&mut self, drive: &mut dyn Drive) -> io::Result<Next> {
        self.is_short = false;
        loop {
            let stream = &mut self.stream;
            let all = self.output.drain(|bytes| stream.write(bytes))? && stream.finish()?;
            if let (true, Phase::TlsNext(client)) = (all, &self.phase) {
                self.start_tls(*client)?;
            }
            if self.leaving && all && self.inflight == 0 {
                return Ok(Next::Close);
            }
            if std::mem::take(&mut self.is_moving) {
                return Ok(Next::Move(self.drive));
            }
            // Replies that have been sent make space for requests that are already received.
            let came = self.input.ready().len();
            if all && came > 0 && self.has_room() {
                self.parse(drive)?;
                if self.input.ready().len() < came {
                    continue;
                }
            }
            if all && self.stream.holds_bytes() && self.has_room() {
                let before = (self.output.unsent().len(), self.inflight);
                self.read(drive)?;
                if before != (self.output.unsent().len(), self.inflight) || self.leaving {
                    continue;
                }
            }
            let is_idle = self.inflight == 0 && self.placing.is_none();
            if all && is_idle && self.input.ready().is_empty() {
                self.memory.resize(0);
            }
            return Ok(Next::Wait { read: self.has_room(), write: !all });
        }
    }

    fn tick(&mut self, _drive: &mut dyn Drive) -> io::Result<()> {
        let handshake = !matches!(self.phase, Phase::Transmission(_));
        let is_late = handshake && self.since.elapsed() > HANDSHAKE_MAX;
        refuse_if(is_late, io::ErrorKind::TimedOut.into())
    }

    fn protocol(&self) -> Option<&'static str> {
        (matches!(self.phase, Phase::Transmission(_)) && !self.is_moving).then_some("nbd")
    }

    /// A session that may still choose another drive stays.
    fn power_cut(&mut self) -> bool {
        self.exports.are_of_several_drives()
            && (self.is_moving || !matches!(self.phase, Phase::Transmission(_)))
    }
}

/// Error for a client that violates the protocol.
fn broken() -> io::Error {
    io::ErrorKind::InvalidData.into()
}
