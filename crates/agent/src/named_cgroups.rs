//! Which cgroups have series of their own: a host may have ten thousand, and a metrics server pays for each name that it ever
//! saw.
//!
//! There are [`MAX_NAMED_CGROUPS`] names and one more for all others. A cgroup's counts go to its own name while it has one, and
//! to the other name before and after: so each series only grows, and their growth adds up to that of the whole.

use std::collections::HashMap;

use quell_event::{CgroupCost, ShootdownCounts, Tally, WatchInterval};

use crate::victim_hits::VictimHits;

/// So many cgroups have a name of their own.
pub const MAX_NAMED_CGROUPS: usize = 20;
/// A cgroup keeps its name while its rank is among so many: two that take turns at the 20th place don't change names each time.
const KEPT_RANKS: usize = 30;
/// A cgroup takes the name of the least busy one if its score is so many times as high.
const TAKEOVER_RATIO: f64 = 2.0;
/// A score falls to half in so many intervals.
const SCORE_HALF_LIFE_INTERVALS: f64 = 30.0;
/// A cgroup with a lower score has been idle for long and is forgotten.
const MIN_SCORE: f64 = 0.5;
/// No more scores are kept, so that memory is bounded; the lowest are forgotten first.
const MAX_SCORES: usize = 16384;

/// New names an interval: 20 an hour where an interval is 10 s, since a server keeps each name that it ever saw.
const NEW_NAMES_PER_INTERVAL: f64 = MAX_NAMED_CGROUPS as f64 / 360.0;
/// Unused new names add up to so many, which is also the number at the start.
const MAX_UNUSED_NAMES: f64 = 2.0 * MAX_NAMED_CGROUPS as f64;

/// So much time in memory management, ns, adds as much to a score as one shootdown, because a shootdown takes about as long.
const SHOOTDOWN_SCORE_NS: f64 = 20_000.0;

/// Time that memory management cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryTime {
    /// CPU time, ns, estimated by samples.
    pub cpu_ns: u64,
    /// Time asleep, ns.
    pub blocked_ns: u64,
}

impl MemoryTime {
    /// The time that a row stands for.
    pub(crate) fn of_row(watched: &WatchInterval, row: &CgroupCost) -> Self {
        Self {
            cpu_ns: watched.cpu_ns(row.samples),
            blocked_ns: row.blocked_ns,
        }
    }

    /// Adds another's time.
    pub(crate) fn add(&mut self, other: Self) {
        self.cpu_ns += other.cpu_ns;
        self.blocked_ns += other.blocked_ns;
    }
}

/// The counts of one cgroup, as culprit and as victim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CgroupTotals {
    /// Shootdowns that it asked for.
    pub culprit: ShootdownCounts,
    /// Shootdowns that hit it.
    pub victim: VictimHits,
    /// Time that memory management cost it.
    pub memory: MemoryTime,
    /// When it got its name, ns since 1970; 0 for the agent's start.
    pub since_ns: u64,
}

/// The counts of all cgroups, of which the busiest have names.
#[derive(Debug)]
pub struct NamedCgroups {
    /// Cgroups that have a name, by id.
    named: HashMap<u64, CgroupTotals>,
    /// The counts of all other cgroups, and those that belong to no known one.
    other: CgroupTotals,
    scores: HashMap<u64, f64>,
    /// Number of new names that may be given now.
    unused_names: f64,
}

impl Default for NamedCgroups {
    fn default() -> Self {
        Self {
            named: HashMap::new(),
            other: CgroupTotals::default(),
            scores: HashMap::new(),
            unused_names: MAX_UNUSED_NAMES,
        }
    }
}

impl NamedCgroups {
    /// The cgroups that have a name, with their counts since they got it.
    pub fn named(&self) -> impl Iterator<Item = (u64, &CgroupTotals)> {
        self.named.iter().map(|(id, group)| (*id, group))
    }

    /// The counts of cgroups without a name.
    #[must_use]
    pub fn unnamed(&self) -> &CgroupTotals {
        &self.other
    }

    /// Limits the starts of names to this time, ns since 1970. It is called when the clock was set back, since no start may lie
    /// in the future.
    pub fn limit_starts(&mut self, ns: u64) {
        for group in self.named.values_mut() {
            group.since_ns = group.since_ns.min(ns);
        }
    }

    /// Adds the counts of an interval that began at this time, ns since 1970. Names are given first, by these counts too, so a
    /// cgroup's series begins with the interval by which it got its name. Counts of no known cgroup have the id 0: they get no
    /// score, and so no name.
    pub fn add(&mut self, interval: &Tally, watched: Option<&WatchInterval>, began_ns: u64) {
        let fade = 0.5_f64.powf(1.0 / SCORE_HALF_LIFE_INTERVALS);
        self.scores.values_mut().for_each(|score| *score *= fade);
        let culprits = interval.culprits.iter();
        let culprits = culprits.map(|c| (c.cgroup, c.counts.shootdowns));
        let victims = interval.victims.iter().map(|v| (v.cgroup, v.hits));
        for (id, n) in culprits.chain(victims).filter(|(id, _)| *id != 0) {
            *self.scores.entry(id).or_default() += n as f64;
        }
        let memory = watched.map_or_else(Vec::new, by_cgroup);
        for (id, memory) in memory.iter().filter(|(id, _)| *id != 0) {
            let ns = memory.cpu_ns + memory.blocked_ns;
            *self.scores.entry(*id).or_default() += ns as f64 / SHOOTDOWN_SCORE_NS;
        }
        self.assign_names(began_ns);
        for c in &interval.culprits {
            self.totals_mut(c.cgroup).culprit.add(&c.counts);
        }
        for v in &interval.victims {
            self.totals_mut(v.cgroup).victim.add(v.hits, v.stall_ns);
        }
        for (id, memory) in memory {
            self.totals_mut(id).memory.add(memory);
        }
    }

    /// Gives one series to each name. A service that was started again is a new cgroup with the old name: the new one takes over
    /// the old one's counts and place. `name` is the path of a cgroup; one whose path is not known (`None` or empty) is left as
    /// it is.
    pub fn merge_same_names<'a>(&mut self, name: impl Fn(u64) -> Option<&'a str>) {
        let mut seats: Vec<(u64, u64)> =
            self.named.iter().map(|(id, g)| (g.since_ns, *id)).collect();
        // The cgroup that got its place first comes first; for two at the same time the kernel gave the lower number first,
        // mostly.
        seats.sort_unstable();
        let mut holders: HashMap<&str, u64> = HashMap::new();
        for (_, id) in seats {
            let Some(name) = name(id).filter(|name| !name.is_empty()) else {
                continue;
            };
            let Some(before) = holders.insert(name, id) else {
                continue;
            };
            self.scores.remove(&before);
            if let (Some(old), Some(group)) = (self.named.remove(&before), self.named.get_mut(&id))
            {
                group.culprit.add(&old.culprit);
                group.victim.add(old.victim.hits, old.victim.stall_ns);
                group.memory.add(old.memory);
                group.since_ns = old.since_ns;
            }
        }
    }

    fn totals_mut(&mut self, id: u64) -> &mut CgroupTotals {
        self.named.get_mut(&id).unwrap_or(&mut self.other)
    }

    /// Gives names to the highest scores, and takes them from cgroups that have fallen far behind. The counts of a name that is
    /// taken go with it: added to those of the others they would be growth that never was.
    fn assign_names(&mut self, began_ns: u64) {
        self.scores.retain(|_, score| *score >= MIN_SCORE);
        let mut ranked: Vec<(u64, f64)> = self.scores.iter().map(|(id, s)| (*id, *s)).collect();
        // Equal scores are sorted by id, so that the order of a map does not matter.
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        for (id, _) in ranked.drain(MAX_SCORES.min(ranked.len())..) {
            self.scores.remove(&id);
        }
        let keeps = &ranked[..KEPT_RANKS.min(ranked.len())];
        self.named
            .retain(|id, _| keeps.iter().any(|(kept, _)| kept == id));
        self.unused_names = (self.unused_names + NEW_NAMES_PER_INTERVAL).min(MAX_UNUSED_NAMES);
        for (id, score) in ranked.iter().take(MAX_NAMED_CGROUPS) {
            if self.unused_names < 1.0 || self.named.contains_key(id) {
                continue;
            }
            if self.named.len() == MAX_NAMED_CGROUPS {
                // All names are taken and this one of the first ranks has none, so the least busy cgroup with a name lies behind
                // them.
                let last = ranked
                    .iter()
                    .rev()
                    .find(|(id, _)| self.named.contains_key(id));
                if let Some((last, _)) = last.filter(|(_, least)| least * TAKEOVER_RATIO <= *score)
                {
                    self.named.remove(last);
                }
            }
            if self.named.len() < MAX_NAMED_CGROUPS {
                self.unused_names -= 1.0;
                let group = CgroupTotals {
                    since_ns: began_ns,
                    ..CgroupTotals::default()
                };
                self.named.insert(*id, group);
            }
        }
    }
}

/// The time of each row with its cgroup, which may have several rows: one for each mechanism.
fn by_cgroup(watched: &WatchInterval) -> Vec<(u64, MemoryTime)> {
    let rows = watched.rows.iter();
    rows.map(|row| (row.cgroup, MemoryTime::of_row(watched, row)))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quell_event::{Cause, CulpritTally, Mechanism, VictimTally};

    use super::*;

    fn interval(by: &[(u64, u64)]) -> Tally {
        let culprits = by.iter().map(|&(cgroup, shootdowns)| CulpritTally {
            pid: 0,
            comm: String::new(),
            cgroup,
            cause: Cause::Munmap,
            detail: None,
            counts: ShootdownCounts {
                shootdowns,
                ..ShootdownCounts::default()
            },
        });
        let victims = by.iter().map(|&(cgroup, hits)| VictimTally {
            pid: 0,
            comm: String::new(),
            cgroup,
            bystander: false,
            hits,
            stall_ns: hits,
        });
        Tally {
            culprits: culprits.collect(),
            victims: victims.collect(),
            ..Tally::default()
        }
    }

    proptest! {
        /// Check that there are never more names than seats, that no series with a name shrinks while it has it, and
        /// that all growth adds up to what was done.
        #[test]
        fn growth_adds_up(intervals in prop::collection::vec(prop::collection::vec((1u64..60, 0u64..1000), 0..50), 1..20)) {
            let mut groups = NamedCgroups::default();
            for by in intervals {
                let before: HashMap<u64, u64> = groups.named().map(|(id, g)| (id, g.culprit.shootdowns)).collect();
                let other = groups.unnamed().culprit.shootdowns;
                groups.add(&interval(&by), None, 1);
                prop_assert!(groups.named().count() <= MAX_NAMED_CGROUPS);
                let mut grown = groups.unnamed().culprit.shootdowns - other;
                for (id, group) in groups.named() {
                    let was = before.get(&id).copied().unwrap_or(0);
                    prop_assert!(group.culprit.shootdowns >= was);
                    grown += group.culprit.shootdowns - was;
                }
                prop_assert_eq!(grown, by.iter().map(|(_, n)| n).sum::<u64>());
            }
        }
    }

    /// Check that after the clock was set back no name is from times to come, and an older one is as old as it was.
    #[test]
    fn a_clock_that_is_set_back() {
        let mut groups = NamedCgroups::default();
        groups.add(&interval(&[(1, 100)]), None, 5);
        groups.add(&interval(&[(1, 100), (2, 100)]), None, 20);
        groups.limit_starts(10);
        let since = |id| groups.named[&id].since_ns;
        assert_eq!((since(1), since(2)), (5, 10));
    }

    /// Check that ten thousand cgroups have twenty names and little memory, and that the names are of those that do most.
    #[test]
    fn many_cgroups() {
        let mut groups = NamedCgroups::default();
        for round in 0..50_u64 {
            let by: Vec<_> = (1..=10_000)
                .map(|id| (id, 1 + 1000 * u64::from(id % 1000 == round % 3)))
                .collect();
            groups.add(&interval(&by), None, 1);
        }
        assert_eq!(groups.named().count(), MAX_NAMED_CGROUPS);
        assert!(
            groups.named().all(|(id, _)| id % 1000 < 3),
            "{:?}",
            groups.named
        );
        assert!(groups.scores.len() <= MAX_SCORES);
    }

    /// Check that two that take turns at the last place don't take turns with the name, and that who does nothing any
    /// more loses its own.
    #[test]
    fn names_stay() {
        let mut groups = NamedCgroups::default();
        let busy: Vec<_> = (1..MAX_NAMED_CGROUPS as u64)
            .map(|id| (id, 10_000))
            .collect();
        for turn in 0..20 {
            let mut by = busy.clone();
            by.push((100 + turn % 2, 500));
            groups.add(&interval(&by), None, 1);
        }
        assert!(groups.named.contains_key(&100) && !groups.named.contains_key(&101));
        for _ in 0..1000 {
            groups.add(&interval(&busy), None, 1);
        }
        assert!(!groups.named.contains_key(&100));
        assert_eq!(groups.named().count(), MAX_NAMED_CGROUPS - 1);
    }

    /// Check that a service that is started again goes on in its series, which never shrinks, and that its old number gives
    /// way; and that those whose names are not known are left alone.
    #[test]
    fn one_name_one_series() {
        let mut groups = NamedCgroups::default();
        groups.add(&interval(&[(7, 100), (8, 10), (9, 10)]), None, 1000);
        groups.add(&interval(&[(70, 5), (8, 10), (9, 10)]), None, 2000);
        let name = |id: u64| match id {
            7 | 70 => Some("/a.service"),
            8 => Some(""),
            _ => None,
        };
        groups.merge_same_names(name);
        let seats: HashMap<u64, &CgroupTotals> = groups.named().collect();
        assert_eq!(seats.len(), 3);
        let (is, then) = (&seats[&70].culprit.shootdowns, seats[&70].since_ns);
        assert_eq!((*is, then), (105, 1000));
        groups.add(&interval(&[(70, 5)]), None, 3000);
        groups.merge_same_names(name);
        assert_eq!(groups.named[&70].culprit.shootdowns, 110);
        assert_eq!(groups.named[&70].victim.hits, 110);
        assert!(!groups.named.contains_key(&7));
    }

    /// Check that who spends time in memory management has a name without any shootdown, that its time adds up with that of
    /// the others, and that a service that is started again keeps it.
    #[test]
    fn time_has_names() {
        let mut groups = NamedCgroups::default();
        let row = |cgroup, samples, blocked_ns| CgroupCost {
            cgroup,
            mechanism: Mechanism::FaultAnon,
            samples,
            sleeps: u64::from(blocked_ns > 0),
            blocked_ns,
        };
        let watched = WatchInterval {
            period_ns: 1_000_000,
            rows: vec![row(7, 3, 0), row(7, 1, 500), row(0, 1, 7), row(9, 0, 10)],
            ..WatchInterval::default()
        };
        groups.add(&Tally::default(), Some(&watched), 1);
        let memory = |cpu_ns, blocked_ns| MemoryTime { cpu_ns, blocked_ns };
        assert_eq!(groups.named[&7].memory, memory(4_000_000, 500));
        // what can't be told apart, and who has done next to nothing
        assert_eq!(groups.other.memory, memory(1_000_000, 17));
        groups.merge_same_names(|_| Some("/a.service"));
        let again = WatchInterval {
            rows: vec![row(70, 2, 0)],
            ..watched
        };
        groups.add(&Tally::default(), Some(&again), 2);
        groups.merge_same_names(|_| Some("/a.service"));
        assert_eq!(groups.named[&70].memory, memory(6_000_000, 500));
        assert!(!groups.named.contains_key(&7));
    }

    /// Check that the busiest has a name soon, also where all seats are taken by others that go on, and that these lose no more
    /// than one.
    #[test]
    fn the_busiest_has_a_name() {
        let mut groups = NamedCgroups::default();
        let mut by: Vec<_> = (1..=MAX_NAMED_CGROUPS as u64)
            .map(|id| (id, 100 * id))
            .collect();
        groups.add(&interval(&by), None, 1);
        by.push((100, 10_000));
        groups.add(&interval(&by), None, 1);
        assert!(groups.named.contains_key(&100) && !groups.named.contains_key(&1));
        assert_eq!(groups.named().count(), MAX_NAMED_CGROUPS);
        // one that does little more than the last waits
        by.push((101, 300));
        groups.add(&interval(&by), None, 1);
        assert!(!groups.named.contains_key(&101) && groups.named.contains_key(&2));
    }

    /// Check that cgroups that take turns, each busy for a minute and then gone, don't make more names than a server can bear.
    #[test]
    fn names_are_few_over_time() {
        let (mut groups, mut names) = (NamedCgroups::default(), std::collections::HashSet::new());
        // five hours of looks of 10 s
        for look in 0..1800_u64 {
            let by: Vec<_> = (0..25).map(|n| (1 + n + 25 * (look / 6), 1000)).collect();
            groups.add(&interval(&by), None, look);
            names.extend(groups.named().map(|(id, _)| id));
        }
        assert!(names.len() <= 40 + 5 * MAX_NAMED_CGROUPS, "{}", names.len());
        assert!(names.len() > 3 * MAX_NAMED_CGROUPS, "{}", names.len());
    }
}
