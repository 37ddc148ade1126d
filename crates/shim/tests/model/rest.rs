//! mremap(2), and what is no call about memory, by the bytes.

use quell_shim::linux::*;
use quell_shim::{Errno, PAGE, Range};

use super::World;
use super::fake::{BASE, END, PAGES};
use super::promise::{Owned, number, numbers};

impl World {
    pub(super) fn remap(&self) {
        let Some(from) = self.own_range() else { return };
        let pages = self.pages();
        let flags = [0, 1, 1, 1, 3, 3, 5, 2, 8][self.byte() % 9];
        let new_len = if flags == 5 { from.len() } else { pages * PAGE };
        let new = self.any_range().start;
        let to = Range {
            start: new,
            end: new + new_len,
        };
        let behind = Range {
            start: from.end,
            end: from.start + new_len,
        };
        let fixed = flags & MREMAP_FIXED != 0;
        let one = self.promise.borrow().is_one(from);
        let both = Range {
            start: from.start.min(to.start),
            end: from.end.max(to.end),
        };
        let whole = Range {
            start: from.start,
            end: from.end.max(behind.end),
        };
        let range = if fixed { both } else { whole };
        if !one || self.is_busy(range) || (fixed && (self.depth.get() > 0 || new_len == 0)) {
            return;
        }
        let bad = new_len == 0
            || matches!(flags, 2 | 8)
            || (fixed && (to.end > END || to.intersection(from).is_some()));
        // What is to be expected, and whether there is room to move pieces: what is several mappings to the kernel is moved
        // piece by piece, and mappings are set aside for that, not in the target; wherever that lies in a gap, there must
        // be room for them on one side of it.
        let foretell = || {
            const SPARE: usize = 8;
            let free = self.free();
            let roomy = {
                let (mut free, mut pages) = (free, SPARE);
                if fixed {
                    free[numbers(to)].fill(false);
                } else {
                    pages += SPARE + 2 * new_len / PAGE;
                }
                free.windows(pages).any(|w| w.iter().all(|f| *f))
            };
            let grows = behind.end <= END && numbers(behind).all(|n| free[n]);
            let may_grow = flags != 5 && (new_len <= from.len() || grows);
            let expected = match () {
                () if bad => Err(Errno::EINVAL),
                () if fixed || may_grow => Ok(()),
                () if flags & 1 != 0 && self.has_gap(new_len / PAGE) => Ok(()),
                () => Err(Errno::ENOMEM),
            };
            (expected, roomy)
        };
        let mut foretold = foretell();
        let old = self.promise.borrow().at(from).to_vec();
        let unseen = self.unseen.get()[numbers(from)].contains(&true);
        let moved = |to: Range| {
            let stays = flags & MREMAP_DONTUNMAP != 0;
            self.promise.borrow_mut().remap(from, &old, to, stays);
            // What the library knows of it goes with it.
            self.set_unseen(to, unseen);
        };
        self.note(format!(
            "mremap {from:x?} to {new_len:#x}, {flags}, {new:#x}"
        ));
        // SAFETY: the model's memory.
        let done = self.call(Some(range), fixed, || unsafe {
            self.shim
                .mremap(from.start, from.len(), new_len, flags, new)
        });
        self.note(format!("= {done:x?}"));
        if done.is_err() {
            // What it has leaked on its way is where it would have grown or moved to.
            foretold = foretell();
        }
        let (expected, roomy) = foretold;
        match (done, expected) {
            (Ok(at), Ok(())) => {
                if fixed && at != new {
                    self.fail("it is not where it should be");
                }
                let range = Range {
                    start: at,
                    end: at + new_len,
                };
                moved(range);
            }
            (Ok(at), Err(_)) if self.loose.get() => {
                let range = Range {
                    start: at,
                    end: at + new_len,
                };
                moved(range);
            }
            (Err(Errno::ENOMEM), expected) if self.loose.get() || (expected.is_ok() && !roomy) => {
                if self.loose.get() {
                    self.resync(from);
                    // What was moved, and could not be brought back either: what is there is no mapping of the program's,
                    // unless another thread has one there by now.
                    let mut promise = self.promise.borrow_mut();
                    for (n, old) in numbers(from).zip(&old) {
                        let lost =
                            |(now, old): (Owned, Owned)| now.id == old.id && now.attr != old.attr;
                        if promise.pages[n].zip(*old).is_some_and(lost) {
                            promise.pages[n] = None;
                        }
                    }
                }
                if self.loose.get() && flags == 5 {
                    // What was moved, and could not be brought back.
                    self.promise.borrow_mut().change(from, |p| p.or_zero = true);
                }
                if fixed {
                    // Untouched where it is known still. Otherwise gone, whatever is there now: what is left over of
                    // the attempt might be another thread's.
                    let mut untouched = [false; PAGES];
                    self.shim
                        .each_region(|range, _| untouched[numbers(range)].fill(true));
                    for n in numbers(to).filter(|n| !untouched[*n]) {
                        self.promise.borrow_mut().pages[n] = None;
                    }
                    self.resync(to);
                }
            }
            (Err(found), Err(wanted)) if found == wanted => {}
            _ => self.fail(&format!("mremap: {done:x?} instead of {expected:?}")),
        }
    }

    pub(super) fn lock(&self) {
        let range = self.mixed_range();
        if self.keeps_off(range) || !self.byte().is_multiple_of(4) {
            return;
        }
        let whole = self.promise.borrow().all_live(range);
        let (addr, len) = (range.start + 1, range.len() - 1);
        self.note(format!("mlock {range:x?}"));
        let kernel = self.shim.kernel();
        let done = self.call(Some(range), !whole, || {
            self.shim
                .change_unfollowed(addr, len, || kernel.mlock(addr, len))
        });
        if done.is_ok() != self.is_all_there(range) && !self.loose.get() {
            self.fail(&format!("mlock: {done:?}"));
        }
        if done.is_err() && self.loose.get() {
            return self.resync(range);
        }
        self.promise
            .borrow_mut()
            .change(range, |p| p.attr.locked = true);
    }

    pub(super) fn name(&self) {
        let (range, name) = (self.mixed_range(), self.byte() as u8 % 3);
        if self.keeps_off(range) {
            return;
        }
        let whole = self.promise.borrow().all_live(range);
        self.note(format!("name {range:x?} {name}"));
        let kernel = self.shim.kernel();
        let done = self.call(Some(range), !whole, || {
            let call = || kernel.name(range, name);
            self.shim.name_range(range.start, range.len(), call)
        });
        if done.is_ok() != self.is_all_there(range) && !self.loose.get() {
            self.fail(&format!("name: {done:?}"));
        }
        if done.is_err() && self.loose.get() {
            return self.resync(range);
        }
        let leaked = self.leaked();
        self.promise
            .borrow_mut()
            .change_first(range, &leaked, |p| p.attr.name = name);
    }

    pub(super) fn fork(&self) {
        self.note("fork".into());
        self.call(None, true, || self.shim.before_fork());
        for page in self.shim.kernel().pages.borrow_mut().values_mut() {
            page.shared = page.present;
        }
        self.shim.after_fork(false);
    }

    /// The machine's doing: pages are swapped out, memory gets short, and the threads of many CPUs meet at the lock.
    pub(super) fn disturb(&self) {
        let (what, range) = (self.byte(), self.any_range());
        let kernel = self.shim.kernel();
        if what.is_multiple_of(8) {
            kernel.short.set(!kernel.short.get());
            return;
        }
        if what == 2 && self.setup.unseen {
            kernel.filtered.set(true);
            // What is kept can't be told from what may be there instead, and is left alone.
            self.set_unseen(
                Range {
                    start: BASE,
                    end: END,
                },
                true,
            );
            return;
        }
        if what % 8 == 1 {
            // What need not be done is left for some calls.
            self.shim.pretend_crowd(what as u32 / 8);
            return;
        }
        for n in numbers(range) {
            if let Some(page) = kernel.pages.borrow_mut().get_mut(&(BASE / PAGE + n)) {
                if page.lazy {
                    kernel.taken.borrow_mut().push(BASE / PAGE + n);
                    (page.value, page.present, page.lazy) = (0, false, false);
                }
                page.present &= page.attr.locked || page.value == 0;
            }
        }
    }

    pub(super) fn write(&self) {
        let Some(range) = self.own_range() else {
            return;
        };
        let value = self.value();
        for at in (range.start..range.end).step_by(PAGE) {
            let n = number(at);
            let mut promise = self.promise.borrow_mut();
            if let Some(page) = &mut promise.pages[n]
                && page.attr.prot & PROT_WRITE != 0
                && !page.guard
                && !self.is_busy(Range {
                    start: at,
                    end: at + PAGE,
                })
            {
                (page.value, page.or_zero) = (value, false);
                self.shim.kernel().write(at, value);
            }
        }
    }
}
