//! What was counted since the agent started, over all probes that it has attached.

use std::collections::BTreeMap;

use quell_event::{Cause, Counts, Histogram, Lost, Mechanism, Tally, Watched};

use crate::groups::{Groups, Memory};

/// Who was hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// How often.
    pub hits: u64,
    /// For how long in all, ns.
    pub stall_ns: u64,
}

impl Hits {
    /// So many more, for so long.
    pub(crate) fn add(&mut self, hits: u64, stall_ns: u64) {
        self.hits += hits;
        self.stall_ns += stall_ns;
    }
}

/// Sums that only grow.
#[derive(Debug, Default)]
pub struct Totals {
    /// By cause.
    pub causes: BTreeMap<&'static str, Counts>,
    /// Victims whose own memory it was.
    pub involved: Hits,
    /// Victims that had nothing to do with it.
    pub bystanders: Hits,
    /// From queueing the first request until the last victim is done.
    pub wait: Histogram,
    /// From queueing until the handler starts.
    pub delay: Histogram,
    /// Time in the handler.
    pub stall: Histogram,
    /// The same three, of the last interval alone.
    pub last: [Histogram; 3],
    /// Flushes that found nobody to interrupt.
    pub empty_sends: u64,
    /// Victims whose handler was not seen.
    pub unseen: u64,
    /// Shootdowns that were counted and not timed.
    pub untimed: u64,
    /// About how many came while the probe was attached anew, and were not counted.
    pub renewed: u64,
    /// What is missing.
    pub lost: Lost,
    /// By cgroup.
    pub groups: Groups,
    /// Time in memory management by mechanism; `None` where nobody looks.
    pub memory: Option<BTreeMap<Mechanism, Memory>>,
    /// Whether its `blocked_ns` are looked at.
    pub sees_sleeps: bool,
    /// Samples of that time, and sleeps, that found no room.
    pub lost_samples: u64,
    /// See `lost_samples`.
    pub lost_sleeps: u64,
}

impl Totals {
    /// Adds what came in an interval that began at this time (ns since 1970), of a probe that tells cgroups apart, and where
    /// the time went in it.
    pub fn add(&mut self, interval: &Tally, watched: Option<&Watched>, began_ns: u64) {
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
        self.last = [
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
        self.groups.add(interval, watched, began_ns);
        if let Some(watched) = watched {
            self.sees_sleeps = watched.sees_sleeps;
            self.lost_samples += watched.lost_samples;
            self.lost_sleeps += watched.lost_sleeps;
            let memory = self.memory.get_or_insert_default();
            for row in &watched.rows {
                let more = Memory::of(watched, row);
                memory.entry(row.mechanism).or_default().add(more);
            }
        }
    }

    /// Of all causes.
    #[must_use]
    pub fn sum(&self) -> Counts {
        let mut sum = Counts::default();
        self.causes.values().for_each(|counts| sum.add(counts));
        sum
    }

    /// Of one.
    #[must_use]
    pub fn of(&self, cause: Cause) -> Counts {
        self.causes.get(cause.name()).cloned().unwrap_or_default()
    }
}
