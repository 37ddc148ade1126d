//! The regions of memory at the ranges of everybody's shootdowns.
//!
//! The counts hold no addresses. So one in so many shootdowns leaves a sample, some hundreds a second whatever the rate, and the
//! exact count of each process and cause is divided among its regions in proportion to the samples.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use quell_event::tally_summary::CulpritRow;
use quell_event::{Cause, Tally};
use quell_probe::ShootdownSample;
use serde::Serialize;

use super::filter::RowFilter;
use super::grid::{Grid, GridColumn, RowId, passed_text, sampling_text};
use crate::show::units::count;

/// The shootdowns of one process and cause at one region, in one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RegionShootdowns {
    pub(crate) pid: u32,
    /// The name that the process has among the culprits: its threads may have others.
    pub(crate) comm: String,
    pub(crate) cause: &'static str,
    pub(crate) region: String,
    /// The count is an estimate from the samples.
    pub(crate) shootdowns: u64,
}

/// The regions of one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct SampledRegions {
    /// How many shootdowns were sampled.
    pub(crate) shootdowns: u64,
    /// One in so many shootdowns was sampled, on average.
    pub(crate) one_in: u64,
    /// The regions, most shootdowns first. Shootdowns that were not sampled add none.
    pub(crate) regions: Vec<RegionShootdowns>,
}

/// The table of the regions of an interval of so many ns. `regions` is `None` where they can't be known.
pub(crate) fn grid_of_regions(
    regions: Option<&SampledRegions>,
    duration_ns: u64,
    filter: &RowFilter,
) -> Grid {
    match regions {
        Some(regions) => regions.region_grid(filter, duration_ns),
        None => Grid {
            title: "Regions".to_owned(),
            empty: match duration_ns {
                0 => "nothing yet",
                _ => "not known with --cpu",
            },
            ..Grid::default()
        },
    }
}

impl SampledRegions {
    /// The table by process and region, of the rows that pass the filter.
    fn region_grid(&self, filter: &RowFilter, duration_ns: u64) -> Grid {
        // a process and its region, and the name and the shootdowns of the process there
        type Column<'a> = GridColumn<'a, ((u32, &'a str), (&'a str, u64))>;
        let passes = |r: &&RegionShootdowns| {
            filter.passes_named(&r.comm, r.pid)
                || filter.passes_text(r.cause)
                || filter.passes_text(&r.region)
        };
        let mut sums: BTreeMap<(u32, &str), (&str, u64)> = BTreeMap::new();
        for r in self.regions.iter().filter(passes) {
            let sum = sums.entry((r.pid, &r.region)).or_insert((&r.comm, 0));
            sum.1 += r.shootdowns;
        }
        let mut rows: Vec<_> = sums.into_iter().collect();
        rows.sort_by_key(|(_, (_, n))| Reverse(*n));
        let mut note = format!("about, {}", sampling_text(self.shootdowns, self.one_in));
        if !filter.is_empty() {
            let all: HashSet<_> = self.regions.iter().map(|r| (r.pid, &r.region)).collect();
            note = format!("{}, {note}", passed_text(rows.len(), all.len()));
        }
        Grid {
            title: format!("Regions {}", count(rows.len() as u64)),
            note,
            empty: "none seen",
            ..Grid::of_rows(
                &rows,
                vec![
                    Column::of_rates("shoot/s", duration_ns, |(_, (_, n))| *n),
                    Column::of_ids("pid", |((pid, _), _)| *pid).marked_spare(),
                    Column::of_names("name", |(_, (comm, _))| (*comm).to_owned()),
                    Column::of_names("region", |((_, region), _)| (*region).to_owned())
                        .marked_long(),
                ],
                |((pid, region), _)| RowId::Region(*pid, (*region).to_owned()),
            )
        }
    }
}

/// How many samples of a process and cause came before their counts: so many of the counts that follow are shared out already.
pub(super) type SharedAhead = HashMap<(u32, Cause), u64>;

/// Divides the count of each process and cause among its regions. Each sample weighs as many shootdowns as it stands for, and
/// carries the number of its region in `samples`. The caller keeps `ahead` from interval to interval.
pub(super) fn share_out(
    samples: &[(&ShootdownSample, u32)],
    names: &[String],
    tally: &Tally,
    culprits: &[CulpritRow],
    ahead: &mut SharedAhead,
) -> Vec<RegionShootdowns> {
    let mut counts: HashMap<(u32, Cause), u64> = HashMap::new();
    for c in &tally.culprits {
        *counts.entry((c.pid, c.cause)).or_default() += c.counts.shootdowns;
    }
    ahead.retain(|key, early| {
        if let Some(count) = counts.get_mut(key) {
            let here = (*early).min(*count);
            *count -= here;
            *early -= here;
        }
        *early > 0
    });
    let mut found: BTreeMap<(u32, Cause), (u64, BTreeMap<u32, u64>)> = BTreeMap::new();
    for (s, region) in samples {
        let (seen, regions) = found.entry((s.counted_as, s.cause)).or_default();
        *seen += 1;
        *regions.entry(*region).or_default() += u64::from(s.every);
    }
    let comms: HashMap<u32, &str> = culprits.iter().map(|c| (c.pid, c.comm.as_str())).collect();
    let mut rows = Vec::new();
    for ((pid, cause), (seen, regions)) in found {
        let counted = counts.get(&(pid, cause)).copied().unwrap_or(0);
        // the counts are some shootdowns behind the samples, and a sampled shootdown did happen
        let all = counted.max(seen);
        if seen > counted {
            *ahead.entry((pid, cause)).or_default() += seen - counted;
        }
        for (region, shootdowns) in proportional_shares(&regions, all) {
            rows.push(RegionShootdowns {
                pid,
                comm: comms.get(&pid).copied().unwrap_or_default().to_owned(),
                cause: cause.name(),
                region: names.get(region as usize).cloned().unwrap_or_default(),
                shootdowns,
            });
        }
    }
    rows.sort_by_key(|r| Reverse(r.shootdowns));
    rows
}

/// Divides `all` by these weights, so that the shares add up to it: the largest share gets the remainder of the rounding.
fn proportional_shares(weights: &BTreeMap<u32, u64>, all: u64) -> Vec<(u32, u64)> {
    let sum: u128 = weights.values().map(|&w| u128::from(w)).sum();
    let share = |w: u64| u128::from(all) * u128::from(w) / sum.max(1);
    let mut shares: Vec<(u32, u64)> = weights
        .iter()
        .map(|(&key, &w)| (key, u64::try_from(share(w)).unwrap_or(u64::MAX)))
        .collect();
    let given: u64 = shares.iter().map(|s| s.1).sum();
    if let Some(largest) = shares.iter_mut().max_by_key(|s| s.1) {
        largest.1 += all.saturating_sub(given);
    }
    shares
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::top::fixture;

    fn sample_of(counted_as: u32, cause: Cause, every: u32) -> ShootdownSample {
        ShootdownSample {
            pid: 7,
            counted_as,
            every,
            cause,
            own_mm: true,
            start: 0,
            end: 4096,
            stack: Vec::new(),
            caller: 0,
        }
    }

    /// Check that the counts of a process and a cause are shared out by its own samples alone, each by
    /// what it stands for, under the name that the process has among the culprits, and that the ones that
    /// the counts don't tell apart are shared out together.
    #[test]
    fn counts_are_shared_out() {
        let culprits = vec![
            fixture::culprit_tally(7, "x", Cause::Munmap, 900),
            fixture::culprit_tally(7, "x", Cause::Mprotect, 50),
            fixture::culprit_tally(8, "y", Cause::Munmap, 10),
            fixture::culprit_tally(0, "(more)", Cause::Other, 70),
        ];
        let tally = Tally {
            culprits,
            ..Tally::default()
        };
        let names = ["heap".to_owned(), "file".to_owned()];
        let (a, b) = (
            sample_of(7, Cause::Munmap, 1),
            sample_of(7, Cause::Munmap, 2),
        );
        let (c, d) = (
            sample_of(7, Cause::Mprotect, 9),
            sample_of(0, Cause::Other, 3),
        );
        let samples = [(&a, 1), (&b, 0), (&c, 1), (&d, 0)];
        let summary = quell_event::TallySummary::new(&tally, "", 2);
        let found = share_out(
            &samples,
            &names,
            &tally,
            &summary.culprits,
            &mut SharedAhead::new(),
        );
        let found: Vec<_> = found
            .iter()
            .map(|r| (r.comm.as_str(), r.cause, r.region.as_str(), r.shootdowns))
            .collect();
        let expected = [
            ("x", "munmap", "heap", 600),
            ("x", "munmap", "file", 300),
            ("(more)", "other", "heap", 70),
            ("x", "mprotect", "file", 50),
        ];
        assert_eq!(found, expected);
    }

    proptest! {
        /// Check that from interval to interval nothing is shared out twice: where every shootdown leaves a
        /// sample, and counts come later, regions have as many as were seen, in every interval.
        #[test]
        fn late_counts_are_not_shared_out_again(seen in proptest::collection::vec(1usize..20, 1..10), late in proptest::collection::vec(0u64..5, 10)) {
            let names = ["heap".to_owned()];
            let one = sample_of(7, Cause::Munmap, 1);
            let mut ahead = SharedAhead::new();
            let (mut all, mut counted) = (0, 0);
            for (n, late) in seen.into_iter().zip(late) {
                all += n as u64;
                // never less than was counted before
                let now = all.saturating_sub(late).max(counted);
                let culprits = vec![fixture::culprit_tally(7, "x", Cause::Munmap, now - counted)];
                counted = now;
                let tally = Tally { culprits, ..Tally::default() };
                let samples = vec![(&one, 0); n];
                let found = share_out(&samples, &names, &tally, &[], &mut ahead);
                let shared: u64 = found.iter().map(|r| r.shootdowns).sum();
                prop_assert_eq!(shared, n as u64);
                prop_assert_eq!(ahead.values().sum::<u64>(), all - counted);
            }
        }

        /// Check that shares add up to the whole, and that none is more than one away from its weight,
        /// but for the largest.
        #[test]
        fn shares_add_up(weights in proptest::collection::btree_map(any::<u32>(), 1u64..1 << 40, 1..20), all in any::<u32>()) {
            let all = u64::from(all);
            let found = proportional_shares(&weights, all);
            prop_assert_eq!(found.iter().map(|s| s.1).sum::<u64>(), all);
            let sum: u64 = weights.values().sum();
            let largest = found.iter().map(|s| s.1).max();
            for (key, share) in &found {
                let exact = all as f64 * weights[key] as f64 / sum as f64;
                let near = (*share as f64 - exact).abs() <= 1.0 + exact * 1e-9;
                prop_assert!(near || Some(*share) == largest, "{share} for {exact}");
            }
        }
    }
}
