//! What the vfio-user thread and the event loop share.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::lock::lock;
use crate::pci::memory::GuestMemory;
use crate::pci::vfio::signal;

/// Registers that only the host writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Registers {
    /// CC.
    pub configuration: u32,
    /// AQA.
    pub admin_entries: u32,
    /// ASQ.
    pub admin_sq: u64,
    /// ACQ.
    pub admin_cq: u64,
}

/// A message to the device in the event loop.
pub(super) enum Message {
    /// CC was written; all registers as they are now.
    Configure(Registers),
    /// A doorbell was written.
    Doorbell,
    /// The guest resets the device, or the client has disconnected.
    Reset,
}

/// Both sides' state.
pub(super) struct Shared {
    pub memory: Arc<Mutex<GuestMemory>>,
    /// Event file descriptors by MSI-X vector.
    vectors: Mutex<Vec<Option<File>>>,
    /// CSTS.
    pub status: AtomicU32,
    /// By queue: submission tail, completion head.
    pub doorbells: Box<[AtomicU32]>,
    /// [`Message::Doorbell`] is on its way.
    pub doorbell_sent: AtomicBool,
}

impl Shared {
    /// For this number of queues, the admin queue included.
    pub fn new(queues: u16) -> Shared {
        Shared {
            memory: Arc::default(),
            vectors: Mutex::new((0..queues).map(|_| None).collect()),
            status: AtomicU32::new(0),
            doorbells: (0..2 * queues).map(|_| AtomicU32::new(0)).collect(),
            doorbell_sent: AtomicBool::new(false),
        }
    }

    /// Vectors there are.
    pub fn vectors(&self) -> u16 {
        lock(&self.vectors).len() as u16
    }

    /// Sets the event file descriptors from `first` on; None removes one.
    pub fn set_vectors(&self, first: u32, files: Vec<Option<File>>) {
        let mut vectors = lock(&self.vectors);
        for (place, file) in vectors.iter_mut().skip(first as usize).zip(files) {
            *place = file;
        }
    }

    /// Raises an interrupt.
    pub fn interrupt(&self, vector: u16) {
        signal(lock(&self.vectors).get_mut(usize::from(vector)).and_then(Option::as_mut));
    }

    /// The doorbell at a place; 0 where there is none.
    pub fn doorbell(&self, place: u16) -> u32 {
        self.doorbells.get(usize::from(place)).map_or(0, |bell| bell.load(Ordering::Acquire))
    }

    pub fn clear_doorbells(&self) {
        for bell in &self.doorbells {
            bell.store(0, Ordering::Release);
        }
    }
}
