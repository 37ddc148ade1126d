//! Sums over the rows of a trace, in memory that grows with what is told apart, not with the rows.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::PathBuf;

use quell_event::summary::{RegionRow, StackRow, ThreadRow};
use quell_event::trace::Row;
use quell_event::{Cause, Comm, Counts, CulpritTally, Histogram, Summary, Tally, VictimTally};

use super::Origin;
use super::code::Code;
use super::regions::Regions;

/// Anonymous ranges need no finer address: 2 MiB, so that an arena's ranges fall together.
const GRAIN_LOG2: u32 = 21;

/// What tells shootdowns apart for regions, stacks and origins.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pid: u32,
    cause: Cause,
    user_stack: i32,
    /// The range's start, rounded down; `u64::MAX` where everything is flushed.
    grain: u64,
}

impl Place {
    pub(super) fn of(row: &Row) -> Self {
        let grain = if row.full() {
            u64::MAX
        } else {
            row.start >> GRAIN_LOG2
        };
        Self {
            pid: row.pid,
            cause: row.cause,
            user_stack: row.user_stack,
            grain,
        }
    }
}

/// The sums.
#[derive(Default)]
pub(crate) struct Aggregate {
    places: HashMap<Place, (u64, u64)>,
    threads: HashMap<(u32, u32), (Comm, u64, u64)>,
    culprits: HashMap<(u32, Cause), (Comm, u64, Counts)>,
    victims: HashMap<(u32, bool), (Comm, u64, u64)>,
    wait: Histogram,
    delay: Histogram,
    stall: Histogram,
    first_ns: u64,
    last_ns: u64,
    unseen: u64,
}

impl Aggregate {
    /// Adds a row: a victim, and with the first of its shootdown the shootdown.
    pub(crate) fn take(&mut self, row: &Row) {
        let culprit = self
            .culprits
            .entry((row.pid, row.cause))
            .or_insert_with(|| (Comm::default(), row.cgroup, Counts::default()));
        culprit.2.victims += 1;
        if row.is_first() {
            culprit.0 = row.comm;
            let counts = &mut culprit.2;
            counts.shootdowns += 1;
            counts.full += u64::from(row.full());
            counts.pages += row.pages();
            counts.wait_ns += row.wait_ns;
            let thread = self.threads.entry((row.pid, row.tid)).or_default();
            thread.0 = row.comm;
            thread.1 += 1;
            thread.2 += row.wait_ns;
            let seen = self.places.entry(Place::of(row)).or_insert((0, row.start));
            seen.0 += 1;
            self.wait.record(row.wait_ns);
            if self.first_ns == 0 {
                self.first_ns = row.t_ns;
            }
            self.last_ns = self.last_ns.max(row.t_ns);
        }
        if row.is_unseen() {
            self.unseen += 1;
            return;
        }
        let counts = &mut culprit.2;
        counts.delay_ns += u64::from(row.delay_ns);
        counts.stall_ns += u64::from(row.stall_ns);
        self.delay.record(u64::from(row.delay_ns));
        self.stall.record(u64::from(row.stall_ns));
        let victim = self
            .victims
            .entry((row.victim_pid, row.bystander))
            .or_default();
        victim.0 = row.victim_comm;
        victim.1 += 1;
        victim.2 += u64::from(row.stall_ns);
    }

    /// What the rows alone say, where the probe's own counts are missing or not the last.
    pub(crate) fn tally(&self) -> Tally {
        let culprits = self
            .culprits
            .iter()
            .map(|(&(pid, cause), (comm, cgroup, counts))| CulpritTally {
                pid,
                comm: comm.text().into_owned(),
                cgroup: *cgroup,
                cause,
                detail: None,
                counts: counts.clone(),
            })
            .collect();
        let victims = self
            .victims
            .iter()
            .map(|(&(pid, bystander), (comm, hits, stall_ns))| VictimTally {
                pid,
                comm: comm.text().into_owned(),
                bystander,
                hits: *hits,
                stall_ns: *stall_ns,
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

    /// User stacks and how many shootdowns each has.
    pub(crate) fn user_stacks(&self) -> impl Iterator<Item = (i32, u64)> {
        let with_stack = self.places.iter().filter(|(p, _)| p.user_stack >= 0);
        with_stack.map(|(p, (n, _))| (p.user_stack, *n))
    }

    /// Adds the threads to their culprits.
    pub(crate) fn add_threads(&self, summary: &mut Summary) {
        let mut by_pid: HashMap<u32, Vec<ThreadRow>> = HashMap::new();
        for (&(pid, tid), (comm, shootdowns, wait_ns)) in &self.threads {
            by_pid.entry(pid).or_default().push(ThreadRow {
                tid,
                comm: comm.text().into_owned(),
                shootdowns: *shootdowns,
                wait_ns: *wait_ns,
            });
        }
        for culprit in &mut summary.culprits {
            culprit.threads = by_pid.remove(&culprit.pid).unwrap_or_default();
            culprit
                .threads
                .sort_by_key(|t| (Reverse(t.shootdowns), t.tid));
        }
    }

    /// Regions, most shootdowns first.
    pub(crate) fn regions(&self, regions: &Regions<'_>) -> Vec<RegionRow> {
        let mut rows: HashMap<String, u64> = HashMap::new();
        for (place, (n, start)) in &self.places {
            *rows.entry(region(regions, place, *start)).or_default() += n;
        }
        let mut rows: Vec<_> = rows
            .into_iter()
            .map(|(region, shootdowns)| RegionRow { region, shootdowns })
            .collect();
        rows.sort_by(|a, b| (b.shootdowns, &a.region).cmp(&(a.shootdowns, &b.region)));
        rows
    }

    /// The `most` user stacks with the most shootdowns. Stacks that read the same are one.
    pub(crate) fn stacks(&self, code: &Code, most: usize) -> Vec<StackRow> {
        let mut rows: HashMap<Vec<String>, HashMap<Cause, u64>> = HashMap::new();
        for (place, (n, _)) in &self.places {
            let Some(stack) = code.stack(place.user_stack) else {
                continue;
            };
            let frames = stack.frames.iter().map(ToString::to_string).collect();
            *rows
                .entry(frames)
                .or_default()
                .entry(place.cause)
                .or_default() += n;
        }
        let mut rows: Vec<_> = rows
            .into_iter()
            .map(|(frames, causes)| StackRow {
                frames,
                shootdowns: causes.values().sum(),
                cause: causes
                    .iter()
                    .max_by_key(|(c, n)| (**n, Reverse(**c)))
                    .map_or_else(String::new, |(c, _)| c.name().to_owned()),
            })
            .collect();
        rows.sort_by(|a, b| (b.shootdowns, &a.frames).cmp(&(a.shootdowns, &b.frames)));
        rows.truncate(most);
        rows
    }

    /// Where shootdowns came from, for a plan.
    pub(crate) fn origins(&self, code: &Code, regions: &Regions<'_>) -> Vec<Origin> {
        // cause, module, symbol, region
        type From<'a> = (Cause, Option<&'a str>, Option<&'a str>, String);
        let mut rows: HashMap<From<'_>, u64> = HashMap::new();
        for (place, (n, start)) in &self.places {
            let caller = code.caller(place.user_stack);
            let key = (
                place.cause,
                caller.and_then(|f| f.module.as_deref()),
                caller.and_then(|f| f.symbol.as_deref()),
                region(regions, place, *start),
            );
            *rows.entry(key).or_default() += n;
        }
        let mut rows: Vec<_> = rows
            .into_iter()
            .map(|((cause, module, symbol, region), shootdowns)| Origin {
                cause,
                module: module.map(PathBuf::from),
                symbol: symbol.map(str::to_owned),
                region,
                shootdowns,
            })
            .collect();
        rows.sort_by(|a, b| {
            (b.shootdowns, a.cause, &a.region).cmp(&(a.shootdowns, b.cause, &b.region))
        });
        rows
    }
}

/// What lies at a place, where a range begins at `start`.
pub(super) fn region(regions: &Regions<'_>, place: &Place, start: u64) -> String {
    match place.cause {
        Cause::Kernel => "the kernel's own mappings".to_owned(),
        Cause::Exit | Cause::Exec | Cause::Fork => "whole address space".to_owned(),
        _ => regions.name(place.pid, start, place.grain == u64::MAX, place.user_stack),
    }
}
