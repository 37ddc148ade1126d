//! Public reports as small programs (`../shared/cases`): what each is about has to be in the first screen of `report`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{alone, quell, root_only};

/// Lines of a terminal.
const SCREEN: usize = 40;

/// A case, and how it is run.
struct Case {
    name: &'static str,
    /// Its source, and the program that is built from it.
    source: &'static str,
    program: &'static str,
    /// What is run, in the folder of the program.
    script: &'static str,
}

/// The folder of the cases, if it is there: it is not part of this repository.
fn folder(case: &str) -> Option<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases");
    let folder = shared.join(case);
    folder.is_dir().then_some(folder)
}

/// The first screen of the report on a case; `None`, said loudly, where it can't be run.
fn first_screen(case: &Case) -> Option<String> {
    let name = case.name;
    if !root_only(name) {
        return None;
    }
    let Some(folder) = folder(name) else {
        eprintln!("SKIPPED {name}: the cases are not beside this repository");
        return None;
    };
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    let built = Command::new("cc")
        .args(["-O2", "-pthread", "-o"])
        .arg(dir.path().join(case.program))
        .arg(folder.join(case.source))
        .status()
        .expect("cc starts");
    assert!(built.success(), "cc builds {}", case.source);
    let trace = dir.path().join("trace");
    let trace = trace.to_str().expect("a path");
    let script = format!(
        "cd {} || exit 1; cases={}; {}",
        dir.path().display(),
        folder.display(),
        case.script
    );
    let out = quell(&["record", "-o", trace, "--", "sh", "-c", &script]);
    assert!(out.status.success(), "{out:?}");
    let out = quell(&["report", trace]);
    assert!(out.status.success(), "{out:?}");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let lines: Vec<&str> = text.lines().take(SCREEN).collect();
    Some(lines.join("\n"))
}

/// Check that what a victim's mmap waits for is another process that writes to clear_refs and reads smaps, by name.
#[test]
fn cadvisor_clear_refs() {
    let case = Case {
        name: "04-cadvisor-clear-refs",
        source: "victim.c",
        program: "victim",
        script: "./victim 6 1500 >out & until grep -q ready out; do sleep 0.1; done; \
                 python3 $cases/monitor.py $! bad 4 & wait",
    };
    let Some(screen) = first_screen(&case) else {
        return;
    };
    for part in [
        "lock.mmap",
        "mapper (victim)",
        "python3",
        "/clear_refs",
        "/smaps",
    ] {
        assert!(screen.contains(part), "no '{part}' in:\n{screen}");
    }
}

/// Check that of a convoy it is said who makes it: those who change the advice, and not the many that wait in mincore.
#[test]
fn madvise_convoy() {
    let case = Case {
        name: "06-madvise-convoy",
        source: "convoy.c",
        program: "convoy",
        script: "./convoy 3 every ./file",
    };
    let Some(screen) = first_screen(&case) else {
        return;
    };
    let held = screen
        .lines()
        .skip_while(|l| !l.contains("Who held it: lock.mmap"));
    let held: Vec<&str> = held.collect();
    assert!(
        held.iter().take(4).any(|l| l.contains("madvise(MADV_")),
        "{screen}"
    );
    assert!(screen.contains("searcher (convoy)"), "{screen}");
}

/// Check that a program's own malloc_trim is told by what it costs: the advice, the faults after it, and the lock.
#[test]
fn malloc_trim_timer() {
    let case = Case {
        name: "02-malloc-trim-timer",
        source: "trim.c",
        program: "trim",
        script: "./trim 3 100",
    };
    let Some(screen) = first_screen(&case) else {
        return;
    };
    for part in ["fault.anon", "worker (trim)", "advise"] {
        assert!(screen.contains(part), "no '{part}' in:\n{screen}");
    }
}
