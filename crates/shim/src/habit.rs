//! How the program used memory of each size, and what to expect of the next.
//!
//! To keep memory for later pays where the next owner touches most of it, and costs where not: it is zeroed for nothing.
//! Nobody can ask the next owner, so the last ones are asked: memory is kept only of sizes whose last lifetimes were
//! *dense*, that is, enough of it was in memory and in use (`wipe`). Guesses that were wrong take more lifetimes to be trusted again,
//! but for one among many that were right, and sizes that are used thinly are looked at ever more rarely, so that a program which is
//! thin pays next to nothing for being asked.

use crate::PAGE;

/// Four classes for each power of two, from one page up to 2^47 bytes. Under loom fewer: its threads have small stacks, on which
/// the tables are made.
pub(crate) const SIZE_CLASSES: usize = 4 * if cfg!(loom) { 9 } else { 36 };
/// A thin size is looked at once in 2^8 lifetimes at least.
const MAX_DOUBT: u8 = 9;
/// So many dense lifetimes take one doubt away, whatever was between them. A dense one that is zeroed in place saves its faults,
/// and a thin one that is looked at costs a microsecond or two: where less than a fourth are thin it pays to look.
const DENSE_PER_DOUBT: u8 = 3;
/// So many dense ones that are not counted against a thin one yet make up for one: an allocator that trims its mappings
/// to where they have to begin unmaps some that nobody has used.
const DENSE_PER_THIN: u8 = 8;
const MAX_CREDIT: u8 = 2 * DENSE_PER_THIN;

/// The class of the largest size that is not above `len` (in bytes, one page at least).
pub(crate) fn size_class(len: usize) -> usize {
    let pages = (len / PAGE).max(1);
    let log = pages.ilog2() as usize;
    let quarter = if log >= 2 {
        (pages >> (log - 2)) & 3
    } else {
        // 1; 2 and 3: exact.
        (pages << (2 - log)) & 3
    };
    (log * 4 + quarter).min(SIZE_CLASSES - 1)
}

/// Whether memory of a class is expected to be used: by its own lifetimes, or where nothing speaks against it by those of
/// classes of up to twice and half the size. A program that uses memory of many sizes is known by a few of them.
pub(crate) fn is_trusted(all: &[Habit; SIZE_CLASSES], class: usize, lifetimes: usize) -> bool {
    const TWICE: usize = 4;
    let own = all[class];
    if own.is_trusted(lifetimes) {
        return true;
    }
    let alike = class.saturating_sub(TWICE)..(class + TWICE + 1).min(SIZE_CLASSES);
    let (mut dense, mut returned) = (0, 0);
    for habit in all[alike].iter().filter(|habit| habit.doubt == 0) {
        dense += usize::from(habit.dense);
        returned += usize::from(habit.returned);
    }
    own.doubt == 0 && dense >= lifetimes && returned >= lifetimes
}

/// The habit of one class. All zeros at first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Habit {
    /// Dense lifetimes since the last thin one that was not made up for by `credit`.
    dense: u8,
    /// Grows with each lifetime that was thin, and with each guess that was wrong.
    doubt: u8,
    /// Dense ones that nothing was set off against yet.
    credit: u8,
    /// Lifetimes one after the other of which nothing was in memory at the end.
    empty: u8,
    /// Lifetimes one after the other at whose end the pages in memory were zero: they were not used.
    idle: u8,
    /// Pauses that followed each other closely, and the lifetimes that were looked at since the last.
    pauses: u8,
    since_pause: u8,
    /// Lifetimes that pass before one is looked at again.
    skip: u16,
    /// Lifetimes that ended and that no later one has begun for yet.
    ended: u8,
    /// Lifetimes that began after another had ended.
    returned: u8,
    /// There was no room for an anchor beside memory of this size, so the next mapping brings one with it.
    pub(crate) brings_anchor: bool,
}

impl Habit {
    pub(crate) const UNKNOWN: Habit = Habit {
        dense: 0,
        doubt: 0,
        credit: 0,
        empty: 0,
        idle: 0,
        pauses: 0,
        since_pause: 0,
        skip: 0,
        ended: 0,
        returned: 0,
        brings_anchor: false,
    };

    /// A lifetime begins. Only memory that is asked for again is worth keeping.
    pub(crate) fn note_begin(&mut self) {
        if self.ended > 0 {
            self.ended -= 1;
            self.returned = self.returned.saturating_add(1);
        }
    }

    /// A lifetime ends: whether to look at how it was. Not for so many lifetimes as the last results have put into `skip`.
    pub(crate) fn note_end(&mut self) -> bool {
        self.ended = self.ended.saturating_add(1);
        let looks = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        self.since_pause = self.since_pause.saturating_add(u8::from(looks));
        looks
    }

    /// Whether the next owner is expected to use kept memory, after so many dense lifetimes where nothing is in doubt. Each two
    /// doubts double how many it takes, up to sixteen times.
    pub(crate) fn is_trusted(self, lifetimes: usize) -> bool {
        let enough = lifetimes << (self.doubt / 2).min(4);
        usize::from(self.dense) >= enough && usize::from(self.returned) >= lifetimes
    }

    /// Nothing of it was in memory: that speaks neither for nor against it. But a look takes as long as to give back
    /// memory that is not there, so where that goes on, it is looked at ever more rarely: at every sixteenth at least.
    pub(crate) fn was_empty(&mut self) {
        const FREE: u8 = 6;
        const MOST: u8 = FREE + 4;
        self.empty = (self.empty + 1).min(MOST);
        let over = self.empty.saturating_sub(FREE);
        self.skip = self.skip.max((1 << over) - 1);
    }

    /// The pages in memory were zero already. Whether they may stay once more: a few times it costs next to nothing,
    /// and the next owner may use them again. But pages that are not used then are not worth their memory.
    pub(crate) fn may_stay_idle(&mut self) -> bool {
        const MOST: u8 = 2;
        let stays = self.idle < MOST;
        self.idle = self.idle.saturating_add(1);
        stays
    }

    /// Most of it was used.
    pub(crate) fn was_dense(&mut self) {
        self.empty = 0;
        self.idle = 0;
        self.dense = self.dense.saturating_add(1);
        self.credit = (self.credit + 1).min(MAX_CREDIT);
        if self.doubt > 0 && self.credit >= DENSE_PER_DOUBT {
            self.credit -= DENSE_PER_DOUBT;
            self.doubt -= 1;
        }
    }

    /// Little of it was used.
    pub(crate) fn was_thin(&mut self) {
        self.empty = 0;
        if self.credit >= DENSE_PER_THIN {
            self.credit -= DENSE_PER_THIN;
            return;
        }
        self.dense = 0;
        self.doubt = (self.doubt + 1).min(MAX_DOUBT);
        // The first doubt is none to speak of.
        self.skip = (1 << (self.doubt - 1)) - 1;
    }

    /// The kind of one range of this size could not be shown: another mapping may be beside it for a while. That need
    /// not be so for the next, so pauses grow only where they follow each other.
    pub(crate) fn pause_looks(&mut self) {
        /// Lifetimes that were looked at between two pauses that have nothing to do with each other.
        const CLOSE: u8 = 4;
        /// The longest pause is of 2^4 - 1 lifetimes.
        const MOST: u8 = 4;
        let before = if self.since_pause > CLOSE {
            0
        } else {
            self.pauses
        };
        self.pauses = (before + 1).min(MOST);
        self.since_pause = 0;
        self.skip = self.skip.max((1 << self.pauses) - 1);
    }

    /// Its memory was zeroed, or looked at, for nothing.
    pub(crate) fn was_mistaken(&mut self) {
        self.was_thin();
        self.was_thin();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Check that classes grow with sizes, and that each has no more than a quarter between its ends.
    #[test]
    fn classes() {
        let mut last = 0;
        for pages in 1..100_000 {
            let class = size_class(pages * PAGE);
            assert!(class >= last, "{pages}");
            last = class;
        }
        assert_eq!(size_class(PAGE), 0);
        assert_eq!(size_class(1), 0);
        assert!(size_class(usize::MAX) < SIZE_CLASSES);
    }

    /// Lives through lifetimes, each dense or thin, and counts how often memory is looked at, and how often it is served
    /// and used, or not.
    fn live(all: impl Iterator<Item = bool>) -> (usize, usize, usize) {
        let mut habit = Habit::UNKNOWN;
        let (mut looks, mut good, mut bad) = (0, 0, 0);
        let mut served = false;
        for dense in all {
            habit.note_begin();
            if habit.note_end() {
                looks += 1;
                match (dense, served) {
                    (true, _) => habit.was_dense(),
                    (false, true) => habit.was_mistaken(),
                    (false, false) => habit.was_thin(),
                }
            }
            good += usize::from(served && dense);
            bad += usize::from(served && !dense);
            served = habit.is_trusted(2);
        }
        (looks, good, bad)
    }

    /// Check that dense sizes are served from the fourth lifetime on, and thin ones hardly looked at.
    #[test]
    fn steady() {
        assert_eq!(live([true; 1000].into_iter()), (1000, 997, 0));
        let (looks, good, bad) = live([false; 3000].into_iter());
        assert!(looks < 30 && good == 0 && bad == 0, "{looks}");
    }

    /// Check that sizes of which one lifetime in eight is thin are served mostly, and those of which every second is are
    /// hardly looked at.
    #[test]
    fn mixed() {
        let (_, good, bad) = live((0..8000).map(|n| n % 8 != 0));
        assert!(good > 2000 && bad * 3 < good, "{good} good, {bad} bad");
        let (looks, good, bad) = live((0..8000).map(|n| n % 2 != 0));
        assert!(
            looks < 800 && bad < 10,
            "{looks} looks, {good} good, {bad} bad"
        );
    }

    /// Check that one dense lifetime before thin ones is no reason to serve, and that many are reason for two mistakes.
    #[test]
    fn dense_then_thin() {
        let phases = |dense: usize| (0..dense + 500).map(move |n| n < dense);
        assert_eq!(live(phases(1)).2, 0);
        assert_eq!(live(phases(500)).2, 2);
    }

    /// Check that one mistake in twenty does not end a habit, and that one in five does for some lifetimes.
    #[test]
    fn mistakes_now_and_then() {
        let (looks, good, bad) = live((1..2001).map(|n| n % 20 != 0));
        assert_eq!((looks, bad), (2000, 100));
        assert_eq!(good, 2000 - 100 - 3);
        let (_, good, bad) = live((1..2001).map(|n| n % 5 != 0));
        assert!(good < 1000 && bad < 300, "{good} good, {bad} bad");
    }

    /// Check that what was not used stays in memory twice, and again after it was used, and no more.
    #[test]
    fn idle() {
        let mut habit = Habit::UNKNOWN;
        let stays = [(); 4].map(|()| habit.may_stay_idle());
        assert_eq!(stays, [true, true, false, false]);
        habit.was_dense();
        assert!(habit.may_stay_idle());
    }

    /// Check that pauses that follow each other grow to fifteen lifetimes, that one by itself is one lifetime, and that
    /// what was not in memory is looked at ever more rarely.
    #[test]
    fn pauses() {
        let skipped = |habit: &mut Habit| (0..100).take_while(|_| !habit.note_end()).count();
        let mut habit = Habit::UNKNOWN;
        for expected in [1, 3, 7, 15, 15] {
            habit.pause_looks();
            assert_eq!(skipped(&mut habit), expected);
        }
        for _ in 0..4 {
            assert!(habit.note_end());
        }
        habit.pause_looks();
        assert_eq!(skipped(&mut habit), 1);
        let mut empty = Habit::UNKNOWN;
        let looks = (0..166).filter(|_| empty.note_end().then(|| empty.was_empty()).is_some());
        // Six, then after 1, 3, 7, and 15 each.
        assert_eq!(
            looks.count(),
            6 + 1 + 1 + 1 + 1 + (166 - 6 - 2 - 4 - 8) / 16
        );
    }

    proptest! {
        /// Check that whatever a program does, what is zeroed for nothing stays a small part of what it lived through.
        #[test]
        fn mistakes_are_few(all in proptest::collection::vec((any::<bool>(), 1..9usize), 1..300)) {
            let all: Vec<bool> = all.into_iter().flat_map(|(dense, times)| vec![dense; times]).collect();
            let (_, good, bad) = live(all.iter().copied());
            let dense = all.iter().filter(|dense| **dense).count();
            prop_assert!(bad <= 2 + dense / 4, "{bad} mistakes, {good} good guesses of {dense} dense lifetimes");
        }
    }
}
