//! Opens a recording of either format, detected by its first bytes.

use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::dm_log_writes;
use crate::recording::{CrashError, MAGIC, Recording};

impl Recording {
    /// Reads a recording, or a log of dm-log-writes; a truncated file is used up to its last
    /// complete record.
    ///
    /// # Errors
    /// The file cannot be read, or has neither format.
    pub fn open(path: &Path) -> Result<Recording, CrashError> {
        let failed = |why| CrashError::file(path, why);
        let foreign = || CrashError::Foreign(path.display().to_string());
        let file = File::open(path).map_err(failed)?;
        let mut magic = [0; 16];
        let got = file.read_at(&mut magic, 0).map_err(failed)?;
        let is_own = got == magic.len() && magic == *MAGIC;
        if !is_own && !dm_log_writes::is_log(&magic) {
            return Err(foreign());
        }
        let mut recording = Recording::empty(file.try_clone().map_err(failed)?);
        let mut from = BufReader::with_capacity(1 << 18, file);
        let read = match is_own {
            true => recording.read(&mut from),
            false => dm_log_writes::read_log(&mut recording, &mut from),
        };
        match read {
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => recording.is_truncated = true,
            Err(why) if why.kind() == io::ErrorKind::InvalidData => return Err(foreign()),
            other => other.map_err(failed)?,
        }
        Ok(recording)
    }
}
