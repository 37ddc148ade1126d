//! Rounds that are made up.

use quell_stats::Rng;

use super::*;
use crate::attribute::{ClassifiedGap, GapClass};
use crate::block::VictimGap;
use crate::mechanism::mechanism_by_name;
use crate::round::{InvalidReason, MeasuredBlock};

/// A block of a tenth of a second with so many stalls of 2 µs, caused or not.
fn block(arm: Arm, stalls: u64, caused: bool, ops: u64) -> MeasuredBlock {
    let gaps = (0..stalls)
        .map(|i| ClassifiedGap {
            gap: VictimGap {
                begin_ns: 1000 + i * 10_000,
                ns: 2000,
            },
            class: if caused {
                GapClass::Tlb
            } else {
                GapClass::None
            },
            caused,
            by: 0,
        })
        .collect();
    MeasuredBlock {
        arm,
        block: ClassifiedBlock {
            begin_ns: 0,
            end_ns: 100_000_000,
            gaps,
            hits: if caused { stalls } else { 0 },
            matched: if caused { stalls } else { 0 },
            caused_hits: if caused { stalls } else { 0 },
            timed_events: if caused { stalls } else { 0 },
            counted_ops: ops,
            counted_hits: if caused { stalls } else { 0 },
            ..ClassifiedBlock::default()
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
    let m = mechanism_by_name("dontneed").unwrap();
    judge_rounds(m, &Params::default(), VictimActivity::Spin, rounds)
}

/// Check that stalls of the culprit's own are shown with their number an operation, however much else there is,
/// and that the sham is not.
#[test]
fn shown_beside_noise() {
    for noise in [0, 10, 3000] {
        let j = judged(&rounds(8, 1000, noise));
        assert_eq!(j.real.verdict, LabVerdict::Shown, "{noise}: {}", j.real.why);
        assert_eq!(
            j.sham.verdict,
            LabVerdict::NotShown,
            "{noise}: {}",
            j.sham.why
        );
        assert_eq!(j.shootdowns_per_op, Some(1.0));
        assert_eq!(j.ns_per_event, Some(2000.0));
        assert_eq!(j.matched, Some(1.0));
    }
}

/// Check that gaps that nobody caused make no claim, and that too little to look at is said to be so.
#[test]
fn nothing_is_not_shown() {
    let j = judged(&rounds(8, 0, 3000));
    assert_eq!(j.real.verdict, LabVerdict::NotShown, "{}", j.real.why);
    assert_eq!(next_look(8, Some(&j)), None);
    assert_eq!(
        judged(&rounds(5, 1000, 0)).real.verdict,
        LabVerdict::TooShort
    );
    let mut few = rounds(8, 0, 0);
    few.iter_mut().for_each(|r| r[2].block.counted_ops = 3);
    assert_eq!(judged(&few).real.verdict, LabVerdict::TooNoisy);
}

/// Check that rounds with an invalid block are left out.
#[test]
fn invalid_rounds_are_left_out() {
    let mut some = rounds(10, 1000, 0);
    some[0][1].invalid = Some(InvalidReason::Lost);
    some[3][2].invalid = Some(InvalidReason::Away);
    // what is measured without the probe decides nothing
    some[5][3].invalid = Some(InvalidReason::Away);
    assert_eq!(judged(&some).real.stall_ppm.pairs, 8);
}

/// Check that a sleeping victim is judged by what reaches its CPU.
#[test]
fn asleep_by_what_arrives() {
    let m = mechanism_by_name("dontneed").unwrap();
    let verdict = |real| {
        let j = judge_rounds(
            m,
            &Params::default(),
            VictimActivity::Sleep,
            &rounds(8, real, 0),
        );
        j.real.verdict
    };
    assert_eq!(verdict(1000), LabVerdict::Shown);
    assert_eq!(verdict(3), LabVerdict::NotShown);
}

/// Check that a small effect that is there every time is never "not shown", and that more is asked for.
#[test]
fn what_is_there_is_not_denied() {
    let j = judged(&rounds(8, 2, 0));
    assert_eq!(j.real.verdict, LabVerdict::TooNoisy, "{}", j.real.why);
    assert!(j.real.why.contains("it takes 20"), "{}", j.real.why);
    assert_eq!(next_look(8, Some(&j)), Some(16));
    assert_eq!(judged(&rounds(16, 2, 0)).real.verdict, LabVerdict::Shown);
}

/// Check that shootdowns that lie in no gap give no word: then the victim's gaps tell nothing.
#[test]
fn unmatched_is_no_answer() {
    let mut some = rounds(8, 1000, 0);
    for round in &mut some {
        let real = &mut round[2].block;
        real.gaps.clear();
        real.matched = 0;
        real.timed_events = 0;
    }
    let j = judged(&some);
    assert_eq!(j.real.verdict, LabVerdict::TooNoisy, "{}", j.real.why);
    assert!(j.real.why.contains("lie in a gap"), "{}", j.real.why);
}

/// Check that shootdowns that came while the CPU was away give no word, also not that there is nothing.
#[test]
fn untimed_is_no_answer() {
    let mut some = rounds(8, 1000, 0);
    for round in &mut some {
        let real = &mut round[2].block;
        real.gaps.iter_mut().for_each(|told| told.caused = false);
        real.timed_events = 0;
        real.counted_ops = 0;
    }
    let j = judged(&some);
    assert_eq!(j.real.verdict, LabVerdict::TooNoisy, "{}", j.real.why);
    assert!(
        j.real.why.contains("the CPU itself was away"),
        "{}",
        j.real.why
    );
}

/// Check that it is said why too few rounds count.
#[test]
fn invalid_rounds_say_why() {
    let mut some = rounds(8, 1000, 0);
    for round in &mut some {
        round[2].invalid = Some(InvalidReason::NoOperation);
    }
    some[0][1].invalid = Some(InvalidReason::Lost);
    let j = judged(&some);
    assert_eq!(j.real.verdict, LabVerdict::TooNoisy);
    assert!(j.real.why.contains("--block"), "{}", j.real.why);
}

/// Check that a control that is stalled too takes the word away, also where it is stalled as much.
#[test]
fn shown_control_is_no_control() {
    let mut alike = rounds(8, 1000, 0);
    for round in &mut alike {
        round[1] = block(Arm::Sham, 1000, true, 1000);
    }
    let j = judged(&alike);
    assert_eq!(j.sham.verdict, LabVerdict::Shown);
    assert_eq!(j.real.verdict, LabVerdict::TooNoisy, "{}", j.real.why);
    let mut some = rounds(8, 1000, 0);
    for round in &mut some {
        round[1] = block(Arm::Sham, 400, true, 1000);
    }
    let j = judged(&some);
    assert_eq!(j.sham.verdict, LabVerdict::Shown);
    assert_eq!(j.real.verdict, LabVerdict::TooNoisy, "{}", j.real.why);
}

/// Check that the interval holds the truth in about 95 of 100 cases although rounds are added until it is narrow: with
/// scatter of which a few rounds tell little, even and one-sided.
#[test]
fn intervals_hold_with_looks() {
    const CASES: u32 = 100;
    const EFFECT: u64 = 1000;
    let mut rng = Rng::new(11);
    for one_sided in [false, true] {
        let mut held = 0;
        let mut looked = 0;
        for _ in 0..CASES {
            let mut some = Vec::new();
            let mut look = next_look(0, None).unwrap();
            let j = loop {
                while some.len() < look {
                    let off = rng.below(800) as u64;
                    let off = if one_sided { off * off / 1000 } else { off };
                    let mut round = rounds(1, EFFECT - 400 + off, 0).remove(0);
                    // a control that is exactly zero, as it is
                    round[1] = block(Arm::Sham, 0, false, 1000);
                    some.push(round);
                }
                let j = judged(&some);
                match next_look(some.len(), Some(&j)) {
                    Some(next) if next <= 64 => look = next,
                    _ => break j,
                }
            };
            looked += some.len();
            let (low, high) = j.real.stall_ppm.ci95;
            // the pseudomedian, in ppm of a block of 0.1 s with stalls of 2 us
            let truth = (EFFECT - 400) as f64 + if one_sided { ONE_SIDED } else { 399.5 };
            held += u32::from((low..=high).contains(&(truth * 20.0)));
        }
        let share = f64::from(held) / f64::from(CASES);
        println!(
            "one-sided {one_sided}: {share:.3} hold, after {} rounds",
            looked / CASES as usize
        );
        assert!(share >= 0.9, "one-sided {one_sided}: {share:.3}");
    }
}

/// The median of the mean of two values of `u²/1000`, u evenly below 800, by 2 million draws.
const ONE_SIDED: f64 = 203.0;
