//! jemalloc 3 to 5, under every prefix, as a library or inside something else.
//!
//! strip leaves three things: its messages start with `<jemalloc>: `, its options are C strings, and the
//! `version` control returns `X.Y.Z-N-gHASH` (a hash may be cut, Redis builds with `-0-g0`; a build
//! from a tarball without version says 0.0.0, and then the options tell the range).

use std::collections::BTreeSet;

use super::{DatedOption, Facts};
use crate::{FoundSoftware, SoftwareKind, Version};

/// The versions that each option proves, newest first (jemalloc's ChangeLog; 5.3.1's seen in Polars 2.1).
const DATED_OPTIONS: &[DatedOption] = &[
    ("calloc_madvise_threshold", (5, 3, 1), None),
    ("hpa_slab_max_alloc", (5, 3, 0), Some((5, 3, 0))),
    ("oversize_threshold", (5, 2, 0), Some((5, 2, 1))),
    ("metadata_thp", (5, 1, 0), Some((5, 1, 0))),
    ("dirty_decay_ms", (5, 0, 0), Some((5, 0, 1))),
    ("decay_time", (4, 1, 0), Some((4, 5, 0))),
    ("lg_dirty_mult", (3, 0, 0), Some((4, 0, 4))),
];

/// jemalloc, where a file has one of its messages, an option that dates it, and the name of its variable. Where the file states
/// no version, it is the range that the option proves.
pub(super) fn recognise_jemalloc(facts: &Facts<'_>) -> Option<FoundSoftware> {
    let message = facts.elf.find_strings(b"<jemalloc>: ", 1);
    let dated = facts.dated_by(DATED_OPTIONS)?;
    if message.is_empty() {
        return None;
    }
    let conf_env = conf_env(facts)?;
    let stated = stated_version(facts);
    let prefix = facts
        .symbols_with(|n| n.ends_with("mallctl"))
        // The shortest is the public one: static builds also hold the je_ names of the inside.
        .min_by_key(|s| s.name.len())
        .map(|s| s.name.trim_end_matches("mallctl").to_owned())
        .or_else(|| {
            Some(
                conf_env
                    .trim_end_matches("MALLOC_CONF")
                    .to_ascii_lowercase(),
            )
        });
    let replaces_malloc = facts.exports_malloc() && prefix.as_deref() == Some("");
    let linking =
        facts.linking_by_api(&format!("{}mallctl", prefix.as_deref().unwrap_or_default()));
    let how = format!(
        "jemalloc's messages and options, {}, settings from {conf_env}",
        if stated.is_some() {
            "its version string"
        } else {
            "a version range from its options"
        }
    );
    Some(FoundSoftware {
        version: stated.or(Some(dated)),
        conf_env: Some(conf_env),
        prefix,
        replaces_malloc,
        built_in: built_in(facts),
        ..facts.found_here(SoftwareKind::Jemalloc, linking, how)
    })
}

/// The name of the environment variable: the whole C string that ends in MALLOC_CONF and looks like
/// a name. Messages end in it too, behind a space, and a linker may keep a plain `MALLOC_CONF` only
/// as the tail of such a message, so that a message alone means the plain name.
fn conf_env(facts: &Facts<'_>) -> Option<String> {
    let strings = facts.elf.find_strings(b"MALLOC_CONF\0", 64);
    let names: BTreeSet<String> = strings
        .iter()
        .map(|s| String::from_utf8_lossy(s).into_owned())
        .filter(|s| {
            s.bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        })
        .collect();
    let prefixed = names.iter().find(|n| *n != "MALLOC_CONF").cloned();
    prefixed.or_else(|| (!strings.is_empty()).then(|| "MALLOC_CONF".to_owned()))
}

/// `5.3.0-0-g54eaed1d…`, alone in its string. 0.0.0 states nothing.
fn stated_version(facts: &Facts<'_>) -> Option<Version> {
    facts
        .elf
        .find_strings(b"-g", 4096)
        .into_iter()
        .find_map(|text| {
            let version = Version::parse_leading(text).filter(|v| (3..=9).contains(&v.from.0))?;
            let rest = text
                .strip_prefix(version.to_string().as_bytes())?
                .strip_prefix(b"-")?;
            let (commits, hash) = rest.split_at(rest.windows(2).position(|w| w == b"-g")?);
            let fits = !commits.is_empty()
                && commits.iter().all(u8::is_ascii_digit)
                && hash.len() > 2
                && hash[2..].iter().all(u8::is_ascii_hexdigit);
            fits.then_some(version)
        })
}

/// Settings that the program compiled in (`malloc_conf`), as a string of `key:value` pairs. The first string that has one of
/// these keys and is nothing but such pairs is taken for them.
fn built_in(facts: &Facts<'_>) -> Option<String> {
    let keys = [
        "decay_ms:",
        "background_thread:",
        "lg_dirty_mult:",
        "narenas:",
        "thp:",
        "prof:",
    ];
    keys.iter()
        .flat_map(|key| facts.elf.find_strings(key.as_bytes(), 64))
        .find_map(|text| {
            let text = std::str::from_utf8(text).ok().filter(|t| t.len() < 300)?;
            let pair = |p: &str| {
                p.split_once(':').is_some_and(|(k, v)| {
                    let word = |s: &str| {
                        !s.is_empty()
                            && s.bytes()
                                .all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
                    };
                    word(k) && word(v)
                })
            };
            text.split(',').all(pair).then(|| text.to_owned())
        })
}
