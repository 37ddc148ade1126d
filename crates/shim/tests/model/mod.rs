//! Random calls of a program, made through the library over a model of the kernel, and compared with
//! what Linux promises.
//!
//! The bytes decide everything: which calls, which of them the kernel refuses, and where another
//! thread of the program runs in between (the kernel's model calls back into the world).

mod calls;
mod changes;
pub mod fake;
mod maps;
mod ops;
mod promise;
mod rest;
mod unseen;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use quell_shim::linux::{MADV_DONTDUMP, MADV_HUGEPAGE, MADV_NOHUGEPAGE};
use quell_shim::{Counters, Node, PAGE, Range, RangeUse, Scratch, Settings, Shim, ZeroLimit};

use fake::{Attr, BASE, Fake, PAGES};
use promise::{Promise, numbers};

/// How the world is made.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Room for regions.
    pub places: usize,
    /// Pages that may be kept.
    pub cache: usize,
    /// Pages that may stay after MADV_DONTNEED, in blocks of sixteen.
    pub keep: usize,
    /// Pages in memory above which what is kept shrinks; 0 is no bound.
    pub resident: usize,
    /// What of a hint is looked at, in pages; 0 is all of it.
    pub hint: usize,
    /// Mappings of fewer pages are not kept.
    pub least: usize,
    /// Pages that are kept and not offered.
    pub firm: usize,
    /// What the program may map, in pages; 0 is no bound.
    pub bound: usize,
    /// Calls that the kernel refuses, of 256.
    pub refuse: u8,
    /// Calls at which another thread runs, of 256.
    pub threads: u8,
    pub batch: bool,
    pub strict: bool,
    /// The program, a device and other processes do things that the library does not see.
    pub unseen: bool,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            places: 64,
            cache: 24,
            keep: 64,
            resident: 0,
            hint: 0,
            least: 1,
            firm: 64,
            bound: 0,
            refuse: 0,
            threads: 0,
            batch: true,
            strict: false,
            unseen: false,
        }
    }
}

/// Nested so deep at most.
const DEPTH: usize = 3;

pub struct World {
    pub shim: Shim<Fake>,
    setup: Setup,
    promise: RefCell<Promise>,
    bytes: RefCell<VecDeque<u8>>,
    /// What calls in progress are about: other threads keep off.
    busy: RefCell<Vec<Range>>,
    depth: Cell<usize>,
    /// Other threads may run in this call.
    open: Cell<bool>,
    /// During this call others ran, or the kernel refused something: it may fail for want of memory.
    loose: Cell<bool>,
    /// That has ever happened: something may be left over.
    ever_loose: Cell<bool>,
    /// Where something was changed that the library did not see, and nothing was mapped since that it did: what it knows
    /// of these pages may be wrong, and what it does must be right all the same.
    unseen: Cell<[bool; PAGES]>,
    /// What was leaked, what the library held besides the program's, and what was `unseen`, when that was looked at last.
    were_leaked: Cell<[bool; PAGES]>,
    were_held: Cell<[bool; PAGES]>,
    were_unseen: Cell<[bool; PAGES]>,
    /// Kept as one with something that was changed unseen, then or before.
    were_beside_unseen: Cell<[bool; PAGES]>,
    /// What was done, for who reads a failure.
    pub log: RefCell<Vec<String>>,
    /// Dropped last.
    _lent: Lent,
}

/// What the library has for good, as it thinks.
struct Lent {
    counters: *mut Counters,
    places: *mut [Node],
    scratch: *mut Scratch,
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: they were boxes, and nobody has them any more.
        unsafe {
            drop(Box::from_raw(self.counters));
            drop(Box::from_raw(self.places));
            drop(Box::from_raw(self.scratch));
        }
    }
}

impl World {
    pub fn new(setup: Setup, bytes: &[u8]) -> Rc<World> {
        let settings = Settings {
            strict: setup.strict,
            cache: setup.cache * PAGE,
            keep: setup.keep * PAGE,
            resident: setup.resident * PAGE,
            hint: setup.hint * PAGE,
            zero: ZeroLimit::UpTo(32 * PAGE),
            batch: setup.batch,
            least: setup.least * PAGE,
            least_zeroed: PAGE,
            firm: Some(setup.firm * PAGE),
            lifetimes: 0,
            ..Settings::default()
        };
        let lent = Lent {
            counters: Box::into_raw(Box::new(Counters::new())),
            places: Box::into_raw(vec![Node::EMPTY; setup.places].into_boxed_slice()),
            scratch: Box::into_raw(Box::new(Scratch::EMPTY)),
        };
        // SAFETY: they live until `lent` is dropped, after the library.
        let (counters, places, scratch) =
            unsafe { (&*lent.counters, &mut *lent.places, &mut *lent.scratch) };
        let fake = Fake::default();
        if setup.bound > 0 {
            fake.bound.set(Some(setup.bound * PAGE));
        }
        let world = Rc::new(World {
            shim: Shim::new(fake, settings, counters, places, scratch),
            setup,
            promise: RefCell::new(Promise::new()),
            bytes: RefCell::new(bytes.to_vec().into()),
            busy: RefCell::default(),
            depth: Cell::new(0),
            open: Cell::new(true),
            loose: Cell::new(false),
            ever_loose: Cell::new(false),
            unseen: Cell::new([false; PAGES]),
            were_leaked: Cell::new([false; PAGES]),
            were_held: Cell::new([false; PAGES]),
            were_unseen: Cell::new([false; PAGES]),
            were_beside_unseen: Cell::new([false; PAGES]),
            log: RefCell::default(),
            _lent: lent,
        });
        let weak: Weak<World> = Rc::downgrade(&world);
        let hook = move || weak.upgrade().is_some_and(|world| world.meddle());
        *world.shim.kernel().hook.borrow_mut() = Some(Rc::new(hook));
        world
    }

    /// Runs until the bytes are used up; the log says what was done.
    pub fn run(&self) {
        while !self.bytes.borrow().is_empty() {
            self.step();
            self.check();
        }
    }

    fn byte(&self) -> usize {
        usize::from(self.bytes.borrow_mut().pop_front().unwrap_or(0))
    }

    fn loosen(&self) {
        self.loose.set(true);
        self.ever_loose.set(true);
    }

    /// At a call of the kernel: perhaps another thread runs; true if the call is to fail.
    fn meddle(&self) -> bool {
        if self.bytes.borrow().is_empty() {
            return false;
        }
        if self.setup.threads > 0
            && self.open.get()
            && self.depth.get() < DEPTH
            && self.byte() < usize::from(self.setup.threads)
        {
            self.depth.set(self.depth.get() + 1);
            let thread = self.shim.kernel().thread.replace(self.depth.get());
            self.step();
            self.shim.kernel().thread.set(thread);
            self.depth.set(self.depth.get() - 1);
            self.open.set(true);
            self.loosen();
        }
        let refused = self.setup.refuse > 0 && self.byte() < usize::from(self.setup.refuse);
        if refused {
            self.loosen();
        }
        refused
    }

    /// Another thread is at it.
    fn is_busy(&self, range: Range) -> bool {
        self.busy
            .borrow()
            .iter()
            .any(|b| b.intersection(range).is_some())
    }

    /// Everything that can be seen from outside.
    fn check(&self) {
        if let Err(why) = self.shim.check() {
            self.fail(why);
        }
        let fake = self.shim.kernel();
        let promise = self.promise.borrow();
        let mut kept = [None; PAGES];
        let mut bytes = 0;
        self.shim.each_region(|range, held| {
            for n in numbers(range) {
                kept[n] = Some(held);
            }
            if matches!(held, RangeUse::Dirty | RangeUse::Leaving) {
                bytes += range.len();
            }
            if held == RangeUse::Leaving {
                self.fail("something is leaving, and nobody is at it");
            }
        });
        let budget = match self.setup.bound {
            0 => self.setup.cache * PAGE,
            _ => 0,
        };
        if bytes > budget && !self.ever_loose.get() {
            self.fail("more is kept than the budget allows");
        }
        let pages = fake.pages.borrow();
        let mut real = [None; PAGES];
        for (n, page) in pages.iter() {
            real[n - BASE / PAGE] = Some(page);
        }
        let is_held = |n: usize| !matches!(kept[n], None | Some(RangeUse::Live(..)));
        let held: [bool; PAGES] = std::array::from_fn(is_held);
        // What was offered to the kernel and taken is as good as changed unseen: nobody can tell whose it is.
        let mut unseen = self.unseen.get();
        for n in fake.taken.take() {
            unseen[n - BASE / PAGE] |= promise.pages[n - BASE / PAGE].is_none();
        }
        self.unseen.set(unseen);
        let nobodys = |n: usize| promise.pages[n].is_none() && real[n].is_some() && !held[n];
        self.check_leaks(std::array::from_fn(nobodys), held);
        let unseen = self.unseen.get();
        for n in 0..PAGES {
            let unseen = unseen[n];
            match (promise.pages[n], real[n], kept[n]) {
                (None, None, held) if held.is_none() || unseen => {}
                (Some(own), Some(real), held) => {
                    if !unseen && !matches!(held, None | Some(RangeUse::Live(..))) {
                        self.fail(&format!("page {n} is the program's, and kept"));
                    }
                    if own.attr != real.attr {
                        self.fail(&format!("page {n}: {own:?}, and really {real:?}"));
                    }
                    if own.value != real.value && !(own.or_zero && real.value == 0) {
                        self.fail(&format!("page {n}: {own:?}, and really {real:?}"));
                    }
                    const HARMLESS: u64 =
                        1 << MADV_HUGEPAGE | 1 << MADV_NOHUGEPAGE | 1 << MADV_DONTDUMP;
                    let advice = own.attr.advice;
                    let plain =
                        advice & !HARMLESS == 0 && !own.attr.locked && own.attr.prot & !3 == 0;
                    let right = match held {
                        None => true,
                        // It may be taken for advised where it is not.
                        Some(RangeUse::Live(prot, keeps)) => {
                            plain && prot == own.attr.prot && (advice == 0 || !keeps)
                        }
                        Some(_) => false,
                    };
                    if !right && !unseen {
                        self.fail(&format!("page {n}: {own:?} is known as {held:?}"));
                    }
                }
                (None, Some(real), Some(held)) => {
                    let Attr {
                        prot,
                        advice,
                        locked,
                        name,
                        ..
                    } = real.attr;
                    let plain = (prot, advice, locked, name) == (3, 0, false, 0);
                    if !unseen && (!plain || matches!(held, RangeUse::Live(..))) {
                        self.fail(&format!("page {n}: {real:?} is nobody's, and {held:?}"));
                    }
                }
                // Leaked.
                (None, Some(_), None) => {}
                (own, real, held) => self.fail(&format!("page {n}: {own:?}, {real:?}, {held:?}")),
            }
        }
    }

    /// Only what was kept may be leaked, together with something beside it that was changed unseen: all that was kept as
    /// one is left alone with that, also when the program has mapped there since. What the kernel refuses to take back is leaked, too.
    fn check_leaks(&self, leaked: [bool; PAGES], held: [bool; PAGES]) {
        let were_leaked = self.were_leaked.replace(leaked);
        let were_held = self.were_held.replace(held);
        let unseen = self.unseen.get();
        let were_unseen = self.were_unseen.replace(unseen);
        let is_any_in_run = |held: &[bool; PAGES], n: usize, is: &dyn Fn(usize) -> bool| {
            let before = (0..=n).rev().take_while(|n| held[*n]);
            let behind = (n..PAGES).take_while(|n| held[*n]);
            before.chain(behind).any(is)
        };
        let were_beside = self.were_beside_unseen.get();
        let is_beside =
            |n: usize| held[n] && (were_beside[n] || is_any_in_run(&held, n, &|n| unseen[n]));
        self.were_beside_unseen.set(core::array::from_fn(is_beside));
        let is_explained = |n: usize| {
            were_beside[n] || is_any_in_run(&were_held, n, &|n| were_unseen[n] || unseen[n])
        };
        let mut now = unseen;
        for n in (0..PAGES).filter(|n| leaked[*n] && !were_leaked[*n]) {
            // It may be known as the program's still, where another thread unmapped what lay beside it just then.
            // And under a filter nobody can tell whose anything is that was kept, or brought with a mapping, before the library
            // found it.
            let explained = is_explained(n) || self.shim.kernel().filtered.get();
            now[n] |= explained;
            if !explained && !self.ever_loose.get() {
                self.fail(&format!(
                    "page {n} is leaked, and was not kept, or nobody has done anything to it"
                ));
            }
        }
        self.unseen.set(now);
    }

    /// Says of pages whether what was done unseen to them before may matter yet.
    fn set_unseen(&self, range: Range, is: bool) {
        let mut unseen = self.unseen.get();
        unseen[numbers(range)].fill(is);
        self.unseen.set(unseen);
    }

    fn note(&self, text: String) {
        let depth = self.depth.get();
        self.log
            .borrow_mut()
            .push(format!("{}{text}", "  ".repeat(depth)));
    }

    fn fail(&self, why: &str) -> ! {
        let log = self.log.borrow();
        let last = &log[log.len().saturating_sub(14)..];
        panic!("{why}\n{}", last.join("\n"));
    }
}
