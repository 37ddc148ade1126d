//! The lab's other verbs on this machine: the documents' programs, the watch, and advice.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{alone, json, quell, root_only};
use crate::lab::number;
use crate::lab_curve::two_cpus;

fn done(words: &[&str]) -> Value {
    let out = quell(words);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{words:?}: {said}");
    json(&out.stdout)
}

/// Check that jabperf's program asks for at most a flush a call, that what it waits is told where the page was written, and that the document's figures are beside.
#[test]
fn madv_asks_for_a_flush_a_call() {
    if !root_only("madv_asks_for_a_flush_a_call") || !two_cpus("madv_asks_for_a_flush_a_call") {
        return;
    }
    let _alone = alone();
    let told = done(&[
        "lab",
        "seed-madv",
        "--threads",
        "2",
        "--calls",
        "20000",
        "--json",
    ]);
    assert_eq!(told["schema"], "quell/lab-madv/1");
    assert_eq!(told["interrupted"], false);
    assert_eq!(told["document"][0]["asked"], 3_958_266);
    let runs = told["runs"].as_array().expect("runs");
    let touched: Vec<_> = runs.iter().map(|r| r["touched"] == true).collect();
    assert_eq!(touched, [false, true]);
    for run in runs {
        assert_eq!(run["calls"], 40_000, "{run:#}");
        assert_eq!(run["lost"], 0, "{run:#}");
    }
    let written = &runs[1];
    let asked = number(&written["shootdowns"]) + number(&written["empty_sends"]);
    // never more than one a call; fewer on a machine with other work, where the other thread is off its CPU
    let per_call = asked / 40_000.0;
    assert!((0.02..=1.01).contains(&per_call), "{written:#}");
    let waits = written["wait_octaves"].as_array().expect("octaves");
    let waits: f64 = waits.iter().map(number).sum();
    assert!(waits > 0.0 && waits <= asked, "{written:#}");
    // where nothing is taken away too a call flushes, while the other thread is in one (mm/mmu_gather.c)
    for run in runs {
        assert!(number(&run["victims"]) <= 40_400.0, "{told:#}");
    }
}

/// Check that jemalloc's settings are told apart by their shootdowns: without decay fewer than with decay at once.
#[test]
fn decay_makes_jemalloc_shoot() {
    if !root_only("decay_makes_jemalloc_shoot") {
        return;
    }
    let library = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    if !Path::new(library).exists() {
        eprintln!("SKIPPED decay_makes_jemalloc_shoot: no {library}");
        return;
    }
    let _alone = alone();
    let told = done(&[
        "lab",
        "seed-jemalloc",
        "--lib",
        library,
        "--rounds",
        "2",
        "--json",
    ]);
    assert_eq!(told["schema"], "quell/lab-jemalloc/1");
    assert_eq!(told["rounds"], 2);
    assert!(told["document"]["differs"].is_string(), "{told:#}");
    let rows = told["rows"].as_array().expect("rows");
    let median = |start: &str| {
        let row = rows.iter().find(|r| {
            let setting = r["setting"].as_str().unwrap_or_default();
            setting.starts_with(start)
        });
        number(&row.unwrap_or_else(|| panic!("no row '{start}': {told:#}"))["shootdowns"][1])
    };
    assert!(median("decay off") < median("decay at once"), "{told:#}");
}

/// Check that a watch names the program that takes the CPU, how much it takes, and ends with the command and its status.
#[test]
fn watch_names_who_has_the_cpu() {
    if !root_only("watch_names_who_has_the_cpu") {
        return;
    }
    let _alone = alone();
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let cpu: String = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"))
        .map(|list| {
            list.trim()
                .chars()
                .take_while(char::is_ascii_digit)
                .collect()
        })
        .expect("a CPU");
    // until it has had the CPU for 2 s, however many want it
    let busy = format!("taskset -c {cpu} sh -c 'ulimit -t 2; while :; do :; done'; exit 3");
    let out = quell(&[
        "lab", "watch", "--cpu", &cpu, "--json", "--", "sh", "-c", &busy,
    ]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{said}");
    let told = json(&out.stdout);
    assert_eq!(told["schema"], "quell/lab-watch/1");
    assert_eq!(told["cpu"].to_string(), cpu);
    let share = number(&told["away_ns"]) / number(&told["spun_ns"]);
    assert!(share > 0.0 && share < 1.0, "{told:#}");
    let by = told["by"].as_array().expect("by");
    let sched: Vec<_> = by.iter().filter(|b| b["class"] == "sched").collect();
    // whoever else is there
    let shell: f64 = sched
        .iter()
        .filter(|b| b["comm"] == "sh")
        .map(|b| number(&b["ns"]))
        .sum();
    assert!(shell > 1e8, "{told:#}");
}

/// Check that advice is by what was measured: each rule that an experiment is about has its figures or why there are none, and what stalls ranks before what does not.
#[test]
fn advice_has_evidence() {
    if !root_only("advice_has_evidence") || !two_cpus("advice_has_evidence") {
        return;
    }
    let _alone = alone();
    let out = quell(&["lab", "advise", "--budget", "1", "--json"]);
    let said = String::from_utf8_lossy(&out.stderr);
    // 1: one of them was too noisy, or failed; the advice is there all the same
    assert!(matches!(out.status.code(), Some(0 | 1)), "{said}");
    let told = json(&out.stdout);
    assert_eq!(told["schema"], "quell/lab-advice/1");
    let advice = told["advice"].as_array().expect("advice");
    let measured: Vec<&Value> = advice
        .iter()
        .flat_map(|a| a["measured"].as_array().expect("measured"))
        .collect();
    assert!(measured.len() >= 5, "{told:#}");
    for m in &measured {
        assert!(m["said"].as_str().is_some_and(|s| s.len() > 10), "{m:#}");
        assert!(m["experiment"].is_string(), "{m:#}");
    }
    assert!(measured.iter().any(|m| stall_ppm(m).is_some()), "{told:#}");
    let rank = |a: &Value| a["status"] == "hazard";
    let hazards: Vec<bool> = advice.iter().map(rank).collect();
    assert!(hazards.is_sorted_by(|a, b| a >= b), "{told:#}");
}

fn stall_ppm(measured: &Value) -> Option<f64> {
    measured["stall_ppm"].as_f64()
}
