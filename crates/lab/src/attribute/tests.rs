//! Gaps and interruptions that are made up.

use proptest::prelude::*;

use super::*;

/// Process 7 is the culprit, and its mechanism makes faults.
const SEVEN: Blame<'_> = Blame {
    is_culprit: &|tgid| tgid == 7,
    faults: true,
};

fn gap(begin_ns: u64, ns: u64) -> VictimGap {
    VictimGap { begin_ns, ns }
}

fn seen(kind: Kind, begin_ns: u64, tgid: u32) -> Interruption {
    Interruption {
        kind,
        begin_ns,
        end_ns: begin_ns + 10,
        tgid,
        tid: tgid,
    }
}

fn spun(gaps: Vec<VictimGap>, ops: Vec<CulpritOp>) -> RawBlock {
    RawBlock {
        begin_ns: 0,
        end_ns: 1_000_000,
        gaps,
        ops,
        ..RawBlock::default()
    }
}

/// Check that a gap's class is the weightiest of what lies in it, that only the culprit's shootdowns are caused by
/// it, and that what lies in no gap is counted as unmatched.
#[test]
fn gaps_get_their_class() {
    let gaps = vec![
        gap(10_000, 2_000),
        gap(20_000, 3_000),
        gap(30_000, 500),
        gap(50_000, 900_000),
    ];
    let events = vec![
        seen(Kind::Timer, 10_500, 0),
        seen(Kind::Tlb, 10_700, 7),
        seen(Kind::Tlb, 20_100, 8),
        seen(Kind::Tlb, 40_000, 7),
        seen(Kind::Sched, 60_000, 0),
        seen(Kind::Tlb, 70_000, 7),
    ];
    let told = classify_gaps(spun(gaps, vec![]), events, &SEVEN);
    let classes: Vec<_> = told.gaps.iter().map(|t| (t.class, t.caused)).collect();
    assert_eq!(
        classes,
        [
            (GapClass::Tlb, true),
            (GapClass::Tlb, false),
            (GapClass::None, false),
            (GapClass::Sched, false)
        ]
    );
    assert_eq!((told.hits, told.matched, told.caused_hits), (3, 2, 2));
    assert_eq!((told.caused_ns(), told.ran_ns()), (2_000, 100_000));
}

/// Check that a shootdown in a gap that the hypervisor made is counted and matched, and that the gap is not the
/// culprit's: its length is not what the shootdown cost.
#[test]
fn stolen_gaps_are_nobodys() {
    let gaps = vec![gap(10_000, 2_000), gap(100_000, 90_000)];
    let events = vec![seen(Kind::Tlb, 10_500, 7), seen(Kind::Tlb, 189_000, 7)];
    let told = classify_gaps(spun(gaps, vec![]), events, &SEVEN);
    assert_eq!((told.hits, told.matched, told.caused_hits), (2, 2, 2));
    assert_eq!((told.timed_events, told.caused_ns()), (1, 2_000));
    assert_eq!(told.gaps[1].class, GapClass::None);
}

/// Check that a fault is the culprit's only where the mechanism makes faults, and that it is counted all the same.
#[test]
fn faults_of_others() {
    for faults in [false, true] {
        let blame = Blame { faults, ..SEVEN };
        let gaps = vec![gap(10_000, 2_000), gap(20_000, 3_000), gap(30_000, 1_000)];
        let events = vec![
            seen(Kind::Fault, 10_500, 9),
            seen(Kind::Fault, 20_100, 9),
            seen(Kind::Tlb, 20_900, 7),
            seen(Kind::Tlb, 30_100, 7),
        ];
        let told = classify_gaps(spun(gaps, vec![]), events, &blame);
        let caused = u64::from(faults);
        assert_eq!(told.gaps[0].class, GapClass::Fault);
        assert_eq!(told.gaps[0].caused, faults);
        assert_eq!((told.faults, told.caused_faults), (2, 2 * caused));
        // the length of a gap with a fault of others says nothing of a shootdown in it, which counts all the same
        assert_eq!(told.timed_events, 1 + 3 * caused);
        assert_eq!(told.caused_ns(), 1_000 + 5_000 * caused);
        assert_eq!((told.hits, told.matched, told.caused_hits), (2, 2, 2));
    }
}

/// Check that only operations count during which the victim had its CPU, each with what fell into it.
#[test]
fn operations_count_while_the_victim_runs() {
    let op = |begin_ns, end_ns| CulpritOp { begin_ns, end_ns };
    let gaps = vec![
        gap(10_000, 2_000),
        gap(100_000, 50_000),
        gap(200_000, 1_000),
    ];
    let ops = vec![
        op(9_000, 13_000),
        op(90_000, 101_000),
        op(110_000, 120_000),
        op(199_000, 202_000),
    ];
    let events = vec![
        seen(Kind::Tlb, 10_500, 7),
        seen(Kind::Sched, 100_100, 1),
        seen(Kind::Fault, 200_100, 7),
    ];
    let told = classify_gaps(spun(gaps, ops), events, &SEVEN);
    assert_eq!(
        (told.counted_ops, told.counted_hits, told.counted_faults),
        (2, 1, 1)
    );
}

proptest! {
    /// Check that whatever is seen, every gap is told once, no hit is counted twice, and no time is lost.
    #[test]
    fn nothing_is_lost(
        lengths in prop::collection::vec((1_u64..5_000, 1_u64..5_000), 0..40),
        events in prop::collection::vec((0_u32..8, 0_u64..400_000, 6_u32..9), 0..80),
    ) {
        let mut at = 0;
        let gaps: Vec<VictimGap> = lengths.iter().map(|&(turns, ns)| {
            let g = gap(at + turns, ns);
            at = g.end_ns();
            g
        }).collect();
        let events: Vec<_> = events.iter()
            .filter_map(|&(kind, at, tgid)| Some(seen(Kind::from_number(kind)?, at, tgid)))
            .collect();
        let tlb = events.iter().filter(|i| i.kind == Kind::Tlb).count() as u64;
        let total: u64 = gaps.iter().map(|g| g.ns).sum();
        let told = classify_gaps(spun(gaps.clone(), vec![]), events, &SEVEN);
        prop_assert_eq!(told.gaps.len(), gaps.len());
        prop_assert!(told.hits <= tlb && told.matched <= told.hits && told.caused_hits <= told.hits);
        prop_assert!(told.caused_ns() + told.away_ns <= total);
        prop_assert_eq!(told.ran_ns() + told.away_ns, 1_000_000);
    }
}
