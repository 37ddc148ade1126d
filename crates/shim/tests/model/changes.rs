//! munmap(2), madvise(2) and mprotect(2), by the bytes.

use quell_shim::linux::*;
use quell_shim::{Errno, PAGE, Range};

use super::World;
use super::fake::{BASE, END, PAGES};
use super::promise::{lasting_advice, numbers};

impl World {
    pub(super) fn unmap_own(&self) {
        if let Some(range) = self.own_range() {
            self.unmap(range, range.len() - self.byte() % 3);
        }
    }

    pub(super) fn unmap_any(&self) {
        let range = self.any_range();
        match self.byte() % 8 {
            0 => self.unmap(
                Range {
                    start: range.start,
                    end: END + PAGE,
                },
                END + PAGE - range.start,
            ),
            1 => self.unmap(range, 0),
            2 => self.unmap(
                Range {
                    start: range.start + 1,
                    ..range
                },
                range.len(),
            ),
            _ => self.unmap(range, range.len()),
        }
    }

    pub(super) fn unmap(&self, range: Range, len: usize) {
        if self.keeps_off(range) {
            return;
        }
        let bad = len == 0 || !range.start.is_multiple_of(PAGE) || range.end > END;
        let whole = self.promise.borrow().all_live(range);
        self.note(format!("munmap {:#x}, {len:#x}", range.start));
        let before = self.promise.borrow().at(range).to_vec();
        // SAFETY: the model's memory.
        let done = self.call(Some(range), !whole, || unsafe {
            self.shim.munmap(range.start, len)
        });
        self.note(format!("= {done:?}"));
        match done {
            Err(Errno::EINVAL) if bad => {}
            Ok(()) if !bad => self.promise.borrow_mut().unmap_old(range, &before),
            Err(Errno::ENOMEM) if self.loose.get() => self.resync(range),
            _ => self.fail(&format!("munmap: {done:?}")),
        }
    }

    /// A call that changes a range failed on the way: some of it is done.
    pub(super) fn resync(&self, range: Range) {
        let mut gone = [false; PAGES];
        self.shim.each_region(|kept, held| {
            if !matches!(held, quell_shim::RangeUse::Live(..)) {
                numbers(kept).for_each(|n| gone[n] = true);
            }
        });
        let real = self.shim.kernel().pages.borrow();
        let mut promise = self.promise.borrow_mut();
        for n in numbers(range) {
            match real.get(&(BASE / PAGE + n)) {
                Some(real) if !gone[n] => {
                    if let Some(own) = &mut promise.pages[n] {
                        own.attr = real.attr;
                    }
                }
                _ => promise.pages[n] = None,
            }
        }
        drop((real, promise));
        self.sync_frames(range);
    }

    /// Where a page may have other memory by now, or not, it is as it really is.
    fn sync_frames(&self, range: Range) {
        let real = self.shim.kernel().pages.borrow();
        let mut promise = self.promise.borrow_mut();
        for n in numbers(range) {
            if let (Some(own), Some(real)) = (&mut promise.pages[n], real.get(&(BASE / PAGE + n)))
                && own.frame != real.frame
            {
                own.frame = 0;
            }
        }
    }

    pub(super) fn advise(&self, advice: i32) {
        let range = self.mixed_range();
        if self.keeps_off(range) {
            return;
        }
        let zeroes = matches!(advice, MADV_DONTNEED | MADV_FREE);
        let whole = self.promise.borrow().all_live(range);
        self.note(format!("madvise {range:x?} {advice}"));
        // SAFETY: the model's memory.
        let done = self.call(Some(range), !whole, || unsafe {
            self.shim.madvise(range.start, range.len(), advice)
        });
        self.note(format!("= {done:?}"));
        let expected = match lasting_advice(advice) {
            None if !zeroes => Err(Errno::EINVAL),
            _ if zeroes && self.has_locked(range) => Err(Errno::EINVAL),
            _ if !self.is_all_there(range) => Err(Errno::ENOMEM),
            _ => Ok(()),
        };
        if done != expected && !(self.loose.get() && done == Err(Errno::ENOMEM)) {
            self.fail(&format!("madvise: {done:?} instead of {expected:?}"));
        }
        let mut promise = self.promise.borrow_mut();
        match advice {
            MADV_DONTNEED if done.is_ok() => promise.give_back(range),
            MADV_DONTNEED | MADV_FREE => {
                promise.change(range, |p| p.or_zero |= !p.attr.locked);
                drop(promise);
                self.sync_frames(range);
                promise = self.promise.borrow_mut();
            }
            _ if done.is_ok() || expected == Err(Errno::ENOMEM) => {
                let bits = lasting_advice(advice).unwrap_or(0);
                promise.change(range, |p| p.attr.advice |= bits);
            }
            _ => {}
        }
        drop(promise);
        if done.is_err() && self.loose.get() {
            self.resync(range);
        }
    }

    /// Whether any of a range is locked: of the program's, or of what is leaked.
    fn has_locked(&self, range: Range) -> bool {
        let leaked = self.leaked();
        let promise = self.promise.borrow();
        let real = self.shim.kernel().pages.borrow();
        numbers(range).any(|n| match promise.pages[n] {
            Some(own) => own.attr.locked,
            None => leaked[n] && real[&(BASE / PAGE + n)].attr.locked,
        })
    }

    pub(super) fn protect(&self) {
        let range = self.mixed_range();
        if self.keeps_off(range) {
            return;
        }
        let prot = [3, 3, 0, 1, 7, 2][self.byte() % 6];
        let whole = self.promise.borrow().all_live(range);
        self.note(format!("mprotect {range:x?} {prot}"));
        // SAFETY: the model's memory.
        let done = self.call(Some(range), !whole, || unsafe {
            self.shim.mprotect(range.start, range.len(), prot)
        });
        self.note(format!("= {done:?}"));
        if done.is_ok() != self.is_all_there(range) && !self.loose.get() {
            self.fail(&format!("mprotect: {done:?}"));
        }
        if done.is_err() && self.loose.get() {
            return self.resync(range);
        }
        let leaked = self.leaked();
        let mut promise = self.promise.borrow_mut();
        promise.change_first(range, &leaked, |p| p.attr.prot = prot);
    }
}
