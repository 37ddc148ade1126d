//! The counts of one interval of the live view.

use quell_event::{InterruptMatrix, Tally, TallySummary};

use super::alarm::IsolatedCpuAlarm;
use super::close_up::ProcessCloseUp;
use super::regions::SampledRegions;

/// One interval, which is the difference of two readings.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveInterval {
    /// The counts by culprit and cause, and by victim.
    pub(crate) tally: Tally,
    /// The sums of the same counts: of everything in scope, whatever the filter.
    pub(crate) summary: TallySummary,
    /// Hits by CPU, of everything on the machine, whatever the scope.
    pub(crate) matrix: InterruptMatrix,
    /// The CPUs that are online.
    pub(crate) online: Vec<u32>,
    /// Hits on the CPUs that nobody should disturb; `None` where there are no such CPUs.
    pub(crate) alarm: Option<IsolatedCpuAlarm>,
    /// The regions at the ranges of shootdowns; `None` where they can't be known.
    pub(crate) regions: Option<SampledRegions>,
    /// The process of the close look, if there is one.
    pub(crate) close_up: Option<ProcessCloseUp>,
}

/// All counts that grow while quell watches, read at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveReading {
    pub(crate) tally: Tally,
    pub(crate) matrix: InterruptMatrix,
    /// Counts of those who interrupt the CPUs that nobody should disturb.
    pub(crate) guard: Option<Tally>,
}

impl LiveInterval {
    /// The difference of two readings. `guarded` are the CPUs that nobody should disturb.
    pub(crate) fn between_readings(
        before: &LiveReading,
        now: &LiveReading,
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
            alarm: (!guarded.is_empty()).then(|| IsolatedCpuAlarm::new(guarded, &matrix, &by)),
            tally,
            matrix,
            online: online.to_vec(),
            regions: None,
            close_up: None,
        }
    }

    /// How long the interval lasted.
    pub(crate) fn duration_ns(&self) -> u64 {
        self.summary.duration_ns
    }
}
