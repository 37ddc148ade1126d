//! What holds for every input.

use proptest::prelude::*;
use quell_stats::{Comparison, MetricKind, Reason, Rules, RunPair, Verdict, compare_pairs};

/// Values of every size, zeros and equal ones among them.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        2 => Just(0.0),
        2 => Just(1_000.0),
        1 => Just(f64::MAX),
        1 => Just(f64::MIN_POSITIVE),
        1 => Just(5e-324),
        4 => 0.0..10.0f64,
        4 => 900.0..1_100.0f64,
        4 => 0.0..1e12f64,
    ]
}

fn pairs() -> impl Strategy<Value = Vec<RunPair>> {
    prop::collection::vec((value(), value()), 0..12)
        .prop_map(|all| all.into_iter().map(|(b, a)| RunPair::new(b, a)).collect())
}

/// Values that may come from a program: a few per cent of noise around two levels.
fn likely() -> impl Strategy<Value = Vec<RunPair>> {
    (0.05..20.0f64, 0.001..0.5f64, 3usize..12).prop_flat_map(|(ratio, noise, n)| {
        prop::collection::vec((-noise..noise, -noise..noise), n).prop_map(move |all| {
            all.into_iter()
                .map(|(b, a)| RunPair::new(5e3 * b.exp(), 5e3 * ratio * a.exp()))
                .collect()
        })
    })
}

fn rules() -> impl Strategy<Value = Rules> {
    (any::<bool>(), any::<bool>(), 0usize..20, any::<u64>()).prop_map(
        |(count, higher, family, seed)| Rules {
            kind: if count {
                MetricKind::Count
            } else {
                MetricKind::Measure
            },
            higher_is_better: higher,
            family,
            seed,
            resamples: 300,
            ..Rules::default()
        },
    )
}

fn check(got: &Comparison, rules: &Rules) -> Result<(), TestCaseError> {
    let (low, high) = got.ci95;
    prop_assert!(got.ratio.is_finite() && got.ratio > 0.0, "{got:?}");
    prop_assert!(
        low >= 0.0 && low <= got.ratio && got.ratio <= high,
        "{got:?}"
    );
    prop_assert!(got.median_before.is_finite() && got.median_after.is_finite());
    prop_assert_eq!(got.reason.is_none(), got.verdict != Verdict::NoEvidence);
    let less = match got.verdict {
        Verdict::Better => !rules.higher_is_better,
        Verdict::Worse => rules.higher_is_better,
        Verdict::NoEvidence => return Ok(()),
    };
    if less {
        prop_assert!(high < 1.0 && got.ratio <= 1.0 - rules.smallest_effect + 1e-9);
    } else {
        prop_assert!(low > 1.0 && got.ratio >= 1.0 / (1.0 - rules.smallest_effect) - 1e-9);
    }
    Ok(())
}

fn close(a: f64, b: f64) -> bool {
    a == b || (a / b - 1.0).abs() < 1e-9
}

proptest! {
    /// Check that every finite input gives a sound answer, and that no claim exceeds its interval.
    #[test]
    fn always_sound(pairs in pairs(), rules in rules()) {
        let got = compare_pairs(&pairs, &rules);
        check(&got, &rules)?;
        if let Some(reason) = got.reason {
            prop_assert!(!reason.to_string().contains("NaN"));
        }
    }

    /// Check that a claim never exceeds its interval for input where claims are common.
    #[test]
    fn claims_hold(pairs in likely(), rules in rules()) {
        check(&compare_pairs(&pairs, &rules), &rules)?;
    }

    /// Check that odd numbers are refused and do not panic.
    #[test]
    fn odd_numbers(values in prop::collection::vec((any::<f64>(), any::<f64>()), 0..8), rules in rules()) {
        let pairs: Vec<RunPair> = values.iter().map(|&(b, a)| RunPair::new(b, a)).collect();
        let got = compare_pairs(&pairs, &rules);
        let odd = values.iter().any(|(b, a)| !(b.is_finite() && a.is_finite() && *b >= 0.0 && *a >= 0.0));
        prop_assert_eq!(odd, matches!(got.reason, Some(Reason::Unusable { .. })));
    }

    /// Check that the unit does not matter to a measure.
    #[test]
    fn any_unit(pairs in likely(), scale in 1e-9..1e9f64, rules in rules()) {
        let rules = Rules { kind: MetricKind::Measure, ..rules };
        let scaled: Vec<RunPair> = pairs.iter().map(|p| RunPair::new(p.before * scale, p.after * scale)).collect();
        let (one, other) = (compare_pairs(&pairs, &rules), compare_pairs(&scaled, &rules));
        prop_assert!(close(one.ratio, other.ratio));
        prop_assert!(close(one.ci95.0, other.ci95.0) && close(one.ci95.1, other.ci95.1));
        prop_assert_eq!(one.verdict, other.verdict);
    }

    /// Check that swapping the sides turns the ratio, the interval and the word around.
    #[test]
    fn swapped(pairs in prop_oneof![pairs(), likely()], rules in rules()) {
        let turned: Vec<RunPair> = pairs.iter().map(|p| RunPair::new(p.after, p.before)).collect();
        let (one, other) = (compare_pairs(&pairs, &rules), compare_pairs(&turned, &rules));
        prop_assert!(close(one.ratio, 1.0 / other.ratio));
        if one.ci95.0 > 1e-300 && one.ci95.1 < 1e300 {
            prop_assert!(close(one.ci95.0, 1.0 / other.ci95.1), "{one:?} {other:?}");
            prop_assert!(close(one.ci95.1, 1.0 / other.ci95.0), "{one:?} {other:?}");
        }
        prop_assert_eq!(other.verdict, match one.verdict {
            Verdict::Better => Verdict::Worse,
            Verdict::Worse => Verdict::Better,
            Verdict::NoEvidence => Verdict::NoEvidence,
        });
    }

    /// Check that "more is better" turns the word around and nothing else.
    #[test]
    fn higher_is_better(pairs in likely(), rules in rules()) {
        let other = Rules { higher_is_better: !rules.higher_is_better, ..rules };
        let (one, other) = (compare_pairs(&pairs, &rules), compare_pairs(&pairs, &other));
        prop_assert_eq!(one.ci95, other.ci95);
        prop_assert_eq!(one.reason, other.reason);
        prop_assert!(one.reason.is_some() || one.verdict != other.verdict);
    }

    /// Check that the same input gives the same answer, bit by bit.
    #[test]
    fn same_again(pairs in pairs(), rules in rules()) {
        prop_assert_eq!(compare_pairs(&pairs, &rules), compare_pairs(&pairs, &rules));
    }

    /// Check that more confidence never makes the interval narrower.
    #[test]
    fn confidence_widens(pairs in likely(), seed in any::<u64>()) {
        let at = |confidence| compare_pairs(&pairs, &Rules { confidence, seed, ..Rules::default() }).ci95;
        let (narrow, wide) = (at(0.8), at(0.99));
        prop_assert!(wide.0 <= narrow.0 && narrow.1 <= wide.1);
    }
}
