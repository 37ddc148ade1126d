//! Allocators and runtimes by the names of files and functions alone: for traces of other hosts, whose files are not here
//! to be read. Less sure than [`crate::recognise_file`]: an allocator inside another file is known only by its functions,
//! and the version is taken for the usual one, but for glibc where the file's name has it.

use std::path::Path;

use crate::{FoundSoftware, Linking, SoftwareKind, Version};

/// Recognises a file by its name. glibc has the version in the name where there is one (`libc-2.31.so`); all else is as
/// [`usual_version`] says.
#[must_use]
pub fn of_file(path: &Path) -> Option<FoundSoftware> {
    let name = path.file_name()?.to_str()?;
    let kind = kind_of_file(name)?;
    let mut found = usual_version(kind);
    path.clone_into(&mut found.module);
    if kind == SoftwareKind::Glibc
        && let Some(version) = name
            .strip_prefix("libc-")
            .and_then(|rest| Version::parse_leading(rest.as_bytes()))
    {
        found.version = Some(version);
    }
    Some(found)
}

/// Recognises the software that a calling function belongs to, by the function's name. It is taken to be inside of `module`, the
/// file that the function lies in.
#[must_use]
pub fn of_symbol(symbol: &str, module: &Path) -> Option<FoundSoftware> {
    let mut found = usual_version(kind_of_symbol(symbol)?);
    module.clone_into(&mut found.module);
    found.linking = Linking::Static;
    Some(found)
}

/// An allocator of this kind as it is met most often now: versions that were measured (docs/remedies-measured.md), and none for
/// other kinds. Its file is the kind's name until the caller puts the real one in. An allocator that can take malloc's place is
/// taken to have done so.
#[must_use]
pub fn usual_version(kind: SoftwareKind) -> FoundSoftware {
    let mut found = FoundSoftware::new(kind, kind.name(), Linking::SharedLibrary, "by its name");
    let exact = |(a, b, c)| Some(Version::exact(a, b, c));
    match kind {
        SoftwareKind::Glibc => {
            found.module = "/lib/libc.so.6".into();
            found.version = exact((2, 36, 0));
        }
        SoftwareKind::Jemalloc => {
            found.version = exact((5, 3, 0));
            found.conf_env = Some("MALLOC_CONF".to_owned());
            found.prefix = Some(String::new());
        }
        SoftwareKind::Mimalloc => found.version = exact((2, 2, 4)),
        SoftwareKind::GoRuntime => {
            found.version = exact((1, 22, 0));
            found.linking = Linking::Static;
        }
        _ => {}
    }
    found.replaces_malloc = matches!(
        kind,
        SoftwareKind::Jemalloc
            | SoftwareKind::Mimalloc
            | SoftwareKind::Gperftools
            | SoftwareKind::GoogleTcmalloc
    );
    found
}

fn kind_of_file(name: &str) -> Option<SoftwareKind> {
    let starts = |prefix: &str| name.starts_with(prefix);
    let kind = match name {
        "libc.so.6" => SoftwareKind::Glibc,
        "libjvm.so" => SoftwareKind::Jvm,
        "libcoreclr.so" => SoftwareKind::DotNet,
        "beam.smp" => SoftwareKind::Beam,
        "node" | "nodejs" => SoftwareKind::Node,
        _ if starts("libc-2.") => SoftwareKind::Glibc,
        _ if starts("ld-musl-") || starts("libc.musl-") => SoftwareKind::Musl,
        _ if starts("libjemalloc") => SoftwareKind::Jemalloc,
        _ if starts("libmimalloc") => SoftwareKind::Mimalloc,
        _ if starts("libtcmalloc") => SoftwareKind::Gperftools,
        _ if starts("libpython3") || starts("python3") => SoftwareKind::CPython,
        _ => return None,
    };
    Some(kind)
}

/// The kind that a function's name tells. Both tcmallocs have one namespace, so that google's inner one is asked for first.
fn kind_of_symbol(symbol: &str) -> Option<SoftwareKind> {
    let bare = symbol.trim_start_matches('_');
    let starts = |prefixes: &[&str]| prefixes.iter().any(|p| bare.starts_with(p));
    let kind = if starts(&["rjem_", "je_"]) {
        SoftwareKind::Jemalloc
    } else if starts(&["mi_"]) {
        SoftwareKind::Mimalloc
    } else if symbol.starts_with("tcmalloc::tcmalloc_internal::") {
        SoftwareKind::GoogleTcmalloc
    } else if symbol.starts_with("tcmalloc::") || starts(&["TCMalloc_"]) {
        SoftwareKind::Gperftools
    } else if symbol.starts_with("runtime.") {
        SoftwareKind::GoRuntime
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
            (
                "/usr/lib/x86_64-linux-gnu/libc.so.6",
                Some(SoftwareKind::Glibc),
            ),
            ("/lib/libc-2.31.so", Some(SoftwareKind::Glibc)),
            ("/lib/ld-musl-x86_64.so.1", Some(SoftwareKind::Musl)),
            ("/usr/lib/libjemalloc.so.2", Some(SoftwareKind::Jemalloc)),
            ("/opt/lib/libmimalloc.so.2.1", Some(SoftwareKind::Mimalloc)),
            (
                "/usr/lib/libtcmalloc_minimal.so.4",
                Some(SoftwareKind::Gperftools),
            ),
            ("/usr/bin/python3.11", Some(SoftwareKind::CPython)),
            ("/usr/lib/libcrypto.so.3", None),
            ("/usr/lib/libc.so.60", None),
            ("", None),
        ] {
            assert_eq!(kind(path), expected, "{path}");
        }
        let old = of_file(Path::new("/lib/libc-2.31.so"));
        assert!(old.is_some_and(|f| f.is_below(2, 32, 0) && f.at_least(2, 31, 0)));
    }

    /// Check that functions' names reveal the software inside a file.
    #[test]
    fn symbols() {
        let kind = |s: &str| of_symbol(s, Path::new("/lib/x.so")).map(|f| f.kind);
        assert_eq!(
            kind("_rjem_je_pages_purge_forced"),
            Some(SoftwareKind::Jemalloc)
        );
        assert_eq!(kind("_mi_os_purge"), Some(SoftwareKind::Mimalloc));
        assert_eq!(kind("runtime.madvise"), Some(SoftwareKind::GoRuntime));
        assert_eq!(
            kind("tcmalloc::PageHeap::ReleaseSpan"),
            Some(SoftwareKind::Gperftools)
        );
        assert_eq!(kind("jellyfish"), None);
        assert_eq!(kind("microphone"), None);
    }
}
