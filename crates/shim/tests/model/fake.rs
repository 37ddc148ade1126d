//! A model of Linux's side of memory: one page, one byte of content, and what it was mapped as.
//!
//! It is as unkind as Linux may be: mappings of different calls never become one, pages are swapped
//! out, calls fail, a batch is done in part, and another thread runs at every call.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use quell_shim::linux::*;
use quell_shim::{Errno, Map, PAGE, Range};

/// All the addresses that there are.
pub const BASE: usize = 0x10_0000_0000;
pub const PAGES: usize = 96;
pub const END: usize = BASE + PAGES * PAGE;

/// What a mapping is, besides its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    pub prot: i32,
    /// Flags of mmap(2) that stay with it: NORESERVE, SHARED, STACK, LOCKED…
    pub flags: i32,
    /// Advice that stays with it, a bit each.
    pub advice: u64,
    pub locked: bool,
    /// 0 is none.
    pub name: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    pub attr: Attr,
    /// Of which call of mmap(2).
    pub id: u32,
    pub value: u8,
    pub present: bool,
    /// After MADV_FREE: the kernel may take its memory until it is written.
    pub lazy: bool,
    /// Since fork(2) nobody has written it.
    pub shared: bool,
    /// A guard page: who touches it dies.
    pub guard: bool,
    /// Which mapping of the kernel's it is in, together with its attributes.
    pub mapping: u32,
    /// Which memory it has: whoever pinned that has it also when it is unmapped.
    pub frame: u32,
}

/// What the library writes into a page, to the model. The program writes other values.
pub const MARK: u8 = 255;

/// The flags that make a mapping what it is.
pub fn lasting(flags: i32) -> i32 {
    flags & !(MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_POPULATE)
}

/// The answer to a call, from what the kernel is asked to do next.
type Hook = Rc<dyn Fn() -> bool>;

#[derive(Default)]
pub struct Fake {
    pub pages: RefCell<BTreeMap<usize, Page>>,
    last_id: Cell<u32>,
    /// Calls that took away pages that were in memory.
    pub shootdowns: Cell<u32>,
    /// Runs another thread, now and then; true makes the call fail.
    pub hook: RefCell<Option<Hook>>,
    pub short: Cell<bool>,
    /// The program has forbidden itself what only the library asks.
    pub filtered: Cell<bool>,
    last_frame: Cell<u32>,
    /// Pinned memory.
    pub pinned: RefCell<Vec<u32>>,
    /// What may be mapped, in bytes, if that is counted.
    pub bound: Cell<Option<usize>>,
    /// Bytes of memory that are free, if they are few.
    pub free: Cell<Option<usize>>,
    /// Pages that it has taken, or dropped at once, after MADV_FREE, since somebody looked.
    pub taken: RefCell<Vec<usize>>,
    pub thread: Cell<usize>,
    /// What is mapped is to be read in a file, which is not opened while a thread forks.
    pub by_file: Cell<bool>,
    pub(super) forks: Cell<u32>,
    pub(super) clock: Cell<u64>,
    /// Somebody slept: what he waited for can't come, as all threads are one here.
    pub slept: Cell<bool>,
}

pub(super) fn checked(addr: usize, len: usize) -> Result<Range, Errno> {
    Range::from_addr_len(addr, len)
        .filter(|r| r.end <= END)
        .ok_or(Errno::EINVAL)
}

pub(super) fn numbers(range: Range) -> std::ops::Range<usize> {
    range.start / PAGE..range.end / PAGE
}

impl Fake {
    pub(super) fn meddle(&self) -> bool {
        let hook = self.hook.borrow().clone();
        hook.is_some_and(|hook| hook())
    }

    fn is_free(&self, range: Range) -> bool {
        range.start >= BASE
            && range.end <= END
            && self.pages.borrow().range(numbers(range)).next().is_none()
    }

    /// The highest gap, as Linux has it.
    fn gap(&self, len: usize) -> Option<Range> {
        let last = END.checked_sub(len)?;
        (BASE..=last)
            .rev()
            .step_by(PAGE)
            .map(|start| Range {
                start,
                end: start + len,
            })
            .find(|r| self.is_free(*r))
    }

    pub(super) fn take_away(&self, range: Range) {
        let mut pages = self.pages.borrow_mut();
        let mut flush = false;
        for n in numbers(range) {
            flush |= pages.remove(&n).is_some_and(|p| p.present);
        }
        if flush {
            self.shootdowns.set(self.shootdowns.get() + 1);
        }
    }

    /// MADV_DONTNEED and its like, up to what may not be.
    fn drop_pages(&self, range: Range) -> Result<(), Errno> {
        let (mut hole, mut flush) = (false, false);
        let mut locked = false;
        for n in numbers(range) {
            match self.pages.borrow_mut().get_mut(&n) {
                None => hole = true,
                Some(page) if page.attr.locked => {
                    locked = true;
                    break;
                }
                Some(page) => {
                    flush |= page.present;
                    (page.value, page.present, page.shared) = (0, false, false);
                    page.lazy = false;
                    page.frame = self.new_frame();
                }
            }
        }
        if flush {
            self.shootdowns.set(self.shootdowns.get() + 1);
        }
        match (locked, hole) {
            (true, _) => Err(Errno::EINVAL),
            (_, true) => Err(Errno::ENOMEM),
            _ => Ok(()),
        }
    }

    pub(super) fn all(&self, range: Range, is: impl Fn(&Page) -> bool) -> bool {
        let pages = self.pages.borrow();
        numbers(range).all(|n| pages.get(&n).is_some_and(&is))
    }

    pub(super) fn change(&self, range: Range, mut how: impl FnMut(&mut Page)) {
        let mut pages = self.pages.borrow_mut();
        for n in numbers(range) {
            if let Some(page) = pages.get_mut(&n) {
                how(page);
            }
        }
    }

    /// prctl(2), PR_SET_VMA: a name, or 0 for none. Up to the first hole, and then it is refused.
    pub fn name(&self, range: Range, name: u8) -> Result<(), Errno> {
        let mut pages = self.pages.borrow_mut();
        for n in numbers(range) {
            pages.get_mut(&n).ok_or(Errno::ENOMEM)?.attr.name = name;
        }
        Ok(())
    }

    /// MADV_GUARD_INSTALL: what was there is gone.
    pub fn guard(&self, range: Range) {
        self.change(range, |p| {
            (p.guard, p.value, p.present, p.lazy) = (true, 0, false, false);
            p.frame = self.new_frame();
        });
    }

    fn new_frame(&self) -> u32 {
        self.last_frame.set(self.last_frame.get() + 1);
        self.last_frame.get()
    }

    /// The mapping that a new one of these attributes becomes part of: that of a neighbour, or one of its own, since the
    /// kernel does not always make one of two.
    fn mapping_for(&self, range: Range, attr: Attr) -> u32 {
        let id = self.last_id.get();
        let pages = self.pages.borrow();
        let beside = [range.start / PAGE - 1, range.end / PAGE];
        let alike = |n: &usize| pages.get(n).filter(|page| page.attr == attr);
        match beside.iter().find_map(alike) {
            Some(page) if !id.is_multiple_of(4) => page.mapping,
            _ => id,
        }
    }

    /// All of the mapping that has this page.
    pub fn whole_mapping(&self, n: usize) -> Option<(Range, Attr)> {
        let pages = self.pages.borrow();
        let here = pages.get(&n)?;
        let same = |n: &usize| {
            pages
                .get(n)
                .is_some_and(|page| page.mapping == here.mapping && page.attr == here.attr)
        };
        let start = (0..=n).rev().take_while(same).last()?;
        let end = (n..).take_while(same).last()? + 1;
        let range = Range {
            start: start * PAGE,
            end: end * PAGE,
        };
        Some((range, here.attr))
    }

    /// A device writes to memory that was pinned, wherever that is by now. Which memory.
    pub fn device_writes(&self, value: u8) -> Option<u32> {
        let frame = self.pinned.borrow().last().copied()?;
        for page in self.pages.borrow_mut().values_mut() {
            if page.frame == frame {
                (page.value, page.present, page.lazy) = (value, true, false);
            }
        }
        Some(frame)
    }

    /// mlock(2).
    pub fn mlock(&self, addr: usize, len: usize) -> Result<(), Errno> {
        let low = addr & !(PAGE - 1);
        let range = checked(low, len + (addr - low))?;
        self.change(range, |p| (p.attr.locked, p.present) = (true, true));
        if self.all(range, |_| true) {
            Ok(())
        } else {
            Err(Errno::ENOMEM)
        }
    }

    /// The program writes a page, or reads it.
    pub fn write(&self, at: usize, value: u8) {
        let mut pages = self.pages.borrow_mut();
        let page = pages
            .get_mut(&(at / PAGE))
            .expect("the program's page is mapped");
        assert!(
            page.attr.prot & PROT_WRITE != 0 && !page.guard,
            "the program's page at {at:#x} can be written"
        );
        (page.value, page.present, page.shared) = (value, true, false);
        page.lazy = false;
    }

    /// The library reads where a page begins.
    pub fn read(&self, at: usize) -> u8 {
        let pages = self.pages.borrow();
        let page = pages.get(&(at / PAGE)).expect("what is read is mapped");
        assert!(
            page.attr.prot & PROT_READ != 0 && !page.guard,
            "the page at {at:#x} can be read"
        );
        page.value
    }

    pub(super) fn do_mmap(&self, map: &Map) -> Result<usize, Errno> {
        if map.len == 0 || map.offset % PAGE as i64 != 0 {
            return Err(Errno::EINVAL);
        }
        if map.flags & (MAP_SHARED | MAP_PRIVATE) == 0 {
            return Err(Errno::EINVAL);
        }
        let Some(len) = map
            .len
            .checked_next_multiple_of(PAGE)
            .filter(|l| *l <= PAGES * PAGE)
        else {
            return Err(Errno::ENOMEM);
        };
        let range = if map.flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0 {
            if !map.addr.is_multiple_of(PAGE) {
                return Err(Errno::EINVAL);
            }
            let range = Range {
                start: map.addr,
                end: map.addr.checked_add(len).ok_or(Errno::ENOMEM)?,
            };
            if range.start < BASE || range.end > END {
                return Err(Errno::ENOMEM);
            }
            if map.flags & MAP_FIXED_NOREPLACE != 0 && !self.is_free(range) {
                return Err(Errno::EEXIST);
            }
            self.take_away(range);
            range
        } else {
            let start = map.addr & !(PAGE - 1);
            let hint = start.checked_add(len).map(|end| Range { start, end });
            let hint = hint.filter(|r| self.is_free(*r));
            hint.or_else(|| self.gap(len)).ok_or(Errno::ENOMEM)?
        };
        self.last_id.set(self.last_id.get() + 1);
        let attr = Attr {
            prot: map.prot,
            flags: lasting(map.flags),
            advice: 0,
            locked: false,
            name: 0,
        };
        let mapping = self.mapping_for(range, attr);
        for n in numbers(range) {
            let page = Page {
                attr,
                id: self.last_id.get(),
                value: 0,
                present: map.flags & MAP_POPULATE != 0,
                lazy: false,
                shared: false,
                guard: false,
                mapping,
                frame: self.new_frame(),
            };
            self.pages.borrow_mut().insert(n, page);
        }
        Ok(range.start)
    }

    pub(super) fn do_mremap(
        &self,
        old: usize,
        old_len: usize,
        new_len: usize,
        flags: i32,
        new: usize,
    ) -> Result<usize, Errno> {
        let bad = Err(Errno::EINVAL);
        let (fixed, may_move) = (flags & MREMAP_FIXED != 0, flags & MREMAP_MAYMOVE != 0);
        let stays = flags & MREMAP_DONTUNMAP != 0;
        if flags & !7 != 0 || (fixed && !may_move) || (stays && (!may_move || old_len != new_len)) {
            return bad;
        }
        let (from, to_len) = (
            checked(old, old_len)?,
            Range::from_addr_len(0, new_len).ok_or(Errno::EINVAL)?.end,
        );
        let target = if fixed {
            Some(checked(new, to_len)?)
        } else {
            None
        };
        if target.is_some_and(|t| t.start < BASE || t.intersection(from).is_some()) {
            return bad;
        }
        // Before anything is looked at, up to Linux 6.16.
        if let Some(target) = target {
            self.take_away(target);
        }
        if !fixed && !stays && to_len <= from.len() {
            if !self.pages.borrow().contains_key(&(old / PAGE)) {
                return Err(Errno::EFAULT);
            }
            self.take_away(Range {
                start: old + to_len,
                end: from.end,
            });
            return Ok(old);
        }
        let first = self
            .pages
            .borrow()
            .get(&(old / PAGE))
            .copied()
            .ok_or(Errno::EFAULT)?;
        if !self.all(from, |p| p.id == first.id && p.attr == first.attr) {
            return Err(Errno::EFAULT);
        }
        let fresh = Page {
            value: 0,
            present: false,
            lazy: false,
            shared: false,
            guard: false,
            ..first
        };
        let behind = Range {
            start: from.end,
            end: old + to_len,
        };
        if !fixed && !stays && self.is_free(behind) {
            for n in numbers(behind) {
                let frame = self.new_frame();
                self.pages.borrow_mut().insert(n, Page { frame, ..fresh });
            }
            return Ok(old);
        }
        if !may_move {
            return Err(Errno::ENOMEM);
        }
        let to = match target {
            Some(target) => target,
            None => self.gap(to_len).ok_or(Errno::ENOMEM)?,
        };
        self.take_away(to);
        let moved: Vec<Page> = numbers(from).map(|n| self.pages.borrow()[&n]).collect();
        if stays {
            self.change(from, |p| {
                (p.value, p.present, p.lazy, p.frame) = (0, false, false, self.new_frame());
            });
        } else {
            self.take_away(from);
        }
        for (i, n) in numbers(to).enumerate() {
            let page = moved.get(i).copied().unwrap_or(Page {
                frame: self.new_frame(),
                ..fresh
            });
            self.last_id.set(self.last_id.get() + u32::from(i == 0));
            let mapping = self.last_id.get();
            self.pages.borrow_mut().insert(n, Page { mapping, ..page });
        }
        Ok(to.start)
    }

    pub(super) fn do_madvise(&self, addr: usize, len: usize, advice: i32) -> Result<(), Errno> {
        if !addr.is_multiple_of(PAGE) || !(0..64).contains(&advice) || advice > MADV_COLLAPSE {
            return Err(Errno::EINVAL);
        }
        if len == 0 {
            return Ok(());
        }
        let range = checked(addr, len)?;
        match advice {
            MADV_DONTNEED => return self.drop_pages(range),
            // Done for each page when the kernel needs its memory,
            MADV_FREE
                if !self.last_frame.get().is_multiple_of(2)
                    && self.all(range, |p| !p.attr.locked) =>
            {
                self.change(range, |p| p.lazy = p.present && !p.shared);
            }
            // or at once, as it may be.
            MADV_FREE => {
                self.taken.borrow_mut().extend(numbers(range));
                return self.drop_pages(range);
            }
            MADV_POPULATE_WRITE => {
                if !self.all(range, |p| p.attr.prot & PROT_WRITE != 0 && !p.guard) {
                    return Err(Errno::EFAULT);
                }
                self.change(range, |p| (p.present, p.lazy) = (true, false));
            }
            MADV_NORMAL | MADV_WILLNEED | MADV_COLD | MADV_POPULATE_READ | MADV_COLLAPSE => {}
            MADV_PAGEOUT => self.change(range, |p| p.present = false),
            // Of private memory.
            MADV_REMOVE => return Err(Errno::EINVAL),
            _ => self.change(range, |p| p.attr.advice |= 1 << advice),
        }
        if self.all(range, |_| true) {
            Ok(())
        } else {
            Err(Errno::ENOMEM)
        }
    }
}
