//! Namespaces of a drive next to its state, in `STATE.namespaces`: JSON, written completely at each
//! change.
//!
//! Changes of namespaces while the drive is served (resized, created, deleted) persist at the next
//! start, even after the server was killed. The file includes the options that it was created from:
//! a start with other options uses those instead, as the user then wants other namespaces.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::ServeError;
use crate::namespace::{Namespace, NamespaceOptions, NamespaceTable};
use crate::state::sidecar;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content<N> {
    /// Options of the start.
    asked: Vec<NamespaceOptions>,
    namespaces: Vec<N>,
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
    /// Returns the file next to this state.
    pub fn beside(state: &Path, asked: &[NamespaceOptions]) -> NamespaceFile {
        NamespaceFile { path: sidecar::path(state, "namespaces"), asked: asked.to_vec() }
    }

    /// Loads the saved namespaces of a drive of `sectors`; `None` if there are none, or they were
    /// created from other options.
    pub fn load(
        &self,
        sectors: u64,
        is_read_only: bool,
    ) -> Result<Option<NamespaceTable>, ServeError> {
        let path = self.path.display();
        let hint = format!("to start with those of --namespace: rm {path}");
        let what = |why: &dyn Display| format!("the namespaces in {path}: {why}");
        let content = sidecar::load::<Content<Namespace>>(&self.path);
        let content = content.map_err(|why| ServeError::machine(what(&why), &hint))?;
        let Some(content) = content.filter(|content| content.asked == self.asked) else {
            return Ok(None);
        };
        let restored = NamespaceTable::restore(content.namespaces, sectors, is_read_only);
        let mut namespaces = restored.map_err(|why| {
            // The error's own hint is about the drive, which is unchanged.
            let why = why.to_string();
            ServeError::refused(what(&why.lines().next().unwrap_or_default()), &hint)
        })?;
        namespaces.set_placed(!content.is_placement_off);
        Ok(Some(namespaces))
    }

    /// Saves the namespaces.
    pub fn save(&self, namespaces: &NamespaceTable) -> Result<(), ServeError> {
        let content = Content {
            asked: self.asked.clone(),
            namespaces: namespaces.to_keep(),
            is_placement_off: namespaces.is_placement_off(),
        };
        sidecar::save(&self.path, &content).map_err(|why| {
            let what = format!("the namespaces cannot be saved in {}: {why}", self.path.display());
            ServeError::machine(what, "check the disk and the permissions: df, ls -ld")
        })
    }
}

#[cfg(test)]
#[path = "../../tests/unit/state_namespace_file.rs"]
mod tests;
