//! Snapshots of a served drive: its data, its model and what decides about losses and faults, at
//! one moment.
//!
//! A snapshot lives as long as the server, so that one which is interrupted is never half there; a
//! clone, which another server can start from, is a folder that appears under its name when it is
//! whole and on the disk.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use drivebay_drive::{Device, DeviceError, Spec};
use drivebay_run::snapshot::{self as state, SnapshotError as StateError};
use drivebay_units::Rng;

use crate::memory_limit::{MemoryLimit, Share, Use};
use crate::store::Store;

/// Memory of a model per page of its flash and of its map, bytes. Measured: 1.5 GB for 512 GB of
/// capacity.
const MODEL_BYTES_PER_PAGE: u64 = 6;
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
    /// Its model would take more memory than is allowed.
    #[error(
        "the model of a snapshot takes {} MB, more than --memory leaves\nhint: forget one, or serve with a larger --memory", .0 / 1_000_000
    )]
    Memory(u64),
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
    /// Makes memory for the next model, which takes longer than to copy it.
    preparing: Option<JoinHandle<Result<NewModel, DeviceError>>>,
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
                if !memory.resize(bytes) {
                    return Err(SnapshotError::Memory(bytes));
                }
                self.preparing = Some(thread::spawn(move || {
                    // A copy has touched all of its memory.
                    let device = Device::new(spec, 0)?.duplicate()?;
                    Ok(NewModel { device, memory })
                }));
                Ok(None)
            }
        }
    }

    /// Takes a snapshot; `model` is from [`Snapshots::memory_for`] the same name. An older one of
    /// that name is dropped once the new one is there.
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

    /// Makes model and data what they were at a snapshot, which stays.
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
        mark_served(&data)?;
        data.sync_all()?;
        state::save(&self.taken[number].device, &partial.path().join("state"))?;
        fs::rename(partial.path(), folder)?;
        // What has its name stays.
        let _ = partial.keep();
        Ok(File::open(parent)?.sync_all()?)
    }
}

/// Says that a file's data is a served drive's, as `targets/safety/marks.py` has it for `--data`:
/// by its inode number, so that a copy is not meant. A file system without attributes has no mark,
/// and the next server asks.
fn mark_served(file: &File) -> io::Result<()> {
    let inode = file.metadata()?.ino().to_string();
    let _ = rustix::fs::fsetxattr(
        file,
        "user.drivebay.served",
        inode.as_bytes(),
        rustix::fs::XattrFlags::empty(),
    );
    Ok(())
}

/// Memory that a model takes, about: nearly all of it is the map and its reverse.
fn model_bytes(spec: &Spec) -> u64 {
    spec.map_entries() * MODEL_BYTES_PER_PAGE
}
