//! `/proc/PID/maps`: which mapping lies at an address, and which files a process runs code from.
//!
//! The format is that of proc_pid_maps(5): `start-end perms offset dev inode [path]`, one mapping a
//! line. The kernel writes a newline in a path as `\012` and appends ` (deleted)` to a file that has
//! no name any more.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::proc::Proc;
use crate::under;

const DELETED_SUFFIX: &[u8] = b" (deleted)";

/// The permissions of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Perms {
    /// Pages may be read.
    pub read: bool,
    /// Pages may be written.
    pub write: bool,
    /// Pages may be executed.
    pub exec: bool,
    /// Writes are seen by others (`MAP_SHARED`).
    pub shared: bool,
}

/// One line of `/proc/PID/maps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Its permissions.
    pub perms: Perms,
    /// Where in the file it starts.
    pub offset: u64,
    /// Major and minor number of the file's device.
    pub dev: (u32, u32),
    /// Inode of the file; 0 if it maps none.
    pub inode: u64,
    /// The file, or a name in square brackets such as `[heap]`; none for anonymous memory.
    pub path: Option<PathBuf>,
    /// Whether the file has no name any more (deleted, or replaced by an upgrade).
    pub deleted: bool,
}

impl Mapping {
    /// Whether a file lies behind it, rather than anonymous memory or one of the kernel's own areas.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.inode != 0 && self.path.as_ref().is_some_and(|p| p.has_root())
    }

    /// Whether its code was made by the program as it ran, as JITs do: memory that is executable and
    /// no program's file. The names are those that mmap(2), shmat(2), memfd_create(2) and
    /// `PR_SET_VMA_ANON_NAME` leave (fs/proc/task_mmu.c, mm/shmem.c).
    #[must_use]
    pub fn is_made_at_run_time(&self) -> bool {
        use std::os::unix::ffi::OsStrExt as _;
        const MADE_CODE_NAMES: &[&[u8]] = &[
            b"/memfd:",
            b"/dev/zero",
            b"/anon_hugepage",
            b"/SYSV",
            b"/dev/shm/",
            b"[heap]",
            b"[stack",
            b"[anon",
        ];
        let made = |p: &PathBuf| {
            MADE_CODE_NAMES
                .iter()
                .any(|name| p.as_os_str().as_bytes().starts_with(name))
        };
        self.perms.exec && self.path.as_ref().is_none_or(made)
    }

    /// The name of its link in `/proc/PID/map_files`.
    #[must_use]
    pub fn map_file_name(&self) -> String {
        format!("{:x}-{:x}", self.start, self.end)
    }
}

/// A file that a process has mapped executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// The path as the process saw it when it mapped the file.
    pub path: PathBuf,
    /// Whether that name is gone.
    pub deleted: bool,
    /// The name in `/proc/PID/map_files` of one of its mappings.
    pub map_file: String,
}

/// Every mapping in the text of a `maps` file, by address. Lines that are no mapping are left out.
#[must_use]
pub fn parse_maps(text: &[u8]) -> Vec<Mapping> {
    let mut all: Vec<Mapping> = text.split(|b| *b == b'\n').filter_map(parse_line).collect();
    // The kernel writes them in order; a foreign text may not, and `mapping_at` relies on it.
    all.sort_by_key(|m| (m.start, m.end));
    all
}

/// The mappings of process `pid`, also where its first thread has ended.
pub fn read_maps(root: &Path, pid: u32) -> Result<Vec<Mapping>> {
    let pid = Proc::new(root).living_thread(pid);
    let path = under(root, Path::new(&format!("/proc/{pid}/maps")));
    let text = std::fs::read(&path).with_context(|| {
        format!(
            "reading the mappings of process {pid} from {}",
            path.display()
        )
    })?;
    Ok(parse_maps(&text))
}

/// The mapping that holds `address`; `maps` must be sorted, as [`parse_maps`] returns it.
#[must_use]
pub fn mapping_at(maps: &[Mapping], address: u64) -> Option<&Mapping> {
    let after = maps.partition_point(|m| m.start <= address);
    maps[..after].last().filter(|m| address < m.end)
}

/// The files that are mapped executable, each once, in the order of their addresses.
#[must_use]
pub fn executable_files(maps: &[Mapping]) -> Vec<Module> {
    let mut seen = HashSet::new();
    maps.iter()
        .filter(|m| m.perms.exec && m.is_file())
        .filter_map(|m| {
            let path = m.path.clone()?;
            seen.insert((m.dev, m.inode, path.clone())).then(|| Module {
                path,
                deleted: m.deleted,
                map_file: m.map_file_name(),
            })
        })
        .collect()
}

fn parse_line(line: &[u8]) -> Option<Mapping> {
    let (range, rest) = split_word(line)?;
    let (perms, rest) = split_word(rest)?;
    let (offset, rest) = split_word(rest)?;
    let (dev, rest) = split_word(rest)?;
    let (inode, rest) = split_word(rest)?;
    let (start, end) = split_once_at(range, b'-')?;
    let (start, end) = (parse_hex(start)?, parse_hex(end)?);
    let (major, minor) = split_once_at(dev, b':')?;
    let &[r, w, x, s] = perms else { return None };
    if start >= end {
        return None;
    }
    // The path starts behind the padding and keeps its own spaces.
    let path = rest.trim_ascii_start();
    let deleted = path.ends_with(DELETED_SUFFIX) && path.len() > DELETED_SUFFIX.len();
    let path = if deleted {
        &path[..path.len() - DELETED_SUFFIX.len()]
    } else {
        path
    };
    Some(Mapping {
        start,
        end,
        perms: Perms {
            read: r == b'r',
            write: w == b'w',
            exec: x == b'x',
            shared: s == b's',
        },
        offset: parse_hex(offset)?,
        dev: (
            u32::try_from(parse_hex(major)?).ok()?,
            u32::try_from(parse_hex(minor)?).ok()?,
        ),
        inode: std::str::from_utf8(inode).ok()?.parse().ok()?,
        path: (!path.is_empty()).then(|| PathBuf::from(OsString::from_vec(unescape_path(path)))),
        deleted,
    })
}

/// Splits a line into its first word and the rest.
fn split_word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii_start();
    let end = line.iter().position(|b| *b == b' ').unwrap_or(line.len());
    (end > 0).then(|| line.split_at(end))
}

fn split_once_at(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|b| *b == separator)?;
    Some((&text[..at], &text[at + 1..]))
}

fn parse_hex(text: &[u8]) -> Option<u64> {
    // from_str_radix would take a sign, which the kernel never writes.
    if text.is_empty() || !text.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

/// The only character that the kernel escapes in a path is the newline.
fn unescape_path(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, tail)) = rest.split_first() {
        if let Some(tail) = rest.strip_prefix(b"\\012") {
            out.push(b'\n');
            rest = tail;
        } else {
            out.push(*first);
            rest = tail;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &[u8] = b"\
5581aa000000-5581aa100000 r--p 00000000 fe:00 1234                       /usr/bin/some thing
5581aa100000-5581aa200000 r-xp 00100000 fe:00 1234                       /usr/bin/some thing
5581ab000000-5581ab021000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n\
7f1000000000-7f1000021000 r-xp 00000000 fe:00 77                         /lib/libx.so (deleted)
7f1000100000-7f1000121000 r-xp 00000000 fe:00 78                         /lib/a\\012b.so
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    /// Check that every field of a real maps text is read.
    #[test]
    fn reads_fields() {
        let maps = parse_maps(TEXT);
        assert_eq!(maps.len(), 8);
        assert_eq!(
            maps[0].path.as_deref(),
            Some(Path::new("/usr/bin/some thing"))
        );
        assert_eq!((maps[0].dev, maps[0].inode), ((0xfe, 0), 1234));
        assert!(maps[1].perms.exec && !maps[1].perms.write && maps[1].offset == 0x10_0000);
        assert_eq!(maps[2].path.as_deref(), Some(Path::new("[heap]")));
        assert_eq!(maps[3].path, None);
        assert!(maps[4].deleted && maps[4].path.as_deref() == Some(Path::new("/lib/libx.so")));
        assert_eq!(maps[5].path.as_deref(), Some(Path::new("/lib/a\nb.so")));
    }

    /// Check that code of a JIT is told from files and from the kernel's own areas.
    #[test]
    fn tells_code_made_at_run_time() {
        let text = b"\
1000-2000 rwxp 00000000 00:00 0 \n\
2000-3000 r-xs 00000000 00:01 9                          /memfd:doublemapper (deleted)\n\
3000-4000 r-xp 00000000 00:00 0                          [anon:v8]\n\
4000-5000 rw-p 00000000 00:00 0                          [heap]\n\
5000-6000 r-xp 00000000 fe:00 5                          /usr/lib/x.so\n\
6000-7000 r-xp 00000000 00:00 0                          [vdso]\n";
        let made: Vec<bool> = parse_maps(text)
            .iter()
            .map(Mapping::is_made_at_run_time)
            .collect();
        assert_eq!(made, [true, true, true, false, false, false]);
    }

    /// Check that modules are the files with code, once each, without the kernel's own areas.
    #[test]
    fn lists_modules() {
        let modules = executable_files(&parse_maps(TEXT));
        let paths: Vec<_> = modules
            .iter()
            .map(|m| m.path.to_string_lossy().into_owned())
            .collect();
        assert_eq!(
            paths,
            ["/usr/bin/some thing", "/lib/libx.so", "/lib/a\nb.so"]
        );
        assert_eq!(modules[1].map_file, "7f1000000000-7f1000021000");
    }

    /// Check that an address finds its mapping, and that one between mappings finds none.
    #[test]
    fn looks_up() {
        let maps = parse_maps(TEXT);
        let path = |a| {
            mapping_at(&maps, a)
                .and_then(|m| m.path.as_ref())
                .map(|p| p.display().to_string())
        };
        assert_eq!(path(0x5581_ab00_0000).as_deref(), Some("[heap]"));
        assert_eq!(path(0x5581_ab02_0fff).as_deref(), Some("[heap]"));
        assert_eq!(mapping_at(&maps, 0x5581_ab02_1000), None);
        assert_eq!(mapping_at(&maps, 0), None);
        assert_eq!(path(0xffff_ffff_ff60_0000).as_deref(), Some("[vsyscall]"));
    }

    /// Check that this process's own maps are read, and hold the address of this function.
    #[test]
    fn reads_own() {
        let maps = read_maps(Path::new("/"), std::process::id()).unwrap();
        let here = mapping_at(&maps, reads_own as *const () as u64).unwrap();
        assert_eq!(
            here.path.as_deref(),
            std::env::current_exe().ok().as_deref()
        );
    }

    proptest! {
        /// Check that no bytes make the parser panic, and that its result is sorted and sane.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let maps = parse_maps(&bytes);
            prop_assert!(maps.windows(2).all(|w| w[0].start <= w[1].start));
            let _ = executable_files(&maps);
        }

        /// Check that a real text with one byte changed or cut anywhere is read without panic.
        #[test]
        fn damaged(at_byte in 0..TEXT.len(), byte: u8, cut in 0..TEXT.len(), address: u64) {
            let mut text = TEXT.to_vec();
            text[at_byte] = byte;
            let maps = parse_maps(&text[..cut]);
            prop_assert!(maps.iter().all(|m| m.start < m.end));
            let _ = mapping_at(&maps, address);
        }
    }
}
