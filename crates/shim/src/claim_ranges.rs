//! Claiming a range, waiting for those that have claimed it, and ending the claim: [`RangeClaims`](crate::range_claims::RangeClaims)
//! with the lock, the table and the kernel.

use crate::Range;
use crate::kernel::{Errno, Kernel};
use crate::range_claims::{Claim, ClaimKind, MAX_WAIT_TURNS, NO_PLACE};
use crate::shim::{Locked, Shim};
use crate::sync::Ordering;
use crate::table::Table;
use crate::waiting::Patience;

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

    /// Begins with a range as soon as nobody is at it, and changes the table by the way, in one step with the lock. None where
    /// that can't be, as others begin again and again, there are too many claims, or the lock is not to be had: then nothing is
    /// known of the range any more.
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
                    self.busy.end_earlier_claims(range, me, turn, |gone| {
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
    /// begun before. Those who have not come to an end by then are given up, so that nobody waits for them a second time.
    pub(crate) fn wait_while_busy(&self) {
        let me = self.kernel.thread_id();
        if self.busy.is_any_other(me) {
            self.wait_while(|| self.busy.is_any_other(me));
            self.busy.end_claims_of_others(me, |_| ());
        }
    }
}
