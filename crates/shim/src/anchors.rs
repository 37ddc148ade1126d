//! Where the library's own pages are that show what kind of mapping they are in (see `proof`).

use crate::{PAGE, Range};

/// So many at once: each is a page in memory, and perhaps a mapping.
const ANCHORS: usize = 512;

/// The first bytes of all anchors, in no order.
pub(crate) struct Anchors {
    starts: [usize; ANCHORS],
    count: usize,
}

impl Anchors {
    pub(crate) const NONE: Anchors = Anchors {
        starts: [0; ANCHORS],
        count: 0,
    };

    pub(crate) fn are_full(&self) -> bool {
        self.count == ANCHORS
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Adds one; there is room.
    pub(crate) fn add(&mut self, start: usize) {
        if let Some(place) = self.starts.get_mut(self.count) {
            *place = start;
            self.count += 1;
        }
    }

    pub(crate) fn remove(&mut self, start: usize) {
        let all = &mut self.starts[..self.count];
        if let Some(at) = all.iter().position(|s| *s == start) {
            all.swap(at, self.count - 1);
            self.count -= 1;
        }
    }

    /// Any of them that lies in a range, or begins there.
    pub(crate) fn any_in(&self, range: Range) -> Option<usize> {
        let mut all = self.starts[..self.count].iter().copied();
        all.find(|start| (range.start..range.end).contains(start))
    }

    /// The page of one that lies whole in a range.
    pub(crate) fn page_in(&self, range: Range) -> Option<Range> {
        let start = self.any_in(range)?;
        Some(Range {
            start,
            end: start + PAGE,
        })
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[usize] {
        &self.starts[..self.count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that what is added is found in its range and nowhere else, until it is removed, and that no more are added
    /// than there is room for.
    #[test]
    fn finds() {
        let mut anchors = Anchors::NONE;
        let range = |start, end| Range { start, end };
        for n in 0..ANCHORS + 1 {
            assert_eq!(anchors.are_full(), n >= ANCHORS);
            anchors.add(n * 10 * PAGE);
        }
        assert_eq!(anchors.count(), ANCHORS);
        let page = anchors.page_in(range(45 * PAGE, 55 * PAGE));
        assert_eq!(page, Some(range(50 * PAGE, 51 * PAGE)));
        anchors.remove(50 * PAGE);
        anchors.remove(50 * PAGE);
        assert_eq!(anchors.page_in(range(45 * PAGE, 55 * PAGE)), None);
        assert_eq!(anchors.count(), ANCHORS - 1);
        while let Some(start) = anchors.all().first().copied() {
            anchors.remove(start);
        }
        assert_eq!(anchors.any_in(range(0, usize::MAX)), None);
    }
}
