//! Results for tests.

use quell_lab::summary::ExperimentSummary;
use serde_json::{Value, json};

fn arm_json(real: bool) -> Value {
    let ops = if real { 12_000 } else { 0 };
    json!({
        "blocks": 11, "invalid": {"steal": 1}, "ran_ns": 1_600_000_000_u64, "away_ns": 40_000_000,
        "ops": ops, "op_ns": real.then_some([3_200, 9_800]),
        "shootdowns": ops, "caused": ops, "faults": 0,
        "stall_ppm": if real { 18_000.0 } else { 0.0 },
        "gaps": {
            "none": [800, 4_000_000], "sched": [12, 40_000_000], "timer": [400, 2_000_000],
            "tlb": [ops, ops * 2_400],
        },
        "turn_ns": {"p50": 30, "p99": 40, "p999": if real { 2_300 } else { 45 }},
        "histogram": [[30, 40_000_000], [40, 9_000_000], [2_300, ops], [15_000, 40]],
        "timeline": if real {
            json!([[100, 2_400, "tlb", true], [12_000, 900, "none", false], [20_100, 2_300, "tlb", true]])
        } else {
            json!([[500, 900, "timer", false]])
        },
        "timeline_ops": if real { json!([[50, 3_100], [20_000, 23_000]]) } else { json!([]) },
    })
}

fn experiment_result(name: &str, params: Value, stall: f64, verdict: &str) -> ExperimentSummary {
    let none = json!({"difference": 1.5, "ci95": [-12.0, 14.0], "signs": [5, 11]});
    let value = json!({
        "schema": "quell/lab/1", "experiment": name, "about": "what the culprit repeats", "params": params,
        "victim": "spin", "verdict": verdict, "why": "as the rounds say",
        "sham_verdict": "not-shown", "sham_why": "0 events in 1000 operations", "interrupted": false,
        "machine": {
            "kernel": "6.18.5", "cpu": "A CPU", "cpus": 2, "virtual_machine": true,
            "victim_cpu": 1, "culprit_cpu": 0,
        },
        "arms": {"idle": arm_json(false), "sham": arm_json(false), "real": arm_json(true), "untraced": arm_json(true)},
        "shootdowns_per_op": 0.9995, "expected_per_op": 1.0, "faults_per_op": 0.0, "matched": 0.9991,
        "effect": {
            "stall_ppm": {"difference": stall, "ci95": [stall * 0.9, stall * 1.1], "signs": [11, 11]},
            "all_gaps_ppm": {"difference": stall, "ci95": [stall * 0.8, null], "signs": [11, 11]},
            "untraced_ppm": none,
            "ns_per_event": 2_400.4, "gap_p50_ns": 2_100.0, "events": 12_000,
        },
    });
    serde_json::from_value(value).expect("a result")
}

/// An experiment with one page at a time.
pub(crate) fn dontneed_result() -> ExperimentSummary {
    experiment_result("dontneed", json!({"pages": 1}), 18_000.0, "shown")
}

/// An experiment of another mechanism.
pub(crate) fn munmap_result() -> ExperimentSummary {
    experiment_result(
        "munmap",
        json!({"pages": 1, "touched": 1}),
        9_000.0,
        "shown",
    )
}

/// Results as a file holds them.
pub(crate) fn result_lines(all: &[ExperimentSummary]) -> String {
    let line = |s: &ExperimentSummary| serde_json::to_string(s).expect("JSON") + "\n";
    all.iter().map(line).collect()
}
