//! Mechanisms by which a thread has to wait for another or for a disk.

use std::os::fd::AsRawFd as _;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::memory::{
    MIB, PAGE, advise, map, memfd, on_disk, private, read_each, unmap, write_each,
};
use crate::{ABSENT, Until};

/// Pages that have to come from the disk.
#[inline(never)]
pub(crate) fn spend_reading(until: &Until) {
    let bytes = 64 * MIB;
    let file = on_disk(bytes);
    let until = until.begun_now();
    while until.goes_on() {
        // SAFETY: advice about a file of this program's.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        let p = map(bytes, libc::MAP_PRIVATE, Some(&file));
        advise(p, bytes, libc::MADV_RANDOM);
        read_each(p, bytes, 16 * PAGE);
        unmap(p, bytes);
    }
}

/// One thread frees pages, and another one on another CPU has to flush its TLB.
#[inline(never)]
pub(crate) fn spend_shooting(until: &Until) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let p = private(PAGE);
        while until.goes_on() {
            for _ in 0..100 {
                write_each(p, PAGE, PAGE);
                advise(p, PAGE, libc::MADV_DONTNEED);
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// Another process looks at all pages again and again, and this one can map nothing meanwhile.
#[inline(never)]
pub(crate) fn spend_waiting(until: &Until) {
    let bytes = 256 * MIB;
    let p = private(bytes);
    write_each(p, bytes, PAGE);
    let own = std::process::id();
    let path = format!("/proc/{own}/clear_refs");
    // SAFETY: the child calls nothing but what the kernel does, and allocates nothing that a thread could have locked: there
    // is only one thread.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        while until.goes_on() {
            if std::fs::write(&path, "1").is_err() {
                std::process::exit(ABSENT);
            }
        }
        std::process::exit(0);
    }
    while until.goes_on() {
        unmap(map(PAGE, libc::MAP_PRIVATE, None), PAGE);
        std::thread::sleep(Duration::from_micros(200));
    }
    // SAFETY: its own child.
    unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
}

/// A process has pages of a file taken away from all that map it; others map and unmap it, and have to wait for the list of
/// all these mappings.
#[inline(never)]
pub(crate) fn spend_listing(until: &Until) {
    const OTHERS: usize = 2;
    /// The more mappings, the longer it takes beside the filling of its pages.
    const MAPPINGS: usize = 32;
    let bytes = 4 * MIB;
    let file = memfd(bytes);
    let mappings = [(); MAPPINGS].map(|()| map(bytes, libc::MAP_SHARED, Some(&file)));
    let mut children = Vec::new();
    for _ in 0..OTHERS {
        // SAFETY: the child maps and unmaps, allocates nothing, and ends by a call that is safe after fork.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            while until.goes_on() {
                unmap(map(PAGE, libc::MAP_SHARED, Some(&file)), PAGE);
                std::thread::sleep(Duration::from_micros(200));
            }
            // SAFETY: as above.
            unsafe { libc::_exit(0) };
        }
        children.push(pid);
    }
    let bytes_of_it = libc::off_t::try_from(bytes).expect("an offset");
    while until.goes_on() {
        write_each(mappings[0], bytes, PAGE);
        for p in &mappings[1..] {
            // the kernel maps 16 with one fault
            read_each(*p, bytes, 16 * PAGE);
        }
        // SAFETY: a file of this program's.
        let told = unsafe {
            libc::fallocate(
                file.as_raw_fd(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                0,
                bytes_of_it,
            )
        };
        assert_eq!(told, 0, "fallocate: {}", std::io::Error::last_os_error());
    }
    for pid in children {
        // SAFETY: its own child.
        unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
    }
}

/// Pages of a file that the disk has to take before it goes on.
#[inline(never)]
pub(crate) fn spend_writing(until: &Until) {
    let bytes = 4 * MIB;
    let file = on_disk(bytes);
    let p = map(bytes, libc::MAP_SHARED, Some(&file));
    let until = until.begun_now();
    while until.goes_on() {
        write_each(p, bytes, 16 * PAGE);
        // SAFETY: a mapping of this program's.
        let told = unsafe { libc::msync(p.cast(), bytes, libc::MS_SYNC) };
        assert_eq!(told, 0, "msync: {}", std::io::Error::last_os_error());
    }
}
