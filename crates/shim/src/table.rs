//! All that is known of the program's mappings, and what is kept of those that it has unmapped.
//!
//! Under the lock; no system call is made here.

use crate::going::{Going, Place};
use crate::keep::{BLOCKS, Keep};
use crate::nodes::{Id, Node, Nodes};
use crate::region::{Kind, Region, State};
use crate::shelf::Shelf;
use crate::{PAGE, Range};

/// A huge page's size.
const HUGE: usize = 2 << 20;

pub(crate) struct Table {
    pub(crate) nodes: Nodes,
    pub(crate) dirty: Shelf,
    pub(crate) clean: Shelf,
    pub(crate) keep: Keep,
    pub(crate) going: Going,
    /// Bytes that leave: in memory still, as far as anybody knows.
    pub(crate) leaving: usize,
}

impl Table {
    pub(crate) fn new(places: &'static mut [Node], blocks: &'static mut [usize; BLOCKS]) -> Self {
        Table {
            nodes: Nodes::new(places),
            dirty: Shelf::EMPTY,
            clean: Shelf::EMPTY,
            keep: Keep::new(blocks),
            going: Going::NONE,
            leaving: 0,
        }
    }

    /// Takes a region from its shelf, if it is on one.
    fn lift(&mut self, id: Id) {
        match self.nodes.get(id).state {
            State::Dirty => self.dirty.remove(&mut self.nodes, id),
            State::Clean => self.clean.remove(&mut self.nodes, id),
            State::Live | State::Leaving | State::Lost => {}
        }
    }

    /// Puts it on the shelf of its state, if there is one.
    fn lay(&mut self, id: Id) {
        match self.nodes.get(id).state {
            State::Dirty => self.dirty.add(&mut self.nodes, id),
            State::Clean => self.clean.add(&mut self.nodes, id),
            State::Live | State::Leaving | State::Lost => {}
        }
    }

    /// Makes of a region what lies in `range`, off its shelf, and of the rest on either side regions of
    /// their own. There must be room for two more; without, the rests are forgotten, and true says so.
    fn carve(&mut self, id: Id, range: Range) -> (Id, bool) {
        self.lift(id);
        let whole = *self.nodes.get(id);
        let part = whole.range.and(range).unwrap_or(whole.range);
        let id = self.nodes.cut(id, part);
        let mut lost = false;
        let rests = [(whole.range.start, part.start), (part.end, whole.range.end)];
        for (start, end) in rests {
            if start < end {
                let range = Range { start, end };
                match self.nodes.insert(Region { range, ..whole }) {
                    Some(rest) => self.lay(rest),
                    None => lost = true,
                }
            }
        }
        (id, lost)
    }

    /// The first region in `range` that is kept for later or leaving.
    pub(crate) fn kept_in(&self, range: Range) -> Option<Id> {
        let mut at = self.nodes.first_in(range);
        while let Some(id) = at {
            let region = self.nodes.get(id);
            if region.state != State::Live {
                return Some(id);
            }
            let from = region.range.end;
            if from >= range.end {
                return None;
            }
            at = self.nodes.first_in(Range {
                start: from,
                end: range.end,
            });
        }
        None
    }

    /// The last range in `range` that is not the program's: kept for later, leaving, or being unmapped by a thread that
    /// will not look again before it does.
    pub(crate) fn last_not_own(&self, range: Range) -> Option<Range> {
        let both = [self.last_kept_in(range), self.going.last_in(range)];
        both.into_iter().flatten().max_by_key(|part| part.start)
    }

    fn last_kept_in(&self, range: Range) -> Option<Range> {
        let mut to = range.end;
        while let Some(id) = self.nodes.before(to) {
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
            let Some(id) = self.nodes.first_in(Range {
                start: from,
                end: range.end,
            }) else {
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

    /// What kind `range` is of, if all of it is the program's and of one kind.
    pub(crate) fn kind_of(&self, range: Range) -> Option<Kind> {
        let kind = self.nodes.get(self.nodes.first_in(range)?).kind;
        self.all_live(range, |region| region.kind == kind)
            .then_some(kind)
    }

    /// Forgets what is known of the program's mappings in `range`. What is kept there for later stays,
    /// unless `kept` says that it is gone too. True if something there is leaving.
    pub(crate) fn forget(&mut self, range: Range, kept: bool) -> bool {
        let mut leaving = false;
        let mut from = range.start;
        while let Some(id) = self.nodes.first_in(Range {
            start: from,
            end: range.end,
        }) {
            let region = *self.nodes.get(id);
            match region.state {
                State::Leaving | State::Lost => {
                    leaving = true;
                    if kept {
                        self.nodes.get_mut(id).state = State::Lost;
                    }
                }
                State::Dirty | State::Clean if !kept => {}
                State::Live | State::Dirty | State::Clean => {
                    let (part, _) = self.carve(id, range);
                    self.nodes.remove(part);
                }
            }
            from = region.range.end;
            if from >= range.end {
                break;
            }
        }
        leaving
    }

    /// The kernel has just mapped it anew: whatever was known of it is not so any more. True if something there is
    /// leaving: that is mapped until it has left, unless somebody has unmapped it past us.
    pub(crate) fn is_new(&mut self, range: Range) -> bool {
        self.going.given_out(range);
        self.forget(range, true)
    }

    /// Notes a new mapping of the program's. Without room it stays unknown, which is safe.
    pub(crate) fn note(&mut self, range: Range, kind: Kind) {
        if self.is_new(range) {
            return;
        }
        let _ = self.nodes.insert(Region {
            range,
            kind,
            state: State::Live,
        });
    }

    /// The program's mappings in `range` are of another kind now. Without room they are forgotten, which is safe.
    pub(crate) fn change(&mut self, range: Range, how: impl Fn(&mut Kind)) {
        // Two for the ends; those between them are there already.
        if !self.nodes.has_room(2) {
            self.forget(range, false);
            return;
        }
        let mut from = range.start;
        while let Some(id) = self.nodes.first_in(Range {
            start: from,
            end: range.end,
        }) {
            let region = *self.nodes.get(id);
            let mut kind = region.kind;
            how(&mut kind);
            if region.state == State::Live && region.kind != kind {
                let (part, _) = self.carve(id, range);
                self.nodes.get_mut(part).kind = kind;
            }
            from = region.range.end;
            if from >= range.end {
                return;
            }
        }
    }

    /// Keeps all of `range`, which [`Table::all_live`] was true of and for which there is room.
    pub(crate) fn keep_all(&mut self, range: Range) {
        let mut from = range.start;
        while from < range.end
            && let Some(id) = self.nodes.first_in(Range {
                start: from,
                end: range.end,
            })
        {
            from = self.nodes.get(id).range.end;
            let (part, _) = self.carve(id, range);
            self.nodes.get_mut(part).state = State::Dirty;
            self.shelve(part);
        }
    }

    /// Puts one that is on no shelf on that of its state, together with its neighbours of the same
    /// mapping.
    pub(crate) fn shelve(&mut self, id: Id) {
        let mut id = id;
        let region = *self.nodes.get(id);
        if let Some(before) = self.nodes.before(region.range.start)
            && self.nodes.get(before).goes_on_in(&region)
        {
            self.lift(before);
            self.nodes.remove(id);
            self.nodes.get_mut(before).range.end = region.range.end;
            id = before;
        }
        let region = *self.nodes.get(id);
        if let Some(after) = self.nodes.from(region.range.end)
            && region.goes_on_in(self.nodes.get(after))
        {
            self.lift(after);
            let end = self.nodes.get(after).range.end;
            self.nodes.remove(after);
            self.nodes.get_mut(id).range.end = end;
        }
        self.lay(id);
    }

    /// Something kept that can be `len` bytes of this kind, as the program's own from now on: where it is, and what
    /// state it was in. With what is in memory first. Where `at` is not 0, only what is kept just there, or else
    /// anything at a multiple of `hint`, if that is not 0.
    pub(crate) fn serve(
        &mut self,
        len: usize,
        kind: Kind,
        at: usize,
        hint: usize,
    ) -> Option<(Range, State)> {
        if !self.nodes.has_room(2) {
            return None;
        }
        let (id, range) = match (at, hint) {
            (0, _) => self.aligned(len, kind, PAGE),
            (_, 0) => self.just_at(len, kind, at),
            _ => self
                .just_at(len, kind, at)
                .or_else(|| self.aligned(len, kind, hint)),
        }?;
        let state = self.nodes.get(id).state;
        let (part, _) = self.carve(id, range);
        self.nodes.get_mut(part).state = State::Live;
        Some((range, state))
    }

    fn aligned(&self, len: usize, kind: Kind, align: usize) -> Option<(Id, Range)> {
        let dirty = self.dirty.find(&self.nodes, len, kind, align);
        let id = dirty.or_else(|| self.clean.find(&self.nodes, len, kind, align))?;
        Some((id, self.nodes.get(id).range.aligned(len, align)?))
    }

    fn just_at(&self, len: usize, kind: Kind, start: usize) -> Option<(Id, Range)> {
        let end = start + len;
        let id = self.nodes.first_in(Range { start, end })?;
        let region = self.nodes.get(id);
        let range = Range { start, end };
        let fits = region.kind == kind
            && matches!(region.state, State::Dirty | State::Clean)
            && region.range.and(range) == Some(range);
        fits.then_some((id, range))
    }

    /// The region that has been in this state for longest, if there are more than so many bytes of those;
    /// of those without memory, also if there are more than so many.
    pub(crate) fn oldest(&self, state: State, bytes: usize, count: usize) -> Option<Id> {
        let (shelf, crowded) = match state {
            State::Dirty => (&self.dirty, false),
            _ => (&self.clean, self.clean.count > count),
        };
        shelf.oldest().filter(|_| crowded || shelf.bytes > bytes)
    }

    /// Of a region in memory that is larger than what is wanted of it, its end, as the newest; the rest stays as
    /// old as it is. All of it where the rest would be less than a quarter: a small one serves few mappings.
    /// Huge pages are not cut: the memory of one that is cut stays until the kernel has split it
    /// (Documentation/mm/transhuge.rst, "Partial unmap").
    pub(crate) fn cut_to(&mut self, id: Id, wanted: usize) -> Id {
        let whole = *self.nodes.get(id);
        let range = whole.range;
        if wanted > range.len() / 4 * 3 || !self.nodes.has_room(1) {
            return id;
        }
        let size = if range.len() >= 4 * HUGE { HUGE } else { PAGE };
        let start = (range.end - wanted) & !(size - 1);
        if start <= range.start {
            return id;
        }
        self.dirty.shorten(&mut self.nodes, id, start - range.start);
        let end = Region {
            range: Range {
                start,
                end: range.end,
            },
            ..whole
        };
        // There was room for one.
        match self.nodes.insert(end) {
            Some(end) => {
                self.lay(end);
                end
            }
            None => id,
        }
    }

    /// Takes a kept region off its shelf: it leaves.
    pub(crate) fn leave(&mut self, id: Id) -> Range {
        self.lift(id);
        let region = self.nodes.get_mut(id);
        region.state = State::Leaving;
        let range = region.range;
        self.leaving += range.len();
        range
    }

    /// It has left: it is kept in this state.
    pub(crate) fn has_left(&mut self, id: Id, state: State) {
        let region = self.nodes.get_mut(id);
        let was = region.state;
        region.state = state;
        self.leaving -= region.range.len();
        if was == State::Lost {
            self.nodes.remove(id);
        } else {
            self.shelve(id);
        }
    }

    /// Whoever let regions leave is gone (fork(2)): they are kept.
    pub(crate) fn stay(&mut self) {
        let mut from = 0;
        while let Some(id) = self.nodes.from(from) {
            let region = *self.nodes.get(id);
            from = region.range.end;
            if matches!(region.state, State::Leaving | State::Lost) {
                self.has_left(id, State::Dirty);
            }
        }
    }

    /// Takes the part of a kept region that lies in `range` from the table, for this thread to unmap.
    /// None if too many threads are at that.
    pub(crate) fn go(&mut self, id: Id, range: Range, thread: usize) -> Option<(Place, Range)> {
        let place = self.going.free()?;
        // Without room for the rests they would be lost: all of it goes then.
        let part = if self.nodes.has_room(2) {
            range
        } else {
            self.nodes.get(id).range
        };
        let (part, _) = self.carve(id, part);
        let region = *self.nodes.get(part);
        self.nodes.remove(part);
        self.going.put(place, region, thread);
        Some((place, region.range))
    }

    /// It is unmapped, or it could not be: then it is kept as before.
    pub(crate) fn gone(&mut self, place: Place, unmapped: bool) {
        let region = self.going.take(place);
        if let Some(region) = region
            && !unmapped
            && let Some(id) = self.nodes.insert(region)
        {
            self.shelve(id);
        }
    }
}
