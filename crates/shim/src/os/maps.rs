//! The kernel's description of a mapping: by PROCMAP_QUERY of /proc/self/maps from Linux 6.11 on
//! (include/uapi/linux/fs.h), before that by its text, which takes longer the more mappings there are.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::file::File;
use super::kept_open::{ENOTTY, KeptOpenFile};
use super::{cpu_now, nr, syscall};
use crate::kernel::{Errno, Mapping};
use crate::{PAGE, Range};

const MAPS_FILE: File<'_> = File::named(b"/proc/self/maps\0");
/// `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: usize = 0xc068_6611;
const QUERY_READABLE: u64 = 1;
const QUERY_WRITABLE: u64 = 2;

/// `struct procmap_query`.
#[repr(C)]
#[derive(Default)]
struct MappingQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    start: u64,
    end: u64,
    flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    device: [u32; 2],
    name_size: u32,
    build_id_size: u32,
    name_at: u64,
    build_id_at: u64,
}

/// The kernel has no such query.
static BY_TEXT: AtomicBool = AtomicBool::new(false);

static MAPS_DESCRIPTOR: KeptOpenFile = KeptOpenFile::for_file(MAPS_FILE);

/// How long it took to read the text, the last time, ns.
static TEXT_NS: AtomicUsize = AtomicUsize::new(0);

/// See [`Kernel::mapping_ns`](crate::Kernel::mapping_ns). A little less each time it is asked: once it was long, nobody reads
/// the text, and there may be fewer mappings now.
pub(super) fn takes_ns() -> usize {
    if !BY_TEXT.load(Ordering::Relaxed) {
        return 0;
    }
    let known = TEXT_NS.load(Ordering::Relaxed);
    TEXT_NS.store(known - known / 256, Ordering::Relaxed);
    known
}

/// See [`Kernel::mapping_at`](crate::Kernel::mapping_at).
pub(super) fn mapping_at(range: Range) -> Option<Mapping> {
    let found = if BY_TEXT.load(Ordering::Relaxed) {
        by_text(range)
    } else {
        match MAPS_DESCRIPTOR.ask_file(|fd| by_query(fd, range))? {
            Ok(found) => Some(found),
            Err(Errno(ENOTTY)) => {
                BY_TEXT.store(true, Ordering::Relaxed);
                by_text(range)
            }
            Err(_) => None,
        }
    };
    found.filter(|mapping| mapping.range.intersection(range) == Some(range))
}

/// See [`KeptOpenFile::forget_descriptor`].
pub(super) fn forget_descriptor(may_close: impl Fn() -> bool) {
    MAPS_DESCRIPTOR.forget_descriptor(may_close);
}

fn by_query(fd: usize, range: Range) -> Result<Mapping, Errno> {
    let mut query = MappingQuery {
        size: size_of::<MappingQuery>() as u64,
        query_addr: range.start as u64,
        ..MappingQuery::default()
    };
    let args = [fd, PROCMAP_QUERY, (&raw mut query) as usize, 0, 0, 0];
    // SAFETY: the kernel reads and writes so many bytes of our own place as it says, and no name is asked for.
    unsafe { syscall(nr::IOCTL, args) }?;
    Ok(Mapping {
        range: Range {
            start: query.start as usize,
            end: query.end as usize,
        },
        is_plain: query.flags == QUERY_READABLE | QUERY_WRITABLE
            && (query.inode, query.device) == (0, [0, 0])
            && query.page_size == PAGE as u64,
    })
}

fn by_text(range: Range) -> Option<Mapping> {
    let began = cpu_now();
    let found = MAPS_FILE.find_far_line_if_readable(|line| {
        let mapping = parse_line(line)?;
        (mapping.range.end > range.start).then_some(mapping)
    });
    let took = usize::try_from(cpu_now().saturating_sub(began)).unwrap_or(usize::MAX);
    // An interrupt of another's may come meanwhile.
    const FIRST_NS: usize = 20_000;
    let most = 2 * TEXT_NS.load(Ordering::Relaxed).max(FIRST_NS);
    TEXT_NS.store(took.min(most), Ordering::Relaxed);
    found.flatten()
}

/// A line of proc_pid_maps(5).
fn parse_line(line: &[u8]) -> Option<Mapping> {
    let mut fields = line.split(|b| *b == b' ').filter(|field| !field.is_empty());
    let mut ends = fields.next()?.split(|b| *b == b'-');
    let mut end = || ends.next().and_then(parse_hexadecimal);
    let (start, end) = (end()?, end()?);
    let (rights, _offset, device, inode) = (
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
    );
    let no_file = device.iter().all(|b| matches!(b, b'0' | b':')) && inode == b"0";
    Some(Mapping {
        range: Range { start, end },
        is_plain: rights == b"rw-p" && no_file,
    })
}

fn parse_hexadecimal(text: &[u8]) -> Option<usize> {
    usize::from_str_radix(core::str::from_utf8(text).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that lines are read as the kernel writes them, and foreign text is none.
    #[test]
    fn lines() {
        let plain = |line: &str| parse_line(line.as_bytes()).map(|found| found.is_plain);
        let range = |line: &str| parse_line(line.as_bytes()).map(|found| found.range);
        let heap =
            "5581d000-5581e000 rw-p 00000000 00:00 0                                  [heap]";
        assert_eq!(plain(heap), Some(true));
        assert_eq!(
            range(heap),
            Some(Range {
                start: 0x5581_d000,
                end: 0x5581_e000
            })
        );
        for other in [
            "7f00-8f00 r--p 00000000 00:00 0 ",
            "7f00-8f00 rwxp 00000000 00:00 0 ",
            "7f00-8f00 rw-s 00000000 00:00 0 ",
            "7f00-8f00 rw-s 00000000 00:01 1026 /dev/zero (deleted)",
            "7f00-8f00 rw-p 00001000 fd:00 1234 /usr/lib/x 0 0",
            "7f00-8f00 rw-p 00000000 00:0f 1234 /anon_hugepage (deleted)",
        ] {
            assert_eq!(plain(other), Some(false), "{other}");
        }
        for bad in [
            "",
            "x",
            "7f00 rw-p 0 00:00 0",
            "7f00-zz rw-p 0 00:00 0",
            "7f00-8f00 rw-p",
        ] {
            assert_eq!(plain(bad), None, "{bad}");
        }
    }

    /// Check on the real kernel that both ways say the same, of memory that is plain and of memory that is not, and that
    /// two mappings are not one.
    #[test]
    fn real() {
        let len = 4 * PAGE;
        // SAFETY: a mapping of our own.
        unsafe {
            let at = libc::mmap(std::ptr::null_mut(), len, 3, 0x22, -1, 0) as usize;
            let whole = Range::from_addr_len(at, len).unwrap();
            let asked = |range| {
                BY_TEXT.store(false, Ordering::Relaxed);
                let first = mapping_at(range);
                BY_TEXT.store(true, Ordering::Relaxed);
                assert_eq!(mapping_at(range), first);
                BY_TEXT.store(false, Ordering::Relaxed);
                first
            };
            assert!(asked(whole).unwrap().is_plain);
            libc::mprotect(at as *mut libc::c_void, PAGE, 1);
            assert_eq!(asked(whole), None);
            let first = Range::from_addr_len(at, PAGE).unwrap();
            assert_eq!(asked(first).map(|found| found.is_plain), Some(false));
            libc::munmap(at as *mut libc::c_void, len);
            assert_eq!(asked(whole), None);
        }
    }
}
