//! The parameters of an experiment: a name, its meaning, and its default.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One parameter of a mechanism. Its value is a number: pages, bytes (with k, M, G of 1,024), or 0 and 1 for no
/// and yes.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// The name on the command line and in TOML.
    pub name: &'static str,
    /// Its meaning in a few words.
    pub about: &'static str,
    /// The value where the user gives none.
    pub default: u64,
    /// The least and the largest value that make sense.
    pub range: (u64, u64),
}

impl Param {
    /// A parameter; the range holds the least and the largest value that make sense.
    pub(crate) const fn new(
        name: &'static str,
        about: &'static str,
        default: u64,
        range: (u64, u64),
    ) -> Self {
        Self {
            name,
            about,
            default,
            range,
        }
    }
}

/// The values of one experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Params(BTreeMap<String, u64>);

impl Params {
    /// The defaults, changed by the user's values.
    ///
    /// # Errors
    ///
    /// A line that names a parameter that the mechanism does not know, or a value out of range.
    pub fn new(known: &[Param], said: &[(String, u64)]) -> Result<Self, String> {
        let mut values: BTreeMap<String, u64> = known
            .iter()
            .map(|p| (p.name.to_owned(), p.default))
            .collect();
        for (name, value) in said {
            let Some(param) = known.iter().find(|p| p.name == name) else {
                let names: Vec<_> = known.iter().map(|p| p.name).collect();
                return Err(if names.is_empty() {
                    format!("there is no parameter '{name}': this experiment has none")
                } else {
                    format!("there is no parameter '{name}': {}", names.join(", "))
                });
            };
            let (least, most) = param.range;
            if !(least..=most).contains(value) {
                return Err(format!("{name} must be {least} to {most}, not {value}"));
            }
            values.insert(name.clone(), *value);
        }
        Ok(Self(values))
    }

    /// A value; 0 for a name that is no parameter of the mechanism.
    #[must_use]
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// The same as a number of bytes or pages for this process.
    #[must_use]
    pub fn size(&self, name: &str) -> usize {
        usize::try_from(self.get(name)).unwrap_or(usize::MAX)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

/// Parses `NAME=VALUE`, where the value may end in k, M or G (powers of 1,024).
///
/// # Errors
///
/// A line that says how it is written.
pub fn parse_param(text: &str) -> Result<(String, u64), String> {
    let wrong =
        || format!("'{text}' is no parameter: write NAME=NUMBER, such as pages=33 or bytes=4G");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let (digits, shift) = match value.as_bytes().last() {
        Some(b'k' | b'K') => (&value[..value.len() - 1], 10),
        Some(b'm' | b'M') => (&value[..value.len() - 1], 20),
        Some(b'g' | b'G') => (&value[..value.len() - 1], 30),
        _ => (value, 0),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let number = number.checked_mul(1 << shift).ok_or_else(wrong)?;
    if name.is_empty() {
        return Err(wrong());
    }
    Ok((name.to_owned(), number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: Param = Param::new("pages", "pages", 1, (1, 512));

    /// Check that defaults hold until something is said, and that unknown names and values out of range are refused.
    #[test]
    fn said_and_unsaid() {
        let said = |text: &str| Params::new(&[PAGES], &[parse_param(text).unwrap()]);
        assert_eq!(Params::new(&[PAGES], &[]).unwrap().get("pages"), 1);
        assert_eq!(said("pages=33").unwrap().get("pages"), 33);
        assert!(said("page=33").unwrap_err().contains("pages"));
        assert!(said("pages=0").unwrap_err().contains("1 to 512"));
    }

    /// Check that sizes are powers of 1,024 and that what is no number is refused in words, never by a panic.
    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_param("bytes=4G"), Ok(("bytes".into(), 4 << 30)));
        assert_eq!(parse_param("bytes=2k"), Ok(("bytes".into(), 2048)));
        for wrong in [
            "",
            "=",
            "a",
            "a=",
            "a=k",
            "=3",
            "a=-1",
            "a=99999999999999999999",
            "a=99999999999G",
            "a=é",
        ] {
            assert!(parse_param(wrong).is_err(), "{wrong}");
        }
    }
}
