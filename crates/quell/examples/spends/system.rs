//! Mechanisms that take a change of the system: a cgroup with little memory, swap, memory in pieces. What is changed is
//! changed back, whatever happens to this program.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::memory::{MIB, PAGE, advise, map, on_disk, private, read_each, unmap, write_each};
use crate::undo::{Change, Undo};
use crate::{Until, absent};

/// What the programs of such a cgroup may use.
const LIMIT: usize = 32 * MIB;

/// Is this a virtual machine of the tests, which is thrown away?
pub(crate) fn is_thrown_away() -> bool {
    std::env::var_os("QUELL_TEST_VM").is_some()
}

/// Writes to a file of the kernel's that has to be there.
pub(crate) fn set(path: impl AsRef<Path>, value: &str) {
    let path = path.as_ref();
    fs::write(path, value).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
}

fn text(path: &Path) -> CString {
    CString::new(path.display().to_string()).expect("no NUL")
}

/// Where cgroups are made that limit memory, the file of the limit, and where this process is.
fn cgroups() -> (PathBuf, &'static str, PathBuf) {
    let own = fs::read_to_string("/proc/self/cgroup").expect("/proc is there");
    let place = |controller: &str| {
        let lines = own
            .lines()
            .filter_map(|l| l.split_once(':')?.1.split_once(':'));
        let mut of = lines.filter(|(names, _)| names.split(',').any(|n| n == controller));
        of.next()
            .map(|(_, path)| path.trim_start_matches('/').to_owned())
    };
    let first = Path::new("/sys/fs/cgroup/memory");
    if first.join("memory.limit_in_bytes").exists() {
        let home = first.join(place("memory").unwrap_or_default());
        return (first.to_owned(), "memory.limit_in_bytes", home);
    }
    let root = Path::new("/sys/fs/cgroup");
    let names = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    if !names.split_whitespace().any(|n| n == "memory") {
        absent("no cgroups here that limit memory");
    }
    let passed_on = root.join("cgroup.subtree_control");
    let passed = fs::read_to_string(&passed_on).unwrap_or_default();
    if !passed.split_whitespace().any(|n| n == "memory") {
        if !is_thrown_away() {
            absent("the root's cgroup.subtree_control has no memory");
        }
        set(&passed_on, "+memory");
    }
    (
        root.to_owned(),
        "memory.max",
        root.join(place("").unwrap_or_default()),
    )
}

/// A cgroup with little memory, which this process is in; and swap, if it is asked for and there is none.
struct Group {
    home: PathBuf,
    undo: Undo,
}

impl Group {
    fn enter(with_swap: bool) -> Self {
        let (root, limit, home) = cgroups();
        let own = std::process::id();
        let folder = root.join(format!("quell-spends.{own}"));
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        let mut changes = vec![Change::Made(text(&folder))];
        let file = crate::memory::folder().join(format!("quell-spends.{own}.swap"));
        let makes_swap = with_swap && swaps.lines().count() < 2;
        if makes_swap {
            // asked first, for it says if there is no disk
            drop(on_disk(0));
            changes.push(Change::Swap(text(&file)));
        }
        let undo = Undo::later(&changes);
        if makes_swap && let Err(err) = swap_to(&file) {
            undo.now();
            absent(&format!("no swapping to {}: {err}", file.display()));
        }
        if let Err(err) = fs::create_dir(&folder) {
            undo.now();
            absent(&format!("no cgroup {}: {err}", folder.display()));
        }
        set(folder.join(limit), &LIMIT.to_string());
        set(folder.join("cgroup.procs"), &own.to_string());
        Self { home, undo }
    }

    fn leave(self) {
        set(
            self.home.join("cgroup.procs"),
            &std::process::id().to_string(),
        );
        self.undo.now();
    }
}

/// Has the kernel swap to a new file.
fn swap_to(path: &Path) -> std::io::Result<()> {
    const BYTES: usize = 128 * MIB;
    let mut options = File::options();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let piece = vec![0_u8; MIB];
    for _ in 0..BYTES / MIB {
        file.write_all(&piece)?;
    }
    // include/linux/swap.h: union swap_header
    file.write_all_at(&1_u32.to_ne_bytes(), 1024)?;
    let last = u32::try_from(BYTES / PAGE - 1).expect("few pages");
    file.write_all_at(&last.to_ne_bytes(), 1028)?;
    file.write_all_at(b"SWAPSPACE2", PAGE as u64 - 10)?;
    file.sync_all()?;
    // SAFETY: a text that ends with a NUL.
    match unsafe { libc::swapon(text(path).as_ptr(), 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// By the call itself, so that no function of the standard library has it done.
#[inline(always)]
pub(crate) fn read_at(file: &File, piece: &mut [u8], at: usize) {
    let at = libc::off_t::try_from(at).expect("an offset");
    // SAFETY: so many bytes of this program's.
    let read = unsafe { libc::pread(file.as_raw_fd(), piece.as_mut_ptr().cast(), piece.len(), at) };
    assert!(read > 0, "pread: {}", std::io::Error::last_os_error());
}

/// More of a file is read than may be kept, and so each page has to go for another.
#[inline(never)]
pub(crate) fn spend_freeing(until: &Until) {
    let file = on_disk(0);
    // a file of holes, whose pages come from no disk
    let bytes = 8 * LIMIT;
    file.set_len(bytes as u64).expect("room for a number");
    let group = Group::enter(false);
    let mut piece = vec![0_u8; MIB];
    let until = until.begun_now();
    while until.goes_on() {
        for at in (0..bytes).step_by(MIB) {
            read_at(&file, &mut piece, at);
        }
    }
    group.leave();
}

/// More memory is used than may be kept, and so each page has to come back from swap.
#[inline(never)]
pub(crate) fn spend_swapped(until: &Until) {
    let group = Group::enter(true);
    let bytes = 2 * LIMIT;
    let p = private(bytes);
    write_each(p, bytes, PAGE);
    let pages = bytes / PAGE;
    let mut page = 0;
    let until = until.begun_now();
    while until.goes_on() {
        for _ in 0..64 {
            // in no order that the kernel could read ahead by; but all in turn
            page = (page * 61 + 4099) % pages;
            read_each(p.wrapping_add(page * PAGE), PAGE, PAGE);
        }
    }
    unmap(p, bytes);
    group.leave();
}

/// Pages of a file that is larger than what may be kept are touched, and each has been there before.
#[inline(never)]
pub(crate) fn spend_thrashing(until: &Until) {
    let bytes = LIMIT + LIMIT / 4;
    let file = on_disk(bytes);
    // SAFETY: advice about a file of this program's.
    unsafe {
        libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED);
    }
    let group = Group::enter(false);
    let p = map(bytes, libc::MAP_SHARED, Some(&file));
    advise(p, bytes, libc::MADV_RANDOM);
    let pages = bytes / PAGE;
    let mut page = 0;
    let until = until.begun_now();
    while until.goes_on() {
        for _ in 0..16 {
            // each in turn, as above
            page = (page * 61 + 4099) % pages;
            read_each(p.wrapping_add(page * PAGE), PAGE, PAGE);
        }
    }
    unmap(p, bytes);
    group.leave();
}

/// Pages go from one node to the other and back.
#[inline(never)]
pub(crate) fn spend_moving(until: &Until) {
    /// include/uapi/linux/mempolicy.h
    const MOVE: i32 = 2;
    if !Path::new("/sys/devices/system/node/node1").exists() {
        absent("this machine has one node of memory");
    }
    let bytes = 8 * MIB;
    let p = private(bytes);
    write_each(p, bytes, PAGE);
    let pages: Vec<*mut u8> = (0..bytes / PAGE)
        .map(|i| p.wrapping_add(i * PAGE))
        .collect();
    let mut node = 0;
    while until.goes_on() {
        node = 1 - node;
        let nodes = vec![node; pages.len()];
        let mut status = vec![0_i32; pages.len()];
        // SAFETY: three arrays of so many entries; the pages are this program's.
        let told = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0,
                pages.len(),
                pages.as_ptr(),
                nodes.as_ptr(),
                status.as_mut_ptr(),
                MOVE,
            )
        };
        assert!(told >= 0, "move_pages: {}", std::io::Error::last_os_error());
    }
}

/// What a file of the kernel's tells in KiB, in bytes.
pub(crate) fn bytes_of(path: &str, name: &str) -> usize {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|l| l.split_once(name));
    let number = line.and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<usize>().ok());
    number.unwrap_or_default() << 10
}

/// Nearly all memory of a node in use, with a hole after every page.
pub(crate) fn in_pieces() -> (*mut u8, usize) {
    if !is_thrown_away() {
        absent("takes all memory: for a virtual machine of the tests only");
    }
    let node = "/sys/devices/system/node/node0";
    if Path::new(node).exists() {
        let mask = 1_u64;
        // SAFETY: the call reads one word.
        let told = unsafe {
            libc::syscall(
                libc::SYS_set_mempolicy,
                libc::MPOL_BIND,
                &raw const mask,
                64,
            )
        };
        assert_eq!(
            told,
            0,
            "set_mempolicy: {}",
            std::io::Error::last_os_error()
        );
    }
    let free = match bytes_of(&format!("{node}/meminfo"), "MemFree:") {
        0 => bytes_of("/proc/meminfo", "MemFree:"),
        free => free,
    };
    let each = free.saturating_sub(48 * MIB) / 2 / PAGE * PAGE;
    let (p, q) = (private(each), private(each));
    for at in (0..each).step_by(PAGE) {
        write_each(p.wrapping_add(at), PAGE, PAGE);
        write_each(q.wrapping_add(at), PAGE, PAGE);
    }
    unmap(q, each);
    (p, each)
}

/// Huge pages are wanted where memory is in pieces.
#[inline(never)]
pub(crate) fn spend_compacting(until: &Until) {
    while until.goes_on() {
        let (p, each) = in_pieces();
        let bytes = each / 2;
        let huge = map(bytes, libc::MAP_PRIVATE, None);
        if !advise(huge, bytes, libc::MADV_HUGEPAGE) {
            absent("this kernel has no huge pages");
        }
        for at in (0..bytes).step_by(2 * MIB) {
            write_each(huge.wrapping_add(at), PAGE, PAGE);
            if !until.goes_on() {
                break;
            }
        }
        unmap(huge, bytes);
        unmap(p, each);
    }
}
