//! Parsers for numbers and fields in text, without allocation except for errors.

use crate::error::{Problem, shown};
use crate::request::TimeUnit;

/// Removes the blanks around a field.
#[inline]
pub(crate) fn trimmed(field: &[u8]) -> &[u8] {
    match field {
        [b' ' | b'\t', ..] | [.., b' ' | b'\t'] => field.trim_ascii(),
        _ => field,
    }
}

/// Parses digits only, up to 2^64 - 1.
#[inline]
fn digits(field: &[u8]) -> Option<u64> {
    if field.is_empty() || field.len() > 20 {
        return None;
    }
    if field.len() < 20 {
        let mut value: u64 = 0;
        for byte in field {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + u64::from(digit);
        }
        return Some(value);
    }
    let is_number = field.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(field).ok().filter(|_| is_number)?.parse().ok()
}

/// Splits a decimal number at its point; `None` without digits on either side.
#[inline]
fn at_point(field: &[u8]) -> Option<(&[u8], &[u8])> {
    let point = field.iter().position(|byte| *byte == b'.').unwrap_or(field.len());
    let (head, tail) = (&field[..point], field.get(point + 1..).unwrap_or_default());
    (!head.is_empty() || !tail.is_empty()).then_some((head, tail))
}

/// Parses a whole number, 0 to 2^64 - 1.
#[inline]
pub(crate) fn whole(field: &[u8], name: &str) -> Result<u64, Problem> {
    let field = trimmed(field);
    digits(field).ok_or_else(|| wrong_number(field, name, "a whole number, 0 or more"))
}

/// Parses a whole number and multiplies it by a unit.
#[inline]
pub(crate) fn scaled(field: &[u8], unit: u64, name: &str) -> Result<u64, Problem> {
    let count = whole(field, name)?;
    count.checked_mul(unit).ok_or_else(|| too_large(field, name))
}

/// Parses a device number.
#[inline]
pub(crate) fn device(field: &[u8], name: &str) -> Result<u32, Problem> {
    u32::try_from(whole(field, name)?).map_err(|_| too_large(field, name))
}

/// Parses a decimal fraction of a unit of `unit_ns` (a power of ten) to whole nanoseconds, rounded
/// down.
#[inline]
pub(crate) fn decimal_ns(field: &[u8], unit_ns: u64, name: &str) -> Result<u64, Problem> {
    let field = trimmed(field);
    let wrong = || wrong_number(field, name, "a decimal number, 0 or more");
    let (head, tail) = at_point(field).ok_or_else(wrong)?;
    let units = if head.is_empty() { 0 } else { digits(head).ok_or_else(wrong)? };
    let mut ns = units.checked_mul(unit_ns).ok_or_else(|| too_large(field, name))?;
    let mut place = unit_ns;
    for byte in tail {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(wrong());
        }
        place /= 10;
        ns = ns.checked_add(place * u64::from(digit)).ok_or_else(|| too_large(field, name))?;
    }
    Ok(ns)
}

/// Parses a decimal number, optionally with an exponent, and multiplies it by `unit`, rounded down;
/// without a unit the number must be whole.
pub(crate) fn measure(field: &[u8], unit: Option<u64>, name: &str) -> Result<u64, Problem> {
    let field = trimmed(field);
    if let Some(value) = digits(field) {
        return value.checked_mul(unit.unwrap_or(1)).ok_or_else(|| too_large(field, name));
    }
    let wrong = || wrong_number(field, name, "a number, 0 or more");
    let e = field.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(field.len());
    let mut exponent: i32 = match field.get(e + 1..).map(std::str::from_utf8) {
        Some(text) => text.ok().and_then(|text| text.parse().ok()).ok_or_else(wrong)?,
        None => 0,
    };
    let (head, tail) = at_point(&field[..e]).ok_or_else(wrong)?;
    let mut value: u128 = 0;
    for byte in head.iter().chain(tail) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(wrong());
        }
        // 19 digits times any unit fit; further digits are below the rounding error.
        match value < 10u128.pow(18) {
            true => value = value * 10 + u128::from(digit),
            false => exponent = exponent.saturating_add(1),
        }
    }
    exponent = exponent.saturating_sub(i32::try_from(tail.len()).unwrap_or(i32::MAX));
    value *= u128::from(unit.unwrap_or(1));
    let power = 10u128.checked_pow(exponent.unsigned_abs());
    let value = match (exponent >= 0, power) {
        _ if value == 0 => Some(0),
        (true, power) => power.and_then(|power| value.checked_mul(power)),
        (false, Some(power)) if unit.is_some() || value.is_multiple_of(power) => {
            Some(value / power)
        }
        (false, None) if unit.is_some() => Some(0),
        (false, _) => {
            let hint = "give its unit: --columns time=ts:s,offset=lba:512";
            let what = format!("{name} is {}, which is not a whole number", shown(field));
            return Err(Problem::of_file(what, hint));
        }
    };
    value.and_then(|value| value.try_into().ok()).ok_or_else(|| too_large(field, name))
}

/// Notation of times in a file.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    /// A power of ten, or 100.
    pub unit_ns: u64,
    decimal: bool,
}

impl Clock {
    /// Creates a clock for whole numbers of a unit.
    pub(crate) const fn whole(unit_ns: u64) -> Clock {
        Clock { unit_ns, decimal: false }
    }

    /// Creates a clock for decimal numbers of a unit.
    pub(crate) const fn decimal(unit_ns: u64) -> Clock {
        Clock { unit_ns, decimal: true }
    }

    /// Returns this clock, or one for decimal numbers of the user's unit.
    pub(crate) fn in_unit(self, unit: Option<TimeUnit>) -> Clock {
        unit.map_or(self, |unit| Clock::decimal(unit.ns()))
    }

    /// Parses a time to whole nanoseconds.
    #[inline]
    pub(crate) fn ns(self, field: &[u8], name: &str) -> Result<u64, Problem> {
        if self.decimal {
            decimal_ns(field, self.unit_ns, name)
        } else {
            scaled(field, self.unit_ns, name)
        }
    }
}

/// Parses a hexadecimal number with the prefix 0x, or a decimal one.
pub(crate) fn hex_or_whole(field: &[u8], name: &str) -> Result<u64, Problem> {
    let field = trimmed(field);
    match field {
        [b'0', b'x' | b'X', hex @ ..] => {
            let text = std::str::from_utf8(hex).ok().filter(|text| !text.starts_with('+'));
            text.and_then(|text| u64::from_str_radix(text, 16).ok())
                .ok_or_else(|| wrong_number(field, name, "a number, 0 or more"))
        }
        _ => whole(field, name),
    }
}

#[cold]
fn wrong_number(field: &[u8], name: &str, must: &str) -> Problem {
    if field.is_empty() {
        return Problem::new(format!("{name} is empty; must be {must}"));
    }
    if let [b'-', rest @ ..] = field
        && rest.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
    {
        return Problem::new(format!("{name} is negative ({}); must be {must}", shown(field)));
    }
    if field.len() >= 20 && field.iter().all(u8::is_ascii_digit) {
        return too_large(field, name);
    }
    Problem::new(format!("{name} is {}; must be {must}", shown(field)))
}

#[cold]
fn too_large(field: &[u8], name: &str) -> Problem {
    Problem::new(format!("{name} is too large ({})", shown(field)))
}

/// Splits a line at separators; fields beyond `N` are counted and dropped.
#[inline]
pub(crate) fn split<const N: usize>(line: &[u8], separator: u8) -> ([&[u8]; N], usize) {
    let mut fields = [&line[..0]; N];
    let (mut count, mut start) = (0, 0);
    for end in memchr::memchr_iter(separator, line).chain([line.len()]) {
        if let Some(field) = fields.get_mut(count) {
            *field = &line[start..end];
        }
        count += 1;
        start = end + 1;
    }
    (fields, count)
}

/// Splits a line at blanks; words beyond `N` are counted and dropped.
pub(crate) fn words<const N: usize>(line: &[u8]) -> ([&[u8]; N], usize) {
    let mut fields = [&line[..0]; N];
    let mut count = 0;
    for word in line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
        if let Some(field) = fields.get_mut(count) {
            *field = word;
        }
        count += 1;
    }
    (fields, count)
}

#[cfg(test)]
#[path = "../../tests/unit/formats_number.rs"]
mod tests;
