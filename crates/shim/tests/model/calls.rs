//! The model of the kernel, as the library calls it.

use std::sync::atomic::AtomicU32;

use quell_shim::linux::*;
use quell_shim::{Errno, Kernel, Map, PAGE, Part, Pressure, Range, Threads};

use super::fake::{Fake, checked, numbers};

/// mincore(2), where the kernel has no room for its answer.
const EAGAIN: i32 = 11;

/// Before and after each call another thread may run.
macro_rules! call {
    ($self:ident, $work:expr) => {
        call!($self, Errno::ENOMEM, $work)
    };
    ($self:ident, $refusal:expr, $work:expr) => {{
        if $self.meddle() {
            return Err($refusal);
        }
        let done = $work;
        $self.meddle();
        done
    }};
}

impl Threads for Fake {
    fn thread(&self) -> usize {
        self.thread.get() + 1
    }
    fn sleep(&self, _: &AtomicU32, _: u32, _: u32) {
        self.slept.set(true);
    }
    fn wake(&self, _: &AtomicU32) {
        self.meddle();
    }
    fn now(&self) -> u64 {
        self.clock.set(self.clock.get() + 200_000_000);
        self.clock.get()
    }
}

// SAFETY: no memory is touched; what it says is what the checks of the model compare.
unsafe impl Kernel for Fake {
    unsafe fn mmap(&self, map: &Map) -> Result<usize, Errno> {
        call!(self, self.do_mmap(map))
    }
    unsafe fn munmap(&self, addr: usize, len: usize) -> Result<(), Errno> {
        call!(self, checked(addr, len).map(|range| self.take_away(range)))
    }
    unsafe fn mprotect(&self, addr: usize, len: usize, prot: i32) -> Result<(), Errno> {
        call!(self, {
            if len == 0 && addr.is_multiple_of(PAGE) {
                return Ok(());
            }
            if !addr.is_multiple_of(PAGE) {
                return Err(Errno::EINVAL);
            }
            let range = checked(addr, len).map_err(|_| Errno::ENOMEM)?;
            let mapped = numbers(range)
                .take_while(|n| self.pages.borrow().contains_key(n))
                .count();
            self.change(
                Range {
                    start: addr,
                    end: addr + mapped * PAGE,
                },
                |p| p.attr.prot = prot,
            );
            if mapped * PAGE == range.len() {
                Ok(())
            } else {
                Err(Errno::ENOMEM)
            }
        })
    }
    unsafe fn madvise(&self, addr: usize, len: usize, advice: i32) -> Result<(), Errno> {
        call!(self, self.do_madvise(addr, len, advice))
    }
    unsafe fn mremap(
        &self,
        old: usize,
        old_len: usize,
        new_len: usize,
        flags: i32,
        new: usize,
    ) -> Result<usize, Errno> {
        call!(self, self.do_mremap(old, old_len, new_len, flags, new))
    }
    unsafe fn unname(&self, range: Range) -> Result<(), Errno> {
        call!(self, self.name(range, 0))
    }
    unsafe fn give_back(&self, ranges: &[Part]) -> Result<usize, Errno> {
        let before = self.shootdowns.get();
        let mut done = 0;
        for part in ranges {
            let failed = self.meddle();
            if failed
                || self
                    .do_madvise(part.start, part.len, MADV_DONTNEED)
                    .is_err()
            {
                break;
            }
            done += part.len;
        }
        self.shootdowns.set(self.shootdowns.get().min(before + 1));
        self.meddle();
        if done == 0 {
            Err(Errno::EPERM)
        } else {
            Ok(done)
        }
    }
    unsafe fn mincore(&self, range: Range, out: &mut [u8]) -> Result<(), Errno> {
        call!(self, Errno(EAGAIN), {
            if !self.all(range, |_| true) {
                return Err(Errno::ENOMEM);
            }
            for (n, byte) in numbers(range).zip(out) {
                *byte = u8::from(self.pages.borrow()[&n].present);
            }
            Ok(())
        })
    }
    unsafe fn zero(&self, range: Range) {
        for n in numbers(range) {
            self.write(n * PAGE, 0);
        }
        self.meddle();
    }
    unsafe fn clear(&self, range: Range) -> usize {
        let mut zeros = 0;
        for n in numbers(range) {
            if self.pages.borrow()[&n].value == 0 {
                zeros += 1;
            } else {
                self.write(n * PAGE, 0);
            }
        }
        self.meddle();
        zeros
    }
    fn in_use(&self, pages: &[usize]) -> bool {
        let all = self.pages.borrow();
        pages
            .iter()
            .any(|at| all.get(&(at / PAGE)).is_some_and(|p| p.value != 0))
    }
    fn is_own(&self, range: Range) -> bool {
        self.all(range, |p| !p.shared)
    }
    fn resident(&self) -> Option<usize> {
        let present = self.pages.borrow().values().filter(|p| p.present).count();
        Some(present * PAGE)
    }
    fn bound(&self) -> Option<usize> {
        self.bound.get()
    }
    fn pressure(&self) -> Pressure {
        if self.short.get() {
            Pressure::Some
        } else {
            Pressure::None
        }
    }
}
