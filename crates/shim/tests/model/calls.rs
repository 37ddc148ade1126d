//! The model of the kernel, as the library calls it.

use std::sync::atomic::AtomicU32;

use quell_shim::linux::*;
use quell_shim::{Errno, Kernel, Map, Mapping, PAGE, Part, Pins, Pressure, Range, Threads};

use super::fake::{Fake, MARK, checked, numbers};

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
    fn thread_id(&self) -> usize {
        self.thread.get() + 1
    }
    fn sleep_while(&self, _: &AtomicU32, _: u32, _: u32) {
        self.slept.set(true);
    }
    fn wake_all(&self, _: &AtomicU32) {
        self.meddle();
    }
    fn now_ns(&self) -> u64 {
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
        if self.filtered.get() {
            return Err(Errno::EPERM);
        }
        call!(self, self.name(range, 0))
    }
    unsafe fn advise_each(&self, ranges: &[Part], advice: i32) -> Result<usize, Errno> {
        if self.filtered.get() {
            return Err(Errno::EPERM);
        }
        let before = self.shootdowns.get();
        let mut done = 0;
        for part in ranges {
            let failed = self.meddle();
            if failed || self.do_madvise(part.start, part.len, advice).is_err() {
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
    fn is_filtered(&self) -> bool {
        self.filtered.get()
    }
    unsafe fn mincore(&self, range: Range, out: &mut [u8]) -> Result<(), Errno> {
        if self.filtered.get() {
            return Err(Errno::EPERM);
        }
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
    unsafe fn clear_used(&self, range: Range) -> usize {
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
    fn count_used(&self, pages: &[usize]) -> Option<usize> {
        if self.filtered.get() {
            return None;
        }
        let all = self.pages.borrow();
        let mut count = 0;
        for at in pages {
            let page = all.get(&(at / PAGE))?;
            if page.guard || page.attr.prot & PROT_READ == 0 {
                return None;
            }
            count += usize::from(page.value != 0);
        }
        Some(count)
    }
    unsafe fn count_not_zero(&self, pages: &[usize]) -> usize {
        self.count_used(pages).unwrap_or(0)
    }
    fn mapping_at(&self, range: Range) -> Option<Mapping> {
        self.meddle();
        if self.filtered.get() || self.by_file.get() && self.forks.get() > 0 {
            return None;
        }
        let (whole, attr) = self.whole_mapping(range.start / PAGE)?;
        let plain = attr.flags & (MAP_PRIVATE | MAP_SHARED | MAP_ANONYMOUS);
        (whole.intersection(range) == Some(range)).then_some(Mapping {
            range: whole,
            is_plain: attr.prot == 3 && plain == MAP_PRIVATE | MAP_ANONYMOUS,
        })
    }
    fn all_there(&self, range: Range) -> Option<bool> {
        self.meddle();
        // With a value and not in memory it is swapped out.
        let there = |page: &super::fake::Page| !page.guard && (page.present || page.value != 0);
        Some(!self.filtered.get() && self.all(range, there))
    }
    unsafe fn write_marks(&self, range: Range, _: u64) {
        numbers(range).for_each(|n| self.write(n * PAGE, MARK));
        self.meddle();
    }
    unsafe fn has_marks(&self, range: Range, _: u64) -> bool {
        numbers(range).all(|n| self.read(n * PAGE) == MARK)
    }
    fn is_marked(&self, range: Range, _: u64) -> bool {
        !self.filtered.get() && self.all(range, |p| p.value == MARK && !p.guard)
    }
    unsafe fn fingerprint(&self, range: Range) -> u64 {
        // Other memory always has something else in it here, and so have two that differ in one page only. Where a program
        // maps over what is kept and has the same content there, that is taken for what was kept: see docs/shim.md.
        let word = |hash: u64, n| {
            let frame = u64::from(self.pages.borrow()[&n].frame);
            let mixed = hash ^ frame << 8 ^ u64::from(self.read(n * PAGE));
            mixed.wrapping_mul(0x0100_0000_01b3) & !(1 << 63)
        };
        numbers(range).fold(1, word) | 1 << 63
    }
    fn has_fingerprint(&self, range: Range, fingerprint: u64) -> bool {
        let readable = self.all(range, |p| p.attr.prot & PROT_READ != 0 && !p.guard);
        // SAFETY: it can be read.
        !self.filtered.get() && readable && unsafe { self.fingerprint(range) } == fingerprint
    }
    unsafe fn clear_marked(&self, range: Range, _: u64) -> usize {
        for at in (range.start..range.end).step_by(PAGE) {
            if self.read(at) != MARK {
                return at - range.start;
            }
            self.write(at, 0);
        }
        self.meddle();
        range.len()
    }
    fn pinned_pages(&self) -> Pins {
        if self.pinned.borrow().is_empty() && !self.filtered.get() {
            Pins::None
        } else {
            Pins::Perhaps
        }
    }
    fn fork_begins(&self) {
        self.forks.set(self.forks.get() + 1);
    }
    fn fork_is_over(&self, child: bool) {
        let less = self.forks.get().saturating_sub(1);
        self.forks.set(if child { 0 } else { less });
    }
    fn is_own(&self, range: Range) -> bool {
        !self.filtered.get() && self.all(range, |p| !p.shared)
    }
    fn resident_bytes(&self) -> Option<usize> {
        let present = self.pages.borrow().values().filter(|p| p.present).count();
        (!self.filtered.get()).then_some(present * PAGE)
    }
    fn mapping_limit(&self) -> Option<usize> {
        self.bound.get().filter(|_| !self.filtered.get())
    }
    fn memory_pressure(&self) -> Option<Pressure> {
        // The program would be killed for it.
        assert!(!self.filtered.get());
        Some(if self.short.get() {
            Pressure::Some
        } else {
            Pressure::None(self.free.get().unwrap_or(usize::MAX))
        })
    }
}
