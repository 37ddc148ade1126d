//! What the rounds say: shown, not shown, or too noisy to tell.
//!
//! A stall is claimed by what carries the culprit's name: gaps that hold a shootdown of its process, or a fault of
//! the victim's own. Other tenants of the machine make gaps too, and shootdowns; those are in the tables, but can't
//! make a verdict. Sham and real blocks of one round are compared, so that what changes slowly cancels.

use quell_stats::{Difference, difference};
use serde::{Deserialize, Serialize};

use crate::attribute::Attributed;
use crate::block::Arm;
use crate::experiment::{Round, operations};
use crate::mechanism::{Expects, Mechanism, Timing};
use crate::params::Params;
use crate::protocol::Mode;

/// The word for an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The mechanism stalls the victim on this machine.
    Shown,
    /// It was looked for well enough, and is not there.
    NotShown,
    /// This can't be told here and now.
    TooNoisy,
}

impl Verdict {
    /// As in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Shown => "shown",
            Self::NotShown => "not-shown",
            Self::TooNoisy => "too-noisy",
        }
    }
}

/// What is known of one arm against another.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The word.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub why: String,
    /// Stall that the culprit caused, ppm of the time in which the victim ran: its arm less the control.
    pub stall_ppm: Difference,
    /// Shootdowns of the culprit at the victim, and faults of the victim, in its arm.
    pub events: u64,
}

/// What is known of an experiment.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// Real against sham.
    pub real: Effect,
    /// Sham against idle: the control of the control.
    pub sham: Effect,
    /// Time in all gaps, whatever their cause, but for those in which another thread ran: real less sham, ppm.
    pub all_ppm: Difference,
    /// Time in gaps that are too short for another thread to have run, untraced less traced: what watching costs the
    /// victim.
    pub untraced_ppm: Difference,
    /// Shootdowns at the victim for one operation; nothing where there was none.
    pub shootdowns_per_op: Option<f64>,
    /// Faults of the victim for one operation.
    pub faults_per_op: Option<f64>,
    /// Time of the victim for one shootdown or fault, ns.
    pub ns_per_event: Option<f64>,
    /// The share of shootdowns at the victim that lie in one of its gaps.
    pub matched: Option<f64>,
    /// What was expected.
    pub expects: Expects,
    /// Rounds of which all three arms are valid.
    pub valid_rounds: usize,
}

impl Judgement {
    /// Whether more rounds would change little.
    #[must_use]
    pub fn is_known_well(&self) -> bool {
        const WIDTH: f64 = 0.2;
        let ppm = &self.real.stall_ppm;
        match self.real.verdict {
            Verdict::Shown => ppm.ci95.1 - ppm.ci95.0 <= WIDTH * ppm.difference,
            Verdict::NotShown => true,
            Verdict::TooNoisy => false,
        }
    }
}

/// Valid rounds before anything is said.
const FEWEST: usize = 6;

/// Operations without which "not shown" would only mean that nobody looked, where they don't take this long together.
const FEWEST_OPS: u64 = 100;

/// Time of operations that is enough, however few they are, ns.
const BUSY_NS: u64 = 250_000_000;

/// Events below which a difference is not a claim: with a handful, one burst decides.
const FEWEST_EVENTS: u64 = 20;

/// The least effect that is called one, ppm: a microsecond a second.
const LEAST_PPM: f64 = 1.0;

/// "Not shown" takes an interval that ends below this, ppm.
const NEGLIGIBLE_PPM: f64 = 100.0;

/// The share of rounds in which the effect must have its sign.
const LEAST_SIGNS: f64 = 0.9;

/// The seed of the intervals, so that the same rounds always say the same.
const SEED: u64 = 5;

/// Judges what there is so far.
#[must_use]
pub fn judge(mechanism: &Mechanism, params: &Params, mode: Mode, rounds: &[Round]) -> Judgement {
    let valid: Vec<&Round> = rounds
        .iter()
        .filter(|round| {
            let counts = |arm| round.iter().any(|m| m.arm == arm && m.invalid.is_none());
            counts(Arm::Idle) && counts(Arm::Sham) && counts(Arm::Real)
        })
        .collect();
    let all = |arm: Arm| -> Vec<&Attributed> {
        valid
            .iter()
            .filter_map(|round| round.iter().find(|m| m.arm == arm).map(|m| &m.block))
            .collect()
    };
    let [idle, sham, real, untraced] = Arm::ALL.map(all);
    let expects = mechanism.expected(params, mode);
    let sum = |blocks: &[&Attributed], of: fn(&Attributed) -> u64| -> u64 {
        blocks.iter().map(|b| of(b)).sum()
    };
    let ops: u64 = real.iter().map(|b| operations(b, mechanism.timing)).sum();
    let share = |n: u64, of: u64| (of > 0).then(|| n as f64 / of as f64);
    let events = sum(&real, |b| b.caused_hits + b.faults);
    let every =
        [&idle, &sham, &real].map(|blocks| (sum(blocks, |b| b.matched), sum(blocks, |b| b.hits)));
    // A number that is known is held against the operations that the victim was there for. Elsewhere those would be
    // the odd ones: what a kernel thread does falls beside the operation that asked for it, and a victim that faults
    // waits for what the culprit holds (mmap_lock in fork, pages under write-back in msync).
    let (of_ops, hits, faults) = if expects.per_op.is_some() && mechanism.daemons.is_empty() {
        (
            ops,
            sum(&real, |b| b.counted_hits),
            sum(&real, |b| b.counted_faults),
        )
    } else {
        (
            sum(&real, |b| u64::try_from(b.ops.len()).unwrap_or(0)),
            sum(&real, |b| b.caused_hits),
            sum(&real, |b| b.faults),
        )
    };
    Judgement {
        real: effect(&sham, &real, mode, mechanism.timing),
        sham: effect(&idle, &sham, mode, mechanism.timing),
        all_ppm: differ(&sham, &real, all_ppm),
        untraced_ppm: differ(&real, &untraced, short_ppm),
        shootdowns_per_op: share(hits, of_ops),
        faults_per_op: share(faults, of_ops),
        ns_per_event: share(sum(&real, Attributed::caused_ns), events),
        matched: share(
            every.iter().map(|e| e.0).sum(),
            every.iter().map(|e| e.1).sum(),
        ),
        expects,
        valid_rounds: valid.len(),
    }
}

fn differ(control: &[&Attributed], arm: &[&Attributed], of: fn(&Attributed) -> f64) -> Difference {
    let pairs: Vec<(f64, f64)> = control
        .iter()
        .zip(arm)
        .map(|(c, a)| (of(c), of(a)))
        .collect();
    difference(&pairs, SEED)
}

fn ppm(ns: u64, of: u64) -> f64 {
    if of == 0 {
        return 0.0;
    }
    ns as f64 * 1e6 / of as f64
}

/// Stall that carries the culprit's name, ppm of the time in which the victim ran.
fn caused_ppm(block: &Attributed) -> f64 {
    ppm(block.caused_ns(), block.ran_ns())
}

/// All stall but for what other threads took, ppm.
fn all_ppm(block: &Attributed) -> f64 {
    let gaps: u64 = block.gaps.iter().map(|t| t.gap.ns).sum();
    ppm(gaps.saturating_sub(block.away_ns), block.ran_ns())
}

/// Stall in gaps that are too short for another thread to have run, ppm of all time: without the probe nobody says
/// which those are.
fn short_ppm(block: &Attributed) -> f64 {
    const SHORT_NS: u64 = 100_000;
    let gaps = block.gaps.iter().map(|t| t.gap.ns);
    let (short, long) = gaps.fold((0, 0), |(short, long), ns| {
        if ns < SHORT_NS {
            (short + ns, long)
        } else {
            (short, long + ns)
        }
    });
    ppm(short, (block.end_ns - block.begin_ns).saturating_sub(long))
}

fn effect(control: &[&Attributed], arm: &[&Attributed], mode: Mode, timing: Timing) -> Effect {
    let fewest_ops = match timing {
        Timing::Repeated | Timing::Slow { .. } => FEWEST_OPS,
        // one a block
        Timing::Once { .. } => FEWEST as u64,
    };
    let ops: u64 = arm.iter().map(|b| operations(b, timing)).sum();
    let events: u64 = arm.iter().map(|b| b.caused_hits + b.faults).sum();
    let stall_ppm = differ(control, arm, caused_ppm);
    let told = |verdict, why: String| Effect {
        verdict,
        why,
        stall_ppm,
        events,
    };
    if arm.len() < FEWEST {
        let why = format!("{} of {FEWEST} valid rounds", arm.len());
        return told(Verdict::TooNoisy, why);
    }
    if mode == Mode::Sleep {
        return asleep(ops, events, stall_ppm);
    }
    let signs = stall_ppm.larger as f64 >= LEAST_SIGNS * stall_ppm.pairs as f64;
    let (low, high) = stall_ppm.ci95;
    if low > 0.0 && stall_ppm.difference >= LEAST_PPM && events >= FEWEST_EVENTS && signs {
        let why = format!(
            "more stall in {} of {} rounds, by {:.0} ppm ({low:.0} to {high:.0})",
            stall_ppm.larger, stall_ppm.pairs, stall_ppm.difference
        );
        return told(Verdict::Shown, why);
    }
    let busy: u64 = arm
        .iter()
        .flat_map(|b| &b.ops)
        .map(|op| op.end_ns.saturating_sub(op.begin_ns))
        .sum();
    if ops < fewest_ops && busy < BUSY_NS && events < FEWEST_EVENTS {
        let why = format!("only {ops} operations fell into the time in which the victim ran");
        return told(Verdict::TooNoisy, why);
    }
    if high < NEGLIGIBLE_PPM {
        let why = format!(
            "{events} shootdowns and faults in {ops} operations, and at most {:.0} ppm more stall",
            high.max(0.0)
        );
        return told(Verdict::NotShown, why);
    }
    let why = format!(
        "{events} shootdowns and faults, but the stall differs by {low:.0} to {high:.0} ppm from round to round"
    );
    told(Verdict::TooNoisy, why)
}

/// Of a victim that sleeps nothing but the shootdowns that reach its CPU can be told.
fn asleep(ops: u64, events: u64, stall_ppm: Difference) -> Effect {
    /// Where shootdowns reach a CPU at all, they do for about every operation.
    const HALF: u64 = 2;
    let (verdict, why) = if ops < FEWEST_OPS {
        (Verdict::TooNoisy, format!("only {ops} operations"))
    } else {
        let verdict = if events >= ops / HALF {
            Verdict::Shown
        } else {
            Verdict::NotShown
        };
        let why = format!(
            "{events} shootdowns reached the CPU of the sleeping victim in {ops} operations"
        );
        (verdict, why)
    };
    Effect {
        verdict,
        why,
        stall_ppm,
        events,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::{Class, Told};
    use crate::block::Gap;
    use crate::experiment::{Invalid, Measured};
    use crate::mechanism::find;

    /// A block of a tenth of a second with so many stalls of 2 µs, caused or not.
    fn block(arm: Arm, stalls: u64, caused: bool, ops: u64) -> Measured {
        let gaps = (0..stalls)
            .map(|i| Told {
                gap: Gap {
                    begin_ns: 1000 + i * 10_000,
                    ns: 2000,
                },
                class: if caused { Class::Tlb } else { Class::None },
                caused,
                by: 0,
            })
            .collect();
        Measured {
            arm,
            block: Attributed {
                begin_ns: 0,
                end_ns: 100_000_000,
                gaps,
                hits: if caused { stalls } else { 0 },
                matched: if caused { stalls } else { 0 },
                caused_hits: if caused { stalls } else { 0 },
                counted_ops: ops,
                counted_hits: if caused { stalls } else { 0 },
                ..Attributed::default()
            },
            invalid: None,
        }
    }

    fn rounds(n: u64, real: u64, noise: u64) -> Vec<Round> {
        let other = |i: u64| (i * 7919) % (noise + 1);
        (0..n)
            .map(|i| {
                vec![
                    block(Arm::Idle, other(i), false, 0),
                    block(Arm::Sham, other(i + 3), false, 1000),
                    block(Arm::Real, real, true, 1000),
                    block(Arm::Untraced, other(i + 5), false, 0),
                ]
            })
            .collect()
    }

    fn judged(rounds: &[Round]) -> Judgement {
        let m = find("dontneed").unwrap();
        judge(m, &Params::default(), Mode::Spin, rounds)
    }

    /// Check that stalls of the culprit's own are shown with their number an operation, however much else there is,
    /// and that the sham is not.
    #[test]
    fn shown_beside_noise() {
        for noise in [0, 10, 3000] {
            let j = judged(&rounds(8, 1000, noise));
            assert_eq!(j.real.verdict, Verdict::Shown, "{noise}: {}", j.real.why);
            assert_eq!(j.sham.verdict, Verdict::NotShown, "{noise}: {}", j.sham.why);
            assert_eq!(j.shootdowns_per_op, Some(1.0));
            assert_eq!(j.ns_per_event, Some(2000.0));
            assert_eq!(j.matched, Some(1.0));
        }
    }

    /// Check that gaps that nobody caused make no claim, and that too little to look at is said to be so.
    #[test]
    fn nothing_is_not_shown() {
        let j = judged(&rounds(8, 0, 3000));
        assert_eq!(j.real.verdict, Verdict::NotShown, "{}", j.real.why);
        assert!(j.is_known_well());
        assert_eq!(judged(&rounds(5, 1000, 0)).real.verdict, Verdict::TooNoisy);
        let mut few = rounds(8, 0, 0);
        few.iter_mut().for_each(|r| r[2].block.counted_ops = 3);
        assert_eq!(judged(&few).real.verdict, Verdict::TooNoisy);
    }

    /// Check that rounds with an invalid block are left out.
    #[test]
    fn invalid_rounds_are_left_out() {
        let mut some = rounds(10, 1000, 0);
        some[0][1].invalid = Some(Invalid::Lost);
        some[3][2].invalid = Some(Invalid::Away);
        // what is measured without the probe decides nothing
        some[5][3].invalid = Some(Invalid::Away);
        assert_eq!(judged(&some).valid_rounds, 8);
    }

    /// Check that a sleeping victim is judged by what reaches its CPU.
    #[test]
    fn asleep_by_what_arrives() {
        let m = find("dontneed").unwrap();
        let verdict = |real| {
            let j = judge(m, &Params::default(), Mode::Sleep, &rounds(8, real, 0));
            j.real.verdict
        };
        assert_eq!(verdict(1000), Verdict::Shown);
        assert_eq!(verdict(3), Verdict::NotShown);
    }
}
