//! What the vfio-user thread and the event loop share.

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
    /// Its memory, and an interrupt vector for each queue.
    pub guest: Arc<Guest>,
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
            guest: Arc::new(Guest::new(queues)),
            status: AtomicU32::new(0),
            doorbells: (0..2 * queues).map(|_| AtomicU32::new(0)).collect(),
            doorbell_sent: AtomicBool::new(false),
        }
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
