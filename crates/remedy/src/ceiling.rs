//! The most that a change could win: the time of everything that it can touch, in the run that was observed.

use quell_event::account::{Account, AccountRow, AccountSummary};
use quell_event::{Cause, Mechanism, Tally};
use serde::{Deserialize, Serialize};

use crate::caller::{CalledBy, call_of, called_by};
use crate::evidence::ObservedTime;
use crate::remedy::{RemedyCase, ShootdownOrigin};
use crate::touches::Touches;

/// The most that a change could win in the run that was observed, if all that it can touch vanished.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemedyCeiling {
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// Between these it is, in 95 of 100 runs.
    pub ci95: [u64; 2],
    /// Time in which threads slept for it, ns.
    pub blocked_ns: u64,
    /// The CPU time, as a share of all of the run, 0 to 1.
    pub cpu: f64,
    /// Both as a share of the time that passed, 0 to 1, as if no two threads ever ran at once.
    pub wall: f64,
}

/// A change that could win no more than this share of CPU time and of the time that passed is not offered: the account
/// says "nothing to win" below it too.
const MIN_NOTICED_SHARE: f64 = 0.01;

impl RemedyCeiling {
    /// Whether nobody would notice the change.
    #[must_use]
    pub fn is_below_notice(&self) -> bool {
        self.cpu < MIN_NOTICED_SHARE && self.wall < MIN_NOTICED_SHARE
    }

    /// Between which shares of all CPU time it is, in 95 of 100 runs.
    #[must_use]
    pub fn cpu_between(&self) -> [f64; 2] {
        self.ci95
            .map(|ns| (self.cpu * ns as f64 / self.cpu_ns.max(1) as f64).min(1.0))
    }

    /// The one with more CPU time, of two that are of the same time.
    #[must_use]
    pub(crate) fn larger(&self, other: &Self) -> Self {
        if other.cpu_ns > self.cpu_ns {
            *other
        } else {
            *self
        }
    }

    /// With the time of another origin that the same change touches.
    #[must_use]
    pub(crate) fn with_origin(&self, other: &Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns + other.cpu_ns,
            ci95: [0, 1].map(|end| self.ci95[end] + other.ci95[end]),
            blocked_ns: self.blocked_ns + other.blocked_ns,
            cpu: (self.cpu + other.cpu).min(1.0),
            wall: (self.wall + other.wall).min(1.0),
        }
    }
}

/// Mechanisms by which memory goes back to the kernel.
const GIVES_BACK: [Mechanism; 4] = [
    Mechanism::Unmap,
    Mechanism::Advise,
    Mechanism::Brk,
    Mechanism::Remap,
];

/// Mechanisms of faults on anonymous memory; [`Mechanism::FaultEntry`] is of all kinds.
const ANON_FAULTS: [Mechanism; 4] = [
    Mechanism::FaultAnon,
    Mechanism::FaultHuge,
    Mechanism::FaultEntry,
    Mechanism::Zeroing,
];

/// Samples and time asleep, which may be parts of rows.
#[derive(Debug, Clone, Copy, Default)]
struct SampleSum {
    samples: f64,
    blocked_ns: f64,
}

impl SampleSum {
    fn of_rows<'r>(rows: impl Iterator<Item = &'r AccountRow>) -> Self {
        let mut sum = Self::default();
        for row in rows {
            sum.samples += row.samples as f64;
            sum.blocked_ns += row.blocked_ns as f64;
        }
        sum
    }

    fn add_part(&mut self, other: Self, part: f64) {
        self.samples += other.samples * part;
        self.blocked_ns += other.blocked_ns * part;
    }
}

/// A share that was counted, and between which it lies in 95 of 100 cases.
#[derive(Debug, Clone, Copy)]
struct CountedShare {
    likely: f64,
    ci95: [f64; 2],
}

impl CountedShare {
    const NONE: Self = Self {
        likely: 0.0,
        ci95: [0.0; 2],
    };

    /// `some` of `all` by chance (Wilson, "Probable inference, the law of succession, and statistical inference", 1927); nothing of
    /// nothing.
    fn of(some: f64, all: f64) -> Self {
        const Z: f64 = 1.96;
        if all <= 0.0 {
            return Self::NONE;
        }
        let likely = (some / all).min(1.0);
        let centre = likely + Z * Z / (2.0 * all);
        let half = Z * (likely * (1.0 - likely) / all + Z * Z / (4.0 * all * all)).sqrt();
        let scale = 1.0 + Z * Z / all;
        let bound = |end: f64| (end / scale).clamp(0.0, 1.0);
        Self {
            likely,
            ci95: [bound(centre - half), bound(centre + half)],
        }
    }

    fn times(self, factor: f64) -> Self {
        Self {
            likely: self.likely * factor,
            ci95: self.ci95.map(|end| end * factor),
        }
    }
}

/// `a` of `b`; `otherwise` where there is nothing.
fn part_or(a: f64, b: f64, otherwise: f64) -> f64 {
    if b > 0.0 { (a / b).min(1.0) } else { otherwise }
}

/// The causes of shootdowns that a call has.
fn causes_of(calls: &[Mechanism]) -> Vec<Cause> {
    let of = |call: &Mechanism| -> &'static [Cause] {
        match call {
            Mechanism::Unmap => &[Cause::Munmap],
            Mechanism::Map => &[Cause::Mmap],
            Mechanism::Advise => &[
                Cause::MadviseDontneed,
                Cause::MadviseFree,
                Cause::MadviseOther,
            ],
            Mechanism::Protect => &[Cause::Mprotect],
            Mechanism::Remap => &[Cause::Mremap],
            Mechanism::Brk => &[Cause::Brk],
            _ => &[],
        }
    };
    calls.iter().flat_map(of).copied().collect()
}

/// One origin's time in one run, before a change.
struct OriginTime<'a> {
    case: &'a RemedyCase<'a>,
    spent: &'a ObservedTime,
    touches: Touches,
}

impl OriginTime<'_> {
    fn account_rows(&self) -> impl Iterator<Item = &AccountRow> {
        self.spent.account.rows.iter()
    }

    fn sum_rows(&self, of: &[Mechanism]) -> SampleSum {
        SampleSum::of_rows(self.account_rows().filter(|r| of.contains(&r.mechanism)))
    }

    fn is_reached(&self, row: &AccountRow) -> bool {
        match called_by(self.case, row) {
            CalledBy::Itself => true,
            CalledBy::Asked => self.touches.asked,
            CalledBy::Others => false,
        }
    }

    /// The sum of the rows whose calls this origin made.
    fn reached_sum(&self, of: &[Mechanism]) -> SampleSum {
        let rows = self.account_rows().filter(|r| of.contains(&r.mechanism));
        SampleSum::of_rows(rows.filter(|r| self.is_reached(r)))
    }

    /// The part of the program's shootdowns that are this origin's.
    fn of_shootdowns(&self) -> f64 {
        part_or(self.case.shootdowns() as f64, self.case.total as f64, 0.0)
    }

    /// The part of this origin's calls that the change reaches, by samples: releases that the program requests count only where
    /// it reaches those too. 1 where no call was sampled.
    fn part_reached(&self) -> f64 {
        let rows = self
            .account_rows()
            .filter(|r| self.touches.calls.contains(&r.mechanism));
        let all = SampleSum::of_rows(rows.filter(|r| called_by(self.case, r) != CalledBy::Others));
        part_or(
            self.reached_sum(self.touches.calls).samples,
            all.samples,
            1.0,
        )
    }

    /// The part of the whole program's calls of this kind that this origin makes, as far as the change reaches it. Where the
    /// calls took too little time to be sampled, shootdowns decide.
    fn part_of(&self, calls: &[Mechanism]) -> f64 {
        let otherwise = self.of_shootdowns() * self.part_reached();
        let (its, all) = (self.reached_sum(calls), self.sum_rows(calls));
        part_or(its.samples, all.samples, otherwise)
    }

    /// The part of the faults that are on memory which had been given back: more pages were faulted in than were ever
    /// resident. Where the faults or the memory were not counted from the start on, or huge pages make one fault of many, all may be.
    fn part_again(&self) -> f64 {
        const PAGE_BYTES: u64 = 4096;
        let evidence = self.case.evidence;
        let (Some(faults), Some(rss)) = (evidence.page_faults, evidence.max_rss) else {
            return 1.0;
        };
        if !evidence.from_start || self.sum_rows(&[Mechanism::FaultHuge]).samples > 0.0 {
            return 1.0;
        }
        1.0 - part_or((rss / PAGE_BYTES) as f64, faults as f64, 1.0)
    }

    /// The part of the entries of faults that are on anonymous memory.
    fn part_anonymous(&self) -> f64 {
        let anonymous = self.sum_rows(&[Mechanism::FaultAnon, Mechanism::FaultHuge]);
        let faults = self.account_rows().filter(|r| {
            r.mechanism.is_fault()
                && !matches!(r.mechanism, Mechanism::FaultEntry | Mechanism::Zeroing)
        });
        part_or(anonymous.samples, SampleSum::of_rows(faults).samples, 1.0)
    }

    /// Whether the origin is the program's malloc, or was seen to do anything at all: a copy of an allocator that nobody calls has
    /// no memory.
    fn is_in_use(&self) -> bool {
        let is_everybodys = match self.case.origin {
            ShootdownOrigin::Allocator(found) => found.kind.is_libc() || found.replaces_malloc,
            _ => false,
        };
        is_everybodys
            || self.case.shootdowns() > 0
            || self
                .account_rows()
                .any(|r| called_by(self.case, r) != CalledBy::Others)
    }

    /// The part of all faults on anonymous memory that the change saves: those on memory that this origin gave back, as far as
    /// the change reaches it (`reach` is its part of the origin's memory). Few of the calls that give back are sampled, and so
    /// this part is the least certain of a ceiling; where none was sampled, shootdowns decide. 0 for a change that keeps no
    /// memory.
    fn part_saved(&self, reach: f64) -> CountedShare {
        if !self.touches.again {
            return CountedShare::NONE;
        }
        let given = self.touches.calls.iter().copied();
        let given: Vec<_> = given.filter(|m| GIVES_BACK.contains(m)).collect();
        let all = self.sum_rows(&GIVES_BACK).samples;
        let share = if all > 0.0 {
            CountedShare::of(self.reached_sum(&given).samples, all)
        } else {
            CountedShare::of(self.case.shootdowns() as f64, self.case.total as f64)
                .times(self.part_reached())
        };
        share.times(self.part_again() * reach)
    }

    /// Samples and sleep of all that the change can touch, and the time of hits, ns, if it saves this part (`saved`) of the
    /// faults. Waits for shootdowns, and hits, are touched as far as shootdowns are of this origin and by calls that the change
    /// touches: a change that touches no call of an origin, such as huge pages, has none of them.
    fn touched_time(&self, reach: f64, saved: f64) -> (SampleSum, f64) {
        let touches = self.touches;
        let mut touched = SampleSum::default();
        touched.add_part(self.reached_sum(touches.calls), reach);
        let of_calls = self.case.part_of_causes(&causes_of(touches.calls));
        touched.add_part(
            self.reached_sum(&[Mechanism::ShootdownWait]),
            of_calls * reach,
        );
        for fault in ANON_FAULTS {
            let of_kind = match fault {
                Mechanism::FaultEntry => self.part_anonymous(),
                _ => 1.0,
            };
            let is_whole = touches.everywhere.contains(&fault) && self.is_everywhere();
            let part = if is_whole { 1.0 } else { saved };
            touched.add_part(self.sum_rows(&[fault]), of_kind * part);
        }
        let others = touches
            .everywhere
            .iter()
            .filter(|m| !ANON_FAULTS.contains(m));
        let others: Vec<_> = others.copied().collect();
        if self.is_everywhere() {
            touched.add_part(self.sum_rows(&others), 1.0);
        }
        touched.add_part(
            self.sum_rows(&[Mechanism::LockMmap]),
            self.part_of_lock(saved, reach),
        );
        let hits = self.spent.hits_ns as f64 * self.of_shootdowns() * reach;
        let hits = match touches.calls {
            [] => 0.0,
            _ => hits * of_calls * self.part_reached(),
        };
        (touched, hits)
    }

    /// Whether a change of all memory concerns this program: an allocator's setting only if that allocator is in use.
    fn is_everywhere(&self) -> bool {
        !matches!(self.case.origin, ShootdownOrigin::Allocator(_)) || self.is_in_use()
    }

    /// The part of the waits for the lock of the address space that the change can touch, by the time that was waited for each
    /// holder: those for calls of this origin, and for faults that are saved. 0 where no holder was seen.
    fn part_of_lock(&self, saved: f64, reach: f64) -> f64 {
        let holders = self.spent.account.holders.iter();
        let (mut touched, mut all) = (0.0, 0.0);
        for holder in holders.filter(|h| h.mechanism == Mechanism::LockMmap) {
            let ns = holder.blocked_ns as f64;
            all += ns;
            touched += match call_of(&holder.doing) {
                Some(Mechanism::FaultAnon) => ns * saved,
                Some(call) if self.touches.calls.contains(&call) => {
                    ns * self.part_of(&[call]) * reach
                }
                _ => 0.0,
            };
        }
        part_or(touched, all, 0.0)
    }
}

/// The most that a change could win for one origin; none where nobody knows where the time went. `reach` is the part of the
/// origin's memory that it is for. The interval goes from the lower end for the fewest faults that it may save to the upper end
/// for the most.
pub(crate) fn origin_ceiling(
    case: &RemedyCase<'_>,
    touches: Touches,
    reach: f64,
) -> Option<RemedyCeiling> {
    let spent = case.evidence.spent.as_ref()?;
    let measure = OriginTime {
        case,
        spent,
        touches,
    };
    let saved = measure.part_saved(reach);
    let summary_if = |saved: f64| {
        let (touched, hits) = measure.touched_time(reach, saved);
        let summary = summary_of_samples(spent, touched.samples.round() as u64)?;
        Some((summary, touched, hits.round() as u64))
    };
    let (summary, touched, hits) = summary_if(saved.likely)?;
    let (least, _, _) = summary_if(saved.ci95[0])?;
    let (most, _, _) = summary_if(saved.ci95[1])?;
    let cpu_ns = summary.memory_cpu_ns + hits;
    let ci95 = [least.memory_cpu_ci95[0], most.memory_cpu_ci95[1]].map(|ns| ns + hits);
    let blocked_ns = touched.blocked_ns.round() as u64;
    let share = |ns: u64, of: u64| part_or(ns as f64, of as f64, 0.0);
    Some(RemedyCeiling {
        cpu_ns,
        ci95,
        blocked_ns,
        cpu: share(cpu_ns, summary.cpu_ns),
        wall: share(cpu_ns + blocked_ns, spent.duration_ns),
    })
}

/// The account with all of memory management replaced by this many samples: it gives the time that they stand for, with its
/// interval.
fn summary_of_samples(spent: &ObservedTime, samples: u64) -> Option<AccountSummary> {
    let row = AccountRow {
        pid: 0,
        mechanism: Mechanism::Unmap,
        part: quell_event::account::MechanismPart::Other,
        advice: quell_event::Text::default(),
        function: quell_event::Text::default(),
        file: quell_event::Text::default(),
        allocator: quell_event::Text::default(),
        samples,
        waits: 0,
        blocked_ns: 0,
        longest_ns: 0,
    };
    AccountSummary::new(&Tally {
        duration_ns: spent.duration_ns,
        account: Some(Account {
            rows: vec![row],
            processes: spent.account.processes.clone(),
            ..Account::default()
        }),
        ..Tally::default()
    })
}

#[cfg(test)]
#[path = "ceiling_tests.rs"]
pub(crate) mod tests;
