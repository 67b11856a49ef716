//! The device in the event loop: commands from the list in the machine's memory, and their answers.
//!
//! Memory: 32 commands at most, of each at most a table of 1 MiB; one buffer for the data of one
//! command, 32 MiB at most.

use std::any::Any;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drivebay_units::SECTOR_BYTES;
use drivebay_wire::ata::{
    Answer, Command, FRAME_BYTES, Fault, Opcode, set_device_bits, trim_ranges,
};

use super::ata::{Ata, Deed};
use super::hba::{Hba, IS_PIO, IS_REGISTERS, SLOTS};
use super::list::{self, Regions};
use crate::engine::{Done, Engine, Op, Request, Status};
use crate::pci::Memory;
use crate::session::{Next, Session, SessionId};

/// Where frames lie in the region that receives them.
const FRAME_PIO: u64 = 0x20;
const FRAME_REGISTERS: u64 = 0x40;
const FRAME_BITS: u64 = 0x58;
/// Control register: reset by software.
const CONTROL_RESET: u8 = 1 << 2;

/// What the machine's thread and the event loop have in common. Locks are taken in this order.
pub(super) struct Shared {
    pub hba: Mutex<Hba>,
    pub memory: Arc<Mutex<Memory>>,
    /// The event file descriptor of the one vector.
    pub vector: Mutex<Option<File>>,
}

impl Shared {
    /// Raises the interrupt.
    pub fn interrupt(&self) {
        if let Some(file) = lock(&self.vector).as_mut() {
            // A full counter means that it has not been heard yet.
            let _ = file.write(&1_u64.to_ne_bytes());
        }
    }
}

/// Takes a lock, whoever panicked with it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The letter of the machine's thread: there may be work.
pub(super) struct Work;

struct Flight {
    header: u64,
    command: Command,
    regions: Regions,
    deed: Deed,
    is_queued: bool,
    /// Requests of the engine that are not done.
    left: u32,
    fault: Option<Fault>,
}

/// The drive, as a virtual machine sees it.
pub(super) struct AhciDevice {
    shared: Arc<Shared>,
    ata: Ata,
    flights: [Option<Flight>; SLOTS],
    /// Of the flights.
    epoch: u32,
    me: Option<SessionId>,
    /// Tags of queued commands whose end is still to be told.
    ended: u32,
    /// Reset by software, until the bit is cleared again.
    is_held: bool,
    buffer: Vec<u8>,
}

/// A fault of the machine, not of a command: its memory cannot be reached.
struct HostBus;

impl AhciDevice {
    pub fn new(ata: Ata) -> AhciDevice {
        let (memory, vector) = (Arc::default(), Mutex::default());
        AhciDevice {
            shared: Arc::new(Shared { hba: Mutex::new(Hba::new()), memory, vector }),
            ata,
            flights: [const { None }; SLOTS],
            epoch: 0,
            me: None,
            ended: 0,
            is_held: false,
            buffer: Vec::new(),
        }
    }

    pub fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Forgets the commands that a reset or an error has made void.
    fn look_at_epoch(&mut self) {
        let epoch = lock(&self.shared.hba).epoch();
        if epoch != self.epoch {
            self.epoch = epoch;
            self.flights = [const { None }; SLOTS];
            self.ended = 0;
        }
    }

    /// Does what the registers ask for.
    fn work(&mut self, engine: &mut Engine, me: SessionId) {
        self.look_at_epoch();
        self.greet();
        loop {
            let slot = lock(&self.shared.hba).next_slot();
            let Some(slot) = slot else { return };
            if let Err(HostBus) = self.start(engine, me, slot) {
                self.fail();
                return;
            }
        }
    }

    fn fail(&mut self) {
        let interrupt = lock(&self.shared.hba).host_bus_failed();
        if interrupt {
            self.shared.interrupt();
        }
        self.look_at_epoch();
    }

    fn greet(&self) {
        let mut hba = lock(&self.shared.hba);
        let Some(answer) = hba.greeting() else { return };
        let posted = self.post(&hba, FRAME_REGISTERS, &answer.frame());
        let interrupt =
            if posted.is_ok() { hba.raise(IS_REGISTERS) } else { hba.host_bus_failed() };
        if interrupt {
            self.shared.interrupt();
        }
    }

    /// Puts a frame where the host receives it.
    fn post(&self, hba: &Hba, place: u64, frame: &[u8]) -> Result<(), HostBus> {
        let Some(frames) = hba.frames() else { return Ok(()) };
        let memory = lock(&self.shared.memory);
        memory.write(frames.wrapping_add(place), frame).map_err(|_| HostBus)
    }

    fn start(&mut self, engine: &mut Engine, me: SessionId, slot: usize) -> Result<(), HostBus> {
        let list = lock(&self.shared.hba).list();
        let entry = list::read(&lock(&self.shared.memory), list, slot).map_err(|_| HostBus)?;
        let list::Entry { header, command, regions } = entry;
        let (command, is_known) = (command.unwrap_or_default(), command.is_some());
        if is_known && !command.is_command {
            lock(&self.shared.hba).taken_note(slot);
            self.control(&command);
            return Ok(());
        }
        let queued = [Opcode::ReadQueued as u8, Opcode::WriteQueued as u8];
        let is_queued = is_known && queued.contains(&command.code);
        if is_queued {
            lock(&self.shared.hba).queued(slot);
        } else {
            lock(&self.shared.hba).occupy(slot);
        }
        // The tag is the slot's number; one that is under way cannot come again.
        let is_sound = is_known
            && self.flights[slot].is_none()
            && (!is_queued || usize::from(command.tag()) == slot);
        let planned = if is_sound { self.ata.plan(engine, &command) } else { Err(Fault::Aborted) };
        let (deed, fault) = match planned {
            Ok(deed) => (deed, None),
            Err(fault) => (Deed::Answer(Answer::to(&command, Some(fault))), Some(fault)),
        };
        let mut flight = Flight { header, command, regions, deed, is_queued, left: 0, fault };
        if fault.is_none() {
            self.submit(engine, me, slot, &mut flight)?;
        }
        if flight.left > 0 {
            self.flights[slot] = Some(flight);
            return Ok(());
        }
        self.conclude(engine, slot, flight)
    }

    fn control(&mut self, command: &Command) {
        let is_held = command.control & CONTROL_RESET != 0;
        if self.is_held && !is_held {
            lock(&self.shared.hba).regreet();
            self.greet();
        }
        self.is_held = is_held;
    }

    /// Hands a command to the engine, with its data.
    fn submit(
        &mut self,
        engine: &mut Engine,
        me: SessionId,
        slot: usize,
        flight: &mut Flight,
    ) -> Result<(), HostBus> {
        let token = slot as u64 | u64::from(self.epoch) << 32;
        let request = |op, lba, sectors| Request { op, lba, sectors, session: me, token };
        match flight.deed {
            Deed::Read { lba, sectors, .. } => {
                engine.submit(request(Op::Read, lba, sectors), &[]);
                flight.left = 1;
            }
            Deed::Flush => {
                engine.submit(request(Op::Flush, 0, 0), &[]);
                flight.left = 1;
            }
            Deed::Write { lba, sectors, fua } => {
                if self.fetch(flight, sectors as usize * SECTOR_BYTES as usize)? {
                    engine.submit(request(Op::Write { fua }, lba, sectors), &self.buffer);
                    flight.left = 1;
                }
            }
            Deed::Trim { bytes } => {
                if !self.fetch(flight, bytes)? {
                    return Ok(());
                }
                let beyond = |(lba, sectors): (u64, u32)| {
                    lba + u64::from(sectors) > engine.store().sectors()
                };
                if trim_ranges(&self.buffer).any(beyond) {
                    flight.fault = Some(Fault::NotFound);
                    return Ok(());
                }
                for (lba, sectors) in trim_ranges(&self.buffer) {
                    engine.submit(request(Op::Trim { fua: false }, lba, sectors), &[]);
                    flight.left += 1;
                }
            }
            Deed::Give { .. } | Deed::Answer(_) => {}
        }
        Ok(())
    }

    /// Fetches the data of a command; whether it has so many bytes.
    fn fetch(&mut self, flight: &mut Flight, bytes: usize) -> Result<bool, HostBus> {
        self.buffer.clear();
        self.buffer.resize(bytes, 0);
        let memory = lock(&self.shared.memory);
        match list::fetch(&memory, &flight.regions, &mut self.buffer) {
            Ok(()) => Ok(true),
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => {
                flight.fault = Some(Fault::Interface);
                Ok(false)
            }
            Err(_) => Err(HostBus),
        }
    }

    /// Moves data to the host, and answers.
    fn conclude(&mut self, engine: &Engine, slot: usize, flight: Flight) -> Result<(), HostBus> {
        let Flight { header, command, regions, deed, is_queued, mut fault, .. } = flight;
        let (mut moved, mut is_pio) = (0, false);
        if fault.is_none() {
            match &deed {
                Deed::Read { lba, sectors, is_pio: pio } => {
                    is_pio = *pio;
                    moved = *sectors as usize * SECTOR_BYTES as usize;
                    self.buffer.clear();
                    self.buffer.resize(moved, 0);
                    if engine.store().read(*lba, &mut self.buffer).is_err() {
                        fault = Some(Fault::Uncorrectable);
                    }
                }
                Deed::Give { data, is_pio: pio } => {
                    (moved, is_pio) = (data.len(), *pio);
                    self.buffer.clear();
                    self.buffer.extend_from_slice(data);
                }
                Deed::Write { .. } | Deed::Trim { .. } => moved = 0,
                Deed::Flush | Deed::Answer(_) => {}
            }
        }
        if fault.is_none() && moved > 0 {
            match list::deliver(&lock(&self.shared.memory), &regions, &self.buffer) {
                Ok(()) => {}
                Err(why) if why.kind() == io::ErrorKind::WriteZero => {
                    fault = Some(Fault::Interface)
                }
                Err(_) => return Err(HostBus),
            }
        }
        let answer = match (&deed, fault) {
            (Deed::Answer(answer), None) => *answer,
            _ => Answer::to(&command, fault),
        };
        if is_queued {
            return self.end_queued(slot, answer, fault);
        }
        let bytes = match deed {
            Deed::Write { sectors, .. } => sectors as usize * SECTOR_BYTES as usize,
            Deed::Trim { bytes } => bytes,
            _ => moved,
        };
        let memory = lock(&self.shared.memory);
        list::tell_moved(&memory, header, if fault.is_some() { 0 } else { bytes })
            .map_err(|_| HostBus)?;
        drop(memory);
        let mut hba = lock(&self.shared.hba);
        let (place, frame, bits): (u64, [u8; FRAME_BYTES], u32) = if is_pio && fault.is_none() {
            // The last block's; nobody looks at more.
            (FRAME_PIO, answer.pio_setup(512), IS_PIO)
        } else {
            (FRAME_REGISTERS, answer.frame(), IS_REGISTERS)
        };
        self.post(&hba, place, &frame)?;
        if hba.epoch() == self.epoch && hba.answer(slot, &answer, bits) {
            self.shared.interrupt();
        }
        Ok(())
    }

    /// A queued command has ended; that it has is told with others, that it has failed at once.
    fn end_queued(
        &mut self,
        slot: usize,
        answer: Answer,
        fault: Option<Fault>,
    ) -> Result<(), HostBus> {
        let Some(fault) = fault else {
            self.ended |= 1 << slot;
            return Ok(());
        };
        self.tell_ended()?;
        self.ata.failed = Some((slot as u8, answer));
        let mut hba = lock(&self.shared.hba);
        self.post(&hba, FRAME_BITS, &set_device_bits(0, Some(fault)))?;
        if hba.epoch() == self.epoch && hba.queued_failed(&answer) {
            self.shared.interrupt();
        }
        drop(hba);
        self.look_at_epoch();
        Ok(())
    }

    fn tell_ended(&mut self) -> Result<(), HostBus> {
        let tags = std::mem::take(&mut self.ended);
        if tags == 0 {
            return Ok(());
        }
        let mut hba = lock(&self.shared.hba);
        self.post(&hba, FRAME_BITS, &set_device_bits(tags, None))?;
        if hba.epoch() == self.epoch && hba.ended(tags) {
            self.shared.interrupt();
        }
        Ok(())
    }
}

fn fault_of(status: Status) -> Option<Fault> {
    match status {
        Status::Ok => None,
        Status::OutOfRange => Some(Fault::NotFound),
        Status::MediaError => Some(Fault::Uncorrectable),
        Status::ReadOnly | Status::NoSpace | Status::Internal => Some(Fault::Aborted),
    }
}

impl Session for AhciDevice {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn readable(&mut self, _engine: &mut Engine, _me: SessionId) -> io::Result<()> {
        Ok(())
    }

    fn complete(&mut self, engine: &mut Engine, done: Done) {
        self.look_at_epoch();
        let (slot, epoch) = (done.request.token as u32 as usize, (done.request.token >> 32) as u32);
        if epoch != self.epoch {
            return;
        }
        let Some(flight) = &mut self.flights[slot] else { return };
        flight.fault = flight.fault.or(fault_of(done.status));
        flight.left -= 1;
        if flight.left > 0 {
            return;
        }
        let flight = self.flights[slot].take().expect("looked at above");
        if let Err(HostBus) = self.conclude(engine, slot, flight) {
            self.fail();
        }
    }

    fn flush(&mut self, engine: &mut Engine) -> io::Result<Next> {
        if let Err(HostBus) = self.tell_ended() {
            self.fail();
        }
        // A command that had the drive to itself may have ended.
        if let Some(me) = self.me {
            self.work(engine, me);
        }
        Ok(Next::Wait { read: false, write: false })
    }

    fn mail(
        &mut self,
        engine: &mut Engine,
        me: SessionId,
        letter: Box<dyn Any + Send>,
    ) -> io::Result<()> {
        self.me = Some(me);
        if letter.is::<Work>() {
            self.work(engine, me);
        }
        Ok(())
    }

    fn power_cut(&mut self) -> bool {
        let interrupt = lock(&self.shared.hba).link_lost();
        self.look_at_epoch();
        if interrupt {
            self.shared.interrupt();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use drivebay_drive::Spec;
    use drivebay_units::Rng;

    use super::super::Machine;
    use super::*;

    /// A machine that does anything: half sound commands in memory that is partly there, registers
    /// written at any moment. The device stands, and serves the machine after it.
    #[test]
    fn no_machine_breaks_it() {
        let spec = Spec::from_toml(include_str!("../../../../drives/sm951-ahci-512.toml"));
        let mut machine = Machine::new(spec.unwrap_or_else(|why| panic!("{why}")));
        let mut rng = Rng::new(1).fork("machine");
        let (mut answered, codes) =
            (0, [0x25, 0x35, 0x60, 0x61, 0xec, 0xea, 0x06, 0xb0, 0x2f, 0xef]);
        let (data, room) = Machine::DATA;
        for round in 0..2000 {
            if round % 3 == 0 {
                machine.start();
            }
            let slot = rng.below(32);
            let command = Command {
                is_command: rng.below(20) > 0,
                code: codes[rng.below(codes.len() as u64) as usize],
                features: rng.below(10) as u16,
                lba: if rng.below(8) == 0 { rng.next_u64() >> 16 } else { rng.below(1000) },
                device: 0x40,
                count: if rng.below(2) == 0 { (slot << 3) as u16 } else { rng.below(9) as u16 },
                control: rng.below(8) as u8,
            };
            let regions: Vec<(u64, u32)> = (0..rng.below(4))
                .map(|_| {
                    let far = u64::from(rng.below(10) == 0) * rng.next_u64();
                    ((data + rng.below(room)).wrapping_add(far), rng.below(1 << 14) as u32)
                })
                .collect();
            let wild = u64::from(rng.below(30) == 0) * rng.next_u64();
            machine.prepare(slot, &command, &regions, wild as u32);
            let before = machine.read(0x110);
            machine.issue(slot, true);
            if rng.below(15) == 0 {
                machine.write(4 * rng.below(0x60), rng.next_u64() as u32);
            }
            for _ in 0..40 {
                machine.turn();
            }
            answered += u64::from(before == 0 && machine.read(0x110) & 3 != 0);
            assert_eq!(machine.outstanding(), 0, "nothing is left over");
            machine.write(0x110, !0);
        }
        assert!(answered > 300, "{answered} were answered");
        assert!(machine.device.power_cut(), "it stays");
        machine.reset();
        assert!(machine.device.flights.iter().all(Option::is_none));
    }
}
