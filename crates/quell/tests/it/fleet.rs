//! Questions over many hosts as their users ask them. Both engines on larger trees are scripts/test-fleet's.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{QUELL, beside_others, example, json, quell};

/// A tree of made-up traces, and its planted answers.
fn tree(dir: &Path, hosts: u32, shootdowns: u32) -> (String, Value) {
    let tree = dir.join("tree").display().to_string();
    let made = Command::new(example("fleet"))
        .args([&tree, &hosts.to_string(), &shootdowns.to_string()])
        .status();
    assert!(made.expect("the generator starts").success());
    let planted = fs::read(Path::new(&tree).join("planted.json")).expect("answers");
    (tree, serde_json::from_slice(&planted).expect("JSON"))
}

/// The Python that has DuckDB. Otherwise says loudly that the test was skipped.
fn python(test: &str) -> Option<String> {
    let python = std::env::var("QUELL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", "import duckdb"]).output();
    let has = has.is_ok_and(|out| out.status.success());
    if !has {
        eprintln!(
            "SKIPPED {test}: {python} has no duckdb ('pip install duckdb', or QUELL_PYTHON); scripts/test-fleet installs it"
        );
    }
    has.then_some(python)
}

/// A program in place of Python.
fn script(dir: &Path, text: &str) -> String {
    let path = dir.join("python");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a script");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&path, mode).expect("a mode");
    path.display().to_string()
}

fn refused(args: &[&str]) -> String {
    let out = quell(&[&["fleet"], args].concat());
    assert_eq!(out.status.code(), Some(2), "{args:?}: {out:?}");
    assert!(out.stdout.is_empty(), "{args:?}");
    String::from_utf8_lossy(&out.stderr).trim_end().to_owned()
}

fn asked(python: &str, args: &[&str]) -> Output {
    let out = Command::new(QUELL)
        .arg("fleet")
        .args(args)
        .env("QUELL_PYTHON", python)
        .output();
    let out = out.expect("quell starts");
    assert!(out.status.success(), "{args:?}: {out:?}");
    out
}

/// Check that what can't be asked is refused in one line that says what to do.
#[test]
fn usage() {
    let dir = tempfile::tempdir().expect("a folder");
    let empty = dir.path().display().to_string();
    let said = |args: &[&str]| refused(args).replace(&empty, "DIR");
    insta::assert_snapshot!(said(&[&empty]), @"quell: no trace in DIR: 'quell record' and 'quell agent' write them; links to folders are not followed");
    insta::assert_snapshot!(said(&["causes"]), @"quell: say where the traces are, after the questions: quell fleet [QUESTION...] DIR");
    insta::assert_snapshot!(said(&["weather", &empty]), @"quell: 'weather' is no question: ask time, wins, time-hosts, causes, binaries, stacks, hosts, changes, remedies, victims");
    insta::assert_snapshot!(said(&["--sql", "weather"]), @"quell: 'weather' is no question: ask time, wins, time-hosts, causes, binaries, stacks, hosts, changes, remedies, victims");
    insta::assert_snapshot!(said(&["--csv", &empty]), @"quell: --csv is of one question");
    insta::assert_snapshot!(said(&["causes", "changes", "--since", "3", &empty]), @"quell: 'changes' compares two periods: with --since ask it by itself");
    assert!(said(&["/nowhere/at/all"]).contains("can't look for traces in /nowhere/at/all"));
    assert!(said(&["--since", "soon", &empty]).contains("write days, such as 7, or dates"));
    assert!(said(&[]).contains("required"));
}

/// Check that questions are named with what they answer, and that their SQL is what the files have.
#[test]
fn questions_are_named() {
    let list = String::from_utf8(quell(&["fleet", "--list"]).stdout).expect("text");
    assert_eq!(list.lines().count(), 11, "{list}");
    for name in [
        "time",
        "wins",
        "time-hosts",
        "causes",
        "binaries",
        "stacks",
        "hosts",
        "changes",
        "remedies",
        "victims",
    ] {
        assert!(list.contains(&format!("  {name} ")), "{list}");
        let sql = String::from_utf8(quell(&["fleet", "--sql", name]).stdout).expect("text");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../fleet/sql/{name}.sql"));
        assert_eq!(sql, fs::read_to_string(file).expect("the SQL"));
    }
}

/// Check that a trace whose tables are emptied or garbled is passed over, as what it says would be wrong.
#[test]
fn tables_that_say_too_little() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let (tree, _) = tree(dir.path(), 1, 50);
    let host = fs::read_dir(&tree).expect("hosts").flatten();
    let host = host.map(|host| host.path()).find(|path| path.is_dir());
    let traces = fs::read_dir(host.expect("a host")).expect("traces");
    let traces: Vec<_> = traces.flatten().map(|trace| trace.path()).collect();
    fs::write(traces[0].join("stacks.jsonl"), "").expect("written");
    let processes = traces[1].join("processes.jsonl");
    let text = fs::read_to_string(&processes).expect("there");
    fs::write(&processes, text.replacen('{', "[", 1)).expect("written");
    let prepared = dir.path().join("prepared");
    let out = quell(&["fleet", "--prepare", &prepared.display().to_string(), &tree]);
    assert!(out.status.success(), "{out:?}");
    let said = String::from_utf8(out.stderr).expect("text");
    for text in [
        "passed over 2 of 5 traces: 1 damaged, 1 incomplete",
        "1 line of processes.jsonl or stacks.jsonl can't be read",
        "stacks.jsonl is empty",
    ] {
        assert!(said.contains(text), "{said}");
    }
    let rows = fs::read_to_string(prepared.join("traces.jsonl")).expect("rows");
    assert_eq!(rows.lines().count(), 3, "{rows}");
}

/// Check that where an engine fails at a damaged page, which it need not name, the trace is named.
#[test]
fn a_damaged_page_is_named() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let (tree, _) = tree(dir.path(), 2, 500);
    // in place of an engine: what one says depends on where the damage is
    let engine = script(dir.path(), "echo 'Error: bad page' >&2; exit 1");
    let said = || {
        let out = quell(&["fleet", "causes", &tree, "--python", &engine]);
        assert_eq!(out.status.code(), Some(1), "{out:?}");
        String::from_utf8(out.stderr).expect("text")
    };
    insta::assert_snapshot!(said(), @"
    quell: duckdb failed: Error: bad page; looking for a trace that is damaged
    quell: none is damaged, as far as quell can tell
    ");
    let hosts = fs::read_dir(&tree).expect("hosts").flatten();
    let host = hosts.filter(|host| host.path().is_dir()).last();
    let trace = fs::read_dir(host.expect("a host").path())
        .expect("traces")
        .flatten()
        .next();
    let trace = trace.expect("a trace").path();
    let events = trace.join("events-00001.parquet");
    let mut bytes = fs::read(&events).expect("events");
    // the first page's header
    bytes[4..104].fill(0);
    fs::write(&events, bytes).expect("written");
    let said = said();
    assert!(
        said.contains(&trace.display().to_string()) && said.contains("take that trace away"),
        "{said}"
    );
}

/// Check that without the engine, and without Python, it is said what helps, by exit status 2.
#[test]
fn what_is_missing_is_said() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let (tree, _) = tree(dir.path(), 1, 50);
    // without the system's and the user's packages
    let bare = script(dir.path(), "exec python3 -S \"$@\"");
    for (engine, module) in [("duckdb", "duckdb"), ("spark", "pyspark")] {
        let said = refused(&["causes", &tree, "--engine", engine, "--python", &bare]);
        assert!(said.contains(&format!("has no module {module}")), "{said}");
        assert!(said.contains(&format!("-m pip install {module}")), "{said}");
    }
    let said = refused(&["causes", &tree, "--python", "/nowhere/python3"]);
    assert!(said.contains("there is no /nowhere/python3"), "{said}");
}

/// Check that every answer on DuckDB is the planted one, value by value and in its order, and that text and CSV have the same.
#[test]
fn answers_are_the_planted_ones() {
    let Some(python) = python("answers_are_the_planted_ones") else {
        return;
    };
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let (tree, planted) = tree(dir.path(), 3, 2_000);
    let names: Vec<&str> = planted
        .as_object()
        .expect("answers")
        .keys()
        .map(String::as_str)
        .collect();
    let said = json(&asked(&python, &[&names[..], &[&tree, "--json"]].concat()).stdout);
    assert_eq!(
        (
            said["schema"].as_str(),
            said["hosts"].as_u64(),
            said["traces"].as_u64()
        ),
        (Some("quell/fleet/1"), Some(3), Some(15))
    );
    for answer in said["answers"].as_array().expect("answers") {
        let name = answer["question"].as_str().expect("a name");
        assert_eq!(answer["rows"], planted[name], "{name}");
    }
    let changes = &planted["changes"];
    let change = |n: usize| {
        (
            changes[n]["change"].as_str(),
            changes[n]["program"].as_str(),
        )
    };
    assert_eq!(change(0), (Some("more"), Some("ingest")), "{changes}");
    assert_eq!(changes.as_array().map(Vec::len), Some(4), "{changes}");
    assert_eq!(planted["hosts"][0]["host"], "edge-000");
    assert_eq!(planted["victims"][0]["program"], "[rt-loop]");
    let time = &planted["time"][0];
    assert_eq!(
        (time["mechanism"].as_str(), time["program"].as_str()),
        (Some("fault.anon"), Some("ingest"))
    );
    assert_eq!(planted["time-hosts"][0]["host"], "edge-000");

    let text = String::from_utf8(asked(&python, &[&*tree]).stdout).expect("text");
    for part in [
        "15 traces of 3 hosts",
        "ingest::read (ingest)",
        "madvise.dontneed",
        "jemalloc.decay",
        "ingest",
        "a2a2a2a2a2a2",
        "gone",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let csv = String::from_utf8(asked(&python, &["causes", &tree, "--csv", "-n", "2"]).stdout)
        .expect("text");
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(
        lines[0],
        "cause,shootdowns,victims,wait_ns,stall_ns,cost_ns,hosts"
    );
    let first = &planted["causes"][0];
    let expected = format!(
        "{},{},",
        first["cause"].as_str().expect("a cause"),
        first["shootdowns"]
    );
    assert!(lines.len() == 3 && lines[1].starts_with(&expected), "{csv}");
}

/// Check that what is not whole is passed over, counted and said, and that `--since` asks of less.
#[test]
fn others_are_passed_over() {
    let Some(python) = python("others_are_passed_over") else {
        return;
    };
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let (tree, planted) = tree(dir.path(), 2, 500);
    let foreign = Path::new(&tree).join("other/thing");
    fs::create_dir_all(&foreign).expect("a folder");
    fs::write(foreign.join("meta.json"), "{\"schema\": \"else\"}").expect("a file");
    let out = asked(&python, &["causes", &tree, "--json"]);
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        stderr.contains("passed over 1 of 11 traces: 1 foreign"),
        "{stderr}"
    );
    let said = json(&out.stdout);
    assert_eq!(said["passed_over"]["foreign"], 1);
    assert_eq!(said["answers"][0]["rows"], planted["causes"]);

    let week = json(&asked(&python, &["hosts", &tree, "--json", "--since", "7"]).stdout);
    assert_eq!(week["traces"], 6, "{week}");
    assert_eq!(week["answers"][0]["rows"][0]["traces"], 3);
    // the same two weeks as without
    let changes = json(&asked(&python, &["changes", &tree, "--json", "--since", "7"]).stdout);
    assert_eq!(changes["answers"][0]["rows"], planted["changes"]);
    let early = asked(
        &python,
        &[
            "changes",
            &tree,
            "--json",
            "--since",
            "2025-03-03..2025-03-08",
        ],
    );
    assert!(
        String::from_utf8_lossy(&early.stderr).contains("nothing to compare"),
        "{early:?}"
    );
    assert_eq!(
        json(&early.stdout)["answers"][0]["rows"],
        serde_json::json!([])
    );
}
