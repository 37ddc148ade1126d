//! Watches a CPU beside whatever runs there: a victim spins on it, and every gap gets its cause and the process behind it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::attribute::{ClassifiedBlock, GapClass};
use crate::lengths::{length_percentile, round_to_digits};

/// The name of this contract.
pub const WATCH_SCHEMA: &str = "quell/lab-watch/1";

/// Gaps of one class, or of one class by one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GapLengths {
    /// Lengths to three digits, and their number: some thousand entries, however long the watch is.
    lengths: BTreeMap<u64, u64>,
    /// Their sum, ns.
    pub ns: u64,
    /// The longest, ns: an event, not a statistic.
    pub longest_ns: u64,
    /// Their number.
    pub count: u64,
}

impl GapLengths {
    fn add_gap(&mut self, ns: u64) {
        self.count += 1;
        self.ns += ns;
        self.longest_ns = self.longest_ns.max(ns);
        *self.lengths.entry(round_to_digits(ns, 3)).or_default() += 1;
    }

    /// So many of 100,000 gaps are no longer than this, ns, to three digits; none where too few lie beyond.
    fn percentile(&self, of_100_000: u64) -> Option<u64> {
        length_percentile(&self.lengths, of_100_000)
    }
}

/// The sums of all blocks so far.
#[derive(Clone, Debug, Default)]
pub struct WatchTotals {
    /// The time that the victim wanted to run, ns.
    pub spun_ns: u64,
    /// The time that others had its CPU, ns.
    pub away_ns: u64,
    /// By class.
    pub classes: BTreeMap<GapClass, GapLengths>,
    /// By class and process.
    pub by: BTreeMap<(GapClass, u32), GapLengths>,
    /// Shootdowns that interrupted the victim, and those of them that lie in a gap.
    pub matched: (u64, u64),
}

impl WatchTotals {
    /// Adds a block.
    pub fn add_block(&mut self, block: &ClassifiedBlock) {
        self.spun_ns += block.end_ns - block.begin_ns;
        self.away_ns += block.away_ns;
        self.matched.0 += block.hits;
        self.matched.1 += block.matched;
        for told in &block.gaps {
            self.classes
                .entry(told.class)
                .or_default()
                .add_gap(told.gap.ns);
            if told.by != 0 {
                let by = self.by.entry((told.class, told.by)).or_default();
                by.add_gap(told.gap.ns);
            }
        }
    }

    /// The JSON object; `name` finds the names of processes.
    #[must_use]
    pub fn to_document(&self, cpu: u32, lost: u64, name: &dyn Fn(u32) -> String) -> WatchDocument {
        let classes = self.classes.iter().map(|(class, gaps)| WatchClassRow {
            class: *class,
            gaps: gaps.count,
            ns: gaps.ns,
            p50: gaps.percentile(50_000),
            p99: gaps.percentile(99_000),
            longest: gaps.longest_ns,
        });
        let mut by: Vec<WatchProcessRow> = self
            .by
            .iter()
            .map(|((class, pid), gaps)| WatchProcessRow {
                class: *class,
                pid: *pid,
                comm: name(*pid),
                gaps: gaps.count,
                ns: gaps.ns,
                longest: gaps.longest_ns,
            })
            .collect();
        by.sort_by_key(|row| std::cmp::Reverse(row.ns));
        WatchDocument {
            schema: WATCH_SCHEMA,
            cpu,
            spun_ns: self.spun_ns,
            away_ns: self.away_ns,
            lost,
            shootdowns: self.matched.0,
            matched: self.matched.1,
            classes: classes.collect(),
            by,
        }
    }
}

/// The JSON document.
#[derive(Clone, Debug, Serialize)]
pub struct WatchDocument {
    /// [`WATCH_SCHEMA`].
    pub schema: &'static str,
    /// Which CPU.
    pub cpu: u32,
    /// The time that the victim wanted to run, ns.
    pub spun_ns: u64,
    /// The time that others had its CPU, ns.
    pub away_ns: u64,
    /// Records that were lost.
    pub lost: u64,
    /// Shootdowns that interrupted the victim.
    pub shootdowns: u64,
    /// Those that lie in a gap.
    pub matched: u64,
    /// By class.
    pub classes: Vec<WatchClassRow>,
    /// By class and process, the longest first.
    pub by: Vec<WatchProcessRow>,
}

/// Gaps of a class.
#[derive(Clone, Debug, Serialize)]
pub struct WatchClassRow {
    /// Which.
    pub class: GapClass,
    /// Their number.
    pub gaps: u64,
    /// Their sum, ns.
    pub ns: u64,
    /// Their median, ns; null where too few were seen.
    pub p50: Option<u64>,
    /// Their 99th percentile, ns; null where too few were seen.
    pub p99: Option<u64>,
    /// The longest that was seen, ns.
    pub longest: u64,
}

/// Gaps of a class that a process made.
#[derive(Clone, Debug, Serialize)]
pub struct WatchProcessRow {
    /// Which class.
    pub class: GapClass,
    /// The process that ran instead, or asked for the call.
    pub pid: u32,
    /// Its name.
    pub comm: String,
    /// Their number.
    pub gaps: u64,
    /// Their sum, ns.
    pub ns: u64,
    /// The longest that was seen, ns, which only the text has.
    #[serde(skip)]
    pub longest: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::ClassifiedGap;
    use crate::block::VictimGap;

    fn told(class: GapClass, ns: u64, by: u32) -> ClassifiedGap {
        ClassifiedGap {
            gap: VictimGap { begin_ns: 10, ns },
            class,
            caused: false,
            by,
        }
    }

    /// Check that gaps are summed by class and by who made them, the worst first, and that what nobody made is of nobody.
    #[test]
    fn gaps_are_summed() {
        let block = ClassifiedBlock {
            begin_ns: 5,
            end_ns: 1_000_005,
            gaps: vec![
                told(GapClass::Sched, 500, 7),
                told(GapClass::Tlb, 2_000, 8),
                told(GapClass::Tlb, 3_000, 8),
                told(GapClass::None, 400, 0),
            ],
            ..ClassifiedBlock::default()
        };
        let mut watched = WatchTotals::default();
        watched.add_block(&block);
        watched.add_block(&block);
        let document = watched.to_document(3, 0, &|pid| format!("p{pid}"));
        assert_eq!(document.spun_ns, 2_000_000);
        let rows: Vec<_> = document
            .by
            .iter()
            .map(|r| (r.comm.as_str(), r.gaps, r.ns))
            .collect();
        assert_eq!(rows, [("p8", 4, 10_000), ("p7", 2, 1_000)]);
        assert_eq!(document.classes.len(), 3);
        assert_eq!(watched.classes[&GapClass::Tlb].longest_ns, 3_000);
    }

    /// Check that a percentile is told only with a hundred gaps beyond it, and that it is one of the gaps.
    #[test]
    fn percentiles_need_gaps() {
        let mut gaps = GapLengths::default();
        (1..=199).for_each(|ns| gaps.add_gap(ns));
        assert_eq!(gaps.percentile(50_000), None);
        (200..=1000).for_each(|ns| gaps.add_gap(ns));
        assert_eq!(gaps.percentile(50_000), Some(500));
        assert_eq!(gaps.percentile(99_000), None);
    }

    /// Check that percentiles are of all gaps, also of many: those that come late count as much as the first.
    #[test]
    fn late_gaps_count() {
        let mut gaps = GapLengths::default();
        (0..1_500_000).for_each(|_| gaps.add_gap(200));
        (0..2_500_000).for_each(|_| gaps.add_gap(1_234_567));
        assert_eq!(
            (gaps.percentile(25_000), gaps.percentile(50_000)),
            (Some(200), Some(1_230_000))
        );
        assert_eq!(gaps.lengths.len(), 2);
    }
}
