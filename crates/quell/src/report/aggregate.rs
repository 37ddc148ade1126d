//! Sums over the rows of a trace, in memory that grows with what is told apart, not with the rows.

use std::cmp::Reverse;

use quell_event::summary::ThreadRow;
use quell_event::trace::{Row, Sums};
use quell_event::{Cause, Comm, Counts, CulpritTally, Histogram, Summary, Tally, VictimTally};

use super::mappings::Mappings;
use super::place::Place;
use super::quick_map::QuickMap;

/// A name, of which the last counts.
#[derive(Default)]
struct Last {
    comm: Comm,
    /// The part that it is from, from 1; 0 is of none.
    part: u32,
}

impl Last {
    fn add(&mut self, other: Self) {
        if other.part > self.part {
            *self = other;
        }
    }
}

#[derive(Default)]
struct Thread {
    name: Last,
    shootdowns: u64,
    wait_ns: u64,
}

struct Culprit {
    name: Last,
    /// The first, and the part that it is from.
    cgroup: u64,
    part: u32,
    counts: Counts,
}

#[derive(Default)]
struct Victim {
    name: Last,
    hits: u64,
    stall_ns: u64,
}

/// The sums. Where the first or the last of something counts, the part of the trace tells which that
/// is, so that several can be added whatever parts each has.
#[derive(Default)]
pub(crate) struct Aggregate {
    /// The part that rows are from, from 1.
    part: u32,
    /// How many shootdowns each asked for.
    places: QuickMap<Place, u64>,
    threads: QuickMap<(u32, u32), Thread>,
    culprits: QuickMap<(u32, Cause), Culprit>,
    victims: QuickMap<(u32, bool), Victim>,
    wait: Histogram,
    delay: Histogram,
    stall: Histogram,
    first_ns: u64,
    first_part: u32,
    last_ns: u64,
    unseen: u64,
}

/// Sums up a trace, of which it is known what was mapped.
pub(crate) struct Summing<'a> {
    mappings: &'a Mappings,
    pub(crate) sum: Aggregate,
}

impl<'a> Summing<'a> {
    pub(crate) fn new(mappings: &'a Mappings) -> Self {
        Self {
            mappings,
            sum: Aggregate::default(),
        }
    }
}

impl Sums for Summing<'_> {
    fn begin(&mut self, part: u32) {
        self.sum.part = part.saturating_add(1);
    }

    fn take(&mut self, row: &Row) {
        self.sum.take(row, self.mappings);
    }
}

impl Aggregate {
    /// Adds a row: a victim, and with the first of its shootdown the shootdown.
    pub(crate) fn take(&mut self, row: &Row, mappings: &Mappings) {
        let part = self.part;
        let culprit = self
            .culprits
            .entry((row.pid, row.cause))
            .or_insert_with(|| Culprit {
                name: Last::default(),
                cgroup: row.cgroup,
                part,
                counts: Counts::default(),
            });
        let name = |comm| Last { comm, part };
        culprit.counts.victims += 1;
        if row.is_first() {
            culprit.name = name(row.comm);
            let counts = &mut culprit.counts;
            counts.shootdowns += 1;
            counts.full += u64::from(row.full());
            counts.pages += row.pages();
            counts.wait_ns += row.wait_ns;
            let thread = self.threads.entry((row.pid, row.tid)).or_default();
            thread.name = name(row.comm);
            thread.shootdowns += 1;
            thread.wait_ns += row.wait_ns;
            *self.places.entry(Place::of(row, mappings)).or_default() += 1;
            self.wait.record(row.wait_ns);
            if self.first_ns == 0 {
                (self.first_ns, self.first_part) = (row.t_ns, part);
            }
            self.last_ns = self.last_ns.max(row.t_ns);
        }
        if row.is_unseen() {
            self.unseen += 1;
            return;
        }
        let counts = &mut culprit.counts;
        counts.delay_ns += u64::from(row.delay_ns);
        counts.stall_ns += u64::from(row.stall_ns);
        self.delay.record(u64::from(row.delay_ns));
        self.stall.record(u64::from(row.stall_ns));
        let victim = self
            .victims
            .entry((row.victim_pid, row.bystander))
            .or_default();
        victim.name = name(row.victim_comm);
        victim.hits += 1;
        victim.stall_ns += u64::from(row.stall_ns);
    }

    /// Adds another, of other parts of the same trace.
    pub(crate) fn add(&mut self, other: Self) {
        for (place, shootdowns) in other.places {
            *self.places.entry(place).or_default() += shootdowns;
        }
        for (key, theirs) in other.threads {
            let mine = self.threads.entry(key).or_default();
            mine.name.add(theirs.name);
            mine.shootdowns += theirs.shootdowns;
            mine.wait_ns += theirs.wait_ns;
        }
        for (key, theirs) in other.culprits {
            let mine = self.culprits.entry(key).or_insert_with(|| Culprit {
                name: Last::default(),
                cgroup: theirs.cgroup,
                part: theirs.part,
                counts: Counts::default(),
            });
            mine.name.add(theirs.name);
            mine.counts.add(&theirs.counts);
            if theirs.part < mine.part {
                (mine.cgroup, mine.part) = (theirs.cgroup, theirs.part);
            }
        }
        for (key, theirs) in other.victims {
            let mine = self.victims.entry(key).or_default();
            mine.name.add(theirs.name);
            mine.hits += theirs.hits;
            mine.stall_ns += theirs.stall_ns;
        }
        self.wait.merge(&other.wait);
        self.delay.merge(&other.delay);
        self.stall.merge(&other.stall);
        if self.first_ns == 0 || (other.first_ns != 0 && other.first_part < self.first_part) {
            (self.first_ns, self.first_part) = (other.first_ns, other.first_part);
        }
        self.last_ns = self.last_ns.max(other.last_ns);
        self.unseen += other.unseen;
    }

    /// What the rows alone say, where the probe's own counts are missing or not the last.
    pub(crate) fn tally(&self) -> Tally {
        let mut culprits: Vec<_> = self
            .culprits
            .iter()
            .map(|(&(pid, cause), culprit)| CulpritTally {
                pid,
                comm: culprit.name.comm.text().into_owned(),
                cgroup: culprit.cgroup,
                cause,
                detail: None,
                counts: culprit.counts.clone(),
            })
            .collect();
        // where two names of a process count alike, the order decides
        culprits.sort_by_key(|c| (c.pid, c.cause));
        let victims = self
            .victims
            .iter()
            .map(|(&(pid, bystander), victim)| VictimTally {
                pid,
                comm: victim.name.comm.text().into_owned(),
                cgroup: 0,
                bystander,
                hits: victim.hits,
                stall_ns: victim.stall_ns,
            })
            .collect();
        Tally {
            duration_ns: self.last_ns.saturating_sub(self.first_ns),
            culprits,
            victims,
            wait: self.wait.clone(),
            delay: self.delay.clone(),
            stall: self.stall.clone(),
            unseen: self.unseen,
            ..Tally::default()
        }
    }

    /// How many shootdowns each place asked for.
    pub(super) fn places(&self) -> impl Iterator<Item = (&Place, u64)> {
        self.places.iter().map(|(place, n)| (place, *n))
    }

    /// Adds the threads to their culprits.
    pub(crate) fn add_threads(&self, summary: &mut Summary) {
        let mut by_pid: QuickMap<u32, Vec<ThreadRow>> = QuickMap::default();
        for (&(pid, tid), thread) in &self.threads {
            by_pid.entry(pid).or_default().push(ThreadRow {
                tid,
                comm: thread.name.comm.text().into(),
                shootdowns: thread.shootdowns,
                wait_ns: thread.wait_ns,
            });
        }
        for culprit in &mut summary.culprits {
            culprit.threads = by_pid.remove(&culprit.pid).unwrap_or_default();
            culprit
                .threads
                .sort_by_key(|t| (Reverse(t.shootdowns), t.tid));
        }
    }
}
