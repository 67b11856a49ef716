//! Commands of a connection: their data, their execution, their completions.

use std::collections::VecDeque;
use std::net::SocketAddr;

use drivebay_units::{SECTOR_BYTES, refuse_if};
use drivebay_wire::nvme::{
    Cqe, Data, DataPdu, FLAG_LAST, FLAG_SUCCESS, Fault, FaultKind, OPCODE_FABRICS, Pdu, SglKind,
    Sqe, Status, encode_data_with,
};

use super::fabrics::{self, Connected};
use super::output::Output;
use crate::interface::drive::{Drive, Namespaces};
use crate::memory_limit::{Share, Use};
use crate::nvme::admin::{self, NOT_ABORTED, Outcome};
use crate::nvme::controller::Abort;
use crate::nvme::identity::{Kind, TCP_TRANSFER_MAX_LOG2};
use crate::nvme::io::{self, Finished, InflightCommands, Progress, Transfer};
use crate::nvme::subsystem::{Shared, Subsystems, check_flags};
use crate::request::Completion;

/// Most data of a PDU to the controller (MAXH2CDATA), and of a command (MDTS allows no more).
pub(super) const DATA_MAX: u32 = 4096 << TCP_TRANSFER_MAX_LOG2;
/// Most bytes of data that hosts were asked for and that has not arrived completely.
const INCOMING_MAX: usize = 4 << 20;

/// The queue does not exist any more: its controller was reset, or its host is silent.
pub(super) struct QueueGone;

/// Data that a host was asked for.
struct Incoming {
    sqe: Sqe,
    data: Vec<u8>,
    received: u32,
    /// True if the digest of a part was wrong.
    is_damaged: bool,
}

/// Commands of one connection.
pub(super) struct Queue {
    subsystems: Subsystems,
    /// Number of the drive whose event loop has the connection, until the host has chosen one.
    drive: usize,
    /// True if the host has chosen its drive, and the connection waits to move to that drive's
    /// event loop.
    is_moving: bool,
    subsystem: Shared,
    /// Most data of a command, bytes.
    transfer_max: u32,
    address: SocketAddr,
    connected: Option<Connected>,
    /// Number of commands without a completion.
    outstanding: u16,
    sq_head: u16,
    /// Incoming data by transfer tag.
    incoming: Vec<Option<Incoming>>,
    incoming_bytes: usize,
    /// Memory of the incoming data.
    memory: Share,
    /// Commands whose data must still be asked for.
    unasked: VecDeque<Sqe>,
    inflight: InflightCommands,
    /// Finished commands for whose completion the output had no space.
    waiting: VecDeque<Finished>,
}

impl Queue {
    pub fn new(subsystems: Subsystems, drive: usize, address: SocketAddr) -> Queue {
        let subsystem = subsystems.subsystem(drive).clone();
        let memory = subsystems.memory.share(Use::Requests);
        Queue {
            transfer_max: transfer_max(&subsystem),
            subsystems,
            drive,
            is_moving: false,
            subsystem,
            address,
            connected: None,
            outstanding: 0,
            sq_head: 0,
            incoming: Vec::new(),
            incoming_bytes: 0,
            memory,
            unasked: VecDeque::new(),
            inflight: InflightCommands::default(),
            waiting: VecDeque::new(),
        }
    }

    /// True if the connection has a queue that may be used.
    pub fn is_connected(&self) -> bool {
        self.connected.as_ref().is_some_and(Connected::is_authentic)
    }

    /// Number of the drive to whose event loop the connection must move; returned once.
    pub fn next_drive(&mut self) -> Option<usize> {
        std::mem::take(&mut self.is_moving).then_some(self.drive)
    }

    pub fn is_moving(&self) -> bool {
        self.is_moving
    }

    /// True if the host may still choose another drive, or only discovers drives.
    pub fn is_of_no_drive(&self) -> bool {
        !self.subsystems.has_one_drive() && !self.is_of_a_drive()
    }

    /// True if the connection serves a host that has chosen its drive.
    pub fn is_of_a_drive(&self) -> bool {
        let kind = |id| self.subsystem.lock().get(id).map(|controller| controller.kind);
        let discovers = |queue: &Connected| kind(queue.controller) == Some(Kind::Discovery);
        !self.is_moving && !self.connected.as_ref().is_none_or(discovers)
    }

    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Handles a command of the host.
    pub fn command(
        &mut self,
        drive: &mut dyn Drive,
        out: &mut Output,
        sqe: Sqe,
        data: Data<'_>,
    ) -> Result<(), Fault> {
        // Before it is connected a queue accepts one command at a time.
        let entries = self.connected.as_ref().map_or(1, |queue| queue.entries);
        refuse_if(self.outstanding >= entries, Fault::new(FaultKind::Sequence))?;
        self.outstanding += 1;
        self.sq_head = if self.sq_head + 1 >= entries { 0 } else { self.sq_head + 1 };
        if let Some(queue) = &self.connected {
            queue.flags.note_traffic();
        }
        match self.incoming_of(drive, &sqe, data) {
            Ok(Some(bytes)) => self.execute(drive, out, sqe, bytes),
            Ok(None) => {
                self.unasked.push_back(sqe);
                self.ask(out);
            }
            Err(status) => self.finish(out, &sqe, status, 0),
        }
        Ok(())
    }

    /// Data that came with a command; `None` if it must be asked for.
    fn incoming_of<'a>(
        &self,
        namespaces: &dyn Namespaces,
        sqe: &Sqe,
        data: Data<'a>,
    ) -> Result<Option<&'a [u8]>, Status> {
        let transfer = match &self.connected {
            queue if sqe.opcode == OPCODE_FABRICS => admin::fabrics_transfer(sqe, queue.is_some()),
            Some(queue) if queue.id != 0 => io::transfer(sqe, namespaces, &queue.flags),
            Some(queue) => admin::transfer(sqe, queue.flags.kind, &self.subsystem.lock().identity),
            None => None,
        };
        // Execution refuses an opcode that is not supported, whatever its other fields are.
        let Some(transfer) = transfer else { return Ok(Some(&[])) };
        check_flags(Kind::Tcp, sqe)?;
        let sgl = sqe.sgl();
        let max = self.transfer_max;
        let wanted = match transfer {
            Transfer::None => return Ok(Some(&[])),
            Transfer::FromHost(bytes) | Transfer::ToHost(bytes) => bytes,
        };
        refuse_if(wanted > max, Status::INVALID_FIELD.dnr())?;
        refuse_if(sgl.bytes < wanted || sgl.bytes > max, Status::SGL_LENGTH_INVALID.dnr())?;
        match (transfer, sgl.kind) {
            (Transfer::FromHost(_), SglKind::InCapsule) => {
                let from = usize::try_from(sgl.address).unwrap_or(usize::MAX);
                let end = from.saturating_add(sgl.bytes as usize);
                let bytes = data.bytes.get(from..end).ok_or(Status::SGL_OFFSET_INVALID.dnr())?;
                refuse_if(data.is_damaged, Status::TRANSIENT_TRANSPORT_ERROR)?;
                Ok(Some(bytes))
            }
            (Transfer::FromHost(_), SglKind::Transport) => Ok(None),
            (Transfer::ToHost(_), SglKind::Transport) => Ok(Some(&[])),
            _ => Err(Status::SGL_TYPE_INVALID.dnr()),
        }
    }

    /// Asks for the data of waiting commands, as far as the memory limits allow.
    fn ask(&mut self, out: &mut Output) {
        while let Some(sqe) = self.unasked.front() {
            let bytes = sqe.sgl().bytes;
            let wanted = self.incoming_bytes + bytes as usize;
            if wanted > INCOMING_MAX || !self.memory.wait_for(wanted as u64) {
                return;
            }
            let sqe = self.unasked.pop_front().expect("just looked at");
            self.incoming_bytes += bytes as usize;
            let place = self.incoming.iter().position(Option::is_none).unwrap_or_else(|| {
                self.incoming.push(None);
                self.incoming.len() - 1
            });
            let data = vec![0; bytes as usize];
            self.incoming[place] = Some(Incoming { sqe, data, received: 0, is_damaged: false });
            out.put(&Pdu::R2t(DataPdu::new(sqe.cid.get(), place as u16, 0, bytes)));
        }
    }

    /// Handles data that was asked for.
    pub fn data(
        &mut self,
        drive: &mut dyn Drive,
        out: &mut Output,
        head: DataPdu,
        is_last: bool,
        data: Data<'_>,
    ) -> Result<(), Fault> {
        let place = usize::from(head.tag.get());
        let incoming = self.incoming.get_mut(place).and_then(Option::as_mut);
        let incoming =
            incoming.filter(|transfer| transfer.sqe.cid == head.cid).ok_or(Fault::field(8))?;
        // Data of the host comes in order, and ends at the requested length.
        let (from, bytes) = (head.offset.get(), head.bytes.get());
        let end = from.checked_add(bytes).filter(|&end| end as usize <= incoming.data.len());
        let end = end.ok_or(Fault::new(FaultKind::DataOutOfRange))?;
        let is_next = from == incoming.received && is_last == (end as usize == incoming.data.len());
        refuse_if(!is_next, Fault::new(FaultKind::DataOutOfRange))?;
        incoming.data[from as usize..end as usize].copy_from_slice(data.bytes);
        incoming.received = end;
        // The command fails when all of its data has come.
        incoming.is_damaged |= data.is_damaged;
        if is_last {
            let incoming = self.incoming[place].take().expect("just there");
            let Incoming { sqe, data, is_damaged, .. } = incoming;
            self.incoming_bytes -= data.len();
            self.memory.resize(self.incoming_bytes as u64);
            if is_damaged {
                self.finish(out, &sqe, Status::TRANSIENT_TRANSPORT_ERROR, 0);
            } else {
                self.execute(drive, out, sqe, &data);
            }
            self.ask(out);
        }
        Ok(())
    }

    fn execute(&mut self, drive: &mut dyn Drive, out: &mut Output, sqe: Sqe, data: &[u8]) {
        let Some(queue) = self.connected.as_ref().filter(|_| sqe.opcode != OPCODE_FABRICS) else {
            return self.execute_fabrics(drive, out, sqe, data);
        };
        if !queue.is_authentic() {
            return self.finish(out, &sqe, Status::AUTHENTICATION_REQUIRED.dnr(), 0);
        }
        if queue.id == 0 {
            return self.execute_admin(drive, out, sqe, data);
        }
        let Some(ended) = self.inflight.start(drive, 0, sqe, data, &queue.flags) else { return };
        match ended {
            Ok(data) => self.succeed(out, &sqe, 0, &data),
            Err(status) => self.finish(out, &sqe, status, 0),
        }
    }

    fn execute_admin(&mut self, drive: &mut dyn Drive, out: &mut Output, sqe: Sqe, data: &[u8]) {
        let Some(controller) = self.connected.as_ref().map(|queue| queue.controller) else {
            return;
        };
        let subsystem = self.subsystem.clone();
        let answer = {
            let mut subsystem = subsystem.lock();
            if !subsystem.get(controller).is_some_and(|c| c.is_ready()) {
                Err(Status::COMMAND_SEQUENCE.dnr())
            } else {
                match subsystem.admin(controller, drive, &sqe, data) {
                    Ok(Outcome::Transport) => {
                        fabrics::discovery_log(&self.subsystems, self.address, &sqe)
                    }
                    other => other,
                }
            }
        };
        match answer {
            Ok(Outcome::Held) => {}
            Ok(Outcome::Abort { queue, cid }) => {
                if let Err(status) = self.ask_to_abort(&sqe, queue, cid) {
                    self.finish(out, &sqe, status, 0);
                }
            }
            Ok(Outcome::Success(result, data)) => self.succeed(out, &sqe, result, &data),
            Ok(Outcome::Transport) => self.finish(out, &sqe, Status::INVALID_OPCODE.dnr(), 0),
            Err(status) => self.finish(out, &sqe, status, 0),
        }
    }

    /// Records the abort; the queue with the command looks for it at its next tick.
    fn ask_to_abort(&mut self, sqe: &Sqe, queue: u16, target: u16) -> Result<(), Status> {
        let id = self.connected.as_ref().map(|queue| queue.controller);
        let mut subsystem = self.subsystem.lock();
        let aborts_max = usize::from(subsystem.identity.own.aborts_max) + 1;
        let controller = id.and_then(|id| subsystem.get_mut(id));
        let controller = controller.ok_or(Status::INTERNAL_ERROR)?;
        refuse_if(controller.aborts.len() >= aborts_max, Status::ABORT_LIMIT_EXCEEDED.dnr())?;
        controller.aborts.push(Abort { cid: sqe.cid.get(), queue, target, outcome: None });
        Ok(())
    }

    /// Completes the commands of this queue that must be aborted.
    fn abort(&mut self, out: &mut Output) {
        let Some(queue) = &self.connected else { return };
        let (id, controller) = (queue.id, queue.controller);
        let mut aborted = Vec::new();
        if let Some(controller) = self.subsystem.lock().get_mut(controller) {
            for abort in controller.aborts.iter_mut().filter(|abort| abort.queue == id) {
                if abort.outcome.is_none() {
                    let command = self.inflight.abort(0, abort.target);
                    abort.outcome = Some(command.is_some());
                    aborted.extend(command);
                }
            }
        }
        for sqe in aborted {
            self.finish(out, &sqe, Status::ABORT_REQUESTED, 0);
        }
    }

    fn execute_fabrics(&mut self, drive: &mut dyn Drive, out: &mut Output, sqe: Sqe, data: &[u8]) {
        let is_new = self.connected.is_none();
        if is_new && let Some(drive) = fabrics::drive_of(&self.subsystems, &sqe, data) {
            self.drive = drive;
            self.subsystem = self.subsystems.subsystem(drive).clone();
            self.transfer_max = transfer_max(&self.subsystem);
        }
        let subsystem = self.subsystem.clone();
        let mut subsystem = subsystem.lock();
        let portal = self.subsystems.portal_at(self.address);
        let connected = &mut self.connected;
        match fabrics::execute(&mut subsystem, drive, connected, portal, &sqe, data) {
            Ok(fabrics::Reply { result, data, flush }) => {
                if flush {
                    self.inflight.flush_for_shutdown(drive);
                }
                drop(subsystem);
                if !data.is_empty() {
                    out.put_data(sqe.cid.get(), &data);
                }
                self.finish(out, &sqe, Status::SUCCESS, result);
                self.is_moving =
                    is_new && !self.is_of_no_drive() && !self.subsystems.has_one_drive();
            }
            Err((status, result)) => {
                drop(subsystem);
                self.finish(out, &sqe, status, result);
            }
        }
    }

    /// Sends the data of a successful command, and its completion.
    fn succeed(&mut self, out: &mut Output, sqe: &Sqe, result: u32, data: &[u8]) {
        if !data.is_empty() {
            out.put_data(sqe.cid.get(), data);
        }
        self.finish(out, sqe, Status::SUCCESS, u64::from(result));
    }

    /// Sends the completion of a command.
    fn finish(&mut self, out: &mut Output, sqe: &Sqe, status: Status, result: u64) {
        let (queue, flow) =
            self.connected.as_ref().map_or((0, true), |queue| (queue.id, queue.flow_control));
        if !status.is_success() {
            let connected = self.connected.as_ref();
            let active = connected.is_some_and(|queue| queue.flags.is_attached(sqe.nsid.get()));
            self.subsystem.lock().log_error(Kind::Tcp, queue, active, sqe, status);
        }
        let mut cqe = Cqe::new(sqe.cid.get(), status, result);
        cqe.sq_id = queue.into();
        cqe.sq_head = if flow { self.sq_head } else { 0xffff }.into();
        out.put(&Pdu::Response(cqe));
        self.outstanding -= 1;
    }

    /// Handles the completion of a request of this queue.
    pub fn complete(&mut self, drive: &mut dyn Drive, out: &mut Output, completion: Completion) {
        match self.inflight.complete(drive, completion) {
            Progress::Finished(finished) if out.has_room() && self.waiting.is_empty() => {
                self.send(drive, out, finished);
            }
            Progress::Finished(finished) => self.waiting.push_back(finished),
            Progress::ShutDown => {
                if let Some(queue) = &self.connected
                    && let Some(controller) = self.subsystem.lock().get_mut(queue.controller)
                {
                    controller.shut_down();
                }
            }
            Progress::None => {}
        }
    }

    /// Sends the data of a read, and the completion.
    fn send(&mut self, drive: &dyn Drive, out: &mut Output, finished: Finished) {
        let Finished { sqe, lba, sectors, gap, result, mut status, .. } = finished;
        if finished.reads() {
            let bytes = (sectors + gap) * SECTOR_BYTES as u32;
            let head = DataPdu::new(sqe.cid.get(), 0, 0, bytes);
            let read = |out: &mut Vec<u8>| {
                let read = drive.append(lba, sectors, out);
                out.resize(out.len() + gap as usize * SECTOR_BYTES as usize, 0);
                read
            };
            // Without flow control a completion has no information beyond the data.
            let whole = self.connected.as_ref().is_some_and(|queue| !queue.flow_control);
            let flags = FLAG_LAST | if whole { FLAG_SUCCESS } else { 0 };
            match encode_data_with(out.buffer.append(), &head, flags, out.digests, read) {
                Ok(()) if whole => {
                    self.outstanding -= 1;
                    return;
                }
                Ok(()) => {}
                Err(_) => status = Status::INTERNAL_ERROR,
            }
        }
        self.finish(out, &sqe, status, result);
    }

    /// Sends waiting completions while the output has space.
    pub fn poll(&mut self, drive: &mut dyn Drive, out: &mut Output) -> Result<(), QueueGone> {
        while out.has_room()
            && let Some(finished) = self.waiting.pop_front()
        {
            self.send(drive, out, finished);
        }
        let Some(queue) = &self.connected else { return Ok(()) };
        if queue.id != 0 {
            let stays = !queue.is_leaving && queue.flags.epoch() == queue.epoch;
            return if stays { Ok(()) } else { Err(QueueGone) };
        }
        let mut subsystem = self.subsystem.lock();
        let controller = subsystem.get_mut(queue.controller).ok_or(QueueGone)?;
        let mut answers: Vec<Cqe> = std::iter::from_fn(|| controller.events.next()).collect();
        let queues = controller.queues;
        controller.aborts.retain(|abort| {
            let is_there = (1..=64).contains(&abort.queue) && queues >> (abort.queue - 1) & 1 != 0;
            let Some(aborted) = abort.outcome.or((!is_there).then_some(false)) else { return true };
            let result = NOT_ABORTED * u32::from(!aborted);
            answers.push(Cqe::new(abort.cid, Status::SUCCESS, result.into()));
            false
        });
        for mut answer in answers {
            answer.sq_head = self.sq_head.into();
            out.put(&Pdu::Response(answer));
            self.outstanding -= 1;
        }
        Ok(())
    }

    /// Checks the keep-alive, raises events, and looks for commands to abort.
    pub fn tick(&mut self, drive: &mut dyn Drive, out: &mut Output) -> Result<(), QueueGone> {
        self.ask(out);
        let Some(queue) = self.connected.as_ref().filter(|queue| queue.id == 0) else {
            self.abort(out);
            return Ok(());
        };
        let mut subsystem = self.subsystem.lock();
        refuse_if(subsystem.get_mut(queue.controller).ok_or(QueueGone)?.is_lost(), QueueGone)?;
        subsystem.poll_events(queue.controller, drive);
        Ok(())
    }
}

fn transfer_max(subsystem: &Shared) -> u32 {
    DATA_MAX.min(subsystem.lock().identity.transfer_bytes_max())
}

impl Drop for Queue {
    fn drop(&mut self) {
        let Some(queue) = &self.connected else { return };
        let mut subsystem = self.subsystem.lock();
        if queue.id == 0 {
            subsystem.remove(queue.controller);
        } else if let Some(controller) = subsystem.get_mut(queue.controller)
            && controller.flags.epoch() == queue.epoch
        {
            controller.queues &= !(1 << (queue.id - 1));
        }
    }
}
