//! What one interval holds.

use quell_event::{InterruptMatrix, Tally, TallySummary};

use super::alarm::Alarm;
use super::detail::Detail;
use super::regions::Regions;

/// One interval: the difference of two readings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// What was counted, by culprit and cause, and by victim.
    pub(crate) tally: Tally,
    /// The same, summed up: of everything in scope, whatever the filter.
    pub(crate) summary: TallySummary,
    /// Hits by CPU, of everything on the machine, whatever the scope.
    pub(crate) matrix: InterruptMatrix,
    /// CPUs that are online.
    pub(crate) online: Vec<u32>,
    /// What hit the CPUs that nobody should disturb; `None` where there are none.
    pub(crate) alarm: Option<Alarm>,
    /// What lies at the ranges; `None` where that can't be known.
    pub(crate) regions: Option<Regions>,
    /// The process that is looked at closely, if there is one.
    pub(crate) detail: Option<Detail>,
}

/// Everything that grows while quell watches, read at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) tally: Tally,
    pub(crate) matrix: InterruptMatrix,
    /// Who shoots at the CPUs that nobody should disturb.
    pub(crate) guard: Option<Tally>,
}

impl Sample {
    /// What came between two readings. `guarded` are the CPUs that nobody should disturb.
    pub(crate) fn between(
        before: &Reading,
        now: &Reading,
        backend: &str,
        online: &[u32],
        guarded: &[u32],
    ) -> Self {
        let tally = now.tally.since(&before.tally);
        let matrix = now.matrix.since(&before.matrix);
        let cpus = u32::try_from(online.len()).unwrap_or(u32::MAX);
        let by = match (&now.guard, &before.guard) {
            (Some(now), Some(before)) => now.since(before),
            (Some(now), None) => now.clone(),
            (None, _) => Tally::default(),
        };
        Self {
            summary: TallySummary::new(&tally, backend, cpus),
            alarm: (!guarded.is_empty()).then(|| Alarm::new(guarded, &matrix, &by)),
            tally,
            matrix,
            online: online.to_vec(),
            regions: None,
            detail: None,
        }
    }

    /// How long it lasted, ns.
    pub(crate) fn duration_ns(&self) -> u64 {
        self.summary.duration_ns
    }
}
