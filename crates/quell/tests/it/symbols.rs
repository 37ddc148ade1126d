//! Names and marks of code in odd places, from a real recording to the report.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{QUELL, alone, beside_others, example, json, quell, root_only};

/// Some 100 ms.
const COUNT: &str = "20000";

/// Records a command, and returns the report and the command's output.
fn record(dir: &Path, command: &[&str]) -> (Value, String) {
    let trace = dir.join("trace").display().to_string();
    let mut args = vec!["record", "--force", "-o", &trace, "--"];
    args.extend(command);
    let out = quell(&args);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(0), "{said}");
    let report = quell(&["report", &trace, "--json"]);
    assert_eq!(report.status.code(), Some(0));
    (
        json(&report.stdout),
        String::from_utf8_lossy(&out.stdout).into_owned(),
    )
}

/// Shootdowns whose innermost frame begins with this.
fn shot_from(report: &Value, frame: &str) -> u64 {
    let stacks = report["stacks"].as_array().expect("stacks");
    let innermost = |s: &&Value| {
        s["frames"][0]
            .as_str()
            .is_some_and(|f| f.starts_with(frame))
    };
    let found = stacks.iter().filter(innermost);
    found.filter_map(|s| s["shootdowns"].as_u64()).sum()
}

fn assert_shot_from(report: &Value, frame: &str) {
    assert!(
        shot_from(report, frame) > 0,
        "nothing from '{frame}': {:#}",
        report["stacks"]
    );
}

/// Whether a mount namespace can be made here; says loudly if it can't.
fn unshares(test: &str) -> bool {
    let made = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "true"])
        .output();
    let made = made.is_ok_and(|o| o.status.success());
    if !made {
        eprintln!("SKIPPED {test}: no mount and PID namespaces can be made here");
    }
    made
}

/// Check that code which a program makes as it runs is named by its perf map, and says that it has none.
#[test]
fn code_of_a_jit() {
    if !root_only("code_of_a_jit") {
        return;
    }
    let _alone = alone();
    let (dir, program) = (tempfile::tempdir().expect("a folder"), example("places"));
    let (report, pid) = record(dir.path(), &[&program, COUNT, "jit-map"]);
    let map = format!("/tmp/perf-{}.map", pid.trim());
    fs::remove_file(&map).expect("the program's map");
    assert_shot_from(&report, "quell_jit::shoot /made.js:1");

    let (report, _) = record(dir.path(), &[&program, COUNT, "jit"]);
    let stacks = report["stacks"].as_array().expect("stacks");
    let marked = |s: &Value| {
        s["frames"][0]
            .as_str()
            .is_some_and(|f| f.ends_with("[JIT, no perf map]"))
    };
    assert!(stacks.iter().any(marked), "{stacks:#?}");
    let trace = dir.path().join("trace").display().to_string();
    let text = String::from_utf8_lossy(&quell(&["report", &trace]).stdout).into_owned();
    assert!(text.contains("--perf-basic-prof"), "{text}");
}

/// Check that a perf map counts only if it is the user's or root's.
#[test]
fn perf_maps_of_others() {
    if !root_only("perf_maps_of_others") || !unshares("perf_maps_of_others") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    // a map for the number that the program will have, by somebody else who knew it
    let script = "mount -t tmpfs none /tmp && : > /tmp/perf-1.map && chown 12345 /tmp/perf-1.map && \
                  exec /proc/self/fd/9 \"$@\"";
    let line = format!(
        "exec 9<'{}'; exec unshare -m -p -f sh -c '{script}' sh {COUNT} jit-map",
        example("places")
    );
    let (report, _) = record(dir.path(), &["sh", "-c", &line]);
    assert_eq!(shot_from(&report, "quell_jit::shoot"), 0);
}

/// Check that a JIT in a container is named: its map is in a /tmp of its own, under a number of its own,
/// and all of it is gone when the names are given.
#[test]
fn code_of_a_jit_in_a_container() {
    if !root_only("code_of_a_jit_in_a_container") || !unshares("code_of_a_jit_in_a_container") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    let script = "mount -t tmpfs none /tmp && exec /proc/self/fd/9 \"$@\"";
    let line = format!(
        "exec 9<'{}'; exec unshare -m -p -f sh -c '{script}' sh {COUNT} jit-map",
        example("places")
    );
    let (report, pid) = record(dir.path(), &["sh", "-c", &line]);
    assert_eq!(pid.trim(), "1");
    assert_shot_from(&report, "quell_jit::shoot /made.js:1");
}

/// Check that a process whose first thread has ended has names, and its own and not that of the thread that shot.
#[test]
fn first_thread_ended() {
    if !root_only("first_thread_ended") {
        return;
    }
    let _alone = alone();
    let (dir, program) = (tempfile::tempdir().expect("a folder"), example("places"));
    let so = dir.path().join("libquell.so");
    if !library(&so, "by_the_orphan") {
        return;
    }
    let path = so.display().to_string();
    let (report, _) = record(dir.path(), &[&program, COUNT, &path, "orphan"]);
    assert_shot_from(&report, "by_the_orphan (libquell.so)");
    let culprits = report["culprits"].as_array().expect("culprits");
    let found = culprits.iter().find(|c| c["comm"] == "places");
    let threads = found.expect("the process")["threads"].as_array();
    let named = |t: &Value| t["comm"] == "quell-orphan";
    assert!(
        threads.expect("its threads").iter().any(named),
        "{report:#}"
    );
}

/// Builds a library with the function that shoots.
fn library(out: &Path, name: &str) -> bool {
    let source = out.with_extension("c");
    let text = format!(
        "#define _GNU_SOURCE\n#include <sys/syscall.h>\n#include <unistd.h>\n\
         static __attribute__((noinline)) long {name}(void *p, unsigned long n) {{\n\
         long r; __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(SYS_madvise), \"D\"(p), \"S\"(n), \"d\"(4)\n\
         : \"rcx\", \"r11\", \"memory\"); return r; }}\n\
         long quell_shoot(void *p, unsigned long n) {{ return {name}(p, n) + 0 * (long)p; }}\n"
    );
    fs::write(&source, text).expect("a source");
    let status = Command::new("cc")
        .args([
            "-O1",
            "-fno-omit-frame-pointer",
            "-fno-optimize-sibling-calls",
            "-shared",
            "-fPIC",
        ])
        .args(["-Wl,--build-id", "-o"])
        .arg(out)
        .arg(&source)
        .status();
    let built = status.is_ok_and(|s| s.success());
    if !built {
        eprintln!("SKIPPED: no cc to build a library with");
    }
    built
}

/// Check that a library that exists only in another mount namespace is named, though it is gone with the
/// namespace when names are given, and another file has its path here.
#[test]
fn library_of_a_container() {
    if !root_only("library_of_a_container") || !unshares("library_of_a_container") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    let inside = dir.path().join("inside");
    fs::create_dir(&inside).expect("a folder");
    if !library(&dir.path().join("libquell.so"), "only_inside")
        || !library(&inside.join("libquell.so"), "outside")
    {
        return;
    }
    let line = format!(
        "cd '{}' && exec unshare -m sh -c 'mount -t tmpfs none inside && cp libquell.so inside && \
         exec {} {COUNT} ./inside/libquell.so'",
        dir.path().display(),
        example("places"),
    );
    let (report, _) = record(dir.path(), &["sh", "-c", &line]);
    assert_shot_from(&report, "only_inside (libquell.so)");
    assert!(!report["stacks"].to_string().contains("outside"));
}

/// Check that a recording that was killed is named later by the files that ran, and a frame of a file that
/// has been replaced says so.
#[test]
fn named_later_or_marked() {
    if !root_only("named_later_or_marked") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    let so = dir.path().join("libquell.so");
    if !library(&so, "as_it_was") {
        return;
    }
    record(
        dir.path(),
        &[&example("places"), COUNT, so.to_str().expect("a path")],
    );
    // as a kill leaves it: stacks without names or marks, and no end
    let trace = dir.path().join("trace");
    let stacks = fs::read_to_string(trace.join("stacks.jsonl")).expect("stacks");
    let nameless: String = stacks
        .lines()
        .map(|line| {
            let mut stack: Value = serde_json::from_str(line).expect("a stack");
            for frame in stack["frames"].as_array_mut().expect("frames") {
                frame["symbol"] = Value::Null;
                frame["mark"] = Value::Null;
            }
            format!("{stack}\n")
        })
        .collect();
    fs::write(trace.join("stacks.jsonl"), nameless).expect("stacks");
    let report = || json(&quell(&["report", trace.to_str().expect("a path"), "--json"]).stdout);
    assert_shot_from(&report(), "as_it_was (libquell.so)");
    assert!(library(&so, "another"));
    let replaced = report();
    assert_shot_from(&replaced, "libquell.so+");
    assert!(replaced["stacks"].to_string().contains("[file replaced]"));
    assert!(!replaced["stacks"].to_string().contains("another"));
    fs::remove_file(&so).expect("the library");
    assert!(report()["stacks"].to_string().contains("[file unreadable]"));
}

/// Check that hidden kernel addresses are said to be hidden, and nothing is named by them.
#[test]
fn hidden_kernel_addresses() {
    let _beside = beside_others();
    if !root_only("hidden_kernel_addresses") || !unshares("hidden_kernel_addresses") {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let shown = fs::read_to_string("/proc/kallsyms").expect("kallsyms");
    let hidden: String = shown
        .lines()
        .map(|l| format!("0000000000000000{}\n", &l[16..]))
        .collect();
    let zeros = dir.path().join("kallsyms");
    fs::write(&zeros, hidden).expect("kallsyms");
    let line = format!(
        "mount --bind '{}' /proc/kallsyms && exec {QUELL} record -o {}/trace -- true",
        zeros.display(),
        dir.path().display(),
    );
    let out = Command::new("unshare")
        .args(["-m", "sh", "-c", &line])
        .output()
        .expect("unshare");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success(), "{said}");
    assert!(
        said.contains("hides the addresses of its functions"),
        "{said}"
    );
}
