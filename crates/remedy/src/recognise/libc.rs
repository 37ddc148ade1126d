//! The C libraries: glibc and musl, as libraries or inside a static program.

use super::{DatedOption, Facts};
use crate::{FoundSoftware, Linking, SoftwareKind, Version};

/// glibc: `libc.so.6` states its version; a static program holds malloc's messages and the list of
/// tunables, which dates it. Before 2.26 there were none of these tunables: then neither version nor variable is known.
pub(super) fn recognise_glibc(facts: &Facts<'_>) -> Option<FoundSoftware> {
    if facts.elf.is_library() {
        let banner = facts.string_with("GNU C Library (")?;
        if !facts
            .elf
            .dynamic()
            .soname
            .as_deref()
            .is_some_and(|n| n.starts_with("libc.so"))
        {
            return None;
        }
        let at = banner.find("release version ")? + "release version ".len();
        let version = Version::parse_leading(&banner.as_bytes()[at..]);
        let how = banner
            .lines()
            .next()
            .unwrap_or_default()
            .trim_end_matches('.')
            .to_owned();
        return Some(FoundSoftware {
            version,
            conf_env: Some("GLIBC_TUNABLES".to_owned()),
            ..facts.found_here(SoftwareKind::Glibc, Linking::SharedLibrary, how)
        });
    }
    let messages = ["malloc(): corrupted top size", "free(): invalid pointer"];
    if facts.elf.interpreter().is_some() || !messages.iter().all(|m| facts.ends_string(m)) {
        return None;
    }
    // When each tunable came: glibc's NEWS.
    let tunables: [DatedOption; 4] = [
        ("glibc.mem.decorate_maps", (2, 39, 0), None),
        ("glibc.malloc.hugetlb", (2, 35, 0), Some((2, 38, 0))),
        (
            "glibc.pthread.stack_cache_size",
            (2, 34, 0),
            Some((2, 34, 0)),
        ),
        ("glibc.malloc.tcache_count", (2, 26, 0), Some((2, 33, 0))),
    ];
    let dated = facts.dated_by(&tunables);
    let how = "glibc's malloc messages in a static program, dated by its tunables";
    Some(FoundSoftware {
        version: dated,
        conf_env: dated.map(|_| "GLIBC_TUNABLES".to_owned()),
        ..facts.found_here(SoftwareKind::Glibc, Linking::Static, how)
    })
}

/// musl: the loader is the library and states its version; a static program holds the table of
/// error messages in musl's order and words.
pub(super) fn recognise_musl(facts: &Facts<'_>) -> Option<FoundSoftware> {
    if facts
        .elf
        .find_strings(b"musl libc (", 1)
        .first()
        .is_some_and(|s| {
            s.starts_with(b"musl libc (") && s.windows(12).any(|w| w == b"\nVersion %s\n")
        })
    {
        // The version is a string of its own: the only one that is nothing but 1.x.y.
        let strings = facts.elf.find_strings(b"\x001.", 64);
        let version = strings.into_iter().find_map(|s| {
            let version = Version::parse_leading(s)?;
            (version.to_string().as_bytes() == s).then_some(version)
        });
        let how = "the loader's own words: musl libc";
        return Some(FoundSoftware {
            version,
            ..facts.found_here(SoftwareKind::Musl, Linking::SharedLibrary, how)
        });
    }
    if facts.elf.interpreter().is_some() || facts.elf.is_library() {
        return None;
    }
    let table = b"\0Result not representable\0Not a tty\0";
    let how = "musl's table of error messages in a static program";
    facts
        .elf
        .has_string(table)
        .then(|| facts.found_here(SoftwareKind::Musl, Linking::Static, how))
}
