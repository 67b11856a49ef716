//! A drive's namespaces beside its state, in `STATE.namespaces`: JSON, written whole at each
//! change.
//!
//! Namespaces that were resized, made or deleted while the drive was served are so at the next
//! start, also after a server that was killed. The file says from which options they came: other
//! options at a start hold instead, as the user then wants other namespaces.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::ServeError;
use crate::namespace::{KeptNamespace, NamespaceError, NamespaceOptions, NamespaceTable};
use crate::sidecar;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    /// The options of the start.
    asked: Vec<NamespaceOptions>,
    namespaces: Vec<KeptNamespace>,
    #[serde(default)]
    is_placement_off: bool,
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
        NamespaceFile { path: sidecar::path(state, "namespaces"), asked: asked.to_vec() }
    }

    /// The namespaces of a drive of `sectors` that are kept; none if there are none, or they came
    /// from other options.
    pub fn load(
        &self,
        sectors: u64,
        is_read_only: bool,
    ) -> Result<Option<NamespaceTable>, ServeError> {
        let path = self.path.display();
        let (what, hint) = (
            |why: &dyn Display| format!("the namespaces in {path}: {why}"),
            format!("to begin with those of --namespace: rm {path}"),
        );
        let error = |why: io::Error| ServeError::machine(what(&why), &hint);
        let Some(content) = sidecar::load::<Content>(&self.path).map_err(error)? else {
            return Ok(None);
        };
        if content.asked != self.asked {
            return Ok(None);
        }
        let namespaces = NamespaceTable::restore(&content.namespaces, sectors, is_read_only);
        // Its own hint is about the drive, which is as it is.
        let said = |why: NamespaceError| why.to_string().lines().next().unwrap_or("").to_owned();
        let namespaces = namespaces.map(|mut all| {
            all.set_placed(!content.is_placement_off);
            Some(all)
        });
        namespaces.map_err(|why| ServeError::refused(what(&said(why)), &hint))
    }

    /// Keeps them.
    pub fn save(&self, namespaces: &NamespaceTable) -> Result<(), ServeError> {
        let content = Content {
            asked: self.asked.clone(),
            namespaces: namespaces.to_keep(),
            is_placement_off: namespaces.is_placement_off(),
        };
        sidecar::save(&self.path, &content).map_err(|why| {
            let what = format!("the namespaces cannot be kept in {}: {why}", self.path.display());
            ServeError::machine(what, "see the disk and who may write: df, ls -ld")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::drive::Namespaces;

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
        let mut namespaces = NamespaceTable::new(&[of(1 << 20)], SECTORS).expect("room");
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
        file.save(&NamespaceTable::new(&[of(1 << 20)], SECTORS).expect("room")).expect("a folder");
        let error = refused();
        assert!(error.contains("namespace 1 cannot have 1048576 bytes"), "{error}");
        assert_eq!(error.lines().count(), 2, "{error}");
    }
}
