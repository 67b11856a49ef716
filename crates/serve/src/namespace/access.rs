//! Access to the namespaces through one portal of several.

use serde::{Deserialize, Serialize};

/// State of Asymmetric Namespace Access, with the codes of its log page. Source: NVM Express base
/// specification 2.1, section 8.1.1.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessState {
    /// The best path.
    #[default]
    Optimized = 0x1,
    /// A path that hosts use if there is no better one; this drive is as fast on it.
    NonOptimized = 0x2,
    /// Commands fail; the path may become usable.
    Inaccessible = 0x3,
    /// Commands fail, and the path stays unusable.
    PersistentLoss = 0x4,
    /// The state is changing: commands fail.
    Change = 0xf,
}
