//! State of a guest that the vfio-user thread and a device in the event loop share, independent of
//! the kind of device.

use std::fs::File;
use std::io::Write;
use std::sync::Mutex;

use super::memory::GuestMemory;
use crate::lock::lock;

/// Memory and interrupts of a guest.
pub(crate) struct Guest {
    pub memory: Mutex<GuestMemory>,
    /// Event file descriptors by vector.
    vectors: Mutex<Vec<Option<File>>>,
}

impl Guest {
    /// Creates a guest with this number of interrupt vectors.
    pub fn new(vectors: u16) -> Guest {
        let vectors = Mutex::new((0..vectors).map(|_| None).collect());
        Guest { memory: Mutex::default(), vectors }
    }

    /// Number of vectors.
    pub fn vectors(&self) -> u16 {
        lock(&self.vectors).len() as u16
    }

    /// Sets the event file descriptors from `first` on; `None` removes one.
    pub fn set_vectors(&self, first: u32, files: impl Iterator<Item = Option<File>>) {
        let mut vectors = lock(&self.vectors);
        for (place, file) in vectors.iter_mut().skip(first as usize).zip(files) {
            *place = file;
        }
    }

    /// Raises an interrupt; a full counter means that it is pending already.
    pub fn interrupt(&self, vector: u16) {
        if let Some(Some(file)) = lock(&self.vectors).get_mut(usize::from(vector)) {
            let _ = file.write(&1_u64.to_ne_bytes());
        }
    }
}
