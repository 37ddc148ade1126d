//! Judges the rounds: shown, not shown, or too noisy to tell.
//!
//! A stall is claimed by the events that carry the culprit's name: gaps that hold a shootdown of its process, or a fault of the
//! victim's own where the mechanism makes faults. Other tenants of the machine make gaps too, shootdowns and faults; those are in
//! the tables, but can't make a verdict. Sham and real blocks of one round are compared, so that slow changes of the machine
//! cancel.

mod block_figures;
mod effect;
mod next_look;

use quell_stats::Difference;
use serde::{Deserialize, Serialize};

use crate::arm::{Arm, VictimActivity};
use crate::attribute::{ClassifiedBlock, sum_over};
use crate::mechanism::StallMechanism;
use crate::params::Params;
use crate::round::{InvalidReason, Round, is_valid_round, telling_operations, valid_block};

use block_figures::{all_ppm, compare_blocks, median_caused_gap, short_ppm};
use effect::{ArmComparison, ArmEffect, judge_arm};
pub(crate) use next_look::next_look;

/// The answer of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabVerdict {
    /// The mechanism stalls the victim on this machine.
    Shown,
    /// Enough was measured, and there is no effect.
    NotShown,
    /// This machine is too noisy for an answer now.
    TooNoisy,
    /// Too few rounds fitted into the time that was given.
    TooShort,
}

impl LabVerdict {
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
    pub real: ArmEffect,
    /// Sham against idle: the control of the control.
    pub sham: ArmEffect,
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
pub fn judge_rounds(
    mechanism: &StallMechanism,
    params: &Params,
    mode: VictimActivity,
    rounds: &[Round],
) -> Judgement {
    let valid: Vec<&Round> = rounds
        .iter()
        .filter(|round| is_valid_round(round))
        .collect();
    let all = |arm: Arm| -> Vec<&ClassifiedBlock> {
        let blocks = valid.iter().filter_map(|round| valid_block(round, arm));
        blocks.collect()
    };
    let [idle, sham, real] = [Arm::Idle, Arm::Sham, Arm::Real].map(all);
    let expected_per_op = mechanism.expected_hits(params, mode);
    let ops = telling_operations(&real, mechanism.timing);
    let share = |n: u64, of: u64| (of > 0).then(|| n as f64 / of as f64);
    let every = [&idle, &sham, &real].map(|blocks| {
        (
            sum_over(blocks, |b| b.matched),
            sum_over(blocks, |b| b.hits),
        )
    });
    // A predicted number is compared with the operations during which the victim had its CPU. Elsewhere those would be untypical:
    // the work of a kernel thread falls beside the operation that asked for it, and a victim that faults waits for locks of the
    // culprit (mmap_lock in fork, pages under write-back in msync).
    let (of_ops, hits, faults) = if expected_per_op.is_some() && mechanism.daemons.is_empty() {
        (
            ops,
            sum_over(&real, |b| b.counted_hits),
            sum_over(&real, |b| b.counted_faults),
        )
    } else {
        (
            sum_over(&real, |b| u64::try_from(b.ops.len()).unwrap_or(0)),
            sum_over(&real, |b| b.caused_hits),
            sum_over(&real, |b| b.caused_faults),
        )
    };
    let asked = |control, arm| {
        judge_arm(&ArmComparison {
            control,
            arm,
            mode,
            timing: mechanism.timing,
            rounds: rounds.len(),
            invalid: most_frequent_invalid(rounds),
        })
    };
    let sham_effect = asked(&idle, &sham);
    let mut real_effect = asked(&sham, &real);
    // Where both are stalled alike their difference is nothing, which says nothing of the mechanism either.
    if real_effect.verdict.is_answer() && sham_effect.verdict == LabVerdict::Shown {
        real_effect.verdict = LabVerdict::TooNoisy;
        real_effect.why = format!(
            "the control in another address space is stalled too, so this is not the mechanism's alone: {}",
            real_effect.why
        );
    }
    Judgement {
        real: real_effect,
        sham: sham_effect,
        all_ppm: compare_blocks(&sham, &real, all_ppm),
        sham_all_ppm: compare_blocks(&idle, &sham, all_ppm),
        untraced_ppm: watching_cost(&valid),
        shootdowns_per_op: share(hits, of_ops),
        faults_per_op: share(faults, of_ops),
        ns_per_event: share(
            sum_over(&real, ClassifiedBlock::caused_ns),
            sum_over(&real, |b| b.timed_events),
        ),
        gap_p50_ns: median_caused_gap(&real),
        matched: share(
            every.iter().map(|e| e.0).sum(),
            every.iter().map(|e| e.1).sum(),
        ),
        expected_per_op,
    }
}

/// The most frequent reason of blocks that don't count.
fn most_frequent_invalid(rounds: &[Round]) -> Option<InvalidReason> {
    let all: Vec<InvalidReason> = rounds.iter().flatten().filter_map(|m| m.invalid).collect();
    let times = |why: &InvalidReason| all.iter().filter(|w| *w == why).count();
    all.iter().copied().max_by_key(times)
}

/// The cost of watching, from rounds whose real and untraced blocks both count.
fn watching_cost(valid: &[&Round]) -> Difference {
    let both = valid.iter().filter_map(|round| {
        Some((
            valid_block(round, Arm::Real)?,
            valid_block(round, Arm::Untraced)?,
        ))
    });
    let (real, untraced): (Vec<_>, Vec<_>) = both.unzip();
    compare_blocks(&real, &untraced, short_ppm)
}

#[cfg(test)]
mod tests;
