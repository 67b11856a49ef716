//! A drive's namespaces beside its state, in `STATE.namespaces`: JSON, written whole at each change.
//!
//! Namespaces that were resized, made or deleted while the drive was served are so at the next start, also after a server that was
//! killed. The file says from which options they came: other options at a start hold instead, as the user then
//! wants other namespaces.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::namespace::{KeptNamespace, NamespaceError, NamespaceOptions, Namespaces};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    /// The options of the start.
    asked: Vec<NamespaceOptions>,
    namespaces: Vec<KeptNamespace>,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceFileError {
    /// It cannot be read, or something else is in it.
    #[error(
        "the namespaces in {path}: {why}\nhint: to begin with those of --namespace: rm {path}", path = .0.display(), why = .1
    )]
    File(PathBuf, io::Error),
    /// It cannot be written.
    #[error("the namespaces cannot be kept in {path}: {why}\nhint: see the disk and who may write: df, ls -ld", path = .0.display(), why = .1)]
    Kept(PathBuf, io::Error),
    /// They are not of this drive.
    #[error(
        "the namespaces in {path}: {why}; to begin with those of --namespace: rm {path}", path = .0.display(), why = .1
    )]
    Namespaces(PathBuf, NamespaceError),
}

/// The file, and the options of this start.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceFile {
    path: PathBuf,
    asked: Vec<NamespaceOptions>,
}

impl NamespaceFile {
    /// Beside this state.
    pub fn beside(state: &Path, asked: &[NamespaceOptions]) -> NamespaceFile {
        let mut path = state.as_os_str().to_owned();
        path.push(".namespaces");
        NamespaceFile { path: path.into(), asked: asked.to_vec() }
    }

    /// The namespaces of a drive of `sectors` that are kept; none if there are none, or they came from other options.
    pub fn load(
        &self,
        sectors: u64,
        is_read_only: bool,
    ) -> Result<Option<Namespaces>, NamespaceFileError> {
        let error = |why| NamespaceFileError::File(self.path.clone(), why);
        if self.path.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(error(io::Error::other("it is not a regular file")));
        }
        let text = match fs::read(&self.path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(error)?,
        };
        let content: Content = serde_json::from_slice(&text).map_err(|why| error(why.into()))?;
        if content.asked != self.asked {
            return Ok(None);
        }
        let namespaces = Namespaces::restore(&content.namespaces, sectors, is_read_only);
        namespaces.map(Some).map_err(|why| NamespaceFileError::Namespaces(self.path.clone(), why))
    }

    /// Keeps them.
    pub fn save(&self, namespaces: &Namespaces) -> Result<(), NamespaceFileError> {
        self.write(namespaces).map_err(|why| NamespaceFileError::Kept(self.path.clone(), why))
    }

    fn write(&self, namespaces: &Namespaces) -> io::Result<()> {
        let content = Content { asked: self.asked.clone(), namespaces: namespaces.to_keep() };
        let mut beside = self.path.clone().into_os_string();
        beside.push(".new");
        let mut file = File::create(&beside)?;
        file.write_all(&serde_json::to_vec(&content)?)?;
        file.sync_all()?;
        fs::rename(beside, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTORS: u64 = 1 << 20;

    fn of(bytes: u64) -> NamespaceOptions {
        NamespaceOptions { bytes, start_bytes: None, is_read_only: false }
    }

    #[test]
    fn namespaces_are_kept_for_the_options_that_they_came_from() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        let file = NamespaceFile::beside(&state, &[of(1 << 20)]);
        assert!(file.load(SECTORS, false).expect("no file").is_none());
        let mut namespaces = Namespaces::new(&[of(1 << 20)], SECTORS).expect("room");
        namespaces.resize(1, 2 << 20).expect("room");
        file.save(&namespaces).expect("a folder");
        let found = file.load(SECTORS, false).expect("readable").expect("kept");
        assert_eq!(found.to_keep(), namespaces.to_keep());
        let protected = file.load(SECTORS, true).expect("readable").expect("kept");
        assert!(protected.any_is_read_only());
        let other = NamespaceFile::beside(&state, &[of(4 << 20)]);
        assert!(other.load(SECTORS, false).expect("readable").is_none());
    }

    #[test]
    fn what_is_no_such_file_is_refused_with_a_way_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = NamespaceFile::beside(&folder.path().join("state"), &[of(1 << 20)]);
        let refused = || file.load(8, false).expect_err("refused").to_string();
        fs::write(&file.path, "{}").expect("a folder");
        assert!(refused().contains("hint: to begin with those of --namespace: rm "));
        file.save(&Namespaces::new(&[of(1 << 20)], SECTORS).expect("room")).expect("a folder");
        let error = refused();
        assert!(error.contains("namespace 1 cannot have 1048576 bytes"), "{error}");
        assert_eq!(error.lines().count(), 2, "{error}");
    }
}
