//! The claims of a comparison, and what is never claimed.

use anstream::adapter::strip_str;
use proptest::prelude::*;
use quell_lab::judge::LabVerdict;
use quell_lab::summary::{ExperimentSummary, IntervalSummary, SettingsSummary};

use super::{
    BothSides, Comparison, EffectChange, ExperimentPair, ExperimentRuns, comparison_object,
    comparison_text,
};
use crate::lab::{Results, fixture};

fn results(all: Vec<ExperimentSummary>) -> Results {
    Results { all, wall_ns: 0 }
}

fn sides() -> (Results, Results) {
    let mut faster = fixture::dontneed_result();
    faster.machine.kernel = "6.19.0".to_owned();
    faster.effect.stall_ppm.difference = 4_000.0;
    faster.effect.stall_ppm.ci95 = (Some(3_500.0), Some(4_600.0));
    faster.effect.ns_per_event = Some(600.0);
    faster.shootdowns_per_op = Some(0.5);
    let mut noisy = fixture::munmap_result();
    noisy.verdict = LabVerdict::TooNoisy;
    noisy.effect.stall_ppm.ci95 = (None, None);
    noisy.effect.ns_per_event = None;
    let mut other = fixture::munmap_result();
    other.experiment = "msync".to_owned();
    (
        results(vec![fixture::dontneed_result(), fixture::munmap_result()]),
        results(vec![noisy, other, faster]),
    )
}

/// Check the whole text: what changed and why that is claimed, what is not alike, what is only on one side.
#[test]
fn text_of_two_files() {
    let (a, b) = sides();
    let (a, b) = (("a.json".to_owned(), a), ("b.json".to_owned(), b));
    let c = Comparison::new(&[&a], &[&b]);
    insta::assert_snapshot!(strip_str(&comparison_text(&c)).to_string());
}

/// Check the object, in full.
#[test]
fn json_of_two_files() {
    let (a, b) = sides();
    let (a, b) = (("a.json".to_owned(), a), ("b.json".to_owned(), b));
    let c = Comparison::new(&[&a], &[&b]);
    let object = serde_json::to_value(comparison_object(&c)).expect("JSON");
    let pretty = serde_json::to_string_pretty(&object).expect("JSON");
    insta::assert_snapshot!(pretty);
}

/// Check that of several results of one experiment those with the same parameters are compared, and the rest by name.
#[test]
fn params_are_laid_side_by_side() {
    let with = |pages: u64| {
        let mut value = serde_json::to_value(fixture::dontneed_result()).expect("JSON");
        value["params"]["pages"] = pages.into();
        serde_json::from_value::<ExperimentSummary>(value).expect("a result")
    };
    let (a, b) = (
        results(vec![with(1), with(33), with(2)]),
        results(vec![with(33), with(4)]),
    );
    let (a, b) = ((String::new(), a), (String::new(), b));
    let c = Comparison::new(&[&a], &[&b]);
    let pages = |s: &ExperimentSummary| s.params.get("pages");
    let pairs: Vec<_> = c
        .pairs
        .iter()
        .map(|p| (pages(p.a.first), pages(p.b.first)))
        .collect();
    assert_eq!(pairs, [(1, 4), (33, 33)]);
    assert_eq!(
        (c.only.a.as_slice(), c.only.b.len()),
        (&["dontneed"][..], 0)
    );
    let differs = c.pairs[0].differing_conditions();
    assert_eq!(differs.len(), 1);
    assert_eq!(
        (
            differs[0].what.as_str(),
            differs[0].a.as_str(),
            differs[0].b.as_str()
        ),
        ("pages", "1", "4")
    );
    assert!(c.pairs[1].differing_conditions().is_empty());
}

/// Runs of one experiment whose operations cost so many ns.
fn runs(costs: &[f64]) -> Vec<(String, Results)> {
    let run = |ns: &f64| {
        let mut s = fixture::dontneed_result();
        s.effect.ns_per_event = Some(*ns);
        (format!("{ns}"), results(vec![s, fixture::munmap_result()]))
    };
    costs.iter().map(run).collect()
}

fn claimed(a: &[f64], b: &[f64]) -> EffectChange {
    let (a, b) = (runs(a), runs(b));
    let c = Comparison::new(&a.iter().collect::<Vec<_>>(), &b.iter().collect::<Vec<_>>());
    c.pairs[0].claimed_change(c.pairs.len()).0
}

/// Check that a change is claimed only with two runs of each side, when the sides lie further apart than their runs.
#[test]
fn claims_take_runs_of_their_own() {
    assert_eq!(claimed(&[2400.0], &[1200.0]), EffectChange::None);
    assert_eq!(claimed(&[2400.0, 2410.0], &[1200.0]), EffectChange::None);
    assert_eq!(
        claimed(&[2400.0, 2410.0], &[1200.0, 1210.0]),
        EffectChange::Less
    );
    assert_eq!(
        claimed(&[1200.0, 1210.0], &[2400.0, 2410.0]),
        EffectChange::More
    );
    assert_eq!(
        claimed(&[1200.0, 2600.0], &[2400.0, 2410.0]),
        EffectChange::None
    );
    assert_eq!(
        claimed(&[1200.0, 1900.0], &[2400.0, 2410.0]),
        EffectChange::None
    );
}

/// Check the text of two runs of each side, and that runs of one side that were not measured alike claim nothing.
#[test]
fn text_of_runs() {
    let (a, mut b) = (runs(&[2400.0, 2410.0]), runs(&[1200.0, 1210.0]));
    let told = |b: &[(String, Results)]| {
        let b: Vec<_> = b.iter().collect();
        let c = Comparison::new(&a.iter().collect::<Vec<_>>(), &b);
        strip_str(&comparison_text(&c)).to_string()
    };
    insta::assert_snapshot!(told(&b));
    b[1].1.all[0].machine.kernel = "another".to_owned();
    let other = told(&b);
    assert!(
        other.contains(
            "dontneed: no change is claimed: the runs of one side were not measured alike"
        )
    );
    assert!(
        other.contains("the kernel is not the same in the runs of one side: 6.18.5 and another")
    );
}

/// Check that how two results were measured is compared, where both say it; the limit of a gap may wander a little.
#[test]
fn settings_are_compared() {
    let with = |pace_ns, gap_limit_ns| {
        let mut s = fixture::dontneed_result();
        s.settings = Some(SettingsSummary {
            pace_ns,
            gap_limit_ns,
            ..SettingsSummary::default()
        });
        s
    };
    let differs = |a: &ExperimentSummary, b: &ExperimentSummary| -> Vec<String> {
        pair(a, b)
            .differing_conditions()
            .into_iter()
            .map(|d| d.what)
            .collect()
    };
    let none: [&str; 0] = [];
    assert_eq!(differs(&with(10_000, 240), &with(10_000, 260)), none);
    assert_eq!(
        differs(&with(10_000, 240), &with(0, 500)),
        ["pace", "limit of a gap"]
    );
    assert_eq!(differs(&fixture::dontneed_result(), &with(0, 500)), none);
}

fn pair<'a>(a: &'a ExperimentSummary, b: &'a ExperimentSummary) -> ExperimentPair<'a> {
    BothSides { a, b }.map(|s| ExperimentRuns::new(s, &[]))
}

proptest! {
    /// Check that two runs are said to differ exactly where both intervals have their ends and lie apart, that the two sides
    /// exchanged say the opposite, that it is never a claim, and that a result never differs from itself.
    #[test]
    fn two_runs_differ(
        a in (prop::option::of(-1e6..1e6), prop::option::of(0.0..1e6)),
        b in (prop::option::of(-1e6..1e6), prop::option::of(0.0..1e6)),
        noisy: bool,
    ) {
        let side = |(low, wide): (Option<f64>, Option<f64>)| {
            let mut s = fixture::dontneed_result();
            let high = low.zip(wide).map(|(low, wide): (f64, f64)| low + wide);
            s.effect.stall_ppm = IntervalSummary { difference: 0.0, ci95: (low, high), signs: (1, 1) };
            s
        };
        let (mut a, b) = (side(a), side(b));
        if noisy {
            a.verdict = LabVerdict::TooNoisy;
        }
        let told = pair(&a, &b).change_of_first_runs();
        let turned = pair(&b, &a).change_of_first_runs();
        let opposite = match told {
            EffectChange::More => EffectChange::Less,
            EffectChange::Less => EffectChange::More,
            EffectChange::None => EffectChange::None,
        };
        prop_assert_eq!(turned, opposite);
        let ends = |s: &ExperimentSummary| s.effect.stall_ppm.ci95;
        let apart = match (ends(&a), ends(&b)) {
            ((_, Some(high)), (Some(low), _)) if high < low => EffectChange::More,
            ((Some(low), _), (_, Some(high))) if high < low => EffectChange::Less,
            _ => EffectChange::None,
        };
        prop_assert_eq!(told, if noisy { EffectChange::None } else { apart });
        prop_assert_eq!(pair(&a, &a).change_of_first_runs(), EffectChange::None);
        prop_assert_eq!(pair(&a, &b).claimed_change(1).0, EffectChange::None);
    }
}
