//! Amounts over time, for one site or pair, and of everything.

/// An amount that grows while rows are read.
pub(crate) trait StepAmount {
    /// Nothing yet.
    fn none() -> Self;
    /// Adds another.
    fn add(&mut self, more: &Self);
}

impl<const N: usize> StepAmount for [u64; N] {
    fn none() -> Self {
        [0; N]
    }

    /// Adds without wrapping: a garbled trace may hold any number.
    #[inline]
    fn add(&mut self, more: &Self) {
        for (sum, more) in self.iter_mut().zip(more) {
            *sum = sum.saturating_add(*more);
        }
    }
}

/// Amounts by step, ordered, without the steps in which there is nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepSeries<A> {
    cells: Vec<(u64, A)>,
}

impl<A> Default for StepSeries<A> {
    fn default() -> Self {
        Self { cells: Vec::new() }
    }
}

impl<A: StepAmount> StepSeries<A> {
    /// The amount of a step, and whether it was empty before.
    #[inline]
    pub(crate) fn at(&mut self, step: u64) -> (&mut A, bool) {
        // Rows are recorded nearly in order, so it is nearly always the last step.
        let place = match self.cells.last() {
            Some((last, _)) if *last == step => Ok(self.cells.len() - 1),
            Some((last, _)) if *last > step => self.cells.binary_search_by_key(&step, |c| c.0),
            _ => Err(self.cells.len()),
        };
        let at = place.unwrap_or_else(|at| {
            self.cells.insert(at, (step, A::none()));
            at
        });
        (&mut self.cells[at].1, place.is_err())
    }

    /// Adds to a step; true if it was empty before.
    #[inline]
    pub(crate) fn add(&mut self, step: u64, amount: &A) -> bool {
        let (sum, fresh) = self.at(step);
        sum.add(amount);
        fresh
    }

    /// Makes steps twice as long.
    pub(crate) fn double_steps(&mut self) {
        for cell in &mut self.cells {
            cell.0 >>= 1;
        }
        self.cells.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1.add(&next.1);
            }
            same
        });
    }

    /// Adds another series.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (step, amount) in &other.cells {
            self.add(*step, amount);
        }
    }

    /// The steps with something in them.
    pub(crate) fn cells(&self) -> &[(u64, A)] {
        &self.cells
    }
}
