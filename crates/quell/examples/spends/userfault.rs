//! Faults that another thread of the program handles (userfaultfd(2)).

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::time::Duration;

use crate::memory::{MIB, PAGE, advise, private, write_each};
use crate::{Until, absent};

// include/uapi/linux/userfaultfd.h
const API: libc::Ioctl = 0xc018_aa3f;
const REGISTER: libc::Ioctl = 0xc020_aa00;
const COPY: libc::Ioctl = 0xc028_aa03;
const VERSION: u64 = 0xaa;
const MISSING: u64 = 1;
const A_FAULT: u8 = 0x12;

/// What the other thread takes for each, beside the copying.
const TAKES: Duration = Duration::from_micros(300);

/// Does a request of this file's, whose argument the kernel reads and fills.
fn ask<const N: usize>(fd: i32, request: libc::Ioctl, what: &mut [u64; N]) {
    // SAFETY: each request's structure is so many words of 64 bits.
    let told = unsafe { libc::ioctl(fd, request, what.as_mut_ptr()) };
    assert_eq!(
        told,
        0,
        "ioctl {request:#x}: {}",
        std::io::Error::last_os_error()
    );
}

/// Answers one fault after the other, until the program ends.
#[inline(never)]
fn answer_userfaults(mut file: File) {
    let fd = file.as_raw_fd();
    let page = [1_u8; 2 * PAGE];
    let page = page.as_ptr().wrapping_add(page.as_ptr().align_offset(PAGE));
    let mut message = [0_u8; 32];
    while file.read_exact(&mut message).is_ok() {
        if message[0] != A_FAULT {
            continue;
        }
        let address = message[16..24].try_into().map(u64::from_ne_bytes);
        let address = address.expect("8 bytes") & !(PAGE as u64 - 1);
        std::thread::sleep(TAKES);
        ask(
            fd,
            COPY,
            &mut [address, page.expose_provenance() as u64, PAGE as u64, 0, 0],
        );
    }
}

/// Touches pages that the other thread has to bring first.
#[inline(never)]
pub(crate) fn spend_userfault(until: &Until) {
    // SAFETY: a new descriptor, which nobody else has.
    let file = unsafe {
        let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC);
        let Ok(fd @ 0..) = i32::try_from(fd) else {
            absent("no userfaultfd(2) here");
        };
        File::from_raw_fd(fd)
    };
    let fd = file.as_raw_fd();
    ask(fd, API, &mut [VERSION, 0, 0]);
    let bytes = MIB;
    let p = private(bytes);
    let start = p.expose_provenance() as u64;
    ask(fd, REGISTER, &mut [start, bytes as u64, MISSING, 0]);
    std::thread::spawn(move || answer_userfaults(file));
    while until.goes_on() {
        for page in 0..bytes / PAGE {
            write_each(p.wrapping_add(page * PAGE), PAGE, PAGE);
            if !until.goes_on() {
                break;
            }
        }
        advise(p, bytes, libc::MADV_DONTNEED);
    }
}
