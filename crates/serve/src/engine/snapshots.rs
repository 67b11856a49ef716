//! Snapshots of a served drive: its data, its model and what decides about losses and faults, at one moment.
//!
//! The drive is held meanwhile: its clock stands still, commands in flight are served by the model first. A
//! snapshot lives as long as the server, so that one which is interrupted is never half there; a clone, which
//! another server can start from, is a folder that appears under its name when it is whole and on the disk.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use drivebay_drive::{Device, DeviceError};
use drivebay_run::snapshot::{self as state, SnapshotError as StateError};
use drivebay_units::Rng;

use super::Engine;
use crate::inflight::NEVER;

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

/// Without the data: the store has that under the same number.
struct Snapshot {
    name: String,
    device: Device,
    losses: Rng,
    faults: Rng,
}

/// All snapshots of a drive, oldest first.
#[derive(Default)]
pub(super) struct Snapshots {
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
}

impl Engine {
    /// Takes a snapshot, in place of one of the same name. Returns how long the drive was held, seconds of the
    /// host's clock; None if memory for it is being made: to be called again, a little later.
    pub fn snapshot(&mut self, name: &str) -> Result<Option<f64>, SnapshotError> {
        if name.len() > NAME_MAX {
            return Err(SnapshotError::Name);
        }
        let replaced = self.snapshots.number(name).ok();
        if replaced.is_none() && self.snapshots.taken.len() == SNAPSHOTS_MAX {
            return Err(SnapshotError::TooMany(self.snapshots.known()));
        }
        let memory = match (replaced, self.snapshots.preparing.take()) {
            (Some(number), _) => {
                self.store.drop_snapshot(number)?;
                self.snapshots.taken.remove(number).device
            }
            (None, Some(thread)) if thread.is_finished() => {
                thread.join().expect("it does not panic")?
            }
            (None, preparing) => {
                let spec = self.device.spec().clone();
                // A copy has touched all of its memory.
                let make = move || Device::new(spec, 0)?.duplicate();
                self.snapshots.preparing = Some(preparing.unwrap_or_else(|| thread::spawn(make)));
                return Ok(None);
            }
        };
        let held = self.hold(|engine| {
            engine.serve_until(NEVER);
            let device = engine.device().duplicate_into(memory)?;
            engine.store.take_snapshot()?;
            engine.snapshots.taken.push(Snapshot {
                name: name.to_owned(),
                device,
                losses: engine.power_cuts.rng.clone(),
                faults: engine.faults.rng.clone(),
            });
            Ok(())
        })?;
        Ok(Some(held))
    }

    /// Makes the drive what it was at a snapshot, which stays. Commands in flight never complete, and
    /// connections drop, as hosts know another drive than this. Returns as [`Engine::snapshot`].
    ///
    /// # Errors
    /// [`SnapshotError`]. An error of the store leaves neither the old nor the new data.
    pub fn restore(&mut self, name: &str) -> Result<f64, SnapshotError> {
        let number = self.snapshots.number(name)?;
        self.hold(|engine| {
            engine.inflight.clear();
            engine.lateness.drop_answers();
            engine.snapshots.restored += 1;
            engine.store.restore_snapshot(number)?;
            let snapshot = engine.snapshots.taken.remove(number);
            let memory = std::mem::replace(&mut engine.device, snapshot.device);
            let device = engine.device.duplicate_into(memory);
            let device = device.inspect_err(|_| {
                let _ = engine.store.drop_snapshot(number);
            })?;
            engine.power_cuts.rng = snapshot.losses.clone();
            engine.faults.rng = snapshot.faults.clone();
            engine.clock.go_back(engine.device.now());
            engine.snapshots.taken.insert(number, Snapshot { device, ..snapshot });
            Ok(())
        })
    }

    /// Ends a snapshot and frees what it took.
    pub fn forget_snapshot(&mut self, name: &str) -> Result<f64, SnapshotError> {
        let number = self.snapshots.number(name)?;
        self.hold(|engine| {
            engine.store.drop_snapshot(number)?;
            engine.snapshots.taken.remove(number);
            Ok(())
        })
    }

    /// Writes a snapshot as a new folder with `data` and `state`, as a server takes them. Returns as
    /// [`Engine::snapshot`].
    pub fn clone_snapshot(&mut self, name: &str, folder: &Path) -> Result<f64, SnapshotError> {
        let number = self.snapshots.number(name)?;
        if folder.symlink_metadata().is_ok() {
            return Err(SnapshotError::Exists(folder.to_owned()));
        }
        self.hold(|engine| {
            let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            let partial = tempfile::Builder::new().prefix(".drive-clone-").tempdir_in(parent)?;
            let data = File::create_new(partial.path().join("data"))?;
            engine.store.copy_snapshot(number, &data)?;
            data.sync_all()?;
            let device = &engine.snapshots.taken[number].device;
            state::save(device, &partial.path().join("state"))?;
            fs::rename(partial.path(), folder)?;
            // What has its name stays.
            let _ = partial.keep();
            File::open(parent)?.sync_all()?;
            Ok(())
        })
    }

    /// Does `work` while the drive's clock stands still.
    fn hold(
        &mut self,
        work: impl FnOnce(&mut Engine) -> Result<(), SnapshotError>,
    ) -> Result<f64, SnapshotError> {
        let began = Instant::now();
        self.clock.begin_iteration();
        let done = work(self);
        self.clock.resume();
        done.map(|()| began.elapsed().as_secs_f64())
    }
}
