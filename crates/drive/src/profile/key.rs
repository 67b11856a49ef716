//! Keys of a profile: values with their sources, rules for allowed values, and error messages.
//!
//! From one declaration, [`sections!`] generates the type that is read and the check of every value
//! by its dotted name; `scripts/docgen/profiles.py` generates the documentation page from it.

use std::ops::RangeInclusive;

use drivebay_units::Nanos;
use serde::{Deserialize, Serialize};

/// Reason why a profile was refused. The text is shown as `error:`, and the text after the line
/// break as `hint:`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The text is not TOML or JSON, or has unknown, missing or mistyped fields.
    #[error(
        "{field}: {problem}\nhint: compare with a profile of the catalog, for example drives/sm951-ahci-512.toml"
    )]
    Malformed {
        /// Dotted path of the field.
        field: String,
        /// Message of the parser.
        problem: String,
    },
    /// A number outside the allowed values of the model or outside the range in the profile.
    #[error("{field}: {given} is not allowed; must be {allowed}\nhint: {hint}")]
    OutOfRange {
        /// Dotted path of the field.
        field: String,
        /// Value in the profile.
        given: String,
        /// Allowed values.
        allowed: String,
        /// Hint shown to the user.
        hint: String,
    },
    /// A value without a source.
    #[error(
        "{field}: has no source\nhint: add source = \"...\" with a publication, or \"guess: what it was fitted to\""
    )]
    NoSource {
        /// Dotted path of the field.
        field: String,
    },
}

impl SpecError {
    pub(super) fn out(
        field: &str,
        given: impl ToString,
        allowed: impl Into<String>,
        hint: &str,
    ) -> SpecError {
        SpecError::OutOfRange {
            field: field.to_owned(),
            given: given.to_string(),
            allowed: allowed.into(),
            hint: hint.to_owned(),
        }
    }
}

/// A value and its source.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    /// Value, in the unit at the end of the key's name.
    pub value: T,
    /// Publication, computation from one, or `guess: what it was fitted to`.
    pub source: String,
    /// Plausible range, which must contain the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
}

/// A number with its source.
pub type Number = Sourced<f64>;
/// A whole number with its source.
pub type Whole = Sourced<u64>;
/// A string with its source.
pub type Word = Sourced<String>;
/// A boolean with its source.
pub type Flag = Sourced<bool>;
/// Numbers with a common source.
pub type Numbers = Sourced<Vec<f64>>;

/// A key of a profile: a sourced value, a section, or an optional one of these.
pub trait Key {
    /// Rule for the allowed values; `()` if the part that uses the value checks it.
    type Rule;
    /// Checks the value, or all values of a section.
    fn check(&self, field: &str, rule: Self::Rule) -> Result<(), SpecError>;
    /// True if the profile does not have the key.
    fn is_absent(&self) -> bool {
        false
    }
}

impl<V: Value> Key for Sourced<V> {
    type Rule = V::Rule;
    fn check(&self, field: &str, rule: V::Rule) -> Result<(), SpecError> {
        if matches!(self.source.trim(), "" | "guess:" | "guess") {
            return Err(SpecError::NoSource { field: field.to_owned() });
        }
        self.value.check(field, rule)?;
        match (self.range, self.value.number()) {
            (Some([low, high]), Some(value)) if !(low <= value && value <= high) => {
                let allowed = format!("in the profile's own range {low} to {high}");
                let hint = "change the value, or its range in the profile and the range's source";
                Err(SpecError::out(field, value, allowed, hint))
            }
            _ => Ok(()),
        }
    }
}

impl<K: Key> Key for Option<K> {
    type Rule = K::Rule;
    fn check(&self, field: &str, rule: K::Rule) -> Result<(), SpecError> {
        self.as_ref().map_or(Ok(()), |key| key.check(field, rule))
    }
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<S: Key<Rule = ()>> Key for Vec<S> {
    type Rule = ();
    fn check(&self, field: &str, (): ()) -> Result<(), SpecError> {
        let mut all = self.iter().enumerate();
        all.try_for_each(|(i, section)| section.check(&format!("{field}[{i}]"), ()))
    }
}

/// Implements [`Key`] for fields that the model does not use: text for people, and changes that
/// others apply to the profile.
macro_rules! unchecked {
    ($($type:ty),+) => {$(
        impl Key for $type {
            type Rule = ();
            fn check(&self, _: &str, (): ()) -> Result<(), SpecError> {
                Ok(())
            }
        }
    )+};
}
unchecked!(String, serde_json::Map<String, serde_json::Value>);

/// A type of value that can have a source.
pub trait Value {
    /// Rule for the allowed values, set by the schema.
    type Rule;
    /// Checks the value against the rule; `field` names it in the error message.
    fn check(&self, field: &str, rule: Self::Rule) -> Result<(), SpecError>;
    /// Value as a number that the profile's own range may bound.
    fn number(&self) -> Option<f64> {
        None
    }
}

fn bounds_hint(field: &str) -> String {
    format!("set {field} = {{ value = ..., source = \"...\" }} within these bounds")
}

impl Value for f64 {
    type Rule = RangeInclusive<f64>;
    fn check(&self, field: &str, rule: RangeInclusive<f64>) -> Result<(), SpecError> {
        if self.is_finite() && rule.contains(self) {
            return Ok(());
        }
        let allowed = format!("a number from {} to {}", rule.start(), rule.end());
        Err(SpecError::out(field, self, allowed, &bounds_hint(field)))
    }
    fn number(&self) -> Option<f64> {
        Some(*self)
    }
}

/// Rule for a whole number.
#[derive(Default)]
pub enum WholeRule {
    /// No rule: the part that uses the value checks it.
    #[default]
    Any,
    /// Within bounds.
    Within(RangeInclusive<u64>),
    /// A power of two within bounds.
    PowerOfTwo(RangeInclusive<u64>),
}

impl From<RangeInclusive<u64>> for WholeRule {
    fn from(bounds: RangeInclusive<u64>) -> WholeRule {
        WholeRule::Within(bounds)
    }
}

impl Value for u64 {
    type Rule = WholeRule;
    fn check(&self, field: &str, rule: WholeRule) -> Result<(), SpecError> {
        let bounds = match &rule {
            WholeRule::Any => return Ok(()),
            WholeRule::Within(bounds) | WholeRule::PowerOfTwo(bounds) => bounds.clone(),
        };
        let (low, high) = (bounds.start(), bounds.end());
        if !bounds.contains(self) {
            let allowed = format!("a whole number from {low} to {high}");
            return Err(SpecError::out(field, self, allowed, &bounds_hint(field)));
        }
        if matches!(rule, WholeRule::PowerOfTwo(_)) && !self.is_power_of_two() {
            let (below, above) = (1 << self.ilog2(), self.next_power_of_two());
            let hint = format!(
                "use {below} or {above}; capacity can be kept by changing nand.blocks_per_plane"
            );
            let allowed = format!("a power of two from {low} to {high}");
            return Err(SpecError::out(field, self, allowed, &hint));
        }
        Ok(())
    }
    fn number(&self) -> Option<f64> {
        Some(*self as f64)
    }
}

/// Implements [`Value`] for types whose values are checked by the part that uses them.
macro_rules! any_value {
    ($($type:ty),+) => {$(
        impl Value for $type {
            type Rule = ();
            fn check(&self, _: &str, (): ()) -> Result<(), SpecError> {
                Ok(())
            }
        }
    )+};
}
any_value!(bool, u8, u16, Vec<f64>);

/// Allowed strings; any string is allowed if the list is empty.
#[derive(Default)]
pub struct Choices(&'static [&'static str]);

impl<const N: usize> From<&'static [&'static str; N]> for Choices {
    fn from(choices: &'static [&'static str; N]) -> Choices {
        Choices(choices)
    }
}

impl Value for String {
    type Rule = Choices;
    fn check(&self, field: &str, Choices(choices): Choices) -> Result<(), SpecError> {
        if choices.is_empty() || choices.contains(&self.as_str()) {
            return Ok(());
        }
        let hint = format!("set {field}.value = \"{}\"", choices[0]);
        let allowed = format!("one of {}", choices.join(", "));
        Err(SpecError::out(field, format!("\"{self}\""), allowed, &hint))
    }
}

impl Number {
    /// Converts microseconds to time.
    pub fn micros(&self) -> Nanos {
        nanos(self.value)
    }

    /// Converts milliseconds to time.
    pub fn millis(&self) -> Nanos {
        nanos(self.value * 1000.0)
    }

    /// Converts megabytes per second to femtoseconds per byte.
    pub fn fs_per_byte(&self) -> u64 {
        (1e9 / self.value).round() as u64
    }
}

impl Word {
    /// Returns the choice with this name.
    pub fn choose<T: Clone>(&self, field: &str, choices: &[(&str, T)]) -> Result<T, SpecError> {
        if let Some((_, meant)) = choices.iter().find(|(name, _)| *name == self.value) {
            return Ok(meant.clone());
        }
        let names: Vec<&str> = choices.iter().map(|&(name, _)| name).collect();
        let nearest = names.iter().min_by_key(|name| edits(name, &self.value));
        let near = nearest.filter(|name| edits(name, &self.value) <= 1 + name.len() / 3);
        let meant = near.map(|name| format!("did you mean {name}? ")).unwrap_or_default();
        let hint = format!("{meant}set {field}.value = \"{}\"", near.unwrap_or(&names[0]));
        let allowed = format!("one of {}", names.join(", "));
        Err(SpecError::out(field, format!("\"{}\"", self.value), allowed, &hint))
    }
}

/// Number of letters to change, add or remove to turn one string into the other (Levenshtein
/// distance).
fn edits(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut before = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in right.bytes().enumerate() {
            let changed = before + usize::from(a != b);
            before = row[j + 1];
            row[j + 1] = changed.min(before + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

/// True if the key is present and has this value.
pub fn is_word(key: &Option<Word>, word: &str) -> bool {
    key.as_ref().is_some_and(|key| key.value == word)
}

/// True if the flag is present and set.
pub fn is_set(flag: &Option<Flag>) -> bool {
    flag.as_ref().is_some_and(|flag| flag.value)
}

/// Converts microseconds to time.
pub fn nanos(us: f64) -> Nanos {
    Nanos((us * 1000.0).round() as u64)
}

/// Declares sections of a profile: `name: Type = rule`.
macro_rules! sections {
    ($(
        $(#[$about:meta])*
        $section:ident { $($(#[$doc:meta])* $key:ident: $kind:ty $(= $rule:expr)?,)+ }
    )+) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
        #[serde(deny_unknown_fields)]
        pub struct $section {
            $($(#[$doc])* #[serde(skip_serializing_if = "Key::is_absent")] pub $key: $kind,)+
        }

        impl Key for $section {
            type Rule = ();
            fn check(&self, section: &str, (): ()) -> Result<(), SpecError> {
                let dot = if section.is_empty() { "" } else { "." };
                $(
                    let name = format!("{section}{dot}{}", stringify!($key));
                    self.$key.check(&name, $crate::profile::key::rule!($($rule)?))?;
                )+
                Ok(())
            }
        }
    )+};
}

/// Rule with which a key is declared; the default rule if there is none.
macro_rules! rule {
    () => {
        Default::default()
    };
    ($rule:expr) => {
        ($rule).into()
    };
}

pub(crate) use {rule, sections};
