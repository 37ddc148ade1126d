//! userfaultfd write protection: a live migration and a snapshot find out by it which pages are written. Both ways change a right
//! of present pages, and are flushed (mm/userfaultfd.c: uffd_wp_range(), mm/mprotect.c: change_pte_range(), pte_needs_flush() in
//! arch/x86/include/asm/tlbflush.h). Nobody writes meanwhile, so that nobody need answer.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use super::{Culprit, DEFAULT_MECHANISM, StallMechanism, pages_param};
use crate::memory::{LabMapping, PAGE_BYTES};
use crate::os_result::os_result;

pub(super) const UFFD_WP_MECHANISM: StallMechanism = StallMechanism {
    name: "uffd-wp",
    about: "write protection of written pages by userfaultfd, and its end: what a snapshot does",
    params: &[pages_param(64, 1 << 18)],
    expects: |_| Some(2.0),
    keeps_tables: true,
    prepare: |params| {
        let protected = Protected::new(params.size("pages") * PAGE_BYTES)?;
        Ok(Box::new(protected))
    },
    lacks: || {
        let tried = Protected::new(PAGE_BYTES).and_then(|mut p| p.run_operation());
        tried
            .err()
            .map(|err| format!("userfaultfd can't write-protect here: {err}"))
    },
    ..DEFAULT_MECHANISM
};

// The numbers are those of include/uapi/linux/userfaultfd.h; the libc crate has none of them.

/// A descriptor that never stops the kernel's own accesses, which every user may have (Linux 5.11).
const UFFD_USER_MODE_ONLY: i32 = 1;
const UFFD_API: u64 = 0xaa;
const UFFD_FEATURE_PAGEFAULT_FLAG_WP: u64 = 1 << 0;
const UFFDIO_REGISTER_MODE_WP: u64 = 1 << 1;
const UFFDIO_WRITEPROTECT_MODE_WP: u64 = 1 << 0;

/// `_IOWR(0xaa, number, T)` (include/uapi/asm-generic/ioctl.h).
const fn ioctl_number<T>(number: u32) -> libc::c_ulong {
    let bytes = size_of::<T>() as u32;
    (3 << 30 | bytes << 16 | 0xaa << 8 | number) as libc::c_ulong
}

#[repr(C)]
struct Handshake {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    bytes: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct WriteProtect {
    start: u64,
    bytes: u64,
    mode: u64,
}

const UFFDIO_API: libc::c_ulong = ioctl_number::<Handshake>(0x3f);
const UFFDIO_REGISTER: libc::c_ulong = ioctl_number::<Register>(0);
const UFFDIO_WRITEPROTECT: libc::c_ulong = ioctl_number::<WriteProtect>(6);

struct Protected {
    // It is closed before the mapping goes, which ends all protection.
    fd: OwnedFd,
    mapping: LabMapping,
}

fn open_userfaultfd() -> io::Result<OwnedFd> {
    let with = |flags: i32| {
        // SAFETY: flags only; the kernel gives a new descriptor or -1.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags | libc::O_CLOEXEC) };
        match i32::try_from(fd) {
            // SAFETY: the descriptor is new and nobody else's.
            Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // Linux before 5.11 has no such flag.
    with(UFFD_USER_MODE_ONLY).or_else(|_| with(0))
}

impl Protected {
    fn new(bytes: usize) -> io::Result<Self> {
        let mapping = LabMapping::small_pages(bytes)?;
        let new = Self {
            fd: open_userfaultfd()?,
            mapping,
        };
        new.call_ioctl(
            UFFDIO_API,
            &mut Handshake {
                api: UFFD_API,
                features: UFFD_FEATURE_PAGEFAULT_FLAG_WP,
                ioctls: 0,
            },
        )?;
        let mut register = Register {
            start: new.start(),
            bytes: new.mapping.bytes() as u64,
            mode: UFFDIO_REGISTER_MODE_WP,
            ioctls: 0,
        };
        new.call_ioctl(UFFDIO_REGISTER, &mut register)?;
        Ok(new)
    }

    fn start(&self) -> u64 {
        self.mapping.start().addr() as u64
    }

    fn call_ioctl<T>(&self, request: libc::c_ulong, what: &mut T) -> io::Result<()> {
        let what = std::ptr::from_mut(what);
        // SAFETY: the request is made for a T, of which the kernel reads and writes no more than its size.
        os_result(unsafe { libc::ioctl(self.fd.as_raw_fd(), request, what) })
    }

    fn set_protection(&self, mode: u64) -> io::Result<()> {
        let mut protect = WriteProtect {
            start: self.start(),
            bytes: self.mapping.bytes() as u64,
            mode,
        };
        self.call_ioctl(UFFDIO_WRITEPROTECT, &mut protect)
    }
}

impl Culprit for Protected {
    fn prepare_operation(&mut self) -> io::Result<()> {
        self.mapping.touch_pages();
        Ok(())
    }

    fn run_operation(&mut self) -> io::Result<()> {
        let protected = self.set_protection(UFFDIO_WRITEPROTECT_MODE_WP);
        // The protection goes also where the first call failed half-way: nobody would answer the fault of a write.
        let freed = self.set_protection(0);
        protected.and(freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the numbers of the requests are those of the header, as a C compiler says them.
    #[test]
    fn requests_have_their_numbers() {
        assert_eq!(UFFDIO_API, 0xc018_aa3f);
        assert_eq!(UFFDIO_REGISTER, 0xc020_aa00);
        assert_eq!(UFFDIO_WRITEPROTECT, 0xc018_aa06);
    }
}
