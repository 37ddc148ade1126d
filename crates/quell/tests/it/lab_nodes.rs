//! Mechanisms that a machine with one NUMA node, or a kernel without soft-dirty, can't run: in a virtual machine of
//! `make test-kernels` they are. It is slow there, and its CPUs share fewer real ones, so that a victim is often away and
//! a verdict in words may be "too noisy": what is checked is what was counted.

use std::fs;

use serde_json::Value;

use crate::common::{GOES, alone, emulated_only, json, quell};

/// Runs an experiment. Gaps are laid beside what the probe saw by two clocks, which an emulated machine whose host is busy
/// may not hold together: then once more.
fn run(words: &[&str]) -> Value {
    let mut last = None;
    for _ in 0..GOES {
        let told = run_once(words);
        if told["matched"].as_f64().is_none_or(|m| m >= 0.99) {
            return told;
        }
        last = Some(told);
    }
    panic!("gaps never match: {last:#?}");
}

fn run_once(words: &[&str]) -> Value {
    let mut args = vec!["lab", "run", "--json"];
    args.extend(words);
    let out = quell(&args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(matches!(out.status.code(), Some(0 | 1)), "{said}");
    assert!(said.contains("nonstop_tsc"), "{said}");
    let told = json(&out.stdout);
    assert_eq!(told["machine"]["counter"], "measured", "{told:#}");
    assert_eq!(told["machine"]["virtual_machine"], true, "{told:#}");
    for arm in ["idle", "sham"] {
        assert_eq!(figure(&told, arm, "caused"), 0, "{arm}: {told:#}");
    }
    told
}

fn figure(told: &Value, arm: &str, name: &str) -> u64 {
    let value = &told["arms"][arm][name];
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no {name} of {arm}: {told:#}"))
}

/// One shootdown for each operation that met the victim on its CPU: of all operations some, and never more than one each.
fn one_each(told: &Value) {
    let (ops, caused) = (figure(told, "real", "ops"), figure(told, "real", "caused"));
    assert!(ops >= 20 && figure(told, "sham", "ops") >= 20, "{told:#}");
    assert!(caused <= ops && caused * 4 >= ops, "{told:#}");
    if let Some(per_op) = told["shootdowns_per_op"].as_f64() {
        assert!((0.99..=1.01).contains(&per_op), "{told:#}");
    }
    assert_ne!(told["verdict"], "not-shown", "{told:#}");
}

/// Check that moving pages to another node, and to a slower tier and back, takes one shootdown a call.
#[test]
fn pages_that_move_take_one() {
    if !emulated_only("pages_that_move_take_one") {
        return;
    }
    let _alone = alone();
    one_each(&run(&["move-pages", "--budget", "20"]));
    one_each(&run(&["demote", "--budget", "30"]));
}

/// Check that clearing soft-dirty takes one shootdown, and that the victim's writes fault after it.
#[test]
fn soft_dirty_takes_one() {
    if !emulated_only("soft_dirty_takes_one") {
        return;
    }
    let _alone = alone();
    let told = run(&["soft-dirty", "--budget", "20"]);
    one_each(&told);
    let per_op = told["faults_per_op"].as_f64();
    assert!(per_op.is_some_and(|faults| faults > 1.0), "{told:#}");
}

/// Check that NUMA balancing makes faults while it is on, none while it is off, and is as it was afterwards.
///
/// The kernel looks through a process once for each second of CPU time that a thread has had, and more seldom where it found nothing to
/// move (kernel/sched/fair.c: task_tick_numa(), update_task_scan_period()). A machine whose host is busy may not come to that within
/// the blocks of a run: then once more.
#[test]
fn balancing_makes_faults() {
    if !emulated_only("balancing_makes_faults") {
        return;
    }
    let _alone = alone();
    let setting = || fs::read_to_string("/proc/sys/kernel/numa_balancing").expect("two nodes");
    let before = setting();
    let mut faults = Vec::new();
    for _ in 0..GOES {
        let told = run(&["numa-balancing", "--rounds", "3", "--budget", "300"]);
        assert_eq!(setting(), before);
        let [idle, sham, real] = ["idle", "sham", "real"].map(|arm| figure(&told, arm, "faults"));
        println!("faults: idle {idle}, sham {sham}, real {real}");
        if real >= 100 && sham * 10 <= real {
            return;
        }
        faults.push([idle, sham, real]);
    }
    panic!("NUMA balancing made no faults of its own (idle, sham and real arm): {faults:?}");
}
