//! The report as people see it.

use std::collections::BTreeMap;

use quell_remedy::{Evidence, Plan, Planned};

use super::*;
use crate::prove::metric;
use crate::prove::proof::{judge, tests::runs};

fn strip(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

fn proof(before: &[f64], after: &[f64], pairs: usize) -> Proof {
    let metrics = metric::all(&["rows^=(.)".to_owned()]).unwrap();
    let (metrics, overall) = judge(&metrics, &runs(pairs, before, after), 7);
    let sets = BTreeMap::from([(
        "_RJEM_MALLOC_CONF".to_owned(),
        "dirty_decay_ms:-1".to_owned(),
    )]);
    Proof {
        command: vec!["python3".into(), "job.py".into()],
        pairs,
        seed: 7,
        plan: Plan {
            remedies: vec![Planned {
                remedy: "jemalloc.decay".into(),
                sets: sets.clone(),
                evidence: "1600 of 1700 shootdowns (94 %) are from jemalloc 5.3.1 in polars.so"
                    .into(),
                predicted_stop: 0.89,
                cost: "freed memory stays resident".into(),
            }],
            notes: vec![],
        },
        environment: sets,
        observed: Some(Evidence::default()),
        metrics,
        overall,
        nothing: None,
        notes: vec![],
    }
}

const BEFORE: [f64; 8] = [
    1833.0, 2100.0, 12.3e6, 191_000.0, 1.21e9, 8.1e9, 650e6, 4000.0,
];

/// Check the whole report of a plan that helps and costs memory.
#[test]
fn better() {
    let after = [219.0, 240.0, 1.4e6, 12_000.0, 0.31e9, 7.2e9, 694e6, 4000.0];
    let report = text(&proof(&BEFORE, &after, 5), None);
    insta::assert_snapshot!(strip(&report), @"");
}

/// Check that nothing is said to be better or worse where nothing changed, and why.
#[test]
fn no_evidence() {
    let report = text(&proof(&BEFORE, &BEFORE, 5), None);
    insta::assert_snapshot!(strip(&report), @"");
}

/// Check that a plan that was not worth a run says why, and has no table.
#[test]
fn nothing_to_do() {
    let mut proof = proof(&BEFORE, &BEFORE, 0);
    proof.plan = Plan::default();
    proof.environment = BTreeMap::new();
    proof.nothing = Some("0 shootdowns in the observed run: nothing to stop".into());
    proof.notes = vec!["glibc 2.36: left as it is".into()];
    insta::assert_snapshot!(strip(&text(&proof, None)), @"");
}

/// Check that a slower program is called worse, and how to keep the plan is not said.
#[test]
fn worse() {
    let after = [219.0, 240.0, 1.4e6, 12_000.0, 0.31e9, 9.9e9, 694e6, 4000.0];
    let report = strip(&text(&proof(&BEFORE, &after, 5), None));
    assert!(
        report.contains("  worse: wall time +22 %; better: shootdowns -88 %"),
        "{report}"
    );
    assert!(!report.contains("Keep it"));
}

/// Check that the JSON has the keys of the contract, integers, and no pairs where none were run.
#[test]
fn json() {
    let after = [219.0, 240.0, 1.4e6, 12_000.0, 0.31e9, 7.2e9, 694e6, 4000.0];
    let read = |p: &Proof| -> serde_json::Value {
        serde_json::from_str(&super::super::json::json(p).unwrap()).unwrap()
    };
    let got = read(&proof(&BEFORE, &after, 5));
    assert_eq!(got["schema"], "quell/prove/1");
    assert_eq!(
        (&got["pairs"], &got["verdict"]),
        (&5.into(), &"better".into())
    );
    assert_eq!(
        got["plan"][0]["sets"]["_RJEM_MALLOC_CONF"],
        "dirty_decay_ms:-1"
    );
    assert_eq!(got["plan"][0]["predicted_stop"], 0.89);
    let m = &got["metrics"];
    for key in [
        "shootdowns",
        "victims",
        "wait_ns",
        "page_faults",
        "system_ns",
        "wall_ns",
        "max_rss",
        "rows",
    ] {
        assert_eq!(m[key]["before"].as_array().map(Vec::len), Some(5), "{key}");
        assert!(
            m[key]["ratio"].is_number() && m[key]["ci95"][1].is_number(),
            "{key}"
        );
    }
    assert!(m["wait_ns"]["before"][0].is_u64());
    assert_eq!(m["shootdowns"]["verdict"], "better");
    let got = read(&proof(&BEFORE, &after, 0));
    assert_eq!(
        (&got["pairs"], &got["verdict"]),
        (&0.into(), &"no evidence".into())
    );
    assert!(got["metrics"]["victims"]["ratio"].is_null());
    assert_eq!(got["metrics"]["victims"]["after"], serde_json::json!([]));
}

/// Check that changes read well from nothing left to many times as much.
#[test]
fn changes() {
    let shown = [
        0.0,
        0.0004,
        0.005,
        0.12,
        0.951,
        0.9999,
        1.0,
        1.07,
        1.5,
        4.0,
        12.3,
        f64::INFINITY,
    ]
    .map(change);
    assert_eq!(
        shown,
        [
            "-100 %", "-99.96 %", "-99.5 %", "-88 %", "-4.9 %", "0.0 %", "0.0 %", "+7.0 %",
            "+50 %", "+300 %", "×12", "?"
        ]
    );
}
