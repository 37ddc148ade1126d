//! Hits on CPUs that nobody should disturb, and who caused them.

use quell_event::tally_summary::CulpritRow;
use quell_event::{InterruptMatrix, Tally, TallySummary};
use serde::Serialize;

use crate::show::units::{plural, rate};

/// The line stays short: it names so many culprits, and counts the others.
const MAX_NAMED_CULPRITS: usize = 3;

/// A CPU that nobody should disturb, and its hits in one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct GuardedCpu {
    pub(crate) cpu: u32,
    pub(crate) hits: u64,
}

/// Hits in one interval on the CPUs that nobody should disturb.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct IsolatedCpuAlarm {
    pub(crate) cpus: Vec<GuardedCpu>,
    /// The hits on all of these CPUs together.
    pub(crate) hits: u64,
    /// The processes that interrupted one of these CPUs, whatever the scope of the watch, those with the most shootdowns first.
    pub(crate) culprits: Vec<CulpritRow>,
    /// The names of the causes, most shootdowns first.
    pub(crate) causes: Vec<String>,
}

impl IsolatedCpuAlarm {
    /// Sums up the hits on these CPUs. `by` counts only shootdowns that interrupt one of them.
    pub(crate) fn new(guarded: &[u32], matrix: &InterruptMatrix, by: &Tally) -> Self {
        let cpus: Vec<GuardedCpu> = guarded
            .iter()
            .map(|&cpu| GuardedCpu {
                cpu,
                hits: matrix.hits_taken_by(cpu as usize),
            })
            .collect();
        let summary = TallySummary::new(by, "", 0);
        Self {
            hits: cpus.iter().map(|g| g.hits).sum(),
            cpus,
            culprits: summary.culprits,
            causes: summary.causes.into_iter().map(|c| c.cause).collect(),
        }
    }

    /// Were all of these CPUs left in peace?
    pub(crate) fn is_quiet(&self) -> bool {
        self.hits == 0
    }

    /// Was this CPU hit, and is it guarded?
    pub(crate) fn is_hit(&self, cpu: u32) -> bool {
        self.cpus.iter().any(|g| g.cpu == cpu && g.hits > 0)
    }

    /// Is this CPU guarded?
    pub(crate) fn is_guarded(&self, cpu: u32) -> bool {
        self.cpus.iter().any(|g| g.cpu == cpu)
    }

    /// One line that says which CPUs were hit, how often, and by whom.
    pub(crate) fn summary_line(&self, duration_ns: u64) -> String {
        let list = |cpus: &[&GuardedCpu]| {
            let cpus: Vec<_> = cpus.iter().map(|g| g.cpu).collect();
            quell_host::cpus::format_cpu_list(&cpus)
        };
        let all: Vec<_> = self.cpus.iter().collect();
        if self.is_quiet() {
            return format!("isolated CPU {}: no hit", list(&all));
        }
        let hit: Vec<_> = self.cpus.iter().filter(|g| g.hits > 0).collect();
        let mut who: Vec<_> = self
            .culprits
            .iter()
            .take(MAX_NAMED_CULPRITS)
            .map(|c| format!("{} ({})", c.comm, c.pid))
            .collect();
        if self.culprits.len() > MAX_NAMED_CULPRITS {
            who.push(plural(
                (self.culprits.len() - MAX_NAMED_CULPRITS) as u64,
                "other",
            ));
        }
        let who = match who.is_empty() {
            true => String::new(),
            false => format!(" by {}", who.join(", ")),
        };
        let why = match self.causes.first() {
            Some(cause) if self.causes.len() == 1 => format!(": {cause}"),
            Some(cause) => format!(": mostly {cause}"),
            None => String::new(),
        };
        format!(
            "ISOLATED CPU {} HIT {}/s{who}{why}",
            list(&hit),
            rate(self.hits, duration_ns)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a quiet CPU is said to be quiet, and that hits are counted also where nobody is known.
    #[test]
    fn hits_count_without_names() {
        let mut matrix = InterruptMatrix::new(4);
        let alarm = IsolatedCpuAlarm::new(&[2, 3], &matrix, &Tally::default());
        assert_eq!(
            alarm.summary_line(1_000_000_000),
            "isolated CPU 2-3: no hit"
        );
        matrix.set_hits(0, 3, 7);
        let alarm = IsolatedCpuAlarm::new(&[2, 3], &matrix, &Tally::default());
        assert_eq!(alarm.summary_line(1_000_000_000), "ISOLATED CPU 3 HIT 7/s");
        assert!(alarm.is_hit(3) && !alarm.is_hit(2) && alarm.is_guarded(2) && !alarm.is_guarded(0));
    }
}
