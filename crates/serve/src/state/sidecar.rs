//! JSON files next to a drive's state, `STATE.NAME`: read at a start, written completely.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Returns the path of the file with this name.
pub(crate) fn path(state: &Path, name: &str) -> PathBuf {
    let mut path = state.as_os_str().to_owned();
    path.push(format!(".{name}"));
    path.into()
}

/// Reads the file, if it exists. Does not wait for a pipe.
pub(crate) fn load<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match path.metadata() {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is not a regular file")),
        _ => Ok(Some(serde_json::from_slice(&fs::read(path)?)?)),
    }
}

/// Replaces the file once the new content is on the disk.
pub(crate) fn save(path: &Path, content: &impl Serialize) -> io::Result<()> {
    let new = self::path(path, "new");
    let mut file = File::create(&new)?;
    file.write_all(&serde_json::to_vec(content)?)?;
    file.sync_all()?;
    fs::rename(new, path)
}

/// Serializes structures of the specification as their bytes: for `serde(with)`.
pub(crate) mod as_bytes {
    use std::collections::VecDeque;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use zerocopy::{FromBytes, Immutable, IntoBytes};

    pub(crate) fn serialize<T: IntoBytes + Immutable, S: Serializer>(
        all: &VecDeque<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().map(IntoBytes::as_bytes))
    }

    pub(crate) fn deserialize<'de, T: FromBytes, D: Deserializer<'de>>(
        from: D,
    ) -> Result<VecDeque<T>, D::Error> {
        let all = Vec::<Vec<u8>>::deserialize(from)?;
        let encode = |bytes: &Vec<u8>| {
            T::read_from_bytes(bytes).map_err(|_| D::Error::custom("an entry has the wrong length"))
        };
        all.iter().map(encode).collect()
    }
}
