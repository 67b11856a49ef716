//! Request sizes with their shares of the requests in per cent, in fio's notation: "4k/40:64k/60".

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::distribution::ZONES_MAX;

pub(crate) fn serialize<S: Serializer>(split: &[(u64, u32)], into: S) -> Result<S::Ok, S::Error> {
    let parts = split.iter().map(|(bytes, percent)| format!("{bytes}/{percent}"));
    let text = parts.collect::<Vec<_>>().join(":");
    (!text.is_empty()).then_some(text).serialize(into)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(u64, u32)>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(Vec::new()) };
    let parts: Option<Vec<_>> = text.split(':').map(size_and_percent).collect();
    parts.filter(|parts| parts.len() <= ZONES_MAX).ok_or_else(|| {
        de::Error::custom(format!(
            "'{text}' is not allowed; must be SIZE/PERCENT:..., like 4k/40:64k/60"
        ))
    })
}

fn size_and_percent(part: &str) -> Option<(u64, u32)> {
    let (size, percent) = part.split_once('/')?;
    let (digits, unit) = match size.as_bytes().last()? {
        b'k' => (&size[..size.len() - 1], 1 << 10),
        b'm' => (&size[..size.len() - 1], 1 << 20),
        _ => (size, 1),
    };
    Some((digits.parse::<u64>().ok()?.checked_mul(unit)?, percent.parse().ok()?))
}
