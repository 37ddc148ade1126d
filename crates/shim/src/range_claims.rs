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
use crate::sync::{AtomicBool, AtomicUsize, Ordering};

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
    pub(crate) place: usize,
    pub(crate) range: Range,
}

/// The fields that are written at a fork(2) come first, and so in the same page as those of [`Shim`].
#[repr(C)]
pub(crate) struct RangeClaims {
    /// Who has the lock sees no fewer here than places that are taken: most of the time there is nothing to look at.
    count: AtomicUsize,
    /// How many ever began.
    pub(crate) turns: AtomicUsize,
    /// How many replace something and have no place for it: nobody knows where, and so nobody may use memory anywhere.
    pub(crate) unplaced: AtomicUsize,
    all: [ClaimSlot; MAX_CLAIMS],
}

/// The place of those that have none.
pub(crate) const NO_PLACE: usize = usize::MAX;

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
    pub(crate) fn is_earlier_at(&self, range: Range, me: usize, turn: usize) -> bool {
        self.in_the_way_at(range, me, turn)
            .any(|(n, thread)| self.asks_to_be_woken(n, thread))
    }

    /// The same of other threads, wherever they are at something. Without the lock where the library is off, as nobody begins then.
    pub(crate) fn is_any_other(&self, me: usize) -> bool {
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
    pub(crate) fn is_at(&self, range: Range) -> bool {
        self.claims_in(range).next().is_some()
    }

    /// The same for claims that have to be waited for.
    pub(crate) fn is_changed_at(&self, range: Range) -> bool {
        self.claims_in(range)
            .any(|(n, _)| self.all[n].claim_kind() != ClaimKind::Replaces)
    }

    /// Begins a claim; none where there are too many. Whether another claim is in its way is for the caller to ask before. With
    /// the lock, so that of two who ask at once one sees the other.
    pub(crate) fn claim_range(
        &self,
        range: Range,
        thread: usize,
        doing: ClaimKind,
    ) -> Option<Claim> {
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

    /// Ends the claim at a place, also without the lock. Whether somebody waits for it, whom the caller has to wake. Does nothing
    /// where it was given up meanwhile, and may be another's.
    pub(crate) fn release_claim(&self, n: usize, thread: usize) -> bool {
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

    /// Ends all claims of any but this thread, and hands out their ranges; those without a place as well, this thread's too. With
    /// the lock, or where nobody begins any more.
    pub(crate) fn end_claims_of_others(&self, me: usize, mut forget: impl FnMut(Range)) {
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
    pub(crate) fn end_earlier_claims(
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
