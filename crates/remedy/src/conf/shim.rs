//! What `QUELL_SHIM` may hold, as `crates/shim/src/settings.rs` reads it. The library is no dependency, since it
//! is built for other people's programs; a test compares the two.

use super::SHIM_VARIABLE;

/// A setting with a value.
struct Key {
    name: &'static str,
    /// Whether it may be a size.
    size: bool,
    /// What else it may be.
    words: &'static [&'static str],
}

/// One that is a size and nothing else.
const fn size(name: &'static str) -> Key {
    Key {
        name,
        size: true,
        words: &[],
    }
}

/// One that is one of these words.
const fn words(name: &'static str, words: &'static [&'static str]) -> Key {
    Key {
        name,
        size: false,
        words,
    }
}

const KEYS: [Key; 8] = [
    size("cache"),
    Key {
        name: "zero",
        size: true,
        words: &["off", "auto"],
    },
    size("keep"),
    size("rss"),
    words("free", &["pass", "drop"]),
    words("trim", &["each", "batch"]),
    size("prefault"),
    size("huge"),
];
/// Settings without a value.
const WORDS: [&str; 4] = ["lock", "off", "on", "strict"];

/// Bytes, with K, M or G behind the number for powers of 1,024.
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    // Not what parse() takes besides: "+1".
    let all = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number: u64 = all.then(|| digits.parse().ok())??;
    number.checked_mul(unit)
}

impl Key {
    fn takes(&self, value: &str) -> bool {
        self.words.contains(&value) || (self.size && bytes(value).is_some())
    }
}

/// What the library would refuse in this value, if anything.
pub(super) fn complaint(value: &str) -> Option<String> {
    let known = |setting: &str| match setting.split_once('=') {
        Some((key, value)) => KEYS.iter().any(|k| k.name == key && k.takes(value)),
        None => WORDS.contains(&setting),
    };
    let bad = value
        .split(',')
        .map(|s| s.trim_matches(|c: char| c.is_ascii_whitespace()))
        .find(|s| !s.is_empty() && !known(s))?;
    let keys: Vec<&str> = KEYS.iter().map(|k| k.name).collect();
    Some(format!(
        "{SHIM_VARIABLE} holds '{bad}', which is no setting: write {}=… or {}",
        keys.join("=…, "),
        WORDS.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quell_shim::Settings;

    /// The keys that the library's reader has an arm for, with a value or without.
    fn of_the_library(value: &str) -> Vec<&'static str> {
        let source = include_str!("../../../shim/src/settings.rs");
        let arms = source.lines().filter_map(|line| {
            let (key, rest) = line.trim().strip_prefix("(b\"")?.split_once("\", ")?;
            rest.starts_with(value).then_some(key)
        });
        let mut all: Vec<&str> = arms.collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Check that the library reads what is known here, and that nothing else is in its source.
    #[test]
    fn as_the_library() {
        let mut keys = KEYS.map(|k| k.name);
        keys.sort_unstable();
        assert_eq!(of_the_library("Some("), keys);
        assert_eq!(of_the_library("None)"), WORDS);
    }

    proptest! {
        /// Check that what the library refuses is refused here, and nothing else is.
        #[test]
        fn refuses_what_the_library_refuses(
            parts in proptest::collection::vec(("[a-z]{0,5}|cache|zero|keep|rss|free|trim|huge|prefault|on|off|lock|strict",
                "|=|=(auto|off|drop|pass|batch|each)|=[0-9]{1,3}[kKmMgGT]?|=[0-9]{18,21}|=.{0,3}"), 0..4),
        ) {
            let text = parts.iter().map(|(k, v)| format!("{k}{v}")).collect::<Vec<_>>().join(" ,");
            let read = Settings::default().read(text.as_bytes());
            prop_assert_eq!(complaint(&text).is_none(), read.is_ok(), "{}", text);
        }
    }
}
