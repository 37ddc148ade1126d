//! `quell lab run CURVE`: what a figure claims, and that nothing is left behind.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::common::{LAB_LOCK, QUELL, alone, comes_true, json, quell};

/// Whether there are the two CPUs that the lab takes. Otherwise says loudly that the test was skipped.
pub(crate) fn two_cpus(test: &str) -> bool {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        eprintln!("SKIPPED {test}: the lab takes two CPUs");
    }
    cpus >= 2
}

/// The points of a series by x.
fn points<'a>(curve: &'a Value, name: &str) -> Vec<&'a Value> {
    let series = curve["series"].as_array().expect("series");
    let found = series.iter().find(|s| s["name"] == name);
    let found = found.unwrap_or_else(|| panic!("no series {name}: {curve:#}"));
    found["points"].as_array().expect("points").iter().collect()
}

/// The p50 at x.
fn p50(curve: &Value, name: &str, x: u64) -> f64 {
    let all = points(curve, name);
    let point = all.iter().find(|p| p["x"] == x);
    point.expect("a point")["p50"].as_f64().expect("a number")
}

fn flush_threshold() -> Value {
    let out = quell(&["lab", "run", "flush-threshold", "--budget", "4", "--json"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    json(&out.stdout)
}

/// Check that a curve's JSON is whole and in order, that its intervals hold their medians, that a p99 is told only
/// where there are times enough for one, and that more pages cost more, beside a page that holds nothing.
#[test]
fn threshold_of_the_flush() {
    if !two_cpus("threshold_of_the_flush") {
        return;
    }
    let _alone = alone();
    let curve = flush_threshold();
    assert_eq!(curve["schema"], "quell/lab-curve/1");
    assert_eq!(curve["experiment"], "flush-threshold");
    assert_eq!(curve["unit"], "ns");
    assert!(
        !curve["machine"]["kernel"]
            .as_str()
            .expect("a kernel")
            .is_empty()
    );
    let names: Vec<&str> = curve["series"]
        .as_array()
        .expect("series")
        .iter()
        .filter_map(|s| s["name"].as_str())
        .collect();
    let wanted = [
        "alone",
        "peer spinning",
        "peer asleep",
        "FREE, alone",
        "FREE, peer spinning",
    ];
    assert_eq!(names, wanted);
    let rounds = curve["rounds"].as_u64().expect("rounds");
    assert!(rounds >= 1);
    for name in wanted {
        let points = points(&curve, name);
        let xs: Vec<u64> = points.iter().filter_map(|p| p["x"].as_u64()).collect();
        assert_eq!(xs, [0, 1, 2, 4, 8, 16, 24, 32, 33, 34, 40, 48, 64]);
        for p in points {
            let (n, p50) = (p["n"].as_u64().expect("n"), p["p50"].as_f64().expect("p50"));
            assert!(n >= rounds && p50 > 0.0, "{p}");
            assert_eq!(p.get("p99").is_some(), n >= 10_000, "{p}");
            match (p["ci95"][0].as_f64(), p["ci95"][1].as_f64()) {
                (Some(low), Some(high)) => assert!(low <= p50 && p50 <= high, "{p}"),
                (None, None) => assert!(rounds < 6, "{p}"),
                _ => panic!("half an interval: {p}"),
            }
        }
    }
    if curve["machine"]["virtual_machine"] == true {
        let notes = curve["notes"].as_array().expect("notes");
        let says = |n: &Value| n.as_str().is_some_and(|n| n.contains("bare metal"));
        assert!(notes.iter().any(says), "{notes:?}");
    }
    // what others do on the machine can turn two times round in one measurement, not in each of several
    let rising = |curve: &Value, name| {
        p50(curve, name, 64) > p50(curve, name, 1) && p50(curve, name, 1) > p50(curve, name, 0)
    };
    in_order(&["alone", "FREE, alone"], curve, flush_threshold, rising);
}

/// Check that curves are listed, that what is no curve is refused beside one, and that a curve has no parameters.
#[test]
fn curves_by_name() {
    let list = quell(&["lab", "list"]);
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let at = |name: &str| list.find(name).unwrap_or_else(|| panic!("{name}: {list}"));
    assert!(at("munmap") < at("Curves:") && at("Curves:") < at("tlb-curve"));
    for (args, why) in [
        (vec!["munmap", "targets"], "'munmap' is no curve"),
        (vec!["targets", "--set", "pages=3"], "no parameters"),
    ] {
        let out = quell(&[vec!["lab", "run"], args].concat());
        assert_eq!(out.status.code(), Some(2));
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains(why), "{said}");
    }
}

/// A curve that is measured for as short as can be, and has all its series.
fn short(name: &str, series: usize) -> Value {
    let out = quell(&["lab", "run", name, "--budget", "1", "--json"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{name}: {said}");
    let curve = json(&out.stdout);
    let notes = curve["notes"].as_array().expect("notes");
    let missing: Vec<&Value> = notes
        .iter()
        .filter(|n| n.as_str().is_some_and(|n| n.starts_with("not measured")))
        .collect();
    // huge pages and swap are not everywhere
    let may_miss = |n: &&&Value| {
        n.as_str()
            .is_some_and(|n| n.contains("huge") || n.contains("swap"))
    };
    assert!(
        missing.iter().filter(|n| !may_miss(n)).count() == 0,
        "{name}: {missing:?}"
    );
    let told = curve["series"].as_array().expect("series").len();
    assert_eq!(told + missing.len(), series, "{name}: {curve:#}");
    curve
}

/// Measurements until one has that order, for each of the things compared: at most this many.
const TRIES: usize = 4;

/// Each thing has its order in the curve that there is, or in one measured anew.
fn in_order<T: Copy + std::fmt::Debug>(
    things: &[T],
    mut curve: Value,
    again: impl Fn() -> Value,
    is_so: impl Fn(&Value, T) -> bool,
) {
    for thing in things {
        let mut tries = 1;
        while !is_so(&curve, *thing) {
            assert!(tries < TRIES, "{thing:?}, {tries} times: {curve:#}");
            curve = again();
            tries += 1;
        }
    }
}

/// Check that every other curve runs, that its control costs less than what it is the control of, and that what must
/// cost more does.
#[test]
fn every_curve_runs() {
    if !two_cpus("every_curve_runs") {
        return;
    }
    let _alone = alone();
    // the cheaper, the dearer, at x
    let check = |name, series, pairs: &[(&str, &str, u64)]| {
        let less = |curve: &Value, (cheap, dear, x): (&str, &str, u64)| {
            p50(curve, cheap, x) < p50(curve, dear, x)
        };
        in_order(pairs, short(name, series), || short(name, series), less);
    };
    let curve = short("targets", 3);
    let wakes = |curve: &Value, x| p50(curve, "spinning", 0) < p50(curve, "spinning", x);
    in_order(&[1], curve, || short("targets", 3), wakes);
    check(
        "faults",
        13,
        &[
            ("no fault", "anonymous write", 1),
            ("no fault", "shared file clean write", 1),
            ("no fault", "write after zero page", 1),
            ("mmap alone", "touch in order", 512),
            ("mmap alone", "MAP_POPULATE", 512),
            ("mmap alone", "MADV_POPULATE_WRITE", 512),
        ],
    );
    let curve = short("tlb-curve", 3);
    let told = points(&curve, "4 KB pages");
    // means have no percentiles
    assert!(told.iter().all(|p| p.get("p99").is_none()), "{curve:#}");
    let last = told.last().and_then(|p| p["x"].as_u64()).expect("a point");
    check("tlb-curve", 3, &[("packed", "4 KB pages", last)]);
    check(
        "context-switch",
        5,
        &[
            ("no switch", "threads, pipe", 0),
            ("no switch", "processes, pipe", 0),
        ],
    );
    check(
        "free-chunk",
        5,
        &[
            ("munmap, untouched", "munmap, 4 KB pages", 16),
            ("munmap, 4 KB pages", "DONTNEED, 4 KB each", 16),
        ],
    );
}

/// Children of a process, and theirs.
fn below(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    let children = text.split_whitespace().filter_map(|p| p.parse().ok());
    children
        .flat_map(|p: u32| [vec![p], below(p)].concat())
        .collect()
}

/// Whether a process runs; one that nobody has waited for does not.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Check that workers and their children end when quell is killed, which can't tell them to.
#[test]
fn workers_end_with_quell() {
    if !two_cpus("workers_end_with_quell") {
        return;
    }
    let _alone = alone();
    let mut quell = Command::new(QUELL)
        .args(["lab", "run", "context-switch", "--budget", "3600"])
        .env(LAB_LOCK.0, LAB_LOCK.1)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("quell starts");
    // five workers, two of which have a child
    let mut all = Vec::new();
    comes_true(|| {
        all = below(quell.id());
        all.len() >= 7
    });
    quell.kill().expect("quell can be killed");
    quell.wait().expect("quell has ended");
    assert_eq!(all.len(), 7, "workers and their children");
    comes_true(|| !all.iter().any(|pid| runs(*pid)));
    all.retain(|pid| runs(*pid));
    assert!(all.is_empty(), "{all:?} still run");
}
