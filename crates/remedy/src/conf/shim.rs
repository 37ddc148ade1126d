//! The settings that `QUELL_SHIM` may hold, as `crates/shim/src/settings.rs` reads them. The library is no dependency, since it
//! is built for other people's programs; a test compares the two.

use std::collections::BTreeMap;

use super::SHIM_VARIABLE;

/// A setting with a value.
struct ShimKey {
    name: &'static str,
    /// Whether it may be a size.
    size: bool,
    /// The words that it may be instead, from the least effect to the most.
    words: &'static [&'static str],
}

/// One that is a size and nothing else.
const fn size_key(name: &'static str) -> ShimKey {
    ShimKey {
        name,
        size: true,
        words: &[],
    }
}

/// One that is one of these words.
const fn word_key(name: &'static str, words: &'static [&'static str]) -> ShimKey {
    ShimKey {
        name,
        size: false,
        words,
    }
}

const SHIM_KEYS: [ShimKey; 13] = [
    size_key("cache"),
    ShimKey {
        name: "zero",
        size: true,
        words: &["off", "auto"],
    },
    size_key("keep"),
    size_key("rss"),
    size_key("hint"),
    size_key("least"),
    size_key("lifetimes"),
    size_key("firm"),
    word_key("free", &["pass", "drop"]),
    word_key("malloc_trim", &["pass", "drop"]),
    word_key("trim", &["each", "batch"]),
    size_key("prefault"),
    size_key("huge"),
];
/// Settings without a value.
const SHIM_WORDS: [&str; 4] = ["lock", "off", "on", "strict"];

/// Bytes, with K, M or G behind the number for powers of 1,024.
fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    // parse() would also take "+1", and the library does not.
    let all = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number: u64 = all.then(|| digits.parse().ok())??;
    number.checked_mul(unit)
}

impl ShimKey {
    /// The need that this value states, as a number to compare it with others of this key; none if the key has no such value.
    fn value_need(&self, value: &str) -> Option<u64> {
        if let Some(at) = self.words.iter().position(|w| *w == value) {
            return Some(at as u64);
        }
        let size = parse_bytes(value).filter(|_| self.size)?;
        // Whole pages, and no more than any allocator aligns to.
        if self.name == "hint" && (!size.is_multiple_of(4096) || size > 1 << 30) {
            return None;
        }
        if self.name == "lifetimes" && size > 64 {
            return None;
        }
        Some(match (self.name, size) {
            // No bound.
            ("rss", 0) => u64::MAX,
            // These are thresholds (a size, a number): the smaller, the more the library does.
            ("least" | "lifetimes", size) => u64::MAX - size,
            (_, 0) => 0,
            // From this size on: the smaller, the more.
            ("huge", size) => u64::MAX - size,
            // Any size is more than every word.
            (_, size) => size.saturating_add(self.words.len() as u64),
        })
    }
}

/// The need that a setting states. None if the library does not know it, which is less than any need.
pub(super) fn setting_need(setting: &str) -> Option<u64> {
    match setting.split_once('=') {
        Some((key, value)) => SHIM_KEYS.iter().find(|k| k.name == key)?.value_need(value),
        None => SHIM_WORDS
            .contains(&setting)
            .then_some(u64::from(setting == "on")),
    }
}

/// The settings of two remedies as one value, in which each finds at least the amount that it needs. Their order does not matter.
pub(super) fn merge_needs(one: &str, other: &str) -> String {
    // Of a setting that stands twice in one value the later one counts. `on` and `off` are one setting, of which `on` needs more.
    let read = |value| -> BTreeMap<_, _> {
        super::keyed_settings(SHIM_VARIABLE, value)
            .into_iter()
            .map(|(key, setting)| (if key == "on" { "off" } else { key }, setting))
            .collect()
    };
    let mut all = read(one);
    for (key, setting) in read(other) {
        // Equal needs in other words, such as 1M and 1024K, are told apart by their text, so that the order does not matter.
        let most = all.entry(key).or_insert(setting);
        if (setting_need(most), *most) < (setting_need(setting), setting) {
            *most = setting;
        }
    }
    all.into_values().collect::<Vec<_>>().join(",")
}

/// The first setting in this value that the library would refuse, with the words for the user.
pub(super) fn shim_complaint(value: &str) -> Option<String> {
    let bad = value
        .split(',')
        .map(|s| s.trim_matches(|c: char| c.is_ascii_whitespace()))
        .find(|s| !s.is_empty() && setting_need(s).is_none())?;
    let keys: Vec<&str> = SHIM_KEYS.iter().map(|k| k.name).collect();
    Some(format!(
        "{SHIM_VARIABLE} holds '{bad}', which is no setting: write {}=… or {}",
        keys.join("=…, "),
        SHIM_WORDS.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quell_shim::{Settings, ZeroLimit};

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

    /// Check that this table has exactly the keys and words that the library's source reads.
    #[test]
    fn as_the_library() {
        let mut keys = SHIM_KEYS.map(|k| k.name);
        keys.sort_unstable();
        assert_eq!(of_the_library("Some("), keys);
        assert_eq!(of_the_library("None)"), SHIM_WORDS);
    }

    /// Reads a value as the library does, starting from its weakest settings.
    fn read(value: &str) -> Settings {
        let mut settings = Settings {
            cache: 0,
            zero: ZeroLimit::Off,
            keep: 0,
            resident: 1,
            drop_free: false,
            drop_heap_trim: false,
            batch: false,
            ..Settings::default()
        };
        settings.read_over(value.as_bytes()).unwrap();
        settings
    }

    /// Whether the library does at least as much.
    fn at_least(more: &Settings, less: &Settings) -> bool {
        let zero = |s: &Settings| match s.zero {
            ZeroLimit::Off | ZeroLimit::UpTo(0) => (0, 0),
            ZeroLimit::Auto => (1, 0),
            ZeroLimit::UpTo(size) => (2, size),
        };
        let unbound = |size: usize| size.wrapping_sub(1);
        more.cache >= less.cache
            && zero(more) >= zero(less)
            && more.keep >= less.keep
            && unbound(more.resident) >= unbound(less.resident)
            && more.hint >= less.hint
            && more.drop_free >= less.drop_free
            && more.drop_heap_trim >= less.drop_heap_trim
            && more.batch >= less.batch
            && more.prefault >= less.prefault
            && (less.huge == 0 || (1..=less.huge).contains(&more.huge))
            && more.lock >= less.lock
            && more.strict >= less.strict
    }

    /// Any value that remedies may need.
    fn any_value() -> impl Strategy<Value = String> {
        let part = "(cache|keep|rss|prefault|huge|zero|least)=(0|[0-9]{1,3}[KM]?)|lifetimes=[0-5]?[0-9]|hint=(0|[0-9]{1,3}M)|zero=(off|auto)|free=(drop|pass)|malloc_trim=(drop|pass)|trim=(batch|each)|lock|strict";
        proptest::collection::vec(part, 0..6).prop_map(|parts| parts.join(","))
    }

    /// Check that neither of two remedies takes away the other's need.
    #[test]
    fn most_of_each() {
        let arenas = "cache=512M,rss=600M";
        let purged = "cache=0,rss=600M,zero=off";
        assert_eq!(merge_needs(arenas, purged), "cache=512M,rss=600M,zero=off");
        assert_eq!(merge_needs("zero=64M", "zero=auto"), "zero=64M");
        assert_eq!(
            merge_needs("cache=0,keep=1G", "cache=64M"),
            "cache=64M,keep=1G"
        );
        assert_eq!(
            merge_needs("rss=0,huge=4M", "rss=1G,huge=2M"),
            "huge=2M,rss=0"
        );
        assert_eq!(
            merge_needs("on,off", "lock,cache=1,cache=2"),
            "cache=2,lock,off"
        );
    }

    proptest! {
        /// Check by the library's own reader that two, or three, remedies get what each needs, and the same in any order.
        #[test]
        fn loses_no_need(one in any_value(), two in any_value(), three in any_value()) {
            let both = merge_needs(&one, &two);
            prop_assert_eq!(&both, &merge_needs(&two, &one));
            prop_assert_eq!(merge_needs(&both, &three), merge_needs(&one, &merge_needs(&two, &three)));
            prop_assert_eq!(&merge_needs(&both, &one), &both);
            for of in [&one, &two] {
                prop_assert!(at_least(&read(&both), &read(of)), "{both} for {of}");
            }
        }

        /// Check that the merged value holds no setting that neither value has.
        #[test]
        fn adds_nothing(one in any_value(), two in any_value()) {
            for part in merge_needs(&one, &two).split(',').filter(|p| !p.is_empty()) {
                prop_assert!(one.split(',').chain(two.split(',')).any(|p| p == part), "{part}");
            }
        }

        /// Check that exactly the values that the library refuses are refused here.
        #[test]
        fn refuses_what_the_library_refuses(
            parts in proptest::collection::vec(("[a-z]{0,5}|cache|zero|keep|rss|hint|free|malloc_trim|trim|huge|prefault|on|off|lock|strict",
                "|=|=(auto|off|drop|pass|batch|each)|=[0-9]{1,3}[kKmMgGT]?|=[0-9]{18,21}|=.{0,3}"), 0..4),
        ) {
            let text = parts.iter().map(|(k, v)| format!("{k}{v}")).collect::<Vec<_>>().join(" ,");
            let read = Settings::default().read_over(text.as_bytes());
            prop_assert_eq!(shim_complaint(&text).is_none(), read.is_ok(), "{}", text);
        }
    }
}
