//! One shootdown with its culprit, its victims and its cost.

use std::borrow::Cow;

use crate::Cause;
use crate::text::clean_text;

/// Marks a stack that is not there, in the fields for stacks.
pub const NO_STACK: i32 = -1;

/// A CPU that was interrupted, and the thread that ran there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShootdownVictim {
    /// The CPU.
    pub cpu: u16,
    /// The process, 0 where the CPU was idle.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The thread's name.
    pub comm: Comm,
    /// Interrupted for an address space that is not its own.
    pub bystander: bool,
    /// From queueing until the handler starts, ns.
    pub delay_ns: u32,
    /// Handler time, ns.
    pub stall_ns: u32,
}

/// A thread's name as the kernel keeps it: up to 15 bytes of any kind and a zero.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Comm(pub [u8; 16]);

impl Comm {
    /// Returns the bytes before the first zero as text. Bytes that are no UTF-8 are replaced, and so are characters that are not plain.
    #[must_use]
    pub fn as_text(&self) -> Cow<'_, str> {
        let end = self.0.iter().position(|&b| b == 0).unwrap_or(16);
        match String::from_utf8_lossy(&self.0[..end]) {
            Cow::Borrowed(text) => clean_text(text),
            Cow::Owned(text) => Cow::Owned(clean_text(&text).into_owned()),
        }
    }
}

impl From<&str> for Comm {
    fn from(s: &str) -> Self {
        let mut c = [0; 16];
        let n = s.len().min(15);
        c[..n].copy_from_slice(&s.as_bytes()[..n]);
        Self(c)
    }
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.as_text())
    }
}

/// One shootdown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shootdown {
    /// When the first request was queued, ns of CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// From then until the last victim that the probe saw was done, ns; 0 where it saw none.
    pub wait_ns: u64,
    /// The culprit's process.
    pub pid: u32,
    /// The culprit's thread.
    pub tid: u32,
    /// Its name.
    pub comm: Comm,
    /// Its CPU.
    pub cpu: u16,
    /// Its cgroup's id in the v2 hierarchy.
    pub cgroup: u64,
    /// Why.
    pub cause: Cause,
    /// The number of the system call that the culprit is in, of its own table; −1 a page fault,
    /// −2 a kernel thread, −3 a flush of the kernel's own mappings.
    pub syscall: i16,
    /// First address.
    pub start: u64,
    /// Address after the last; `u64::MAX` where everything is flushed.
    pub end: u64,
    /// The address space is the culprit's own.
    pub own_mm: bool,
    /// Kernel stack, or [`NO_STACK`].
    pub kernel_stack: i32,
    /// User stack, or [`NO_STACK`].
    pub user_stack: i32,
    /// Whom it hit.
    pub victims: Vec<ShootdownVictim>,
    /// Victims whose handler the probe did not see: hit, but not known.
    pub unseen: u16,
}

impl Default for Shootdown {
    fn default() -> Self {
        Self {
            t_ns: 0,
            wait_ns: 0,
            pid: 0,
            tid: 0,
            comm: Comm::default(),
            cpu: 0,
            cgroup: 0,
            cause: Cause::Other,
            syscall: -1,
            start: 0,
            end: u64::MAX,
            own_mm: false,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
            victims: Vec::new(),
            unseen: 0,
        }
    }
}

impl Shootdown {
    /// Says whether the whole address space is flushed.
    #[must_use]
    pub fn is_full(&self) -> bool {
        is_full_flush(self.end)
    }

    /// Pages of 4 KiB asked for; 0 where everything is flushed.
    #[must_use]
    pub fn page_count(&self) -> u64 {
        flushed_page_count(self.start, self.end)
    }
}

/// Says whether a flush of addresses up to `end` is one of the whole address space: all ones are the kernel's TLB_FLUSH_ALL.
pub(crate) fn is_full_flush(end: u64) -> bool {
    end == u64::MAX
}

/// Returns the pages of 4 KiB from `start` to `end`, as many as the kernel's range has, whatever the size of the pages that are mapped
/// there; 0 where everything is flushed.
pub(crate) fn flushed_page_count(start: u64, end: u64) -> u64 {
    if is_full_flush(end) {
        return 0;
    }
    end.saturating_sub(start) >> 12
}
