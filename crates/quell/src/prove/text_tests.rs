//! Tests of a proof's text and JSON.

use std::collections::BTreeMap;

use quell_remedy::{Evidence, Plan, Planned};
use quell_stats::Looks;

use super::*;
use crate::prove::metric;
use crate::prove::proof::{judge_metrics, tests::scattered_pairs};
use crate::prove::tried::TriedChange;

fn strip(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

fn proof(before: &[f64], after: &[f64], pairs: usize) -> Proof {
    proof_by(&[], before, after, pairs)
}

fn proof_by(asked: &[String], before: &[f64], after: &[f64], pairs: usize) -> Proof {
    let metrics = metric::all_metrics(asked).unwrap();
    let (metrics, overall) = judge_metrics(
        &metrics,
        &scattered_pairs(pairs, before, after),
        &Looks::once(pairs),
        7,
    );
    let sets = BTreeMap::from([(
        "_RJEM_MALLOC_CONF".to_owned(),
        "dirty_decay_ms:-1".to_owned(),
    )]);
    Proof {
        account: None,
        advice: vec![],
        tried: vec![],
        spent: None,
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
                ..Planned::default()
            }],
            notes: vec![],
        },
        left_out: vec![],
        environment: sets,
        observed: Some(Evidence::default()),
        metrics,
        overall,
        nothing: None,
        notes: vec![],
    }
}

const BEFORE: [f64; 9] = [
    1833.0, 2100.0, 12.3e6, 191_000.0, 1.21e9, 9.1e9, 8.1e9, 650e6, 4000.0,
];

/// Check the whole report of a plan that helps and costs memory.
#[test]
fn better() {
    let after = [
        219.0, 240.0, 1.4e6, 12_000.0, 0.31e9, 8.2e9, 7.2e9, 694e6, 4000.0,
    ];
    let report = proof_text(&proof(&BEFORE, &after, 5), None);
    insta::assert_snapshot!(strip(&report), @r"
    Proof of python3 job.py

    Plan
      jemalloc.decay
        sets _RJEM_MALLOC_CONF=dirty_decay_ms:-1
        because 1600 of 1700 shootdowns (94 %) are from jemalloc 5.3.1 in polars.so
        predicted to stop 89 % of all shootdowns
        cost: freed memory stays resident

    Without and with the plan (5 pairs of runs; medians, and the change within pairs)
                         before    after  change     95 % interval
      shootdowns          1,848      221   -88 %    -88 % to -88 %  better
      victims             2,117      242   -89 %    -89 % to -88 %  better
      wait of culprits  12.4 ms  1.41 ms   -89 %    -89 % to -89 %  better
      page faults       192,528   12,096   -94 %    -94 % to -94 %  better
      system time        1.22 s   312 ms   -74 %    -75 % to -74 %  better
      CPU time           9.17 s   8.27 s  -9.9 %   -11 % to -9.0 %  better
      wall time          8.16 s   7.26 s   -11 %    -12 % to -10 %  better
      maximum memory     655 MB   700 MB  +6.8 %  +5.8 % to +7.8 %  worse
      predicted to stop 89.0 % of the shootdowns, measured 88.0 %

    Verdict
      better: CPU time -9.9 %, wall time -11 %, shootdowns -88 %, victims -89 %, wait of culprits -89
      %, page faults -94 %, system time -74 %; the price: maximum memory +6.8 %

    Keep it
      export _RJEM_MALLOC_CONF='dirty_decay_ms:-1'
      or write the plan to a file with --save FILE, and: quell run --plan FILE -- python3 job.py
    ");
}

/// Check that no metric is called better or worse where none changed, and that the reason is there.
#[test]
fn no_evidence() {
    let report = proof_text(&proof(&BEFORE, &BEFORE, 5), None);
    let report = strip(&report);
    let said = report.split_once("Verdict\n").unwrap().1;
    insta::assert_snapshot!(said, @r"
      no evidence that anything changed, which is no proof that nothing did

    Why no evidence
      · shootdowns: 9,238 before and 9,238 after in all runs together, which is no more apart than
        chance brings
      · victims: 10,584 before and 10,584 after in all runs together, which is no more apart than
        chance brings
      · wait of culprits: no change over 2 %: the interval is -0.9 % to +0.9 %
      · page faults: 962,640 before and 962,640 after in all runs together, which is no more apart
        than chance brings
      · system time: no change over 2 %: the interval is -0.9 % to +0.9 %
      · CPU time: no change over 2 %: the interval is -0.9 % to +0.9 %
      · wall time: no change over 2 %: the interval is -0.9 % to +0.9 %
      · maximum memory: no change over 2 %: the interval is -0.9 % to +0.9 %
    ");
}

/// Check that pairs without shootdowns don't measure that the plan stopped none of them, neither in words nor in JSON.
#[test]
fn nothing_to_measure() {
    let without = |mut values: [f64; 9]| {
        values[..3].fill(0.0);
        values
    };
    let proof = proof(&without(BEFORE), &without(BEFORE), 5);
    let report = strip(&proof_text(&proof, None));
    assert!(
        report.contains(
            "89.0 % of the shootdowns; without the plan these runs had none: nothing to measure"
        ),
        "{report}"
    );
    assert!(!report.contains("measured 0.0 %"), "{report}");
    let json = super::super::json::proof_json(&proof).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json["measured_stop"].is_null() && json["predicted_stop"] == 0.89);
}

/// Check that a plan that was not worth a run says why, and has no table.
#[test]
fn nothing_to_do() {
    let mut proof = proof(&BEFORE, &BEFORE, 0);
    proof.plan = Plan::default();
    proof.environment = BTreeMap::new();
    proof.nothing = Some("0 shootdowns in the observed run: nothing to stop".into());
    proof.notes = vec!["glibc 2.36: left as it is".into()];
    insta::assert_snapshot!(strip(&proof_text(&proof, None)), @r"
    Proof of python3 job.py

    Plan
      empty

    Verdict
      no evidence: 0 shootdowns in the observed run: nothing to stop

    Notes
      · glibc 2.36: left as it is
    ");
}

/// Check that a slower program is called worse, without advice to keep the plan.
#[test]
fn worse() {
    let after = [
        219.0, 240.0, 1.4e6, 12_000.0, 0.31e9, 9.1e9, 9.9e9, 694e6, 4000.0,
    ];
    let report = strip(&proof_text(&proof(&BEFORE, &after, 5), None));
    assert!(
        report.contains("  worse: wall time +22 %; better: shootdowns -88 %"),
        "{report}"
    );
    assert!(!report.contains("Keep it"));
}

/// Check that fewer shootdowns without a gain of time are called no faster and are not recommended, and that the user's own
/// figure decides, whatever the time did.
#[test]
fn no_faster() {
    let fewer = [
        219.0, 240.0, 1.4e6, 12_000.0, 0.31e9, 9.1e9, 8.1e9, 694e6, 4000.0,
    ];
    let said = |proof: &Proof| strip(&verdict_text(proof));
    let mut seen = proof(&BEFORE, &fewer, 5);
    assert_eq!(seen.overall.verdict, Verdict::NoEvidence);
    insta::assert_snapshot!(said(&seen), @"no evidence: fewer shootdowns, no faster: shootdowns -88 %, victims -89 %, wait of culprits -89 %, page faults -94 %, system time -74 %, and no evidence that CPU time or wall time changed; the plan is not recommended; the price: maximum memory +6.8 %");
    assert!(!strip(&proof_text(&seen, None)).contains("Keep it"));
    let faster = [
        219.0, 240.0, 1.4e6, 12_000.0, 0.31e9, 8.2e9, 7.2e9, 694e6, 4000.0,
    ];
    let rows = ["rows^=(.)".to_owned()];
    seen = proof_by(&rows, &BEFORE, &faster, 5);
    insta::assert_snapshot!(said(&seen), @"no evidence: fewer shootdowns, no faster: shootdowns -88 %, victims -89 %, wait of culprits -89 %, page faults -94 %, system time -74 %, CPU time -9.9 %, wall time -11 %, and no evidence that rows changed; the plan is not recommended; the price: maximum memory +6.8 %");
    assert_eq!(seen.deciding_metric().unwrap().metric.name, "rows");
}

/// Check that each tried change is there with the reason why it was kept or not, and that none is kept where none won.
#[test]
fn tries_are_told() {
    let mut proof = proof(&BEFORE, &BEFORE, 0);
    let tried = |ratio: f64, kept: bool, why: &str| TriedChange {
        changes: proof.plan.remedies.clone(),
        label: "jemalloc.decay".to_owned(),
        runs: 4,
        ratio,
        ci95: (0.8, f64::INFINITY),
        won: kept,
        kept,
        why: why.to_owned(),
        beside: vec![],
    };
    proof.tried = vec![tried(1.01, false, "no gain: time +1.0 % in 4 rounds")];
    proof.plan = Plan::default();
    proof.nothing = Some(crate::prove::proof::nothing_won(1, "time"));
    let report = strip(&proof_text(&proof, None));
    let said = "Tried, by runs beside each other\n  · drops jemalloc.decay: no gain: time +1.0 % in 4 rounds\n";
    assert!(report.contains(said), "{report}");
    assert!(
        report.contains("no evidence: the one change that was tried did not win time here"),
        "{report}"
    );
    let json = super::super::json::proof_json(&proof).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let one = &json["tried"][0];
    assert_eq!(
        (&one["remedy"], &one["kept"]),
        (&"jemalloc.decay".into(), &false.into())
    );
    assert_eq!(one["ci95"], serde_json::json!([0.8, null]));
    assert_eq!(one["sets"]["_RJEM_MALLOC_CONF"], "dirty_decay_ms:-1");
    assert!(json["objective"].is_null());
}

/// Check that the JSON has the keys of the contract, integers, and no pairs where none were run.
#[test]
fn json() {
    let after = [
        219.0, 240.0, 1.4e6, 12_000.0, 0.31e9, 8.2e9, 7.2e9, 694e6, 4000.0,
    ];
    let read = |p: &Proof| -> serde_json::Value {
        serde_json::from_str(&super::super::json::proof_json(p).unwrap()).unwrap()
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
    assert_eq!(got["predicted_stop"], 0.89);
    assert_eq!(got["measured_stop"], 0.88);
    let m = &got["metrics"];
    for key in [
        "shootdowns",
        "victims",
        "wait_ns",
        "page_faults",
        "system_ns",
        "cpu_ns",
        "wall_ns",
        "max_rss",
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
    assert!(got["metrics"]["victims"]["ratio"].is_null() && got["measured_stop"].is_null());
    assert_eq!(got["metrics"]["victims"]["after"], serde_json::json!([]));
}

/// Check the words for changes from −100 % to many times as much.
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
    .map(ratio_as_change);
    assert_eq!(
        shown,
        [
            "-100 %", "-99.96 %", "-99.5 %", "-88 %", "-4.9 %", "0.0 %", "0.0 %", "+7.0 %",
            "+50 %", "+300 %", "×12", "?"
        ]
    );
}
