//! mprotect(2), and other calls that change the kind of a range.

use crate::kernel::{Errno, Kernel};
use crate::linux::*;
use crate::shim::{Locked, Shim};
use crate::{PAGE, Range};

impl<K: Kernel> Shim<K> {
    /// mprotect(2).
    ///
    /// # Safety
    ///
    /// As mprotect(2).
    ///
    /// # Errors
    ///
    /// Those of mprotect(2).
    pub unsafe fn mprotect(&self, addr: usize, len: usize, prot: i32) -> Result<(), Errno> {
        let range = match Range::from_addr_len(addr, len) {
            Some(range) if !self.is_off() => range,
            // SAFETY: the caller's own call.
            _ => return unsafe { self.kernel.mprotect(addr, len, prot) },
        };
        let plain = prot & !(PROT_READ | PROT_WRITE) == 0;
        if !plain {
            // SAFETY: the caller's own call.
            return self.replace_range(range, || unsafe { self.kernel.mprotect(addr, len, prot) });
        }
        // Memory that loses write permission is noted so from now on; memory that gains it is noted when the kernel has
        // done it.
        let begun = self.begin_to_change(range, |table| {
            table.change_kinds(range, |kind| kind.prot &= prot as u8);
        })?;
        // The call may make more mappings of one.
        // SAFETY: the caller's own call.
        let done = self
            .unmap_kept_in(range)
            .and_then(|()| self.with_room(|| unsafe { self.kernel.mprotect(addr, len, prot) }));
        if let Some(begun) = begun {
            self.end_with(begun, |table| {
                if done.is_ok() {
                    table.change_kinds(range, |kind| kind.prot = prot as u8);
                } else {
                    table.forget(range, false);
                }
            });
        }
        done
    }

    /// A call that gives a range a name and changes nothing else (prctl(2), PR_SET_VMA). It is noted once it is done:
    /// in between another thread may unmap the range, and kept memory then has a name, which is all.
    ///
    /// # Errors
    ///
    /// Those of `call`.
    pub fn name_range<T>(
        &self,
        addr: usize,
        len: usize,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if let Some(range) = Range::from_addr_len(addr, len)
            && !self.is_off()
        {
            self.unmap_kept_in(range)?;
            let done = call();
            // Refused at once, by a kernel without CONFIG_ANON_VMA_NAME above all, or for the name itself. Other errors
            // come on the way.
            if !matches!(done, Err(Errno::EINVAL | Errno::EFAULT)) {
                self.note_of(range, |kind| kind.named = true);
            }
            return done;
        }
        call()
    }

    /// Whether pages of a range may be older than the program's mapping, as it was served from kept memory. False also where the
    /// lock is not to be had, and once the library is off.
    pub fn may_have_served(&self, addr: usize, len: usize) -> bool {
        let range = Range::from_addr_len(addr & !(PAGE - 1), len);
        range.is_some_and(|range| {
            self.counters.mmap_served.get() > 0
                && !self.is_off()
                && matches!(
                    self.try_locked(|table| table.has_live(range)),
                    Locked::Done(true)
                )
        })
    }

    /// Any other call that may change the kind of a range: mlock(2), mbind(2), pkey_mprotect(2).
    ///
    /// # Errors
    ///
    /// Those of `call`.
    pub fn change_unfollowed<T>(
        &self,
        addr: usize,
        len: usize,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        // They round the address down.
        let low = addr & !(PAGE - 1);
        if let Some(range) = Range::from_addr_len(low, len.saturating_add(addr - low))
            && !self.is_off()
        {
            return self.replace_range(range, call);
        }
        call()
    }
}
