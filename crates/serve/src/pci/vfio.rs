//! vfio-user server: a thread that answers the messages of a virtual machine.
//!
//! The `vfio_user` crate implements the protocol. It serves one client at a time, blocks in system
//! calls, and panics on some malformed messages: therefore it runs in a thread, which starts it
//! again.

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, MutexGuard};
use std::thread;

use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_PCI_CONFIG_REGION_INDEX,
    VFIO_PCI_MSI_IRQ_INDEX, VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS,
    VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE, vfio_region_info,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, Server, ServerBackend, ServerRegion};

use super::config::{CONFIG_BYTES, Config, Interrupts, Layout};
use super::guest::Guest;
use super::memory::GuestMemory;
use crate::error::ServeError;
use crate::lock::lock;

/// Error for a socket path that exists.
pub(crate) fn exists(path: &Path) -> ServeError {
    let hint = "another server may use it; remove it, or name another path";
    ServeError::machine(format!("{} exists already", path.display()), hint)
}

/// Error for a socket that cannot be served.
pub(crate) fn machine(path: &Path, why: impl Display) -> ServeError {
    let hint = "the folder must exist and be writable";
    ServeError::machine(format!("vfio-user at {}: {why}", path.display()), hint)
}

/// Device model used by the vfio-user server; all calls come from the server's thread.
pub(crate) trait Device: Send + 'static {
    /// Returns the values of all registers; the rest of the BAR reads as zeros.
    fn registers(&self) -> impl AsRef<[u8]>;

    /// Writes four bytes of registers.
    fn write(&mut self, offset: u64, value: u32);

    /// Resets the device, for the guest or after the client has disconnected.
    fn reset(&mut self);
}

/// Serves a device to the clients that connect to the socket at `path`, one after the other.
pub(crate) fn serve(
    path: &Path,
    layout: &Layout,
    guest: Arc<Guest>,
    device: impl Device,
) -> Result<(), ServeError> {
    let server =
        Server::new(path, true, interrupts(layout), regions(layout)).map_err(|why| match why {
            vfio_user::Error::SocketPathExists => exists(path),
            why => machine(path, why),
        })?;
    let config = Config::new(layout);
    let mut backend = Backend { layout: *layout, config, guest, device };
    let work = move || {
        loop {
            // A client that violates the protocol is disconnected, even if the crate panics.
            let served = catch_unwind(AssertUnwindSafe(|| server.run(&mut backend)));
            backend.device.reset();
            backend.memory().clear();
            if matches!(served, Ok(Err(vfio_user::Error::SocketAccept(_)))) {
                return;
            }
        }
    };
    let started = thread::Builder::new().name("vfio-user".into()).spawn(work);
    started.map(drop).map_err(|why| machine(path, why))
}

/// Kind and number of interrupts.
fn vectors(layout: &Layout) -> (u32, u32) {
    match layout.interrupts {
        Interrupts::MsiX { vectors, .. } => (VFIO_PCI_MSIX_IRQ_INDEX, u32::from(vectors)),
        Interrupts::Msi => (VFIO_PCI_MSI_IRQ_INDEX, 1),
    }
}

fn interrupts(layout: &Layout) -> Vec<IrqInfo> {
    let (kind, count) = vectors(layout);
    let info = |index| match index == kind {
        true => IrqInfo { index, flags: VFIO_IRQ_INFO_EVENTFD, count },
        false => IrqInfo { index, flags: 0, count: 0 },
    };
    (0..VFIO_PCI_NUM_IRQS).map(info).collect()
}

fn regions(layout: &Layout) -> Vec<ServerRegion> {
    let info = |index| {
        let size = region_bytes(layout, index);
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
    (0..VFIO_PCI_NUM_REGIONS).map(info).collect()
}

fn region_bytes(layout: &Layout, region: u32) -> u64 {
    match region {
        VFIO_PCI_CONFIG_REGION_INDEX => CONFIG_BYTES as u64,
        _ if region == layout.bar => layout.bar_bytes,
        _ => 0,
    }
}

/// Reads registers.
fn copy(registers: &[u8], offset: u64, into: &mut [u8]) {
    for (i, byte) in into.iter_mut().enumerate() {
        *byte = registers.get(offset as usize + i).copied().unwrap_or(0);
    }
}

struct Backend<D> {
    layout: Layout,
    config: Config,
    guest: Arc<Guest>,
    device: D,
}

impl<D> Backend<D> {
    fn memory(&self) -> MutexGuard<'_, GuestMemory> {
        lock(&self.guest.memory)
    }

    /// Refuses accesses beyond the end of a region.
    fn check(&self, region: u32, offset: u64, bytes: usize) -> io::Result<()> {
        let size = region_bytes(&self.layout, region);
        let fits = offset.checked_add(bytes as u64).is_some_and(|end| end <= size);
        if fits { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }
}

impl<D: Device> ServerBackend for Backend<D> {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.check(region, offset, data.len())?;
        if region == VFIO_PCI_CONFIG_REGION_INDEX {
            copy(self.config.bytes(), offset, data);
        } else {
            copy(self.device.registers().as_ref(), offset, data);
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check(region, offset, data.len())?;
        if region == VFIO_PCI_CONFIG_REGION_INDEX {
            if self.config.write(offset, data) {
                self.device.reset();
            }
            return Ok(());
        }
        for (i, word) in data.chunks_exact(4).enumerate() {
            let value = u32::from_le_bytes(word.try_into().expect("four bytes"));
            self.device.write(offset + 4 * i as u64, value);
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
        self.memory().map(address, size, offset, fd, writable)
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        if flags.contains(DmaUnmapFlags::UNMAP_ALL) {
            self.memory().clear();
        } else {
            self.memory().unmap(address, size);
        }
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.device.reset();
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
        let (kind, vectors) = vectors(&self.layout);
        if index != kind {
            return Ok(());
        }
        let count = count.min(vectors);
        if flags & VFIO_IRQ_SET_DATA_EVENTFD != 0 {
            // One file per vector; an empty list removes them.
            let mut files = fds.into_iter();
            self.guest.set_vectors(start, (0..count).map(|_| files.next()));
        } else if count == 0 {
            self.guest.set_vectors(0, (0..vectors).map(|_| None));
        } else {
            (start..start.saturating_add(count)).for_each(|v| self.guest.interrupt(v as u16));
        }
        Ok(())
    }
}
