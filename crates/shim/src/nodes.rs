//! Regions by address, in a tree, in memory that is there from the start.
//!
//! A treap: ordered by address, and a heap by a hash of the address, so that its expected depth is
//! logarithmic without any balancing. Nothing recurses, so a small signal stack is enough.

use crate::Range;
use crate::region::Region;

/// A place in the array; 0 is none.
pub(crate) type NodeId = u32;
pub(crate) const NO_NODE: NodeId = 0;

/// One place of the array, free or with a region.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Node {
    pub(crate) region: Region,
    left: NodeId,
    right: NodeId,
    /// Neighbours in a list of regions of its size, and in one by age.
    pub(crate) links: [Link; 2],
}

/// Neighbours in a list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    pub(crate) before: NodeId,
    pub(crate) after: NodeId,
}

impl Node {
    /// An empty place, whose memory is all zeros but for the enumeration, which is zero too.
    pub const EMPTY: Node = Node {
        region: Region::UNKNOWN_LIVE,
        left: NO_NODE,
        right: NO_NODE,
        links: [Link {
            before: NO_NODE,
            after: NO_NODE,
        }; 2],
    };
}

/// All regions that are known, in order.
pub(crate) struct Nodes {
    all: &'static mut [Node],
    root: NodeId,
    /// Those that were used and are free again, linked by `left`.
    free: NodeId,
    /// The first that was never used.
    fresh: NodeId,
}

/// Where a link to a node is kept.
#[derive(Clone, Copy)]
enum LinkSlot {
    Root,
    Left(NodeId),
    Right(NodeId),
}

/// The place in the heap: a hash of the address (the finalizer of SplitMix64), the same whenever asked.
fn heap_rank(start: usize) -> u64 {
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
            root: NO_NODE,
            free: NO_NODE,
            fresh: 1,
        }
    }

    pub(crate) fn get(&self, id: NodeId) -> &Region {
        &self.all[id as usize].region
    }

    /// To change its state or kind. Its range is changed by [`Nodes::cut_to_part`].
    pub(crate) fn get_mut(&mut self, id: NodeId) -> &mut Region {
        &mut self.all[id as usize].region
    }

    pub(crate) fn link(&self, id: NodeId, list: usize) -> Link {
        self.all[id as usize].links[list]
    }

    pub(crate) fn link_mut(&mut self, id: NodeId, list: usize) -> &mut Link {
        &mut self.all[id as usize].links[list]
    }

    fn start_of(&self, id: NodeId) -> usize {
        self.get(id).range.start
    }

    fn id_at(&self, slot: LinkSlot) -> NodeId {
        match slot {
            LinkSlot::Root => self.root,
            LinkSlot::Left(id) => self.all[id as usize].left,
            LinkSlot::Right(id) => self.all[id as usize].right,
        }
    }

    fn set_id(&mut self, slot: LinkSlot, id: NodeId) {
        match slot {
            LinkSlot::Root => self.root = id,
            LinkSlot::Left(of) => self.all[of as usize].left = id,
            LinkSlot::Right(of) => self.all[of as usize].right = id,
        }
    }

    /// Whether there is room for so many more. Looks at no more than so many free places.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        let mut left = self.all.len().saturating_sub(self.fresh as usize);
        let mut id = self.free;
        while left < more && id != NO_NODE {
            left += 1;
            id = self.all[id as usize].left;
        }
        left >= more
    }

    fn take_free(&mut self) -> Option<NodeId> {
        let id = self.free;
        if id != NO_NODE {
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
    pub(crate) fn insert(&mut self, region: Region) -> Option<NodeId> {
        let id = self.take_free()?;
        self.all[id as usize] = Node {
            region,
            ..Node::EMPTY
        };
        let start = region.range.start;
        let mine = heap_rank(start);
        let mut slot = LinkSlot::Root;
        let below = loop {
            let here = self.id_at(slot);
            if here == NO_NODE || heap_rank(self.start_of(here)) < mine {
                break here;
            }
            slot = if start < self.start_of(here) {
                LinkSlot::Left(here)
            } else {
                LinkSlot::Right(here)
            };
        };
        self.set_id(slot, id);
        // The former child goes to both sides of the new node.
        let (mut low, mut high) = (LinkSlot::Left(id), LinkSlot::Right(id));
        let mut here = below;
        while here != NO_NODE {
            if self.start_of(here) < start {
                self.set_id(low, here);
                low = LinkSlot::Right(here);
                here = self.id_at(low);
            } else {
                self.set_id(high, here);
                high = LinkSlot::Left(here);
                here = self.id_at(high);
            }
        }
        self.set_id(low, NO_NODE);
        self.set_id(high, NO_NODE);
        Some(id)
    }

    /// Forgets a region. It must be in no list.
    pub(crate) fn remove(&mut self, id: NodeId) {
        let start = self.start_of(id);
        let mut slot = LinkSlot::Root;
        loop {
            let here = self.id_at(slot);
            if here == id || here == NO_NODE {
                break;
            }
            slot = if start < self.start_of(here) {
                LinkSlot::Left(here)
            } else {
                LinkSlot::Right(here)
            };
        }
        debug_assert!(self.id_at(slot) == id, "a region is where it is looked for");
        let node = self.all[id as usize];
        let (mut left, mut right) = (node.left, node.right);
        loop {
            if left == NO_NODE || right == NO_NODE {
                self.set_id(slot, if left == NO_NODE { right } else { left });
                break;
            }
            if heap_rank(self.start_of(left)) > heap_rank(self.start_of(right)) {
                self.set_id(slot, left);
                slot = LinkSlot::Right(left);
                left = self.id_at(slot);
            } else {
                self.set_id(slot, right);
                slot = LinkSlot::Left(right);
                right = self.id_at(slot);
            }
        }
        self.all[id as usize].left = self.free;
        self.free = id;
    }

    /// The region with the lowest address that reaches beyond `addr`.
    pub(crate) fn first_ending_after(&self, addr: usize) -> Option<NodeId> {
        let (mut best, mut here) = (NO_NODE, self.root);
        while here != NO_NODE {
            if self.get(here).range.end > addr {
                best = here;
                here = self.all[here as usize].left;
            } else {
                here = self.all[here as usize].right;
            }
        }
        (best != NO_NODE).then_some(best)
    }

    /// The first region that has something of `range`.
    pub(crate) fn first_in(&self, range: Range) -> Option<NodeId> {
        self.first_ending_after(range.start)
            .filter(|id| self.start_of(*id) < range.end)
    }

    /// The last region that begins below `addr`, wherever it ends: it may end before, there or beyond.
    pub(crate) fn last_starting_before(&self, addr: usize) -> Option<NodeId> {
        let (mut best, mut here) = (NO_NODE, self.root);
        while here != NO_NODE {
            if self.start_of(here) < addr {
                best = here;
                here = self.all[here as usize].right;
            } else {
                here = self.all[here as usize].left;
            }
        }
        (best != NO_NODE).then_some(best)
    }

    /// Makes the region this part of it. The region must be in no list. Its node stays the same, which is returned: where the part
    /// begins elsewhere the region leaves the tree and comes back into the place that it has just left.
    pub(crate) fn cut_to_part(&mut self, id: NodeId, part: Range) -> NodeId {
        let mut region = *self.get(id);
        if region.range.start == part.start {
            self.get_mut(id).range = part;
            return id;
        }
        // The address is its place in the tree.
        region.range = part;
        self.remove(id);
        // The place that was just freed.
        self.insert(region).unwrap_or(NO_NODE)
    }

    /// How many there are, counted one by one.
    #[cfg(test)]
    pub(crate) fn count_nodes(&self) -> usize {
        let mut count = 0;
        let mut at = self.first_ending_after(0);
        while let Some(id) = at {
            count += 1;
            at = self.first_ending_after(self.get(id).range.end);
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
        let ids: Vec<NodeId> = (1..4)
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
            let mut model: BTreeMap<usize, (usize, NodeId)> = BTreeMap::new();
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
                        let id = nodes.cut_to_part(id, Range { start: start + 4, end });
                        model.remove(&start);
                        model.insert(start + 4, (end, id));
                    }
                    _ => {}
                }
                prop_assert_eq!(nodes.count_nodes(), model.len());
                for at in 0..620 {
                    let expected = model.iter().find(|(_, (end, _))| *end > at).map(|(s, _)| *s);
                    prop_assert_eq!(nodes.first_ending_after(at).map(|id| nodes.start_of(id)), expected);
                    let below = model.range(..at).next_back().map(|(s, _)| *s);
                    prop_assert_eq!(nodes.last_starting_before(at).map(|id| nodes.start_of(id)), below);
                }
            }
        }
    }
}
