//! What Linux promises the program, page by page, and nothing of how it is kept.

use quell_shim::linux::*;
use quell_shim::{PAGE, Range};

use crate::model::fake::{Attr, BASE, END, PAGES};

/// A page that the program has mapped.
#[derive(Clone, Copy, Debug)]
pub struct Owned {
    pub attr: Attr,
    /// Of which of its calls.
    pub id: u32,
    pub value: u8,
    /// After MADV_FREE, or a call that failed on the way: it is as it was, or zero.
    pub or_zero: bool,
    pub guard: bool,
    /// Which memory it has, as the kernel would count it without the library.
    pub frame: u32,
}

pub struct Promise {
    pub pages: [Option<Owned>; PAGES],
    last_id: u32,
    last_frame: u32,
}

pub fn number(at: usize) -> usize {
    (at - BASE) / PAGE
}

/// The pages of a range, as far as there are such addresses.
pub fn numbers(range: Range) -> std::ops::Range<usize> {
    let (start, end) = (range.start.clamp(BASE, END), range.end.clamp(BASE, END));
    number(start)..number(end)
}

impl Promise {
    pub fn new() -> Promise {
        Promise {
            pages: [None; PAGES],
            last_id: 0,
            last_frame: 0,
        }
    }

    pub fn at(&self, range: Range) -> &[Option<Owned>] {
        &self.pages[numbers(range)]
    }

    pub fn all_live(&self, range: Range) -> bool {
        range.start >= BASE && range.end <= END && self.at(range).iter().all(Option::is_some)
    }

    pub fn none_live(&self, range: Range) -> bool {
        range.start >= BASE && range.end <= END && self.at(range).iter().all(Option::is_none)
    }

    /// One mapping, of one kind: what mremap(2) takes.
    pub fn is_one(&self, range: Range) -> bool {
        let pages = self.at(range);
        let same = |w: &[Option<Owned>]| match (&w[0], &w[1]) {
            (Some(a), Some(b)) => a.id == b.id && a.attr == b.attr,
            _ => false,
        };
        self.all_live(range) && pages.windows(2).all(same)
    }

    pub fn new_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }

    pub fn map(&mut self, range: Range, attr: Attr) {
        let id = self.new_id();
        for n in numbers(range) {
            self.pages[n] = Some(Owned {
                attr,
                id,
                value: 0,
                or_zero: false,
                guard: false,
                frame: self.new_frame(),
            });
        }
    }

    /// A number that the kernel's model has for no memory.
    fn new_frame(&mut self) -> u32 {
        self.last_frame += 1;
        1 << 31 | self.last_frame
    }

    /// MADV_DONTNEED: it is zero, and other memory than before.
    pub fn give_back(&mut self, range: Range) {
        for n in numbers(range) {
            let frame = self.new_frame();
            if let Some(own) = &mut self.pages[n] {
                (own.value, own.or_zero, own.frame) = (0, false, frame);
            }
        }
    }

    pub fn change(&mut self, range: Range, mut how: impl FnMut(&mut Owned)) {
        self.pages[numbers(range)]
            .iter_mut()
            .flatten()
            .for_each(&mut how);
    }

    /// The same up to the first hole, where the kernel stops. What is leaked is none.
    pub fn change_first(
        &mut self,
        range: Range,
        leaked: &[bool; PAGES],
        how: impl FnMut(&mut Owned),
    ) {
        let all = numbers(range);
        let pages = self.pages[all.clone()].iter_mut().zip(&leaked[all]);
        let there = pages.take_while(|(page, leaked)| page.is_some() || **leaked);
        there.filter_map(|(page, _)| page.as_mut()).for_each(how);
    }

    /// The longest run of one mapping that holds this page.
    pub fn run_at(&self, n: usize) -> Option<Range> {
        let id = self.pages[n]?.id;
        let same = |n: &usize| self.pages[*n].is_some_and(|p| p.id == id);
        let start = (0..=n).rev().take_while(same).last()?;
        let end = (n..PAGES).take_while(same).last()? + 1;
        Some(Range {
            start: BASE + start * PAGE,
            end: BASE + end * PAGE,
        })
    }

    /// What was mapped is not any more. What another thread has mapped there meanwhile is his.
    pub fn unmap_old(&mut self, range: Range, old: &[Option<Owned>]) {
        for (n, old) in numbers(range).zip(old) {
            if self.pages[n].map(|p| p.id) == old.map(|p| p.id) {
                self.pages[n] = None;
            }
        }
    }

    /// mremap(2) has moved or resized one mapping, of these pages.
    pub fn remap(&mut self, from: Range, old: &[Option<Owned>], to: Range, dont_unmap: bool) {
        let Some(first) = old[0] else { return };
        let fresh = Owned {
            value: 0,
            or_zero: false,
            ..first
        };
        if dont_unmap {
            self.give_back(from);
        } else {
            self.unmap_old(from, old);
        }
        let id = self.new_id();
        for (i, n) in numbers(to).enumerate() {
            let moved = old.get(i).copied().flatten();
            let page = moved.unwrap_or(Owned {
                frame: self.new_frame(),
                guard: false,
                ..fresh
            });
            self.pages[n] = Some(Owned { id, ..page });
        }
    }
}

/// Whether the advice is one that this test knows to be good, and what stays of it.
pub fn lasting_advice(advice: i32) -> Option<u64> {
    match advice {
        MADV_NORMAL | MADV_WILLNEED | MADV_COLD | MADV_PAGEOUT => Some(0),
        10 | MADV_HUGEPAGE | MADV_NOHUGEPAGE | MADV_DONTDUMP | MADV_WIPEONFORK => Some(1 << advice),
        _ => None,
    }
}
