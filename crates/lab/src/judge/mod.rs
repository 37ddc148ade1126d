//! Judges the rounds: shown, not shown, or too noisy to tell.
//!
//! A stall is claimed by the events that carry the culprit's name: gaps that hold a shootdown of its process, or a fault of the
//! victim's own where the mechanism makes faults. Other tenants of the machine make gaps too, shootdowns and faults; those are in
//! the tables, but can't make a verdict. Sham and real blocks of one round are compared, so that slow changes of the machine
//! cancel.

mod effect;
mod measure;
mod when;

use quell_stats::Difference;
use serde::{Deserialize, Serialize};

use crate::arm::{Arm, Mode};
use crate::attribute::Attributed;
use crate::mechanism::Mechanism;
use crate::params::Params;
use crate::round::{Invalid, Round, block_of, counts, operations};

pub(crate) use effect::Effect;
use effect::{Asked, effect};
use measure::{all_ppm, differ, event_median, short_ppm};
pub(crate) use when::next_look;

/// The answer of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The mechanism stalls the victim on this machine.
    Shown,
    /// Enough was measured, and there is no effect.
    NotShown,
    /// This machine is too noisy for an answer now.
    TooNoisy,
    /// Too few rounds fitted into the time that was given.
    TooShort,
}

impl Verdict {
    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Shown => "shown",
            Self::NotShown => "not-shown",
            Self::TooNoisy => "too-noisy",
            Self::TooShort => "too-short",
        }
    }

    /// Whether it answers the question.
    #[must_use]
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Shown | Self::NotShown)
    }
}

/// The verdicts and figures of an experiment.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// Real against sham.
    pub real: Effect,
    /// Sham against idle: the control of the control.
    pub sham: Effect,
    /// Time in all gaps, whatever their cause, but for those in which another thread ran: real less sham, ppm.
    pub all_ppm: Difference,
    /// The same, sham less idle: the culprit's effect on other address spaces.
    pub sham_all_ppm: Difference,
    /// Time in gaps that are too short for another thread to have run, untraced less traced: the cost of watching for the victim.
    pub untraced_ppm: Difference,
    /// Shootdowns at the victim for one operation; none where there was no operation.
    pub shootdowns_per_op: Option<f64>,
    /// Faults of the victim that the mechanism makes, for one operation.
    pub faults_per_op: Option<f64>,
    /// Time of the victim for one shootdown or fault, ns: the mean.
    pub ns_per_event: Option<f64>,
    /// The median length of a gap of the culprit's, ns.
    pub gap_p50_ns: Option<f64>,
    /// The share of shootdowns at the victim that lie in one of its gaps.
    pub matched: Option<f64>,
    /// The number that the kernel's code predicts.
    pub expected_per_op: Option<f64>,
}

/// Judges the rounds that there are so far.
#[must_use]
pub fn judge(mechanism: &Mechanism, params: &Params, mode: Mode, rounds: &[Round]) -> Judgement {
    let valid: Vec<&Round> = rounds.iter().filter(|round| counts(round)).collect();
    let all = |arm: Arm| -> Vec<&Attributed> {
        let blocks = valid.iter().filter_map(|round| block_of(round, arm));
        blocks.collect()
    };
    let [idle, sham, real] = [Arm::Idle, Arm::Sham, Arm::Real].map(all);
    let expected_per_op = mechanism.expected(params, mode);
    let sum = |blocks: &[&Attributed], of: fn(&Attributed) -> u64| -> u64 {
        blocks.iter().map(|b| of(b)).sum()
    };
    let ops: u64 = real.iter().map(|b| operations(b, mechanism.timing)).sum();
    let share = |n: u64, of: u64| (of > 0).then(|| n as f64 / of as f64);
    let every =
        [&idle, &sham, &real].map(|blocks| (sum(blocks, |b| b.matched), sum(blocks, |b| b.hits)));
    // A predicted number is compared with the operations during which the victim had its CPU. Elsewhere those would be untypical:
    // the work of a kernel thread falls beside the operation that asked for it, and a victim that faults waits for locks of the
    // culprit (mmap_lock in fork, pages under write-back in msync).
    let (of_ops, hits, faults) = if expected_per_op.is_some() && mechanism.daemons.is_empty() {
        (
            ops,
            sum(&real, |b| b.counted_hits),
            sum(&real, |b| b.counted_faults),
        )
    } else {
        (
            sum(&real, |b| u64::try_from(b.ops.len()).unwrap_or(0)),
            sum(&real, |b| b.caused_hits),
            sum(&real, |b| b.caused_faults),
        )
    };
    let asked = |control, arm| {
        effect(&Asked {
            control,
            arm,
            mode,
            timing: mechanism.timing,
            rounds: rounds.len(),
            invalid: most_often(rounds),
        })
    };
    let sham_effect = asked(&idle, &sham);
    let mut real_effect = asked(&sham, &real);
    // Where both are stalled alike their difference is nothing, which says nothing of the mechanism either.
    if real_effect.verdict.is_answer() && sham_effect.verdict == Verdict::Shown {
        real_effect.verdict = Verdict::TooNoisy;
        real_effect.why = format!(
            "the control in another address space is stalled too, so this is not the mechanism's alone: {}",
            real_effect.why
        );
    }
    Judgement {
        real: real_effect,
        sham: sham_effect,
        all_ppm: differ(&sham, &real, all_ppm),
        sham_all_ppm: differ(&idle, &sham, all_ppm),
        untraced_ppm: untraced(&valid),
        shootdowns_per_op: share(hits, of_ops),
        faults_per_op: share(faults, of_ops),
        ns_per_event: share(
            sum(&real, Attributed::caused_ns),
            sum(&real, |b| b.timed_events),
        ),
        gap_p50_ns: event_median(&real),
        matched: share(
            every.iter().map(|e| e.0).sum(),
            every.iter().map(|e| e.1).sum(),
        ),
        expected_per_op,
    }
}

/// The most frequent reason of blocks that don't count.
fn most_often(rounds: &[Round]) -> Option<Invalid> {
    let all: Vec<Invalid> = rounds.iter().flatten().filter_map(|m| m.invalid).collect();
    let times = |why: &Invalid| all.iter().filter(|w| *w == why).count();
    all.iter().copied().max_by_key(times)
}

/// The cost of watching, from rounds whose real and untraced blocks both count.
fn untraced(valid: &[&Round]) -> Difference {
    let both = valid
        .iter()
        .filter_map(|round| Some((block_of(round, Arm::Real)?, block_of(round, Arm::Untraced)?)));
    let (real, untraced): (Vec<_>, Vec<_>) = both.unzip();
    differ(&real, &untraced, short_ppm)
}

#[cfg(test)]
mod tests;
