//! Allocators and runtimes by the names of files and functions alone: for traces of other hosts, whose files are not here
//! to be read. Less sure than [`crate::recognise_file`]: an allocator inside another file is known only by its functions,
//! and a version only where a file's name has it.

use std::path::Path;

use crate::{Found, Kind, Linking, Version};

/// What a file of this name is, with the version that its name tells or else one of which most is known.
#[must_use]
pub fn of_file(path: &Path) -> Option<Found> {
    let name = path.file_name()?.to_str()?;
    let kind = kind_of_file(name)?;
    let mut found = usual(kind);
    path.clone_into(&mut found.module);
    if kind == Kind::Glibc
        && let Some(version) = name
            .strip_prefix("libc-")
            .and_then(|rest| Version::leading(rest.as_bytes()))
    {
        found.version = Some(version);
    }
    Some(found)
}

/// What a file is whose function called, where the function's name tells.
#[must_use]
pub fn of_symbol(symbol: &str, module: &Path) -> Option<Found> {
    let mut found = usual(kind_of_symbol(symbol)?);
    module.clone_into(&mut found.module);
    found.linking = Linking::Static;
    Some(found)
}

/// An allocator of this kind as it is met most often now: versions that were measured (docs/remedies-measured.md).
#[must_use]
pub fn usual(kind: Kind) -> Found {
    let mut found = Found::new(kind, kind.name(), Linking::SharedLibrary, "by its name");
    let exact = |(a, b, c)| Some(Version::exact(a, b, c));
    match kind {
        Kind::Glibc => {
            found.module = "/lib/libc.so.6".into();
            found.version = exact((2, 36, 0));
        }
        Kind::Jemalloc => {
            found.version = exact((5, 3, 0));
            found.conf_env = Some("MALLOC_CONF".to_owned());
            found.prefix = Some(String::new());
        }
        Kind::Mimalloc => found.version = exact((2, 2, 4)),
        Kind::GoRuntime => {
            found.version = exact((1, 22, 0));
            found.linking = Linking::Static;
        }
        _ => {}
    }
    found.replaces_malloc = matches!(
        kind,
        Kind::Jemalloc | Kind::Mimalloc | Kind::Gperftools | Kind::GoogleTcmalloc
    );
    found
}

fn kind_of_file(name: &str) -> Option<Kind> {
    let starts = |prefix: &str| name.starts_with(prefix);
    let kind = match name {
        "libc.so.6" => Kind::Glibc,
        "libjvm.so" => Kind::Jvm,
        "libcoreclr.so" => Kind::DotNet,
        "beam.smp" => Kind::Beam,
        "node" | "nodejs" => Kind::Node,
        _ if starts("libc-2.") => Kind::Glibc,
        _ if starts("ld-musl-") || starts("libc.musl-") => Kind::Musl,
        _ if starts("libjemalloc") => Kind::Jemalloc,
        _ if starts("libmimalloc") => Kind::Mimalloc,
        _ if starts("libtcmalloc") => Kind::Gperftools,
        _ if starts("libpython3") || starts("python3") => Kind::CPython,
        _ => return None,
    };
    Some(kind)
}

fn kind_of_symbol(symbol: &str) -> Option<Kind> {
    let bare = symbol.trim_start_matches('_');
    let starts = |prefixes: &[&str]| prefixes.iter().any(|p| bare.starts_with(p));
    let kind = if starts(&["rjem_", "je_"]) {
        Kind::Jemalloc
    } else if starts(&["mi_"]) {
        Kind::Mimalloc
    } else if symbol.starts_with("tcmalloc::tcmalloc_internal::") {
        Kind::GoogleTcmalloc
    } else if symbol.starts_with("tcmalloc::") || starts(&["TCMalloc_"]) {
        Kind::Gperftools
    } else if symbol.starts_with("runtime.") {
        Kind::GoRuntime
    } else {
        return None;
    };
    Some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that files are known by their names, and that a name which only begins alike is none.
    #[test]
    fn files() {
        let kind = |path: &str| of_file(Path::new(path)).map(|f| f.kind);
        for (path, expected) in [
            ("/usr/lib/x86_64-linux-gnu/libc.so.6", Some(Kind::Glibc)),
            ("/lib/libc-2.31.so", Some(Kind::Glibc)),
            ("/lib/ld-musl-x86_64.so.1", Some(Kind::Musl)),
            ("/usr/lib/libjemalloc.so.2", Some(Kind::Jemalloc)),
            ("/opt/lib/libmimalloc.so.2.1", Some(Kind::Mimalloc)),
            ("/usr/lib/libtcmalloc_minimal.so.4", Some(Kind::Gperftools)),
            ("/usr/bin/python3.11", Some(Kind::CPython)),
            ("/usr/lib/libcrypto.so.3", None),
            ("/usr/lib/libc.so.60", None),
            ("", None),
        ] {
            assert_eq!(kind(path), expected, "{path}");
        }
        let old = of_file(Path::new("/lib/libc-2.31.so"));
        assert!(old.is_some_and(|f| f.below(2, 32, 0) && f.at_least(2, 31, 0)));
    }

    /// Check that functions tell what is inside a file.
    #[test]
    fn symbols() {
        let kind = |s: &str| of_symbol(s, Path::new("/lib/x.so")).map(|f| f.kind);
        assert_eq!(kind("_rjem_je_pages_purge_forced"), Some(Kind::Jemalloc));
        assert_eq!(kind("_mi_os_purge"), Some(Kind::Mimalloc));
        assert_eq!(kind("runtime.madvise"), Some(Kind::GoRuntime));
        assert_eq!(
            kind("tcmalloc::PageHeap::ReleaseSpan"),
            Some(Kind::Gperftools)
        );
        assert_eq!(kind("jellyfish"), None);
        assert_eq!(kind("microphone"), None);
    }
}
