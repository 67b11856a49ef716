//! Snapshots of a served drive: its data, its model and what decides about losses and faults, at one moment.
//!
//! A snapshot lives as long as the server, so that one which is interrupted is never half there; a clone, which
//! another server can start from, is a folder that appears under its name when it is whole and on the disk.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use drivebay_drive::{Device, DeviceError};
use drivebay_run::snapshot::{self as state, SnapshotError as StateError};
use drivebay_units::Rng;

use crate::store::Store;

/// Most snapshots of a drive: each is a copy of its model.
const SNAPSHOTS_MAX: usize = 16;
const NAME_MAX: usize = 64;

/// Why there is no snapshot, or no clone of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// There is none of this name.
    #[error("there is no snapshot {name}\nhint: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names that there are, in words.
        known: String,
    },
    /// Its name is too long.
    #[error("the name of a snapshot has at most {NAME_MAX} bytes\nhint: snapshot aged")]
    Name,
    /// There are too many.
    #[error("there are {SNAPSHOTS_MAX} snapshots, as many as may be\nhint: forget one: {0}")]
    TooMany(String),
    /// A clone does not replace anything.
    #[error("{0} exists\nhint: name a folder that does not, it is made")]
    Exists(PathBuf),
    /// The data could not be read, written or synced.
    #[error("the store failed: {0}\nhint: see the disk: df, dmesg")]
    Store(#[from] io::Error),
    /// The model's state could not be written.
    #[error(transparent)]
    State(#[from] StateError),
    /// There is no memory for another model.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The random numbers that are drawn outside of the model.
#[derive(Clone)]
pub(crate) struct Chance {
    /// Decides what a power cut takes.
    pub losses: Rng,
    /// Decides which requests a fault meets.
    pub faults: Rng,
}

/// Without the data: the store has that under the same number.
struct Snapshot {
    name: String,
    device: Device,
    chance: Chance,
}

/// All snapshots of a drive, oldest first.
#[derive(Default)]
pub(crate) struct Snapshots {
    taken: Vec<Snapshot>,
    /// Makes memory for the next model, which takes longer than to copy it.
    preparing: Option<JoinHandle<Result<Device, DeviceError>>>,
    /// How often one was restored.
    pub restored: u64,
}

impl Snapshots {
    fn number(&self, name: &str) -> Result<usize, SnapshotError> {
        let number = self.taken.iter().position(|one| one.name == name);
        number.ok_or_else(|| SnapshotError::Unknown { name: name.to_owned(), known: self.known() })
    }

    fn known(&self) -> String {
        let names: Vec<&str> = self.taken.iter().map(|one| one.name.as_str()).collect();
        if names.is_empty() { "snapshot NAME takes one".to_owned() } else { names.join(", ") }
    }

    /// Memory for a snapshot of this name; none if it is still being made.
    pub fn memory_for(
        &mut self,
        name: &str,
        device: &Device,
    ) -> Result<Option<Device>, SnapshotError> {
        if name.len() > NAME_MAX {
            return Err(SnapshotError::Name);
        }
        if self.taken.len() == SNAPSHOTS_MAX && self.number(name).is_err() {
            return Err(SnapshotError::TooMany(self.known()));
        }
        match self.preparing.take() {
            Some(thread) if thread.is_finished() => {
                Ok(Some(thread.join().expect("it does not panic")?))
            }
            preparing => {
                let spec = device.spec().clone();
                // A copy has touched all of its memory.
                let make = move || Device::new(spec, 0)?.duplicate();
                self.preparing = Some(preparing.unwrap_or_else(|| thread::spawn(make)));
                Ok(None)
            }
        }
    }

    /// Takes a snapshot; `memory` is from [`Snapshots::memory_for`] the same name. An older one of that name is
    /// dropped once the new one is there.
    pub fn take(
        &mut self,
        name: &str,
        memory: Device,
        device: &Device,
        store: &mut Store,
        chance: Chance,
    ) -> Result<(), SnapshotError> {
        let device = device.duplicate_into(memory)?;
        store.take_snapshot()?;
        let older = self.number(name);
        self.taken.push(Snapshot { name: name.to_owned(), device, chance });
        older.map_or(Ok(()), |number| self.drop(number, store))
    }

    fn drop(&mut self, number: usize, store: &mut Store) -> Result<(), SnapshotError> {
        store.drop_snapshot(number)?;
        let dropped = self.taken.remove(number);
        // To return a gigabyte to the system takes a while.
        thread::spawn(move || drop(dropped));
        Ok(())
    }

    /// Makes model and data what they were at a snapshot, which stays.
    pub fn restore(
        &mut self,
        name: &str,
        device: &mut Device,
        store: &mut Store,
    ) -> Result<Chance, SnapshotError> {
        let number = self.number(name)?;
        store.restore_snapshot(number)?;
        let Snapshot { name, device: then, chance } = self.taken.remove(number);
        let memory = std::mem::replace(device, then);
        match device.duplicate_into(memory) {
            Ok(copy) => {
                let snapshot = Snapshot { name, device: copy, chance: chance.clone() };
                self.taken.insert(number, snapshot);
                Ok(chance)
            }
            Err(why) => {
                store.drop_snapshot(number)?;
                Err(why.into())
            }
        }
    }

    /// Ends a snapshot and frees what it took.
    pub fn forget(&mut self, name: &str, store: &mut Store) -> Result<(), SnapshotError> {
        self.drop(self.number(name)?, store)
    }

    /// Writes a snapshot as a new folder with `data` and `state`, as a server takes them.
    pub fn clone_to(&self, name: &str, folder: &Path, store: &Store) -> Result<(), SnapshotError> {
        let number = self.number(name)?;
        if folder.symlink_metadata().is_ok() {
            return Err(SnapshotError::Exists(folder.to_owned()));
        }
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let partial = tempfile::Builder::new().prefix(".drive-clone-").tempdir_in(parent)?;
        let data = File::create_new(partial.path().join("data"))?;
        store.copy_snapshot(number, &data)?;
        data.sync_all()?;
        state::save(&self.taken[number].device, &partial.path().join("state"))?;
        fs::rename(partial.path(), folder)?;
        // What has its name stays.
        let _ = partial.keep();
        Ok(File::open(parent)?.sync_all()?)
    }
}
