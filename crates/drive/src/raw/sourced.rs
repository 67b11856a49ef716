//! Values that say where they are from.

use serde::{Deserialize, Serialize};

/// A value and where it is from.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    /// The value, in the unit that its name ends with.
    pub value: T,
    /// A publication, a computation from one, or `guess: what it was fitted to`.
    pub source: String,
    /// What is plausible; the value must lie within.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
}

/// A number with its source.
pub type Number = Sourced<f64>;
/// A word with its source.
pub type Word = Sourced<String>;
