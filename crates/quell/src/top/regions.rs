//! What lies at the ranges of everybody's shootdowns.
//!
//! The counts know no addresses. So one in so many shootdowns leaves a sample, some hundreds a second
//! whatever the rate, and the exact count of each process and cause is shared out among its regions as
//! the samples are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use quell_event::{Cause, Tally};
use quell_probe::Sample;
use serde::Serialize;

use super::filter::Filter;
use super::grid::{Column, Grid, Id, Key, Line, Mark};
use super::sample::Sample as Interval;
use crate::show::units::{count, rate};

/// What lies somewhere, in one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Region {
    pub(crate) pid: u32,
    pub(crate) comm: String,
    pub(crate) cause: &'static str,
    pub(crate) region: String,
    /// About how many, from the samples.
    pub(crate) shootdowns: u64,
}

/// The regions of one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Regions {
    /// How many shootdowns were looked at.
    pub(crate) sampled: u64,
    /// One in so many of each CPU.
    pub(crate) one_in: u32,
    /// Most shootdowns first.
    pub(crate) regions: Vec<Region>,
}

/// The regions of an interval, as a table.
pub(crate) fn grid(sample: &Interval, filter: &Filter) -> Grid {
    match &sample.regions {
        Some(regions) => regions.grid(filter, sample.duration_ns()),
        None => Grid {
            title: "Regions".to_owned(),
            empty: "not known with --cpu; a process that is opened has its own",
            ..Grid::default()
        },
    }
}

impl Regions {
    /// By process and region, of what passes the filter.
    fn grid(&self, filter: &Filter, duration_ns: u64) -> Grid {
        let passes = |r: &&Region| {
            filter.name(&r.comm, r.pid) || filter.text(r.cause) || filter.text(&r.region)
        };
        let mut sums: BTreeMap<(u32, &str, &str), u64> = BTreeMap::new();
        for r in self.regions.iter().filter(passes) {
            *sums.entry((r.pid, &r.comm, &r.region)).or_default() += r.shootdowns;
        }
        let mut rows: Vec<_> = sums.into_iter().collect();
        rows.sort_by_key(|(_, n)| Reverse(*n));
        let lines = rows.into_iter().map(|((pid, comm, region), n)| Line {
            id: Id::Region(pid, region.to_owned()),
            cells: vec![
                rate(n, duration_ns),
                pid.to_string(),
                comm.to_owned(),
                region.to_owned(),
            ],
            keys: vec![
                Key::Number(n),
                Key::Number(pid.into()),
                Key::Text(comm.to_owned()),
                Key::Text(region.to_owned()),
            ],
            mark: Mark::None,
        });
        let lines: Vec<Line> = lines.collect();
        let all = match self.one_in {
            0 | 1 => String::new(),
            n => format!(", one in {}", count(n.into())),
        };
        Grid {
            title: format!("Regions {}", count(lines.len() as u64)),
            note: format!("about, of {} seen{all}", count(self.sampled)),
            columns: vec![
                Column::number("shoot/s"),
                Column::id("pid").spare(),
                Column::name("name"),
                Column::name("region").long(),
            ],
            lines,
            sortable: true,
            empty: "none seen",
        }
    }
}

/// Shares out the count of each process and cause as its samples are. `samples` are the process, the
/// cause and what lies there.
pub(super) fn share_out(
    samples: &[(&Sample, u32)],
    names: &[String],
    tally: &Tally,
) -> Vec<Region> {
    let mut counts: HashMap<(u32, Cause), u64> = HashMap::new();
    for c in &tally.culprits {
        *counts.entry((c.pid, c.cause)).or_default() += c.counts.shootdowns;
    }
    let mut seen: HashMap<(u32, Cause), u64> = HashMap::new();
    let mut found: BTreeMap<(u32, &str, Cause, u32), u64> = BTreeMap::new();
    for (s, region) in samples {
        *seen.entry((s.pid, s.cause)).or_default() += 1;
        let key = (s.pid, s.comm.as_str(), s.cause, *region);
        *found.entry(key).or_default() += 1;
    }
    let mut regions: Vec<Region> = found
        .into_iter()
        .map(|((pid, comm, cause, region), n)| {
            let of = |map: &HashMap<_, u64>| map.get(&(pid, cause)).copied().unwrap_or(0);
            // the counts are some shootdowns behind: what was seen was there
            let all = u128::from(of(&counts).max(of(&seen)));
            let share = all * u128::from(n) / u128::from(of(&seen).max(1));
            Region {
                pid,
                comm: comm.to_owned(),
                cause: cause.name(),
                region: names.get(region as usize).cloned().unwrap_or_default(),
                shootdowns: u64::try_from(share).unwrap_or(u64::MAX),
            }
        })
        .collect();
    regions.sort_by_key(|r| Reverse(r.shootdowns));
    regions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::fixture;

    fn sample(pid: u32, cause: Cause) -> Sample {
        Sample {
            pid,
            comm: "x".to_owned(),
            cause,
            start: 0,
            end: 4096,
            stack: Vec::new(),
            caller: 0,
        }
    }

    /// Check that the counts of a process and a cause are shared out by its own samples alone, and that
    /// the shares add up to the count.
    #[test]
    fn counts_are_shared_out() {
        let tally = Tally {
            culprits: vec![
                fixture::culprit(7, "x", Cause::Munmap, 900),
                fixture::culprit(7, "x", Cause::Mprotect, 50),
                fixture::culprit(8, "y", Cause::Munmap, 10),
            ],
            ..Tally::default()
        };
        let names = ["heap".to_owned(), "file".to_owned()];
        let (a, b) = (sample(7, Cause::Munmap), sample(7, Cause::Mprotect));
        let found = share_out(&[(&a, 0), (&a, 1), (&a, 0), (&b, 1)], &names, &tally);
        let found: Vec<_> = found
            .iter()
            .map(|r| (r.cause, r.region.as_str(), r.shootdowns))
            .collect();
        let expected = [
            ("munmap", "heap", 600),
            ("munmap", "file", 300),
            ("mprotect", "file", 50),
        ];
        assert_eq!(found, expected);
    }
}
