//! Device in the event loop: takes commands from the queues in the guest's memory, and writes
//! completions.
//!
//! Memory: a submission queue has at most as many commands in flight as entries; completions for a
//! full completion queue wait here, at most as many again.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use drivebay_units::SECTOR_BYTES;
use drivebay_wire::nvme::{AdminOpcode, Cqe, Sqe, Status};
use zerocopy::{FromBytes, IntoBytes};

use super::prp::data_regions;
use super::shared::{Message, Registers, Shared};
use crate::interface::drive::Drive;
use crate::interface::session::{Next, Session};
use crate::lock::lock;
use crate::nvme::admin::{self, NOT_ABORTED, Outcome};
use crate::nvme::controller::{Effect, Flags};
use crate::nvme::identity::Kind;
use crate::nvme::io::{self as nvm, Finished, InflightCommands, Progress, Transfer};
use crate::nvme::refuse::refuse_if;
use crate::nvme::subsystem::{Shared as Subsystem, check_flags};
use crate::request::Completion;

/// Commands taken from one queue before those of the next.
const TAKE_MAX: u32 = 64;
const SQE_BYTES: u64 = 64;
const CQE_BYTES: u64 = 16;

struct SubmissionQueue {
    base: u64,
    entries: u32,
    head: u32,
    completion_queue: u16,
    inflight: u32,
}

struct CompletionQueue {
    base: u64,
    entries: u32,
    tail: u32,
    phase: bool,
    vector: Option<u16>,
    /// Completions that wait for space in the queue.
    waiting: VecDeque<Cqe>,
    is_new: bool,
}

/// NVMe drive, as a guest sees it.
pub(super) struct PciDevice {
    subsystem: Subsystem,
    controller: u16,
    flags: Arc<Flags>,
    pub shared: Arc<Shared>,
    pub capabilities: u64,
    submission: Vec<Option<SubmissionQueue>>,
    completion: Vec<Option<CompletionQueue>>,
    commands: InflightCommands,
    messages: Receiver<Message>,
    entries_max: u32,
    transfer_max: u32,
    buffer: Vec<u8>,
    more: bool,
}

impl PciDevice {
    /// Creates a device of the subsystem; `None` if it has too many controllers.
    pub fn new(subsystem: Subsystem, messages: Receiver<Message>) -> Option<PciDevice> {
        let mut guard = subsystem.lock();
        let queues = guard.identity.io_queues_max + 1;
        let controller = guard.add(Kind::Pci, 0)?;
        let capabilities = guard.get(controller)?.cap;
        let flags = Arc::clone(&guard.get(controller)?.flags);
        let entries_max = u32::from(guard.identity.queue_entries_max);
        let transfer_max = guard.identity.transfer_bytes_max();
        drop(guard);
        Some(PciDevice {
            subsystem,
            controller,
            flags,
            shared: Arc::new(Shared::new(queues)),
            capabilities,
            submission: (0..queues).map(|_| None).collect(),
            completion: (0..queues).map(|_| None).collect(),
            commands: InflightCommands::default(),
            messages,
            entries_max,
            transfer_max,
            buffer: Vec::new(),
            more: false,
        })
    }

    fn configure(&mut self, drive: &mut dyn Drive, registers: Registers) {
        let mut subsystem = self.subsystem.lock();
        let identity = subsystem.identity.clone();
        let Some(controller) = subsystem.get_mut(self.controller) else { return };
        let was_ready = controller.is_ready();
        let effect = controller.configure(registers.configuration, &identity);
        let (is_ready, status) = (controller.is_ready(), controller.csts);
        if is_ready && !was_ready {
            subsystem.note_reset(self.controller, drive);
        }
        drop(subsystem);
        if effect == Effect::Reset {
            self.drop_queues();
            self.shared.clear_doorbells();
        }
        if is_ready && !was_ready {
            let entries = registers.admin_entries;
            let [answers, commands] = [entries >> 16, entries].map(|field| (field & 0xfff) + 1);
            self.completion[0] = Some(CompletionQueue::new(registers.admin_cq, answers, Some(0)));
            self.submission[0] = Some(SubmissionQueue::new(registers.admin_sq, commands, 0));
        }
        if effect == Effect::Shutdown {
            self.commands.flush_for_shutdown(drive);
        }
        self.shared.status.store(status, Ordering::Release);
    }

    fn drop_queues(&mut self) {
        self.submission.iter_mut().for_each(|queue| *queue = None);
        self.completion.iter_mut().for_each(|queue| *queue = None);
        // Commands in flight complete without being reported.
        self.commands.clear();
    }

    /// Takes commands from all queues whose doorbells were written.
    fn take_commands(&mut self, drive: &mut dyn Drive) {
        self.more = false;
        self.shared.doorbell_sent.store(false, Ordering::Release);
        for id in 0..self.submission.len() as u16 {
            for _ in 0..TAKE_MAX {
                let Some(sqe) = self.next_command(id) else { break };
                self.execute(drive, id, sqe);
            }
        }
    }

    fn next_command(&mut self, id: u16) -> Option<Sqe> {
        let tail = self.shared.doorbell(2 * id);
        let queue = self.submission.get_mut(usize::from(id))?.as_mut()?;
        if tail >= queue.entries || queue.head == tail || queue.inflight >= queue.entries {
            return None;
        }
        let mut bytes = [0; SQE_BYTES as usize];
        let place = queue.base.wrapping_add(u64::from(queue.head) * SQE_BYTES);
        if lock(&self.shared.guest.memory).read(place, &mut bytes).is_err() {
            self.fail();
            return None;
        }
        queue.head = if queue.head + 1 == queue.entries { 0 } else { queue.head + 1 };
        queue.inflight += 1;
        self.more |= queue.head != tail;
        Sqe::read_from_bytes(&bytes).ok()
    }

    /// Reports that the queues cannot be accessed: controller fatal status.
    fn fail(&mut self) {
        self.drop_queues();
        self.shared.status.fetch_or(2, Ordering::AcqRel);
    }

    fn execute(&mut self, drive: &mut dyn Drive, id: u16, sqe: Sqe) {
        let transfer = match id {
            0 => admin::transfer(&sqe, Kind::Pci, &self.subsystem.lock().identity),
            _ => nvm::transfer(&sqe, drive, &self.flags),
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        match self.fetch(&sqe, transfer, &mut buffer) {
            Err(status) => self.finish(id, &sqe, status, 0),
            Ok(()) if id == 0 => self.execute_admin(drive, sqe, &buffer),
            Ok(()) => {
                let (tag, flags) = (u32::from(id), &self.flags);
                match self.commands.start(drive, tag, sqe, &buffer, flags) {
                    Some(Ok(data)) => self.succeed(id, &sqe, 0, &data),
                    Some(Err(status)) => self.finish(id, &sqe, status, 0),
                    None => {}
                }
            }
        }
        self.buffer = buffer;
    }

    /// Reads the data of a command from the guest's memory.
    fn fetch(&self, sqe: &Sqe, data: Option<Transfer>, into: &mut Vec<u8>) -> Result<(), Status> {
        // Execution refuses an opcode that is not supported, whatever its other fields are.
        let Some(transfer) = data else { return Ok(()) };
        check_flags(Kind::Pci, sqe)?;
        let (Transfer::FromHost(bytes) | Transfer::ToHost(bytes)) = transfer else { return Ok(()) };
        refuse_if(bytes > self.transfer_max, Status::INVALID_FIELD)?;
        if let Transfer::FromHost(_) = transfer {
            let memory = lock(&self.shared.guest.memory);
            let regions = data_regions(&memory, sqe.prp1.get(), sqe.prp2.get(), bytes);
            let regions = regions.map_err(|_| Status::INVALID_PRP_OFFSET.dnr())?;
            into.resize(bytes as usize, 0);
            memory.gather(&regions, into).map_err(|_| Status::DATA_TRANSFER_ERROR)?;
        }
        Ok(())
    }

    /// Writes data of a command to the guest's memory.
    fn deliver(&self, sqe: &Sqe, data: &[u8]) -> Result<(), Status> {
        let memory = lock(&self.shared.guest.memory);
        let regions = data_regions(&memory, sqe.prp1.get(), sqe.prp2.get(), data.len() as u32);
        let regions = regions.map_err(|_| Status::INVALID_PRP_OFFSET.dnr())?;
        memory.scatter(&regions, data).map_err(|_| Status::DATA_TRANSFER_ERROR)
    }

    fn execute_admin(&mut self, drive: &mut dyn Drive, sqe: Sqe, data: &[u8]) {
        let answer = self.subsystem.lock().admin(self.controller, drive, &sqe, data);
        match answer {
            Ok(Outcome::Held) => {}
            Ok(Outcome::Abort { queue, cid }) => {
                let aborted = self.commands.abort(queue.into(), cid);
                if let Some(aborted) = &aborted {
                    self.finish(queue, aborted, Status::ABORT_REQUESTED, 0);
                }
                let result = NOT_ABORTED * u32::from(aborted.is_none());
                self.finish(0, &sqe, Status::SUCCESS, result.into());
            }
            Ok(Outcome::Success(result, data)) => self.succeed(0, &sqe, result, &data),
            Ok(Outcome::Transport) => {
                let status = self.change_queues(&sqe).err().unwrap_or(Status::SUCCESS);
                self.finish(0, &sqe, status, 0);
            }
            Err(status) => self.finish(0, &sqe, status, 0),
        }
    }

    fn change_queues(&mut self, sqe: &Sqe) -> Result<(), Status> {
        let (cdw10, cdw11) = (sqe.cdw10.get(), sqe.cdw11.get());
        let (id, entries) = (cdw10 as u16, (cdw10 >> 16) + 1);
        let place = usize::from(id);
        refuse_if(id == 0 || place >= self.submission.len(), Status::INVALID_QUEUE_IDENTIFIER)?;
        let contiguous = cdw11 & 1 != 0 && sqe.prp1.get().is_multiple_of(4096);
        let fits = (2..=self.entries_max).contains(&entries);
        match AdminOpcode::from_code(sqe.opcode) {
            Some(AdminOpcode::CreateCq) => {
                let vector = (cdw11 >> 16) as u16;
                refuse_if(self.completion[place].is_some(), Status::INVALID_QUEUE_IDENTIFIER)?;
                check_queue(fits, contiguous)?;
                refuse_if(vector >= self.shared.guest.vectors(), Status::INVALID_INTERRUPT_VECTOR)?;
                let vector = (cdw11 & 2 != 0).then_some(vector);
                let queue = CompletionQueue::new(sqe.prp1.get(), entries, vector);
                self.completion[place] = Some(queue);
                self.clear_doorbell(2 * id + 1);
            }
            Some(AdminOpcode::CreateSq) => {
                let cq = (cdw11 >> 16) as u16;
                refuse_if(self.submission[place].is_some(), Status::INVALID_QUEUE_IDENTIFIER)?;
                check_queue(fits, contiguous)?;
                let exists = self.completion.get(usize::from(cq)).is_some_and(Option::is_some);
                refuse_if(cq == 0 || !exists, Status::COMPLETION_QUEUE_INVALID)?;
                self.submission[place] = Some(SubmissionQueue::new(sqe.prp1.get(), entries, cq));
                self.clear_doorbell(2 * id);
            }
            Some(AdminOpcode::DeleteSq) => {
                let gone = self.submission[place].take();
                gone.ok_or(Status::INVALID_QUEUE_IDENTIFIER.dnr())?;
            }
            _ => {
                let is_used = self.submission.iter().flatten().any(|sq| sq.completion_queue == id);
                refuse_if(is_used, Status::INVALID_QUEUE_DELETION)?;
                let gone = self.completion[place].take();
                gone.ok_or(Status::INVALID_QUEUE_IDENTIFIER.dnr())?;
            }
        }
        Ok(())
    }

    fn clear_doorbell(&self, doorbell: u16) {
        self.shared.doorbells[usize::from(doorbell)].store(0, Ordering::Release);
    }

    /// Completes a successful command, with its data for the guest.
    fn succeed(&mut self, id: u16, sqe: &Sqe, result: u32, data: &[u8]) {
        let status = match data.is_empty() {
            true => Status::SUCCESS,
            false => self.deliver(sqe, data).err().unwrap_or(Status::SUCCESS),
        };
        self.finish(id, sqe, status, u64::from(result));
    }

    fn finish(&mut self, id: u16, sqe: &Sqe, status: Status, result: u64) {
        if !status.is_success() {
            let active = self.flags.is_attached(sqe.nsid.get());
            self.subsystem.lock().log_error(Kind::Pci, id, active, sqe, status);
        }
        self.post(id, Cqe::new(sqe.cid.get(), status, result));
    }

    /// Completes a command of a submission queue, if the queue still exists.
    fn post(&mut self, id: u16, mut cqe: Cqe) {
        let Some(Some(sq)) = self.submission.get_mut(usize::from(id)) else { return };
        sq.inflight = sq.inflight.saturating_sub(1);
        cqe.sq_head = (sq.head as u16).into();
        cqe.sq_id = id.into();
        let cq_id = sq.completion_queue;
        if let Some(Some(cq)) = self.completion.get_mut(usize::from(cq_id)) {
            cq.waiting.push_back(cqe);
        }
    }

    /// Writes waiting completions into the queues with space, and raises their interrupts.
    fn write_completions(&mut self) {
        let mut broken = false;
        let memory = lock(&self.shared.guest.memory);
        for (id, queue) in self.completion.iter_mut().enumerate() {
            let Some(queue) = queue else { continue };
            let head = self.shared.doorbell(2 * id as u16 + 1);
            while let Some(mut cqe) = queue.waiting.front().copied() {
                let next = if queue.tail + 1 == queue.entries { 0 } else { queue.tail + 1 };
                if next == head {
                    break;
                }
                let status = cqe.status_and_phase.get() & !1 | u16::from(queue.phase);
                cqe.status_and_phase = status.into();
                let place = queue.base.wrapping_add(u64::from(queue.tail) * CQE_BYTES);
                let (first, last) = cqe.as_bytes().split_at(8);
                // The half with the phase bit comes last.
                let written = memory
                    .write(place, first)
                    .and_then(|()| memory.write(place.wrapping_add(8), last));
                broken |= written.is_err();
                queue.waiting.pop_front();
                queue.phase ^= next == 0;
                queue.tail = next;
                queue.is_new = true;
            }
            if std::mem::take(&mut queue.is_new)
                && let Some(vector) = queue.vector
            {
                self.shared.guest.interrupt(vector);
            }
        }
        drop(memory);
        if broken {
            self.fail();
        }
    }

    fn deliver_read(&mut self, drive: &dyn Drive, finished: &Finished) -> Status {
        let Finished { sqe, lba, sectors, gap, .. } = finished;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let bytes = |sectors: u32| sectors as usize * SECTOR_BYTES as usize;
        buffer.resize(bytes(sectors + gap), 0);
        let status = match drive.read(*lba, &mut buffer[..bytes(*sectors)]) {
            Ok(()) => self.deliver(sqe, &buffer).err().unwrap_or(Status::SUCCESS),
            Err(_) => Status::INTERNAL_ERROR,
        };
        self.buffer = buffer;
        status
    }
}

impl SubmissionQueue {
    fn new(base: u64, entries: u32, completion_queue: u16) -> SubmissionQueue {
        SubmissionQueue { base, entries, head: 0, completion_queue, inflight: 0 }
    }
}

impl CompletionQueue {
    fn new(base: u64, entries: u32, vector: Option<u16>) -> CompletionQueue {
        let waiting = VecDeque::new();
        CompletionQueue { base, entries, tail: 0, phase: true, vector, waiting, is_new: false }
    }
}

fn check_queue(fits: bool, contiguous: bool) -> Result<(), Status> {
    refuse_if(!fits, Status::INVALID_QUEUE_SIZE)?;
    refuse_if(!contiguous, Status::INVALID_FIELD)
}

impl Session for PciDevice {
    fn complete(&mut self, drive: &mut dyn Drive, completion: Completion) {
        match self.commands.complete(drive, completion) {
            Progress::Finished(finished) => {
                let Finished { tag, sqe, result, mut status, .. } = finished;
                if finished.reads() {
                    status = self.deliver_read(drive, &finished);
                }
                self.finish(tag as u16, &sqe, status, result);
            }
            Progress::ShutDown => {
                if let Some(controller) = self.subsystem.lock().get_mut(self.controller) {
                    controller.shut_down();
                    self.shared.status.store(controller.csts, Ordering::Release);
                }
            }
            Progress::None => {}
        }
    }

    fn flush(&mut self, drive: &mut dyn Drive) -> io::Result<Next> {
        if self.more {
            self.take_commands(drive);
        }
        let events = {
            let mut subsystem = self.subsystem.lock();
            let controller = subsystem.get_mut(self.controller);
            controller.map(|c| std::iter::from_fn(|| c.events.next()).collect::<Vec<_>>())
        };
        for cqe in events.unwrap_or_default() {
            self.post(0, cqe);
        }
        self.write_completions();
        Ok(Next::Wait { read: false, write: false })
    }

    fn notified(&mut self, drive: &mut dyn Drive) -> io::Result<()> {
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Configure(registers) => self.configure(drive, registers),
                Message::Doorbell => self.take_commands(drive),
                Message::Reset => self.configure(drive, Registers::default()),
            }
        }
        Ok(())
    }

    fn tick(&mut self, drive: &mut dyn Drive) -> io::Result<()> {
        self.subsystem.lock().poll_events(self.controller, drive);
        // A completion queue may have been full when its doorbell was last written.
        self.more = true;
        Ok(())
    }

    fn power_cut(&mut self) -> bool {
        self.fail();
        true
    }
}

impl Drop for PciDevice {
    fn drop(&mut self) {
        self.subsystem.lock().remove(self.controller);
    }
}
