//! One arm against its control: the rules of a verdict.

use std::fmt::Write as _;

use quell_stats::Difference;

use super::Verdict;
use super::measure::differ;
use crate::arm::{FEWEST, Mode};
use crate::attribute::Attributed;
use crate::mechanism::Timing;
use crate::round::{Invalid, operations};

/// One arm compared with its control.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub why: String,
    /// Stall that the culprit caused, ppm of the time in which the victim ran: its arm less the control.
    pub stall_ppm: Difference,
    /// Shootdowns of the culprit at the victim, and faults of the victim that the mechanism makes, in its arm.
    pub events: u64,
}

/// An arm, its control, and their conditions.
pub(super) struct Asked<'a> {
    /// Blocks of the control, a round each.
    pub(super) control: &'a [&'a Attributed],
    /// Blocks of the arm, of the same rounds.
    pub(super) arm: &'a [&'a Attributed],
    /// Whether the victim spun or slept.
    pub(super) mode: Mode,
    /// When the culprit worked.
    pub(super) timing: Timing,
    /// All rounds, valid or not.
    pub(super) rounds: usize,
    /// The most frequent reason of blocks that don't count.
    pub(super) invalid: Option<Invalid>,
}

/// With fewer operations "not shown" would only mean that nobody looked, unless they take `BUSY_ENOUGH_NS` together.
const FEWEST_OPS: u64 = 100;

/// Time of operations that is enough, however few they are.
const BUSY_NS: u64 = 250_000_000;

/// Events below which a difference is not a claim: with a handful, one burst decides.
const FEWEST_EVENTS: u64 = 20;

/// The least effect that is called one: a microsecond a second.
const LEAST_PPM: f64 = 1.0;

/// "Not shown" takes an interval that ends below this.
const NEGLIGIBLE_PPM: f64 = 100.0;

/// The same where a block has one operation, as a time of it: of so long a block 100 ppm would be a long time.
const NEGLIGIBLE_NS: f64 = 10_000.0;

/// The share of rounds in which the effect must have its sign.
const LEAST_SIGNS: f64 = 0.9;

/// The share of shootdowns at the victim that must lie in a gap: below it, gaps and the probe's times don't fit each
/// other, and no stall is to be believed.
const LEAST_MATCHED: f64 = 0.9;

/// Judges an arm against its control.
pub(super) fn effect(asked: &Asked<'_>) -> Effect {
    let arm = asked.arm;
    let sum = |of: fn(&Attributed) -> u64| arm.iter().map(|b| of(b)).sum::<u64>();
    let ops: u64 = arm.iter().map(|b| operations(b, asked.timing)).sum();
    let events = sum(|b| b.caused_hits + b.caused_faults);
    let stall_ppm = differ(asked.control, arm, Attributed::caused_ppm);
    let (verdict, why) = if arm.len() < FEWEST {
        few_rounds(arm.len(), asked)
    } else if asked.mode == Mode::Sleep {
        asleep(ops, events, fewest_ops(asked.timing))
    } else {
        spinning(asked, &stall_ppm, ops, events)
    };
    Effect {
        verdict,
        why,
        stall_ppm,
        events,
    }
}

fn few_rounds(valid: usize, asked: &Asked<'_>) -> (Verdict, String) {
    let rounds = asked.rounds;
    if rounds < FEWEST {
        let mut why = format!("{rounds} of the {FEWEST} rounds that it takes");
        if valid < rounds {
            let _ = write!(why, ", of which {valid} count");
        }
        return (Verdict::TooShort, why);
    }
    let mut why = format!("{valid} of {rounds} rounds are valid, and it takes {FEWEST}");
    if let Some(invalid) = asked.invalid {
        let _ = write!(why, "; most often {}", invalid.why());
    }
    (Verdict::TooNoisy, why)
}

fn fewest_ops(timing: Timing) -> u64 {
    match timing {
        Timing::Repeated | Timing::Slow { .. } => FEWEST_OPS,
        // There is one operation a block.
        Timing::Once { .. } => FEWEST as u64,
    }
}

fn spinning(asked: &Asked<'_>, stall: &Difference, ops: u64, events: u64) -> (Verdict, String) {
    let arm = asked.arm;
    let sum = |of: fn(&Attributed) -> u64| arm.iter().map(|b| of(b)).sum::<u64>();
    let (hits, matched) = (sum(|b| b.hits), sum(|b| b.matched));
    if hits >= FEWEST_EVENTS && (matched as f64) < LEAST_MATCHED * hits as f64 {
        let why = format!("only {matched} of {hits} shootdowns lie in a gap of the victim");
        return (Verdict::TooNoisy, why);
    }
    let (fewest_events, negligible) = match asked.timing {
        Timing::Repeated | Timing::Slow { .. } => (FEWEST_EVENTS, NEGLIGIBLE_PPM),
        Timing::Once { block_ms, .. } => {
            (FEWEST as u64, NEGLIGIBLE_NS / (block_ms as f64 * 1e6) * 1e6)
        }
    };
    let (low, high) = stall.ci95;
    let (difference, larger, pairs) = (stall.difference, stall.larger, stall.pairs);
    if low > 0.0 && difference >= LEAST_PPM {
        let text = format!(
            "more stall in {larger} of {pairs} rounds, by {} ppm ({} to {})",
            ppm(difference),
            ppm(low),
            ppm(high)
        );
        let signs = larger as f64 >= LEAST_SIGNS * pairs as f64;
        if events >= fewest_events && signs {
            return (Verdict::Shown, text);
        }
        // There is an effect, and too little was seen of it: never "not shown".
        let lacks = if signs {
            format!("it takes {fewest_events} shootdowns or faults, and there were {events}")
        } else {
            format!("it takes {:.0} % of the rounds", LEAST_SIGNS * 100.0)
        };
        return (Verdict::TooNoisy, format!("{text}, but {lacks}"));
    }
    let timed = sum(|b| b.timed_events);
    if events >= fewest_events && timed * 2 < events {
        let why = format!(
            "of {events} shootdowns and faults only {timed} have a gap of their own: in the others the CPU itself was away"
        );
        return (Verdict::TooNoisy, why);
    }
    let busy: u64 = arm
        .iter()
        .flat_map(|b| &b.ops)
        .map(|op| op.end_ns.saturating_sub(op.begin_ns))
        .sum();
    if ops < fewest_ops(asked.timing) && busy < BUSY_NS && events < FEWEST_EVENTS {
        let why = format!("only {ops} operations fell into the time in which the victim ran");
        return (Verdict::TooNoisy, why);
    }
    if high < negligible {
        let why = format!(
            "{events} shootdowns and faults in {ops} operations, and at most {} ppm more stall",
            ppm(high.max(0.0))
        );
        return (Verdict::NotShown, why);
    }
    let why = format!(
        "{events} shootdowns and faults, but the stall differs by {} to {} ppm from round to round",
        ppm(low),
        ppm(high)
    );
    (Verdict::TooNoisy, why)
}

/// A number in a sentence; only a small one has a digit behind the point.
fn ppm(n: f64) -> String {
    if n != 0.0 && n.abs() < 10.0 {
        format!("{n:.1}")
    } else {
        format!("{n:.0}")
    }
}

/// Of a victim that sleeps only the shootdowns that reach its CPU can be counted.
fn asleep(ops: u64, events: u64, fewest_ops: u64) -> (Verdict, String) {
    /// Where shootdowns reach a CPU at all, they do for about every operation.
    const HALF: u64 = 2;
    if ops < fewest_ops {
        return (Verdict::TooNoisy, format!("only {ops} operations"));
    }
    let verdict = if events >= ops.div_ceil(HALF) {
        Verdict::Shown
    } else {
        Verdict::NotShown
    };
    let why =
        format!("{events} shootdowns reached the CPU of the sleeping victim in {ops} operations");
    (verdict, why)
}
