//! Which of two ways to give a small range back takes less time, found out in the program itself.
//!
//! To find out what a range is takes as long for one page as for a thousand; what the kernel takes to give one page back depends
//! on whether other CPUs run the program just then, which nobody tells. So for small ranges both ways are timed, now and then,
//! and what the faults take that come of one is counted to it.

/// Of so many ranges four are given to find out what each way takes: two that are given back, and two that are zeroed. The first
/// of each is not timed: where a program uses one range again and again, it finds what the other way has left. A prime, so that
/// of ranges that differ in turn each kind has its turn to be timed.
const EVERY: u8 = 61;

/// Of ranges of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Price {
    zeroed: Average,
    /// With the faults of the pages that were in use.
    given: Average,
    turn: u8,
}

/// What the CPU worked for it, the last times.
#[derive(Clone, Copy, Debug)]
struct Average {
    ns: usize,
    /// So often, two at most.
    times: u8,
}

/// What to do with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// It is zeroed in place, and not given back.
    pub(crate) zeroes: bool,
    /// And that is timed.
    pub(crate) timed: bool,
}

impl Average {
    const NONE: Average = Average { ns: 0, times: 0 };

    /// Of the first two the lesser counts, and later one that an interrupt of somebody else's fell into no more than others.
    fn add(&mut self, ns: usize) {
        self.ns = match self.times {
            0 => ns,
            1 => ns.min(self.ns),
            _ => (self.ns * 3 + ns.min(self.ns.saturating_mul(4))) / 4,
        };
        self.times = (self.times + 1).min(2);
    }
}

impl Price {
    pub(crate) const NEW: Price = Price {
        zeroed: Average::NONE,
        given: Average::NONE,
        turn: 0,
    };

    /// For the next range. As long as one of both is not known, it is given back.
    pub(crate) fn way(&mut self) -> Way {
        let turn = self.turn;
        self.turn = (turn + 1) % EVERY;
        let known = self.zeroed.times > 0 && self.given.times > 0;
        Way {
            zeroes: match turn {
                0 | 1 => false,
                2 | 3 => true,
                _ => known && self.zeroed.ns <= self.given.ns,
            },
            timed: matches!(turn, 1 | 3),
        }
    }

    /// One took so long, which is 0 where that can't be told.
    pub(crate) fn took(&mut self, zeroed: bool, ns: usize) {
        if ns == 0 {
            return;
        }
        if zeroed {
            self.zeroed.add(ns);
        } else {
            self.given.add(ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lives through so many ranges, which take what `costs` says by each way; how many were zeroed.
    fn live(price: &mut Price, times: usize, costs: impl Fn(usize) -> (usize, usize)) -> usize {
        let ways = (0..times).map(|n| {
            let (zeroed, given) = costs(n);
            let way = price.way();
            if way.timed {
                price.took(way.zeroes, if way.zeroes { zeroed } else { given });
            }
            way.zeroes
        });
        ways.filter(|zeroes| *zeroes).count()
    }

    /// Check that the cheaper way is taken but for the four that find out, that this changes with what they take, and
    /// that one which took long by chance changes nothing, the first neither.
    #[test]
    fn the_cheaper_way() {
        let mut price = Price::NEW;
        assert_eq!(live(&mut price, 610, |_| (3000, 1500)), 20);
        // Another CPU is to be interrupted from now on.
        live(&mut price, 610, |_| (3000, 9000));
        assert_eq!(live(&mut price, 610, |_| (3000, 9000)), 590);
        price.took(true, 50_000_000);
        assert_eq!(live(&mut price, 610, |_| (3000, 9000)), 590);
        let mut late = Price::NEW;
        let first_is_long = |n| (if n < 60 { 5_000_000 } else { 3000 }, 9000);
        live(&mut late, 122, first_is_long);
        assert_eq!(live(&mut late, 610, |_| (3000, 9000)), 590);
    }

    /// Check that both kinds of two that come in turn are timed: one is dearer to give back than the other is to zero.
    #[test]
    fn kinds_in_turn() {
        let mut price = Price::NEW;
        let costs = |n: usize| (3000, if n.is_multiple_of(2) { 1000 } else { 20_000 });
        live(&mut price, 610, costs);
        assert!(live(&mut price, 6100, costs) > 5000);
        let cheap = |n: usize| (3000, if n.is_multiple_of(2) { 20_000 } else { 1000 });
        assert!(live(&mut price, 6100, cheap) > 5000);
    }

    proptest! {
        /// Check for any costs, also of none that could be told, that all works, and that two of 61 at least go
        /// each way, so that it is found out when they change.
        #[test]
        fn any_costs(costs in proptest::collection::vec((any::<usize>(), any::<usize>()), 61..200)) {
            let mut price = Price::NEW;
            let len = costs.len();
            let at = |n: usize| (costs[n].0 >> 8, costs[n].1 >> 8);
            let zeroed = live(&mut price, len, at);
            prop_assert!(zeroed >= 2 && len - zeroed >= 2);
        }
    }
}
