//! The device in the event loop: commands from the queues in the machine's memory, and completions.
//!
//! Memory: a submission queue has at most as many commands under way as it has entries; completions
//! for a full completion queue wait here, as many again at most.

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use drivebay_units::Nanos;
use drivebay_wire::nvme::{AdminOpcode, Cqe, Sqe, Status};
use zerocopy::{FromBytes, IntoBytes};

use super::prp::prp_pieces;
use super::shared::{Letter, Registers, Shared, lock};
use crate::engine::{Done, Engine, Op, Request};
use crate::nvme::admin::{self, Outcome};
use crate::nvme::controller::{Effect, Flags, Kind};
use crate::nvme::io::{self as nvm, Ended, Flights, Need};
use crate::nvme::subsystem::Shared as Subsystem;
use crate::session::{Next, Session, SessionId};

/// Commands taken from one queue before the others have their turn.
const TAKE_MAX: u32 = 64;
/// Engine's token of the flush before a shutdown; no flight has it.
const SHUTDOWN_TOKEN: u64 = u64::MAX;
const SQE_BYTES: u64 = 64;
const CQE_BYTES: u64 = 16;

struct SubmissionQueue {
    base: u64,
    entries: u32,
    head: u32,
    completion_queue: u16,
    under_way: u32,
}

struct CompletionQueue {
    base: u64,
    entries: u32,
    tail: u32,
    phase: bool,
    vector: Option<u16>,
    /// For when there is room.
    waiting: VecDeque<Cqe>,
    is_new: bool,
}

/// The drive, as a virtual machine sees it.
pub struct PciDevice {
    subsystem: Subsystem,
    controller: u16,
    flags: Arc<Flags>,
    shared: Arc<Shared>,
    capabilities: u64,
    submission: Vec<Option<SubmissionQueue>>,
    completion: Vec<Option<CompletionQueue>>,
    flights: Flights,
    me: Option<SessionId>,
    entries_max: u32,
    transfer_max: u32,
    buffer: Vec<u8>,
    more: bool,
}

impl PciDevice {
    /// A device of the subsystem; none if it has too many controllers.
    pub(super) fn new(subsystem: Subsystem) -> Option<PciDevice> {
        let mut guard = subsystem.lock();
        let queues = guard.identity.io_queues_max + 1;
        let controller = guard.add(Kind::Pci)?;
        let capabilities = guard.get(controller)?.capabilities();
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
            flights: Flights::default(),
            me: None,
            entries_max,
            transfer_max,
            buffer: Vec::new(),
            more: false,
        })
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    pub(super) fn capabilities(&self) -> u64 {
        self.capabilities
    }

    fn configure(&mut self, engine: &mut Engine, me: SessionId, registers: Registers) {
        let mut subsystem = self.subsystem.lock();
        let identity = subsystem.identity.clone();
        let Some(controller) = subsystem.get_mut(self.controller) else { return };
        let was_ready = controller.is_ready();
        let effect = controller.configure(registers.configuration, &identity);
        let (is_ready, status) = (controller.is_ready(), controller.status());
        drop(subsystem);
        if effect == Effect::Reset {
            self.drop_queues();
            self.shared.quiet_doorbells();
        }
        if is_ready && !was_ready {
            let entries = registers.admin_entries;
            self.completion[0] = Some(CompletionQueue::new(
                registers.admin_cq,
                (entries >> 16 & 0xfff) + 1,
                Some(0),
            ));
            let entries = (entries & 0xfff) + 1;
            self.submission[0] = Some(SubmissionQueue::new(registers.admin_sq, entries, 0));
        }
        if effect == Effect::Shutdown {
            let (op, token) = (Op::Flush, SHUTDOWN_TOKEN);
            engine.submit(Request { op, lba: 0, sectors: 0, session: me, token }, &[]);
        }
        self.shared.status.store(status, Ordering::Release);
    }

    fn drop_queues(&mut self) {
        self.submission.iter_mut().for_each(|queue| *queue = None);
        self.completion.iter_mut().for_each(|queue| *queue = None);
        // What is under way ends without anybody to tell.
        self.flights.clear();
    }

    /// Takes commands from all queues whose doorbells were rung.
    fn take_commands(&mut self, engine: &mut Engine, me: SessionId) {
        self.more = false;
        self.shared.rung.store(false, Ordering::Release);
        for id in 0..self.submission.len() as u16 {
            for _ in 0..TAKE_MAX {
                let Some(sqe) = self.next_command(id) else { break };
                self.execute(engine, me, id, sqe);
            }
        }
    }

    fn next_command(&mut self, id: u16) -> Option<Sqe> {
        let tail = self.shared.doorbell(2 * id);
        let queue = self.submission.get_mut(usize::from(id))?.as_mut()?;
        if tail >= queue.entries || queue.head == tail || queue.under_way >= queue.entries {
            return None;
        }
        let mut bytes = [0; SQE_BYTES as usize];
        let place = queue.base.wrapping_add(u64::from(queue.head) * SQE_BYTES);
        if lock(&self.shared.memory).read(place, &mut bytes).is_err() {
            self.fail();
            return None;
        }
        queue.head = if queue.head + 1 == queue.entries { 0 } else { queue.head + 1 };
        queue.under_way += 1;
        self.more |= queue.head != tail;
        Sqe::read_from_bytes(&bytes).ok()
    }

    /// The queues cannot be reached: controller fatal status.
    fn fail(&mut self) {
        self.drop_queues();
        self.shared.status.fetch_or(2, Ordering::AcqRel);
    }

    fn execute(&mut self, engine: &mut Engine, me: SessionId, id: u16, sqe: Sqe) {
        let need = if id == 0 { admin::need(&sqe) } else { nvm::need(&sqe) };
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let fetched = self.fetch(&sqe, need, &mut buffer);
        match fetched {
            Err(status) => self.finish(id, &sqe, status, 0),
            Ok(()) if id == 0 => self.execute_admin(engine, sqe),
            Ok(()) => {
                let write_cache = self.flags.write_cache();
                let tag = u32::from(id);
                if let Some(ended) = self.flights.start(engine, me, tag, sqe, &buffer, write_cache)
                {
                    self.finish(id, &sqe, ended.status, 0);
                }
            }
        }
        self.buffer = buffer;
    }

    /// Fetches the data of a command from the machine's memory.
    fn fetch(&self, sqe: &Sqe, need: Need, into: &mut Vec<u8>) -> Result<(), Status> {
        let (Need::FromHost(bytes) | Need::ToHost(bytes)) = need else { return Ok(()) };
        if bytes > self.transfer_max || sqe.flags >> 6 != 0 {
            return Err(Status::INVALID_FIELD.dnr());
        }
        if let Need::FromHost(_) = need {
            let memory = lock(&self.shared.memory);
            let pieces = prp_pieces(&memory, sqe.prp1.get(), sqe.prp2.get(), bytes);
            let pieces = pieces.map_err(|_| Status::INVALID_PRP_OFFSET.dnr())?;
            into.resize(bytes as usize, 0);
            let mut at = 0;
            for (address, length) in pieces {
                let part = &mut into[at..at + length];
                memory.read(address, part).map_err(|_| Status::DATA_TRANSFER_ERROR)?;
                at += length;
            }
        }
        Ok(())
    }

    /// Puts data for a command into the machine's memory.
    fn deliver(&self, sqe: &Sqe, data: &[u8]) -> Result<(), Status> {
        let memory = lock(&self.shared.memory);
        let pieces = prp_pieces(&memory, sqe.prp1.get(), sqe.prp2.get(), data.len() as u32);
        let mut at = 0;
        for (address, length) in pieces.map_err(|_| Status::INVALID_PRP_OFFSET.dnr())? {
            let part = &data[at..at + length];
            memory.write(address, part).map_err(|_| Status::DATA_TRANSFER_ERROR)?;
            at += length;
        }
        Ok(())
    }

    fn execute_admin(&mut self, engine: &mut Engine, sqe: Sqe) {
        let answer = self.subsystem.lock().admin(self.controller, engine, &sqe);
        match answer {
            Ok(Outcome::Held) => {}
            Ok(Outcome::Done(result, data)) => {
                let status = match data.is_empty() {
                    true => Status::SUCCESS,
                    false => self.deliver(&sqe, &data).err().unwrap_or(Status::SUCCESS),
                };
                self.finish(0, &sqe, status, u64::from(result));
            }
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
        if id == 0 || place >= self.submission.len() {
            return Err(Status::INVALID_QUEUE_IDENTIFIER.dnr());
        }
        let contiguous = cdw11 & 1 != 0 && sqe.prp1.get().is_multiple_of(4096);
        let fits = (2..=self.entries_max).contains(&entries);
        match AdminOpcode::of(sqe.opcode) {
            Some(AdminOpcode::CreateCq) => {
                let vector = (cdw11 >> 16) as u16;
                if self.completion[place].is_some() {
                    return Err(Status::INVALID_QUEUE_IDENTIFIER.dnr());
                }
                check_queue(fits, contiguous)?;
                if vector >= self.shared.vectors() {
                    return Err(Status::INVALID_INTERRUPT_VECTOR.dnr());
                }
                let vector = (cdw11 & 2 != 0).then_some(vector);
                let queue = CompletionQueue::new(sqe.prp1.get(), entries, vector);
                self.completion[place] = Some(queue);
                self.quiet(2 * id + 1);
            }
            Some(AdminOpcode::CreateSq) => {
                let cq = (cdw11 >> 16) as u16;
                if self.submission[place].is_some() {
                    return Err(Status::INVALID_QUEUE_IDENTIFIER.dnr());
                }
                check_queue(fits, contiguous)?;
                if cq == 0 || !self.completion.get(usize::from(cq)).is_some_and(Option::is_some) {
                    return Err(Status::COMPLETION_QUEUE_INVALID.dnr());
                }
                self.submission[place] = Some(SubmissionQueue::new(sqe.prp1.get(), entries, cq));
                self.quiet(2 * id);
            }
            Some(AdminOpcode::DeleteSq) => {
                let gone = self.submission[place].take();
                gone.ok_or(Status::INVALID_QUEUE_IDENTIFIER.dnr())?;
            }
            _ => {
                let used = |sq: &SubmissionQueue| sq.completion_queue == id;
                if self.submission.iter().flatten().any(used) {
                    return Err(Status::INVALID_QUEUE_DELETION.dnr());
                }
                let gone = self.completion[place].take();
                gone.ok_or(Status::INVALID_QUEUE_IDENTIFIER.dnr())?;
            }
        }
        Ok(())
    }

    fn quiet(&self, doorbell: u16) {
        self.shared.doorbells[usize::from(doorbell)].store(0, Ordering::Release);
    }

    fn finish(&mut self, id: u16, sqe: &Sqe, status: Status, result: u64) {
        if !status.is_success() {
            self.subsystem.lock().log_error(id, sqe, status);
        }
        self.post(id, Cqe::new(sqe.cid.get(), status, result));
    }

    /// Completes a command of a submission queue, if that is still there.
    fn post(&mut self, id: u16, mut cqe: Cqe) {
        let Some(Some(sq)) = self.submission.get_mut(usize::from(id)) else { return };
        sq.under_way = sq.under_way.saturating_sub(1);
        cqe.sq_head = (sq.head as u16).into();
        cqe.sq_id = id.into();
        let cq_id = sq.completion_queue;
        if let Some(Some(cq)) = self.completion.get_mut(usize::from(cq_id)) {
            cq.waiting.push_back(cqe);
        }
    }

    /// Writes waiting completions into the queues that have room, and raises their interrupts.
    fn write_completions(&mut self) {
        let mut broken = false;
        let memory = lock(&self.shared.memory);
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
                // The half with the phase comes last.
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
                self.shared.interrupt(vector);
            }
        }
        drop(memory);
        if broken {
            self.fail();
        }
    }

    fn deliver_read(&mut self, engine: &Engine, sqe: &Sqe) -> Status {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.resize((sqe.blocks() * crate::nvme::BLOCK_BYTES) as usize, 0);
        let status = match engine.store().read(sqe.lba(), &mut buffer) {
            Ok(()) => self.deliver(sqe, &buffer).err().unwrap_or(Status::SUCCESS),
            Err(_) => Status::INTERNAL_ERROR,
        };
        self.buffer = buffer;
        status
    }
}

impl SubmissionQueue {
    fn new(base: u64, entries: u32, completion_queue: u16) -> SubmissionQueue {
        SubmissionQueue { base, entries, head: 0, completion_queue, under_way: 0 }
    }
}

impl CompletionQueue {
    fn new(base: u64, entries: u32, vector: Option<u16>) -> CompletionQueue {
        let waiting = VecDeque::new();
        CompletionQueue { base, entries, tail: 0, phase: true, vector, waiting, is_new: false }
    }
}

fn check_queue(fits: bool, contiguous: bool) -> Result<(), Status> {
    match (fits, contiguous) {
        (false, _) => Err(Status::INVALID_QUEUE_SIZE.dnr()),
        (_, false) => Err(Status::INVALID_FIELD.dnr()),
        _ => Ok(()),
    }
}

impl Session for PciDevice {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn readable(&mut self, _engine: &mut Engine, _me: SessionId) -> io::Result<()> {
        Ok(())
    }

    fn complete(&mut self, engine: &mut Engine, done: Done) {
        if done.request.token == SHUTDOWN_TOKEN {
            if let Some(controller) = self.subsystem.lock().get_mut(self.controller) {
                controller.shut_down();
                self.shared.status.store(controller.status(), Ordering::Release);
            }
            return;
        }
        let Some(Ended { tag, sqe, mut status, reads }) = self.flights.complete(engine, done)
        else {
            return;
        };
        if reads {
            status = self.deliver_read(engine, &sqe);
        }
        self.finish(tag as u16, &sqe, status, 0);
    }

    fn flush(&mut self, engine: &mut Engine) -> io::Result<Next> {
        if let (true, Some(me)) = (self.more, self.me) {
            self.take_commands(engine, me);
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

    fn mail(
        &mut self,
        engine: &mut Engine,
        me: SessionId,
        letter: Box<dyn Any + Send>,
    ) -> io::Result<()> {
        self.me = Some(me);
        let Ok(letter) = letter.downcast::<Letter>() else { return Ok(()) };
        match *letter {
            Letter::Configure(registers) => self.configure(engine, me, registers),
            Letter::Doorbell => self.take_commands(engine, me),
            Letter::Reset => self.configure(engine, me, Registers::default()),
        }
        Ok(())
    }

    fn tick(&mut self, engine: &mut Engine, _now: Nanos) -> io::Result<()> {
        self.subsystem.lock().look(self.controller, engine);
        // In case a completion queue was full when its doorbell was rung last.
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
