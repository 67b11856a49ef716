//! Reads numbers out of a raw profile: source, own range, the model's bounds; and what an error says.

use drivebay_units::Nanos;

use super::constants::PAGE_BYTES;
use crate::raw::{Number, Sourced};

/// Why a profile was refused. Shown as `error:`; what follows the line break as `hint:`.
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
        /// What the parser says.
        problem: String,
    },
    /// A number outside what the model allows or its own stated range.
    #[error("{field}: {given} is not allowed; must be {allowed}\nhint: {hint}")]
    OutOfRange {
        /// Dotted path of the field.
        field: String,
        /// The value.
        given: String,
        /// What would be accepted.
        allowed: String,
        /// What to do.
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

/// Reads numbers out of a raw profile, checking source, own range and the model's bounds.
pub(super) struct Checker;

impl Checker {
    pub(super) fn source<T>(field: &str, value: &Sourced<T>) -> Result<(), SpecError> {
        let text = value.source.trim();
        if text.is_empty() || text == "guess:" || text == "guess" {
            return Err(SpecError::NoSource { field: field.to_owned() });
        }
        Ok(())
    }

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

    pub(super) fn stated<T>(
        field: &str,
        sourced: &Sourced<T>,
        value: f64,
    ) -> Result<(), SpecError> {
        if let Some([low, high]) = sourced.range
            && !(low <= value && value <= high)
        {
            let hint =
                "change the value, or the profile's range for it and the source of that range";
            return Err(Self::out(
                field,
                value,
                format!("in the profile's own range {low} to {high}"),
                hint,
            ));
        }
        Ok(())
    }

    pub(super) fn float(field: &str, n: &Number, low: f64, high: f64) -> Result<f64, SpecError> {
        Self::source(field, n)?;
        if !(n.value.is_finite() && low <= n.value && n.value <= high) {
            let hint =
                format!("set {field} = {{ value = ..., source = \"...\" }} within these bounds");
            return Err(Self::out(field, n.value, format!("a number from {low} to {high}"), &hint));
        }
        Self::stated(field, n, n.value)?;
        Ok(n.value)
    }

    /// Microseconds to nanoseconds; at most one second.
    pub(super) fn micros(field: &str, n: &Number) -> Result<Nanos, SpecError> {
        Ok(nanos(Self::float(field, n, 0.0, 1e6)?))
    }

    pub(super) fn integer(
        field: &str,
        n: &Sourced<u64>,
        low: u64,
        high: u64,
    ) -> Result<u64, SpecError> {
        Self::source(field, n)?;
        if !(low..=high).contains(&n.value) {
            let hint =
                format!("set {field} = {{ value = ..., source = \"...\" }} within these bounds");
            return Err(Self::out(
                field,
                n.value,
                format!("a whole number from {low} to {high}"),
                &hint,
            ));
        }
        Self::stated(field, n, n.value as f64)?;
        Ok(n.value)
    }

    pub(super) fn power_of_two(field: &str, n: &Sourced<u64>, high: u64) -> Result<u64, SpecError> {
        Self::integer(field, n, 1, high)?;
        if !n.value.is_power_of_two() {
            let (below, above) = (1 << n.value.ilog2(), n.value.next_power_of_two());
            let hint = format!(
                "use {below} or {above}; capacity can be kept by changing nand.blocks_per_plane"
            );
            return Err(Self::out(
                field,
                n.value,
                format!("a power of two from 1 to {high}"),
                &hint,
            ));
        }
        Ok(n.value)
    }

    pub(super) fn one_of<T: Clone>(
        field: &str,
        given: &Sourced<String>,
        choices: &[(&str, T)],
    ) -> Result<T, SpecError> {
        Self::source(field, given)?;
        choices
            .iter()
            .find(|(name, _)| *name == given.value)
            .map(|(_, value)| value.clone())
            .ok_or_else(|| {
                let names: Vec<&str> = choices.iter().map(|&(name, _)| name).collect();
                let hint = format!("set {field}.value = \"{}\"", names[0]);
                Self::out(
                    field,
                    format!("\"{}\"", given.value),
                    format!("one of {}", names.join(", ")),
                    &hint,
                )
            })
    }
}

pub(super) fn nanos(us: f64) -> Nanos {
    Nanos((us * 1000.0).round() as u64)
}

pub(super) fn pages_of_mb(mb: f64) -> u64 {
    (mb * 1e6 / PAGE_BYTES as f64).round() as u64
}

pub(super) fn fs_per_byte(mb_per_s: f64) -> u64 {
    (1e9 / mb_per_s).round() as u64
}
