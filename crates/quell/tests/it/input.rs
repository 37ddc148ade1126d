//! What is said, and with which status, when the input is bad.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

use std::time::Duration;

use crate::common::{QUELL, beside_others, comes_true, quell, root_only};

/// One line on stderr, nothing on stdout, status 2.
pub(crate) fn refused(args: &[&str]) -> String {
    let out = quell(args);
    one_line(args, &out)
}

pub(crate) fn one_line(args: &[&str], out: &Output) -> String {
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{args:?}: {text}");
    assert!(out.stdout.is_empty(), "{args:?}");
    assert_eq!(text.trim_end().lines().count(), 1, "{args:?}: {text}");
    assert!(text.starts_with("quell: "), "{args:?}: {text}");
    text.trim_end().to_owned()
}

/// Check that a target that is missing, doubled or not there is refused in one line.
#[test]
fn targets() {
    let _beside = beside_others();
    insta::assert_snapshot!(refused(&["stat"]), @"quell: say what to watch: '-a' (everything), '-p PID', '--cpu LIST', or '-- COMMAND'");
    insta::assert_snapshot!(refused(&["stat", "-p", "4194305"]), @"quell: no such process: 4194305");
    insta::assert_snapshot!(refused(&["record", "-p", "0"]), @"quell: no such process: 0");
    insta::assert_snapshot!(refused(&["stat", "-a", "--cpu", "0"]), @"quell: -a, -p and --cpu exclude each other: choose one");
    insta::assert_snapshot!(refused(&["stat", "--cpu", "4-2"]), @"quell: '4-2' is no list of CPUs; write it like 2,4-7");
    insta::assert_snapshot!(refused(&["stat", "--cpu", "8000"]), @"quell: CPU 8000 is not online on this machine");
    insta::assert_snapshot!(refused(&["stat", "-a", "-I", "0"]), @"quell: --interval 0: give a time in seconds above 0");
    insta::assert_snapshot!(refused(&["record", "-a", "--stacks", "some"]), @"quell: --stacks some: say all, none, or a number N for one in N");
    insta::assert_snapshot!(refused(&["stat", "--frob"]), @"quell: unexpected argument '--frob' found; see 'quell stat --help'");
    insta::assert_snapshot!(refused(&["run"]), @"quell: the following required arguments were not provided: <CMD>...; see 'quell run --help'");
}

/// Check that a thread of the kernel, which has no memory of its own, is not audited.
#[test]
fn kernel_threads() {
    let _beside = beside_others();
    if fs::read_to_string("/proc/2/comm").unwrap_or_default() != "kthreadd\n" {
        eprintln!("SKIPPED kernel_threads: process 2 is no thread of the kernel here");
        return;
    }
    insta::assert_snapshot!(refused(&["doctor", "-p", "2"]), @"quell: 2 is a thread of the kernel: it has no memory of its own to look at");
}

/// Check that what is no trace, and a trace that is damaged, is refused by name.
#[test]
fn traces() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let said = refused(&["report", &path("none")]);
    assert!(said.contains("none"), "{said}");
    fs::write(path("file"), "x").expect("a file");
    refused(&["report", &path("file")]);
    fs::create_dir(path("empty")).expect("a folder");
    refused(&["report", &path("empty")]);
    fs::create_dir(path("odd")).expect("a folder");
    fs::write(path("odd/meta.json"), "{\"schema\":\"quell/trace/99\"}").expect("a file");
    let said = refused(&["report", &path("odd")]);
    assert!(said.contains("99"), "{said}");
    // a pipe would be read for ever
    fs::create_dir(path("pipe")).expect("a folder");
    let pipe = path("pipe/meta.json");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a pipe");
    let said = refused(&["report", &path("pipe")]);
    assert!(said.contains("no regular file"), "{said}");
    fs::create_dir(path("foreign")).expect("a folder");
    fs::write(
        path("foreign/meta.json"),
        "{\"schema\":\"quell/trace/1\",\"quell\":\"0\",\"kernel\":\"\",\"host\":\"\",\"start_wall_ns\":0,\
         \"start_monotonic_ns\":0,\"command\":[],\"cpus\":1,\"stacks\":\"all\",\"backend\":\"raw_tp\"}",
    )
    .expect("a file");
    fs::write(path("foreign/events-00001.parquet"), "PAR1 no parquet PAR1").expect("a file");
    let said = refused(&["report", &path("foreign")]);
    assert!(said.contains("events-00001.parquet"), "{said}");
}

/// Check that an unknown plan key, and a plan that is not there, is refused by name.
#[test]
fn plans() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let plan = dir.path().join("plan.toml");
    fs::write(&plan, "[[remedies]]\nremedy = \"x\"\nsetz = 1\n").expect("a file");
    let plan = plan.display().to_string();
    let said = refused(&["run", "--plan", &plan, "--", "true"]);
    assert!(said.contains("setz"), "{said}");
    let said = refused(&["run", "--plan", "/nonexistent/plan", "--", "true"]);
    assert!(said.contains("/nonexistent/plan"), "{said}");
}

/// Check that a plan that is a pipe nobody writes to, a folder, a device or a huge file is refused and not waited for.
#[test]
fn plans_are_files() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path("pipe"),
        rustix::fs::FileType::Fifo,
        mode,
        0,
    )
    .expect("a pipe");
    let huge = fs::File::create(path("huge")).expect("a file");
    huge.set_len(1 << 40).expect("a file with a hole");
    let mut plans = vec![path("pipe"), path("huge"), dir.path().display().to_string()];
    plans.extend(["/dev/zero", "/dev/tty"].map(str::to_owned));
    for plan in plans {
        // ended, and so not status 2, should it wait
        let args = ["60", QUELL, "run", "--plan", &plan, "--", "true"];
        let out = Command::new("timeout")
            .args(args)
            .output()
            .expect("timeout starts");
        let said = one_line(&args, &out);
        assert!(said.contains(&plan), "{said}");
    }
}

/// quell as a user without rights; `None`, loudly, where that user may not run it.
pub(crate) fn as_nobody(test: &str, args: &[&str]) -> Option<Output> {
    let mut command = Command::new(QUELL);
    command.args(args);
    if rustix::process::geteuid().is_root() {
        command.uid(65534);
    }
    let out = command.output().ok();
    if out.is_none() {
        eprintln!("SKIPPED {test}: the binary can't be run by another user here");
    }
    out
}

/// Check that without rights a verb that needs the probe says what is missing and which command helps.
#[test]
fn without_root() {
    let _beside = beside_others();
    let args = ["record", "-a", "-o", "/nonexistent/trace"];
    let Some(out) = as_nobody("without_root", &args) else {
        return;
    };
    let said = one_line(&args, &out);
    assert!(said.contains("CAP_BPF and CAP_PERFMON"), "{said}");
    assert!(said.contains("sudo"), "{said}");
    assert!(said.contains("quell stat"), "{said}");
}

/// Check that without rights stat counts what /proc counts, passes on the command's status, and says what it can't see and what helps; and that what is asked for by name is refused.
#[test]
fn stat_without_root() {
    let _beside = beside_others();
    let args = ["stat", "--json", "--", "sh", "-c", "exit 7"];
    let Some(out) = as_nobody("stat_without_root", &args) else {
        return;
    };
    assert_eq!(out.status.code(), Some(7));
    let stat = crate::common::json(&out.stdout);
    assert_eq!(stat["backend"], "proc");
    assert!(stat["shootdowns"].is_null(), "{stat}");
    assert!(stat["page_faults"]["minor"].as_u64() > Some(0), "{stat}");
    let why = stat["why"].as_str().unwrap_or_default();
    assert!(
        why.contains("CAP_BPF and CAP_PERFMON") && why.contains("sudo"),
        "{why}"
    );
    let text = as_nobody("stat_without_root", &["stat", "--", "true"]).expect("as before");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("who shot at whom"), "{text}");
    let args = ["stat", "-a", "--backend", "raw_tp"];
    let named = as_nobody("stat_without_root", &args).expect("as before");
    assert!(one_line(&args, &named).contains("CAP_BPF"));
}

/// Check that counts every so often end when nobody reads them any more, with the probe and without it, and that their
/// command runs on and its status is passed on.
#[test]
fn intervals_without_a_reader() {
    if !root_only("intervals_without_a_reader") {
        return;
    }
    let _beside = beside_others();
    for way in [&[][..], &["--backend", "proc"]] {
        let mut child = Command::new(QUELL)
            .args(["stat", "-I", "0.1"])
            .args(way)
            .args(["--", "sh", "-c", "echo $$ >&2; exec sleep 3600"])
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("quell starts");
        let said = child.stderr.take().map(BufReader::new).expect("a pipe");
        let mut said = said.lines().map_while(Result::ok);
        let pid: u32 = said
            .find_map(|l| l.parse().ok())
            .expect("the command's number");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        out.read_line(&mut line).expect("a line");
        drop(out);
        // some intervals later it has seen that
        std::thread::sleep(Duration::from_secs(1));
        assert!(child.try_wait().expect("a child").is_none(), "{way:?}");
        crate::interrupt::signal(pid, libc::SIGTERM);
        if !comes_true(|| child.try_wait().expect("a child").is_some()) {
            child.kill().expect("a child to kill");
            panic!("{way:?}: it goes on");
        }
        let code = child.wait().expect("a child").code();
        assert_eq!(code, Some(128 + libc::SIGTERM), "{line}");
    }
}

/// Check that `-` is stdout, but for a trace, which is refused.
#[test]
fn dash_is_stdout() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| {
        let mut command = Command::new(QUELL);
        command
            .args(args)
            .current_dir(&dir)
            .output()
            .expect("quell starts")
    };
    let out = run(&["stat", "--backend", "proc", "-o", "-", "--", "true"]);
    assert!(out.status.success() && !out.stdout.is_empty());
    let args = ["record", "-o", "-", "--", "true"];
    let said = one_line(&args, &run(&args));
    assert!(said.contains("stdout"), "{said}");
    assert_eq!(fs::read_dir(&dir).expect("a folder").count(), 0);
}

/// Check that a command that does not exist is bad usage, and that a command's own status and signal are passed on.
#[test]
fn commands() {
    if !root_only("commands") {
        return;
    }
    let _beside = beside_others();
    let said = refused(&["stat", "--", "/nonexistent/program"]);
    assert!(said.contains("/nonexistent/program"), "{said}");
    let out = quell(&["stat", "--", "sh", "-c", "exit 7"]);
    assert_eq!(out.status.code(), Some(7));
    let out = quell(&["stat", "--", "sh", "-c", "kill -SEGV $$"]);
    assert_eq!(out.status.code(), Some(128 + libc::SIGSEGV));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("SIGSEGV"), "{said}");
}

/// Check that a command that leaves a child behind is reported with the child's name.
#[test]
fn leftovers() {
    if !root_only("leftovers") {
        return;
    }
    let _beside = beside_others();
    let out = quell(&[
        "stat",
        "--",
        "sh",
        "-c",
        // it is called sh until it has become sleep
        "sleep 3600 >/dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do :; done; echo $! >&2; exit 0",
    ]);
    assert_eq!(out.status.code(), Some(0));
    let said = String::from_utf8_lossy(&out.stderr);
    let left = said.lines().find_map(|line| line.parse().ok());
    // SAFETY: a signal to what this test started, which runs for an hour.
    unsafe { libc::kill(left.expect("its number"), libc::SIGTERM) };
    assert!(said.contains("left running: sleep"), "{said}");
}

/// Check that nobody to read what is said changes no exit status.
#[test]
fn full_stderr() {
    let full = || {
        fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full")
    };
    for (args, status) in [
        (&["run", "--", "true"][..], 0),
        (&["run", "--", "no-such-program"], 2),
        (&["stat", "-p", "4194305"], 2),
        (&["doctor", "--undo", "/no/such/file"], 2),
    ] {
        let done = Command::new(QUELL).args(args).stderr(full()).status();
        assert_eq!(done.expect("quell runs").code(), Some(status), "{args:?}");
    }
}
