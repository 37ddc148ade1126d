//! The kernel's own threads that work for memory: each is given work, and its time has to be told under its name.

use std::process::Command;

use serde_json::Value;

use crate::account::is_absent;
use crate::common::{QUELL, alone, emulated, example, root_only};

/// A mechanism, and how the threads of it are called.
const THREADS: &[(&str, &str)] = &[
    ("kswapd", "kswapd"),
    ("kcompactd", "kcompactd"),
    ("khugepaged", "khugepaged"),
    ("ksmd", "ksmd"),
    ("kdamond", "kdamond"),
    ("flusher", "kworker/"),
];

/// The rows of what a process of that name did, by mechanism: CPU time, ns.
fn by_mechanism(account: &Value, begins: &str) -> Vec<(String, u64)> {
    let rows = account["mechanisms"].as_array().expect("rows");
    let of = |row: &Value| -> u64 {
        let who = row["who"].as_array().expect("who");
        let theirs = who.iter().filter(|w| {
            let comm = w["comm"].as_str().unwrap_or_default();
            comm.starts_with(begins)
        });
        theirs.filter_map(|w| w["cpu_ns"].as_u64()).sum()
    };
    // any CPU is hit, whoever has it
    rows.iter()
        .filter(|r| r["mechanism"] != "shootdown.hit")
        .map(|r| {
            (
                r["mechanism"].as_str().unwrap_or_default().to_owned(),
                of(r),
            )
        })
        .filter(|(_, ns)| *ns > 0)
        .collect()
}

/// Check that what the kernel's threads do is told as theirs, each under its own mechanism and no other.
#[test]
fn threads_of_the_kernel_are_named() {
    const TEST: &str = "threads_of_the_kernel_are_named";
    if !root_only(TEST) {
        return;
    }
    let _alone = alone();
    let mut wrong = Vec::new();
    for (mechanism, begins) in THREADS {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("stat.json");
        let out = Command::new(QUELL)
            .args(["stat", "-a", "--json", "-o"])
            .arg(&file)
            .args(["--", &example("spends"), mechanism])
            .arg(if emulated() { "15000" } else { "3000" })
            .output()
            .expect("quell starts");
        if is_absent(mechanism, &out) {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("the counts");
        let stat: Value = serde_json::from_str(&text).expect("an object");
        let rows = by_mechanism(&stat["account"], begins);
        let told: Vec<String> = rows
            .iter()
            .map(|(name, ns)| format!("{name} {:.0} ms", *ns as f64 / 1e6))
            .collect();
        eprintln!("{mechanism:12} {begins}: {}", told.join(", "));
        match rows.as_slice() {
            [(name, _)] if name == mechanism => {}
            _ => wrong.push(format!("{mechanism}: {rows:?}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
