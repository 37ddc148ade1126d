//! Every reason why there is no evidence, and the claims next to it.

use quell_stats::{MetricKind, Reason, Rules, RunPair, Verdict, compare_pairs};

fn pairs(before: &[f64], after: &[f64]) -> Vec<RunPair> {
    before
        .iter()
        .zip(after)
        .map(|(b, a)| RunPair::new(*b, *a))
        .collect()
}

fn judge(before: &[f64], after: &[f64], kind: MetricKind) -> (Verdict, Option<Reason>) {
    let rules = Rules {
        kind,
        ..Rules::default()
    };
    let got = compare_pairs(&pairs(before, after), &rules);
    (got.verdict, got.reason)
}

fn reason(before: &[f64], after: &[f64], kind: MetricKind) -> Reason {
    judge(before, after, kind).1.expect("a reason")
}

/// Check that few pairs, no pairs and equal pairs are named as such.
#[test]
fn too_little_to_go_by() {
    let one = reason(&[9.0], &[1.0], MetricKind::Measure);
    assert_eq!(one.to_string(), "too few pairs: 1, and it takes 5");
    assert_eq!(compare_pairs(&[], &Rules::default()).ratio, 1.0);
    let same = reason(&[7.0; 5], &[7.0; 5], MetricKind::Measure);
    assert_eq!(same.to_string(), "the same on both sides in all 5 pairs");
    let zero = reason(&[0.0; 5], &[0.0; 5], MetricKind::Count);
    assert_eq!(zero.to_string(), "0 in all 10 runs");
}

/// Check that a handful of events is not judged, even where the sides are apart.
#[test]
fn handful_of_events() {
    let got = reason(&[5.0, 6.0, 4.0, 7.0, 5.0], &[0.0; 5], MetricKind::Count);
    assert!(matches!(
        got,
        Reason::TooFewCounts {
            before: 27.0,
            after: 0.0
        }
    ));
    // Chance explains 530 against 480 events, however steady they look.
    let got = reason(
        &[105.0, 106.0, 106.0, 107.0, 106.0],
        &[96.0, 95.0, 97.0, 96.0, 96.0],
        MetricKind::Count,
    );
    assert!(matches!(got, Reason::TooFewCounts { .. }));
}

/// Check that events which disappear are better, and events out of nothing are worse.
#[test]
fn from_and_to_zero() {
    let many = [1_900.0, 2_000.0, 1_950.0, 2_050.0, 2_010.0];
    assert_eq!(
        judge(&many, &[0.0; 5], MetricKind::Count).0,
        Verdict::Better
    );
    assert_eq!(judge(&[0.0; 5], &many, MetricKind::Count).0, Verdict::Worse);
    assert_eq!(
        judge(&many, &[0.0; 5], MetricKind::Measure).0,
        Verdict::Better
    );
    assert_eq!(
        judge(&[0.0; 5], &many, MetricKind::Measure).0,
        Verdict::Worse
    );
}

/// Check that a measure with zeros now and then is refused for its zeros.
#[test]
fn zeros_now_and_then() {
    let got = reason(
        &[0.0, 4.0, 4.0, 0.0, 4.0],
        &[4.0, 0.0, 4.0, 4.0, 4.0],
        MetricKind::Measure,
    );
    assert_eq!(
        got.to_string(),
        "0 in 2 of 5 runs before and 1 of 5 after: no ratio to trust"
    );
}

/// Check that noise, small changes and no change have different reasons.
#[test]
fn noise_is_not_the_same_as_no_change() {
    let noisy = reason(
        &[100.0, 150.0, 90.0, 120.0, 200.0],
        &[130.0, 90.0, 140.0, 160.0, 110.0],
        MetricKind::Measure,
    );
    assert!(matches!(noisy, Reason::SpansOne { .. }), "{noisy}");
    let quiet = reason(
        &[100.0, 100.1, 99.9, 100.2, 100.0],
        &[100.1, 100.0, 100.0, 99.9, 100.1],
        MetricKind::Measure,
    );
    assert!(matches!(quiet, Reason::NoChange { .. }), "{quiet}");
    let small = reason(
        &[100.0, 100.1, 99.9, 100.2, 100.0],
        &[99.0, 99.1, 98.9, 99.0, 99.1],
        MetricKind::Measure,
    );
    assert!(matches!(small, Reason::TooSmall { .. }), "{small}");
}

/// Check that a claim by the interval alone is refused where chance brings it too often.
#[test]
fn guarded() {
    let got = reason(
        &[100.0, 110.0, 104.0, 108.0, 102.0],
        &[97.0, 99.0, 101.0, 98.0, 96.0],
        MetricKind::Measure,
    );
    assert!(matches!(got, Reason::Chance { family: 7, .. }), "{got}");
    let one_back: Vec<f64> = (0..10)
        .map(|i| {
            if i == 3 {
                103.0
            } else {
                95.0 + f64::from(i % 3)
            }
        })
        .collect();
    let got = reason(
        &[
            100.0, 99.0, 101.0, 100.0, 98.0, 97.5, 102.0, 100.0, 99.0, 101.0,
        ],
        &one_back,
        MetricKind::Measure,
    );
    assert!(
        matches!(
            got,
            Reason::PairsDisagree {
                against: 1,
                pairs: 10
            }
        ),
        "{got}"
    );
}

/// Check that a hundred pairs are judged in good time and find 3 % under 5 % noise.
#[test]
fn hundred_pairs() {
    let all: Vec<RunPair> = (0..100)
        .map(|i| {
            let noise = |k: usize| 0.05 * ((i * k) as f64).sin() * std::f64::consts::SQRT_2;
            RunPair::new(50.0 * noise(37).exp(), 48.5 * noise(53).exp())
        })
        .collect();
    let got = compare_pairs(&all, &Rules::default());
    assert_eq!(got.verdict, Verdict::Better, "{got:?}");
}
