//! Profiles with a base: a profile that names another as its `base` contains only the differences,
//! and its host is a separate file.

use super::key::SpecError;

/// Returns the whole profile of a drive whose file is `text`. It is applied to `base`: the file of
/// its host, or the whole profile of its family. Single values (with their sources) and whole lists
/// replace the base's; `without` lists sections that the drive lacks.
///
/// # Errors
/// [`SpecError::Malformed`] if one of them is not TOML.
pub fn whole_profile(base: &str, text: &str) -> Result<toml::Table, SpecError> {
    let read = |text: &str| {
        text.parse::<toml::Table>().map_err(|e| SpecError::Malformed {
            field: "profile".to_owned(),
            problem: e.message().to_owned(),
        })
    };
    let (mut whole, mut member) = (read(base)?, read(text)?);
    member.remove("base");
    let without = member.remove("without");
    for dotted in without.iter().flat_map(|list| list.as_array()).flatten() {
        remove(&mut whole, dotted.as_str().unwrap_or_default());
    }
    lay_over(&mut whole, member);
    Ok(whole)
}

/// Removes the section or value at a dotted path, for example `gc.idle`.
fn remove(table: &mut toml::Table, dotted: &str) {
    match dotted.split_once('.') {
        Some((section, rest)) => {
            if let Some(inner) = table.get_mut(section).and_then(toml::Value::as_table_mut) {
                remove(inner, rest);
            }
        }
        None => {
            table.remove(dotted);
        }
    }
}

/// Replaces values of `base` by those of `over`, section by section.
fn lay_over(base: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new))
                if !new.contains_key("value") =>
            {
                lay_over(old, new);
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_has_what_differs() {
        let base = "[a]\nx = { value = 1, source = \"s\", range = [0, 2] }\ny = 2\n[a.b]\nz = 3\n[[c]]\nd = 4";
        let text =
            "base = \"f\"\nwithout = [\"a.b\"]\nc = []\n[a]\nx = { value = 5, source = \"t\" }";
        let whole = whole_profile(base, text).expect("TOML");
        let expected = "c = []\n[a]\nx = { value = 5, source = \"t\" }\ny = 2";
        assert_eq!(whole, expected.parse().expect("TOML"));
    }
}
