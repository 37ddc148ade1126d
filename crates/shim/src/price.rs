//! Which of two ways to give a small range back takes less time, found out in the program itself.
//!
//! To find out what a range is takes as long for one page as for a thousand; what the kernel takes to give one page back depends
//! on whether other CPUs run the program just then, which nobody tells. So for small ranges both ways are timed, now and then,
//! and what the faults take that come of one is counted to it.

/// Of so many ranges four are given to find out what each way takes: two that are given back, and two that are zeroed. The first
/// of each finds what the other way has left, and is not timed.
const EVERY: u8 = 64;

/// Of ranges of one size. All zeros at first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Price {
    /// What the CPU worked for it, on average of the last times; 0 is not known.
    zeroed_ns: usize,
    /// The same, with the faults of the pages that were in use.
    given_ns: usize,
    turn: u8,
}

/// What to do with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// It is zeroed in place, and not given back.
    pub(crate) zeroes: bool,
    /// And that is timed.
    pub(crate) timed: bool,
}

impl Price {
    pub(crate) const NEW: Price = Price {
        zeroed_ns: 0,
        given_ns: 0,
        turn: 0,
    };

    /// For the next range.
    pub(crate) fn way(&mut self) -> Way {
        let turn = self.turn;
        self.turn = (turn + 1) % EVERY;
        let known = self.zeroed_ns > 0 && self.given_ns > 0;
        Way {
            zeroes: match turn {
                0 | 1 => false,
                2 | 3 => true,
                _ => !known || self.zeroed_ns <= self.given_ns,
            },
            timed: matches!(turn, 1 | 3),
        }
    }

    /// One took so long.
    pub(crate) fn took(&mut self, zeroed: bool, ns: usize) {
        let average = if zeroed {
            &mut self.zeroed_ns
        } else {
            &mut self.given_ns
        };
        // One that an interrupt of somebody else's fell into does not count for more than others.
        *average = match *average {
            0 => ns.max(1),
            known => (known * 3 + ns.clamp(1, known.saturating_mul(4))) / 4,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lives through so many ranges, which take so long by each way; how many were zeroed.
    fn live(price: &mut Price, times: usize, zeroed_ns: usize, given_ns: usize) -> usize {
        let ways = (0..times).map(|_| {
            let way = price.way();
            if way.timed {
                price.took(way.zeroes, if way.zeroes { zeroed_ns } else { given_ns });
            }
            way.zeroes
        });
        ways.filter(|zeroes| *zeroes).count()
    }

    /// Check that the cheaper way is taken but for the four that find out, that this changes with what they take, and
    /// that one which took long by chance changes nothing.
    #[test]
    fn the_cheaper_way() {
        let mut price = Price::NEW;
        assert_eq!(live(&mut price, 640, 3000, 1500), 20);
        // Another CPU is to be interrupted from now on.
        live(&mut price, 640, 3000, 9000);
        assert_eq!(live(&mut price, 640, 3000, 9000), 620);
        price.took(true, 50_000_000);
        assert_eq!(live(&mut price, 640, 3000, 9000), 620);
    }
}
