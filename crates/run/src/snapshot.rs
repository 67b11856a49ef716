//! The state of a drive as a file, prepared once and used by many runs.
//!
//! Layout, little-endian: magic (8 bytes), format version (u32), fingerprint of the profile (u128),
//! the state compressed with zstd (RFC 8878), checksum of all preceding bytes (XXH3, 64 bits). The
//! checksum is verified before anything is decompressed. A file is written to a temporary file in
//! the same folder, synced, and renamed. The fingerprint covers the profile's values; sources,
//! ranges, variants and titles do not matter. Not in the file: the profile itself, the seed of a
//! workload, results. A state belongs to the model version that made it: store the model's version
//! along with states that are kept longer.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use drivebay_drive::{Device, STATE_VERSION, Spec, StateError};
use serde_json::Value;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

const MAGIC: [u8; 8] = *b"dbstate\n";
/// Increased when the file layout changes; the state inside has its own version, `STATE_VERSION`.
const FILE_VERSION: u32 = 1;
const VERSION: u32 = FILE_VERSION << 16 | STATE_VERSION;
const HEADER_BYTES: u64 = 8 + 4 + 16;
const CHECKSUM_BYTES: u64 = 8;
/// A fast level, as maps are runs, or noise: 6 % larger files than at level 1, in two thirds of the
/// time.
const LEVEL: i32 = -1;
/// Limit of the decoder's window (4 MiB); files written here need no more.
const WINDOW_LOG_MAX: u32 = 22;

/// Reason why a state was not saved or not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file or its folder cannot be accessed.
    #[error(
        "{doing} {path}: {error}\nhint: use a file in an existing folder, with free space and permission"
    )]
    File {
        /// The failed action.
        doing: &'static str,
        /// The file.
        path: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The file is not a saved state.
    #[error("{0} is not a saved state of a drive\nhint: use a file written by VirtualDrive.save")]
    Foreign(String),
    /// The file has another format version.
    #[error(
        "{path} was saved in version {version} of the format, this is version {VERSION}\nhint: prepare the drive again, and save it"
    )]
    Version {
        /// The file.
        path: String,
        /// Its version.
        version: u32,
    },
    /// The content has changed, or the end is missing.
    #[error("{path} is damaged: {what}\nhint: prepare the drive again, and save it")]
    Damaged {
        /// The file.
        path: String,
        /// Description of the damage.
        what: String,
    },
    /// The state belongs to another profile.
    #[error(
        "{path} is the state of a drive with another profile than {name}\nhint: restore it into a drive with the profile it was saved with, including its changes"
    )]
    Profile {
        /// The file.
        path: String,
        /// Name of the requested drive.
        name: String,
    },
    /// The machine has too little memory for the drive.
    #[error("{0}")]
    Memory(String),
}

/// Writes a drive's state to `path` atomically: on failure the file keeps its former content.
///
/// # Errors
/// [`SnapshotError::File`].
pub fn save(device: &Device, path: &Path) -> Result<(), SnapshotError> {
    write_and_rename(device, path)
        .map_err(|error| file_error("cannot save a drive to", path, error))
}

fn write_and_rename(device: &Device, path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::Builder::new();
    temporary.prefix(".drive-state-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Default permissions of a new file; the umask applies.
        temporary.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = temporary.tempfile_in(folder)?;
    write(device, file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|e| e.error)?;
    File::open(folder)?.sync_all()
}

/// Writes a drive's state to a stream, in the format of a state file.
///
/// # Errors
/// Errors of the stream.
pub fn write(device: &Device, out: impl Write) -> io::Result<()> {
    let mut out = Hashed { inner: out, hash: Xxh3::new() };
    out.write_all(&MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&fingerprint(device.spec()).to_le_bytes())?;
    let mut packed = zstd::Encoder::new(&mut out, LEVEL)?;
    device.save(&mut packed)?;
    packed.finish()?;
    let checksum = out.hash.digest();
    out.inner.write_all(&checksum.to_le_bytes())?;
    out.inner.flush()
}

/// Creates a drive of this profile in the state that was saved to `path`.
///
/// `memory`: a drive whose memory is reused where it fits.
///
/// # Errors
/// [`SnapshotError`].
pub fn restore(spec: Spec, memory: Option<Device>, path: &Path) -> Result<Device, SnapshotError> {
    let doing = "cannot read a drive's state from";
    let mut file = File::open(path).map_err(|error| file_error(doing, path, error))?;
    read(spec, memory, &mut file, &path.display().to_string()).map_err(|error| match error {
        SnapshotError::File { error, .. } => file_error(doing, path, error),
        other => other,
    })
}

/// Restores a drive from the output of [`write`], as [`restore`] does; errors refer to it as
/// `path`.
///
/// # Errors
/// [`SnapshotError`].
pub fn read(
    spec: Spec,
    memory: Option<Device>,
    from: &mut (impl Read + Seek),
    path: &str,
) -> Result<Device, SnapshotError> {
    let file = |error| file_error("cannot read", Path::new(path), error);
    let damaged = |what: String| SnapshotError::Damaged { path: path.to_owned(), what };
    let len = from.seek(SeekFrom::End(0)).map_err(file)?;
    from.rewind().map_err(file)?;
    let mut header = [0; HEADER_BYTES as usize];
    if len < HEADER_BYTES + CHECKSUM_BYTES || from.read_exact(&mut header).is_err() {
        return Err(SnapshotError::Foreign(path.to_owned()));
    }
    let (magic, rest) = header.split_at(8);
    let (version, profile) = rest.split_at(4);
    if magic != MAGIC {
        return Err(SnapshotError::Foreign(path.to_owned()));
    }
    let version = u32::from_le_bytes(version.try_into().expect("4 bytes"));
    if version != VERSION {
        return Err(SnapshotError::Version { path: path.to_owned(), version });
    }
    from.rewind().map_err(file)?;
    let sum = checksum(&mut from.take(len - CHECKSUM_BYTES)).map_err(file)?;
    let mut given = [0; CHECKSUM_BYTES as usize];
    from.read_exact(&mut given).map_err(file)?;
    if sum != u64::from_le_bytes(given) {
        return Err(damaged("its checksum does not match".to_owned()));
    }
    if profile != fingerprint(&spec).to_le_bytes() {
        let name = spec.raw.drive.name.clone();
        return Err(SnapshotError::Profile { path: path.to_owned(), name });
    }
    from.seek(SeekFrom::Start(HEADER_BYTES)).map_err(file)?;
    let packed = BufReader::new(from.take(len - HEADER_BYTES - CHECKSUM_BYTES));
    let mut unpacked = zstd::Decoder::with_buffer(packed).map_err(file)?;
    unpacked.window_log_max(WINDOW_LOG_MAX).map_err(file)?;
    Device::restore(spec, memory, &mut unpacked).map_err(|error| match error {
        StateError::Memory(problem) => SnapshotError::Memory(problem),
        other => damaged(other.to_string()),
    })
}

/// Hash of a profile's values: equal for two profiles of the same drive.
#[must_use]
pub fn fingerprint(spec: &Spec) -> u128 {
    let mut values = serde_json::to_value(&spec.raw).expect("a profile is data");
    strip(&mut values);
    xxh3_128(values.to_string().as_bytes())
}

/// Removes everything but the profile's values, and sorts them by name.
fn strip(value: &mut Value) {
    match value {
        Value::Array(entries) => entries.iter_mut().for_each(strip),
        Value::Object(table) => {
            for about in ["source", "range", "variants", "title"] {
                table.remove(about);
            }
            table.values_mut().for_each(strip);
            table.sort_keys();
        }
        _ => {}
    }
}

fn checksum(from: &mut impl Read) -> io::Result<u64> {
    let mut hash = Xxh3::new();
    let mut bytes = vec![0; 1 << 18];
    loop {
        match from.read(&mut bytes)? {
            0 => return Ok(hash.digest()),
            n => hash.update(&bytes[..n]),
        }
    }
}

fn file_error(doing: &'static str, path: &Path, error: io::Error) -> SnapshotError {
    SnapshotError::File { doing, path: path.display().to_string(), error }
}

/// Writer that computes the checksum of the bytes it passes on.
struct Hashed<W> {
    inner: W,
    hash: Xxh3,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.hash.update(&bytes[..n]);
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
