//! Amounts over time, for one site or pair.

/// Amounts by step, ordered, without the steps in which there is nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepSeries<const N: usize> {
    cells: Vec<(u64, [u64; N])>,
}

impl<const N: usize> Default for StepSeries<N> {
    fn default() -> Self {
        Self { cells: Vec::new() }
    }
}

impl<const N: usize> StepSeries<N> {
    /// Adds to a step; true if it was empty before.
    #[inline]
    pub(crate) fn add(&mut self, step: u64, amount: &[u64; N]) -> bool {
        // Rows are recorded nearly in order, so it is nearly always the last step.
        match self.cells.last_mut() {
            Some((last, sum)) if *last == step => {
                add_saturating(sum, amount);
                return false;
            }
            Some((last, _)) if *last > step => {}
            _ => {
                self.cells.push((step, *amount));
                return true;
            }
        }
        match self.cells.binary_search_by_key(&step, |c| c.0) {
            Ok(at) => {
                add_saturating(&mut self.cells[at].1, amount);
                false
            }
            Err(at) => {
                self.cells.insert(at, (step, *amount));
                true
            }
        }
    }

    /// Makes steps twice as long.
    pub(crate) fn double_steps(&mut self) {
        for cell in &mut self.cells {
            cell.0 >>= 1;
        }
        self.cells.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                add_saturating(&mut kept.1, &next.1);
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
    pub(crate) fn cells(&self) -> &[(u64, [u64; N])] {
        &self.cells
    }
}

/// Adds `more`, without wrapping: a garbled trace may hold any number.
pub(crate) fn add_saturating<const N: usize>(sum: &mut [u64; N], more: &[u64; N]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum = sum.saturating_add(*more);
    }
}
