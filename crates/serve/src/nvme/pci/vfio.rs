//! The side of the virtual machine: a thread that answers vfio-user messages.
//!
//! The `vfio_user` crate speaks the protocol. It serves one machine at a time, waits in system calls,
//! and panics on some malformed messages: hence the thread, which then starts anew.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_PCI_BAR0_REGION_INDEX,
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS,
    VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE, vfio_region_info,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, Server, ServerBackend, ServerRegion};

use super::config::{BAR_BYTES, CONFIG_BYTES, Config, DOORBELLS, MSIX_TABLE};
use super::device::PciDevice;
use super::shared::{Letter, Registers, Shared, lock};
use crate::event_loop::EventLoop;
use crate::mailbox::{Handle, Message};
use crate::nvme::VERSION;
use crate::nvme::subsystem::Shared as Subsystem;
use crate::session::SessionId;

/// Why a machine cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VfioError {
    /// The path is taken.
    #[error("{0} exists already\nhint: another server may use it; remove it, or name another path")]
    Exists(String),
    /// The machine.
    #[error("vfio-user at {path}: {why}\nhint: the folder must exist and be writable")]
    Machine {
        /// The socket.
        path: String,
        /// The system's words.
        why: String,
    },
}

/// Adds the drive as a PCIe device to a loop, for a machine that connects to the socket at `path`.
///
/// # Errors
/// [`VfioError`].
pub fn serve(
    event_loop: &mut EventLoop,
    handle: &Handle,
    subsystem: &Subsystem,
    path: &Path,
) -> Result<(), VfioError> {
    let shown = path.display().to_string();
    let machine = |why: String| VfioError::Machine { path: shown.clone(), why };
    let device = PciDevice::new(subsystem.clone()).ok_or_else(|| machine("too many".to_owned()))?;
    let (shared, capabilities) = (device.shared(), device.capabilities());
    let pci = subsystem.lock().identity().own.pci;
    let vectors = u32::from(shared.vectors());
    let server =
        Server::new(path, true, interrupts(vectors), regions()).map_err(|why| match why {
            vfio_user::Error::SocketPathExists => VfioError::Exists(shown.clone()),
            why => machine(why.to_string()),
        })?;
    let me = event_loop.add(Box::new(device)).map_err(|why| machine(why.to_string()))?;
    let config = Config::new(pci, shared.vectors());
    let registers = Registers::default();
    let handle = handle.clone();
    let mut backend = Backend { shared, capabilities, config, registers, handle, me };
    let work = move || {
        loop {
            // A machine that breaks the protocol loses its connection, however the crate takes it.
            let served = catch_unwind(AssertUnwindSafe(|| server.run(&mut backend)));
            let _ = backend.reset();
            lock(&backend.shared.memory).clear();
            if matches!(served, Ok(Err(vfio_user::Error::SocketAccept(_)))) {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("vfio-user".into())
        .spawn(work)
        .map_err(|why| machine(why.to_string()))?;
    Ok(())
}

fn interrupts(vectors: u32) -> Vec<IrqInfo> {
    let of = |index| match index {
        VFIO_PCI_MSIX_IRQ_INDEX => IrqInfo { index, flags: VFIO_IRQ_INFO_EVENTFD, count: vectors },
        _ => IrqInfo { index, flags: 0, count: 0 },
    };
    (0..VFIO_PCI_NUM_IRQS).map(of).collect()
}

fn regions() -> Vec<ServerRegion> {
    let of = |index| {
        let size = match index {
            VFIO_PCI_BAR0_REGION_INDEX => BAR_BYTES,
            VFIO_PCI_CONFIG_REGION_INDEX => CONFIG_BYTES as u64,
            _ => 0,
        };
        let both = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
        let region_info = vfio_region_info {
            argsz: size_of::<vfio_region_info>() as u32,
            flags: if size > 0 { both } else { 0 },
            index,
            cap_offset: 0,
            size,
            offset: 0,
        };
        ServerRegion { region_info, sparse_areas: Vec::new(), mmap_fd: None }
    };
    (0..VFIO_PCI_NUM_REGIONS).map(of).collect()
}

struct Backend {
    shared: Arc<Shared>,
    capabilities: u64,
    config: Config,
    registers: Registers,
    handle: Handle,
    me: SessionId,
}

impl Backend {
    fn send(&self, letter: Letter) {
        self.handle.send(Message::Mail(self.me, Box::new(letter)));
    }

    /// The registers as bytes.
    fn image(&self) -> [u8; 64] {
        let Registers { configuration, admin_entries, admin_sq, admin_cq } = self.registers;
        let mut image = [0; 64];
        let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
        put(0x00, &self.capabilities.to_le_bytes());
        put(0x08, &VERSION.to_le_bytes());
        put(0x14, &configuration.to_le_bytes());
        put(0x1c, &self.shared.status.load(Ordering::Acquire).to_le_bytes());
        put(0x24, &admin_entries.to_le_bytes());
        put(0x28, &admin_sq.to_le_bytes());
        put(0x30, &admin_cq.to_le_bytes());
        image
    }

    /// A write of four bytes.
    fn write_register(&mut self, offset: u64, value: u32) {
        let low = |old: u64| old & !0xffff_ffff | u64::from(value);
        let high = |old: u64| old & 0xffff_ffff | u64::from(value) << 32;
        let registers = &mut self.registers;
        match offset {
            0x14 => {
                registers.configuration = value;
                let registers = *registers;
                self.send(Letter::Configure(registers));
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
                    if !self.shared.rung.swap(true, Ordering::AcqRel) {
                        self.send(Letter::Doorbell);
                    }
                }
            }
            _ => {}
        }
    }
}

impl ServerBackend for Backend {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        check(region, offset, data.len())?;
        if region == VFIO_PCI_CONFIG_REGION_INDEX {
            self.config.read(offset, data);
        } else {
            let image = self.image();
            for (i, byte) in data.iter_mut().enumerate() {
                *byte = image.get(offset as usize + i).copied().unwrap_or(0);
            }
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        check(region, offset, data.len())?;
        if region == VFIO_PCI_CONFIG_REGION_INDEX {
            self.config.write(offset, data);
            return Ok(());
        }
        for (i, word) in data.chunks_exact(4).enumerate() {
            let value = u32::from_le_bytes(word.try_into().expect("four bytes"));
            self.write_register(offset + 4 * i as u64, value);
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        fd: Option<File>,
    ) -> io::Result<()> {
        let writable = flags.contains(DmaMapFlags::WRITE);
        lock(&self.shared.memory).map(address, size, offset, fd, writable)
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        let mut memory = lock(&self.shared.memory);
        if flags.contains(DmaUnmapFlags::UNMAP_ALL) {
            memory.clear();
        } else {
            memory.unmap(address, size);
        }
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.registers = Registers::default();
        self.shared.quiet_doorbells();
        self.shared.status.store(0, Ordering::Release);
        self.send(Letter::Reset);
        Ok(())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        fds: Vec<File>,
    ) -> io::Result<()> {
        if index != VFIO_PCI_MSIX_IRQ_INDEX {
            return Ok(());
        }
        let count = count.min(u32::from(self.shared.vectors()));
        if flags & VFIO_IRQ_SET_DATA_EVENTFD != 0 {
            // One for each vector; none at all takes them away.
            let mut files = fds.into_iter();
            self.shared.set_vectors(start, (0..count).map(|_| files.next()).collect());
        } else if count == 0 {
            let all = (0..self.shared.vectors()).map(|_| None).collect();
            self.shared.set_vectors(0, all);
        } else {
            // The machine tries its own interrupt.
            (start..start.saturating_add(count)).for_each(|v| self.shared.interrupt(v as u16));
        }
        Ok(())
    }
}

/// Refuses what lies beyond a region.
fn check(region: u32, offset: u64, bytes: usize) -> io::Result<()> {
    let size = match region {
        VFIO_PCI_BAR0_REGION_INDEX => BAR_BYTES,
        VFIO_PCI_CONFIG_REGION_INDEX => CONFIG_BYTES as u64,
        _ => 0,
    };
    let fits = offset.checked_add(bytes as u64).is_some_and(|end| end <= size);
    if fits { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
}
