//! Register access of the guest, on the vfio-user thread.

use std::path::Path;
use std::sync::Arc;

use super::ata::Identity;
use super::device::{AhciDevice, Shared};
use crate::error::ServeError;
use crate::event_loop::EventLoop;
use crate::event_loop::channel::{Handle, Message};
use crate::pci::config::{Interrupts, Layout};
use crate::pci::vfio;
use crate::request::SessionId;

/// Bytes of BAR 5: the registers of a controller with at most 32 ports.
const BAR_BYTES: u64 = 0x2000;

/// Vendor and device of the SM951 with AHCI firmware: Samsung, SM951_AHCI. Source: OpenBSD,
/// sys/dev/pci/pcidevs (SAMSUNG2 0x144d, SM951_AHCI 0xa801). Linux's ahci driver matches it by its
/// class; it disables MSI only for the XP941 (a800).
const IDS: [u16; 2] = [0x144d, 0xa801];

/// Adds the drive as an AHCI controller to a loop, for a virtual machine that connects to the
/// socket at `path`.
pub fn serve(
    event_loop: &mut EventLoop,
    handle: &Handle,
    identity: Identity,
    path: &Path,
) -> Result<(), ServeError> {
    let sectors = event_loop.engine().store().sectors();
    let device = AhciDevice::new(identity, sectors);
    let shared = device.shared();
    let layout = Layout {
        ids: IDS,
        // AHCI, SATA, mass storage.
        class: [0x01, 0x06, 0x01],
        bar: 5,
        bar_bytes: BAR_BYTES,
        is_wide: false,
        interrupts: Interrupts::Msi,
    };
    let me = event_loop.add(Box::new(device)).map_err(|why| vfio::machine(path, why))?;
    let guest = Arc::clone(&shared.guest);
    vfio::serve(path, &layout, guest, RegisterAccess { shared, handle: handle.clone(), me })
}

/// The guest's access to the registers.
struct RegisterAccess {
    shared: Arc<Shared>,
    handle: Handle,
    me: SessionId,
}

impl RegisterAccess {
    fn send(&self) {
        self.handle.send(Message::Notify(self.me));
    }
}

impl vfio::Device for RegisterAccess {
    fn registers(&self) -> impl AsRef<[u8]> {
        self.shared.registers()
    }

    fn write(&mut self, offset: u64, value: u32) {
        if self.shared.write_register(offset, value) {
            self.send();
        }
    }

    fn reset(&mut self) {
        self.shared.reset();
        self.send();
    }
}
