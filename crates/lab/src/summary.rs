//! An experiment as it is written to a file and to JSON: the contract `quell/lab/1`.

mod turns;

use std::collections::BTreeMap;

use quell_event::Backtraces;
use quell_stats::{Difference, median, quantile};
use serde::{Deserialize, Serialize};

use crate::arm::{Arm, VictimActivity};
use crate::attribute::{ClassifiedBlock, GapClass, sum_over};
use crate::experiment::Outcome;
use crate::gap_owners::OwnedGaps;
use crate::judge::{Judgement, LabVerdict};
use crate::mechanism::{OperationTiming, StallMechanism};
use crate::params::Params;
use crate::round::ExperimentOptions;
use crate::tsc::{TscQuality, duration_ns};
use turns::{median_timeline, turn_histogram, turn_lengths, turn_percentiles};

/// The name of this contract.
pub const LAB_SCHEMA: &str = "quell/lab/1";

/// One experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExperimentSummary {
    /// [`LAB_SCHEMA`].
    pub schema: String,
    /// The mechanism's name.
    pub experiment: String,
    /// The operation that the culprit repeats.
    pub about: String,
    /// A remark on where the culprit ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The values of its parameters.
    pub params: Params,
    /// Whether the victim spun or slept.
    pub victim: VictimActivity,
    /// The verdict on the real arm against the sham.
    pub verdict: LabVerdict,
    /// Why, in one sentence.
    pub why: String,
    /// The verdict on the control in another address space, against none.
    pub sham_verdict: LabVerdict,
    /// The reason, in one sentence.
    pub sham_why: String,
    /// Whether it was ended early.
    pub interrupted: bool,
    /// The machine on which it was measured.
    pub machine: MachineSummary,
    /// The settings; files of early versions of quell 0.1 don't have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<SettingsSummary>,
    /// The arms: idle, sham, real, untraced.
    pub arms: BTreeMap<String, ArmSummary>,
    /// Shootdowns at the victim for one operation that fell into the time in which the victim ran.
    pub shootdowns_per_op: Option<f64>,
    /// The number that the kernel's code predicts, where that is a whole number.
    pub expected_per_op: Option<f64>,
    /// Faults of the victim that the mechanism makes, for one operation.
    pub faults_per_op: Option<f64>,
    /// The share of shootdowns at the victim that lie in one of its gaps.
    pub matched: Option<f64>,
    /// The differences, real less sham.
    pub effect: EffectSummary,
    /// The kernel's functions on both sides, of experiments that do one thing once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backtraces: Option<Backtraces>,
}

/// The differences between arms.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EffectSummary {
    /// Stall with the culprit's name, ppm of the time in which the victim ran.
    pub stall_ppm: IntervalSummary,
    /// Time in all gaps, whatever their cause, ppm.
    pub all_gaps_ppm: IntervalSummary,
    /// The same, sham less idle: the culprit's effect on other address spaces.
    #[serde(default)]
    pub sham_all_gaps_ppm: Option<IntervalSummary>,
    /// Time in gaps below 0.1 ms, in which no other thread can have run: without the probe less with it, ppm.
    pub untraced_ppm: IntervalSummary,
    /// Time of the victim for one shootdown or fault, ns.
    pub ns_per_event: Option<f64>,
    /// The median length of a gap of the culprit's, ns.
    #[serde(default)]
    pub gap_p50_ns: Option<f64>,
    /// Shootdowns of the culprit and faults of the victim that the mechanism makes.
    pub events: u64,
}

/// A difference with its interval. JSON has no number for an infinite end: null.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct IntervalSummary {
    /// The median of the differences.
    pub difference: f64,
    /// The interval that holds it with 95 % certainty.
    pub ci95: (Option<f64>, Option<f64>),
    /// The rounds in which it was above zero, and all rounds.
    pub signs: (usize, usize),
}

impl From<Difference> for IntervalSummary {
    fn from(d: Difference) -> Self {
        let finite = |end: f64| end.is_finite().then_some(end);
        Self {
            difference: d.difference,
            ci95: (finite(d.ci95.0), finite(d.ci95.1)),
            signs: (d.larger, d.pairs),
        }
    }
}

/// The machine on which it was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineSummary {
    /// The kernel's release.
    pub kernel: String,
    /// The CPU's name.
    pub cpu: String,
    /// CPUs online.
    pub cpus: usize,
    /// Whether the kernel says that it runs under a hypervisor.
    pub virtual_machine: bool,
    /// The quality of its time stamp counter. Older files are of CPUs that promise one rate.
    #[serde(default)]
    pub counter: TscQuality,
    /// Where the victim ran.
    pub victim_cpu: u32,
    /// Where the culprit ran.
    pub culprit_cpu: u32,
}

/// The settings of the measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsSummary {
    /// quell's version.
    pub quell: String,
    /// The length of a block, ns.
    pub block_ns: u64,
    /// The shortest time from the start of an operation to that of the next, ns.
    pub pace_ns: u64,
    /// The budget, ns.
    pub budget_ns: u64,
    /// The largest number of rounds; 0 is as many as the time allowed.
    pub rounds: usize,
    /// The seed of the order of the arms.
    pub seed: u64,
    /// A turn of the victim that took so long was a gap, ns.
    pub gap_limit_ns: u64,
}

impl SettingsSummary {
    fn new(mechanism: &StallMechanism, options: &ExperimentOptions, gap_limit_ns: u64) -> Self {
        Self {
            quell: env!("CARGO_PKG_VERSION").to_owned(),
            block_ns: duration_ns(mechanism.timing.block_time().unwrap_or(options.block)),
            pace_ns: duration_ns(options.pace),
            budget_ns: duration_ns(options.budget),
            rounds: options.rounds,
            seed: options.seed,
            gap_limit_ns,
        }
    }
}

/// One arm, over all valid blocks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ArmSummary {
    /// Valid blocks.
    pub blocks: usize,
    /// Invalid blocks, by reason.
    pub invalid: BTreeMap<String, usize>,
    /// The time that the victim had its CPU, ns.
    pub ran_ns: u64,
    /// The time that others had it, ns.
    pub away_ns: u64,
    /// Operations of the culprit.
    pub ops: u64,
    /// Their length, ns: median and 99th percentile.
    pub op_ns: Option<(u64, u64)>,
    /// Shootdowns that interrupted the victim while it ran.
    pub shootdowns: u64,
    /// Those of the culprit.
    pub caused: u64,
    /// Faults of the victim, whatever their cause.
    pub faults: u64,
    /// Stall with the culprit's name, ppm: the median over blocks.
    pub stall_ppm: f64,
    /// Gaps by class: their number, and their sum in ns.
    pub gaps: BTreeMap<String, (u64, u64)>,
    /// The same by the process that answers for them. The untraced arm has none, and neither have files of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<OwnedGaps>,
    /// Length of a turn of the victim's spin, gaps included, those of class sched not: percentiles that at least 100
    /// turns lie beyond, ns.
    pub turn_ns: BTreeMap<String, u64>,
    /// The whole distribution: lengths to two digits, and their number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<(u64, u64)>,
    /// One block: begin and length of each gap, its class, whether the culprit caused it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<(u64, u64, GapClass, bool)>,
    /// The number of gaps of that block, if the timeline does not hold the first of them but, over the whole block, the culprit's
    /// and the longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline_of: Option<u64>,
    /// The operations of that block: begin and end, from the block's begin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline_ops: Vec<(u64, u64)>,
}

impl ExperimentSummary {
    /// Sums up an outcome and its judgement.
    #[must_use]
    pub fn new(
        mechanism: &StallMechanism,
        params: &Params,
        options: &ExperimentOptions,
        machine: MachineSummary,
        outcome: &Outcome,
        judged: &Judgement,
    ) -> Self {
        let once = matches!(mechanism.timing, OperationTiming::Once { .. });
        Self {
            schema: LAB_SCHEMA.to_owned(),
            experiment: mechanism.name.to_owned(),
            about: mechanism.about.to_owned(),
            note: outcome.note.clone(),
            params: params.clone(),
            victim: options.mode,
            verdict: judged.real.verdict,
            why: judged.real.why.clone(),
            sham_verdict: judged.sham.verdict,
            sham_why: judged.sham.why.clone(),
            interrupted: outcome.interrupted,
            machine,
            settings: Some(SettingsSummary::new(
                mechanism,
                options,
                outcome.gap_limit_ns,
            )),
            arms: Arm::ALL
                .into_iter()
                .map(|arm| {
                    let summary = ArmSummary::new(arm, outcome, once);
                    (arm.name().to_owned(), summary)
                })
                .collect(),
            shootdowns_per_op: judged.shootdowns_per_op,
            expected_per_op: judged.expected_per_op,
            faults_per_op: judged.faults_per_op,
            matched: judged.matched,
            effect: EffectSummary {
                stall_ppm: judged.real.stall_ppm.into(),
                all_gaps_ppm: judged.all_ppm.into(),
                sham_all_gaps_ppm: Some(judged.sham_all_ppm.into()),
                untraced_ppm: judged.untraced_ppm.into(),
                ns_per_event: judged.ns_per_event,
                gap_p50_ns: judged.gap_p50_ns,
                events: judged.real.events,
            },
            backtraces: outcome.backtraces.clone(),
        }
    }

    /// The cost of one operation for the victim, ns: shootdowns and faults of one, times the cost of each. Unlike ppm it does not
    /// depend on how many operations fit into a second.
    #[must_use]
    pub fn stall_ns_per_op(&self) -> Option<f64> {
        let events = self.shootdowns_per_op? + self.faults_per_op.unwrap_or(0.0);
        Some(events * self.effect.ns_per_event?)
    }

    /// An arm that has a valid block: nothing is known of any other.
    pub(crate) fn valid_arm(&self, arm: &str) -> Option<&ArmSummary> {
        self.arms.get(arm).filter(|arm| arm.blocks > 0)
    }

    /// The arms that there are, in their order.
    pub fn arms_in_order(&self) -> impl Iterator<Item = (Arm, &ArmSummary)> {
        let arms = Arm::ALL.into_iter();
        arms.filter_map(|arm| Some((arm, self.arms.get(arm.name())?)))
    }

    /// The summary without the data that only pictures need.
    #[must_use]
    pub fn without_pictures(mut self) -> Self {
        for arm in self.arms.values_mut() {
            arm.histogram.clear();
            arm.timeline.clear();
            arm.timeline_of = None;
            arm.timeline_ops.clear();
        }
        self
    }
}

impl ArmSummary {
    /// `once`: the culprit does one operation a block.
    fn new(arm: Arm, outcome: &Outcome, once: bool) -> Self {
        let of_arm = || {
            outcome
                .rounds
                .iter()
                .flatten()
                .filter(move |m| m.arm == arm)
        };
        let blocks: Vec<&ClassifiedBlock> = of_arm()
            .filter(|m| m.invalid.is_none())
            .map(|m| &m.block)
            .collect();
        let mut invalid = BTreeMap::new();
        for why in of_arm().filter_map(|m| m.invalid) {
            *invalid.entry(why.reason().to_owned()).or_insert(0) += 1;
        }
        let mut gaps = BTreeMap::new();
        for told in blocks.iter().flat_map(|b| &b.gaps) {
            let entry: &mut (u64, u64) = gaps.entry(told.class.name().to_owned()).or_default();
            entry.0 += 1;
            entry.1 += told.gap.ns;
        }
        let lengths: Vec<f64> = blocks
            .iter()
            .flat_map(|b| &b.ops)
            .map(|op| op.end_ns.saturating_sub(op.begin_ns) as f64)
            .collect();
        let op_ns = (!lengths.is_empty()).then(|| {
            let at = |q| quantile(&lengths, q).round() as u64;
            (at(0.5), at(0.99))
        });
        let ppm: Vec<f64> = blocks.iter().map(|b| b.caused_ppm()).collect();
        let by = if arm == Arm::Untraced {
            Vec::new()
        } else {
            outcome.processes.gaps_by_owner(arm, &blocks)
        };
        let turns = turn_lengths(&blocks);
        let timeline = median_timeline(&blocks, once);
        Self {
            blocks: blocks.len(),
            invalid,
            ran_ns: sum_over(&blocks, ClassifiedBlock::ran_ns),
            away_ns: sum_over(&blocks, |b| b.away_ns),
            ops: u64::try_from(lengths.len()).unwrap_or(0),
            op_ns,
            shootdowns: sum_over(&blocks, |b| b.hits),
            caused: sum_over(&blocks, |b| b.caused_hits),
            faults: sum_over(&blocks, |b| b.faults),
            stall_ppm: median(&ppm),
            gaps,
            by,
            turn_ns: turn_percentiles(&turns),
            histogram: turn_histogram(&turns),
            timeline: timeline.gaps,
            timeline_of: timeline.of,
            timeline_ops: timeline.ops,
        }
    }

    /// Invalid blocks, whatever the reason.
    #[must_use]
    pub fn all_invalid(&self) -> usize {
        self.invalid.values().fold(0, |n, m| n.saturating_add(*m))
    }

    /// So many ns of a class for a million ns that the victim ran; the time in which another thread ran is no part of that, and its
    /// share is one of all time.
    #[must_use]
    pub fn class_ppm(&self, class: GapClass) -> f64 {
        if class == GapClass::Sched {
            let all_ns = self.ran_ns.saturating_add(self.away_ns);
            return self.away_ns as f64 * 1e6 / all_ns.max(1) as f64;
        }
        let ns = self.gaps.get(class.name()).map_or(0, |(_, ns)| *ns);
        ns as f64 * 1e6 / self.ran_ns.max(1) as f64
    }

    /// Gaps of a class for a second that the victim ran.
    #[must_use]
    pub fn class_rate(&self, class: GapClass) -> f64 {
        let n = self.gaps.get(class.name()).map_or(0, |(n, _)| *n);
        n as f64 * 1e9 / self.ran_ns.max(1) as f64
    }
}
