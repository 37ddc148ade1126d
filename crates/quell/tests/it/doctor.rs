//! `quell doctor` on the machine that the tests run on, and on a process with known hazards.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::common::{QUELL, beside_others, example, json, quell, root_only};

/// The finding of a rule.
fn found<'a>(audit: &'a Value, rule: &str) -> &'a Value {
    let findings = audit["findings"].as_array().expect("findings");
    let one = findings.iter().find(|f| f["rule"] == rule);
    one.unwrap_or_else(|| panic!("no {rule} in {audit:#}"))
}

/// Check that every rule of the system answers on this machine, with what it read wherever it is sure, in the contract's words.
#[test]
fn every_rule_answers() {
    let _beside = beside_others();
    let out = quell(&["doctor", "--json"]);
    assert!(
        matches!(out.status.code(), Some(0 | 1 | 3)),
        "{:?}: {}",
        out.status,
        String::from_utf8_lossy(&out.stderr)
    );
    let audit = json(&out.stdout);
    assert_eq!(audit["schema"], "quell/doctor/1");
    let findings = audit["findings"].as_array().expect("findings");
    assert!(findings.len() >= 35, "{}", findings.len());
    for f in findings {
        let status = f["status"].as_str().expect("a status");
        assert!(["hazard", "ok", "unknown"].contains(&status), "{f}");
        for key in [
            "severity",
            "why",
            "fix_now",
            "fix_lasting",
            "source",
            "said",
        ] {
            assert!(f[key].is_string(), "{key} of {f}");
        }
        let read = f["read"].as_array().expect("read");
        assert!(
            status == "unknown" || !read.is_empty(),
            "sure, and read nothing: {f}"
        );
        let fixes = [&f["fix_now"], &f["fix_lasting"]];
        let none = fixes.iter().all(|fix| *fix == "");
        assert!(
            status != "hazard" || !none || f["severity"] == "info",
            "no fix: {f}"
        );
    }
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    if let Ok(setting) = setting {
        let always = setting.contains("[always]");
        let expected = if always { "hazard" } else { "ok" };
        assert_eq!(found(&audit, "SYS-THP")["status"], expected, "{setting}");
    }
}

/// Check that a rule that isn't there, a process that isn't there, and a bad word are bad usage in one line.
#[test]
fn bad_usage() {
    for args in [
        &["doctor", "--rule", "SYS-NONE"][..],
        &["doctor", "-p", "999999999"],
        &["doctor", "--profile", "fast"],
        &["doctor", "--fail-on", "worst"],
        &["doctor", "--emit", "chef"],
        &["doctor", "/nonexistent/trace"],
        &["doctor", "--undo", "/nonexistent/undo", "--apply"],
        &["doctor", "--rule", "SYS-THP", "--yes"],
        &["doctor", "--apply", "--output", "/dev/null"],
        &["doctor", "--undo", "/nonexistent/undo", "--rule", "SYS-THP"],
    ] {
        let out = quell(args);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        assert!(out.stdout.is_empty(), "{args:?}");
    }
}

/// A process that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Check that a process with a writable mapping of a file on a disk has that hazard, and one of a file in memory doesn't.
#[test]
fn written_back_mappings() {
    if !root_only("written_back_mappings") {
        return;
    }
    let _beside = beside_others();
    // beside the binary, for /tmp may be in memory
    let disk = tempfile::tempdir_in(std::path::Path::new(QUELL).parent().expect("a folder"));
    let memory = tempfile::tempdir_in("/dev/shm");
    for (dir, expected) in [(disk, "hazard"), (memory, "ok")] {
        let dir = dir.expect("a folder");
        let file = dir.path().join("ring");
        let child = Command::new(example("mapped"))
            .arg(&file)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut running = Running(child);
        // it says when the mapping is there
        let mut line = String::new();
        let mut out = std::io::BufReader::new(running.0.stdout.take().expect("a pipe"));
        std::io::BufRead::read_line(&mut out, &mut line).expect("a line");
        assert_eq!(line, "mapped\n");
        let pid = running.0.id().to_string();
        let audit = json(&quell(&["doctor", "--json", "-p", &pid]).stdout);
        let finding = found(&audit, "PROC-WBMAP");
        assert_eq!(finding["status"], expected, "{finding:#}");
        assert_eq!(audit["pid"], running.0.id());
    }
}
