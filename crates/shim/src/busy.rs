//! Ranges of the program's that are being zeroed, or whose protection is being changed, at this moment and
//! without the lock.
//!
//! To the kernel each such call is one step, since it holds the lock of the address space meanwhile. Ours are
//! several: looked up, done, noted. What is not written when it is looked up can be when it is zeroed, and of
//! two mprotect(2) at once the second one's note may be of the first. So whoever changes a range waits until
//! nobody is at it.
//!
//! To begin takes the lock, to end does not: another thread may hold it over a fork(2). Whoever has begun calls
//! the kernel or writes memory and waits for nobody, so nobody waits in a circle. A handler that leaves by
//! siglongjmp(3) in between leaves the place taken; whoever waits for it gives it up after two seconds and two
//! hundred looks, for all, and fails where it may: a clock alone goes on while the whole process is stopped.

use crate::Range;
use crate::kernel::{Errno, Kernel};
use crate::shim::{Locked, Shim};
use crate::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::table::Table;
use crate::waits::{Patience, WAIT_MS};

/// So many threads at once; one more does without, or waits.
const PLACES: usize = if cfg!(loom) { 2 } else { 32 };
/// Others may begin with a range again and again; after so many waits it is not known any more.
pub(crate) const TURNS: usize = 8;

struct Place {
    /// Who is at it; 0 is nobody.
    thread: AtomicUsize,
    /// What at. Written before `thread`, with the lock.
    start: AtomicUsize,
    end: AtomicUsize,
    /// Somebody waits for it.
    wanted: AtomicBool,
}

impl Place {
    fn range(&self) -> Range {
        Range {
            start: self.start.load(Ordering::Relaxed),
            end: self.end.load(Ordering::Relaxed),
        }
    }
}

/// What somebody is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    place: usize,
    range: Range,
}

pub(crate) struct Busy {
    all: [Place; PLACES],
    /// How many, at least: most of the time there is nothing to look at.
    count: AtomicUsize,
}

impl Default for Busy {
    fn default() -> Self {
        Busy {
            all: core::array::from_fn(|_| Place {
                thread: AtomicUsize::new(0),
                start: AtomicUsize::new(0),
                end: AtomicUsize::new(0),
                wanted: AtomicBool::new(false),
            }),
            count: AtomicUsize::new(0),
        }
    }
}

impl Busy {
    /// Those that have something of a range, and who is at it. With the lock: none comes meanwhile.
    fn at(&self, range: Range) -> impl Iterator<Item = (usize, usize)> {
        let many = self.count.load(Ordering::SeqCst) > 0;
        let all = if many { &self.all[..] } else { &[] };
        all.iter().enumerate().filter_map(move |(n, place)| {
            let thread = place.thread.load(Ordering::SeqCst);
            (thread != 0 && place.range().and(range).is_some()).then_some((n, thread))
        })
    }

    /// Whether another thread than this is at something in a range; it will wake who waits then. A handler does not
    /// wait for what it has interrupted. With the lock.
    pub(crate) fn is_other_at(&self, range: Range, me: usize) -> bool {
        let mut others = self.at(range).filter(|(_, thread)| *thread != me);
        others.any(|(n, thread)| {
            self.all[n].wanted.store(true, Ordering::SeqCst);
            // It may have come to an end before it could see that.
            self.all[n].thread.load(Ordering::SeqCst) == thread
        })
    }

    /// Whether anybody is, this thread too. With the lock.
    pub(crate) fn is_at(&self, range: Range) -> bool {
        self.at(range).next().is_some()
    }

    /// None where there are too many. With the lock.
    fn put(&self, range: Range, thread: usize) -> Option<Begun> {
        let free = |place: &Place| place.thread.load(Ordering::SeqCst) == 0;
        let n = self.all.iter().position(free)?;
        let place = &self.all[n];
        place.start.store(range.start, Ordering::Relaxed);
        place.end.store(range.end, Ordering::Relaxed);
        place.wanted.store(false, Ordering::SeqCst);
        place.thread.store(thread, Ordering::SeqCst);
        self.count.fetch_add(1, Ordering::SeqCst);
        Some(Begun { place: n, range })
    }

    /// Whether somebody waits for it. Nothing where it was given up meanwhile, and may be another's.
    fn take(&self, n: usize, thread: usize) -> bool {
        let place = &self.all[n];
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        let mine = place
            .thread
            .compare_exchange(thread, 0, order.0, order.1)
            .is_ok();
        if mine {
            self.count.fetch_sub(1, Ordering::SeqCst);
        }
        mine && place.wanted.swap(false, Ordering::SeqCst)
    }

    /// Ends what any but this thread is at in a range, and hands out what that was. With the lock.
    pub(crate) fn give_up(&self, range: Range, me: usize, mut forget: impl FnMut(Range)) {
        for (n, thread) in self.at(range).filter(|(_, thread)| *thread != me) {
            forget(self.all[n].range());
            self.take(n, thread);
        }
    }
}

impl<K: Kernel> Shim<K> {
    /// Begins with a range that the table has as writable memory of the program's, if nobody is at it. With the lock; when it
    /// was given back, [`Shim::has_begun`] says whether it holds.
    pub(crate) fn begin_to_wipe(&self, range: Range) -> Option<Begun> {
        if self.busy.is_at(range) {
            return None;
        }
        self.busy.put(range, self.kernel.thread())
    }

    /// What was begun, or none where the library was turned off meanwhile. Without the lock.
    pub(crate) fn has_begun(&self, begun: Begun) -> Option<Begun> {
        // Who turned it off meanwhile has seen that we begin, or we see that here.
        if self.is_off_now() {
            self.end(begun);
            return None;
        }
        Some(begun)
    }

    /// Begins with a range as soon as nobody is at it, and changes the table by the way. None where that can't be:
    /// then nothing is known of the range any more.
    ///
    /// # Errors
    ///
    /// ENOMEM where another thread is at it, and does not come to an end.
    pub(crate) fn begin_to_change(
        &self,
        range: Range,
        change: impl Fn(&mut Table),
    ) -> Result<Option<Begun>, Errno> {
        let me = self.kernel.thread();
        for _ in 0..TURNS {
            if !self.gets_idle(range) {
                return Err(Errno::ENOMEM);
            }
            let begun = self.locked(|table| {
                if self.busy.is_at(range) {
                    return None;
                }
                let begun = self.busy.put(range, me)?;
                change(table);
                Some(begun)
            });
            match begun {
                Locked::Done(Some(begun)) => return Ok(Some(begun)),
                // Another one was faster.
                Locked::Done(None) => {}
                Locked::Mine | Locked::Busy => break,
            }
        }
        self.forget(range);
        Ok(None)
    }

    /// What has only written memory is over.
    pub(crate) fn end(&self, begun: Begun) {
        if self.busy.take(begun.place, self.kernel.thread()) {
            self.somebody_left();
        }
    }

    /// It is over, and `change` is what the table has to know of it.
    pub(crate) fn end_with(&self, begun: Begun, change: impl FnOnce(&mut Table)) {
        if !matches!(self.locked(change), Locked::Done(())) {
            self.forget(begun.range);
        }
        self.end(begun);
    }

    /// Waits until no other thread is at anything in a range. False where that does not come to an end: whoever is at it is
    /// given up, and may write there still if it lives.
    pub(crate) fn gets_idle(&self, range: Range) -> bool {
        let me = self.kernel.thread();
        let mut patience = Patience::default();
        loop {
            let seen = self.left.load(Ordering::Acquire);
            let busy = match self.locked(|_| self.busy.is_other_at(range, me)) {
                Locked::Done(busy) => busy,
                // Somebody has the lock over a fork(2), and nobody can begin without it.
                Locked::Mine | Locked::Busy => self.busy.is_other_at(range, me),
            };
            if !busy {
                return true;
            }
            if patience.is_over(&self.kernel) {
                let _ = self.locked(|table| {
                    self.busy.give_up(range, me, |gone| {
                        table.forget(gone, false);
                    });
                });
                return false;
            }
            self.kernel.sleep(&self.left, seen, WAIT_MS);
        }
    }

    /// The same for whoever can't fail.
    pub(crate) fn wait_until_idle(&self, range: Range) {
        let _ = self.gets_idle(range);
    }

    /// Once the library is off, each call goes to the kernel, and none begins with anything: waits for those that have
    /// begun before, once.
    pub(crate) fn wait_while_busy(&self) {
        let me = self.kernel.thread();
        if self.busy.is_other_at(Range::ALL, me) {
            self.wait_while(|| self.busy.is_other_at(Range::ALL, me));
            self.busy.give_up(Range::ALL, me, |_| ());
        }
    }
}
