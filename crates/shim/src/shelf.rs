//! Regions that wait for a later mapping: by size, to find one, and by age, to let the oldest go.

use crate::habit::{SIZE_CLASSES, size_class};
use crate::nodes::{Link, NO_NODE, NodeId, Nodes};
use crate::region::Region;

/// The lists in a node.
const BY_SIZE: usize = 0;
const BY_AGE: usize = 1;
/// How many of one class are looked at: enough in practice, and a bound to how long the lock is held.
const MAX_LOOKED_AT: usize = 16;

/// Regions in one state.
pub(crate) struct Shelf {
    /// The lists of regions that are not offered, and of those that are.
    by_size: [[NodeId; SIZE_CLASSES]; 2],
    /// A bit for each class that has one of either.
    filled: [u64; SIZE_CLASSES.div_ceil(64)],
    oldest: NodeId,
    newest: NodeId,
    /// The oldest that is not offered to the kernel: all before it are, and none after.
    firm: NodeId,
    /// The sum of their lengths.
    pub(crate) bytes: usize,
    /// The same of those that are not offered.
    pub(crate) firm_bytes: usize,
    /// How many.
    pub(crate) count: usize,
}

impl Shelf {
    pub(crate) const EMPTY: Shelf = Shelf {
        by_size: [[NO_NODE; SIZE_CLASSES]; 2],
        filled: [0; SIZE_CLASSES.div_ceil(64)],
        oldest: NO_NODE,
        newest: NO_NODE,
        firm: NO_NODE,
        bytes: 0,
        firm_bytes: 0,
        count: 0,
    };

    /// Adds one that is on no shelf, as the newest; one that is offered as the newest of those that are.
    pub(crate) fn add(&mut self, nodes: &mut Nodes, id: NodeId) {
        self.add_by_size(nodes, id);
        let after = if nodes.get(id).offered {
            self.firm
        } else {
            NO_NODE
        };
        let before = match after {
            NO_NODE => self.newest,
            after => nodes.link(after, BY_AGE).before,
        };
        *nodes.link_mut(id, BY_AGE) = Link { before, after };
        match before {
            NO_NODE => self.oldest = id,
            before => nodes.link_mut(before, BY_AGE).after = id,
        }
        match after {
            NO_NODE => self.newest = id,
            after => nodes.link_mut(after, BY_AGE).before = id,
        }
        if self.firm == NO_NODE && !nodes.get(id).offered {
            self.firm = id;
        }
        self.count += 1;
    }

    /// Makes one on this shelf so long. It stays as old as it is.
    pub(crate) fn shorten_to(&mut self, nodes: &mut Nodes, id: NodeId, len: usize) {
        self.remove_by_size(nodes, id);
        let range = &mut nodes.get_mut(id).range;
        range.end = range.start + len;
        self.add_by_size(nodes, id);
    }

    fn add_by_size(&mut self, nodes: &mut Nodes, id: NodeId) {
        let (len, offered) = (nodes.get(id).range.len(), nodes.get(id).offered);
        let class = size_class(len);
        let first = &mut self.by_size[usize::from(offered)][class];
        let after = core::mem::replace(first, id);
        *nodes.link_mut(id, BY_SIZE) = Link {
            before: NO_NODE,
            after,
        };
        if after != NO_NODE {
            nodes.link_mut(after, BY_SIZE).before = id;
        }
        self.filled[class / 64] |= 1 << (class % 64);
        self.bytes += len;
        if !offered {
            self.firm_bytes += len;
        }
    }

    fn remove_by_size(&mut self, nodes: &mut Nodes, id: NodeId) {
        let (len, offered) = (nodes.get(id).range.len(), nodes.get(id).offered);
        let class = size_class(len);
        let Link { before, after } = nodes.link(id, BY_SIZE);
        if before == NO_NODE {
            self.by_size[usize::from(offered)][class] = after;
            if self.by_size.iter().all(|first| first[class] == NO_NODE) {
                self.filled[class / 64] &= !(1 << (class % 64));
            }
        } else {
            nodes.link_mut(before, BY_SIZE).after = after;
        }
        if after != NO_NODE {
            nodes.link_mut(after, BY_SIZE).before = before;
        }
        self.bytes -= len;
        if !offered {
            self.firm_bytes -= len;
        }
    }

    /// Takes one from this shelf.
    pub(crate) fn remove(&mut self, nodes: &mut Nodes, id: NodeId) {
        self.remove_by_size(nodes, id);
        let Link { before, after } = nodes.link(id, BY_AGE);
        if before == NO_NODE {
            self.oldest = after;
        } else {
            nodes.link_mut(before, BY_AGE).after = after;
        }
        if after == NO_NODE {
            self.newest = before;
        } else {
            nodes.link_mut(after, BY_AGE).before = before;
        }
        if self.firm == id {
            self.firm = after;
        }
        self.count -= 1;
    }

    /// The one that was added first.
    pub(crate) fn oldest_kept(&self) -> Option<NodeId> {
        (self.oldest != NO_NODE).then_some(self.oldest)
    }

    /// The same of those that are not offered.
    pub(crate) fn oldest_firm(&self) -> Option<NodeId> {
        (self.firm != NO_NODE).then_some(self.firm)
    }

    /// One of this kind that is long enough from a multiple of `align` on, and hardly longer if there is such a one.
    /// Only of those that `may` be taken, and of two of about the same size one that is not offered.
    pub(crate) fn find_fitting(
        &self,
        nodes: &Nodes,
        len: usize,
        align: usize,
        may: impl Fn(&Region) -> bool,
    ) -> Option<NodeId> {
        let mut class = size_class(len);
        while let Some(here) = self.filled_from(class) {
            for first in &self.by_size {
                let (mut id, mut best) = (first[here], NO_NODE);
                for _ in 0..MAX_LOOKED_AT {
                    if id == NO_NODE {
                        break;
                    }
                    let region = nodes.get(id);
                    let fits = may(region) && region.range.first_aligned(len, align).is_some();
                    if fits && (best == NO_NODE || region.range.len() < nodes.get(best).range.len())
                    {
                        best = id;
                        if region.range.len() == len {
                            break;
                        }
                    }
                    id = nodes.link(id, BY_SIZE).after;
                }
                if best != NO_NODE {
                    return Some(best);
                }
            }
            class = here + 1;
        }
        None
    }

    /// The first class from this one on that has a region.
    fn filled_from(&self, class: usize) -> Option<usize> {
        let mut word = class / 64;
        let mut bits = self.filled.get(word)? & (u64::MAX << (class % 64));
        loop {
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            word += 1;
            bits = *self.filled.get(word)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::Node;
    use crate::{PAGE, Range};
    use proptest::prelude::*;

    proptest! {
        /// Check for any additions, removals and changes of length that the oldest is the oldest, that what is offered is older
        /// than what is not, that sums are kept, and that what is found is long enough and there whenever one of a larger class is.
        #[test]
        fn keeps(steps in proptest::collection::vec((0..4u8, 1..300usize), 0..120)) {
            let mut nodes = Nodes::new(Box::leak(vec![Node::EMPTY; 128].into_boxed_slice()));
            let mut shelf = Shelf::EMPTY;
            // Whether it is offered, and how long it is: those that are come first.
            let mut model: Vec<(NodeId, bool, usize)> = Vec::new();
            let mut at = 0;
            for (what, n) in steps {
                if what < 2 {
                    let (start, end) = (at, at + n * PAGE);
                    at = end + PAGE;
                    let offered = n % 3 == 0;
                    let region = Region { range: Range { start, end }, offered, ..Node::EMPTY.region };
                    let id = nodes.insert(region).unwrap();
                    shelf.add(&mut nodes, id);
                    let after = model.iter().position(|m| offered && !m.1).unwrap_or(model.len());
                    model.insert(after, (id, offered, n * PAGE));
                } else if what == 2 && !model.is_empty() {
                    let which = n % model.len();
                    let (id, _, len) = model[which];
                    model[which].2 = (len / 2).next_multiple_of(PAGE);
                    shelf.shorten_to(&mut nodes, id, model[which].2);
                } else if !model.is_empty() {
                    let (id, ..) = model.remove(n % model.len());
                    shelf.remove(&mut nodes, id);
                    nodes.remove(id);
                }
                prop_assert_eq!(shelf.oldest_kept(), model.first().map(|m| m.0));
                prop_assert_eq!(shelf.bytes, model.iter().map(|m| m.2).sum::<usize>());
                let firm = || model.iter().filter(|m| !m.1);
                prop_assert_eq!(shelf.oldest_firm(), firm().next().map(|m| m.0));
                prop_assert_eq!(shelf.firm_bytes, firm().map(|m| m.2).sum::<usize>());
                prop_assert_eq!(shelf.count, model.len());
                let wanted = n * PAGE;
                let found = shelf.find_fitting(&nodes, wanted, PAGE, |_| true);
                if let Some(id) = found {
                    prop_assert!(nodes.get(id).range.len() >= wanted);
                }
                // Each begins at a page of its own: not all at a multiple of more.
                let align = 8 * PAGE;
                if let Some(id) = shelf.find_fitting(&nodes, wanted, align, |_| true) {
                    let range = nodes.get(id).range;
                    prop_assert!(range.start.next_multiple_of(align) + wanted <= range.end);
                }
                let certain = model.iter().any(|m| size_class(m.2) > size_class(wanted));
                prop_assert!(found.is_some() || !certain);
            }
        }
    }
}
