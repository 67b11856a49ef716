//! The registers, as the virtual machine reads and writes them, on the thread that serves it.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::ata::{Ata, Names};
use super::device::{AhciDevice, Shared, Work, lock};
use crate::event_loop::EventLoop;
use crate::mailbox::{Handle, Message};
use crate::pci::{self, Interrupts, Layout, VfioError};
use crate::session::SessionId;

/// Bytes of BAR 5: the registers of a controller with 32 ports at most.
const BAR_BYTES: u64 = 0x2000;

/// Vendor and device of the SM951 with AHCI firmware: Samsung, SM951_AHCI.
/// Source: OpenBSD, sys/dev/pci/pcidevs (SAMSUNG2 0x144d, SM951_AHCI 0xa801). Linux's ahci takes it by its
/// class; only of the XP941 (a800) it takes MSI away.
const IDS: [u16; 2] = [0x144d, 0xa801];

/// Adds the drive as an AHCI controller to a loop, for a machine that connects to the socket at `path`.
///
/// # Errors
/// [`VfioError`].
pub fn serve(
    event_loop: &mut EventLoop,
    handle: &Handle,
    names: Names,
    path: &Path,
) -> Result<(), VfioError> {
    let sectors = event_loop.engine().store().sectors();
    let device = AhciDevice::new(Ata::new(names, sectors));
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
    let me = event_loop.add(Box::new(device)).map_err(|why| VfioError::Machine {
        path: path.display().to_string(),
        why: why.to_string(),
    })?;
    let memory = Arc::clone(&shared.memory);
    pci::serve(path, &layout, memory, Front { shared, handle: handle.clone(), me })
}

struct Front {
    shared: Arc<Shared>,
    handle: Handle,
    me: SessionId,
}

impl Front {
    fn send(&self) {
        self.handle.send(Message::Mail(self.me, Box::new(Work)));
    }
}

impl pci::Device for Front {
    fn read(&mut self, offset: u64, into: &mut [u8]) {
        let image = lock(&self.shared.hba).image();
        for (i, byte) in into.iter_mut().enumerate() {
            *byte = image.get(offset as usize + i).copied().unwrap_or(0);
        }
    }

    fn write(&mut self, offset: u64, value: u32) {
        let asked = lock(&self.shared.hba).write(offset, value);
        if asked.interrupt {
            self.shared.interrupt();
        }
        if asked.work {
            self.send();
        }
    }

    fn reset(&mut self) {
        lock(&self.shared.hba).reset();
        self.send();
    }

    fn set_vectors(&mut self, first: u32, mut files: Vec<Option<File>>) {
        if first == 0 && !files.is_empty() {
            *lock(&self.shared.vector) = files.swap_remove(0);
        }
    }

    fn interrupt(&mut self, _vector: u16) {
        self.shared.interrupt();
    }
}
