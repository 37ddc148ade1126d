//! Causes that take a process of their own, or a way of their own: the other side is no thread, or
//! what is done lasts longer than a call.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::fs::FileExt as _;
use std::ptr;

use crate::memory::{HUGE, PAGE, SIZE, advise, map, map_with, pin, touch, touch_read};
use crate::peer::Peer;

/// Another process's memory is changed, as a debugger does: each page is the zero page there, of which
/// the first write makes a copy.
pub(crate) fn debugger(count: usize) {
    let p = map(count * PAGE, None);
    advise(p, count * PAGE, libc::MADV_NOHUGEPAGE);
    let peer = Peer::child(|| touch_read(p, count * PAGE));
    let path = format!("/proc/{}/mem", peer.pid());
    let memory = OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("its memory");
    for page in 0..count {
        peer.wait();
        let at = p.addr() + page * PAGE;
        memory
            .write_at(&[1], at as u64)
            .expect("write to its memory");
    }
    peer.end();
}

/// A process that ran on CPU 1 ends on CPU 0, or starts another program there: what CPU 1 still has of
/// its page tables must go, if it is idle since.
pub(crate) fn ends(count: usize, exec: bool) {
    let program = c"/proc/self/exe";
    for _ in 0..count {
        // SAFETY: this process has one thread; the child calls only what is safe after fork.
        unsafe {
            let pid = libc::fork();
            assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
            if pid == 0 {
                pin(1);
                let p = map(SIZE, None);
                touch(p, SIZE, 1);
                pin(0);
                if exec {
                    let argv = [
                        program.as_ptr(),
                        c"nothing".as_ptr(),
                        c"0".as_ptr(),
                        ptr::null(),
                    ];
                    libc::execv(program.as_ptr(), argv.as_ptr());
                }
                libc::_exit(0);
            }
            libc::waitpid(pid, ptr::null_mut(), 0);
        }
    }
}

/// include/uapi/linux/userfaultfd.h
mod uffd {
    pub(super) const API: libc::Ioctl = 0xc018_aa3f;
    pub(super) const REGISTER: libc::Ioctl = 0xc020_aa00;
    pub(super) const WRITEPROTECT: libc::Ioctl = 0xc018_aa06;
    pub(super) const VERSION: u64 = 0xaa;
    pub(super) const FEATURE_WP: u64 = 1;
    pub(super) const MODE_WP: u64 = 2;
    pub(super) const PROTECT: u64 = 1;
    pub(super) const DONT_WAKE: u64 = 2;
}

/// Write protection by userfaultfd(2), put on and taken off.
pub(crate) fn userfaultfd(count: usize, peer: Peer) {
    // SAFETY: the call takes flags only; the descriptor that comes back is nobody else's.
    let fd = unsafe {
        let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC);
        assert!(fd >= 0, "userfaultfd: {}", std::io::Error::last_os_error());
        File::from_raw_fd(i32::try_from(fd).expect("a descriptor"))
    };
    let ask = |what: &str, request, argument: &mut [u64]| {
        // SAFETY: each request reads and writes a struct of as many words as it is given.
        let ret = unsafe { libc::ioctl(fd.as_raw_fd(), request, argument.as_mut_ptr()) };
        assert_eq!(ret, 0, "{what}: {}", std::io::Error::last_os_error());
    };
    let p = map(SIZE, None);
    let (start, size) = (p.addr() as u64, SIZE as u64);
    ask(
        "UFFDIO_API",
        uffd::API,
        &mut [uffd::VERSION, uffd::FEATURE_WP, 0],
    );
    ask(
        "UFFDIO_REGISTER",
        uffd::REGISTER,
        &mut [start, size, uffd::MODE_WP, 0],
    );
    for _ in 0..count {
        touch(p, SIZE, 1);
        peer.wait();
        ask(
            "UFFDIO_WRITEPROTECT",
            uffd::WRITEPROTECT,
            &mut [start, size, uffd::PROTECT],
        );
        // or the next touch would wait for somebody to answer
        ask(
            "UFFDIO_WRITEPROTECT",
            uffd::WRITEPROTECT,
            &mut [start, size, uffd::DONT_WAKE],
        );
    }
}

/// Huge pages of hugetlbfs run out: the process that reserved them takes the page from its child, which
/// has not asked for a copy of its own. `reserve` says how many there are to be.
pub(crate) fn hugetlb(count: usize, reserve: impl Fn(usize)) {
    reserve(1);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
    let p = map_with(HUGE, flags, None);
    touch(p, PAGE, 1);
    for _ in 0..count {
        let child = Peer::child(|| {});
        touch(p, PAGE, 2);
        child.end();
    }
    reserve(0);
}
