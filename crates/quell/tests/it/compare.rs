//! Two traces side by side, as their users ask for it.

use std::fs;
use std::path::Path;

use quell_event::Shootdown;
use quell_event::trace::{TraceMeta, TraceWriter};
use serde_json::Value;

use crate::common::{alone, beside_others, example, json, quell, root_only};

/// A trace of so many shootdowns.
fn made(dir: &Path, name: &str, backend: &str, shootdowns: u64) -> String {
    let path = dir.join(name);
    let meta = TraceMeta {
        backend: backend.into(),
        ..TraceMeta::default()
    };
    let mut writer = TraceWriter::create(&path, &meta, false).expect("a trace");
    for n in 0..shootdowns {
        writer.push_shootdown(&Shootdown {
            t_ns: 1 + n * 10_000,
            wait_ns: 2_000,
            ..Shootdown::default()
        });
    }
    writer.finish(1, |_| ()).expect("a closed trace");
    path.display().to_string()
}

/// Check that what can't be compared is refused in one line that says what can.
#[test]
fn usage() {
    let dir = tempfile::tempdir().expect("a folder");
    let trace = made(dir.path(), "a", "raw_tp", 3);
    let page = dir.path().join("page").display().to_string();
    let refused = |args: &[&str]| {
        let out = quell(&[&["report", &trace, &trace], args].concat());
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(out.stdout.is_empty(), "{args:?}");
        String::from_utf8_lossy(&out.stderr).trim_end().to_owned()
    };
    insta::assert_snapshot!(refused(&[&trace]), @"quell: report explains one trace, or compares two: 3 are named");
    insta::assert_snapshot!(refused(&["--html", &page]), @"quell: --html is of one trace: two can be compared as text or with --json");
    insta::assert_snapshot!(refused(&["--export", "csv"]), @"quell: --export is of one trace: two can be compared as text or with --json");
    assert!(!Path::new(&page).exists());
    let none = dir.path().join("none").display().to_string();
    assert!(refused(&["--html", &page, &none]).contains("3 are named"));
    let out = quell(&["report", &trace, &none]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2));
    assert!(said.lines().count() == 1 && said.contains(&none), "{said}");
}

/// Check that a trace compared with itself has not changed, that another backend is told, and that -o
/// gets what stdout would.
#[test]
fn made_up() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let a = made(dir.path(), "a", "raw_tp", 3);
    let b = made(dir.path(), "b", "fentry", 6);
    let same = json(&quell(&["report", "--json", &a, &a]).stdout);
    assert_eq!(same["schema"], "quell/compare/1");
    assert_eq!(same["shootdowns"]["change"], 0.0);
    let one = json(&quell(&["report", "--json", &a]).stdout);
    assert_eq!(
        (&one["lost_known"], &one["lost"]),
        (&Value::Bool(false), &Value::from(0))
    );
    assert!(
        one["notes"].to_string().contains("tally.json"),
        "{}",
        one["notes"]
    );
    let text = quell(&["report", &a]).stdout;
    assert!(String::from_utf8_lossy(&text).contains("lost: not known"));
    // what was made up has no counts of its own, and nothing else is amiss
    let notes = same["notes"].as_array().expect("notes");
    let of_counts = |n: &&Value| n.as_str().is_some_and(|n| n.contains("tally.json"));
    assert_eq!(
        (notes.len(), notes.iter().filter(of_counts).count()),
        (2, 2),
        "{notes:?}"
    );
    let file = dir.path().join("out");
    let named = file.display().to_string();
    let out = quell(&["report", &a, &b]).stdout;
    assert_eq!(
        quell(&["report", &a, &b, "-o", &named]).status.code(),
        Some(0)
    );
    assert_eq!(fs::read(&file).expect("a file"), out);
    let text = String::from_utf8_lossy(&out).into_owned();
    assert!(
        text.contains("backend (raw_tp, fentry)") && text.contains("quell prove"),
        "{text}"
    );
}

/// Of 2,000 shootdowns so many must be found: a peer that is not running on a busy machine is not hit.
const FEWEST: u64 = 200;

/// The line of a table with this name.
fn line<'a>(object: &'a Value, table: &str, key: &str, name: &str) -> &'a Value {
    let lines = object[table].as_array().expect("a table");
    let found = lines.iter().find(|l| l[key] == name);
    found.unwrap_or_else(|| panic!("no {name} in {table}: {object:#}"))
}

/// Check that two recordings of two programs are told apart by cause, and matched by name and stack
/// although their numbers and addresses differ.
#[test]
fn recorded() {
    if !root_only("recorded") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    let record = |name: &str, cause: &str| {
        let trace = dir.path().join(name).display().to_string();
        let program = example("causes");
        let out = quell(&["record", "-o", &trace, "--", &program, cause, "2000"]);
        assert_eq!(out.status.code(), Some(0), "{out:?}");
        trace
    };
    let [a, again, b] = [
        ("a", "madvise.cold"),
        ("again", "madvise.cold"),
        ("b", "madvise.free"),
    ]
    .map(|(name, cause)| record(name, cause));
    let vanished = json(&quell(&["report", "--json", &a, &b]).stdout);
    assert_eq!(
        line(&vanished, "causes", "cause", "madvise.cold")["state"],
        "gone"
    );
    assert_eq!(
        line(&vanished, "causes", "cause", "madvise.free")["state"],
        "new"
    );
    let same = json(&quell(&["report", "--json", &a, &again]).stdout);
    let culprit = line(&same, "culprits", "comm", "causes");
    let (a, b) = (&culprit["shootdowns"]["a"], &culprit["shootdowns"]["b"]);
    assert!(
        a.as_u64() > Some(FEWEST) && b.as_u64() > Some(FEWEST),
        "{culprit}"
    );
    let stacks = same["stacks"].as_array().expect("stacks");
    let both = |s: &&Value| s["state"] == "both" && s["shootdowns"]["a"].as_u64() > Some(FEWEST);
    assert!(stacks.iter().any(|s| both(&s)), "{same:#}");
}
