//! Sums over the rows of a trace. Their memory grows with the number of distinct keys, not with that of rows.

use std::cmp::Reverse;

use quell_event::tally_summary::ThreadRow;
use quell_event::trace::{EventRow, RowSums};
use quell_event::{
    Cause, Comm, CulpritTally, Histogram, ShootdownCounts, Tally, TallySummary, VictimTally,
};

use super::mappings::Mappings;
use super::place::Place;
use super::quick_map::QuickMap;

/// A name of a process or thread, of which the latest counts.
#[derive(Default)]
struct LatestName {
    comm: Comm,
    /// The part of the trace that it is from, counted from 1; 0 where there is no name yet.
    part: u32,
}

impl LatestName {
    fn add(&mut self, other: Self) {
        if other.part > self.part {
            *self = other;
        }
    }
}

#[derive(Default)]
struct ThreadSums {
    name: LatestName,
    shootdowns: u64,
    wait_ns: u64,
}

struct CulpritSums {
    name: LatestName,
    /// The first cgroup, and the part that it is from.
    cgroup: u64,
    part: u32,
    counts: ShootdownCounts,
}

#[derive(Default)]
struct VictimSums {
    name: LatestName,
    hits: u64,
    stall_ns: u64,
}

/// The sums. Where the first or the latest of something counts, the part of the trace decides which one that is, so that
/// several sums can be added whatever parts each has.
#[derive(Default)]
pub(crate) struct Aggregate {
    /// The part that rows are from, counted from 1.
    part: u32,
    /// The number of shootdowns that each place asked for.
    places: QuickMap<Place, u64>,
    threads: QuickMap<(u32, u32), ThreadSums>,
    culprits: QuickMap<(u32, Cause), CulpritSums>,
    victims: QuickMap<(u32, bool), VictimSums>,
    wait: Histogram,
    delay: Histogram,
    stall: Histogram,
    /// The time of the first shootdown, and the part that it is from; 0 where there is none yet.
    first_ns: u64,
    first_part: u32,
    last_ns: u64,
    /// Victims that were counted but not seen in their handler.
    unseen: u64,
}

/// Sums up a trace whose mappings are known.
pub(crate) struct RowSummer<'a> {
    mappings: &'a Mappings,
    pub(crate) sum: Aggregate,
}

impl<'a> RowSummer<'a> {
    pub(crate) fn new(mappings: &'a Mappings) -> Self {
        Self {
            mappings,
            sum: Aggregate::default(),
        }
    }
}

impl RowSums for RowSummer<'_> {
    fn begin_part(&mut self, part: u32) {
        self.sum.part = part.saturating_add(1);
    }

    fn add_row(&mut self, row: &EventRow) {
        self.sum.add_row(row, self.mappings);
    }
}

impl Aggregate {
    /// Adds a row: a victim, and if it is the first row of its shootdown, the shootdown too. A victim that was not seen in its
    /// handler has neither a name nor times, so it counts for its culprit alone.
    pub(crate) fn add_row(&mut self, row: &EventRow, mappings: &Mappings) {
        let part = self.part;
        let culprit = self
            .culprits
            .entry((row.pid, row.cause))
            .or_insert_with(|| CulpritSums {
                name: LatestName::default(),
                cgroup: row.cgroup,
                part,
                counts: ShootdownCounts::default(),
            });
        let name = |comm| LatestName { comm, part };
        culprit.counts.victims += 1;
        if row.is_first() {
            culprit.name = name(row.comm);
            let counts = &mut culprit.counts;
            counts.shootdowns += 1;
            counts.full += u64::from(row.is_full());
            counts.pages += row.page_count();
            counts.wait_ns += row.wait_ns;
            let thread = self.threads.entry((row.pid, row.tid)).or_default();
            thread.name = name(row.comm);
            thread.shootdowns += 1;
            thread.wait_ns += row.wait_ns;
            *self.places.entry(Place::of_row(row, mappings)).or_default() += 1;
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

    /// Adds the sums over other parts of the same trace.
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
            let mine = self.culprits.entry(key).or_insert_with(|| CulpritSums {
                name: LatestName::default(),
                cgroup: theirs.cgroup,
                part: theirs.part,
                counts: ShootdownCounts::default(),
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

    /// The counts by the rows alone, for a trace in which the probe's own counts are missing or not the latest. They last from
    /// the first shootdown to the last one. Rows don't have the cgroup of a victim.
    pub(crate) fn tally_of_rows(&self) -> Tally {
        let mut culprits: Vec<_> = self
            .culprits
            .iter()
            .map(|(&(pid, cause), culprit)| CulpritTally {
                pid,
                comm: culprit.name.comm.as_text().into_owned(),
                cgroup: culprit.cgroup,
                cause,
                detail: None,
                counts: culprit.counts.clone(),
            })
            .collect();
        // Where two names of a process count alike, the order decides.
        culprits.sort_by_key(|c| (c.pid, c.cause));
        let victims = self
            .victims
            .iter()
            .map(|(&(pid, bystander), victim)| VictimTally {
                pid,
                comm: victim.name.comm.as_text().into_owned(),
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

    /// The places, with the number of shootdowns that each asked for.
    pub(super) fn place_counts(&self) -> impl Iterator<Item = (&Place, u64)> {
        self.places.iter().map(|(place, n)| (place, *n))
    }

    /// Adds the threads to their culprits.
    pub(crate) fn add_threads(&self, summary: &mut TallySummary) {
        let mut by_pid: QuickMap<u32, Vec<ThreadRow>> = QuickMap::default();
        for (&(pid, tid), thread) in &self.threads {
            by_pid.entry(pid).or_default().push(ThreadRow {
                tid,
                comm: thread.name.comm.as_text().into(),
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
