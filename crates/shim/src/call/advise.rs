//! madvise(2): zeroed in place of MADV_DONTNEED, and MADV_FREE dropped.

use crate::allowance::ResidentRoom;
use crate::kernel::{Errno, Kernel};
use crate::linux::*;
use crate::proof::PlainProof;
use crate::range_claims::Claim;
use crate::region::Kind;
use crate::retained::Leftover;
use crate::shim::{Locked, NOT_MEASURED, Shim};
use crate::sync::Ordering;
use crate::table::{HabitOf, Table};
use crate::wipe::{MIN_SAVED_ALONE_BYTES, RangeDensity};
use crate::{PAGE, Range, retained, zero_cost};

/// To zero fewer pages than these where that saves nothing costs less than to find out whether it does.
const SMALL_RANGE_BYTES: usize = 16 * PAGE;

/// The outcome for a range that the program gives back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AdviceOutcome {
    /// It reads as zeros; or where it is only freed, it may.
    Done,
    /// The kernel has to be asked, once kept memory and anchors in the range are unmapped.
    Here,
    /// The same, and nothing of the library's lies in it, as was seen where its habit was asked for, or without the lock: most
    /// ranges of a program that uses little of its memory are so, and take the lock once, or not at all.
    HereAlone,
}

/// The kind of a range, if all of it is of one kind that may be kept and has no name: an anchor has none, and is never
/// in one mapping with named memory.
fn unnamed_kind_of(table: &Table, range: Range) -> Option<Kind> {
    table
        .kind_of(range)
        .filter(|kind| kind.may_be_kept() && !kind.named)
}

impl<K: Kernel> Shim<K> {
    /// madvise(2).
    ///
    /// # Safety
    ///
    /// As madvise(2): MADV_DONTNEED and others take the content away.
    ///
    /// # Errors
    ///
    /// Those of madvise(2).
    pub unsafe fn madvise(&self, addr: usize, len: usize, advice: i32) -> Result<(), Errno> {
        let range = match Range::from_addr_len(addr, len) {
            Some(range) if !self.is_off() => range,
            // SAFETY: the caller's own call.
            _ => return unsafe { self.kernel.madvise(addr, len, advice) },
        };
        match advice {
            MADV_DONTNEED => {
                self.counters.dontneed.count_one();
                // SAFETY: the caller says that nobody needs it.
                return unsafe { self.dont_need(range) };
            }
            MADV_FREE => {
                self.counters.free.count_one();
                match self.drop_free(range) {
                    AdviceOutcome::Done => {
                        self.counters.free_dropped.count_one();
                        return Ok(());
                    }
                    AdviceOutcome::Here => self.unmap_kept_in(range)?,
                    AdviceOutcome::HereAlone => {}
                }
                if !self.frees.load(Ordering::Relaxed) {
                    self.frees.store(true, Ordering::Relaxed);
                }
            }
            // These change no attribute of a mapping (mm/madvise.c, Linux 6.18). MADV_REMOVE is for shared mappings, which
            // are none that is known; of others it is refused. Google's tcmalloc tries it before MADV_DONTNEED.
            MADV_NORMAL | MADV_WILLNEED | MADV_COLD | MADV_PAGEOUT | MADV_POPULATE_READ
            | MADV_POPULATE_WRITE | MADV_COLLAPSE | MADV_REMOVE => self.unmap_kept_in(range)?,
            MADV_HUGEPAGE | MADV_NOHUGEPAGE | MADV_DONTDUMP | MADV_DODUMP => {
                self.unmap_kept_in(range)?;
                // It stays with the memory. Before the kernel is told, so that another thread does not keep it meanwhile.
                self.note_of(range, |kind| kind.advised = true);
            }
            _ => {
                // SAFETY: the caller's own call.
                return self
                    .replace_range(range, || unsafe { self.kernel.madvise(addr, len, advice) });
            }
        }
        // SAFETY: the caller's own call.
        unsafe { self.kernel.madvise(addr, len, advice) }
    }

    /// MADV_DONTNEED, by the kernel or in its place.
    unsafe fn dont_need(&self, range: Range) -> Result<(), Errno> {
        let left = if self.is_retired() {
            AdviceOutcome::Here
        } else {
            // SAFETY: the caller's own call.
            unsafe { self.zero_in_place(range) }
        };
        match left {
            AdviceOutcome::Done => {
                self.counters.dontneed_zeroed.count_one();
                return Ok(());
            }
            AdviceOutcome::Here => self.unmap_kept_in(range)?,
            AdviceOutcome::HereAlone => {}
        }
        // SAFETY: the caller's own call.
        unsafe { self.kernel.madvise(range.start, range.len(), MADV_DONTNEED) }
    }

    /// Notes the kind of the program's memory from now on. Where the table can't be told, nothing is known of the range any more.
    pub(super) fn note_of(&self, range: Range, how: impl Fn(&mut Kind)) {
        let told = self.locked(|table| table.change_kinds(range, how));
        if !matches!(told, Locked::Done(())) {
            self.forget(range);
        }
    }

    /// Leaves a range that is freed as it is, if it is plain, may stay, and that pays.
    fn drop_free(&self, range: Range) -> AdviceOutcome {
        let here = AdviceOutcome::Here;
        if !self.settings().drop_free || self.is_retired() {
            return here;
        }
        if self.is_crowded() {
            return self.left_in_a_crowd(range);
        }
        if let Err(left) = self.pays_to_drop_free(range) {
            return left;
        }
        if self.may_stay_as(range, Leftover::Freed, || ()).is_some() {
            if self.is_known_plain(range) {
                return AdviceOutcome::Done;
            }
            let _ = self.try_locked(|table| table.keep.uncount(range));
        }
        let _ = self.try_locked(|table| table.freed_habit(range.len()).pause_looks());
        here
    }

    /// Whether the proof of a range's kind takes less time than MADV_FREE, which leaves the pages where they are: that
    /// takes a few nanoseconds for each that is in memory, and the interrupt of another CPU. So it pays where many are. If not,
    /// how the range is left to the kernel.
    fn pays_to_drop_free(&self, range: Range) -> Result<(), AdviceOutcome> {
        /// Where others are at work. Eight threads on two CPUs took 1.4 times as long with 16 pages, and 0.9 times with 64
        /// (bench/shim/patterns).
        const LEAST_BESIDE_OTHERS: usize = 64;
        /// Where one thread is at work alone it took up to 1.6 times as long with 64, and 0.4 times with 256.
        const LEAST_OF_ONE: usize = 256;
        let here = Err(AdviceOutcome::Here);
        if self.settings().lifetimes == 0 {
            self.look_now_and_then();
            return Ok(());
        }
        if range.len() < LEAST_BESIDE_OTHERS * PAGE {
            self.look_now_and_then();
            return here;
        }
        let least = if self.others.are_working() {
            LEAST_BESIDE_OTHERS
        } else {
            LEAST_OF_ONE
        };
        let asked = self.try_locked(|table| {
            let kind = unnamed_kind_of(table, range);
            let known = kind.is_some() && !table.anchors.is_in_wedged(range);
            let many = range.len() >= least * PAGE;
            if many && known && table.freed_habit(range.len()).note_end() {
                return Ok(());
            }
            // The kernel may take it from now on.
            table.keep.uncount_whole_blocks(range);
            Err(self.left_to_the_kernel(table, range))
        });
        let Locked::Done(asked) = asked else {
            return here;
        };
        self.look_now_and_then();
        asked?;
        let pays = self.count_in_memory(range) >= least;
        let _ = self.try_locked(|table| {
            let habit = table.freed_habit(range.len());
            if pays {
                habit.was_dense();
            } else {
                habit.was_thin();
                table.keep.uncount_whole_blocks(range);
            }
        });
        if pays { Ok(()) } else { here }
    }

    /// Whether a range is all of one kind, and plain: then to drop MADV_FREE is as good as to do it.
    fn is_known_plain(&self, range: Range) -> bool {
        let kind = match self.try_locked(|table| unnamed_kind_of(table, range)) {
            Locked::Done(kind) => kind,
            Locked::Mine | Locked::Busy => None,
        };
        kind.is_some_and(|kind| self.is_plain(range, kind))
    }

    /// Where too many threads are at the lock: how a range is left to the kernel. The count of staying bytes is too
    /// high then.
    fn left_in_a_crowd(&self, range: Range) -> AdviceOutcome {
        if self.has_nothing_in(range) {
            AdviceOutcome::HereAlone
        } else {
            AdviceOutcome::Here
        }
    }

    /// Begins to zero a range, if it is the program's and known, the budget allows it to stay in memory, and nobody is at it. If
    /// not, it takes back what was counted for it, here and by [`Shim::has_no_pins_for`].
    fn begin_to_zero(&self, range: Range) -> Option<Claim> {
        let stays = self.may_stay_as(range, Leftover::Zeros, || self.begin_to_use(range));
        let was_counted = stays.is_some();
        let begun = stays.flatten().and_then(|begun| self.has_begun(begun));
        if begun.is_none() {
            if was_counted {
                let _ = self.try_locked(|table| table.keep.uncount(range));
            }
            self.is_not_zeroed(range.len());
        }
        begun
    }

    /// A range that is not zeroed after all brings no look for pinned pages nearer: of memory that is given back for
    /// good these would be many.
    fn is_not_zeroed(&self, len: usize) {
        let less = |zeroed: usize| Some(zeroed.saturating_sub(len));
        let order = Ordering::Relaxed;
        let _ = self.zeroed_since_look.fetch_update(order, order, less);
    }

    /// Whether the range is the program's and known, and may stay in memory: then it is counted, and `then` done at once,
    /// with the lock.
    fn may_stay_as<T>(&self, range: Range, left: Leftover, then: impl Fn() -> T) -> Option<T> {
        if self.is_retired() {
            return None;
        }
        let budget = match (self.take_room(range.len()), left) {
            (Some(ResidentRoom::Over(_) | ResidentRoom::Little), _) => 0,
            (Some(ResidentRoom::Enough), Leftover::Zeros) => {
                return self.stays_uncounted(range, then);
            }
            // The bound is kept to by resident memory. But freed memory could be taken by the kernel where memory runs
            // out below the bound, and can't where that is dropped.
            (Some(ResidentRoom::Enough), Leftover::Freed) => self.free_share(),
            (None, _) => self.keep_budget(),
        };
        let ask = |last: bool| {
            self.try_locked(|table| {
                if !table.all_live(range, |region| region.kind.is_read_write()) {
                    self.counters.passed_unknown.count_one();
                    return Some(None);
                }
                if range.len() <= budget && table.keep.count_range(range, left, budget) {
                    return Some(Some(then()));
                }
                if last || range.len() > budget || !table.keep.rest.may_look_now() {
                    // The range is given back now.
                    table.keep.uncount(range);
                    self.counters.passed_budget.count_one();
                    return Some(None);
                }
                None
            })
        };
        match ask(false) {
            Locked::Done(Some(stays)) => stays,
            // Many of the counted blocks may be in use again.
            Locked::Done(None) => {
                self.recount_unused(range.len());
                match ask(true) {
                    Locked::Done(Some(stays)) => stays,
                    _ => None,
                }
            }
            Locked::Mine | Locked::Busy => None,
        }
    }

    /// Whether the range is the program's and known, where staying bytes are not counted.
    fn stays_uncounted<T>(&self, range: Range, then: impl Fn() -> T) -> Option<T> {
        let known = self.try_locked(|table| {
            if !table.all_live(range, |r| r.kind.is_read_write()) {
                self.counters.passed_unknown.count_one();
                return None;
            }
            // Its freed content is zeros now.
            table.keep.uncount(range);
            Some(then())
        });
        match known {
            Locked::Done(known) => known,
            Locked::Mine | Locked::Busy => None,
        }
    }

    /// Looks at blocks that are counted as unused, until so many bytes of them are found in use, or not
    /// to be in memory at all.
    fn recount_unused(&self, wanted: usize) {
        /// At some microseconds each, this costs as much as faulting in some hundred pages anew.
        const LOOKS: usize = 32;
        let wanted = wanted.div_ceil(retained::BLOCK_BYTES) + 1;
        let (mut looks, mut found) = (0, 0);
        while looks < LOOKS && found < wanted {
            let Locked::Done(Some((block, left))) =
                self.try_locked(|table| table.keep.next_counted())
            else {
                break;
            };
            looks += 1;
            let is_over = match left {
                Leftover::Zeros => self.is_used_or_gone(block),
                // Its content may be the freed one.
                Leftover::Freed => self.is_gone(block),
            };
            if is_over {
                let _ = self.try_locked(|table| table.keep.uncount_block(block, left));
                found += 1;
            }
        }
        let _ = self.try_locked(|table| table.keep.rest.note_result(looks, found));
    }

    /// Whether a block has something in it, by some of its pages, or nothing of it is in memory.
    fn is_used_or_gone(&self, block: Range) -> bool {
        const PAGES: usize = retained::BLOCK_BYTES / PAGE;
        /// Each takes a microsecond or two: the kernel looks it up by itself.
        const SAMPLES: usize = 4;
        let mut there = [0; PAGES];
        // SAFETY: it only looks. Pages that are not there are left alone: to read one would map the
        // page of zeros, and to write it then would cost a shootdown.
        if unsafe { self.kernel.mincore(block, &mut there) }.is_err() {
            there = [0; PAGES];
        }
        let mut pages = [0; PAGES];
        let mut count = 0;
        for (n, _) in there.iter().enumerate().filter(|(_, t)| **t & 1 != 0) {
            pages[count] = block.start + n * PAGE;
            count += 1;
        }
        let samples = count.min(SAMPLES);
        for n in 0..samples {
            pages[n] = pages[n * count / samples];
        }
        let used = self.kernel.count_used(&pages[..samples]);
        count == 0 || used.is_some_and(|used| used > 0)
    }

    /// Whether nothing of a block is in memory. Where a part of it is not mapped, the kernel tells of each page only.
    fn is_gone(&self, block: Range) -> bool {
        let is_gone = |range: Range| {
            let mut there = [0; retained::BLOCK_BYTES / PAGE];
            // SAFETY: it only looks.
            let looked = unsafe { self.kernel.mincore(range, &mut there) };
            looked.map(|()| there.iter().all(|page| page & 1 == 0))
        };
        is_gone(block).unwrap_or_else(|_| {
            (block.start..block.end).step_by(PAGE).all(|start| {
                let end = start + PAGE;
                match is_gone(Range { start, end }) {
                    Ok(gone) => gone,
                    Err(error) => error == Errno::ENOMEM,
                }
            })
        })
    }

    /// Whether a range may be zeroed by its size, see [`Settings::zero`]; none where that has to be measured first.
    fn is_small(&self, range: Range) -> Option<bool> {
        match self.zero_up_to.load(Ordering::Relaxed) {
            NOT_MEASURED if range.len() <= zero_cost::MIN_ZEROED_BYTES => Some(true),
            NOT_MEASURED => None,
            known => Some(range.len() <= known),
        }
    }

    /// The same, and measures if need be. Only one thread does: it takes most of a millisecond, and for that time the others
    /// have their large ranges given back.
    fn is_small_measured(&self, range: Range) -> bool {
        self.is_small(range).unwrap_or_else(|| {
            let (order, least) = (Ordering::Relaxed, zero_cost::MIN_ZEROED_BYTES);
            let first = self
                .zero_up_to
                .compare_exchange(NOT_MEASURED, least, order, order);
            if first.is_ok() {
                let found = zero_cost::zero_up_to(&self.kernel);
                self.zero_up_to.store(found, order);
            }
            self.is_small(range).unwrap_or(false)
        })
    }

    /// Whether to zero a range costs less than to give it back: none where not, or else whether its habit was told how the
    /// range was used.
    fn pays_to_zero(&self, range: Range, kind: Kind, zeroed_before: bool) -> Option<bool> {
        if range.len() < SMALL_RANGE_BYTES {
            return Some(false);
        }
        let how = self.use_of(HabitOf::GivenBack, range, kind);
        match how {
            RangeDensity::None => {
                let _ = self.try_locked(|table| {
                    table.habit_of(HabitOf::GivenBack, range.len()).was_empty();
                });
                None
            }
            RangeDensity::Idle if self.takes_idle_turn(range.len()) => Some(true),
            RangeDensity::Dense | RangeDensity::Thin | RangeDensity::Idle => {
                let dense = how == RangeDensity::Dense;
                let trusted =
                    self.learn_from_lifetime(HabitOf::GivenBack, range.len(), dense, zeroed_before);
                (trusted && dense).then_some(true)
            }
        }
    }

    /// Whether memory that is zero already may stay once more.
    fn takes_idle_turn(&self, len: usize) -> bool {
        let takes =
            self.try_locked(|table| table.habit_of(HabitOf::GivenBack, len).may_stay_idle());
        matches!(takes, Locked::Done(true))
    }

    /// Zeroes a range of the program's, if it is known and plain, likely to be used again, and may stay.
    unsafe fn zero_in_place(&self, range: Range) -> AdviceOutcome {
        /// More than our frames take, and the red zone.
        const FRAMES: usize = 16 * 1024;
        let here = (&raw const range).addr();
        // A thread may give back memory below its stack pointer, and we stand there.
        let is_own_stack = range.start <= here && range.end > here.saturating_sub(FRAMES);
        let settings = self.settings();
        let is_tiny = range.len() < settings.least_zeroed;
        let is_large = self.is_small(range) == Some(false);
        let passes = is_own_stack || is_tiny || is_large || settings.strict;
        if self.is_crowded() {
            return self.left_in_a_crowd(range);
        }
        if passes || !self.pays_to_prove(range.len()) {
            self.look_now_and_then();
            return AdviceOutcome::Here;
        }
        let Locked::Done(asked) = self.try_locked(|table| self.way_of(table, range)) else {
            return AdviceOutcome::Here;
        };
        self.look_now_and_then();
        let (kind, zeroed_before) = match asked {
            Ok(known) => known,
            Err(left) => return left,
        };
        // SAFETY: the caller's own call.
        if unsafe { self.try_to_zero(range, kind, zeroed_before) } {
            return AdviceOutcome::Done;
        }
        let _ = self.try_locked(|table| table.keep.uncount_whole_blocks(range));
        AdviceOutcome::Here
    }

    /// Whether to find out if a range may be zeroed, and then: its kind, and whether ranges of its size are trusted to be dense.
    /// Otherwise how it is left to the kernel.
    fn way_of(&self, table: &mut Table, range: Range) -> Result<(Kind, bool), AdviceOutcome> {
        // Few pages are zeroed for the interrupt that this saves: some faults less are worth no proof.
        let may_pay = range.len() >= MIN_SAVED_ALONE_BYTES || self.would_interrupt();
        let kind =
            unnamed_kind_of(table, range).filter(|_| may_pay && !table.anchors.is_in_wedged(range));
        if let Some(kind) = kind {
            let trusted =
                table.is_trusted(HabitOf::GivenBack, range.len(), self.settings().lifetimes);
            let habit = table.habit_of(HabitOf::GivenBack, range.len());
            // The range is used again if it is dense now.
            habit.note_begin();
            if habit.note_end() {
                return Ok((kind, trusted));
            }
        }
        table.keep.uncount_whole_blocks(range);
        Err(self.left_to_the_kernel(table, range))
    }

    /// How a range that is not looked at is left to the kernel. Another thread may be zeroing there, in a call that is
    /// not over: it is not waited for, as the kernel's own MADV_DONTNEED would not be. Nor is one that changes its
    /// protection.
    fn left_to_the_kernel(&self, table: &Table, range: Range) -> AdviceOutcome {
        if table.going.thread_unmapping_in(range).is_none() && table.kept_in(range).is_none() {
            AdviceOutcome::HereAlone
        } else {
            AdviceOutcome::Here
        }
    }

    /// Zeroes a range of this kind, if it is plain, that pays, and it may stay.
    unsafe fn try_to_zero(&self, range: Range, kind: Kind, zeroed_before: bool) -> bool {
        // Asked before all that takes longer: near the bound it is so for one range after the other.
        if let Some(ResidentRoom::Little | ResidentRoom::Over(_)) = self.room_for(range.len()) {
            let _ = self.try_locked(|table| table.keep.uncount(range));
            self.counters.passed_budget.count_one();
            return false;
        }
        let Some(learned) = self.pays_to_zero(range, kind, zeroed_before) else {
            return false;
        };
        // Most programs never come here, and so it is never measured. And each page of shared memory would be copied
        // for it.
        if !self.is_small_measured(range)
            || self.is_shared(range)
            || !self.has_no_pins_for(range.len())
        {
            return false;
        }
        let Some(begun) = self.begin_to_zero(range) else {
            return false;
        };
        let found = self.prove_plain(range, kind);
        let plain = found == PlainProof::Yes;
        let used = if plain {
            // SAFETY: it is private, anonymous and writable, and calls that the library sees leave it so until we say
            // that it is over (docs/shim.md says what becomes of others); the program says that nobody needs its
            // content.
            unsafe { self.wipe_range(range) }
        } else {
            None
        };
        self.end_claim(begun);
        if used.is_none() {
            self.is_not_zeroed(range.len());
        }
        if let Some(used) = used {
            if !learned {
                let was_worth_it = self.was_worth_zeroing(range.len() / PAGE, used);
                // One lifetime more or less says nothing.
                self.if_free(|table| {
                    let habit = table.habit_of(HabitOf::GivenBack, range.len());
                    if was_worth_it {
                        habit.was_dense();
                    } else {
                        habit.was_thin();
                    }
                });
            }
            return true;
        }
        let _ = self.try_locked(|table| {
            let habit = table.habit_of(HabitOf::GivenBack, range.len());
            match found {
                PlainProof::Yes => habit.was_thin(),
                PlainProof::No | PlainProof::NoRoom => habit.pause_looks(),
            }
            table.keep.uncount(range);
        });
        false
    }
}
