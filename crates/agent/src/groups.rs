//! Which cgroups are told apart: a host may have ten thousand, and a metrics server pays for each name that it ever saw.
//!
//! There are [`SEATS`] names and one more for all others. What a cgroup does counts under its name while it has one, and
//! under the other name before and after: so each series only grows, and their growth adds up to that of the whole.

use std::collections::HashMap;

use quell_event::{Counts, Tally, Watched, WatchedRow};

use crate::totals::Hits;

/// So many cgroups have names.
pub const SEATS: usize = 20;
/// Who is among so many keeps its seat: two that take turns at the 20th place are not to change names each time.
const KEEPS: usize = 30;
/// Who does so many times what the last of those with a seat does takes it.
const MORE: f64 = 2.0;
/// What was done counts half as much after so many intervals.
const HALF: f64 = 30.0;
/// Whose score is below this has done nothing for long.
const FORGOTTEN: f64 = 0.5;
/// More than so many are not remembered, the least first.
const MOST: usize = 16384;

/// So many new names a look, beyond the first: 20 an hour where a look is 10 s. A server keeps each name that it ever saw.
const NEW: f64 = SEATS as f64 / 360.0;
/// So many at once.
const AT_ONCE: f64 = 2.0 * SEATS as f64;

/// Who spends so long in memory management, ns, has done as much as one shootdown: about what one takes.
const AS_ONE: f64 = 20_000.0;

/// Time in memory management.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// CPU time, ns: by samples.
    pub cpu_ns: u64,
    /// Time asleep, ns.
    pub blocked_ns: u64,
}

impl Memory {
    /// What a row stands for.
    pub(crate) fn of(watched: &Watched, row: &WatchedRow) -> Self {
        Self {
            cpu_ns: watched.cpu_ns(row.samples),
            blocked_ns: row.blocked_ns,
        }
    }

    /// So much more.
    pub(crate) fn add(&mut self, other: Self) {
        self.cpu_ns += other.cpu_ns;
        self.blocked_ns += other.blocked_ns;
    }
}

/// What a cgroup did, and what was done to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// As culprit.
    pub culprit: Counts,
    /// As victim.
    pub victim: Hits,
    /// What memory management cost it.
    pub memory: Memory,
    /// Since it has its name, ns since 1970; 0: since the agent's start.
    pub since_ns: u64,
}

/// All cgroups.
#[derive(Debug)]
pub struct Groups {
    /// By id, those with a name.
    seats: HashMap<u64, Group>,
    /// All others, and what could not be told apart.
    other: Group,
    scores: HashMap<u64, f64>,
    /// New names that may be given now.
    names: f64,
}

impl Default for Groups {
    fn default() -> Self {
        Self {
            seats: HashMap::new(),
            other: Group::default(),
            scores: HashMap::new(),
            names: AT_ONCE,
        }
    }
}

impl Groups {
    /// Those that have names: the id, and what they did since they have.
    pub fn seats(&self) -> impl Iterator<Item = (u64, &Group)> {
        self.seats.iter().map(|(id, group)| (*id, group))
    }

    /// What was done by and to those without one.
    #[must_use]
    pub fn other(&self) -> &Group {
        &self.other
    }

    /// The clock was set: none has its name since later than this, ns since 1970.
    pub fn begun_by(&mut self, ns: u64) {
        for group in self.seats.values_mut() {
            group.since_ns = group.since_ns.min(ns);
        }
    }

    /// Adds what came in an interval that began at this time, ns since 1970.
    pub fn add(&mut self, interval: &Tally, watched: Option<&Watched>, began_ns: u64) {
        let fade = 0.5_f64.powf(1.0 / HALF);
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
            *self.scores.entry(*id).or_default() += ns as f64 / AS_ONE;
        }
        self.seat(began_ns);
        for c in &interval.culprits {
            self.of(c.cgroup).culprit.add(&c.counts);
        }
        for v in &interval.victims {
            self.of(v.cgroup).victim.add(v.hits, v.stall_ns);
        }
        for (id, memory) in memory {
            self.of(id).memory.add(memory);
        }
    }

    /// One name, one series: a service that was started again is another cgroup of the same name. Who has the name now takes
    /// over what the one before did under it, and its seat. `name`: what a cgroup is called; `None` or empty where that is not
    /// known.
    pub fn unite<'a>(&mut self, name: impl Fn(u64) -> Option<&'a str>) {
        let mut seats: Vec<(u64, u64)> =
            self.seats.iter().map(|(id, g)| (g.since_ns, *id)).collect();
        // who sat down first comes first; of two at once the kernel gave the lower number first, mostly
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
            if let (Some(old), Some(group)) = (self.seats.remove(&before), self.seats.get_mut(&id))
            {
                group.culprit.add(&old.culprit);
                group.victim.add(old.victim.hits, old.victim.stall_ns);
                group.memory.add(old.memory);
                group.since_ns = old.since_ns;
            }
        }
    }

    fn of(&mut self, id: u64) -> &mut Group {
        self.seats.get_mut(&id).unwrap_or(&mut self.other)
    }

    /// Gives seats to who has the highest scores, and takes them from who has fallen far behind.
    fn seat(&mut self, began_ns: u64) {
        self.scores.retain(|_, score| *score >= FORGOTTEN);
        let mut ranked: Vec<(u64, f64)> = self.scores.iter().map(|(id, s)| (*id, *s)).collect();
        // by id where two have the same, so that it doesn't depend on the order of a map
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        for (id, _) in ranked.drain(MOST.min(ranked.len())..) {
            self.scores.remove(&id);
        }
        let keeps = &ranked[..KEEPS.min(ranked.len())];
        self.seats
            .retain(|id, _| keeps.iter().any(|(kept, _)| kept == id));
        self.names = (self.names + NEW).min(AT_ONCE);
        for (id, score) in ranked.iter().take(SEATS) {
            if self.names < 1.0 || self.seats.contains_key(id) {
                continue;
            }
            if self.seats.len() == SEATS {
                // of those with a seat the last; it is beyond the first SEATS, as not all of these have one
                let last = ranked
                    .iter()
                    .rev()
                    .find(|(id, _)| self.seats.contains_key(id));
                if let Some((last, _)) = last.filter(|(_, least)| least * MORE <= *score) {
                    self.seats.remove(last);
                }
            }
            if self.seats.len() < SEATS {
                self.names -= 1.0;
                let group = Group {
                    since_ns: began_ns,
                    ..Group::default()
                };
                self.seats.insert(*id, group);
            }
        }
    }
}

/// Every row's time with its cgroup, which may have several: one for each mechanism.
fn by_cgroup(watched: &Watched) -> Vec<(u64, Memory)> {
    let rows = watched.rows.iter();
    rows.map(|row| (row.cgroup, Memory::of(watched, row)))
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
            counts: Counts {
                shootdowns,
                ..Counts::default()
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
            let mut groups = Groups::default();
            for by in intervals {
                let before: HashMap<u64, u64> = groups.seats().map(|(id, g)| (id, g.culprit.shootdowns)).collect();
                let other = groups.other().culprit.shootdowns;
                groups.add(&interval(&by), None, 1);
                prop_assert!(groups.seats().count() <= SEATS);
                let mut grown = groups.other().culprit.shootdowns - other;
                for (id, group) in groups.seats() {
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
        let mut groups = Groups::default();
        groups.add(&interval(&[(1, 100)]), None, 5);
        groups.add(&interval(&[(1, 100), (2, 100)]), None, 20);
        groups.begun_by(10);
        let since = |id| groups.seats[&id].since_ns;
        assert_eq!((since(1), since(2)), (5, 10));
    }

    /// Check that ten thousand cgroups have twenty names and little memory, and that the names are of those that do most.
    #[test]
    fn many_cgroups() {
        let mut groups = Groups::default();
        for round in 0..50_u64 {
            let by: Vec<_> = (1..=10_000)
                .map(|id| (id, 1 + 1000 * u64::from(id % 1000 == round % 3)))
                .collect();
            groups.add(&interval(&by), None, 1);
        }
        assert_eq!(groups.seats().count(), SEATS);
        assert!(
            groups.seats().all(|(id, _)| id % 1000 < 3),
            "{:?}",
            groups.seats
        );
        assert!(groups.scores.len() <= MOST);
    }

    /// Check that two that take turns at the last place don't take turns with the name, and that who does nothing any
    /// more loses its own.
    #[test]
    fn names_stay() {
        let mut groups = Groups::default();
        let busy: Vec<_> = (1..SEATS as u64).map(|id| (id, 10_000)).collect();
        for turn in 0..20 {
            let mut by = busy.clone();
            by.push((100 + turn % 2, 500));
            groups.add(&interval(&by), None, 1);
        }
        assert!(groups.seats.contains_key(&100) && !groups.seats.contains_key(&101));
        for _ in 0..1000 {
            groups.add(&interval(&busy), None, 1);
        }
        assert!(!groups.seats.contains_key(&100));
        assert_eq!(groups.seats().count(), SEATS - 1);
    }

    /// Check that a service that is started again goes on in its series, which never shrinks, and that its old number gives
    /// way; and that those whose names are not known are left alone.
    #[test]
    fn one_name_one_series() {
        let mut groups = Groups::default();
        groups.add(&interval(&[(7, 100), (8, 10), (9, 10)]), None, 1000);
        groups.add(&interval(&[(70, 5), (8, 10), (9, 10)]), None, 2000);
        let name = |id: u64| match id {
            7 | 70 => Some("/a.service"),
            8 => Some(""),
            _ => None,
        };
        groups.unite(name);
        let seats: HashMap<u64, &Group> = groups.seats().collect();
        assert_eq!(seats.len(), 3);
        let (is, then) = (&seats[&70].culprit.shootdowns, seats[&70].since_ns);
        assert_eq!((*is, then), (105, 1000));
        groups.add(&interval(&[(70, 5)]), None, 3000);
        groups.unite(name);
        assert_eq!(groups.seats[&70].culprit.shootdowns, 110);
        assert_eq!(groups.seats[&70].victim.hits, 110);
        assert!(!groups.seats.contains_key(&7));
    }

    /// Check that who spends time in memory management has a name without any shootdown, that its time adds up with that of
    /// the others, and that a service that is started again keeps it.
    #[test]
    fn time_has_names() {
        let mut groups = Groups::default();
        let row = |cgroup, samples, blocked_ns| WatchedRow {
            cgroup,
            mechanism: Mechanism::FaultAnon,
            samples,
            sleeps: u64::from(blocked_ns > 0),
            blocked_ns,
        };
        let watched = Watched {
            period_ns: 1_000_000,
            rows: vec![row(7, 3, 0), row(7, 1, 500), row(0, 1, 7), row(9, 0, 10)],
            ..Watched::default()
        };
        groups.add(&Tally::default(), Some(&watched), 1);
        let memory = |cpu_ns, blocked_ns| Memory { cpu_ns, blocked_ns };
        assert_eq!(groups.seats[&7].memory, memory(4_000_000, 500));
        // what can't be told apart, and who has done next to nothing
        assert_eq!(groups.other.memory, memory(1_000_000, 17));
        groups.unite(|_| Some("/a.service"));
        let again = Watched {
            rows: vec![row(70, 2, 0)],
            ..watched
        };
        groups.add(&Tally::default(), Some(&again), 2);
        groups.unite(|_| Some("/a.service"));
        assert_eq!(groups.seats[&70].memory, memory(6_000_000, 500));
        assert!(!groups.seats.contains_key(&7));
    }

    /// Check that the busiest has a name soon, also where all seats are taken by others that go on, and that these lose no more
    /// than one.
    #[test]
    fn the_busiest_has_a_name() {
        let mut groups = Groups::default();
        let mut by: Vec<_> = (1..=SEATS as u64).map(|id| (id, 100 * id)).collect();
        groups.add(&interval(&by), None, 1);
        by.push((100, 10_000));
        groups.add(&interval(&by), None, 1);
        assert!(groups.seats.contains_key(&100) && !groups.seats.contains_key(&1));
        assert_eq!(groups.seats().count(), SEATS);
        // one that does little more than the last waits
        by.push((101, 300));
        groups.add(&interval(&by), None, 1);
        assert!(!groups.seats.contains_key(&101) && groups.seats.contains_key(&2));
    }

    /// Check that cgroups that take turns, each busy for a minute and then gone, don't make more names than a server can bear.
    #[test]
    fn names_are_few_over_time() {
        let (mut groups, mut names) = (Groups::default(), std::collections::HashSet::new());
        // five hours of looks of 10 s
        for look in 0..1800_u64 {
            let by: Vec<_> = (0..25).map(|n| (1 + n + 25 * (look / 6), 1000)).collect();
            groups.add(&interval(&by), None, look);
            names.extend(groups.seats().map(|(id, _)| id));
        }
        assert!(names.len() <= 40 + 5 * SEATS, "{}", names.len());
        assert!(names.len() > 3 * SEATS, "{}", names.len());
    }
}
