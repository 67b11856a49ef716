//! A machine that does anything with its AHCI controller, for fuzzing: registers and memory, no socket,
//! no thread, no loop.

use std::fs::File;

use drivebay_drive::{Device, Spec};
use drivebay_units::SECTOR_BYTES;
use drivebay_wire::ata::Command;
use rustix::fs::{MemfdFlags, memfd_create};

use super::ata::{Ata, Names};
use super::device::{AhciDevice, Shared, Work, lock};
use crate::clock::Pace;
use crate::engine::Engine;
use crate::session::{Session, SessionId};
use crate::store::Store;

/// Where the machine's memory begins on the bus, and its bytes.
const BASE: u64 = 0x1_0000;
const BYTES: u64 = 1 << 20;
/// In that memory: the command list, the frames that come, a table of 512 B for each slot, data.
const LIST: u64 = BASE;
const FRAMES: u64 = BASE + 0x800;
const TABLES: u64 = BASE + 0x1000;
const DATA: u64 = BASE + 0x1_0000;
const ME: SessionId = SessionId::numbered(0);

/// The controller, its drive, and the memory that it reaches.
pub struct Machine {
    pub(super) device: AhciDevice,
    pub(super) engine: Engine,
    pub(super) shared: std::sync::Arc<Shared>,
}

impl Machine {
    /// Where data of a command may lie, and how much room there is.
    pub const DATA: (u64, u64) = (DATA, BASE + BYTES - DATA);

    /// Switched on.
    ///
    /// # Panics
    /// If the system has no memory.
    #[must_use]
    pub fn new(spec: Spec) -> Machine {
        let sectors = spec.capacity_bytes() / SECTOR_BYTES;
        let device = AhciDevice::new(Ata::new(Names::new(&spec, "TEST"), sectors));
        let store = Store::memory(sectors, 64 << 20);
        let engine = Engine::new(Device::new(spec, 1).expect("memory"), store, Pace::None, 1);
        let file = File::from(memfd_create("machine", MemfdFlags::CLOEXEC).expect("memory"));
        file.set_len(BYTES).expect("memory");
        let shared = device.shared();
        lock(&shared.memory).map(BASE, BYTES, 0, Some(file), true).expect("a piece");
        Machine { device, engine, shared }
    }

    /// Reads a register.
    #[must_use]
    pub fn read(&self, register: usize) -> u32 {
        let image = lock(&self.shared.hba).image();
        let bytes = image
            .get(register..register + 4)
            .map_or([0; 4], |found| found.try_into().expect("four bytes"));
        u32::from_le_bytes(bytes)
    }

    /// Writes a register.
    pub fn write(&mut self, register: u64, value: u32) {
        if lock(&self.shared.hba).write(register, value).interrupt {
            self.shared.interrupt();
        }
    }

    /// Writes into memory, where there is some.
    pub fn put(&mut self, place: u64, bytes: &[u8]) {
        let _ = lock(&self.shared.memory).write(place, bytes);
    }

    /// Reads from memory.
    ///
    /// # Panics
    /// Where there is none.
    pub fn get(&self, place: u64, into: &mut [u8]) {
        lock(&self.shared.memory).read(place, into).expect("there");
    }

    /// As a driver: the list, the frames, the engines.
    pub fn start(&mut self) {
        for (register, value) in
            [(0x04, 2), (0x100, LIST as u32), (0x108, FRAMES as u32), (0x114, !0), (0x118, 0x10)]
        {
            self.write(register, value);
        }
        self.turn();
        self.write(0x118, 0x11);
    }

    /// Puts a command into a slot, below 32; its data lies in these regions, at most 24. `flags` are
    /// added to its header's. Not yet issued.
    pub fn prepare(&mut self, slot: u64, command: &Command, regions: &[(u64, u32)], flags: u32) {
        let (header, table) = (LIST + slot * 32, TABLES + slot * 0x200);
        let words = 5 | (regions.len() as u32) << 16 | flags;
        self.put(header, &words.to_le_bytes());
        self.put(header + 8, &table.to_le_bytes());
        self.put(table, &command.frame());
        for (i, (place, bytes)) in regions.iter().enumerate() {
            let at = table + 0x80 + i as u64 * 16;
            self.put(at, &place.to_le_bytes());
            self.put(at + 12, &bytes.wrapping_sub(1).to_le_bytes());
        }
    }

    /// Issues a slot's command.
    pub fn issue(&mut self, slot: u64, is_queued: bool) {
        if is_queued {
            self.write(0x134, 1 << slot);
        }
        self.write(0x138, 1 << slot);
    }

    /// As the event loop's turn.
    pub fn turn(&mut self) {
        self.engine.begin_turn();
        self.device.mail(&mut self.engine, ME, Box::new(Work)).expect("it goes on");
        while let Some(done) = self.engine.next_done() {
            self.device.complete(&mut self.engine, done);
        }
        self.device.flush(&mut self.engine).expect("it goes on");
        self.engine.end_turn();
    }

    /// The drive loses its power.
    ///
    /// # Panics
    /// If the store fails.
    pub fn power_cut(&mut self) {
        self.engine.power_cut().expect("memory");
        self.device.power_cut();
    }

    /// The machine resets the device.
    pub fn reset(&mut self) {
        lock(&self.shared.hba).reset();
        self.turn();
    }

    /// Requests of the engine that are not done.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.engine.outstanding()
    }
}
