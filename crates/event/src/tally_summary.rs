//! The object `quell/tally/1`, which `quell stat --json` and `quell report --json` print.
//!
//! Its keys are part of the contract: they never change, more may be added. Times are integer ns.

use std::collections::HashMap;

use serde::Serialize;

use crate::account::AccountSummary;
use crate::trace::OUTER_FRAMES_MISSING;
use crate::{Cause, FunctionCalls, Histogram, Tally, Text};

/// The object names itself and its version by this.
pub const TALLY_SCHEMA: &str = "quell/tally/1";

/// The sum and the percentiles of a histogram, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// Of all values.
    pub sum: u64,
    /// Half of all values are at most this.
    pub p50: u64,
    /// 99 in 100.
    pub p99: u64,
    /// 999 in 1,000.
    pub p999: u64,
    /// The largest.
    pub max: u64,
}

impl From<&Histogram> for Quantiles {
    fn from(h: &Histogram) -> Self {
        Self {
            sum: h.sum(),
            p50: h.quantile(0.5),
            p99: h.quantile(0.99),
            p999: h.quantile(0.999),
            max: h.max(),
        }
    }
}

/// One cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CauseRow {
    /// Its name.
    pub cause: String,
    /// For `other`: the kernel function that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<Text>,
    /// How many.
    pub shootdowns: u64,
    /// CPUs interrupted.
    pub victims: u64,
    /// Time that culprits waited.
    pub wait_ns: u64,
    /// Time in victims' handlers.
    pub stall_ns: u64,
}

impl CauseRow {
    /// The cause and, of `other`, the function.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.function {
            Some(function) => format!("{}: {function}", self.cause),
            None => self.cause.clone(),
        }
    }
}

/// One culprit process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CulpritRow {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub comm: Text,
    /// How many.
    pub shootdowns: u64,
    /// CPUs interrupted.
    pub victims: u64,
    /// Time that it waited.
    pub wait_ns: u64,
    /// Its cgroup's id in the v2 hierarchy.
    pub cgroup: u64,
    /// Its threads, where records were kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadRow>,
}

/// One thread of a culprit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadRow {
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub comm: Text,
    /// How many.
    pub shootdowns: u64,
    /// Time that it waited.
    pub wait_ns: u64,
}

/// One victim process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VictimRow {
    /// The process, 0 for idle CPUs, and for those that found no room to be told apart.
    pub pid: u32,
    /// Its name.
    pub comm: Text,
    /// Interrupts.
    pub hits: u64,
    /// Time in the handler.
    pub stall_ns: u64,
    /// Interrupted for an address space that is not its own.
    pub bystander: bool,
}

/// One region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RegionRow {
    /// The name of the region.
    pub region: Text,
    /// How many.
    pub shootdowns: u64,
}

/// One user stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StackRow {
    /// Innermost first: a function and its file, or an address where there is no name.
    pub frames: Vec<Text>,
    /// Outer frames are missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// How many.
    pub shootdowns: u64,
    /// The cause that most of them have.
    pub cause: String,
}

impl StackRow {
    /// The frames as lines; a last one says if outer frames are missing.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        let missing = self.cut.then_some(OUTER_FRAMES_MISSING);
        self.frames.iter().map(Text::as_str).chain(missing)
    }
}

/// The object.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TallySummary {
    /// [`TALLY_SCHEMA`].
    pub schema: String,
    /// How the shootdowns were seen.
    pub backend: Text,
    /// Over how long.
    pub duration_ns: u64,
    /// Counts or records that are missing; 0 means that everything here is exact, but for times where not all
    /// were timed ([`Self::untimed`]).
    pub lost: u64,
    /// The part of `lost` that is in all counts, but under [`crate::CROWDED_NAME`].
    pub crowded: u64,
    /// Whether that is known: not of a trace that has no counts.
    pub lost_known: bool,
    /// CPU time that quell itself used meanwhile, without its probe in the kernel.
    pub self_ns: u64,
    /// Rounds of requests.
    pub shootdowns: u64,
    /// CPUs interrupted.
    pub victims: u64,
    /// Flushes that were begun and found nobody to interrupt.
    pub empty_sends: u64,
    /// Shootdowns that flushed the whole address space.
    pub full: u64,
    /// Pages of 4 KiB asked for in the others.
    pub pages: u64,
    /// From queueing the first request until the last victim is done.
    pub wait_ns: Quantiles,
    /// From queueing until the handler starts.
    pub delay_ns: Quantiles,
    /// Time in the handler.
    pub stall_ns: Quantiles,
    /// By cause, most shootdowns first.
    pub causes: Vec<CauseRow>,
    /// By culprit process, most shootdowns first.
    pub culprits: Vec<CulpritRow>,
    /// By victim process, most hits first.
    pub victims_by: Vec<VictimRow>,
    /// By region, where records were kept.
    pub regions: Vec<RegionRow>,
    /// By user stack, where stacks were kept.
    pub stacks: Vec<StackRow>,
    /// CPUs of the machine, when it began.
    pub cpus: u32,
    /// CPU time that there was on the machine, ns: CPUs come and go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub online_ns: Option<u64>,
    /// Victims that were counted, but whose handler was not seen: no delay, stall and wait.
    pub unseen: u64,
    /// Shootdowns that were counted and not timed, as there were so many: all times, their sums too, are
    /// estimates from the others. 0 where every shootdown was timed.
    pub untimed: u64,
    /// Of `victims` and `self_victims` those that `TLB:` in /proc/interrupts counts too.
    pub interrupts: u64,
    /// By how much `TLB:` grew meanwhile on all CPUs, whoever the culprit was: equal to `interrupts` if everything
    /// is watched, and more than that where a process or a CPU is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_interrupts: Option<u64>,
    /// Stacks that could not be kept.
    pub lost_stacks: u64,
    /// quell's own shootdowns, not in `shootdowns`.
    pub self_shootdowns: u64,
    /// Victims of those.
    pub self_victims: u64,
    /// All function calls between CPUs, where they were watched: shootdowns are among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<FunctionCalls>,
    /// Where the time went in memory management, where that was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountSummary>,
}

impl TallySummary {
    /// How many shootdowns each that was timed stands for; `None` where all were.
    #[must_use]
    pub fn timed_one_in(&self) -> Option<f64> {
        let timed = self.shootdowns.saturating_sub(self.untimed).max(1);
        (self.untimed > 0).then(|| self.shootdowns as f64 / timed as f64)
    }

    /// Sums a tally up.
    #[must_use]
    pub fn new(tally: &Tally, backend: &str, cpus: u32) -> Self {
        let totals = tally.total_counts();
        Self {
            schema: TALLY_SCHEMA.to_owned(),
            backend: backend.into(),
            duration_ns: tally.duration_ns,
            lost: tally.lost.missing_total(),
            crowded: tally.lost.crowded,
            lost_known: true,
            self_ns: tally.self_ns,
            shootdowns: totals.shootdowns,
            victims: totals.victims,
            empty_sends: tally.empty_sends,
            full: totals.full,
            pages: totals.pages,
            wait_ns: (&tally.wait).into(),
            delay_ns: (&tally.delay).into(),
            stall_ns: (&tally.stall).into(),
            causes: cause_rows(tally),
            culprits: culprit_rows(tally),
            victims_by: victim_rows(tally),
            regions: Vec::new(),
            stacks: Vec::new(),
            cpus,
            online_ns: tally.online_ns,
            unseen: tally.unseen,
            untimed: tally.untimed,
            interrupts: tally.tlb_interrupts(),
            kernel_interrupts: tally.kernel_interrupts,
            lost_stacks: tally.lost.stacks,
            self_shootdowns: tally.self_shootdowns,
            self_victims: tally.self_victims,
            calls: tally.calls.clone(),
            account: AccountSummary::new(tally),
        }
    }

    /// The share of the machine's CPU time that went into waits and stalls, 0 to 1. A culprit
    /// that waits may be stalled as a victim meanwhile, so this is an upper bound.
    #[must_use]
    pub fn share_lost(&self) -> f64 {
        let all = self.duration_ns as f64 * self.cpus_online();
        if all == 0.0 {
            return 0.0;
        }
        (self.wait_ns.sum + self.stall_ns.sum) as f64 / all
    }

    /// How many CPUs were online on average; as many as in the beginning where nobody looked later.
    #[must_use]
    pub fn cpus_online(&self) -> f64 {
        match self.online_ns {
            Some(ns) if ns > 0 && self.duration_ns > 0 => ns as f64 / self.duration_ns as f64,
            _ => f64::from(self.cpus.max(1)),
        }
    }
}

fn cause_rows(tally: &Tally) -> Vec<CauseRow> {
    let mut rows: HashMap<(Cause, Option<&str>), CauseRow> = HashMap::new();
    for c in &tally.culprits {
        let row = rows.entry((c.cause, c.detail.as_deref())).or_default();
        row.cause = c.cause.name().to_owned();
        row.function = c.detail.as_deref().map(Text::from);
        row.shootdowns += c.counts.shootdowns;
        row.victims += c.counts.victims;
        row.wait_ns += c.counts.wait_ns;
        row.stall_ns += c.counts.stall_ns;
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    rows.sort_by(|a, b| {
        (b.shootdowns, &a.cause, &a.function).cmp(&(a.shootdowns, &b.cause, &b.function))
    });
    rows
}

fn culprit_rows(tally: &Tally) -> Vec<CulpritRow> {
    let mut rows: HashMap<u32, CulpritRow> = HashMap::new();
    for c in &tally.culprits {
        let row = rows.entry(c.pid).or_default();
        row.pid = c.pid;
        // a process has one name here: that under which it shot most
        if row.comm.is_empty() || c.counts.shootdowns > row.shootdowns {
            row.comm = c.comm.as_str().into();
        }
        row.cgroup = c.cgroup;
        row.shootdowns += c.counts.shootdowns;
        row.victims += c.counts.victims;
        row.wait_ns += c.counts.wait_ns;
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    rows.sort_by_key(|r| (std::cmp::Reverse(r.shootdowns), r.pid));
    rows
}

fn victim_rows(tally: &Tally) -> Vec<VictimRow> {
    let mut rows: Vec<_> = tally
        .victims
        .iter()
        .map(|v| VictimRow {
            pid: v.pid,
            comm: if v.pid == 0 && !v.is_crowded() {
                "(idle)".into()
            } else {
                v.comm.as_str().into()
            },
            hits: v.hits,
            stall_ns: v.stall_ns,
            bystander: v.bystander,
        })
        .collect();
    rows.sort_by_key(|r| (std::cmp::Reverse(r.hits), r.pid, r.bystander));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CulpritTally, ShootdownCounts};

    /// Check that a stack without its outer frames says so, behind those that it has.
    #[test]
    fn cut_stacks_say_so() {
        let mut stack = StackRow {
            frames: vec!["f".into()],
            ..StackRow::default()
        };
        assert_eq!(stack.lines().collect::<Vec<_>>(), ["f"]);
        stack.cut = true;
        let lines: Vec<_> = stack.lines().collect();
        assert_eq!(lines, ["f", "… outer frames missing"]);
    }

    /// Check that the share of CPU time is of the time that there was, and never by the CPUs of the beginning where
    /// somebody looked: one of two CPUs that is there for half of the time leaves three quarters.
    #[test]
    fn shares_are_of_the_cpus_that_were_online() {
        let mut tally = Tally {
            duration_ns: 1000,
            online_ns: Some(1500),
            ..Tally::default()
        };
        tally.wait.record(750);
        let share = |tally: &Tally| TallySummary::new(tally, "raw_tp", 2).share_lost();
        assert!((share(&tally) - 0.5).abs() < 1e-9, "{}", share(&tally));
        // of an interval too
        let mut later = tally.clone();
        (later.duration_ns, later.online_ns) = (2000, Some(2250));
        later.wait.record(750);
        let interval = later.since(&tally);
        assert!((share(&interval) - 1.0).abs() < 1e-9, "{interval:?}");
        // as it was told before
        tally.online_ns = None;
        assert!((share(&tally) - 0.375).abs() < 1e-9, "{}", share(&tally));
    }

    /// Check that rows are sums, sorted by count, and that `other` is split by function.
    #[test]
    fn rows_are_sums() {
        let culprit = |pid, cause, detail: Option<&str>, shootdowns| CulpritTally {
            pid,
            comm: format!("p{pid}"),
            cgroup: 1,
            cause,
            detail: detail.map(str::to_owned),
            counts: ShootdownCounts {
                shootdowns,
                victims: shootdowns,
                ..ShootdownCounts::default()
            },
        };
        let tally = Tally {
            duration_ns: 1000,
            culprits: vec![
                culprit(1, Cause::Munmap, None, 5),
                culprit(2, Cause::Munmap, None, 6),
                culprit(2, Cause::Other, Some("f"), 1),
                culprit(2, Cause::Other, Some("g"), 2),
            ],
            ..Tally::default()
        };
        let s = TallySummary::new(&tally, "raw_tp", 2);
        let names: Vec<_> = s
            .causes
            .iter()
            .map(|c| (c.function.as_deref(), c.shootdowns))
            .collect();
        assert_eq!(names, [(None, 11), (Some("g"), 2), (Some("f"), 1)]);
        assert_eq!(s.culprits[0].pid, 2);
        assert_eq!(s.shootdowns, 14);
        assert_eq!(s.schema, "quell/tally/1");
    }
}
