//! Plans that break the program: `quell prove` finds what does it and goes on without, and `quell run` says what to try.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{QUELL, alone, beside_others, emulated, json, quell, root_only, worst};

/// A plan of remedies that set one variable each: name, variable, value.
fn plan(dir: &Path, remedies: &[(&str, &str, &str)]) -> String {
    let tables = remedies.iter().map(|(remedy, name, value)| {
        format!("[[remedies]]\nremedy = \"{remedy}\"\n[remedies.sets]\n{name} = \"{value}\"\n")
    });
    let path = dir.join("plan.toml");
    let text = "schema = \"quell/plan/1\"\n".to_owned() + &tables.collect::<String>();
    std::fs::write(&path, text).expect("a file");
    path.display().to_string()
}

/// A library that breaks what it is loaded into; with `-DAT_MUNMAP` only when memory is given back.
fn crashing_library(dir: &Path, flags: &[&str]) -> String {
    let library = dir.join(format!("libcrash{}.so", flags.len()));
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .args(flags)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/crash.c"))
        .status();
    assert!(built.expect("cc starts").success(), "cc builds crash.c");
    library.display().to_string()
}

/// A program built with AddressSanitizer; none where the compiler has it not.
fn with_address_sanitizer(dir: &Path, test: &str) -> Option<String> {
    let (source, program) = (dir.join("asan.c"), dir.join("asan"));
    std::fs::write(&source, "int main(void) { return 0; }\n").expect("a file");
    let built = Command::new("gcc")
        .args(["-fsanitize=address", "-o"])
        .args([&program, &source])
        .output();
    if !built.is_ok_and(|out| out.status.success()) {
        eprintln!("SKIPPED {test}: gcc has no AddressSanitizer here");
        return None;
    }
    Some(program.display().to_string())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn said(out: &Output) -> String {
    text(&out.stderr)
}

/// The names of remedies in a list of a proof's.
fn names(list: &Value) -> Vec<&str> {
    let list = list.as_array().expect("a list");
    list.iter()
        .map(|r| r["remedy"].as_str().expect("a name"))
        .collect()
}

/// Check that a library which crashes the program is named and left out, in the line, in JSON, and in the plan that is
/// saved; and that the rest is proved on runs of its own, and helps.
#[test]
fn crashing_library_is_left_out() {
    if !root_only("crashing_library_is_left_out") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    let library = crashing_library(dir.path(), &[]);
    let plan = plan(
        dir.path(),
        &[
            ("shim.zero", "LD_PRELOAD", "libquell.so"),
            ("test.crash", "LD_PRELOAD", &library),
        ],
    );
    let saved = dir.path().join("saved.toml");
    let saved_name = saved.display().to_string();
    let worst = worst(dir.path()).display().to_string();
    let out = quell(&[
        "prove",
        "--json",
        "--plan",
        &plan,
        "--save",
        &saved_name,
        "--",
        &worst,
        "20000",
    ]);
    let proof = json(&out.stdout);
    println!("{}{proof:#}", said(&out));
    let line = "left out: test.crash: with it the program ended by SIGSEGV (";
    assert!(said(&out).contains(line), "{}", said(&out));
    assert_eq!(names(&proof["left_out"]), ["test.crash"]);
    let left_out = &proof["left_out"][0];
    assert_eq!(left_out["why"], "SIGSEGV");
    assert_eq!(left_out["sets"]["LD_PRELOAD"], library);
    assert_eq!(left_out["runs"], left_out["failed"]);
    assert!(left_out["failed"].as_u64() >= Some(2) && left_out["singled_out"] == true);
    assert_eq!(names(&proof["plan"]), ["shim.zero"]);
    // five, and more where a gain can't be settled by so few, as on a machine that others use too
    let pairs = proof["pairs"].as_u64().expect("a number");
    assert!([5, 10, 20].contains(&pairs), "{pairs} pairs");
    let after = proof["metrics"]["shootdowns"]["after"].as_array();
    assert_eq!(after.map(|after| after.len() as u64), Some(pairs));
    // Which of the others are, on a machine that others use too, is up to chance.
    assert_eq!(proof["metrics"]["page_faults"]["verdict"], "better");
    let environment = proof["environment"]["LD_PRELOAD"].as_str().expect("a list");
    assert!(!environment.contains("crash"), "{environment}");
    let saved = std::fs::read_to_string(saved).expect("a plan");
    assert!(
        saved.contains("shim.zero") && !saved.contains("crash"),
        "{saved}"
    );
}

/// Check that of two remedies the one that breaks the program is left out: by the exit status, by a signal once memory is
/// given back, by output that lacks what was asked for; in text as one line.
#[test]
fn one_of_two() {
    if !root_only("one_of_two") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let library = crashing_library(dir.path(), &["-DAT_MUNMAP"]);
    let exits = "[ -z \"$QUELL_TEST_BAD\" ] || exit 3; echo took 1";
    let says_nothing = "[ -n \"$QUELL_TEST_BAD\" ] || echo took 1";
    // A shell's start gives memory back, or python's does; this one surely.
    let gives_back = "import mmap; mmap.mmap(-1, 1 << 20).close(); print('took 1')";
    let mut cases = vec![
        (
            ("QUELL_TEST_BAD", "1"),
            "sh",
            exits,
            "status 3",
            "ended with status 3",
        ),
        (
            ("QUELL_TEST_BAD", "1"),
            "sh",
            says_nothing,
            "no metric took",
            "did not print the metric took",
        ),
    ];
    if Command::new("python3").arg("--version").output().is_ok() {
        let preload = ("LD_PRELOAD", library.as_str());
        cases.push((
            preload,
            "python3",
            gives_back,
            "SIGABRT",
            "ended by SIGABRT",
        ));
    } else {
        eprintln!("SKIPPED one_of_two, the part with a library: needs python3");
    }
    for ((name, value), program, script, why, words) in cases {
        let plan = plan(
            dir.path(),
            &[
                ("test.good", "QUELL_TEST_GOOD", "1"),
                ("test.bad", name, value),
            ],
        );
        let metric = "took=took ([0-9]+)";
        let rest = [
            "-n", "1", "--metric", metric, "--plan", &plan, "--", program, "-c", script,
        ];
        let out = quell(&[&["prove", "--json"][..], &rest].concat());
        let proof = json(&out.stdout);
        assert_eq!(
            names(&proof["left_out"]),
            ["test.bad"],
            "{proof:#}{}",
            said(&out)
        );
        assert_eq!(proof["left_out"][0]["why"], why);
        assert_eq!(
            (names(&proof["plan"]), &proof["pairs"]),
            (vec!["test.good"], &1.into())
        );
        let out = quell(&[&["prove"][..], &rest].concat());
        let report = text(&out.stdout);
        let line = format!("  left out: test.bad: with it the program {words} (");
        assert!(report.contains(&line), "{report}{}", said(&out));
        assert!(
            report.contains("test.good") && report.contains(", without it not\n"),
            "{report}"
        );
    }
}

/// Check that a remedy with which the program never ends is left out, after the time that a run may take.
#[test]
fn hanging_remedy() {
    if !root_only("hanging_remedy") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let plan = plan(
        dir.path(),
        &[
            ("test.good", "QUELL_TEST_GOOD", "1"),
            ("test.hang", "QUELL_TEST_HANG", "1"),
        ],
    );
    let limit = if emulated() { "60" } else { "30" };
    let script = "[ -z \"$QUELL_TEST_HANG\" ] || exec sleep 1000";
    let out = quell(&[
        "prove",
        "--json",
        "-n",
        "1",
        "--timeout",
        limit,
        "--plan",
        &plan,
        "--",
        "sh",
        "-c",
        script,
    ]);
    let proof = json(&out.stdout);
    assert_eq!(
        names(&proof["left_out"]),
        ["test.hang"],
        "{proof:#}{}",
        said(&out)
    );
    assert_eq!(proof["left_out"][0]["why"], "did not end");
    let line = format!("with it the program did not end within {limit} s (");
    assert!(said(&out).contains(&line), "{}", said(&out));
    assert_eq!(names(&proof["plan"]), ["test.good"]);
}

/// Check that of remedies which all break the program nothing is left and nothing is recommended, and the plan that is
/// saved is empty.
#[test]
fn nothing_left() {
    if !root_only("nothing_left") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let plan = plan(
        dir.path(),
        &[
            ("test.a", "QUELL_TEST_A", "1"),
            ("test.b", "QUELL_TEST_B", "1"),
        ],
    );
    let saved = dir.path().join("saved.toml").display().to_string();
    let script = "[ -z \"$QUELL_TEST_A$QUELL_TEST_B\" ] || exit 9";
    let args = ["--plan", &plan, "--save", &saved, "--", "sh", "-c", script];
    let out = quell(&[&["prove", "--json"][..], &args].concat());
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    let proof = json(&out.stdout);
    assert_eq!(names(&proof["left_out"]), ["test.a", "test.b"], "{proof:#}");
    assert_eq!(
        (&proof["plan"], &proof["pairs"]),
        (&serde_json::json!([]), &0.into())
    );
    let reason = proof["reason"].as_str().expect("a reason");
    assert!(reason.contains("nothing is recommended"), "{reason}");
    let written = std::fs::read_to_string(&saved).expect("a plan");
    assert!(!written.contains("test."), "{written}");
    let out = quell(&[&["prove"][..], &args].concat());
    let report = text(&out.stdout);
    // It may be broken between words.
    let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(out.status.code(), Some(1));
    assert!(
        report.contains("nothing is recommended") && !report.contains("Keep it"),
        "{report}"
    );
}

/// Check that a program which fails now and then by itself, in every third run, is not blamed on the plan.
#[test]
fn flaky_by_itself() {
    if !root_only("flaky_by_itself") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let plan = plan(dir.path(), &[("test.good", "QUELL_TEST_GOOD", "1")]);
    let count = dir.path().join("count").display().to_string();
    let script = format!("echo >> {count}; [ $(($(wc -l < {count}) % 3)) != 0 ] || exit 4");
    // Chance decides on which side the third run is.
    for _ in 0..4 {
        let _ = std::fs::remove_file(&count);
        let out = quell(&[
            "prove", "--json", "--plan", &plan, "--", "sh", "-c", &script,
        ]);
        assert_eq!(out.status.code(), Some(1));
        assert!(out.stdout.is_empty(), "{}", text(&out.stdout));
        let said = said(&out);
        assert!(said.contains("ended with status 4 in "), "{said}");
        assert!(!said.contains("left out"), "{said}");
    }
}

/// Check that a server which a remedy ends before it accepts is run without that remedy.
#[test]
fn server_that_does_not_start() {
    if !root_only("server_that_does_not_start") {
        return;
    }
    let _beside = beside_others();
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED server_that_does_not_start: needs python3");
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let plan = plan(dir.path(), &[("test.bad", "QUELL_TEST_BAD", "1")]);
    let free = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = free.local_addr().expect("an address").port().to_string();
    drop(free);
    let server = format!(
        "import os, socket, sys\n\
         if 'QUELL_TEST_BAD' in os.environ: sys.exit(5)\n\
         s = socket.socket()\n\
         s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
         s.bind(('127.0.0.1', {port})); s.listen()\n\
         while True: s.accept()[0].close()"
    );
    let out = quell(&[
        "prove", "--json", "-n", "1", "--plan", &plan, "--ready", &port, "--load", "true", "--",
        "python3", "-c", &server,
    ]);
    let proof = json(&out.stdout);
    assert_eq!(
        names(&proof["left_out"]),
        ["test.bad"],
        "{proof:#}{}",
        said(&out)
    );
    let line =
        "left out: test.bad: with it the server ended with status 5 (2 of 2 runs), without it not";
    assert!(said(&out).contains(line), "{}", said(&out));
}

/// Check that a program with a sanitizer gets no preload library: run starts it without and says so, prove leaves the
/// remedy out untried.
#[test]
fn sanitizer_gets_no_library() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let Some(program) = with_address_sanitizer(dir.path(), "sanitizer_gets_no_library") else {
        return;
    };
    let plan = plan(dir.path(), &[("shim.zero", "LD_PRELOAD", "libquell.so")]);
    let out = quell(&["run", "--plan", &plan, "--", &program]);
    assert!(out.status.success(), "{}", said(&out));
    let words = format!("left out: shim.zero: {program} is built with AddressSanitizer");
    assert!(said(&out).contains(&words), "{}", said(&out));
    assert_eq!(said(&out).lines().count(), 1, "{}", said(&out));
    let dry = quell(&["run", "--dry-run", "--plan", &plan, "--", &program]);
    assert!(dry.stdout.is_empty(), "{}", text(&dry.stdout));
    if !root_only("sanitizer_gets_no_library") {
        return;
    }
    let out = quell(&["prove", "--json", "--plan", &plan, "--", &program]);
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
    let proof = json(&out.stdout);
    assert_eq!(names(&proof["left_out"]), ["shim.zero"]);
    assert_eq!(
        (&proof["left_out"][0]["runs"], &proof["pairs"]),
        (&0.into(), &0.into())
    );
    assert!(said(&out).contains(&words), "{}", said(&out));
}

/// Check that run says what to try where the program with a library is soon ended by a fault, names the remedy, and passes
/// the signal on.
#[test]
fn run_says_what_to_try() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let library = crashing_library(dir.path(), &[]);
    let with_ours = plan(dir.path(), &[("shim.cache", "LD_PRELOAD", "libquell.so")]);
    let out = quell(&[
        "run",
        "--plan",
        &with_ours,
        "--",
        "sh",
        "-c",
        "kill -SEGV $$",
    ]);
    assert_eq!(out.status.signal(), Some(libc::SIGSEGV));
    let line = said(&out);
    assert!(
        line.starts_with("quell: the program ended by SIGSEGV after "),
        "{line}"
    );
    assert!(
        line.ends_with(
            " s with libquell.so loaded; see whether it runs without: QUELL_SHIM=off, or leave shim.cache out of the plan\n"
        ),
        "{line}"
    );
    let with_theirs = plan(dir.path(), &[("test.crash", "LD_PRELOAD", &library)]);
    let out = quell(&["run", "--plan", &with_theirs, "--", "true"]);
    assert_eq!(out.status.signal(), Some(libc::SIGSEGV));
    let wanted = format!(
        " s with {library} loaded; see whether it runs without: leave test.crash out of the plan\n"
    );
    assert!(said(&out).ends_with(&wanted), "{}", said(&out));
}

/// Check that run says nothing of a program that somebody ends, that ends by itself with whatever status, or that has no
/// library.
#[test]
fn run_says_nothing_else() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let preload = plan(dir.path(), &[("shim.cache", "LD_PRELOAD", "libquell.so")]);
    for script in [
        "kill -TERM $$",
        "kill -INT $$",
        "kill -HUP $$",
        "kill -KILL $$",
        "kill -PIPE $$",
        "exit 139",
        "true",
    ] {
        let out = quell(&["run", "--plan", &preload, "--", "sh", "-c", script]);
        assert_eq!(said(&out), "", "{script}");
    }
    let other = plan(dir.path(), &[("test.other", "QUELL_TEST_OTHER", "1")]);
    let out = quell(&["run", "--plan", &other, "--", "sh", "-c", "kill -SEGV $$"]);
    assert_eq!(
        (said(&out).as_str(), out.status.signal()),
        ("", Some(libc::SIGSEGV))
    );
}

/// The process that looks after this one for quell.
fn watcher_of(pid: u32) -> Option<std::path::PathBuf> {
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    let mut all = all.map(|entry| entry.path());
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let looks_after = format!("Pid:\t{pid}\n");
    all.find(|process| {
        read(process.join("comm")) == "quell-watch\n"
            && read(process.join("fdinfo/0")).contains(&looks_after)
    })
}

/// Check that the program under run keeps quell's process id and has no child that it did not make, and that what looks after
/// it holds nothing but standard error: no pipe, no folder.
#[test]
fn run_leaves_the_program_alone() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let preload = plan(dir.path(), &[("shim.cache", "LD_PRELOAD", "libquell.so")]);
    // Stopped, so that it is there to be looked at. All of these are the shell's own.
    let script = "echo $$; read children < /proc/$$/task/$$/children; echo \"[$children]\"; exec >&-; kill -STOP $$";
    let mut child = Command::new(QUELL)
        .args(["run", "--plan", &preload, "--", "sh", "-c", script])
        .current_dir(dir.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("quell starts");
    let mut output = String::new();
    let mut pipe = child.stdout.take().expect("a pipe");
    std::io::Read::read_to_string(&mut pipe, &mut output).expect("text");
    // Both have closed the pipe now; a watcher that had held it would have ended since.
    let held = watcher_of(child.id()).map(|watcher| {
        let files = std::fs::read_dir(watcher.join("fd")).expect("descriptors");
        let mut files: Vec<_> = files.flatten().map(|f| f.file_name()).collect();
        files.sort();
        (
            files,
            std::fs::read_link(watcher.join("cwd")).expect("a folder"),
        )
    });
    child.kill().expect("it is there");
    child.wait().expect("it ends");
    assert_eq!(output, format!("{}\n[]\n", child.id()));
    let (files, folder) = held.expect("a watcher");
    assert_eq!((files, folder), (vec!["0".into(), "2".into()], "/".into()));
}
