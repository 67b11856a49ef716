//! State that the vfio-user thread and the event loop share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::pci::guest::Guest;

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

/// Message to the device in the event loop.
pub(super) enum Message {
    /// CC was written; current values of all registers.
    Configure(Registers),
    /// A doorbell was written.
    Doorbell,
    /// The guest has reset the device, or the client has disconnected.
    Reset,
}

/// State of both sides.
pub(super) struct Shared {
    /// Memory of the guest, and an interrupt vector for each queue.
    pub guest: Arc<Guest>,
    /// CSTS.
    pub status: AtomicU32,
    /// Submission tail and completion head of each queue.
    pub doorbells: Box<[AtomicU32]>,
    /// True while a [`Message::Doorbell`] is pending.
    pub doorbell_sent: AtomicBool,
}

impl Shared {
    /// Creates the state for this number of queues, including the admin queue.
    pub fn new(queues: u16) -> Shared {
        Shared {
            guest: Arc::new(Guest::new(queues)),
            status: AtomicU32::new(0),
            doorbells: (0..2 * queues).map(|_| AtomicU32::new(0)).collect(),
            doorbell_sent: AtomicBool::new(false),
        }
    }

    /// Value of the doorbell at an index; 0 if it does not exist.
    pub fn doorbell(&self, place: u16) -> u32 {
        self.doorbells.get(usize::from(place)).map_or(0, |bell| bell.load(Ordering::Acquire))
    }

    pub fn clear_doorbells(&self) {
        for bell in &self.doorbells {
            bell.store(0, Ordering::Release);
        }
    }
}
