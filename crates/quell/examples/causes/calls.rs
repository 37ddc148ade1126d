//! Causes that are one system call on the program's own memory, or a few.

use std::fs::File;
use std::ptr;

use crate::memory::{
    HUGE, MADV_COLLAPSE, MADV_GUARD_INSTALL, MADV_GUARD_REMOVE, SIZE, advise, aligned, check, map,
    memfd, touch, touch_read, unmap,
};

/// What there is.
pub(crate) const CAUSES: &[&str] = &[
    "munmap",
    "madvise.dontneed",
    "madvise.free",
    "madvise.cold",
    "madvise.guard",
    "madvise.pageout",
    "madvise.remove",
    "madvise.collapse",
    "mprotect",
    "mremap",
    "mmap",
    "brk",
    "fork",
    "cow",
    "writeback",
    "truncate",
    "shm",
    "tracking",
];

/// What this kernel lacks for a cause, if it does.
pub(crate) fn lacks(cause: &str, p: *mut u8) -> Option<&'static str> {
    // SAFETY: the advice is taken back at once, and nothing lies there yet.
    let has = |advice| unsafe { libc::madvise(p.cast(), SIZE, advice) == 0 };
    match cause {
        "madvise.guard" if !has(MADV_GUARD_INSTALL) => Some("MADV_GUARD_INSTALL is of Linux 6.13"),
        "madvise.guard" => {
            has(MADV_GUARD_REMOVE);
            None
        }
        "madvise.collapse" => lacks_collapse(),
        _ => None,
    }
}

/// Advice on no memory at all is refused only if it is not known.
fn lacks_collapse() -> Option<&'static str> {
    // SAFETY: the kernel looks at nothing.
    let known = unsafe { libc::madvise(ptr::null_mut(), 0, MADV_COLLAPSE) == 0 };
    (!known).then_some("MADV_COLLAPSE is of Linux 6.1")
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

/// One call, or a few, of which each should shoot by this cause, one of [`CAUSES`].
pub(crate) fn once(cause: &str, p: *mut u8, shared: &File) {
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
            advise(p, SIZE, MADV_GUARD_INSTALL);
            advise(p, SIZE, MADV_GUARD_REMOVE);
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
            let start = aligned(q);
            // small pages, also where huge ones are the rule
            advise(start, HUGE, libc::MADV_NOHUGEPAGE);
            touch(start, HUGE, 1);
            advise(start, HUGE, libc::MADV_HUGEPAGE);
            advise(start, HUGE, MADV_COLLAPSE);
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
        "shm" => {
            // SAFETY: a segment of its own, which is gone once it is detached; the address is the kernel's.
            unsafe {
                let id = libc::shmget(libc::IPC_PRIVATE, SIZE, libc::IPC_CREAT | 0o600);
                assert!(id >= 0, "shmget: {}", std::io::Error::last_os_error());
                let q = libc::shmat(id, ptr::null(), 0);
                check("shmctl", libc::shmctl(id, libc::IPC_RMID, ptr::null_mut()));
                touch(q.cast(), SIZE, 1);
                check("shmdt", libc::shmdt(q));
            }
        }
        "tracking" => {
            // 4: the soft-dirty bits (proc_pid_clear_refs(5))
            std::fs::write("/proc/self/clear_refs", "4").expect("/proc/self/clear_refs");
        }
        other => panic!("no way to make '{other}' here"),
    }
}
