//! Device in the event loop: takes commands from the list in the guest's memory, and completes
//! them.
//!
//! Memory: at most 32 commands, each with a table of at most 1 MiB; one buffer for the data of one
//! command, at most 32 MiB.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use drivebay_units::SECTOR_BYTES;
use drivebay_wire::ata::{
    Answer, Command, FRAME_BYTES, Fault, Opcode, set_device_bits, trim_ranges,
};

use super::ata::{Action, Ata, Identity};
use super::hba::{Hba, IS_PIO, IS_REGISTERS, REGISTER_BYTES, SLOTS};
use super::list;
use crate::interface::drive::Drive;
use crate::interface::session::{Next, Session};
use crate::lock::lock;
use crate::pci::guest::Guest;
use crate::pci::memory::GuestMemory;
use crate::request::{Completion, Op, Request, Status};

/// Offsets of frames in the region that receives them.
const FRAME_PIO: u64 = 0x20;
const FRAME_REGISTERS: u64 = 0x40;
const FRAME_BITS: u64 = 0x58;
/// Control register: software reset.
const CONTROL_RESET: u8 = 1 << 2;

/// State that the vfio-user thread and the event loop share. Locks are taken in the order of the
/// fields.
pub struct Shared {
    hba: Mutex<Hba>,
    /// Memory and interrupt vector of the guest.
    pub(super) guest: Arc<Guest>,
}

impl Shared {
    /// Returns the values of all registers.
    pub fn registers(&self) -> [u8; REGISTER_BYTES] {
        lock(&self.hba).image()
    }

    /// Handles a register write of the guest; returns true if the device must be notified.
    pub fn write_register(&self, offset: u64, value: u32) -> bool {
        let effect = lock(&self.hba).write(offset, value);
        self.interrupt_if(effect.interrupt);
        effect.work
    }

    /// Resets the device for the guest; the device must be notified.
    pub fn reset(&self) {
        lock(&self.hba).reset();
    }

    /// The guest's memory.
    pub fn memory(&self) -> MutexGuard<'_, GuestMemory> {
        lock(&self.guest.memory)
    }

    fn interrupt_if(&self, is_wanted: bool) {
        if is_wanted {
            self.guest.interrupt(0);
        }
    }
}

struct InflightCommand {
    header: u64,
    command: Command,
    regions: Vec<(u64, usize)>,
    action: Action,
    is_queued: bool,
    /// Requests that have not completed.
    left: u32,
    fault: Option<Fault>,
}

/// AHCI drive, as a guest sees it.
pub struct AhciDevice {
    shared: Arc<Shared>,
    ata: Ata,
    commands: [Option<InflightCommand>; SLOTS],
    /// Epoch of the commands.
    epoch: u32,
    /// Tags of completed queued commands that are not reported yet.
    completed: u32,
    /// True during a software reset.
    is_in_reset: bool,
    buffer: Vec<u8>,
}

/// Error: the guest's memory cannot be accessed. It is an error of the port, not of a command.
struct HostBus;

impl AhciDevice {
    /// Creates a drive in the state after power-on.
    pub fn new(identity: Identity, sectors: u64) -> AhciDevice {
        let guest = Arc::new(Guest::new(1));
        AhciDevice {
            shared: Arc::new(Shared { hba: Mutex::new(Hba::new()), guest }),
            ata: Ata::new(identity, sectors),
            commands: [const { None }; SLOTS],
            epoch: 0,
            completed: 0,
            is_in_reset: false,
            buffer: Vec::new(),
        }
    }

    /// State for the vfio-user thread.
    pub fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Drops the commands that a reset or an error has aborted.
    fn check_epoch(&mut self) {
        let epoch = lock(&self.shared.hba).epoch();
        if epoch != self.epoch {
            self.epoch = epoch;
            self.commands = [const { None }; SLOTS];
            self.completed = 0;
        }
    }

    /// Takes the issued commands.
    fn take_commands(&mut self, drive: &mut dyn Drive) {
        self.check_epoch();
        self.send_signature();
        loop {
            let slot = lock(&self.shared.hba).next_slot();
            let Some(slot) = slot else { return };
            if let Err(HostBus) = self.start(drive, slot) {
                self.fail();
                return;
            }
        }
    }

    fn fail(&mut self) {
        let interrupt = lock(&self.shared.hba).fail_host_bus();
        self.shared.interrupt_if(interrupt);
        self.check_epoch();
    }

    fn send_signature(&self) {
        let mut hba = lock(&self.shared.hba);
        let Some(answer) = hba.take_signature() else { return };
        let posted = self.post(&hba, FRAME_REGISTERS, &answer.frame());
        let interrupt = if posted.is_ok() { hba.raise(IS_REGISTERS) } else { hba.fail_host_bus() };
        self.shared.interrupt_if(interrupt);
    }

    /// Writes a frame to the host's receive area.
    fn post(&self, hba: &Hba, place: u64, frame: &[u8]) -> Result<(), HostBus> {
        let Some(frames) = hba.frames() else { return Ok(()) };
        let memory = self.shared.memory();
        memory.write(frames.wrapping_add(place), frame).map_err(|_| HostBus)
    }

    fn start(&mut self, drive: &mut dyn Drive, slot: usize) -> Result<(), HostBus> {
        let list = lock(&self.shared.hba).list();
        let entry = list::read(&self.shared.memory(), list, slot).map_err(|_| HostBus)?;
        let list::Entry { header, command, regions } = entry;
        let (command, is_known) = (command.unwrap_or_default(), command.is_some());
        if is_known && !command.is_command {
            lock(&self.shared.hba).release(slot);
            self.control(&command);
            return Ok(());
        }
        let queued = [Opcode::ReadQueued as u8, Opcode::WriteQueued as u8];
        let is_queued = is_known && queued.contains(&command.code);
        if is_queued {
            lock(&self.shared.hba).release(slot);
        } else {
            lock(&self.shared.hba).occupy(slot);
        }
        // The tag is the slot's number; a tag in flight cannot be used again.
        let is_sound = is_known
            && self.commands[slot].is_none()
            && (!is_queued || usize::from(command.tag()) == slot);
        let planned = if is_sound { self.ata.plan(drive, &command) } else { Err(Fault::Aborted) };
        let (action, fault) = match planned {
            Ok(action) => (action, None),
            Err(fault) => (Action::Answer(Answer::to(&command, Some(fault))), Some(fault)),
        };
        let mut inflight =
            InflightCommand { header, command, regions, action, is_queued, left: 0, fault };
        if fault.is_none() {
            self.submit(drive, slot, &mut inflight)?;
        }
        if inflight.left > 0 {
            self.commands[slot] = Some(inflight);
            return Ok(());
        }
        self.complete_command(drive, slot, inflight)
    }

    fn control(&mut self, command: &Command) {
        let is_in_reset = command.control & CONTROL_RESET != 0;
        if self.is_in_reset && !is_in_reset {
            lock(&self.shared.hba).repeat_signature();
            self.send_signature();
        }
        self.is_in_reset = is_in_reset;
    }

    /// Submits the requests of a command, with its data.
    fn submit(
        &mut self,
        drive: &mut dyn Drive,
        slot: usize,
        inflight: &mut InflightCommand,
    ) -> Result<(), HostBus> {
        let token = slot as u64 | u64::from(self.epoch) << 32;
        let request = |op, lba, sectors| Request::new(op, lba, sectors, token);
        match inflight.action {
            Action::Read { lba, sectors, .. } => {
                drive.submit(request(Op::Read, lba, sectors), &[]);
                inflight.left = 1;
            }
            Action::Flush => {
                drive.submit(Request::flush(token), &[]);
                inflight.left = 1;
            }
            Action::Write { lba, sectors, fua } => {
                if self.fetch(inflight, sectors as usize * SECTOR_BYTES as usize)? {
                    drive.submit(request(Op::Write { fua }, lba, sectors), &self.buffer);
                    inflight.left = 1;
                }
            }
            Action::Trim { bytes } => {
                if !self.fetch(inflight, bytes)? {
                    return Ok(());
                }
                let beyond =
                    |(lba, sectors): (u64, u32)| lba + u64::from(sectors) > drive.sectors();
                if trim_ranges(&self.buffer).any(beyond) {
                    inflight.fault = Some(Fault::NotFound);
                    return Ok(());
                }
                for (lba, sectors) in trim_ranges(&self.buffer) {
                    drive.submit(request(Op::Trim { fua: false }, lba, sectors), &[]);
                    inflight.left += 1;
                }
            }
            Action::Return { .. } | Action::Answer(_) => {}
        }
        Ok(())
    }

    /// Reads the data of a command; returns true if it has this number of bytes.
    fn fetch(&mut self, inflight: &mut InflightCommand, bytes: usize) -> Result<bool, HostBus> {
        self.buffer.clear();
        self.buffer.resize(bytes, 0);
        let memory = self.shared.memory();
        inflight.fault = transfer_fault(memory.gather(&inflight.regions, &mut self.buffer))?;
        Ok(inflight.fault.is_none())
    }

    /// Writes data to the host, and completes a command.
    fn complete_command(
        &mut self,
        drive: &dyn Drive,
        slot: usize,
        inflight: InflightCommand,
    ) -> Result<(), HostBus> {
        let InflightCommand { header, command, regions, action, is_queued, mut fault, .. } =
            inflight;
        let (mut moved, mut is_pio) = (0, false);
        if fault.is_none() {
            match &action {
                Action::Read { lba, sectors, is_pio: pio } => {
                    is_pio = *pio;
                    moved = *sectors as usize * SECTOR_BYTES as usize;
                    self.buffer.clear();
                    self.buffer.resize(moved, 0);
                    if drive.read(*lba, &mut self.buffer).is_err() {
                        fault = Some(Fault::Uncorrectable);
                    }
                }
                Action::Return { data, is_pio: pio } => {
                    (moved, is_pio) = (data.len(), *pio);
                    self.buffer.clear();
                    self.buffer.extend_from_slice(data);
                }
                _ => {}
            }
        }
        if fault.is_none() && moved > 0 {
            fault = transfer_fault(self.shared.memory().scatter(&regions, &self.buffer))?;
        }
        let answer = match (&action, fault) {
            (Action::Answer(answer), None) => *answer,
            _ => Answer::to(&command, fault),
        };
        if is_queued {
            return self.complete_queued(slot, answer, fault);
        }
        let bytes = match action {
            Action::Write { sectors, .. } => sectors as usize * SECTOR_BYTES as usize,
            Action::Trim { bytes } => bytes,
            _ => moved,
        };
        let memory = self.shared.memory();
        list::write_byte_count(&memory, header, if fault.is_some() { 0 } else { bytes })
            .map_err(|_| HostBus)?;
        drop(memory);
        let mut hba = lock(&self.shared.hba);
        let (place, frame, bits): (u64, [u8; FRAME_BYTES], u32) = if is_pio && fault.is_none() {
            // Status of the last block; hosts read no more than this.
            (FRAME_PIO, answer.pio_setup(512), IS_PIO)
        } else {
            (FRAME_REGISTERS, answer.frame(), IS_REGISTERS)
        };
        self.post(&hba, place, &frame)?;
        let is_current = hba.epoch() == self.epoch;
        self.shared.interrupt_if(is_current && hba.complete(slot, &answer, bits));
        Ok(())
    }

    /// Completes a queued command: success is reported together with others, failure at once.
    fn complete_queued(
        &mut self,
        slot: usize,
        answer: Answer,
        fault: Option<Fault>,
    ) -> Result<(), HostBus> {
        let Some(fault) = fault else {
            self.completed |= 1 << slot;
            return Ok(());
        };
        self.report_completed()?;
        self.ata.failed = Some((slot as u8, answer));
        let mut hba = lock(&self.shared.hba);
        self.post(&hba, FRAME_BITS, &set_device_bits(0, Some(fault)))?;
        let is_current = hba.epoch() == self.epoch;
        self.shared.interrupt_if(is_current && hba.fail_queued(&answer));
        drop(hba);
        self.check_epoch();
        Ok(())
    }

    fn report_completed(&mut self) -> Result<(), HostBus> {
        let tags = std::mem::take(&mut self.completed);
        if tags == 0 {
            return Ok(());
        }
        let mut hba = lock(&self.shared.hba);
        self.post(&hba, FRAME_BITS, &set_device_bits(tags, None))?;
        let is_current = hba.epoch() == self.epoch;
        self.shared.interrupt_if(is_current && hba.complete_queued(tags));
        Ok(())
    }
}

/// Fault of a transfer of data: the memory regions of its command were too short.
fn transfer_fault(transferred: io::Result<()>) -> Result<Option<Fault>, HostBus> {
    match transferred {
        Ok(()) => Ok(None),
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => Ok(Some(Fault::Interface)),
        Err(_) => Err(HostBus),
    }
}

fn fault_of(status: Status) -> Option<Fault> {
    match status {
        Status::Ok => None,
        Status::OutOfRange => Some(Fault::NotFound),
        Status::MediaError => Some(Fault::Uncorrectable),
        // Only NVMe drives have zones.
        Status::ReadOnly | Status::NoSpace | Status::Internal | Status::Zone(_) => {
            Some(Fault::Aborted)
        }
    }
}

impl Session for AhciDevice {
    fn complete(&mut self, drive: &mut dyn Drive, completion: Completion) {
        self.check_epoch();
        let token = completion.request.token;
        let (slot, epoch) = (token as u32 as usize, (token >> 32) as u32);
        if epoch != self.epoch {
            return;
        }
        let Some(inflight) = &mut self.commands[slot] else { return };
        inflight.fault = inflight.fault.or(fault_of(completion.status));
        inflight.left -= 1;
        if inflight.left > 0 {
            return;
        }
        let inflight = self.commands[slot].take().expect("looked at above");
        if let Err(HostBus) = self.complete_command(drive, slot, inflight) {
            self.fail();
        }
    }

    fn flush(&mut self, drive: &mut dyn Drive) -> io::Result<Next> {
        if let Err(HostBus) = self.report_completed() {
            self.fail();
        }
        // A command that excluded others may have completed.
        self.take_commands(drive);
        Ok(Next::Wait { read: false, write: false })
    }

    fn notified(&mut self, drive: &mut dyn Drive) -> io::Result<()> {
        self.take_commands(drive);
        Ok(())
    }

    fn power_cut(&mut self) -> bool {
        let interrupt = lock(&self.shared.hba).lose_link();
        self.check_epoch();
        self.shared.interrupt_if(interrupt);
        true
    }
}
