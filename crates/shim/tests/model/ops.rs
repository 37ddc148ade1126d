//! One call of the program's: chosen by the bytes, made, and compared.

use quell_shim::linux::*;
use quell_shim::{PAGE, Range, RangeUse};

use super::World;
use super::fake::{BASE, END, PAGES};
use super::promise::numbers;

pub(super) const PLAIN: i32 = MAP_PRIVATE | MAP_ANONYMOUS;
const MAP_LOCKED: i32 = 0x2000;
const MAP_STACK: i32 = 0x2_0000;

impl World {
    pub(super) fn step(&self) {
        match self.byte() % 36 {
            0..=6 => self.map_anywhere(),
            7 => self.map_hint(),
            8..=9 => self.map_at(MAP_FIXED),
            10 => self.map_at(MAP_FIXED_NOREPLACE),
            11 => self.map_bad(),
            12..=16 => self.unmap_own(),
            17..=18 => self.unmap_any(),
            19 => self.advise(MADV_DONTNEED),
            20 => self.advise(MADV_FREE),
            21 => {
                let all = [
                    MADV_NORMAL,
                    MADV_COLD,
                    MADV_PAGEOUT,
                    MADV_HUGEPAGE,
                    MADV_REMOVE,
                    10,
                    MADV_WIPEONFORK,
                    63,
                    -1,
                ];
                self.advise(all[self.byte() % all.len()]);
            }
            22..=23 => self.protect(),
            24..=25 => self.remap(),
            26 => self.lock(),
            27 => self.fork(),
            28 => self.disturb(),
            29 => self.name(),
            32..=33 if self.setup.unseen => self.do_unseen(),
            _ => self.write(),
        }
    }

    /// Makes a call that is about `range` where nothing of another thread's is; `alone` if a correct
    /// program would let no other thread run meanwhile.
    pub(super) fn call<T>(&self, range: Option<Range>, alone: bool, work: impl FnOnce() -> T) -> T {
        let (open, loose) = (self.open.replace(!alone), self.loose.get());
        // What a call that this one interrupts has done so far, nobody knows.
        self.loose.set(self.depth.get() > 0);
        self.busy.borrow_mut().extend(range);
        self.shim.kernel().slept.set(false);
        let done = work();
        if self.shim.kernel().slept.get() {
            self.loosen();
        }
        if range.is_some() {
            self.busy.borrow_mut().pop();
        }
        self.open.set(open);
        // For who called us it is enough to know that somebody ran.
        if self.depth.get() > 0 {
            self.loose.set(loose || self.loose.get());
        }
        done
    }

    /// Another thread is at it, or may be about to map something there.
    pub(super) fn keeps_off(&self, range: Range) -> bool {
        self.is_busy(range) || (self.depth.get() > 0 && !self.promise.borrow().all_live(range))
    }

    /// Of each page, whether it is leaked: something is mapped there that is neither the program's nor the library's.
    /// The library leaves it there where it finds something foreign, or the kernel refuses to take it back. To the
    /// program it is somebody else's: it is in the way of what should lie there, and no hole in a range.
    ///
    /// What a call leaks on its way is seen after the call only, and what the call itself has mapped is not the
    /// program's until the promise says so.
    pub(super) fn leaked(&self) -> [bool; PAGES] {
        let mut kept = [false; PAGES];
        self.shim.each_region(|range, held| {
            if !matches!(held, RangeUse::Live(..)) {
                kept[numbers(range)].fill(true);
            }
        });
        let promise = self.promise.borrow();
        let mut leaked = [false; PAGES];
        for n in self.shim.kernel().pages.borrow().keys() {
            let n = n - BASE / PAGE;
            leaked[n] = promise.pages[n].is_none() && !kept[n];
        }
        leaked
    }

    /// Whether any page of a range is leaked.
    pub(super) fn has_leak(&self, range: Range) -> bool {
        self.leaked()[numbers(range)].contains(&true)
    }

    /// Whether the kernel finds something mapped all over a range: the program's, or leaked.
    pub(super) fn is_all_there(&self, range: Range) -> bool {
        let leaked = self.leaked();
        let promise = self.promise.borrow();
        range.start >= BASE
            && range.end <= END
            && numbers(range).all(|n| promise.pages[n].is_some() || leaked[n])
    }

    /// Of each page, whether the program has nothing there, and nothing is leaked.
    pub(super) fn free(&self) -> [bool; PAGES] {
        let leaked = self.leaked();
        let promise = self.promise.borrow();
        std::array::from_fn(|n| promise.pages[n].is_none() && !leaked[n])
    }

    /// Whether a mapping of so many pages has room somewhere.
    pub(super) fn has_gap(&self, pages: usize) -> bool {
        let free = self.free();
        free.windows(pages.max(1)).any(|w| w.iter().all(|f| *f))
    }

    pub(super) fn pages(&self) -> usize {
        self.byte() % 9 + usize::from(self.byte().is_multiple_of(16)) * 20
    }

    pub(super) fn any_range(&self) -> Range {
        let start = self.byte() % PAGES;
        let end = (start + self.pages().max(1)).min(PAGES);
        Range {
            start: BASE + start * PAGE,
            end: BASE + end * PAGE,
        }
    }

    /// Something that the program has: all of it, or a part.
    pub(super) fn own_range(&self) -> Option<Range> {
        let at = self.byte() % PAGES;
        let promise = self.promise.borrow();
        let n = (at..PAGES)
            .chain(0..at)
            .find(|n| promise.pages[*n].is_some())?;
        let mut range = promise.run_at(n)?;
        let cut = self.byte();
        if cut & 1 != 0 && range.len() > PAGE {
            range.start += (cut >> 2) % (range.len() / PAGE) * PAGE;
        }
        if cut & 2 != 0 && range.len() > PAGE {
            range.end -= (cut >> 5) % (range.len() / PAGE) * PAGE;
        }
        Some(range)
    }

    pub(super) fn mixed_range(&self) -> Range {
        match self.own_range() {
            Some(range) if !self.byte().is_multiple_of(4) => range,
            _ => self.any_range(),
        }
    }

    pub(super) fn prot_and_flags(&self) -> (i32, i32) {
        match self.byte() % 24 {
            0 => (0, PLAIN),
            1 => (1, PLAIN),
            2..=3 => (3, PLAIN | MAP_NORESERVE),
            4 => (7, PLAIN),
            5 => (3, PLAIN | MAP_STACK),
            6 => (3, MAP_SHARED | MAP_ANONYMOUS),
            7 => (3, PLAIN | MAP_LOCKED),
            8 => (2, PLAIN),
            9 => (3, PLAIN | MAP_POPULATE),
            _ => (3, PLAIN),
        }
    }
}
