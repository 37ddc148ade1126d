//! One arm against its control: the rules of a verdict.

use std::fmt::Write as _;

use quell_stats::Difference;

use super::LabVerdict;
use super::block_figures::compare_blocks;
use crate::arm::{MIN_VALID_ROUNDS, VictimActivity};
use crate::attribute::{ClassifiedBlock, sum_over};
use crate::mechanism::OperationTiming;
use crate::round::{InvalidReason, telling_operations};

/// One arm compared with its control.
#[derive(Clone, Debug)]
pub struct ArmEffect {
    /// The verdict.
    pub verdict: LabVerdict,
    /// Why, in one sentence.
    pub why: String,
    /// Stall that the culprit caused, ppm of the time in which the victim ran: its arm less the control.
    pub stall_ppm: Difference,
    /// Shootdowns of the culprit at the victim, and faults of the victim that the mechanism makes, in its arm.
    pub events: u64,
}

/// An arm, its control, and their conditions.
pub(super) struct ArmComparison<'a> {
    /// Blocks of the control, a round each.
    pub(super) control: &'a [&'a ClassifiedBlock],
    /// Blocks of the arm, of the same rounds.
    pub(super) arm: &'a [&'a ClassifiedBlock],
    /// Whether the victim spun or slept.
    pub(super) mode: VictimActivity,
    /// When the culprit worked.
    pub(super) timing: OperationTiming,
    /// All rounds, valid or not.
    pub(super) rounds: usize,
    /// The most frequent reason of blocks that don't count.
    pub(super) invalid: Option<InvalidReason>,
}

/// With fewer operations "not shown" would only mean that nobody looked, unless they take `BUSY_ENOUGH_NS` together.
const MIN_OPS: u64 = 100;

/// Time of operations that is enough, however few they are.
const BUSY_ENOUGH_NS: u64 = 250_000_000;

/// Events below which a difference is not a claim: with a handful, one burst decides.
const MIN_EVENTS: u64 = 20;

/// The least effect that is called one: a microsecond a second.
const MIN_EFFECT_PPM: f64 = 1.0;

/// "Not shown" takes an interval that ends below this.
const NEGLIGIBLE_PPM: f64 = 100.0;

/// The same where a block has one operation, as a time of it: of so long a block 100 ppm would be a long time.
const NEGLIGIBLE_NS: f64 = 10_000.0;

/// The share of rounds in which the effect must have its sign.
const MIN_SIGN_SHARE: f64 = 0.9;

/// The share of shootdowns at the victim that must lie in a gap: below it, gaps and the probe's times don't fit each
/// other, and no stall is to be believed.
const MIN_MATCHED_SHARE: f64 = 0.9;

/// Judges an arm against its control.
pub(super) fn judge_arm(asked: &ArmComparison<'_>) -> ArmEffect {
    let arm = asked.arm;
    let ops = telling_operations(arm, asked.timing);
    let events = sum_over(arm, |b| b.caused_hits + b.caused_faults);
    let stall_ppm = compare_blocks(asked.control, arm, ClassifiedBlock::caused_ppm);
    let (verdict, why) = if arm.len() < MIN_VALID_ROUNDS {
        judge_few_rounds(arm.len(), asked)
    } else if asked.mode == VictimActivity::Sleep {
        judge_asleep(ops, events, min_ops(asked.timing))
    } else {
        judge_spinning(asked, &stall_ppm, ops, events)
    };
    ArmEffect {
        verdict,
        why,
        stall_ppm,
        events,
    }
}

fn judge_few_rounds(valid: usize, asked: &ArmComparison<'_>) -> (LabVerdict, String) {
    let rounds = asked.rounds;
    if rounds < MIN_VALID_ROUNDS {
        let mut why = format!("{rounds} of the {MIN_VALID_ROUNDS} rounds that it takes");
        if valid < rounds {
            let _ = write!(why, ", of which {valid} count");
        }
        return (LabVerdict::TooShort, why);
    }
    let mut why = format!("{valid} of {rounds} rounds are valid, and it takes {MIN_VALID_ROUNDS}");
    if let Some(invalid) = asked.invalid {
        let _ = write!(why, "; most often {}", invalid.reason());
    }
    (LabVerdict::TooNoisy, why)
}

/// Operations below which nobody looked: of a victim that spins unless they were busy for `BUSY_ENOUGH_NS` or had enough events,
/// of one that sleeps always.
fn min_ops(timing: OperationTiming) -> u64 {
    match timing {
        OperationTiming::Repeated | OperationTiming::Slow { .. } => MIN_OPS,
        // There is one operation a block.
        OperationTiming::Once { .. } => MIN_VALID_ROUNDS as u64,
    }
}

fn judge_spinning(
    asked: &ArmComparison<'_>,
    stall: &Difference,
    ops: u64,
    events: u64,
) -> (LabVerdict, String) {
    let arm = asked.arm;
    let (hits, matched) = (sum_over(arm, |b| b.hits), sum_over(arm, |b| b.matched));
    if hits >= MIN_EVENTS && (matched as f64) < MIN_MATCHED_SHARE * hits as f64 {
        let why = format!("only {matched} of {hits} shootdowns lie in a gap of the victim");
        return (LabVerdict::TooNoisy, why);
    }
    let (fewest_events, negligible) = match asked.timing {
        OperationTiming::Repeated | OperationTiming::Slow { .. } => (MIN_EVENTS, NEGLIGIBLE_PPM),
        OperationTiming::Once { block_ms, .. } => (
            MIN_VALID_ROUNDS as u64,
            NEGLIGIBLE_NS / (block_ms as f64 * 1e6) * 1e6,
        ),
    };
    let (low, high) = stall.ci95;
    let (difference, larger, pairs) = (stall.difference, stall.larger, stall.pairs);
    if low > 0.0 && difference >= MIN_EFFECT_PPM {
        let text = format!(
            "more stall in {larger} of {pairs} rounds, by {} ppm ({} to {})",
            format_ppm(difference),
            format_ppm(low),
            format_ppm(high)
        );
        let signs = larger as f64 >= MIN_SIGN_SHARE * pairs as f64;
        if events >= fewest_events && signs {
            return (LabVerdict::Shown, text);
        }
        // There is an effect, and too little was seen of it: never "not shown".
        let lacks = if signs {
            format!("it takes {fewest_events} shootdowns or faults, and there were {events}")
        } else {
            format!("it takes {:.0} % of the rounds", MIN_SIGN_SHARE * 100.0)
        };
        return (LabVerdict::TooNoisy, format!("{text}, but {lacks}"));
    }
    let timed = sum_over(arm, |b| b.timed_events);
    if events >= fewest_events && timed * 2 < events {
        let why = format!(
            "of {events} shootdowns and faults only {timed} have a gap of their own: in the others the CPU itself was away"
        );
        return (LabVerdict::TooNoisy, why);
    }
    let busy: u64 = arm
        .iter()
        .flat_map(|b| &b.ops)
        .map(|op| op.end_ns.saturating_sub(op.begin_ns))
        .sum();
    if ops < min_ops(asked.timing) && busy < BUSY_ENOUGH_NS && events < MIN_EVENTS {
        let why = format!("only {ops} operations fell into the time in which the victim ran");
        return (LabVerdict::TooNoisy, why);
    }
    if high < negligible {
        let why = format!(
            "{events} shootdowns and faults in {ops} operations, and at most {} ppm more stall",
            format_ppm(high.max(0.0))
        );
        return (LabVerdict::NotShown, why);
    }
    let why = format!(
        "{events} shootdowns and faults, but the stall differs by {} to {} ppm from round to round",
        format_ppm(low),
        format_ppm(high)
    );
    (LabVerdict::TooNoisy, why)
}

/// A number in a sentence; only a small one has a digit behind the point.
fn format_ppm(n: f64) -> String {
    if n != 0.0 && n.abs() < 10.0 {
        format!("{n:.1}")
    } else {
        format!("{n:.0}")
    }
}

/// Of a victim that sleeps only the shootdowns that reach its CPU can be counted.
fn judge_asleep(ops: u64, events: u64, fewest_ops: u64) -> (LabVerdict, String) {
    /// Where shootdowns reach a CPU at all, they do for about every operation.
    const MAX_OPS_PER_EVENT: u64 = 2;
    if ops < fewest_ops {
        return (LabVerdict::TooNoisy, format!("only {ops} operations"));
    }
    let verdict = if events >= ops.div_ceil(MAX_OPS_PER_EVENT) {
        LabVerdict::Shown
    } else {
        LabVerdict::NotShown
    };
    let why =
        format!("{events} shootdowns reached the CPU of the sleeping victim in {ops} operations");
    (verdict, why)
}
