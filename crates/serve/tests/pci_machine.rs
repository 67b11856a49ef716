//! Machine of our own with a PCIe drive over vfio-user: registers, memory for the drive's DMA, and
//! interrupts by event file descriptors. Tests with QEMU are in tests/interop.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::PATIENCE;
use drivebay_drive::Spec;
use drivebay_run::Control;
use drivebay_serve::{DriveOptions, Handle, Options, Pace, Server};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use tempfile::TempDir;
use vfio_user::Client;

/// Address of the machine's memory on the bus.
pub const BASE: u64 = 0x10_0000;
const MEMORY_BYTES: u64 = 1 << 20;
/// VFIO's region of the configuration space.
const CONFIG: u32 = 7;
/// VFIO's flags for event file descriptors that trigger.
const EVENTS: u32 = 1 << 2 | 1 << 5;

pub struct Machine {
    client: Client,
    bar: u32,
    memory: File,
    interrupts: Vec<File>,
}

impl Machine {
    fn read_region(&mut self, region: u32, offset: u64, bytes: &mut [u8]) {
        self.client.region_read(region, offset, bytes).expect("a region of the drive");
    }

    /// ID of vendor and device, and the class code.
    pub fn identity(&mut self) -> ([u8; 4], [u8; 3]) {
        let mut head = [0; 12];
        self.read_region(CONFIG, 0, &mut head);
        (head[..4].try_into().expect("four bytes"), head[9..].try_into().expect("three bytes"))
    }

    pub fn read(&mut self, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        self.read_region(self.bar, offset, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    pub fn write(&mut self, offset: u64, value: u32) {
        self.client.region_write(self.bar, offset, &value.to_le_bytes()).expect("a register");
    }

    pub fn write_u64(&mut self, offset: u64, value: u64) {
        self.client.region_write(self.bar, offset, &value.to_le_bytes()).expect("a register");
    }

    /// Waits until the masked bits of a register have this value.
    pub fn wait(&mut self, offset: u64, mask: u32, wanted: u32) {
        let begun = Instant::now();
        while self.read(offset) & mask != wanted {
            assert!(begun.elapsed() < PATIENCE, "{offset:#x} is {:#x}", self.read(offset));
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn bytes(&self, place: u64, length: usize) -> Vec<u8> {
        let mut found = vec![0; length];
        self.memory.read_exact_at(&mut found, place).expect("memory");
        found
    }

    pub fn put(&self, place: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, place).expect("memory");
    }

    /// Takes an interrupt, if there is one.
    pub fn take_interrupt(&mut self, vector: usize) -> bool {
        self.interrupts[vector].read(&mut [0; 8]).is_ok()
    }

    pub fn wait_for_interrupt(&mut self, vector: usize) {
        let begun = Instant::now();
        while !self.take_interrupt(vector) {
            assert!(begun.elapsed() < PATIENCE, "no interrupt {vector}");
            thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Drive at a socket, which answers at once.
pub struct TestServer {
    path: PathBuf,
    pub handle: Handle,
    running: JoinHandle<()>,
    _folder: TempDir,
}

impl TestServer {
    pub fn new(spec: Spec) -> TestServer {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("drive.sock");
        let drive = DriveOptions {
            vfio_user: Some(path.clone()),
            pace: Pace::None,
            ..DriveOptions::new("drive")
        };
        let options = Options { memory_max_bytes: 1 << 30, ..Options::default() };
        let server = Server::new(vec![(spec, drive)], &options, &Control::default());
        let server = server.unwrap_or_else(|why| panic!("{why}"));
        let handle = server.handles().remove(0);
        let running = thread::spawn(move || server.run().map(|_| ()).expect("an orderly end"));
        TestServer { path, handle, running, _folder: folder }
    }

    /// Boots a machine with the drive's registers in a BAR and this number of vectors of VFIO's
    /// interrupts `index`.
    pub fn boot(&self, bar: u32, index: u32, vectors: usize) -> Machine {
        let mut client = Client::new(&self.path).expect("a device");
        let memory = File::from(memfd_create("guest", MemfdFlags::CLOEXEC).expect("memory"));
        memory.set_len(MEMORY_BYTES).expect("memory");
        client.dma_map(0, BASE, MEMORY_BYTES, memory.as_raw_fd()).expect("mapped");
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let event = |_| File::from(eventfd(0, flags).expect("an event"));
        let interrupts: Vec<File> = (0..vectors).map(event).collect();
        let fds: Vec<i32> = interrupts.iter().map(AsRawFd::as_raw_fd).collect();
        client.set_irqs(index, EVENTS, 0, vectors as u32, &fds).expect("interrupts");
        Machine { client, bar, memory, interrupts }
    }

    pub fn stop(self) {
        self.handle.stop();
        self.running.join().expect("an orderly end");
    }
}
