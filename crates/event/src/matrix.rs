//! Who interrupts whom, by CPU.

/// How often each CPU was interrupted by each other one.
///
/// The kernel side counts in 32 bits, which wrap after some hours of the worst case: single readings
/// mean nothing, differences of readings less than an hour apart do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    cpus: usize,
    cells: Vec<u32>,
}

impl Matrix {
    /// Of so many CPUs, all zero.
    #[must_use]
    pub fn new(cpus: usize) -> Self {
        Self {
            cpus,
            cells: vec![0; cpus * cpus],
        }
    }

    /// How many CPUs there can be, online or not.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Hits of a victim's CPU that came from a culprit's; 0 for CPUs that there aren't.
    #[must_use]
    pub fn hits(&self, culprit: usize, victim: usize) -> u32 {
        if culprit >= self.cpus || victim >= self.cpus {
            return 0;
        }
        self.cells[victim * self.cpus + culprit]
    }

    /// Sets a cell; nothing happens for CPUs that there aren't.
    pub fn set(&mut self, culprit: usize, victim: usize, hits: u32) {
        if culprit < self.cpus && victim < self.cpus {
            self.cells[victim * self.cpus + culprit] = hits;
        }
    }

    /// What came since `earlier`, a reading of the same counters. A reading of another number of CPUs
    /// counts as none.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let then = (earlier.cpus == self.cpus).then_some(&earlier.cells);
        let mut cells = self.cells.clone();
        if let Some(then) = then {
            for (now, then) in cells.iter_mut().zip(then) {
                *now = now.wrapping_sub(*then);
            }
        }
        Self {
            cpus: self.cpus,
            cells,
        }
    }

    /// Hits that a CPU took.
    #[must_use]
    pub fn taken(&self, victim: usize) -> u64 {
        (0..self.cpus)
            .map(|c| u64::from(self.hits(c, victim)))
            .sum()
    }

    /// Hits that a CPU asked for.
    #[must_use]
    pub fn asked(&self, culprit: usize) -> u64 {
        (0..self.cpus)
            .map(|v| u64::from(self.hits(culprit, v)))
            .sum()
    }

    /// All hits.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.cells.iter().map(|&n| u64::from(n)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Check that the difference of two readings is what was counted between, also where a counter wrapped, and that rows and columns add up to the same total.
        #[test]
        fn wraps_do_not_count(cpus in 1usize..6, start in any::<u32>(), more in proptest::collection::vec(0u32..1_000_000, 36)) {
            let (mut then, mut now) = (Matrix::new(cpus), Matrix::new(cpus));
            let mut sum = 0;
            for c in 0..cpus {
                for v in 0..cpus {
                    let n = more[c * cpus + v];
                    then.set(c, v, start);
                    now.set(c, v, start.wrapping_add(n));
                    sum += u64::from(n);
                }
            }
            let diff = now.since(&then);
            prop_assert_eq!(diff.hits(cpus - 1, 0), more[(cpus - 1) * cpus]);
            prop_assert_eq!(diff.total(), sum);
            prop_assert_eq!((0..cpus).map(|c| diff.asked(c)).sum::<u64>(), sum);
            prop_assert_eq!((0..cpus).map(|v| diff.taken(v)).sum::<u64>(), sum);
        }
    }

    /// Check that CPUs that there aren't have no hits, and take none.
    #[test]
    fn strangers_are_nobody() {
        let mut m = Matrix::new(2);
        m.set(2, 0, 5);
        m.set(0, 7, 5);
        assert_eq!((m.total(), m.hits(9, 0), m.taken(3)), (0, 0, 0));
        assert_eq!(m.since(&Matrix::new(5)), m);
    }
}
