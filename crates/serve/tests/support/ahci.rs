//! Guest with full access to its AHCI controller: registers and memory, no socket, no thread, no
//! event loop.

use std::sync::{Arc, MutexGuard};

use drivebay_drive::{Device, Spec};
use drivebay_serve::ahci::{AhciDevice, Identity, Shared};
use drivebay_serve::{
    Control as _, Engine, GuestMemory, MemoryLimit, Pace, Session, SessionId, Store,
};
use drivebay_wire::ata::{Command, Opcode};

/// Address of the machine's memory on the bus, and its bytes.
const BASE: u64 = 0x1_0000;
const BYTES: u64 = 1 << 20;
/// Areas in that memory: the command list, received frames, a table of 512 B for each slot, data.
const LIST: u64 = BASE;
const FRAMES: u64 = BASE + 0x800;
const TABLES: u64 = BASE + 0x1000;
const DATA: u64 = BASE + 0x1_0000;

/// Controller, its drive, and the memory that it can access.
pub struct Guest {
    device: AhciDevice,
    engine: Engine,
    shared: Arc<Shared>,
}

impl Guest {
    /// Address and size of the area for data of commands.
    pub const DATA: (u64, u64) = (DATA, BASE + BYTES - DATA);

    /// Creates a guest after power-on.
    pub fn new(spec: Spec) -> Guest {
        let sectors = spec.capacity_bytes() / 512;
        let device = AhciDevice::new(Identity::new(&spec, "TEST"), sectors);
        let store = Store::memory(sectors, &MemoryLimit::new(64 << 20, 1 << 30, 1 << 30));
        let engine = Engine::new(Device::new(spec, 1).expect("memory"), store, Pace::None, 1);
        let file = tempfile::tempfile().expect("a file");
        file.set_len(BYTES).expect("room");
        let guest = Guest { shared: device.shared(), device, engine };
        guest.memory().map(BASE, BYTES, 0, Some(file), true).expect("a region");
        guest
    }

    fn memory(&self) -> MutexGuard<'_, GuestMemory> {
        self.shared.memory()
    }

    /// Reads a register.
    pub fn read(&self, register: usize) -> u32 {
        let image = self.shared.registers();
        let bytes = image
            .get(register..register + 4)
            .map_or([0; 4], |found| found.try_into().expect("four bytes"));
        u32::from_le_bytes(bytes)
    }

    /// Writes a register.
    pub fn write(&mut self, register: u64, value: u32) {
        self.shared.write_register(register, value);
    }

    /// Writes to memory, where it exists.
    pub fn put(&mut self, place: u64, bytes: &[u8]) {
        let _ = self.memory().write(place, bytes);
    }

    /// After a reset the device identifies itself.
    pub fn serves_the_next_guest(&mut self) {
        self.reset();
        self.start();
        let code = Opcode::IdentifyDevice as u8;
        let identify = Command { is_command: true, code, device: 0x40, ..Command::default() };
        self.prepare(0, &identify, &[(DATA, 512)], 0);
        self.issue(0, false);
        self.iterate();
        let mut page = [0_u8; 512];
        self.memory().read(DATA, &mut page).expect("memory");
        let sum = page.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        assert_eq!((page[510], sum), (0xa5, 0), "signature and checksum of the page");
    }

    /// Starts like a driver: the list, the frames, the engines.
    pub fn start(&mut self) {
        for (register, value) in
            [(0x04, 2), (0x100, LIST as u32), (0x108, FRAMES as u32), (0x114, !0), (0x118, 0x10)]
        {
            self.write(register, value);
        }
        self.iterate();
        self.write(0x118, 0x11);
    }

    /// Puts a command into a slot below 32, without issuing it; its data is in at most 24 regions.
    /// `flags` are added to the flags of its header.
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

    /// Runs one iteration of the event loop.
    pub fn iterate(&mut self) {
        self.engine.begin_iteration();
        let me = SessionId::numbered(0);
        self.device.notified(self.engine.drive_of(me)).expect("it stays");
        while let Some(completion) = self.engine.next_completion() {
            self.device.complete(self.engine.drive_of(me), completion);
        }
        self.device.flush(self.engine.drive_of(me)).expect("it stays");
        self.engine.end_iteration();
    }

    /// Cuts the drive's power.
    pub fn power_cut(&mut self) {
        self.engine.power_cut().expect("memory");
        assert!(self.device.power_cut(), "it stays");
    }

    /// Resets the device.
    pub fn reset(&mut self) {
        self.shared.reset();
        self.iterate();
    }

    /// Number of requests of the engine that are not done.
    pub fn outstanding(&self) -> usize {
        self.engine.outstanding()
    }
}
