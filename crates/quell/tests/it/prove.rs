//! `quell prove`: honest where there is nothing to gain, clear where a run fails, clean afterwards.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::{QUELL, beside_others, comes_true, json, quell, root_only};
use crate::interrupt::{running, signal};

/// A plan that sets nothing: A against A.
fn empty_plan(dir: &Path) -> String {
    let path = dir.join("empty.toml");
    std::fs::write(&path, "schema = \"quell/plan/1\"\n").expect("a file");
    path.display().to_string()
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// What it printed and what it said: why it came to another end.
fn whole(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), said(out))
}

/// The JSON of a proof that claims nothing.
fn nothing_claimed(args: &[&str]) -> Value {
    let out = quell(args);
    assert_eq!(out.status.code(), Some(1), "{args:?}: {}", whole(&out));
    let proof = json(&out.stdout);
    assert_eq!(proof["schema"], "quell/prove/1");
    assert_eq!(proof["verdict"], "no evidence", "{proof:#}");
    for name in [
        "shootdowns",
        "victims",
        "wait_ns",
        "page_faults",
        "system_ns",
        "wall_ns",
        "max_rss",
    ] {
        assert_eq!(proof["metrics"][name]["verdict"], "no evidence", "{name}");
    }
    proof
}

/// Check that programs with nothing to gain get no pairs, no claim, and the reason.
#[test]
fn nothing_to_gain() {
    if !root_only("nothing_to_gain") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let big = dir.path().join("big");
    std::fs::write(&big, vec![7; 64 << 20]).expect("a file");
    let big = big.display().to_string();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/overhead/worst.c");
    let object = dir.path().join("worst.o").display().to_string();
    // Its own calls, which no setting reaches, and nothing can be loaded before it.
    let worst = dir.path().join("worst").display().to_string();
    let built = Command::new("cc")
        .args(["-O2", "-static", "-pthread", "-o", &worst])
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../bench/overhead/worst.c"
        ))
        .status();
    assert!(built.expect("cc starts").success(), "cc builds worst.c");
    for (command, why) in [
        (
            vec!["sha256sum", &big],
            [
                "nothing to win",
                "nothing to try",
                "nothing to stop",
                "win time here",
            ],
        ),
        (
            vec!["cc", "-O2", "-c", source, "-o", &object],
            [
                "nothing to win",
                "nothing to try",
                "nothing to stop",
                "win time here",
            ],
        ),
        (
            vec![&worst, "30000"],
            [
                "no setting that quell knows",
                "nothing to win",
                "nothing to try",
                "win time here",
            ],
        ),
    ] {
        let args = [vec!["prove", "--json", "--"], command].concat();
        let proof = nothing_claimed(&args);
        if proof["pairs"] != 0 {
            // something won a race by luck, and the proof found that out
            let tried = proof["tried"].as_array().expect("what was tried");
            assert!(tried.iter().any(|t| t["kept"] == true), "{proof:#}");
            continue;
        }
        let reason = proof["reason"].as_str().expect("a reason");
        assert!(why.iter().any(|w| reason.contains(w)), "{args:?}: {reason}");
    }
}

/// Check that one pair claims nothing, that a metric comes from the output's last match, and that an
/// empty plan is run against itself.
#[test]
fn empty_plan_runs() {
    if !root_only("empty_plan_runs") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let plan = empty_plan(dir.path());
    let script = "echo took 9 s; echo took 1.5 s";
    let proof = nothing_claimed(&[
        "prove",
        "--json",
        "-n",
        "1",
        "--plan",
        &plan,
        "--metric",
        "took=took ([0-9.]+)",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(
        (&proof["pairs"], &proof["plan"]),
        (&1.into(), &serde_json::json!([]))
    );
    assert_eq!(proof["metrics"]["took"]["before"], serde_json::json!([1.5]));
    let memory = proof["metrics"]["max_rss"]["after"][0]
        .as_u64()
        .expect("memory");
    // What quell itself is made of must not show in the memory of a small program.
    assert!((500_000..8_000_000).contains(&memory), "{memory}");
}

/// Check that a run that fails, dies or says nothing to a metric is reported with its output's end.
#[test]
fn failing_runs() {
    if !root_only("failing_runs") {
        return;
    }
    let _beside = beside_others();
    for (script, line, tail) in [
        (
            "echo the end >&2; exit 3",
            "ended with status 3 in the observed run",
            "  | the end",
        ),
        (
            "echo the end; kill -SEGV $$",
            "was ended by SIGSEGV in the observed run",
            "  | the end",
        ),
        (
            "echo fast",
            "--metric s: 'took (.*)' matches nothing",
            "  | fast",
        ),
    ] {
        let out = quell(&["prove", "--metric", "s=took (.*)", "--", "sh", "-c", script]);
        let said = said(&out);
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains(line) && said.contains(tail), "{said}");
    }
    let out = quell(&["prove", "--timeout", "0.3", "--", "sleep", "60"]);
    assert!(
        said(&out).contains("took longer than 0.3 s"),
        "{}",
        said(&out)
    );
}

/// Check that bad usage is status 2, before anything is run.
#[test]
fn bad_usage() {
    for (args, why) in [
        (vec!["--", "no-such-command-of-quell"], "no such command"),
        (vec!["-n", "0", "--", "true"], "--pairs 0"),
        (vec!["--metric", "x", "--", "true"], "NAME=REGEX"),
        (vec!["--timeout", "0", "--", "true"], "--timeout 0"),
        (
            vec!["--runs", "20", "--", "true"],
            "--runs 20: to try one change and prove it in 5 pairs takes 21",
        ),
        (vec!["--runs", "90", "--no-try", "--", "true"], "--no-try"),
        (vec!["--budget-time", "0", "--", "true"], "--budget-time 0"),
        (
            vec!["--plan", "/nonexistent/plan", "--", "true"],
            "/nonexistent/plan",
        ),
        (vec!["--load", "true", "--", "true"], "--ready"),
    ] {
        let out = quell(&[vec!["prove"], args].concat());
        assert_eq!(out.status.code(), Some(2), "{}", said(&out));
        assert!(said(&out).contains(why), "{}", said(&out));
    }
}

/// Check that what a command leaves running is named and stopped.
#[test]
fn leftovers_are_stopped() {
    if !root_only("leftovers_are_stopped") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let pid = dir.path().join("pid");
    let script = format!(
        "sleep 3600 & until grep -q sleep /proc/$!/comm; do :; done; echo $! > {}",
        pid.display()
    );
    let out = quell(&["prove", "--", "sh", "-c", &script]);
    assert!(
        said(&out).contains("left running: sleep ("),
        "{}",
        said(&out)
    );
    let pid = std::fs::read_to_string(pid).expect("a pid");
    assert!(!Path::new("/proc").join(pid.trim()).exists());
}

/// Check that processes which fork the next and end at once are all stopped: 3,000 of them, and without an end.
#[test]
fn chains_of_orphans_are_stopped() {
    if !root_only("chains_of_orphans_are_stopped") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let program = dir.path().join("chain");
    let built = Command::new("cc")
        .args(["-O2", "-o"])
        .arg(&program)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/chain.c"))
        .status();
    assert!(built.expect("cc starts").success(), "cc builds chain.c");
    for count in ["3000", "1000000000"] {
        // It all ends when this is gone, also where the test fails.
        let file = tempfile::NamedTempFile::new_in(dir.path()).expect("a file");
        let out = Command::new(QUELL)
            .args(["prove", "--"])
            .arg(&program)
            .args([count.as_ref(), file.path().as_os_str()])
            .output()
            .expect("quell starts");
        let said = said(&out);
        // A look may miss one that forks just then, but not all of them.
        let left: usize = (0..50).map(|_| running(&program).len()).sum();
        assert_eq!(left, 0, "of {count}: {said}");
        assert!(said.contains("left running: chain ("), "{said}");
        drop(file);
    }
}

/// Check that Ctrl-C in the first run, and in a pair, ends prove in time with the signal's status and
/// without the command.
#[test]
fn interrupts() {
    if !root_only("interrupts") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let (pid, plan) = (dir.path().join("pid"), empty_plan(dir.path()));
    for given in [vec![], vec!["--plan", &plan]] {
        let script = format!("echo $$ > {}; exec sleep 3600", pid.display());
        let mut child = Command::new(QUELL)
            .arg("prove")
            .args(given)
            .args(["--", "sh", "-c", &script])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("quell starts");
        let started = || std::fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n'));
        comes_true(started);
        // SAFETY: a signal to a process that this test started and has not waited for.
        unsafe { libc::kill(child.id().cast_signed(), libc::SIGINT) };
        let status = child.wait().expect("quell ends");
        assert_eq!(status.code(), Some(128 + libc::SIGINT));
        let text = std::fs::read_to_string(&pid).expect("a pid");
        assert!(!Path::new("/proc").join(text.trim()).exists());
        std::fs::remove_file(&pid).expect("the file goes");
    }
}

/// Check that the folder of a prove that was killed is swept by the next one, and nothing else: none that is in use, none
/// with what quell did not make, none that is another's, and no link.
#[test]
fn folders_of_killed_proofs_are_swept() {
    if !root_only("folders_of_killed_proofs_are_swept") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let temp = dir.path().join("temp");
    std::fs::create_dir(&temp).expect("a folder");
    let start = || {
        let child = Command::new(QUELL)
            .args(["prove", "--", "sleep", "300"])
            .env("TMPDIR", &temp)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("quell starts");
        let own = format!("quell-{}-", child.id());
        let folder = || {
            let mut all = names(&temp).into_iter();
            all.find(|n| {
                n.starts_with(&own) && temp.join(n).join("observed.quell/meta.json").exists()
            })
        };
        assert!(comes_true(|| folder().is_some()), "no folder");
        let name = folder().expect("it stays");
        (child, name)
    };
    let (mut killed, swept) = start();
    signal(killed.id(), libc::SIGKILL);
    killed.wait().expect("it ends");
    let (mut living, used) = start();
    let make = |name: &str, inside: &str| {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = temp.join(name);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .expect("a folder");
        std::fs::write(path.join(inside), "").expect("a file");
        path
    };
    make("quell-12-0-1f", "mine");
    make("quell-12-0-1F", "observed.quell");
    make("quell-12-0-1f.old", "observed.quell");
    let others = make("quell-13-0-1f", "observed.quell");
    std::os::unix::fs::chown(&others, Some(12345), None).expect("another's");
    let elsewhere = dir.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder");
    std::fs::write(elsewhere.join("observed.quell"), "").expect("a file");
    std::os::unix::fs::symlink(&elsewhere, temp.join("quell-14-0-1f")).expect("a link");
    let mut kept = names(&temp);
    kept.retain(|n| *n != swept);
    assert!(kept.contains(&used));
    let out = Command::new(QUELL)
        .args(["prove", "--", "true"])
        .env("TMPDIR", &temp)
        .output()
        .expect("quell starts");
    let left = names(&temp);
    let is_whole = temp.join(&used).join("observed.quell/meta.json").exists();
    signal(living.id(), libc::SIGINT);
    living.wait().expect("it ends");
    assert_eq!(left, kept, "{}", whole(&out));
    assert!(elsewhere.join("observed.quell").exists() && is_whole);
}

/// What is in a folder, in order.
fn names(dir: &Path) -> Vec<String> {
    let all = std::fs::read_dir(dir).expect("a folder");
    let name = |e: std::io::Result<std::fs::DirEntry>| e.ok()?.file_name().into_string().ok();
    let mut all: Vec<_> = all.filter_map(name).collect();
    all.sort();
    all
}

/// Check that a server is measured under its load: the load's output and time, the server's memory;
/// and that its port is free afterwards.
#[test]
fn server_under_load() {
    if !root_only("server_under_load") {
        return;
    }
    let _beside = beside_others();
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED server_under_load: needs python3");
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let plan = empty_plan(dir.path());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let text = port.to_string();
    let server = format!(
        "import socket, time\n\
         time.sleep(0.3)\n\
         held = bytearray(b'x') * 50_000_000\n\
         s = socket.socket()\n\
         s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
         s.bind(('127.0.0.1', {port})); s.listen()\n\
         while True: s.accept()[0].close()"
    );
    let args = [
        "prove",
        "--json",
        "-n",
        "1",
        "--plan",
        &plan,
        "--ready",
        &text,
        "--load",
        "sleep 0.2; echo ops: 1,234",
        "--metric",
        "ops^=ops: (.*)",
        "--",
        "python3",
        "-c",
        &server,
    ];
    let out = quell(&args);
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(
        said(&out).contains("something accepts connections there before"),
        "{}",
        said(&out)
    );
    drop(listener);
    let proof = nothing_claimed(&args);
    let metric = |name: &str| {
        proof["metrics"][name]["after"][0]
            .as_f64()
            .expect("a value")
    };
    assert_eq!(metric("ops"), 1234.0);
    assert!(
        (0.2e9..300e9).contains(&metric("wall_ns")),
        "{}",
        metric("wall_ns")
    );
    assert!(metric("max_rss") > 50e6);
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
    let failing: Vec<&str> = args
        .iter()
        .map(|a| if a.starts_with("sleep") { "false" } else { a })
        .collect();
    let out = quell(&failing);
    assert!(
        said(&out).contains("the load 'false' ended with status 1"),
        "{}",
        said(&out)
    );
}

/// Allocates a block that glibc maps and unmaps each time, and touches all of it. A compiler that optimises leaves it out.
const CHURN: &str = "
#include <stdlib.h>
#include <string.h>
int main(void) {
    for (int i = 0; i < 20; i++) {
        char *block = malloc(64 << 20);
        if (!block)
            return 1;
        memset(block, i, 64 << 20);
        free(block);
    }
}
";

/// The program of [`CHURN`].
fn built_churn(dir: &Path) -> String {
    let source = dir.join("churn.c");
    std::fs::write(&source, CHURN).expect("a file");
    let churn = dir.join("churn").display().to_string();
    let built = Command::new("cc")
        .args(["-O0", "-o", &churn])
        .arg(&source)
        .status();
    assert!(built.expect("cc starts").success(), "cc builds it");
    churn
}

/// Check that of a program whose time goes to page faults of its allocator the setting that keeps memory is tried, wins, and is
/// proved to win time, in fresh pairs; and that each thing that was tried is told.
#[test]
fn what_wins_time_is_kept() {
    if !root_only("what_wins_time_is_kept") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let churn = built_churn(dir.path());
    let out = quell(&["prove", "--json", "--budget", "200%", "--", &churn]);
    let proof = json(&out.stdout);
    println!("{proof:#}");
    let tried = proof["tried"].as_array().expect("what was tried");
    assert!(!tried.is_empty(), "{}", whole(&out));
    for one in tried {
        assert!(one["runs"].as_u64() > Some(0), "{one}");
        assert!(one["why"].as_str().is_some_and(|why| !why.is_empty()));
    }
    assert!(
        tried
            .iter()
            .any(|t| t["remedy"] == "glibc.keep" && t["kept"] == true),
        "{proof:#}"
    );
    assert_eq!(proof["plan"][0]["remedy"], "glibc.keep");
    let word = proof["verdict"].as_str().unwrap_or_default();
    assert_eq!(
        (out.status.code(), word),
        (Some(0), "better"),
        "{}",
        whole(&out)
    );
    let objective = &proof["objective"];
    assert_eq!(objective["verdict"], "better", "{objective}");
    assert!(objective["ci95"][1].as_f64() < Some(1.0), "{objective}");
}

/// Check that no more runs are made than were allowed, by what the program itself says of each of its runs, that the proof has all
/// its pairs, and that the changes for which no runs were left are named.
#[test]
fn no_more_runs_than_allowed() {
    const RUNS: usize = 21;
    if !root_only("no_more_runs_than_allowed") {
        return;
    }
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let churn = built_churn(dir.path());
    let log = dir.path().join("runs").display().to_string();
    let script = format!("echo run >>{log}; {churn}");
    let runs = RUNS.to_string();
    let args = ["prove", "--json", "--budget", "200%", "--runs", &runs];
    let out = quell(&[&args[..], &["--", "sh", "-c", &script]].concat());
    let proof = json(&out.stdout);
    println!("{proof:#}");
    let made = std::fs::read_to_string(&log)
        .expect("what ran")
        .lines()
        .count();
    assert!(made <= RUNS, "{made} runs");
    let tried = proof["tried"].as_array().expect("what was tried");
    assert_eq!(tried.len(), 1, "one is tried: {}", whole(&out));
    let notes = proof["notes"].to_string();
    assert!(
        notes.contains("no time or no runs are left to try"),
        "{notes}"
    );
    if tried[0]["kept"] == true {
        assert_eq!(proof["pairs"], 5, "{}", whole(&out));
    }
}

/// Check that the plan for a redis-server under large values, whose jemalloc is told to keep its memory by the variable that it
/// listens to, is proved as a whole where that is asked for; that the figure which is named decides; and that
/// the price is shown.
#[test]
fn redis() {
    if !root_only("redis") {
        return;
    }
    let _beside = beside_others();
    let there = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if !there("redis-server") || !there("redis-benchmark") {
        eprintln!("SKIPPED redis: needs redis-server and redis-tools (apt-get install redis)");
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path().display().to_string();
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = free.local_addr().expect("an address").port().to_string();
    drop(free);
    let load = format!("redis-benchmark -p {port} -t set -d 400000 -n 3500 -r 600 -c 20 -q");
    #[rustfmt::skip]
    let out = quell(&[
        "prove", "--json", "--no-try", "--metric", "rps^=([0-9.]+) requests per second", "--ready", &port,
        "--load", &load, "--", "redis-server", "--port", &port, "--dir", &dir, "--save", "",
        "--io-threads", "2", "--io-threads-do-reads", "yes",
    ]);
    let proof = json(&out.stdout);
    println!("{proof:#}");
    // Whether it gains here is this machine's own business: where the host gives memory only as it is touched, huge pages are
    // dear. The word and the status are those of the figure.
    let rps = proof["metrics"]["rps"]["verdict"]
        .as_str()
        .unwrap_or_default();
    let word = proof["verdict"].as_str().unwrap_or_default();
    let status = if rps == "better" { 0 } else { 1 };
    assert_eq!(
        (out.status.code(), word),
        (Some(status), rps),
        "{}",
        whole(&out)
    );
    assert_eq!(proof["objective"]["name"], "rps");
    assert_eq!(proof["plan"][0]["remedy"], "jemalloc.decay");
    let sets = proof["plan"][0]["sets"].as_object().expect("variables");
    let variables: Vec<_> = sets.keys().collect();
    // Debian's links the system's jemalloc; one with Redis's own listens to the other name only.
    assert!(
        variables == ["MALLOC_CONF"] || variables == ["JE_MALLOC_CONF"],
        "{variables:?}"
    );
    let faults = &proof["metrics"]["page_faults"];
    assert_eq!(faults["verdict"], "better");
    assert!(faults["ci95"][1].as_f64() < Some(0.5), "{faults}");
    // five, or more where they don't settle it
    let pairs = proof["pairs"].as_u64().expect("a number");
    let measured = proof["metrics"]["max_rss"]["after"].as_array();
    assert!(pairs >= 5 && measured.map(|after| after.len() as u64) == Some(pairs));
    assert_eq!(proof["metrics"]["rps"]["higher_is_better"], true);
}
