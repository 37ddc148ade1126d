//! The lab: what it says of a mechanism, what it counts, and what it refuses.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::common::{alone, beside_others, json, quell, root_only, too_busy};
use crate::input::{as_nobody, one_line, refused};

/// An experiment with short blocks, to its end, where it sees enough to say something: it has longer each time, and `None` is
/// said to skip the test.
fn clear(test: &str, words: &[&str]) -> Option<Value> {
    let is_clear = |said: &Value| {
        let verdicts = [&said["verdict"], &said["sham_verdict"]];
        verdicts.iter().all(|v| **v != "too-noisy") && said["shootdowns_per_op"].is_number()
    };
    let mut goes = ["8", "20", "60"].into_iter().map(|s| run(s, words));
    let found = goes.find(is_clear);
    if found.is_none() {
        too_busy(test, "all that the lab sees is noise");
    }
    found
}

fn run(budget: &str, words: &[&str]) -> Value {
    let mut args = vec!["lab", "run", "--json", "--block", "50", "--budget", budget];
    args.extend(words);
    let out = quell(&args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(matches!(out.status.code(), Some(0 | 1)), "{said}");
    json(&out.stdout)
}

pub(crate) fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

/// Check that MADV_DONTNEED is shown with one shootdown an operation, within 1 %, of which 99 % lie in a gap, that the same culprit in another address space is not shown, and that the JSON keeps its contract.
#[test]
fn dontneed_is_shown() {
    if !root_only("dontneed_is_shown") {
        return;
    }
    let _alone = alone();
    let Some(said) = clear("dontneed_is_shown", &["dontneed"]) else {
        return;
    };
    assert_eq!(said["verdict"], "shown", "{said:#}");
    assert_eq!(said["sham_verdict"], "not-shown", "{said:#}");
    let per_op = number(&said["shootdowns_per_op"]);
    assert!((0.99..=1.01).contains(&per_op), "{said:#}");
    assert!(number(&said["matched"]) >= 0.99, "{said:#}");
    assert_eq!(said["schema"], "quell/lab/1");
    assert_eq!(said["experiment"], "dontneed");
    assert_eq!(said["params"]["pages"], 1);
    assert_eq!(said["interrupted"], false);
    for arm in ["idle", "sham", "real", "untraced"] {
        let arm = &said["arms"][arm];
        assert!(arm["blocks"].as_u64() >= Some(6), "{said:#}");
        assert!(arm["turn_ns"]["p50"].as_u64() > Some(0), "{said:#}");
    }
    assert_eq!(said["arms"]["idle"]["caused"], 0);
    assert_eq!(said["arms"]["idle"]["ops"], 0);
    assert_eq!(said["arms"]["sham"]["caused"], 0);
    let effect = &said["effect"];
    assert!(number(&effect["stall_ppm"]["ci95"][0]) > 0.0, "{said:#}");
    assert!(number(&effect["ns_per_event"]) > 100.0, "{said:#}");
}

/// Check that mprotect takes two shootdowns to read only and back, and one to no access and back, within 1 %.
#[test]
fn mprotect_takes_two_or_one() {
    if !root_only("mprotect_takes_two_or_one") {
        return;
    }
    let _alone = alone();
    for (none, expected) in [("none=0", 2.0), ("none=1", 1.0)] {
        let words = ["mprotect", "--set", none];
        let Some(said) = clear("mprotect_takes_two_or_one", &words) else {
            return;
        };
        assert_eq!(number(&said["expected_per_op"]), expected);
        let off = number(&said["shootdowns_per_op"]) / expected - 1.0;
        assert!(off.abs() <= 0.01, "{none}: {said:#}");
    }
}

/// Check that the negative control is not shown: memory that nobody has touched stalls nobody when it goes.
#[test]
fn untouched_is_not_shown() {
    if !root_only("untouched_is_not_shown") {
        return;
    }
    let _alone = alone();
    let Some(said) = clear("untouched_is_not_shown", &["untouched"]) else {
        return;
    };
    assert_eq!(said["verdict"], "not-shown", "{said:#}");
    assert_eq!(said["sham_verdict"], "not-shown", "{said:#}");
    assert!(number(&said["shootdowns_per_op"]) < 0.001, "{said:#}");
}

/// Check that a victim that sleeps gets none: a CPU that idles is not asked, for it flushes before it goes on.
#[test]
fn sleeping_victim_gets_none() {
    if !root_only("sleeping_victim_gets_none") {
        return;
    }
    let _alone = alone();
    let words = ["dontneed", "--victim", "sleep"];
    let Some(said) = clear("sleeping_victim_gets_none", &words) else {
        return;
    };
    assert_eq!(said["verdict"], "not-shown", "{said:#}");
    assert_eq!(said["victim"], "sleep");
    assert!(number(&said["shootdowns_per_op"]) <= 0.01, "{said:#}");
    assert!(said["arms"]["real"]["ops"].as_u64() > Some(20), "{said:#}");
}

/// Check that what nobody knows is refused in one line that names it.
#[test]
fn unknown_is_refused() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("lab.toml");
    let path = file.to_str().expect("a path");
    let names = |words: &[&str], what: &str| {
        let mut args = vec!["lab", "run"];
        args.extend(words);
        let said = refused(&args);
        assert!(said.contains(what), "{words:?}: {said}");
    };
    names(&["peace"], "'peace'");
    names(&["dontneed", "--set", "colour=3"], "'colour'");
    names(&["dontneed", "--set", "pages=many"], "pages=many");
    names(&["dontneed", "--set", "pages=0"], "pages must be 1");
    names(&["dontneed", "--budget", "soon"], "--budget 'soon'");
    names(&["dontneed", "--budget", "0.1"], "1 s to 24 h");
    names(&["dontneed", "--victim-cpu", "9999"], "CPU 9999");
    names(
        &["dontneed", "--victim-cpu", "0", "--culprit-cpu", "0"],
        "a CPU each",
    );
    names(
        &["dontneed", "--config", "/nonexistent/lab.toml"],
        "/nonexistent/lab.toml",
    );
    for flag in [
        "--set a=1",
        "--block 100",
        "--pace 1",
        "--rounds 3",
        "--victim sleep",
        "--influx f",
    ] {
        let words: Vec<&str> = ["targets"].into_iter().chain(flag.split(' ')).collect();
        names(&words, &format!("leave out {}", words[1]));
    }
    names(&["dontneed", "--influx", "https://a/write"], "no TLS");
    names(&["dontneed", "--influx", "udp://a"], "there is no port");
    for (text, what) in [
        ("[peace]\n", "'peace'"),
        ("[dontneed]\ncolour = 3\n", "'colour'"),
        ("[dontneed]\npages = 1.5\n", "dontneed.pages"),
        ("pages", "lab.toml"),
        ("dontneed = 33", "[dontneed]"),
    ] {
        fs::write(&file, text).expect("a file");
        names(&["dontneed", "--config", path], what);
    }
}

/// Check that an allocator that ld.so passes over is named and has no row, and that the process's own has one.
#[test]
fn allocator_that_is_not_loaded_is_named() {
    if !root_only("allocator_that_is_not_loaded_is_named") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("libjemalloc.so.2");
    fs::write(&file, "no library").expect("a file");
    let path = file.to_str().expect("a path");
    let args = [
        "lab",
        "allocators",
        "--lib",
        path,
        "--budget",
        "1",
        "--json",
    ];
    let out = quell(&args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    let line = said.lines().find(|l| l.contains("was not loaded"));
    assert!(line.is_some_and(|l| l.contains(path)), "{said}");
    let rows = &json(&out.stdout)["allocators"];
    assert_eq!(rows.as_array().map(Vec::len), Some(1), "{rows:#}");
    assert_eq!(rows[0]["experiment"], "alloc-free");
}

/// Check that without rights the lab says in one line what is missing and what helps, before it sets anything up.
#[test]
fn without_root() {
    let _beside = beside_others();
    for experiment in ["dontneed", "swap"] {
        let args = ["lab", "run", experiment];
        let Some(out) = as_nobody("lab::without_root", &args) else {
            return;
        };
        let said = one_line(&args, &out);
        assert!(said.contains("CAP_BPF and CAP_PERFMON"), "{said}");
        assert!(said.contains("sudo"), "{said}");
    }
}

/// Check that the documentation has a row for every experiment, with its parameters, and for none that is not there.
#[test]
fn every_experiment_is_documented() {
    let _beside = beside_others();
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab-reference.md");
    let docs = fs::read_to_string(docs).expect("docs/lab-reference.md");
    let rows = docs.lines().filter_map(|l| l.strip_prefix("| `"));
    let rows: BTreeMap<&str, &str> = rows.filter_map(|row| row.split_once('`')).collect();
    let list = quell(&["lab", "list"]);
    let list = String::from_utf8_lossy(&list.stdout);
    let mut names = Vec::new();
    // below the empty line are curves, which have a page of their own
    for line in list.lines().skip(1).take_while(|l| !l.is_empty()) {
        let name = line.split_whitespace().next().expect("a name");
        let row = rows
            .get(name)
            .unwrap_or_else(|| panic!("no row for {name}"));
        // "pages=1 (pages of an operation), huge=0 (1: …)"
        for word in line.split_whitespace().filter(|w| w.contains('=')) {
            assert!(row.contains(&format!("`{word}`")), "{name}: {word}: {row}");
        }
        names.push(name);
    }
    let extra: Vec<_> = rows.keys().filter(|name| !names.contains(name)).collect();
    assert!(extra.is_empty(), "no such experiment: {extra:?}");
}
