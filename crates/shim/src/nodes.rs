//! Regions by address, in a tree, in memory that is there from the start.
//!
//! A treap: ordered by address, and a heap by a hash of the address, so that its expected depth is
//! logarithmic without any balancing. Nothing recurses, so a small signal stack is enough.

use crate::Range;
use crate::region::Region;

/// A place in the array; 0 is none.
pub(crate) type Id = u32;
pub(crate) const NONE: Id = 0;

/// One place.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Node {
    pub(crate) region: Region,
    left: Id,
    right: Id,
    /// Neighbours in a list of regions of its size, and in one by age.
    pub(crate) links: [Link; 2],
}

/// Neighbours in a list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    pub(crate) before: Id,
    pub(crate) after: Id,
}

impl Node {
    /// An empty place, whose memory is all zeros but for the enumeration, which is zero too.
    pub const EMPTY: Node = Node {
        region: Region::NEW,
        left: NONE,
        right: NONE,
        links: [Link {
            before: NONE,
            after: NONE,
        }; 2],
    };
}

/// All regions that are known, in order.
pub(crate) struct Nodes {
    all: &'static mut [Node],
    root: Id,
    /// Those that were used and are free again, linked by `left`.
    free: Id,
    /// The first that was never used.
    fresh: Id,
}

/// Where a link to a node is kept.
#[derive(Clone, Copy)]
enum Slot {
    Root,
    Left(Id),
    Right(Id),
}

/// The place in the heap: a hash of the address (the finalizer of SplitMix64), the same whenever asked.
fn rank(start: usize) -> u64 {
    let mut x = (start as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Nodes {
    /// Takes the first place for the one that means none.
    pub(crate) fn new(all: &'static mut [Node]) -> Self {
        Nodes {
            all,
            root: NONE,
            free: NONE,
            fresh: 1,
        }
    }

    pub(crate) fn get(&self, id: Id) -> &Region {
        &self.all[id as usize].region
    }

    /// To change its state or kind. Its range is changed by [`Nodes::cut`].
    pub(crate) fn get_mut(&mut self, id: Id) -> &mut Region {
        &mut self.all[id as usize].region
    }

    pub(crate) fn link(&self, id: Id, list: usize) -> Link {
        self.all[id as usize].links[list]
    }

    pub(crate) fn link_mut(&mut self, id: Id, list: usize) -> &mut Link {
        &mut self.all[id as usize].links[list]
    }

    fn start(&self, id: Id) -> usize {
        self.get(id).range.start
    }

    fn at(&self, slot: Slot) -> Id {
        match slot {
            Slot::Root => self.root,
            Slot::Left(id) => self.all[id as usize].left,
            Slot::Right(id) => self.all[id as usize].right,
        }
    }

    fn put(&mut self, slot: Slot, id: Id) {
        match slot {
            Slot::Root => self.root = id,
            Slot::Left(of) => self.all[of as usize].left = id,
            Slot::Right(of) => self.all[of as usize].right = id,
        }
    }

    /// Whether there is room for so many more.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        let mut left = self.all.len().saturating_sub(self.fresh as usize);
        let mut id = self.free;
        while left < more && id != NONE {
            left += 1;
            id = self.all[id as usize].left;
        }
        left >= more
    }

    fn take_free(&mut self) -> Option<Id> {
        let id = self.free;
        if id != NONE {
            self.free = self.all[id as usize].left;
            return Some(id);
        }
        let id = self.fresh;
        if id as usize >= self.all.len() {
            return None;
        }
        self.fresh += 1;
        Some(id)
    }

    /// Adds a region that overlaps no other; none if there is no room.
    pub(crate) fn insert(&mut self, region: Region) -> Option<Id> {
        let id = self.take_free()?;
        self.all[id as usize] = Node {
            region,
            ..Node::EMPTY
        };
        let start = region.range.start;
        let mine = rank(start);
        let mut slot = Slot::Root;
        let below = loop {
            let here = self.at(slot);
            if here == NONE || rank(self.start(here)) < mine {
                break here;
            }
            slot = if start < self.start(here) {
                Slot::Left(here)
            } else {
                Slot::Right(here)
            };
        };
        self.put(slot, id);
        // What was there goes to both sides of the new node.
        let (mut low, mut high) = (Slot::Left(id), Slot::Right(id));
        let mut here = below;
        while here != NONE {
            if self.start(here) < start {
                self.put(low, here);
                low = Slot::Right(here);
                here = self.at(low);
            } else {
                self.put(high, here);
                high = Slot::Left(here);
                here = self.at(high);
            }
        }
        self.put(low, NONE);
        self.put(high, NONE);
        Some(id)
    }

    /// Forgets a region. It must be in no list.
    pub(crate) fn remove(&mut self, id: Id) {
        let start = self.start(id);
        let mut slot = Slot::Root;
        loop {
            let here = self.at(slot);
            if here == id || here == NONE {
                break;
            }
            slot = if start < self.start(here) {
                Slot::Left(here)
            } else {
                Slot::Right(here)
            };
        }
        debug_assert!(self.at(slot) == id, "a region is where it is looked for");
        let node = self.all[id as usize];
        let (mut left, mut right) = (node.left, node.right);
        loop {
            if left == NONE || right == NONE {
                self.put(slot, if left == NONE { right } else { left });
                break;
            }
            if rank(self.start(left)) > rank(self.start(right)) {
                self.put(slot, left);
                slot = Slot::Right(left);
                left = self.at(slot);
            } else {
                self.put(slot, right);
                slot = Slot::Left(right);
                right = self.at(slot);
            }
        }
        self.all[id as usize].left = self.free;
        self.free = id;
    }

    /// The region with the lowest address that reaches beyond `addr`.
    pub(crate) fn from(&self, addr: usize) -> Option<Id> {
        let (mut best, mut here) = (NONE, self.root);
        while here != NONE {
            if self.get(here).range.end > addr {
                best = here;
                here = self.all[here as usize].left;
            } else {
                here = self.all[here as usize].right;
            }
        }
        (best != NONE).then_some(best)
    }

    /// The first region that has something of `range`.
    pub(crate) fn first_in(&self, range: Range) -> Option<Id> {
        self.from(range.start)
            .filter(|id| self.start(*id) < range.end)
    }

    /// The region that ends where `addr` is, or reaches beyond it from below.
    pub(crate) fn before(&self, addr: usize) -> Option<Id> {
        let (mut best, mut here) = (NONE, self.root);
        while here != NONE {
            if self.start(here) < addr {
                best = here;
                here = self.all[here as usize].right;
            } else {
                here = self.all[here as usize].left;
            }
        }
        (best != NONE).then_some(best)
    }

    /// Makes the region the part of it from `start` to `end`. The region must be in no list.
    pub(crate) fn cut(&mut self, id: Id, part: Range) -> Id {
        let mut region = *self.get(id);
        if region.range.start == part.start {
            self.get_mut(id).range = part;
            return id;
        }
        // The address is its place in the tree.
        region.range = part;
        self.remove(id);
        // The place that was just freed.
        self.insert(region).unwrap_or(NONE)
    }

    /// How many there are, counted one by one.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        let mut count = 0;
        let mut at = self.from(0);
        while let Some(id) = at {
            count += 1;
            at = self.from(self.get(id).range.end);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn region(start: usize, end: usize) -> Region {
        Region {
            range: Range { start, end },
            ..Node::EMPTY.region
        }
    }

    pub(crate) fn nodes(count: usize) -> Nodes {
        Nodes::new(Box::leak(vec![Node::EMPTY; count].into_boxed_slice()))
    }

    /// Check that what does not fit is refused, and that places are used again.
    #[test]
    fn room() {
        let mut nodes = nodes(4);
        let ids: Vec<Id> = (1..4)
            .map(|n| nodes.insert(region(n * 10, n * 10 + 5)).unwrap())
            .collect();
        assert!(nodes.insert(region(50, 60)).is_none() && !nodes.has_room(1));
        nodes.remove(ids[1]);
        assert!(nodes.has_room(1) && !nodes.has_room(2));
        assert!(nodes.insert(region(50, 60)).is_some());
    }

    proptest! {
        /// Check any sequence of insertions, cuts and removals against a map of the standard library.
        #[test]
        fn as_a_map(steps in proptest::collection::vec((0..3u8, 0..60usize), 0..200)) {
            let mut nodes = nodes(64);
            let mut model: BTreeMap<usize, (usize, Id)> = BTreeMap::new();
            for (what, n) in steps {
                let start = n * 10;
                match (what, model.get(&start).copied()) {
                    (0, None) if !model.contains_key(&(start + 4)) => {
                        let id = nodes.insert(region(start, start + 8)).unwrap();
                        model.insert(start, (start + 8, id));
                    }
                    (1, Some((_, id))) => {
                        nodes.remove(id);
                        model.remove(&start);
                    }
                    (2, Some((end, id))) if end > start + 4 => {
                        let id = nodes.cut(id, Range { start: start + 4, end });
                        model.remove(&start);
                        model.insert(start + 4, (end, id));
                    }
                    _ => {}
                }
                prop_assert_eq!(nodes.count(), model.len());
                for at in 0..620 {
                    let expected = model.iter().find(|(_, (end, _))| *end > at).map(|(s, _)| *s);
                    prop_assert_eq!(nodes.from(at).map(|id| nodes.start(id)), expected);
                    let below = model.range(..at).next_back().map(|(s, _)| *s);
                    prop_assert_eq!(nodes.before(at).map(|id| nodes.start(id)), below);
                }
            }
        }
    }
}
