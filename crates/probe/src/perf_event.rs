//! Events of the kernel's perf subsystem: perf_event_open(2).

use std::io::Error;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// `struct perf_event_attr` up to the members that are used here (include/uapi/linux/perf_event.h:
/// PERF_ATTR_SIZE_VER0). The rest is zero.
#[derive(Default)]
#[repr(C)]
pub(crate) struct PerfEventAttributes {
    pub(crate) kind: u32,
    pub(crate) size: u32,
    pub(crate) config: u64,
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) wakeup_events: u32,
    pub(crate) bp_type: u32,
    pub(crate) config1: u64,
}

/// The CPU or the thread whose events count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EventTarget {
    /// All threads that run on this CPU.
    Cpu(u32),
    /// One thread, wherever it runs.
    Thread(u32),
}

/// Programs that this one starts do not inherit the event.
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// Opens an event that is in no group.
pub(crate) fn open_perf_event(
    mut attributes: PerfEventAttributes,
    on: EventTarget,
) -> std::io::Result<OwnedFd> {
    attributes.size = u32::try_from(size_of::<PerfEventAttributes>()).unwrap_or(0);
    let number = |n: u32| libc::c_int::try_from(n).unwrap_or(libc::c_int::MAX);
    let (thread, cpu) = match on {
        EventTarget::Cpu(cpu) => (-1, number(cpu)),
        EventTarget::Thread(tid) => (number(tid), -1),
    };
    // SAFETY: the kernel reads `size` bytes of the attributes, which live until it returns.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(&attributes),
            thread,
            cpu,
            -1,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    match i32::try_from(fd) {
        // SAFETY: the kernel has just opened it, and nobody else knows it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(Error::last_os_error()),
    }
}
