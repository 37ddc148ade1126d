//! Mechanisms that a thread makes by itself, by its calls and faults.

use std::fs::File;
use std::io::Read as _;
use std::ptr;

use crate::memory::{MIB, PAGE, advise, map, memfd, private, read_each, unmap, write_each};
use crate::processes::fork_and_wait;
use crate::{Until, absent};

/// Anonymous memory: huge pages or small ones, copied ones, and what calls do with them.
#[inline(never)]
pub(crate) fn spend_memory(mechanism: &str, until: &Until) -> bool {
    let bytes = 32 * MIB;
    match mechanism {
        "fault.anon" => {
            while until.goes_on() {
                let p = private(bytes);
                write_each(p, bytes, PAGE);
                unmap(p, bytes);
            }
        }
        "zeroing" => {
            while until.goes_on() {
                let p = map(4 * bytes, libc::MAP_PRIVATE, None);
                advise(p, 4 * bytes, libc::MADV_HUGEPAGE);
                write_each(p, 4 * bytes, 2 * MIB);
                unmap(p, 4 * bytes);
            }
        }
        "fault.huge" => {
            let bytes = 16 * bytes;
            let p = map(bytes, libc::MAP_PRIVATE, None);
            if !advise(p, bytes, libc::MADV_HUGEPAGE) {
                absent("this kernel has no huge pages");
            }
            // read only, so that the page of zeros stands there and nothing has to be zeroed
            while until.goes_on() {
                read_each(p, bytes, 2 * MIB);
                advise(p, bytes, libc::MADV_DONTNEED);
            }
        }
        "fault.entry" => {
            let nowhere: *mut libc::timespec = ptr::without_provenance_mut(8);
            while until.goes_on() {
                // SAFETY: the kernel finds that nothing is there, which is what this is for.
                let told = unsafe { libc::syscall(libc::SYS_clock_gettime, 1, nowhere) };
                assert_eq!(told, -1, "nothing is there");
            }
        }
        "unmap" => {
            let file = memfd(bytes);
            write_each(map(bytes, libc::MAP_SHARED, Some(&file)), bytes, PAGE);
            while until.goes_on() {
                let p = map(bytes, libc::MAP_SHARED, Some(&file));
                // the kernel maps 16 with one fault
                read_each(p, bytes, 16 * PAGE);
                unmap(p, bytes);
            }
        }
        "collapse" => {
            const COLLAPSE: i32 = 25;
            let at = map(bytes + 2 * MIB, libc::MAP_PRIVATE, None);
            let p = at.wrapping_add(at.align_offset(2 * MIB));
            while until.goes_on() {
                advise(p, bytes, libc::MADV_NOHUGEPAGE);
                write_each(p, bytes, PAGE);
                advise(p, bytes, libc::MADV_HUGEPAGE);
                if !advise(p, bytes, COLLAPSE) {
                    absent(
                        "only Linux 6.1 and later collapse pages on request, where there is room",
                    );
                }
                advise(p, bytes, libc::MADV_DONTNEED);
            }
        }
        "fault.cow" => {
            let file = memfd(bytes);
            write_each(map(bytes, libc::MAP_SHARED, Some(&file)), bytes, PAGE);
            while until.goes_on() {
                let p = map(bytes, libc::MAP_PRIVATE, Some(&file));
                read_each(p, bytes, PAGE);
                write_each(p, bytes, PAGE);
                unmap(p, bytes);
            }
        }
        "fault.file" => {
            let file = memfd(bytes);
            write_each(map(bytes, libc::MAP_SHARED, Some(&file)), bytes, PAGE);
            while until.goes_on() {
                let p = map(bytes, libc::MAP_SHARED, Some(&file));
                // one at a time, and not its neighbours as well
                advise(p, bytes, libc::MADV_RANDOM);
                read_each(p, bytes, PAGE);
                unmap(p, bytes);
            }
        }
        "map" => {
            while until.goes_on() {
                for _ in 0..100 {
                    unmap(map(PAGE, libc::MAP_PRIVATE, None), PAGE);
                }
            }
        }
        "advise" => {
            let p = private(bytes);
            while until.goes_on() {
                write_each(p, bytes, PAGE);
                advise(p, bytes, libc::MADV_DONTNEED);
            }
        }
        "protect" => {
            let p = private(bytes);
            write_each(p, bytes, PAGE);
            while until.goes_on() {
                for protection in [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE] {
                    // SAFETY: this program's own memory, that nobody uses meanwhile.
                    unsafe { libc::mprotect(p.cast(), bytes, protection) };
                }
            }
        }
        "remap" => {
            let mut p = private(bytes);
            let free = map(2 * bytes, libc::MAP_PRIVATE | libc::MAP_NORESERVE, None);
            write_each(p, bytes, PAGE);
            let mut odd = 0;
            while until.goes_on() {
                // not by whole page tables, which would be quick
                odd = (odd + 1) % 2;
                // SAFETY: from memory of this program's to a place that it keeps free.
                p = unsafe {
                    let to = free.add(odd * bytes + (odd + 1) * PAGE);
                    let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                    libc::mremap(p.cast(), bytes - 4 * PAGE, bytes - 4 * PAGE, fixed, to).cast()
                };
                assert!(
                    p.cast() != libc::MAP_FAILED,
                    "mremap: {}",
                    std::io::Error::last_os_error()
                );
            }
        }
        "brk" => {
            while until.goes_on() {
                // SAFETY: nothing else of this program uses the heap meanwhile.
                unsafe {
                    libc::sbrk(16 * PAGE as isize);
                    libc::sbrk(-16 * PAGE as isize);
                }
            }
        }
        "populate" => {
            let p = private(bytes);
            write_each(p, bytes, PAGE);
            while until.goes_on() {
                // SAFETY: this program's own memory.
                unsafe {
                    if libc::mlock(p.cast(), 4 * MIB) != 0 {
                        absent("no memory may be locked here");
                    }
                    libc::munlock(p.cast(), 4 * MIB);
                }
            }
        }
        "fork" => {
            let p = private(8 * bytes);
            write_each(p, 8 * bytes, PAGE);
            while until.goes_on() {
                fork_and_wait();
            }
        }
        "inspect" => {
            let p = private(4 * bytes);
            write_each(p, 4 * bytes, PAGE);
            let mut text = Vec::new();
            while until.goes_on() {
                text.clear();
                let mut file = File::open("/proc/self/smaps").expect("/proc is there");
                file.read_to_end(&mut text).expect("its smaps can be read");
            }
        }
        _ => return false,
    }
    true
}
