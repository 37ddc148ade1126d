//! What the program, a device or another process does past the library, by the bytes.

use quell_shim::linux::*;
use quell_shim::{Map, PAGE, Range, RangeUse};

use super::World;
use super::fake::{BASE, Fake, MARK, PAGES};
use super::ops::PLAIN;
use super::promise::{lasting_advice, numbers};

impl World {
    /// What the program writes: anything but the library's word, which no program knows.
    pub(super) fn value(&self) -> u8 {
        self.byte() as u8 % MARK
    }

    /// One thing that the library does not see. Only where no call of another thread's is on its way.
    pub(super) fn do_unseen(&self) {
        if self.depth.get() > 0 {
            return;
        }
        let before = self.fake().pages.borrow().clone();
        self.do_one_unseen();
        let now = self.fake().pages.borrow();
        let mut unseen = self.unseen.get();
        for (n, unseen) in unseen.iter_mut().enumerate() {
            *unseen |= before.get(&(BASE / PAGE + n)) != now.get(&(BASE / PAGE + n));
        }
        self.unseen.set(unseen);
    }

    fn do_one_unseen(&self) {
        let what = self.byte() % 15;
        let own = self.own_range();
        let any = self.any_range();
        self.note(format!("unseen {what}, own {own:x?}, any {any:x?}"));
        match (what, own) {
            (0, Some(range)) => self.protect_unseen(range),
            (1, Some(range)) => self.advise_unseen(range),
            (2, Some(range)) => {
                // SAFETY is not needed: the model's memory.
                let done = self.fake().mlock(range.start, range.len());
                if done.is_ok() {
                    let mut promise = self.promise.borrow_mut();
                    promise.change(range, |p| p.attr.locked = true);
                }
            }
            (3, Some(range)) => {
                self.fake().take_away(range);
                self.promise.borrow_mut().pages[numbers(range)].fill(None);
            }
            (4, Some(range)) => self.map_unseen(range, MAP_FIXED),
            (5, _) => self.map_unseen(any, MAP_FIXED),
            (6, _) => self.map_unseen(any, 0),
            (7, Some(range)) => {
                self.fake().guard(range);
                let mut promise = self.promise.borrow_mut();
                promise.give_back(range);
                promise.change(range, |p| p.guard = true);
            }
            (8, Some(range)) => self.pin(range),
            (9, _) => self.device_writes(),
            (10, Some(range)) => self.give_back_unseen(range),
            // Natively each of these is refused: nothing of the program's is there.
            (11, _) => self.meddle_with_nobodys(any, |p| {
                if p.attr.prot & PROT_WRITE != 0 && !p.guard {
                    (p.value, p.present) = (66, true);
                }
            }),
            (12, _) => self.meddle_with_nobodys(any, |p| p.attr.prot = PROT_NONE),
            (13 | 14, _) => self.map_over_kept(),
            _ => {}
        }
    }

    fn fake(&self) -> &Fake {
        self.shim.kernel()
    }

    fn protect_unseen(&self, range: Range) {
        let prot = [0, 1, 3, 7][self.byte() % 4];
        self.fake().change(range, |p| p.attr.prot = prot);
        let mut promise = self.promise.borrow_mut();
        promise.change(range, |p| p.attr.prot = prot);
    }

    fn advise_unseen(&self, range: Range) {
        let advice = [10, MADV_WIPEONFORK, MADV_HUGEPAGE, MADV_DONTDUMP][self.byte() % 4];
        let bits = lasting_advice(advice).unwrap_or(0);
        self.fake().change(range, |p| p.attr.advice |= bits);
        let mut promise = self.promise.borrow_mut();
        promise.change(range, |p| p.attr.advice |= bits);
    }

    fn give_back_unseen(&self, range: Range) {
        let locked = |p: &super::promise::Owned| p.attr.locked;
        if self.promise.borrow().at(range).iter().flatten().any(locked) {
            return;
        }
        let done = self
            .fake()
            .do_madvise(range.start, range.len(), MADV_DONTNEED);
        if done.is_ok() {
            self.promise.borrow_mut().give_back(range);
        }
    }

    fn map_unseen(&self, range: Range, how: i32) {
        let (prot, flags) = self.prot_and_flags();
        let map = Map {
            addr: if how == MAP_FIXED { range.start } else { 0 },
            len: range.len(),
            prot,
            flags: flags | how,
            fd: -1,
            offset: 0,
        };
        if let Ok(at) = self.fake().do_mmap(&map) {
            self.mapped(&map, Ok(at), Ok(()));
        }
    }

    /// Maps plain memory over what is kept, or a part of it, and uses it at once: nothing but what is in it tells it from
    /// what was kept.
    fn map_over_kept(&self) {
        let mut kept = [false; PAGES];
        self.shim.each_region(|range, held| {
            kept[numbers(range)].fill(!matches!(held, RangeUse::Live(..)));
        });
        let at = self.byte() % PAGES;
        let Some(first) = (at..PAGES).chain(0..at).find(|n| kept[*n]) else {
            return;
        };
        let most = (first..PAGES).take_while(|n| kept[*n]).count();
        let len = (self.byte() % most + 1) * PAGE;
        let start = BASE + first * PAGE;
        let map = Map {
            addr: start,
            len,
            prot: PROT_READ | PROT_WRITE,
            flags: PLAIN | MAP_FIXED,
            fd: -1,
            offset: 0,
        };
        let done = self.fake().do_mmap(&map);
        self.mapped(&map, done, Ok(()));
        self.note(format!("= over {len:#x} at {start:#x}"));
        let value = self.value();
        for n in numbers(Range {
            start,
            end: start + len,
        }) {
            self.fake().write(BASE + n * PAGE, value);
            if let Some(own) = &mut self.promise.borrow_mut().pages[n] {
                own.value = value;
            }
        }
    }

    /// The kernel, or a device by it, gets hold of the first page of a range.
    fn pin(&self, range: Range) {
        let n = numbers(range).start;
        let mut promise = self.promise.borrow_mut();
        let Some(own) = promise.pages[n].as_mut() else {
            return;
        };
        if own.or_zero || own.guard || own.attr.prot & PROT_WRITE == 0 {
            return;
        }
        let frame = self.fake().pages.borrow()[&(BASE / PAGE + n)].frame;
        // The same number on both sides: from here on each says what became of it.
        own.frame = frame;
        self.fake().pinned.borrow_mut().push(frame);
    }

    /// A device writes to what was pinned last.
    fn device_writes(&self) {
        let value = self.value();
        let Some(frame) = self.fake().device_writes(value) else {
            return;
        };
        let mut promise = self.promise.borrow_mut();
        let real = self.fake().pages.borrow();
        for (n, own) in promise.pages.iter_mut().enumerate() {
            let Some(own) = own else { continue };
            if own.frame != frame {
                continue;
            }
            // After MADV_FREE it may be the same memory or other.
            own.value = if own.or_zero {
                real[&(BASE / PAGE + n)].value
            } else {
                value
            };
        }
    }

    /// Something is done to addresses at which the program has nothing.
    fn meddle_with_nobodys(&self, range: Range, how: impl Fn(&mut super::fake::Page)) {
        let promise = self.promise.borrow();
        for n in numbers(range).filter(|n| promise.pages[*n].is_none()) {
            let start = BASE + n * PAGE;
            let page = Range {
                start,
                end: start + PAGE,
            };
            self.fake().change(page, &how);
        }
    }
}
