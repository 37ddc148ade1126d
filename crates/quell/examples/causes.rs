//! Makes shootdowns by one cause on purpose, for the tests: `causes CAUSE COUNT`.
//!
//! A peer thread spins in the same address space on another CPU, so that there is somebody to
//! interrupt. Changes nothing on the system; its files are temporary and nameless.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
/// Bytes of each range: few enough that flushes stay ranged.
const SIZE: usize = 8 * PAGE;
const HUGE: usize = 2 << 20;

static STOP: AtomicBool = AtomicBool::new(false);
/// Grows while the peer runs.
static BEATS: AtomicU64 = AtomicU64::new(0);

fn pin(cpu: usize) {
    // SAFETY: a zeroed cpu_set_t is an empty one; the call reads it only.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

fn check(what: &str, ret: i32) {
    assert_eq!(ret, 0, "{what}: {}", std::io::Error::last_os_error());
}

/// Maps `size` bytes; of `file` if there is one, and then shared.
fn map(size: usize, file: Option<&File>) -> *mut u8 {
    let (flags, fd) = match file {
        Some(f) => (libc::MAP_SHARED, f.as_raw_fd()),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    // SAFETY: the kernel chooses a free address.
    let p = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            fd,
            0,
        )
    };
    assert_ne!(
        p,
        libc::MAP_FAILED,
        "mmap: {}",
        std::io::Error::last_os_error()
    );
    p.cast()
}

fn touch(p: *mut u8, size: usize, value: u8) {
    for at in (0..size).step_by(PAGE) {
        // SAFETY: every caller mapped so many bytes, readable and writable.
        unsafe { p.add(at).write_volatile(value) };
    }
}

fn unmap(p: *mut u8, size: usize) {
    // SAFETY: mapped by `map`, and not used afterwards.
    check("munmap", unsafe { libc::munmap(p.cast(), size) });
}

fn advise(p: *mut u8, size: usize, advice: i32) {
    // A collapse may find no huge page or no lock for the moment: EAGAIN (madvise(2)).
    for _ in 0..1000 {
        // SAFETY: the range is this program's own, and it expects the pages to change.
        let ret = unsafe { libc::madvise(p.cast(), size, advice) };
        let err = std::io::Error::last_os_error();
        if ret == 0 || err.kind() != std::io::ErrorKind::WouldBlock {
            return check("madvise", ret);
        }
        std::thread::yield_now();
    }
    panic!("madvise: EAGAIN, a thousand times");
}

/// A file on disk without a name.
fn file(size: usize) -> File {
    let mut f = tempfile::tempfile_in(".").expect("a temporary file");
    f.write_all(&vec![1; size]).expect("write");
    f
}

fn memfd(size: usize) -> File {
    // SAFETY: the name is a C string; the descriptor that comes back is nobody else's.
    let f = unsafe {
        let fd = libc::memfd_create(c"causes".as_ptr(), 0);
        assert!(fd >= 0, "memfd_create: {}", std::io::Error::last_os_error());
        File::from_raw_fd(fd)
    };
    f.set_len(size as u64).expect("ftruncate");
    f
}

fn fork_and_wait() {
    // SAFETY: the child ends at once, by a call that is safe after fork.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            libc::_exit(0);
        }
        libc::waitpid(pid, ptr::null_mut(), 0);
    }
}

/// One call, or a few, of which each should shoot by this cause.
fn once(cause: &str, p: *mut u8, shared: &File) {
    match cause {
        "munmap" => {
            let q = map(SIZE, None);
            touch(q, SIZE, 1);
            unmap(q, SIZE);
        }
        "madvise.dontneed" => advise(p, SIZE, libc::MADV_DONTNEED),
        "madvise.free" => advise(p, SIZE, libc::MADV_FREE),
        "madvise.cold" => advise(p, SIZE, libc::MADV_COLD),
        "madvise.guard" => {
            advise(p, SIZE, 102);
            advise(p, SIZE, 103);
        }
        "madvise.pageout" => {
            let q = map(SIZE, Some(shared));
            touch(q, SIZE, 2);
            // SAFETY: as in `advise`.
            unsafe { libc::msync(q.cast(), SIZE, libc::MS_SYNC) };
            touch_read(q, SIZE);
            advise(q, SIZE, libc::MADV_PAGEOUT);
            unmap(q, SIZE);
        }
        "madvise.remove" => {
            let f = memfd(SIZE);
            let q = map(SIZE, Some(&f));
            touch(q, SIZE, 1);
            advise(q, SIZE, libc::MADV_REMOVE);
            unmap(q, SIZE);
        }
        "madvise.collapse" => {
            let q = map(2 * HUGE, None);
            let aligned = q.wrapping_add(q.align_offset(HUGE));
            touch(aligned, HUGE, 1);
            advise(aligned, HUGE, 25);
            unmap(q, 2 * HUGE);
        }
        "mprotect" => {
            // SAFETY: the range is this program's own, and is made writable again at once.
            unsafe {
                check("mprotect", libc::mprotect(p.cast(), SIZE, libc::PROT_READ));
                check(
                    "mprotect",
                    libc::mprotect(p.cast(), SIZE, libc::PROT_READ | libc::PROT_WRITE),
                );
            }
        }
        "mremap" => {
            let q = map(SIZE, None);
            touch(q, SIZE, 1);
            // SAFETY: mapped above; the new address is the only one used afterwards.
            let r = unsafe { libc::mremap(q.cast(), SIZE, SIZE / 2, 0) };
            assert_ne!(r, libc::MAP_FAILED);
            unmap(r.cast(), SIZE / 2);
        }
        "mmap" => {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            // SAFETY: replaces a mapping of this program's own that nobody uses meanwhile.
            let r = unsafe {
                libc::mmap(
                    p.cast(),
                    SIZE,
                    libc::PROT_READ | libc::PROT_WRITE,
                    flags,
                    -1,
                    0,
                )
            };
            assert_ne!(r, libc::MAP_FAILED);
        }
        "brk" => {
            // SAFETY: glibc's malloc takes no notice of memory that is given back above its own.
            unsafe {
                let q = libc::sbrk(SIZE as isize);
                assert_ne!(q.addr(), usize::MAX);
                touch(q.cast(), SIZE, 1);
                libc::sbrk(-(SIZE as isize));
            }
        }
        "fork" | "cow" => {
            touch(p, SIZE, 3);
            fork_and_wait();
            touch(p, SIZE, 4);
        }
        "writeback" => {
            let q = map(SIZE, Some(shared));
            touch(q, SIZE, 5);
            // SAFETY: the range is mapped.
            check("msync", unsafe {
                libc::msync(q.cast(), SIZE, libc::MS_SYNC)
            });
            unmap(q, SIZE);
        }
        "truncate" => {
            let f = memfd(SIZE);
            let q = map(SIZE, Some(&f));
            touch(q, SIZE, 1);
            f.set_len(0).expect("ftruncate");
            unmap(q, SIZE);
        }
        other => panic!("no way to make '{other}' here"),
    }
}

/// Waits until the peer is running: on a busy machine it often isn't, and then it is not hit.
fn wait_for_peer() {
    let deadline = Instant::now() + Duration::from_secs(1);
    let before = BEATS.load(Ordering::Relaxed);
    while BEATS.load(Ordering::Relaxed) < before + 10 && Instant::now() < deadline {
        std::hint::spin_loop();
    }
}

fn touch_read(p: *mut u8, size: usize) {
    for at in (0..size).step_by(PAGE) {
        // SAFETY: the caller mapped so many bytes.
        unsafe { p.add(at).read_volatile() };
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (cause, count) = match args.as_slice() {
        [_, cause, count] => (cause.as_str(), count.parse::<usize>().expect("a count")),
        _ => panic!("usage: causes CAUSE COUNT"),
    };
    pin(0);
    let peer = std::thread::spawn(|| {
        pin(1);
        let deadline = Instant::now() + Duration::from_secs(20);
        while !STOP.load(Ordering::Relaxed) && Instant::now() < deadline {
            BEATS.fetch_add(1, Ordering::Relaxed);
        }
    });
    let shared = file(SIZE);
    let p = map(SIZE, None);
    for _ in 0..count {
        wait_for_peer();
        touch(p, SIZE, 1);
        once(cause, p, &shared);
    }
    STOP.store(true, Ordering::Relaxed);
    peer.join().expect("the peer");
}
