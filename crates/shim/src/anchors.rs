//! The list of the library's own pages that show what kind of mapping they are in (see `proof`).

use core::sync::atomic::{AtomicU64, Ordering};

use crate::{PAGE, Range};

/// So many at once: each is a page in memory, and perhaps a mapping.
const MAX_ANCHORS: usize = 512;

/// So many mappings are known to have no room beside them.
const WEDGED_PLACES: usize = 64;
/// To look for room takes the kernel's lock of all mappings, for which other threads wait: so many times it is left out.
const SKIPPED_LOOKS: u8 = 64;

/// The first bytes of all anchors, in no order.
pub(crate) struct Anchors {
    starts: [usize; MAX_ANCHORS],
    count: usize,
    /// By their begins; a later one takes the place of an earlier.
    wedged: [WedgedMapping; WEDGED_PLACES],
}

/// A mapping with others on both sides.
#[derive(Clone, Copy)]
struct WedgedMapping {
    mapping: Range,
    /// So many more times it is taken for a wedged one.
    left: u8,
}

/// Where there may be an anchor, for whoever does not hold the lock: a bit for each page that one was ever put at, by the hash of its
/// number. A bit stays set, so in a program whose mappings move for long there may be one anywhere, and whoever asks takes the lock.
pub(crate) struct AnchorFilter([AtomicU64; FILTER_WORDS]);

/// Of 64 bits each: with as many anchors as there can be at once, one bit in sixteen is set.
const FILTER_WORDS: usize = 128;

impl Default for AnchorFilter {
    fn default() -> Self {
        AnchorFilter(core::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl AnchorFilter {
    fn bit_of(&self, page: usize) -> (&AtomicU64, u64) {
        let hash = hash_of(page) >> 51;
        (&self.0[hash as usize / 64], 1 << (hash % 64))
    }

    /// Before the table knows of it.
    pub(crate) fn add(&self, page: usize) {
        let (word, bit) = self.bit_of(page);
        word.fetch_or(bit, Ordering::SeqCst);
    }

    /// Whether there may be one in a range.
    pub(crate) fn may_have_any_in(&self, range: Range) -> bool {
        (range.start..range.end).step_by(PAGE).any(|page| {
            let (word, bit) = self.bit_of(page);
            word.load(Ordering::SeqCst) & bit != 0
        })
    }
}

impl Anchors {
    pub(crate) const EMPTY: Anchors = Anchors {
        starts: [0; MAX_ANCHORS],
        count: 0,
        wedged: [WedgedMapping {
            mapping: Range { start: 0, end: 0 },
            left: 0,
        }; WEDGED_PLACES],
    };

    /// There was no room beside a mapping.
    pub(crate) fn note_wedged(&mut self, mapping: Range) {
        self.wedged[place_of(mapping)] = WedgedMapping {
            mapping,
            left: SKIPPED_LOOKS,
        };
    }

    /// Whether there was no room beside just this mapping a while ago.
    pub(crate) fn is_wedged(&mut self, mapping: Range) -> bool {
        let known = &mut self.wedged[place_of(mapping)];
        let is = known.mapping == mapping && known.left > 0;
        known.left -= u8::from(is);
        is
    }

    /// Whether a range lies in a mapping that had no room beside it a while ago, as far as is known without asking the kernel
    /// which mapping that is now.
    pub(crate) fn is_in_wedged(&mut self, range: Range) -> bool {
        let is_around = |known: &WedgedMapping| {
            known.left > 0 && known.mapping.intersection(range) == Some(range)
        };
        let Some(at) = self.wedged.iter().position(is_around) else {
            return false;
        };
        // An anchor has been put there since.
        if self.any_in(self.wedged[at].mapping).is_some() {
            self.wedged[at].left = 0;
            return false;
        }
        self.wedged[at].left -= 1;
        true
    }

    pub(crate) fn are_full(&self) -> bool {
        self.count == MAX_ANCHORS
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
        Some(Range::page_at(start))
    }

    /// The first bytes of all anchors.
    pub(crate) fn all_starts(&self) -> &[usize] {
        &self.starts[..self.count]
    }
}

fn place_of(mapping: Range) -> usize {
    (hash_of(mapping.start) >> 58) as usize
}

/// Of the page at an address. Its high bits are to be used: they are those of a product that all bits of the factor move.
fn hash_of(page: usize) -> u64 {
    ((page / PAGE) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that where an anchor was put there may be one for ever, and that of other pages hardly any is taken for one.
    #[test]
    fn anchored() {
        let anchored = AnchorFilter::default();
        let page = |n: usize| Range {
            start: n * PAGE,
            end: (n + 1) * PAGE,
        };
        for n in 0..MAX_ANCHORS {
            anchored.add(n * n * 7 * PAGE);
        }
        assert!((0..MAX_ANCHORS).all(|n| anchored.may_have_any_in(page(n * n * 7))));
        assert!(anchored.may_have_any_in(Range {
            start: 0,
            end: 9 * PAGE
        }));
        let wrong = (1 << 30..(1 << 30) + 1000).filter(|n| anchored.may_have_any_in(page(*n)));
        assert!(wrong.count() < 150);
    }

    /// Check that a mapping without room is known so many times, and another one or a changed one is not.
    #[test]
    fn wedged() {
        let mut anchors = Anchors::EMPTY;
        let range = |start, end| Range { start, end };
        let one = range(PAGE, 5 * PAGE);
        assert!(!anchors.is_wedged(one));
        anchors.note_wedged(one);
        for other in [range(PAGE, 6 * PAGE), range(0, 5 * PAGE)] {
            assert!(!anchors.is_wedged(other));
        }
        let times = (0..1000).filter(|_| anchors.is_wedged(one)).count();
        assert_eq!(times, usize::from(SKIPPED_LOOKS));
        anchors.note_wedged(one);
        let part = range(2 * PAGE, 5 * PAGE);
        for other in [range(0, 2 * PAGE), range(2 * PAGE, 6 * PAGE)] {
            assert!(!anchors.is_in_wedged(other));
        }
        let times = (0..1000).filter(|_| anchors.is_in_wedged(part)).count();
        assert_eq!(times, usize::from(SKIPPED_LOOKS));
        anchors.note_wedged(one);
        assert!(anchors.is_in_wedged(part));
        anchors.add(4 * PAGE);
        assert!(!anchors.is_in_wedged(part));
        anchors.remove(4 * PAGE);
        for n in 0..10_000 {
            assert!(place_of(range(n * PAGE, n * PAGE + PAGE)) < WEDGED_PLACES);
        }
    }

    /// Check that what is added is found in its range and nowhere else, until it is removed, and that no more are added
    /// than there is room for.
    #[test]
    fn finds() {
        let mut anchors = Anchors::EMPTY;
        let range = |start, end| Range { start, end };
        for n in 0..MAX_ANCHORS + 1 {
            assert_eq!(anchors.are_full(), n >= MAX_ANCHORS);
            anchors.add(n * 10 * PAGE);
        }
        assert_eq!(anchors.count(), MAX_ANCHORS);
        let page = anchors.page_in(range(45 * PAGE, 55 * PAGE));
        assert_eq!(page, Some(range(50 * PAGE, 51 * PAGE)));
        anchors.remove(50 * PAGE);
        anchors.remove(50 * PAGE);
        assert_eq!(anchors.page_in(range(45 * PAGE, 55 * PAGE)), None);
        assert_eq!(anchors.count(), MAX_ANCHORS - 1);
        while let Some(start) = anchors.all_starts().first().copied() {
            anchors.remove(start);
        }
        assert_eq!(anchors.any_in(range(0, usize::MAX)), None);
    }
}
