//! Everything that is known of the program's mappings, and of the unmapped ones that are kept.
//!
//! All of it is used under the lock, and makes no system call.

use crate::anchors::Anchors;
use crate::habit::{self, Habit, SIZE_CLASSES, size_class};
use crate::in_flight::{InFlight, UnmappingSlot};
use crate::nodes::{Node, NodeId, Nodes};
use crate::region::{Kind, Region, State};
use crate::retained::{BLOCK_PLACES, RetainedBlocks};
use crate::shelf::Shelf;
use crate::{PAGE, Range};

/// A huge page's size.
const HUGE_PAGE_BYTES: usize = 2 << 20;

pub(crate) struct Table {
    pub(crate) nodes: Nodes,
    pub(crate) dirty: Shelf,
    pub(crate) fresh: Shelf,
    pub(crate) keep: RetainedBlocks,
    pub(crate) going: InFlight,
    /// Bytes that leave: in memory still, as far as anybody knows.
    pub(crate) leaving: usize,
    /// How mappings of each size were used, and ranges that were given back by MADV_DONTNEED.
    mapped: [Habit; SIZE_CLASSES],
    given_back: [Habit; SIZE_CLASSES],
    /// For ranges that MADV_FREE frees: whether enough of them was in memory that to drop the call pays.
    freed: [Habit; SIZE_CLASSES],
    /// Looks for pinned pages that have begun. Kept memory takes the number of the next one.
    pin_looks: u32,
    /// The fewest bytes that were kept since [`Table::take_spare`].
    fewest_kept: usize,
    pub(crate) anchors: Anchors,
}

/// The lifetimes that a habit is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HabitOf {
    /// A mapping, from mmap(2) to munmap(2).
    Mappings,
    /// A range, from one MADV_DONTNEED to the next.
    GivenBack,
}

/// The result of [`Table::forget`].
#[derive(Clone, Copy, Default)]
pub(crate) struct Forgotten {
    /// A part of it at least was memory of a kind that may be kept.
    pub(crate) was_plain: bool,
    /// So much of it was known to be mapped, bytes. The rest may be holes.
    pub(crate) mapped: usize,
    /// Something is there still that is not the program's: it leaves, or it is kept and was not to be forgotten.
    pub(crate) others_stay: bool,
}

impl Table {
    pub(crate) fn new(
        places: &'static mut [Node],
        blocks: &'static mut [usize; BLOCK_PLACES],
    ) -> Self {
        Table {
            nodes: Nodes::new(places),
            dirty: Shelf::EMPTY,
            fresh: Shelf::EMPTY,
            keep: RetainedBlocks::new(blocks),
            going: InFlight::EMPTY,
            leaving: 0,
            mapped: [Habit::UNKNOWN; SIZE_CLASSES],
            given_back: [Habit::UNKNOWN; SIZE_CLASSES],
            freed: [Habit::UNKNOWN; SIZE_CLASSES],
            pin_looks: 0,
            fewest_kept: 0,
            anchors: Anchors::EMPTY,
        }
    }

    /// Whether memory of this length is expected to be used by its next owner.
    pub(crate) fn is_trusted(&self, of: HabitOf, len: usize, lifetimes: usize) -> bool {
        let habits = match of {
            HabitOf::Mappings => &self.mapped,
            HabitOf::GivenBack => &self.given_back,
        };
        habit::is_trusted(habits, size_class(len), lifetimes)
    }

    pub(crate) fn habit_of(&mut self, of: HabitOf, len: usize) -> &mut Habit {
        let habits = match of {
            HabitOf::Mappings => &mut self.mapped,
            HabitOf::GivenBack => &mut self.given_back,
        };
        &mut habits[size_class(len)]
    }

    /// The habit of ranges that MADV_FREE frees.
    pub(crate) fn freed_habit(&mut self, len: usize) -> &mut Habit {
        &mut self.freed[size_class(len)]
    }

    /// Bytes kept, whether they may serve yet or not.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.dirty.bytes + self.fresh.bytes
    }

    /// The same of memory that the kernel can't take.
    pub(crate) fn firm_bytes(&self) -> usize {
        self.dirty.firm_bytes + self.fresh.firm_bytes
    }

    /// A look for pinned pages begins. Its number.
    pub(crate) fn begin_pin_look(&mut self) -> u32 {
        self.pin_looks += 1;
        self.pin_looks
    }

    /// Bytes of kept memory that were not needed since this was asked the last time: so much less would have served as well.
    pub(crate) fn take_spare(&mut self) -> usize {
        let now = self.kept_bytes();
        core::mem::replace(&mut self.fewest_kept, now).min(now)
    }

    /// Takes a region from its shelf, if it is on one.
    fn take_from_shelf(&mut self, id: NodeId) {
        match self.nodes.get(id).state {
            State::Dirty => self.dirty.remove(&mut self.nodes, id),
            State::Fresh => self.fresh.remove(&mut self.nodes, id),
            State::Live | State::Leaving | State::Lost | State::Anchor => {}
        }
    }

    /// Puts it on the shelf of its state, if there is one.
    fn put_on_shelf(&mut self, id: NodeId) {
        match self.nodes.get(id).state {
            State::Dirty => self.dirty.add(&mut self.nodes, id),
            State::Fresh => self.fresh.add(&mut self.nodes, id),
            State::Live | State::Leaving | State::Lost | State::Anchor => {}
        }
    }

    /// Makes a region of the part that lies in `range`, off its shelf, and of the rest on either side regions of their
    /// own. There must be room for two more; without, the rests are forgotten, and true says so.
    fn split_out(&mut self, id: NodeId, range: Range) -> (NodeId, bool) {
        self.take_from_shelf(id);
        let whole = *self.nodes.get(id);
        let part = whole.range.intersection(range).unwrap_or(whole.range);
        let id = self.nodes.cut_to_part(id, part);
        let mut lost = false;
        let rests = [(whole.range.start, part.start), (part.end, whole.range.end)];
        for (start, end) in rests {
            if start < end {
                let range = Range { start, end };
                match self.nodes.insert(Region { range, ..whole }) {
                    Some(rest) => self.put_on_shelf(rest),
                    None => lost = true,
                }
            }
        }
        (id, lost)
    }

    /// The first region in `range` whose state is wanted.
    fn first_in_state(&self, range: Range, wanted: impl Fn(State) -> bool) -> Option<NodeId> {
        let mut at = self.nodes.first_in(range);
        while let Some(id) = at {
            let region = self.nodes.get(id);
            if wanted(region.state) {
                return Some(id);
            }
            let from = region.range.end;
            if from >= range.end {
                return None;
            }
            at = self.nodes.first_in(range.starting_at(from));
        }
        None
    }

    /// The first region in `range` that is not the program's: kept for later, leaving, or an anchor.
    pub(crate) fn kept_in(&self, range: Range) -> Option<NodeId> {
        self.first_in_state(range, |state| state != State::Live)
    }

    /// Whether anything in `range` is known as the program's.
    pub(crate) fn has_live(&self, range: Range) -> bool {
        self.first_in_state(range, |state| state == State::Live)
            .is_some()
    }

    /// The last range in `range` that is not the program's: kept for later, leaving, an anchor, or being unmapped by a thread
    /// that will not look again before it does. A kept one is given as a whole, and may reach out of `range`.
    pub(crate) fn last_not_own(&self, range: Range) -> Option<Range> {
        let both = [self.last_kept_in(range), self.going.last_range_in(range)];
        both.into_iter().flatten().max_by_key(|part| part.start)
    }

    /// The last region that has something of `range` and is not the program's, whole.
    fn last_kept_in(&self, range: Range) -> Option<Range> {
        let mut to = range.end;
        while let Some(id) = self.nodes.last_starting_before(to) {
            let region = self.nodes.get(id);
            if region.range.end <= range.start {
                return None;
            }
            if region.state != State::Live {
                return Some(region.range);
            }
            to = region.range.start;
        }
        None
    }

    /// Whether all of `range` is the program's, and `wanted` of every part.
    pub(crate) fn all_live(&self, range: Range, wanted: impl Fn(&Region) -> bool) -> bool {
        let mut from = range.start;
        while from < range.end {
            let Some(id) = self.nodes.first_in(range.starting_at(from)) else {
                return false;
            };
            let region = self.nodes.get(id);
            if region.range.start > from || region.state != State::Live || !wanted(region) {
                return false;
            }
            from = region.range.end;
        }
        true
    }

    /// The kind of `range`, if all of it is the program's and of one kind.
    pub(crate) fn kind_of(&self, range: Range) -> Option<Kind> {
        let kind = self.nodes.get(self.nodes.first_in(range)?).kind;
        self.all_live(range, |region| region.kind == kind)
            .then_some(kind)
    }

    /// Forgets the program's mappings in `range`. Kept memory there for later stays, unless `kept` says that it is gone
    /// too; a leaving region stays until it has left.
    pub(crate) fn forget(&mut self, range: Range, kept: bool) -> Forgotten {
        let mut done = Forgotten::default();
        let mut from = range.start;
        while let Some(id) = self.nodes.first_in(range.starting_at(from)) {
            let region = *self.nodes.get(id);
            match region.state {
                State::Leaving | State::Lost => {
                    done.others_stay = true;
                    if kept {
                        self.nodes.get_mut(id).state = State::Lost;
                    }
                }
                State::Dirty | State::Fresh | State::Anchor if !kept => done.others_stay = true,
                // Most regions are the program's and lie in the range as a whole: then it is on no shelf, and no part of it stays.
                State::Live if region.range.intersection(range) == Some(region.range) => {
                    self.nodes.remove(id);
                    done.mapped += region.range.len();
                    done.was_plain |= region.kind.may_be_kept();
                }
                State::Live | State::Dirty | State::Fresh | State::Anchor => {
                    let (part, _) = self.split_out(id, range);
                    done.mapped += self.nodes.get(part).range.len();
                    self.forget_region(part);
                    done.was_plain |= region.kind.may_be_kept();
                }
            }
            from = region.range.end;
            if from >= range.end {
                break;
            }
        }
        done
    }

    /// Takes one from the table that is on no shelf.
    fn forget_region(&mut self, id: NodeId) {
        let region = self.nodes.get(id);
        if region.state == State::Anchor {
            self.anchors.remove(region.range.start);
        }
        self.nodes.remove(id);
    }

    /// The kernel has just mapped it anew: whatever was known of it is not so any more. True if something there is
    /// leaving: that is mapped until it has left, unless somebody has unmapped it past us.
    pub(crate) fn note_mapped_anew(&mut self, range: Range) -> bool {
        self.going.note_given_out(range);
        self.forget(range, true).others_stay
    }

    /// Notes a new mapping of the program's. Without room, and where something there leaves, it stays unknown, which is safe.
    pub(crate) fn note_live(&mut self, range: Range, kind: Kind) {
        if self.note_mapped_anew(range) {
            return;
        }
        let _ = self.nodes.insert(Region {
            range,
            kind,
            ..Region::UNKNOWN_LIVE
        });
    }

    /// Notes a page of the library's own, which the kernel has just mapped. False where there is no room, or something there
    /// leaves.
    pub(crate) fn note_anchor(&mut self, page: Range, kind: Kind) -> bool {
        let anchor = Region {
            range: page,
            kind,
            state: State::Anchor,
            ..Region::UNKNOWN_LIVE
        };
        let there = !self.note_mapped_anew(page)
            && !self.anchors.are_full()
            && self.nodes.insert(anchor).is_some();
        if there {
            self.anchors.add(page.start);
        }
        there
    }

    /// Whether an anchor has nothing beside it that is known.
    pub(crate) fn is_lone(&self, start: usize) -> bool {
        let beside = [start.wrapping_sub(1)..start, start + PAGE..start + PAGE + 1];
        let is_known = |bytes: core::ops::Range<usize>| {
            let (start, end) = (bytes.start, bytes.end);
            self.nodes.first_in(Range { start, end }).is_some()
        };
        !beside.into_iter().any(is_known)
    }

    /// Has anchors leave that have nothing beside them, so many at most. Each has the library's word in it, as kept
    /// memory has.
    pub(crate) fn leave_lone_anchors(
        &mut self,
        most: usize,
        mut each: impl FnMut(NodeId, &Region),
    ) {
        let (mut n, mut left) = (0, most);
        while left > 0
            && let Some(start) = self.anchors.all_starts().get(n).copied()
        {
            match self.anchor_at(start) {
                Some(id) if self.is_lone(start) => {
                    // The last one takes its place.
                    self.anchors.remove(start);
                    each(id, &self.start_leaving(id));
                    left -= 1;
                }
                _ => n += 1,
            }
        }
    }

    pub(crate) fn anchor_at(&self, start: usize) -> Option<NodeId> {
        let id = self.nodes.first_in(Range {
            start,
            end: start.checked_add(PAGE)?,
        })?;
        (self.nodes.get(id).state == State::Anchor).then_some(id)
    }

    /// The program's mappings in `range` are of another kind now. Without room they are forgotten, which is safe.
    pub(crate) fn change_kinds(&mut self, range: Range, how: impl Fn(&mut Kind)) {
        // Two for the ends; those between them are there already.
        if !self.nodes.has_room(2) {
            self.forget(range, false);
            return;
        }
        let mut from = range.start;
        while let Some(id) = self.nodes.first_in(range.starting_at(from)) {
            let region = *self.nodes.get(id);
            let mut kind = region.kind;
            how(&mut kind);
            if region.state == State::Live && region.kind != kind {
                let (part, _) = self.split_out(id, range);
                self.nodes.get_mut(part).kind = kind;
            }
            from = region.range.end;
            if from >= range.end {
                return;
            }
        }
    }

    /// Keeps all of `range`, which is the program's, of one kind, and for which there is room. It is known by its
    /// fingerprint as a whole, until it is marked.
    pub(crate) fn keep_all(&mut self, range: Range, kind: Kind, fingerprint: u64) {
        self.forget(range, false);
        let kept = Region {
            range,
            kind,
            state: State::Fresh,
            fingerprint,
            kept_before_look: self.pin_looks + 1,
            ..Region::UNKNOWN_LIVE
        };
        if let Some(id) = self.nodes.insert(kept) {
            self.put_on_shelf(id);
        }
    }

    /// One that was kept before the look of this number, which has found no pinned pages: it leaves, to be marked.
    pub(crate) fn next_to_mark(&mut self, look: u32) -> Option<(NodeId, Region)> {
        let id = self.fresh.oldest_kept()?;
        if self.nodes.get(id).kept_before_look > look {
            return None;
        }
        self.start_leaving(id);
        Some((id, *self.nodes.get(id)))
    }

    /// A region that left to be marked is marked, and may serve from now on.
    pub(crate) fn is_marked(&mut self, range: Range) {
        if let Some(id) = self.leaving_at(range) {
            let region = self.nodes.get_mut(id);
            // Each page was written, and the kernel does not take written pages.
            (region.fingerprint, region.offered) = (0, false);
            self.finish_leaving(id, State::Dirty);
        }
    }

    /// A region that left to be marked is not, and kept as before.
    pub(crate) fn is_not_marked(&mut self, range: Range) {
        if let Some(id) = self.leaving_at(range) {
            self.finish_leaving(id, State::Dirty);
        }
    }

    /// The region that is all of a range and leaves. In a child of fork(2) it may be kept again by then.
    fn leaving_at(&self, range: Range) -> Option<NodeId> {
        let id = self.nodes.first_in(range)?;
        let region = self.nodes.get(id);
        let leaves = matches!(region.state, State::Leaving | State::Lost);
        (leaves && region.range == range).then_some(id)
    }

    /// A region that was served, and nobody was told of, is kept as before; also where nothing is known of it because
    /// all was forgotten meanwhile. None where something else is there now.
    pub(crate) fn keep_again(
        &mut self,
        range: Range,
        kind: Kind,
        offered: bool,
        all_forgotten: bool,
    ) -> Option<NodeId> {
        if let Some(id) = self.nodes.first_in(range) {
            let region = self.nodes.get(id);
            if region.range != range || region.state != State::Live || !region.was_served {
                return None;
            }
            self.nodes.remove(id);
        } else if !all_forgotten {
            return None;
        }
        let id = self.nodes.insert(Region {
            range,
            kind,
            state: State::Dirty,
            offered,
            ..Region::UNKNOWN_LIVE
        })?;
        self.put_on_shelf(id);
        Some(id)
    }

    /// Puts one that is on no shelf on that of its state, together with its neighbours of the same
    /// mapping.
    pub(crate) fn shelve(&mut self, id: NodeId) {
        let mut id = id;
        let region = *self.nodes.get(id);
        if let Some(before) = self.nodes.last_starting_before(region.range.start)
            && self.nodes.get(before).goes_on_in(&region)
        {
            self.take_from_shelf(before);
            self.nodes.remove(id);
            let both = self.nodes.get_mut(before);
            both.range.end = region.range.end;
            both.kept_before_look = both.kept_before_look.max(region.kept_before_look);
            id = before;
        }
        let region = *self.nodes.get(id);
        if let Some(after) = self.nodes.first_ending_after(region.range.end)
            && region.goes_on_in(self.nodes.get(after))
        {
            self.take_from_shelf(after);
            let next = *self.nodes.get(after);
            self.nodes.remove(after);
            let both = self.nodes.get_mut(id);
            both.range.end = next.range.end;
            both.kept_before_look = both.kept_before_look.max(next.kept_before_look);
        }
        self.put_on_shelf(id);
    }

    /// Something kept that can be `len` bytes of this kind, as the program's own from now on, and whether it was
    /// offered to the kernel. Where `at` is not 0, only kept memory just there, or else anything at a multiple of
    /// `hint`, if that is not 0.
    pub(crate) fn serve_kept(
        &mut self,
        len: usize,
        kind: Kind,
        at: usize,
        hint: usize,
    ) -> Option<(Range, bool)> {
        if !self.nodes.has_room(2) {
            return None;
        }
        let fits = |region: &Region| region.kind == kind;
        let dirty = &self.dirty;
        let found = match (at, hint) {
            (0, _) => self.find_aligned(dirty, len, PAGE, fits),
            (_, 0) => self.kept_just_at(len, at, fits),
            _ => self
                .kept_just_at(len, at, fits)
                .or_else(|| self.find_aligned(dirty, len, hint, fits)),
        };
        let (id, range) = found?;
        let (part, _) = self.split_out(id, range);
        let region = self.nodes.get_mut(part);
        let offered = core::mem::take(&mut region.offered);
        region.state = State::Live;
        region.was_served = true;
        self.fewest_kept = self.fewest_kept.min(self.kept_bytes());
        Some((range, offered))
    }

    /// Whether the region there was kept, and may not serve yet.
    pub(crate) fn is_fresh_at(&self, start: usize) -> bool {
        let range = Range::page_at(start);
        let there = self.nodes.first_in(range);
        there.is_some_and(|id| self.nodes.get(id).state == State::Fresh)
    }

    fn find_aligned(
        &self,
        shelf: &Shelf,
        len: usize,
        align: usize,
        may: impl Fn(&Region) -> bool,
    ) -> Option<(NodeId, Range)> {
        let id = shelf.find_fitting(&self.nodes, len, align, may)?;
        Some((id, self.nodes.get(id).range.first_aligned(len, align)?))
    }

    /// The kept region that has all of these addresses, if it may serve them.
    fn kept_just_at(
        &self,
        len: usize,
        start: usize,
        may: impl Fn(&Region) -> bool,
    ) -> Option<(NodeId, Range)> {
        let range = Range::of_len(start, len);
        let id = self.nodes.first_in(range)?;
        let region = self.nodes.get(id);
        let fits = region.state == State::Dirty
            && region.range.intersection(range) == Some(range)
            && may(region);
        fits.then_some((id, range))
    }

    /// The end of a region in memory that is larger than wanted, as the newest of those offered or those not; the rest
    /// stays as old as it is. All of it where the rest would be less than a quarter: a small one serves few mappings.
    /// Huge pages are not cut: the memory of one that is cut stays until the kernel has split it
    /// (Documentation/mm/transhuge.rst, "Partial unmap").
    pub(crate) fn cut_to(&mut self, id: NodeId, wanted: usize) -> NodeId {
        let whole = *self.nodes.get(id);
        let range = whole.range;
        if wanted > range.len() / 4 * 3 || !self.nodes.has_room(1) || whole.fingerprint != 0 {
            return id;
        }
        let size = if range.len() >= 4 * HUGE_PAGE_BYTES {
            HUGE_PAGE_BYTES
        } else {
            PAGE
        };
        let start = (range.end - wanted) & !(size - 1);
        if start <= range.start {
            return id;
        }
        self.dirty
            .shorten_to(&mut self.nodes, id, start - range.start);
        let end = Region {
            range: range.starting_at(start),
            ..whole
        };
        // There was room for one.
        match self.nodes.insert(end) {
            Some(end) => {
                self.put_on_shelf(end);
                end
            }
            None => id,
        }
    }

    /// Takes a kept region off its shelf: it leaves.
    pub(crate) fn start_leaving(&mut self, id: NodeId) -> Region {
        self.take_from_shelf(id);
        let region = self.nodes.get_mut(id);
        region.state = State::Leaving;
        let region = *region;
        self.leaving += region.range.len();
        region
    }

    /// The region has left: it is kept in this state.
    pub(crate) fn finish_leaving(&mut self, id: NodeId, state: State) {
        let region = self.nodes.get_mut(id);
        let was = region.state;
        region.state = match state {
            State::Dirty if region.fingerprint != 0 => State::Fresh,
            _ => state,
        };
        self.leaving -= region.range.len();
        if was == State::Lost {
            self.forget_region(id);
        } else {
            self.shelve(id);
        }
    }

    /// One that leaves is somebody else's: nothing is known of it.
    pub(crate) fn finish_as_lost(&mut self, id: NodeId) {
        self.nodes.get_mut(id).state = State::Lost;
        self.finish_leaving(id, State::Dirty);
    }

    /// Whoever let regions leave is gone (fork(2)): they are kept.
    pub(crate) fn keep_all_leaving(&mut self) {
        let mut from = 0;
        while let Some(id) = self.nodes.first_ending_after(from) {
            let region = *self.nodes.get(id);
            from = region.range.end;
            if matches!(region.state, State::Leaving | State::Lost) {
                self.finish_leaving(id, State::Dirty);
            }
        }
    }

    /// Takes the part of a kept region that lies in `range` from the table, for this thread to unmap.
    /// None if too many threads are at that.
    pub(crate) fn start_unmapping(
        &mut self,
        id: NodeId,
        range: Range,
        thread: usize,
    ) -> Option<(UnmappingSlot, Range)> {
        let place = self.going.free_slot()?;
        // Without room for the rests they would be lost: all of it goes then. And the rests of an unmarked region could
        // not be told from somebody else's memory.
        let part = if self.nodes.has_room(2) && self.nodes.get(id).fingerprint == 0 {
            range
        } else {
            self.nodes.get(id).range
        };
        let (part, _) = self.split_out(id, part);
        let region = *self.nodes.get(part);
        self.forget_region(part);
        self.going.put(place, region, thread);
        Some((place, region.range))
    }

    /// Takes a leaving region, which was given back, from the table, for this thread to unmap. None if too many threads
    /// are at that, and where something was mapped over it meanwhile.
    pub(crate) fn start_unmapping_given_back(
        &mut self,
        id: NodeId,
        thread: usize,
    ) -> Option<(UnmappingSlot, Range)> {
        let region = *self.nodes.get(id);
        let place = self.going.free_slot()?;
        if region.state != State::Leaving {
            return None;
        }
        self.leaving -= region.range.len();
        self.forget_region(id);
        self.going.put(place, region, thread);
        Some((place, region.range))
    }

    /// It is unmapped, or it could not be: then it is kept as before, but a leaving one has no memory any more, and
    /// stays mapped. Returns the bytes of that.
    pub(crate) fn finish_unmapping(&mut self, place: UnmappingSlot, unmapped: bool) -> usize {
        let region = self.going.take(place).filter(|_| !unmapped);
        match region {
            Some(region) if region.state == State::Leaving => return region.range.len(),
            Some(region) => {
                if let Some(id) = self.nodes.insert(region) {
                    if region.state == State::Anchor {
                        self.anchors.add(region.range.start);
                    } else {
                        self.shelve(id);
                    }
                }
            }
            None => {}
        }
        0
    }

    /// The other threads are gone (fork(2)), and have not unmapped their ranges, or have: each is kept, and whoever
    /// comes to use it looks whether it is there. Each by itself: its neighbours are there for sure. Returns how many
    /// bytes have no memory any more, and stay mapped.
    pub(crate) fn give_up_other_unmappings(&mut self, thread: usize) -> usize {
        let mut stay = 0;
        while let Some(place) = self.going.slot_of_another(thread) {
            match self.going.take(place) {
                Some(region) if matches!(region.state, State::Dirty | State::Fresh) => {
                    if let Some(id) = self.nodes.insert(region) {
                        self.put_on_shelf(id);
                    }
                }
                // An anchor that is lost is a page.
                Some(region) => stay += region.range.len(),
                None => {}
            }
        }
        stay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that in a child of fork(2) what another thread was unmapping is kept again, and what this one is at goes on.
    #[test]
    fn who_unmaps_is_gone() {
        let places = Box::leak(vec![Node::EMPTY; 8].into_boxed_slice());
        let blocks = Box::leak(Box::new([0; BLOCK_PLACES]));
        let mut table = Table::new(places, blocks);
        let (mine, other) = (1, 2);
        let kind = Kind {
            prot: 3,
            ..Region::UNKNOWN_LIVE.kind
        };
        let part = |n: usize| Range {
            start: n * 16 * PAGE,
            end: (n * 16 + 8) * PAGE,
        };
        let mut places = [1, 2, 3].map(|n| {
            let kept = Region {
                range: part(n),
                kind,
                state: State::Dirty,
                ..Region::UNKNOWN_LIVE
            };
            let id = table.nodes.insert(kept).unwrap();
            table.put_on_shelf(id);
            let thread = if n == 1 { mine } else { other };
            (n < 3).then(|| table.start_unmapping(id, part(n), thread).unwrap().0)
        });
        // And one that has no memory any more.
        let id = table.kept_in(part(3)).unwrap();
        table.start_leaving(id);
        table.start_unmapping_given_back(id, other).unwrap();
        assert_eq!(table.kept_bytes(), 0);
        assert_eq!(table.give_up_other_unmappings(mine), part(3).len());
        assert_eq!(table.kept_bytes(), part(2).len());
        assert!(table.kept_in(part(2)).is_some() && table.kept_in(part(3)).is_none());
        assert_eq!(table.going.thread_unmapping_in(part(1)), Some(mine));
        assert_eq!(table.finish_unmapping(places[0].take().unwrap(), true), 0);
        assert_eq!(table.give_up_other_unmappings(mine), 0);
    }
}
