//! The true state of memory, whatever the program has done to it by calls that the library does not see.
//!
//! A program may change its memory past the library: by a function from a library's handle, by a system call of its
//! own, by another library's. So nothing that the table says is believed where it matters: before memory is kept,
//! before it is zeroed in place, before it is handed out, and before kept memory is given back.
//!
//! **Attributes.** The kernel tells of a mapping which rights it has, and whether it is of a file, and not whether a
//! child of fork(2) will have it, whether it is locked, under a protection key, registered with userfaultfd(2), bound to
//! a node, or has a name. But it makes one mapping of two that touch only where all of that is alike
//! (`is_mergeable_vma`, mm/vma.c). So the library maps a page of its own beside the program's memory, an *anchor*, as
//! plain as a page can be. Memory in one mapping with it is as plain as it is; and whoever changes the program's memory
//! without the anchor, which is none of his, makes two mappings of the one, which is seen.
//!
//! **Whose it is.** Kept memory is mapped still, and free to the program, which may map something over it past the
//! library. So each kept page has a word at its begin by which it is known, its *mark*. Whoever maps over it takes the word
//! away. But a page that a device or the kernel has hold of must not be written: until a look has found no such pages, kept
//! memory is known by a hash of what is in it, its *fingerprint*, and serves nobody ([`Shim::look_for_pins`] marks it).

use crate::kernel::{Kernel, Map, Mapping, Pins};
use crate::linux::{
    MADV_DONTNEED, MADV_HUGEPAGE, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE, MAP_NORESERVE, MAP_PRIVATE,
    PROT_READ, PROT_WRITE,
};
use crate::region::Kind;
use crate::shim::{Locked, Shim};
use crate::sync::Ordering;
use crate::table::Table;
use crate::{PAGE, Range};

/// So many bytes that are served or zeroed pay for a nanosecond of a look for pinned pages.
const LOOKED_FOR_NS: usize = 16;

/// The result of a proof that a range is plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainProof {
    Yes,
    No,
    /// It may be, but no anchor could be put beside the mapping that it is in: there is no room, or the kernel does not make one
    /// mapping of the two, or somebody was at that page.
    NoRoom,
}

/// Whose kept memory is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    Ours,
    Foreign,
    /// Its content is ours, and which mapping it lies in can't be told just now: while a thread forks no file is
    /// opened.
    NotTold,
}

impl<K: Kernel> Shim<K> {
    /// Whether a range is private memory of no file, all in one mapping, which can be read and written and has no other
    /// attribute but those of `kind`. Puts an anchor beside it where there is none.
    pub(crate) fn is_plain(&self, range: Range, kind: Kind) -> bool {
        self.prove_plain(range, kind) == PlainProof::Yes
    }

    /// The same, and says where there was no room for an anchor.
    pub(crate) fn prove_plain(&self, range: Range, kind: Kind) -> PlainProof {
        let mapping = self.kernel.mapping_at(range);
        let Some(mapping) = mapping.filter(|mapping| mapping.is_plain) else {
            return PlainProof::No;
        };
        let found = self.try_locked(|table| {
            let anchor = table.anchors.page_in(mapping.range);
            let is_wedged = anchor.is_none() && table.anchors.is_wedged(mapping.range);
            (anchor, is_wedged, table.anchors.are_full())
        });
        let known = match found {
            Locked::Done((Some(anchor), _, _)) => anchor,
            Locked::Done((None, true, _)) => return PlainProof::NoRoom,
            Locked::Done((None, false, false)) => {
                return self.put_anchor(mapping.range, range, kind);
            }
            Locked::Done((None, false, true)) => {
                // Anchors that have nothing beside them go.
                self.trim_to(usize::MAX);
                let _ = self.try_locked(|table| table.anchors.note_wedged(mapping.range));
                return PlainProof::NoRoom;
            }
            Locked::Mine | Locked::Busy => return PlainProof::No,
        };
        // The anchor may have been mapped over, together with the range beside it. And whoever locks all memory
        // (mlockall(2)) locks it, too.
        if self.kernel.is_marked(known, self.process_mark()) && !self.kernel.is_locked(range) {
            PlainProof::Yes
        } else {
            PlainProof::No
        }
    }

    /// Maps a page beside a mapping, and looks whether the kernel takes the two for one. Where it was tried on both sides, and
    /// failed, it is not tried again for a while ([`Anchors::note_wedged`](crate::anchors::Anchors::note_wedged)).
    #[cold]
    fn put_anchor(&self, mapping: Range, range: Range, kind: Kind) -> PlainProof {
        let below = mapping.start.checked_sub(PAGE);
        let mut is_wedged = true;
        for start in [below, Some(mapping.end)].into_iter().flatten() {
            match self.put_anchor_at(start, range, kind) {
                Some(true) => return PlainProof::Yes,
                Some(false) => {}
                None => is_wedged = false,
            }
        }
        if is_wedged {
            let _ = self.try_locked(|table| table.anchors.note_wedged(mapping));
        }
        PlainProof::NoRoom
    }

    /// Makes an anchor of a page that was mapped together with the range below it.
    pub(crate) fn bring_anchor(&self, page: Range, kind: Kind) {
        self.anchored.add(page.start);
        // SAFETY: the page is ours.
        if !unsafe { self.mark_and_note_anchor(page, kind) } {
            // Nobody knows of it, so nobody else unmaps it.
            // SAFETY: as above.
            let _ = unsafe { self.kernel.munmap(page.start, PAGE) };
        }
    }

    /// Writes the mark into a page, and tells the table that it is an anchor. False where the table was not told, as there is no
    /// room, nothing is to be kept any more, or the lock is not to be had.
    ///
    /// # Safety
    ///
    /// The page is the library's own.
    unsafe fn mark_and_note_anchor(&self, page: Range, kind: Kind) -> bool {
        // SAFETY: the caller's own page.
        unsafe { self.kernel.write_marks(page, self.process_mark()) };
        let noted = self.locked(|table| !self.is_retired() && table.note_anchor(page, kind));
        matches!(noted, Locked::Done(true))
    }

    /// Whether there is an anchor at this page now that shows `range` to be plain: see [`Shim::map_anchor`]. None where it was
    /// not tried, as somebody is at the page or the lock is not to be had.
    fn put_anchor_at(&self, start: usize, range: Range, kind: Kind) -> Option<bool> {
        let reserve = if kind.noreserve { MAP_NORESERVE } else { 0 };
        let page = Range::page_at(start);
        let map = Map {
            addr: start,
            len: PAGE,
            prot: PROT_READ | PROT_WRITE,
            flags: MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | reserve,
            fd: -1,
            offset: 0,
        };
        // Another thread may be about to map just there, or to unmap around it.
        let begun = self.locked(|_| self.begin_to_use(page));
        self.use_if_begun(begun, || self.map_anchor(&map, page, range, kind))
    }

    /// Maps an anchor at a page, if nothing is there. Others leave the page alone meanwhile. It stays where the kernel makes one
    /// mapping of it and `range`, and the table has room for it; true if then `range` is not locked.
    fn map_anchor(&self, map: &Map, page: Range, range: Range, kind: Kind) -> bool {
        let start = page.start;
        // SAFETY: nothing is there, or the kernel refuses it.
        if unsafe { self.kernel.mmap(map) } != Ok(start) {
            return false;
        }
        self.anchored.add(start);
        // SAFETY: the page is ours. The advice changes no content.
        let advised =
            !kind.huge || unsafe { self.kernel.madvise(start, PAGE, MADV_HUGEPAGE) }.is_ok();
        let one =
            |mapping: Mapping| mapping.is_plain && mapping.range.intersection(page) == Some(page);
        let merged = advised && self.kernel.mapping_at(range).is_some_and(one);
        // SAFETY: the page is ours.
        if merged && unsafe { self.mark_and_note_anchor(page, kind) } {
            return !self.kernel.is_locked(range);
        }
        // Nobody knows of it, so nobody else unmaps it.
        // SAFETY: as above.
        let _ = unsafe { self.kernel.munmap(start, PAGE) };
        false
    }

    /// Whose kept memory is: still ours, where nobody has mapped anything over it. By its fingerprint where it is not
    /// marked yet.
    pub(crate) fn ownership_of(&self, range: Range, fingerprint: u64) -> Ownership {
        let mut told = true;
        // A range that was several mappings once may be several to the kernel still.
        let mut start = range.start;
        while start < range.end {
            let first = Range::page_at(start);
            match self.kernel.mapping_at(first) {
                Some(mapping) if mapping.is_plain => start = mapping.range.end,
                Some(_) => return Ownership::Foreign,
                // Nothing is mapped there, and then nothing can be read there either; or the file can't be opened.
                None => {
                    told = false;
                    break;
                }
            }
        }
        let known = match fingerprint {
            0 => Some(self.kernel.is_marked(range, self.process_mark())),
            // Memory that was mapped over it, and in which nothing is yet, reads as zeros, as kept memory may have
            // been.
            _ => {
                let there = self.kernel.all_there(range);
                there.map(|there| there && self.kernel.has_fingerprint(range, fingerprint))
            }
        };
        match (known, told) {
            (Some(false), _) => Ownership::Foreign,
            (Some(true), true) => Ownership::Ours,
            (Some(true), false) | (None, _) => Ownership::NotTold,
        }
    }

    /// Marks kept memory before a look that has found no pinned pages, so that it may serve. Left to whoever is at it
    /// already: who unmaps around it while another thread forks waits for that one.
    fn mark_fresh(&self, look: u32) {
        let me = self.kernel.thread_id();
        let order = (Ordering::SeqCst, Ordering::Relaxed);
        let free = self.marking.compare_exchange(0, me, order.0, order.1);
        if free.is_ok() {
            self.mark_each(look);
            self.marking.store(0, Ordering::SeqCst);
            self.somebody_left();
            if self.is_retired() {
                // The region that was being marked was not to be had when all kept memory went.
                self.unmap_all_kept();
            }
        }
    }

    /// Marks one region after the other, as the one thread that does. A region that is not as it was when it was kept, or can't
    /// be shown to be plain, is unmapped, or left alone as somebody else's. It ends: each leaves the shelf of those that are not
    /// marked, and what is kept from now on waits for a later look.
    fn mark_each(&self, look: u32) {
        while let Locked::Done(Some((id, region))) =
            self.try_locked(|table| table.next_to_mark(look))
        {
            let range = region.range;
            let ours = self.is_plain(range, region.kind)
                && self.kernel.all_there(range) == Some(true)
                // SAFETY: it is plain memory, and none of its pages is a guard.
                && unsafe { self.kernel.fingerprint(range) } == region.fingerprint;
            if !ours {
                // It can't be shown to be plain, or it is somebody else's, and left alone then.
                if self.unmap_leaving(id, range).is_none() {
                    return;
                }
                continue;
            }
            if self.is_off_now() {
                // A handler has forked, and this is its child.
                return;
            }
            // SAFETY: as above, and it was ours a moment ago. A thread that maps there in between, by a system call that the
            // library does not see, would find a word in it.
            unsafe { self.kernel.write_marks(range, self.process_mark()) };
            let told = self.locked(|table| table.is_marked(range));
            if !matches!(told, Locked::Done(())) && !self.defer_to_holder(&self.marked, range) {
                // It would be leaving for ever, and nobody at it.
                self.turn_off();
            }
            // Whoever waits for these addresses looks again within some milliseconds.
            self.left.fetch_add(1, Ordering::Release);
        }
    }

    /// Makes kept memory zeros, for its next owner. False where it is not the kept memory any more, or differs from a
    /// new mapping; its first pages may be zeros then, and given back.
    ///
    /// # Safety
    ///
    /// Nobody but the caller is about to use it.
    pub(crate) unsafe fn clear_kept(&self, range: Range, kind: Kind) -> bool {
        if !self.is_plain(range, kind)
            || self.kernel.all_there(range) != Some(true)
            || self.kernel.implies_exec()
        {
            return false;
        }
        // SAFETY: it is plain, none of its pages is a guard, and each that is written has our word.
        let cleared = unsafe { self.kernel.clear_marked(range, self.process_mark()) };
        if cleared < range.len() && cleared > 0 {
            // The kernel has just taken a page that it was offered, or somebody maps there past the library. Nobody can tell any more
            // whose the others are, and they would stay in memory, for nothing.
            // SAFETY: each had our word a moment ago.
            let _ = unsafe { self.kernel.madvise(range.start, cleared, MADV_DONTNEED) };
        }
        cleared == range.len()
    }

    /// The word that is written into kept pages and anchors: another for each start of a program, so that no file and no other program
    /// has it. A child by fork(2) has its parent's.
    pub(crate) fn process_mark(&self) -> u64 {
        let known = self.mark.load(Ordering::Relaxed);
        if known != 0 {
            return known as u64;
        }
        let now = (self.kernel.now_ns() as usize).rotate_left(32) ^ (&raw const *self).addr();
        // The last step of SplitMix64's finalizer, and never 0.
        let x = now.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let new = (x ^ (x >> 31)) | 1;
        let order = Ordering::Relaxed;
        match self.mark.compare_exchange(0, new, order, order) {
            Ok(_) => new as u64,
            Err(other) => other as u64,
        }
    }

    /// Whether a proof that `len` bytes of memory are plain costs less than it saves: with many mappings it takes long
    /// to read them all, where the kernel can't be asked about one.
    pub(crate) fn pays_to_prove(&self, len: usize) -> bool {
        /// As in [`Shim::pays_to_look`], and up to three proofs for each time that memory is used.
        const FOR_NS: usize = 24;
        len >= self.kernel.mapping_ns().saturating_mul(FOR_NS) || self.settings().lifetimes == 0
    }

    /// Whether to look for pinned pages costs less than it saves: it is made for a mapping of `wanted` bytes, and its
    /// result holds for `fresh` bytes that nobody has looked at.
    pub(crate) fn pays_to_look(&self, wanted: usize, fresh: usize) -> bool {
        /// A page that is served again saves a fault, of half a microsecond at least: a byte an eighth of a nanosecond.
        /// For one mapping a look may take as long as that at most, and half as long where its result holds for more.
        const WANTED_FOR_NS: usize = 8;
        const FRESH_FOR_NS: usize = LOOKED_FOR_NS;
        // Where somebody marks, and so also where a handler has left that by siglongjmp(3), the look would mark nothing.
        if self.marking.load(Ordering::SeqCst) != 0 {
            return false;
        }
        let cost = self.pin_look_ns.load(Ordering::Relaxed);
        let pays = fresh >= wanted && wanted >= cost.saturating_mul(WANTED_FOR_NS)
            || fresh >= cost.saturating_mul(FRESH_FOR_NS);
        fresh > 0 && (pays || self.settings().lifetimes == 0)
    }

    /// Whether pinned pages were looked for lately, counting by the bytes zeroed since, and none was found. Looks
    /// otherwise.
    pub(crate) fn has_no_pins_for(&self, len: usize) -> bool {
        const BYTES_A_LOOK: usize = 1 << 20;
        let cost = self.pin_look_ns.load(Ordering::Relaxed);
        let bytes = BYTES_A_LOOK.max(cost.saturating_mul(LOOKED_FOR_NS));
        let zeroed = self.zeroed_since_look.fetch_add(len, Ordering::Relaxed) + len;
        if zeroed < bytes && self.settings().lifetimes > 0 {
            return true;
        }
        let looked = self.look_for_pins();
        // Memory that it has found free of pins was marked, and is not offered any more.
        self.offer_if_too_firm();
        if looked {
            self.zeroed_since_look.store(len, Ordering::Relaxed);
        }
        looked
    }

    /// Looks whether the kernel or a device has hold of pages of this process. True if none is found: then what was kept before
    /// is marked. If some may be held for as long as the program lives, nothing is kept any more, for good. False also where
    /// some may be held just now, for a while after that, and where the lock is not to be had.
    pub(crate) fn look_for_pins(&self) -> bool {
        /// Where some may be pinned for a while, the next look is not before so many times the duration of one.
        const REST: usize = 64;
        let cost = self.pin_look_ns.load(Ordering::Relaxed);
        let began = self.kernel.now_ns();
        if began < self.no_pin_look_before.load(Ordering::Relaxed) {
            return false;
        }
        let Locked::Done(look) = self.try_locked(Table::begin_pin_look) else {
            return false;
        };
        let worked = self.kernel.thread_cpu_ns();
        let pins = self.kernel.pinned_pages();
        let took = self.kernel.thread_cpu_ns().saturating_sub(worked);
        // An interrupt of another's may come meanwhile.
        let took = usize::try_from(took).unwrap_or(usize::MAX);
        let cost = took.min(cost.saturating_mul(2)).max(1);
        self.pin_look_ns.store(cost, Ordering::Relaxed);
        match pins {
            Pins::None => {
                self.mark_fresh(look);
                true
            }
            Pins::PerhapsNow => {
                let next = began.saturating_add((cost * REST) as u64);
                self.no_pin_look_before.store(next, Ordering::Relaxed);
                false
            }
            Pins::Perhaps => {
                self.counters.pinned.set(1);
                self.stop_keeping();
                false
            }
        }
    }

    /// Unmaps all anchors.
    pub(crate) fn unmap_anchors(&self) {
        while self.unmap_first_anchor(|_, _| true).is_some() {}
    }

    /// Unmaps those that have nothing beside them any more, one by one.
    pub(crate) fn unmap_lone_anchors(&self) {
        while self.unmap_first_anchor(Table::is_lone).is_some() {}
    }
}
