//! Ranges that are being zeroed, changed or replaced at this moment and without the lock.
//!
//! To the kernel each such call is one step, since it holds the lock of the address space meanwhile. Ours are several:
//! looked up, done, noted. A range that is read-only when it is looked up can be writable when it is zeroed, and of two
//! mprotect(2) at once the second one's note may be of the first. So whoever changes a range waits for those that are
//! at it. Not for those that begin later: a thread that begins again and again would never let it go on.
//!
//! A call that makes something else of a range is told too: nobody waits for that, but neither is anything zeroed or
//! put there before it is over. A hole beside a mapping looks free for an anchor until another thread's MAP_FIXED has
//! come there, and the library's write would then be in the program's memory.
//!
//! To begin takes the lock, to end does not: another thread may hold it over a fork(2). Whoever uses memory waits for nobody
//! else who is at something, so nobody waits in a circle, but for handlers.
//!
//! A handler that leaves by siglongjmp(3) in between leaves the place taken; whoever waits for it gives it up after two
//! seconds and two hundred looks, for all, and fails where it may: a clock alone goes on while the whole process is
//! stopped. So does a handler that would change a range that its own thread uses below it: whether that is so still
//! nobody can tell. A replacing that is left so stays, and then nothing is used there any more.

use crate::Range;
use crate::kernel::{Errno, Kernel};
use crate::shim::{Locked, Shim};
use crate::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::table::Table;
use crate::waiting::Patience;

/// So many threads at once; one more does without, or waits.
const MAX_CLAIMS: usize = if cfg!(loom) { 4 } else { 32 };
/// Others may begin with a range again and again; after so many waits it is not known any more.
pub(crate) const MAX_WAIT_TURNS: usize = 8;

/// The ways to work on a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimKind {
    /// Memory is read or written: it is zeroed or looked into, or is to be an anchor.
    Uses,
    /// Its protection is changed, and noted after that.
    Protects,
    /// It is unmapped or mapped anew, or becomes something that is not followed.
    Replaces,
}

impl ClaimKind {
    const ALL_KINDS: [ClaimKind; 3] = [ClaimKind::Uses, ClaimKind::Protects, ClaimKind::Replaces];
}

struct ClaimSlot {
    /// Who is at it; 0 is nobody.
    thread: AtomicUsize,
    /// The range, the turn among all that ever began, and the kind. Written before `thread`, with the lock.
    start: AtomicUsize,
    end: AtomicUsize,
    turn: AtomicUsize,
    doing: AtomicUsize,
    /// Somebody waits for it.
    wanted: AtomicBool,
}

impl ClaimSlot {
    fn claim_kind(&self) -> ClaimKind {
        ClaimKind::ALL_KINDS[self.doing.load(Ordering::Relaxed)]
    }

    fn range(&self) -> Range {
        Range {
            start: self.start.load(Ordering::Relaxed),
            end: self.end.load(Ordering::Relaxed),
        }
    }
}

/// The claim of one thread on a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    place: usize,
    range: Range,
}

/// The fields that are written at a fork(2) come first, and so in the same page as those of [`Shim`].
#[repr(C)]
pub(crate) struct RangeClaims {
    /// How many places are taken, at least: most of the time there is nothing to look at.
    count: AtomicUsize,
    /// How many ever began.
    turns: AtomicUsize,
    /// How many replace something and have no place for it: nobody knows where, and so nobody may use memory anywhere.
    unplaced: AtomicUsize,
    all: [ClaimSlot; MAX_CLAIMS],
}

/// The place of those that have none.
const NO_PLACE: usize = usize::MAX;

impl Default for RangeClaims {
    fn default() -> Self {
        RangeClaims {
            all: core::array::from_fn(|_| ClaimSlot {
                thread: AtomicUsize::new(0),
                start: AtomicUsize::new(0),
                end: AtomicUsize::new(0),
                turn: AtomicUsize::new(0),
                doing: AtomicUsize::new(0),
                wanted: AtomicBool::new(false),
            }),
            count: AtomicUsize::new(0),
            turns: AtomicUsize::new(0),
            unplaced: AtomicUsize::new(0),
        }
    }
}

impl RangeClaims {
    /// Those that have something of a range, and who is at it. With the lock: none comes meanwhile.
    fn claims_in(&self, range: Range) -> impl Iterator<Item = (usize, usize)> {
        let many = self.count.load(Ordering::SeqCst) > 0;
        let all = if many { &self.all[..] } else { &[] };
        all.iter().enumerate().filter_map(move |(n, place)| {
            let thread = place.thread.load(Ordering::SeqCst);
            (thread != 0 && place.range().intersection(range).is_some()).then_some((n, thread))
        })
    }

    /// Whether somebody is at something in a range that has to be waited for, and will wake who waits: another thread,
    /// or this one, which uses the range below the signal handler that we are in. With the lock.
    pub(crate) fn is_in_the_way(&self, range: Range, me: usize) -> bool {
        self.is_earlier_at(range, me, usize::MAX)
    }

    /// The same for those that were no later than this turn.
    fn is_earlier_at(&self, range: Range, me: usize, turn: usize) -> bool {
        self.in_the_way_at(range, me, turn)
            .any(|(n, thread)| self.asks_to_be_woken(n, thread))
    }

    /// The same of other threads, wherever they are at something. Without the lock where the library is off, as nobody begins then.
    fn is_any_other(&self, me: usize) -> bool {
        self.in_the_way_at(Range::ALL, me, usize::MAX)
            .any(|(n, thread)| thread != me && self.asks_to_be_woken(n, thread))
    }

    /// The places of those that have to be waited for, no later than this turn, and who has them.
    fn in_the_way_at(
        &self,
        range: Range,
        me: usize,
        turn: usize,
    ) -> impl Iterator<Item = (usize, usize)> {
        self.claims_in(range).filter(move |(n, thread)| {
            let place = &self.all[*n];
            let earlier = place.turn.load(Ordering::Relaxed) <= turn;
            earlier
                && match place.claim_kind() {
                    ClaimKind::Uses => true,
                    ClaimKind::Protects => *thread != me,
                    ClaimKind::Replaces => false,
                }
        })
    }

    /// Lets the thread at a place know that somebody waits. False where it has come to an end before it could see that.
    fn asks_to_be_woken(&self, n: usize, thread: usize) -> bool {
        self.all[n].wanted.store(true, Ordering::SeqCst);
        self.all[n].thread.load(Ordering::SeqCst) == thread
    }

    /// Whether this thread uses the range, below the signal handler that we are in: that does not end before we return.
    /// Also without the lock, as a thread sees its own claims.
    pub(crate) fn is_used_below(&self, range: Range, me: usize) -> bool {
        self.claims_in(range)
            .any(|(n, thread)| thread == me && self.all[n].claim_kind() == ClaimKind::Uses)
    }

    /// Whether anybody is at anything there, this thread too. With the lock.
    fn is_at(&self, range: Range) -> bool {
        self.claims_in(range).next().is_some()
    }

    /// The same for claims that have to be waited for.
    fn is_changed_at(&self, range: Range) -> bool {
        self.claims_in(range)
            .any(|(n, _)| self.all[n].claim_kind() != ClaimKind::Replaces)
    }

    /// None where there are too many. With the lock.
    fn claim_range(&self, range: Range, thread: usize, doing: ClaimKind) -> Option<Claim> {
        let free = |place: &ClaimSlot| place.thread.load(Ordering::SeqCst) == 0;
        let n = self.all.iter().position(free)?;
        let place = &self.all[n];
        place.start.store(range.start, Ordering::Relaxed);
        place.end.store(range.end, Ordering::Relaxed);
        // With the lock nobody else counts meanwhile.
        let turn = self.turns.load(Ordering::Relaxed) + 1;
        self.turns.store(turn, Ordering::Relaxed);
        place.turn.store(turn, Ordering::Relaxed);
        place.doing.store(doing as usize, Ordering::Relaxed);
        place.wanted.store(false, Ordering::SeqCst);
        place.thread.store(thread, Ordering::SeqCst);
        self.count.fetch_add(1, Ordering::SeqCst);
        Some(Claim { place: n, range })
    }

    /// Whether somebody waits for it. Nothing where it was given up meanwhile, and may be another's.
    fn release_claim(&self, n: usize, thread: usize) -> bool {
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

    /// Ends all claims of any but this thread, and hands out their ranges. With the lock, or where nobody begins any
    /// more.
    pub(crate) fn give_up(&self, me: usize, mut forget: impl FnMut(Range)) {
        for (n, thread) in self
            .claims_in(Range::ALL)
            .filter(|(_, thread)| *thread != me)
        {
            forget(self.all[n].range());
            self.release_claim(n, thread);
        }
        self.unplaced.store(0, Ordering::SeqCst);
    }

    /// Ends the claims in a range that have to be waited for, and are no later than this turn. Whether one may write
    /// there still. With the lock.
    fn give_up_earlier(
        &self,
        range: Range,
        me: usize,
        turn: usize,
        mut forget: impl FnMut(Range),
    ) -> bool {
        let mut may_write = false;
        for (n, thread) in self.in_the_way_at(range, me, turn) {
            may_write |= self.all[n].claim_kind() == ClaimKind::Uses;
            forget(self.all[n].range());
            self.release_claim(n, thread);
        }
        may_write
    }
}

impl<K: Kernel> Shim<K> {
    /// Begins to use a range, which the table has as writable memory of the program's or which is a hole, if nobody is at it.
    /// With the lock; when it was given back, [`Shim::has_begun`] says whether it holds.
    pub(crate) fn begin_to_use(&self, range: Range) -> Option<Claim> {
        if self.busy.is_at(range) {
            return None;
        }
        self.busy
            .claim_range(range, self.kernel.thread_id(), ClaimKind::Uses)
    }

    /// Begins to replace a range: until it is over, nobody begins to use it. With the lock.
    pub(crate) fn begin_to_replace(&self, range: Range) -> Claim {
        let begun = self
            .busy
            .claim_range(range, self.kernel.thread_id(), ClaimKind::Replaces);
        begun.unwrap_or_else(|| self.begin_nowhere(range))
    }

    /// The same without a place, and so also without the lock.
    fn begin_nowhere(&self, range: Range) -> Claim {
        self.busy.unplaced.fetch_add(1, Ordering::SeqCst);
        Claim {
            place: NO_PLACE,
            range,
        }
    }

    /// A call that makes something else of a range, and is not followed: kept memory there goes before it, the table
    /// forgets it, and nothing of the library's comes there while it lasts.
    ///
    /// # Errors
    ///
    /// Those of `call` and of [`Shim::clear_the_way`].
    pub(crate) fn replace_range<T>(
        &self,
        range: Range,
        call: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.keep_others_away(range, || self.clear_the_way(range).and_then(|()| call()))
    }

    /// Nothing of the library's comes to a range while this call lasts.
    pub(crate) fn keep_others_away<T>(&self, range: Range, call: impl FnOnce() -> T) -> T {
        let begun = match self.locked(|_| self.begin_to_replace(range)) {
            Locked::Done(begun) => begun,
            // Another thread's fork(2) has the lock, and may be over before the call is.
            Locked::Mine | Locked::Busy => self.begin_nowhere(range),
        };
        self.end_after(Some(begun), call)
    }

    /// A call, and the end of the claim that was begun for it.
    pub(crate) fn end_after<T>(&self, begun: Option<Claim>, call: impl FnOnce() -> T) -> T {
        let done = call();
        if let Some(begun) = begun {
            self.end_claim(begun);
        }
        done
    }

    /// Uses memory for which [`Shim::begin_to_use`] was asked with the lock. None where that, or the lock, was not to be had, and
    /// as [`Shim::has_begun`] says.
    pub(crate) fn use_if_begun<T>(
        &self,
        begun: Locked<Option<Claim>>,
        work: impl FnOnce() -> T,
    ) -> Option<T> {
        let Locked::Done(Some(begun)) = begun else {
            return None;
        };
        let begun = self.has_begun(begun)?;
        Some(self.end_after(Some(begun), work))
    }

    /// The claim; none where the library was turned off meanwhile, or somebody replaces memory and could not say where.
    /// Without the lock.
    pub(crate) fn has_begun(&self, begun: Claim) -> Option<Claim> {
        // Whoever did that has seen that we begin, or we see it here.
        if self.is_off_now() || self.busy.unplaced.load(Ordering::SeqCst) > 0 {
            self.end_claim(begun);
            return None;
        }
        Some(begun)
    }

    /// Begins with a range as soon as nobody is at it, and changes the table by the way. None where that can't be:
    /// then nothing is known of the range any more.
    ///
    /// # Errors
    ///
    /// Those of [`Shim::wait_for_others`].
    pub(crate) fn begin_to_change(
        &self,
        range: Range,
        change: impl Fn(&mut Table),
    ) -> Result<Option<Claim>, Errno> {
        let me = self.kernel.thread_id();
        for _ in 0..MAX_WAIT_TURNS {
            let begun = self.locked(|table| {
                if self.busy.is_changed_at(range) {
                    return None;
                }
                let begun = self.busy.claim_range(range, me, ClaimKind::Protects)?;
                change(table);
                Some(begun)
            });
            match begun {
                Locked::Done(Some(begun)) => return Ok(Some(begun)),
                Locked::Done(None) => self.wait_for_others(range)?,
                Locked::Mine | Locked::Busy => break,
            }
        }
        self.forget(range);
        Ok(None)
    }

    /// It is over, and the table has nothing to know of it.
    pub(crate) fn end_claim(&self, begun: Claim) {
        if begun.place == NO_PLACE {
            // A child of fork(2) has none but its own thread's, and has begun to count anew.
            let less = |count: usize| count.checked_sub(1);
            let order = Ordering::SeqCst;
            let _ = self.busy.unplaced.fetch_update(order, order, less);
            return;
        }
        if self
            .busy
            .release_claim(begun.place, self.kernel.thread_id())
        {
            self.somebody_left();
        }
    }

    /// The claim is over, and `change` tells the table its result.
    pub(crate) fn end_with(&self, begun: Claim, change: impl FnOnce(&mut Table)) {
        if !matches!(self.locked(change), Locked::Done(())) {
            self.forget(begun.range);
        }
        self.end_claim(begun);
    }

    /// Waits until those that are at something in a range now have come to an end. Others may have begun by then.
    ///
    /// # Errors
    ///
    /// ENOMEM where one does not for two seconds, and may write there still: it is given up. It may be this thread, below the
    /// signal handler that we are in.
    pub(crate) fn wait_for_others(&self, range: Range) -> Result<(), Errno> {
        let me = self.kernel.thread_id();
        let mut patience = Patience::default();
        // The last to wait for. All, until we have had the lock: only then do we see who began before.
        let mut turn = usize::MAX;
        loop {
            let seen = self.left.load(Ordering::Acquire);
            let busy = self.locked(|_| {
                turn = turn.min(self.busy.turns.load(Ordering::Relaxed));
                self.busy.is_earlier_at(range, me, turn)
            });
            let busy = match busy {
                Locked::Done(busy) => busy,
                // Another thread's fork(2) has the lock.
                Locked::Mine | Locked::Busy => self.busy.is_earlier_at(range, me, turn),
            };
            if !busy {
                return Ok(());
            }
            if patience.is_over(&self.kernel) {
                let may_write = self.locked(|table| {
                    self.busy.give_up_earlier(range, me, turn, |gone| {
                        table.forget(gone, false);
                    })
                });
                return match may_write {
                    Locked::Done(false) => Ok(()),
                    Locked::Done(true) | Locked::Mine | Locked::Busy => Err(Errno::ENOMEM),
                };
            }
            self.sleep_until_left(seen);
        }
    }

    /// Once the library is off, each call goes to the kernel, and none begins with anything: waits for those that have
    /// begun before, once.
    pub(crate) fn wait_while_busy(&self) {
        let me = self.kernel.thread_id();
        if self.busy.is_any_other(me) {
            self.wait_while(|| self.busy.is_any_other(me));
            self.busy.give_up(me, |_| ());
        }
    }
}
