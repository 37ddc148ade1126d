//! Mechanisms of processes that begin and end.

use std::ffi::CString;
use std::fs::File;
use std::ptr;

use crate::Until;
use crate::memory::{MIB, PAGE, map, memfd, read_each, write_each};

const BYTES: usize = 32 * MIB;

/// A file in memory, all of it there.
fn filled() -> File {
    let file = memfd(BYTES);
    let p = map(BYTES, libc::MAP_SHARED, Some(&file));
    write_each(p, BYTES, PAGE);
    crate::memory::unmap(p, BYTES);
    file
}

pub(crate) fn fork_and_wait() {
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

/// Children that map much, and end with all of it.
#[inline(never)]
pub(crate) fn spend_ending(until: &Until) {
    let file = filled();
    while until.goes_on() {
        // SAFETY: the child maps and reads, allocates nothing, and ends by a call that is safe after fork.
        unsafe {
            let pid = libc::fork();
            assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
            if pid == 0 {
                for _ in 0..4 {
                    read_each(map(BYTES, libc::MAP_SHARED, Some(&file)), BYTES, 16 * PAGE);
                }
                libc::_exit(0);
            }
            libc::waitpid(pid, ptr::null_mut(), 0);
        }
    }
}

/// The same program is started again and again in this process, each time with much mapped.
#[inline(never)]
pub(crate) fn spend_starting(own: &str, until: &Until) {
    let file = filled();
    if !until.goes_on() {
        return;
    }
    for _ in 0..8 {
        read_each(map(BYTES, libc::MAP_SHARED, Some(&file)), BYTES, 16 * PAGE);
    }
    let left = until.left().as_millis().to_string();
    let text = |s: &str| CString::new(s).expect("no NUL");
    let args = [text(own), text("exec"), text(&left), text("itself")];
    let mut argv: Vec<_> = args.iter().map(|a| a.as_ptr()).collect();
    argv.push(ptr::null());
    // SAFETY: the array ends with a null, and its texts live until then. It comes back only if it fails.
    unsafe { libc::execv(args[0].as_ptr(), argv.as_ptr()) };
    panic!("execv: {}", std::io::Error::last_os_error());
}
