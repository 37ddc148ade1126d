//! Who interrupts whom, by CPU.

/// How often each CPU was interrupted by each other one.
///
/// The kernel side counts in 32 bits, which wrap after some hours of the worst case: single readings
/// mean nothing, differences of readings less than an hour apart do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterruptMatrix {
    cpus: usize,
    cells: Vec<u32>,
}

impl InterruptMatrix {
    /// Makes a matrix of so many CPUs, all zero.
    #[must_use]
    pub fn new(cpus: usize) -> Self {
        Self {
            cpus,
            cells: vec![0; cpus * cpus],
        }
    }

    /// How many CPUs there can be, online or not.
    #[must_use]
    pub fn cpu_count(&self) -> usize {
        self.cpus
    }

    /// Hits of a victim's CPU that came from a culprit's; 0 for CPUs that there aren't.
    #[must_use]
    pub fn hits_between(&self, culprit: usize, victim: usize) -> u32 {
        if culprit >= self.cpus || victim >= self.cpus {
            return 0;
        }
        self.cells[victim * self.cpus + culprit]
    }

    /// Sets a cell; nothing happens for CPUs that there aren't.
    pub fn set_hits(&mut self, culprit: usize, victim: usize, hits: u32) {
        if culprit < self.cpus && victim < self.cpus {
            self.cells[victim * self.cpus + culprit] = hits;
        }
    }

    /// Returns the hits since `earlier`, a reading of the same counters. A reading of another number of CPUs
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

    /// Returns the hits that a CPU took.
    #[must_use]
    pub fn hits_taken_by(&self, victim: usize) -> u64 {
        (0..self.cpus)
            .map(|c| u64::from(self.hits_between(c, victim)))
            .sum()
    }

    /// Returns the hits that a CPU asked for.
    #[must_use]
    pub fn hits_asked_by(&self, culprit: usize) -> u64 {
        (0..self.cpus)
            .map(|v| u64::from(self.hits_between(culprit, v)))
            .sum()
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
            let (mut then, mut now) = (InterruptMatrix::new(cpus), InterruptMatrix::new(cpus));
            let mut sum = 0;
            for c in 0..cpus {
                for v in 0..cpus {
                    let n = more[c * cpus + v];
                    then.set_hits(c, v, start);
                    now.set_hits(c, v, start.wrapping_add(n));
                    sum += u64::from(n);
                }
            }
            let diff = now.since(&then);
            prop_assert_eq!(diff.hits_between(cpus - 1, 0), more[(cpus - 1) * cpus]);
            prop_assert_eq!((0..cpus).map(|c| diff.hits_asked_by(c)).sum::<u64>(), sum);
            prop_assert_eq!((0..cpus).map(|v| diff.hits_taken_by(v)).sum::<u64>(), sum);
        }
    }

    /// Check that CPUs that there aren't have no hits, and take none.
    #[test]
    fn strangers_are_nobody() {
        let mut m = InterruptMatrix::new(2);
        m.set_hits(2, 0, 5);
        m.set_hits(0, 7, 5);
        assert_eq!(m, InterruptMatrix::new(2));
        assert_eq!((m.hits_between(9, 0), m.hits_taken_by(3)), (0, 0));
        assert_eq!(m.since(&InterruptMatrix::new(5)), m);
    }
}
