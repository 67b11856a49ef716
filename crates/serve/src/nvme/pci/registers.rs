//! Register access of the guest, on the vfio-user thread.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};

use super::device::PciDevice;
use super::shared::{Message, Registers, Shared};
use crate::error::ServeError;
use crate::event_loop::EventLoop;
use crate::event_loop::channel::{self, Handle};
use crate::nvme::controller::READY_TIMEOUTS;
use crate::nvme::identity::VERSION;
use crate::nvme::subsystem::Shared as Subsystem;
use crate::pci::config::{Interrupts, Layout};
use crate::pci::vfio;
use crate::request::SessionId;

/// Bytes of BAR 0: registers, doorbells, MSI-X table, MSI-X pending bits, a page each.
const BAR_BYTES: u64 = 0x4000;
const DOORBELLS: u64 = 0x1000;
const MSIX_TABLE: u64 = 0x2000;
const MSIX_PENDING: u32 = 0x3000;

/// Adds the drive as a PCIe device to a loop, for a virtual machine that connects to the socket at
/// `path`.
pub fn serve(
    event_loop: &mut EventLoop,
    handle: &Handle,
    subsystem: &Subsystem,
    path: &Path,
) -> Result<(), ServeError> {
    let (sender, receiver) = channel();
    let device = PciDevice::new(subsystem.clone(), receiver)
        .ok_or_else(|| vfio::machine(path, "too many"))?;
    let (shared, capabilities) = (Arc::clone(&device.shared), device.capabilities);
    let (vectors, table, pending) = (shared.guest.vectors(), MSIX_TABLE as u32, MSIX_PENDING);
    let layout = Layout {
        ids: subsystem.lock().identity().own.pci,
        // NVMe, non-volatile memory, mass storage.
        class: [0x02, 0x08, 0x01],
        bar: 0,
        bar_bytes: BAR_BYTES,
        is_wide: true,
        interrupts: Interrupts::MsiX { vectors, table, pending },
    };
    let guest = Arc::clone(&shared.guest);
    let me = event_loop.add(Box::new(device)).map_err(|why| vfio::machine(path, why))?;
    let notify = (handle.clone(), me);
    let registers = Registers::default();
    let device = RegisterAccess { shared, capabilities, registers, sender, notify };
    vfio::serve(path, &layout, guest, device)
}

/// The guest's access to the registers.
struct RegisterAccess {
    shared: Arc<Shared>,
    capabilities: u64,
    registers: Registers,
    sender: Sender<Message>,
    /// Device in the event loop, which is notified of messages.
    notify: (Handle, SessionId),
}

impl RegisterAccess {
    fn send(&self, message: Message) {
        let (handle, device) = &self.notify;
        // The loop may have ended.
        let _ = self.sender.send(message);
        handle.send(channel::Message::Notify(*device));
    }
}

impl vfio::Device for RegisterAccess {
    fn registers(&self) -> impl AsRef<[u8]> {
        let Registers { configuration, admin_entries, admin_sq, admin_cq } = self.registers;
        let mut image = [0_u8; 0x70];
        let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
        put(0x00, &self.capabilities.to_le_bytes());
        put(0x08, &VERSION.to_le_bytes());
        put(0x14, &configuration.to_le_bytes());
        put(0x1c, &self.shared.status.load(Ordering::Acquire).to_le_bytes());
        put(0x24, &admin_entries.to_le_bytes());
        put(0x28, &admin_sq.to_le_bytes());
        put(0x30, &admin_cq.to_le_bytes());
        put(0x68, &READY_TIMEOUTS.to_le_bytes());
        image
    }

    fn write(&mut self, offset: u64, value: u32) {
        let low = |old: u64| old & !0xffff_ffff | u64::from(value);
        let high = |old: u64| old & 0xffff_ffff | u64::from(value) << 32;
        let registers = &mut self.registers;
        match offset {
            0x14 => {
                registers.configuration = value;
                let registers = *registers;
                self.send(Message::Configure(registers));
            }
            0x24 => registers.admin_entries = value & 0x0fff_0fff,
            0x28 => registers.admin_sq = low(registers.admin_sq) & !0xfff,
            0x2c => registers.admin_sq = high(registers.admin_sq),
            0x30 => registers.admin_cq = low(registers.admin_cq) & !0xfff,
            0x34 => registers.admin_cq = high(registers.admin_cq),
            DOORBELLS..MSIX_TABLE => {
                let place = ((offset - DOORBELLS) / 4) as usize;
                if let Some(bell) = self.shared.doorbells.get(place) {
                    bell.store(value & 0xffff, Ordering::Release);
                    if !self.shared.doorbell_sent.swap(true, Ordering::AcqRel) {
                        self.send(Message::Doorbell);
                    }
                }
            }
            _ => {}
        }
    }

    fn reset(&mut self) {
        self.registers = Registers::default();
        self.shared.clear_doorbells();
        self.shared.status.store(0, Ordering::Release);
        self.send(Message::Reset);
    }
}
