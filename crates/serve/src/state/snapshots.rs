//! Snapshots of a served drive: its data, its model and the random generators for losses and
//! faults, at one moment.
//!
//! Snapshots live only as long as the server, so an interrupted one never remains incomplete. A
//! clone, which another server can start from, is a folder that gets its name only when it is
//! complete and on the disk.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use drivebay_drive::{Device, DeviceError, Spec};
use drivebay_run::snapshot::{self as state, SnapshotError as StateError};
use drivebay_units::{Rng, refuse_if};

use crate::memory_limit::{MemoryLimit, Share, Use};
use crate::store::Store;

/// Memory of a model per page of its flash and of its map, bytes. Measured: 1.5 GB for 512 GB of
/// capacity.
const MODEL_BYTES_PER_PAGE: u64 = 6;
/// Most snapshots of a drive: each is a copy of its model.
const SNAPSHOTS_MAX: usize = 16;
const NAME_MAX: usize = 64;

/// Reason for which a snapshot or a clone failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// No snapshot has this name.
    #[error("there is no snapshot {name}\nhint: {known}")]
    Unknown {
        /// Requested name.
        name: String,
        /// Known names, or a hint if there are none.
        known: String,
    },
    /// The name is too long.
    #[error("the name of a snapshot can have at most {NAME_MAX} bytes\nhint: snapshot aged")]
    Name,
    /// There are too many snapshots.
    #[error("there are already {SNAPSHOTS_MAX} snapshots, the maximum\nhint: forget one: {0}")]
    TooMany(String),
    /// The model would take more memory than is allowed.
    #[error(
        "the model of a snapshot takes {} MB, more than --memory leaves\nhint: forget one, or serve with a larger --memory", .0 / 1_000_000
    )]
    Memory(u64),
    /// The folder of a clone already exists.
    #[error("{0} exists\nhint: name a folder that does not exist; it is created")]
    Exists(PathBuf),
    /// The data could not be read, written or synced.
    #[error("the store failed: {0}\nhint: check the disk: df, dmesg")]
    Store(#[from] io::Error),
    /// The model's state could not be written.
    #[error(transparent)]
    State(#[from] StateError),
    /// There is no memory for another model.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Random generators outside of the model.
#[derive(Clone)]
pub(crate) struct Chance {
    /// Draws the losses of a power cut.
    pub losses: Rng,
    /// Draws the requests that a fault affects.
    pub faults: Rng,
}

/// Snapshot without its data, which the store has under the same number.
struct Snapshot {
    name: String,
    device: Device,
    chance: Chance,
    memory: Share,
}

/// Memory for the model of a snapshot.
pub(crate) struct NewModel {
    device: Device,
    memory: Share,
}

/// All snapshots of a drive, oldest first.
#[derive(Default)]
pub(crate) struct Snapshots {
    taken: Vec<Snapshot>,
    /// Thread that prepares memory for the next model, which takes longer than to copy the model.
    preparing: Option<JoinHandle<Result<NewModel, DeviceError>>>,
    /// Number of restored snapshots.
    pub restored: u64,
}

impl Snapshots {
    fn number(&self, name: &str) -> Result<usize, SnapshotError> {
        let number = self.taken.iter().position(|snapshot| snapshot.name == name);
        number.ok_or_else(|| SnapshotError::Unknown { name: name.to_owned(), known: self.known() })
    }

    fn known(&self) -> String {
        let names: Vec<&str> = self.taken.iter().map(|snapshot| snapshot.name.as_str()).collect();
        if names.is_empty() { "there are none: snapshot NAME".to_owned() } else { names.join(", ") }
    }

    /// Returns memory for a snapshot of this name; `None` while it is being prepared.
    pub fn memory_for(
        &mut self,
        name: &str,
        device: &Device,
        limit: &MemoryLimit,
    ) -> Result<Option<NewModel>, SnapshotError> {
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
            Some(preparing) => {
                self.preparing = Some(preparing);
                Ok(None)
            }
            None => {
                let spec = device.spec().clone();
                let bytes = model_bytes(&spec);
                let mut memory = limit.share(Use::Data);
                refuse_if(!memory.resize(bytes), SnapshotError::Memory(bytes))?;
                self.preparing = Some(thread::spawn(move || {
                    // The duplicate has touched all of its memory.
                    let device = Device::new(spec, 0)?.duplicate()?;
                    Ok(NewModel { device, memory })
                }));
                Ok(None)
            }
        }
    }

    /// Takes a snapshot; `model` is from [`Snapshots::memory_for`] with the same name. An older
    /// snapshot of that name is dropped after the new one is complete.
    pub fn take(
        &mut self,
        name: &str,
        model: NewModel,
        device: &Device,
        store: &mut Store,
        chance: Chance,
    ) -> Result<(), SnapshotError> {
        let NewModel { device: into, memory } = model;
        let device = device.duplicate_into(into)?;
        store.take_snapshot()?;
        let older = self.number(name);
        self.taken.push(Snapshot { name: name.to_owned(), device, chance, memory });
        older.map_or(Ok(()), |number| self.drop(number, store))
    }

    fn drop(&mut self, number: usize, store: &mut Store) -> Result<(), SnapshotError> {
        store.drop_snapshot(number)?;
        let device = self.taken.remove(number).device;
        // To return a gigabyte to the system takes a while.
        thread::spawn(move || drop(device));
        Ok(())
    }

    /// Restores model and data to a snapshot, which is kept.
    pub fn restore(
        &mut self,
        name: &str,
        device: &mut Device,
        store: &mut Store,
    ) -> Result<Chance, SnapshotError> {
        let number = self.number(name)?;
        store.restore_snapshot(number)?;
        let Snapshot { name, device: then, chance, memory } = self.taken.remove(number);
        let before = std::mem::replace(device, then);
        match device.duplicate_into(before) {
            Ok(copy) => {
                let snapshot = Snapshot { name, device: copy, chance: chance.clone(), memory };
                self.taken.insert(number, snapshot);
                Ok(chance)
            }
            Err(why) => {
                store.drop_snapshot(number)?;
                Err(why.into())
            }
        }
    }

    /// Deletes a snapshot and frees its memory.
    pub fn forget(&mut self, name: &str, store: &mut Store) -> Result<(), SnapshotError> {
        self.drop(self.number(name)?, store)
    }

    /// Writes a snapshot as a new folder with `data` and `state`, which a server can open.
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
        // The folder, now under its final name, must not be deleted.
        let _ = partial.keep();
        Ok(File::open(parent)?.sync_all()?)
    }
}

/// Approximate memory of a model: nearly all of it is the map and its reverse.
fn model_bytes(spec: &Spec) -> u64 {
    spec.map_entries() * MODEL_BYTES_PER_PAGE
}
