//! Separate debug files: where distributions put the symbols that they strip from a program.
//!
//! GDB's manual, "Debugging Information in Separate Files": by the build id under
//! `/usr/lib/debug/.build-id`, or by the name in `.gnu_debuglink` beside the program, in `.debug` there,
//! or at its path under `/usr/lib/debug`. One by another program's name would give wrong names, so its
//! build id must be the same, or its checksum where the program has no build id.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use quell_host::contents::Contents;
use quell_host::functions::{self, ReadRef};

use super::open_files;

/// The folder of debug files in every distribution.
const DEBUG_ROOT: &str = "/usr/lib/debug";

/// A larger file is not read for its checksum, which takes half a second for each gigabyte.
const MAX_CHECKED_BYTES: u64 = 4 << 30;

/// The debug file of the program or library with these contents and this path, under the first of
/// these roots that has one.
pub(super) fn find_debug_file<'d>(
    data: impl ReadRef<'d>,
    path: &Path,
    roots: &[OwnedFd],
) -> Option<Contents> {
    let build_id = functions::build_id(data);
    let link = functions::section_contents(data, ".gnu_debuglink").and_then(parse_debug_link);
    let by_id = build_id.as_deref().and_then(path_by_id);
    let by_link = link.map_or_else(Vec::new, |(name, _)| paths_by_link(name, path));
    let candidates: Vec<PathBuf> = by_id.into_iter().chain(by_link).collect();
    for root in roots {
        for candidate in &candidates {
            let Ok(file) = open_files::open_within(root, candidate) else {
                continue;
            };
            let found = match (&build_id, link) {
                (None, Some((_, sum))) if file_checksum(&file) != Some(sum) => continue,
                _ => open_files::whole_contents(file),
            };
            let Ok(found) = found else {
                continue;
            };
            // A file for a program without an id had the right checksum.
            if build_id.is_none() || functions::build_id(&found) == build_id {
                return Some(found);
            }
        }
    }
    None
}

/// The CRC-32 of a file that is not too large.
fn file_checksum(file: &File) -> Option<u32> {
    if file.metadata().ok()?.len() > MAX_CHECKED_BYTES {
        return None;
    }
    let mut sum = crc32fast::Hasher::new();
    let mut room = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        let read = file.read_at(&mut room, at).ok()?;
        if read == 0 {
            return Some(sum.finalize());
        }
        sum.update(room.get(..read)?);
        at += read as u64;
        // The file may grow meanwhile.
        if at > MAX_CHECKED_BYTES {
            return None;
        }
    }
}

/// `ab/cdef….debug` for the build id `abcdef…`.
fn path_by_id(id: &str) -> Option<PathBuf> {
    // A short id is no hash, and other programs may have it too.
    let (first, rest) = id.split_at_checked(2).filter(|_| id.len() >= 16)?;
    Some(format!("{DEBUG_ROOT}/.build-id/{first}/{rest}.debug").into())
}

fn paths_by_link(name: &OsStr, path: &Path) -> Vec<PathBuf> {
    let Some(folder) = path.parent().filter(|_| path.has_root()) else {
        return Vec::new();
    };
    let below = folder.strip_prefix("/").unwrap_or(folder);
    vec![
        folder.join(name),
        folder.join(".debug").join(name),
        Path::new(DEBUG_ROOT).join(below).join(name),
    ]
}

/// The file name and the checksum in a `.gnu_debuglink`: a name, a NUL, up to three more to a multiple of four, and the CRC-32
/// of the debug file.
fn parse_debug_link(section: &[u8]) -> Option<(&OsStr, u32)> {
    let end = section.iter().position(|b| *b == 0)?;
    let name = OsStr::from_bytes(section.get(..end)?);
    // The name must not be a path to somewhere else.
    if Path::new(name).file_name() != Some(name) {
        return None;
    }
    let at = (end + 1).next_multiple_of(4);
    let checksum = section.get(at..at + 4)?.try_into().ok()?;
    // Quell runs on x86-64 only, which is little-endian.
    Some((name, u32::from_le_bytes(checksum)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Check that a link's name and checksum are read, and that a path in place of a name is refused.
    #[test]
    fn links_are_read() {
        let link = parse_debug_link(b"a.debug\0\x01\x02\x03\x04");
        assert_eq!(link, Some((OsStr::new("a.debug"), 0x0403_0201)));
        let padded = parse_debug_link(b"ab.debug\0\0\0\0\x01\0\0\0");
        assert_eq!(padded, Some((OsStr::new("ab.debug"), 1)));
        assert_eq!(parse_debug_link(b"../x\0\0\0\0\x01\0\0\0"), None);
        assert_eq!(parse_debug_link(b"..\0\0\x01\0\0\0"), None);
        assert_eq!(parse_debug_link(b"a\0\0\0\x01\0\0"), None);
    }

    /// Check where a debug file is looked for.
    #[test]
    fn paths_are_those_of_gdb() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let expected = "/usr/lib/debug/.build-id/01/23456789abcdef0123456789abcdef01234567.debug";
        assert_eq!(path_by_id(id), Some(expected.into()));
        assert_eq!(path_by_id("0123"), None);
        let paths = paths_by_link(OsStr::new("x.debug"), Path::new("/opt/bin/x"));
        let expected = [
            "/opt/bin/x.debug",
            "/opt/bin/.debug/x.debug",
            "/usr/lib/debug/opt/bin/x.debug",
        ];
        assert_eq!(paths, expected.map(PathBuf::from));
    }

    proptest! {
        /// Check that no bytes make the parser panic.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse_debug_link(&bytes);
        }
    }
}
