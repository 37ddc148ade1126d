//! Counts since the agent started, summed over all probes that it has attached.

use std::collections::BTreeMap;

use quell_event::{
    Cause, Histogram, Mechanism, ProbeLosses, ShootdownCounts, Tally, WatchInterval,
};

use crate::named_cgroups::{MemoryTime, NamedCgroups};
use crate::victim_hits::VictimHits;

/// Sums that only grow.
#[derive(Debug, Default)]
pub struct HostTotals {
    /// By cause.
    pub causes: BTreeMap<&'static str, ShootdownCounts>,
    /// Victims that ran the memory's own process.
    pub involved: VictimHits,
    /// Victims that ran another process.
    pub bystanders: VictimHits,
    /// From queueing the first request until the last victim is done.
    pub wait: Histogram,
    /// From queueing until the handler starts.
    pub delay: Histogram,
    /// Time in the handler.
    pub stall: Histogram,
    /// The same three, of the last interval alone.
    pub last_interval: [Histogram; 3],
    /// Flushes that found nobody to interrupt.
    pub empty_sends: u64,
    /// Victims whose handler was not seen.
    pub unseen: u64,
    /// Shootdowns that were counted and not timed.
    pub untimed: u64,
    /// About how many came while the probe was attached anew, and were not counted.
    pub renewed: u64,
    /// Number of records that the probe lost, by kind.
    pub lost: ProbeLosses,
    /// By cgroup, of which the busiest have names.
    pub cgroups: NamedCgroups,
    /// Time in memory management by mechanism; `None` where it is not sampled.
    pub memory: Option<BTreeMap<Mechanism, MemoryTime>>,
    /// Whether sleeps are watched, so that `blocked_ns` are known.
    pub sees_sleeps: bool,
    /// Samples that found no room in the probe's tables.
    pub lost_samples: u64,
    /// Sleeps that found no room in the probe's tables.
    pub lost_sleeps: u64,
}

impl HostTotals {
    /// Adds the counts of an interval that began at this time (ns since 1970), from a probe that distinguishes cgroups, and the
    /// account of its time; `None` where there is no account.
    pub fn add(&mut self, interval: &Tally, watched: Option<&WatchInterval>, began_ns: u64) {
        for culprit in &interval.culprits {
            let counts = self.causes.entry(culprit.cause.name()).or_default();
            counts.add(&culprit.counts);
        }
        for victim in &interval.victims {
            let hits = if victim.bystander {
                &mut self.bystanders
            } else {
                &mut self.involved
            };
            hits.add(victim.hits, victim.stall_ns);
        }
        self.wait.merge(&interval.wait);
        self.delay.merge(&interval.delay);
        self.stall.merge(&interval.stall);
        self.last_interval = [
            interval.wait.clone(),
            interval.delay.clone(),
            interval.stall.clone(),
        ];
        self.empty_sends += interval.empty_sends;
        self.unseen += interval.unseen;
        self.untimed += interval.untimed;
        self.lost.records += interval.lost.records;
        self.lost.stacks += interval.lost.stacks;
        self.lost.details += interval.lost.details;
        self.lost.crowded += interval.lost.crowded;
        self.lost.wrong_stacks += interval.lost.wrong_stacks;
        self.cgroups.add(interval, watched, began_ns);
        if let Some(watched) = watched {
            self.sees_sleeps = watched.sees_sleeps;
            self.lost_samples += watched.lost_samples;
            self.lost_sleeps += watched.lost_sleeps;
            let memory = self.memory.get_or_insert_default();
            for row in &watched.rows {
                let more = MemoryTime::of_row(watched, row);
                memory.entry(row.mechanism).or_default().add(more);
            }
        }
    }

    /// Sum over all causes.
    #[must_use]
    pub fn all_causes(&self) -> ShootdownCounts {
        let mut sum = ShootdownCounts::default();
        self.causes.values().for_each(|counts| sum.add(counts));
        sum
    }

    /// The counts of one cause.
    #[must_use]
    pub fn cause_counts(&self, cause: Cause) -> ShootdownCounts {
        self.causes.get(cause.name()).cloned().unwrap_or_default()
    }
}
