//! Whether the libraries that LD_PRELOAD names were loaded: where a file can't be, ld.so says so on stderr and goes on without it
//! (ld.so(8)), and another allocator would be measured than the one that is named.

use std::fs;
use std::io;
use std::path::Path;

/// Checks that all of them are in this process.
///
/// # Errors
///
/// The library that is not.
pub fn check_preloaded() -> io::Result<()> {
    let Ok(named) = std::env::var("LD_PRELOAD") else {
        return Ok(());
    };
    let maps = fs::read_to_string("/proc/self/maps")?;
    match missing_library(&named, &maps) {
        Some(library) => Err(io::Error::other(format!(
            "{library} is named by LD_PRELOAD and was not loaded: is it a library for this program?"
        ))),
        None => Ok(()),
    }
}

/// The first of the named libraries that is not mapped.
fn missing_library<'a>(named: &'a str, maps: &str) -> Option<&'a str> {
    // The fields of a line: "address perms offset dev inode path".
    let mapped: Vec<&Path> = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])))
        .collect();
    let mut libraries = named.split([' ', ':']).filter(|name| !name.is_empty());
    libraries.find(|name| {
        let path = Path::new(name);
        let there = fs::canonicalize(path);
        let there = there.as_deref().unwrap_or(path);
        // A name without a slash was looked for in the library folders.
        let alone = !name.contains('/');
        !mapped.iter().any(|m| {
            *m == there
                || alone
                    && m.file_name()
                        .is_some_and(|m| library_stem(m) == library_stem(path.as_os_str()))
        })
    })
}

/// A name up to its version, for the named file may be a link to the mapped one: "libmimalloc.so.2" and ".so.2.0".
fn library_stem(name: &std::ffi::OsStr) -> String {
    let name = name.to_string_lossy();
    let end = name.find(".so").unwrap_or(name.len());
    name[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a library counts as loaded by its path or its name, through links, and that one of several is missed.
    #[test]
    fn what_is_missing_is_named() {
        let maps = "7f00-7f01 r-xp 00000000 fe:00 12 /usr/lib/libmimalloc.so.2.0\n\
                    7f01-7f02 rw-p 00000000 00:00 0\n\
                    7f02-7f03 r-xp 00000000 fe:00 13 /opt/a b/libjemalloc.so.2\n";
        assert_eq!(missing_library("", maps), None);
        assert_eq!(missing_library("/usr/lib/libmimalloc.so.2.0", maps), None);
        assert_eq!(missing_library("libmimalloc.so.2", maps), None);
        assert_eq!(
            missing_library("libtcmalloc.so.4", maps),
            Some("libtcmalloc.so.4")
        );
        let two = "/usr/lib/libmimalloc.so.2.0:/opt/none.so";
        assert_eq!(missing_library(two, maps), Some("/opt/none.so"));
        // this test's own program is mapped, by a link too
        let own = fs::read_to_string("/proc/self/maps").unwrap();
        assert_eq!(missing_library("/proc/self/exe", &own), None);
    }
}
