//! Rows into bins and steps, in one pass.

use std::collections::HashMap;

use quell_event::trace::EventRow;
use quell_event::{Cause, Comm, NO_STACK};

use crate::folding_map::FoldingMap;
use crate::keys::{CulpritVictimPair, Site};
use crate::limits::PageLimits;
use crate::matrix::CpuMatrix;
use crate::series::StepSeries;
use crate::shots::ShotList;
use crate::spread::StepSpread;

/// The finest bin: 2^10 ns, which no shootdown is much shorter than.
const FINEST_LOG2: u32 = 10;
/// The longest step: two of them are all moments that there are, and no shift may go further.
pub(crate) const LONGEST_LOG2: u32 = 63;

/// Sums rows for the page. Memory grows with the number of sites, pairs and steps, and not with the number of rows.
pub struct Binner {
    pub(crate) limits: PageLimits,
    /// Earliest and latest moment, ns; `None` before the first row.
    pub(crate) range: Option<(u64, u64)>,
    /// Length of bins and of steps, as powers of two, ns. They begin at multiples of it, so that
    /// each step is a whole number of bins, and two become one without touching rows again.
    pub(crate) bin_log2: u32,
    pub(crate) step_log2: u32,
    /// By bin and cause: shootdowns, victims, wait, stall.
    pub(crate) timeline: Vec<StepSeries<[u64; 4]>>,
    /// Shootdowns, victims, wait, stall.
    pub(crate) sites: FoldingMap<Site, 4>,
    /// Hits, stall.
    pub(crate) pairs: FoldingMap<CulpritVictimPair, 2>,
    pub(crate) matrix: CpuMatrix,
    pub(crate) spread: StepSeries<StepSpread>,
    pub(crate) shots: ShotList,
    /// Names of threads, for processes that nobody else names.
    pub(crate) comms: HashMap<u32, Comm, ahash::RandomState>,
    /// Victims that the probe did not see.
    pub(crate) unseen: u64,
}

impl Binner {
    /// Nothing yet.
    #[must_use]
    pub fn new(limits: PageLimits) -> Self {
        Self {
            limits,
            range: None,
            bin_log2: FINEST_LOG2,
            step_log2: FINEST_LOG2,
            timeline: vec![StepSeries::default(); Cause::ALL.len()],
            sites: FoldingMap::default(),
            pairs: FoldingMap::default(),
            matrix: CpuMatrix::default(),
            spread: StepSeries::default(),
            shots: ShotList::new(limits.shots),
            comms: HashMap::default(),
            unseen: 0,
        }
    }

    /// Adds a row: one victim of a shootdown, which itself counts with its first row. `region` is the caller's number for the
    /// mapping at its range.
    pub fn take(&mut self, row: &EventRow, region: u32) {
        self.widen_range(row.t_ns);
        let (bin, step) = (row.t_ns >> self.bin_log2, row.t_ns >> self.step_log2);
        let first = row.is_first();
        let (stall, wait) = (u64::from(row.stall_ns), if first { row.wait_ns } else { 0 });
        let amount = [u64::from(first), 1, wait, stall];
        self.timeline[row.cause as usize].add(bin, &amount);
        let site = Site {
            cause: row.cause,
            culprit: Some(row.pid),
            region: Some(region),
            // A garbled trace may have any number there, and one of them means something else here (`OTHER_STACK`).
            stack: row.user_stack.max(NO_STACK),
        };
        if self.sites.add(site, step, &amount) {
            self.comms.entry(row.pid).or_insert(row.comm);
        }
        self.shots.take(row);
        if first {
            self.spread.at(step).0.record_time(0, row.wait_ns);
        }
        if row.is_unseen() {
            self.unseen += 1;
        } else {
            self.add_hit(row, step, stall);
        }
        self.keep_bounds();
    }

    fn add_hit(&mut self, row: &EventRow, step: u64, stall: u64) {
        let (spread, _) = self.spread.at(step);
        spread.record_time(1, u64::from(row.delay_ns));
        spread.record_time(2, stall);
        let pair = CulpritVictimPair {
            culprit: Some(row.pid),
            victim: Some(row.victim_pid),
            bystander: row.bystander,
        };
        if self.pairs.add(pair, step, &[1, stall]) {
            self.comms.entry(row.victim_pid).or_insert(row.victim_comm);
        }
        self.matrix.add(row.cpu, row.victim_cpu, step, stall);
    }

    /// Makes room for a moment: bins become longer until their number is within the limit. That ends, as two bins of
    /// [`LONGEST_LOG2`] are all moments.
    fn widen_range(&mut self, t: u64) {
        let (min, max) = match self.range {
            Some((min, max)) if (min..=max).contains(&t) => return,
            Some((min, max)) => (min.min(t), max.max(t)),
            None => (t, t),
        };
        self.range = Some((min, max));
        while (max >> self.bin_log2) - (min >> self.bin_log2) >= self.limits.bins {
            self.bin_log2 += 1;
            self.timeline.iter_mut().for_each(StepSeries::double_steps);
            // No step is shorter than a bin.
            if self.step_log2 < self.bin_log2 {
                self.lengthen_steps();
            }
        }
    }

    /// Steps from the first moment to the last.
    pub(crate) fn step_count(&self) -> u64 {
        self.range.map_or(0, |(min, max)| {
            (max >> self.step_log2) - (min >> self.step_log2) + 1
        })
    }

    /// Makes steps twice as long.
    pub(crate) fn lengthen_steps(&mut self) {
        self.step_log2 += 1;
        self.sites.double_steps();
        self.pairs.double_steps();
        self.matrix.double_steps();
        self.spread.double_steps();
    }

    /// Keeps the number of amounts and of keys within their limits: while there are many steps by longer ones, then by folding.
    fn keep_bounds(&mut self) {
        let PageLimits { cells, entries, .. } = self.limits;
        if self.sites.cells().max(self.pairs.cells()) > cells
            && self.step_count() > self.limits.steps
            && self.step_log2 < LONGEST_LOG2
        {
            self.lengthen_steps();
        }
        // Folding goes well below the bound, so that the next time is many rows away.
        if self.sites.cells() > cells || self.sites.live_count() > 2 * entries {
            self.sites.fold_smallest(entries, cells / 2);
        }
        if self.pairs.cells() > cells || self.pairs.live_count() > 2 * entries {
            self.pairs.fold_smallest(entries, cells / 2);
        }
    }
}
