//! `quell run` and `quell plan`: what is set, what is said, and what is passed on.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use crate::common::{QUELL, beside_others, json, quell, root_only, worst};

const PLAN: &str = r#"schema = "quell/plan/1"
[[remedies]]
remedy = "jemalloc.decay"
[remedies.sets]
_RJEM_MALLOC_CONF = "dirty_decay_ms:-1,muzzy_decay_ms:-1"
QUELL_TEST = "it's"
"#;

fn plan_file(dir: &tempfile::TempDir) -> String {
    let path = dir.path().join("plan.toml");
    std::fs::write(&path, PLAN).expect("a file");
    path.display().to_string()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(args: &[&str], theirs: Option<&str>) -> Output {
    let mut command = Command::new(QUELL);
    command
        .arg("run")
        .args(args)
        .env_remove("_RJEM_MALLOC_CONF");
    if let Some(value) = theirs {
        command.env("_RJEM_MALLOC_CONF", value);
    }
    command.output().expect("quell starts")
}

/// Check that a 32-bit program is run, with a word that there is nothing to set for it; and with a plan's library, with one
/// that it is not loaded.
#[test]
fn programs_of_32_bits() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let (source, program) = (dir.path().join("narrow.c"), dir.path().join("narrow"));
    // exit(3), by the only way that needs no library for 32 bits
    let code = "void _start(void) { __asm__ volatile(\"int $0x80\" : : \"a\"(1), \"b\"(3)); }\n";
    std::fs::write(&source, code).expect("a file");
    let built = Command::new("gcc")
        .args(["-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-o"])
        .args([&program, &source])
        .output();
    let name = program.display().to_string();
    if !built.is_ok_and(|out| out.status.success()) || Command::new(&program).status().is_err() {
        eprintln!("SKIPPED programs_of_32_bits: none can be built or run here");
        return;
    }
    let out = run(&["--", &name], None);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(
        said.contains("nothing to set") && said.contains("is a 32-bit program"),
        "{said}"
    );
    let plan = dir.path().join("plan.toml");
    let sets =
        "[[remedies]]\nremedy = \"shim.cache\"\n[remedies.sets]\nLD_PRELOAD = \"libquell.so\"\n";
    std::fs::write(&plan, format!("schema = \"quell/plan/1\"\n{sets}")).expect("a file");
    let out = run(&["--plan", &plan.display().to_string(), "--", &name], None);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(
        said.contains("is not loaded into") && said.contains("32-bit program"),
        "{said}"
    );
}

/// Check that the command gets the plan's environment with the user's own settings kept, and that
/// a dry run prints the same as lines for a shell, and nothing else.
#[test]
fn sets_the_environment() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let plan = plan_file(&dir);
    let print = [
        "--plan",
        &plan,
        "--",
        "sh",
        "-c",
        "echo $_RJEM_MALLOC_CONF $QUELL_TEST",
    ];
    let out = run(&print, None);
    assert_eq!(
        text(&out.stdout),
        "dirty_decay_ms:-1,muzzy_decay_ms:-1 it's\n"
    );
    assert!(out.stderr.is_empty(), "{}", text(&out.stderr));
    let out = run(&print, Some("narenas:4,dirty_decay_ms:7"));
    assert_eq!(
        text(&out.stdout),
        "narenas:4,dirty_decay_ms:-1,muzzy_decay_ms:-1 it's\n"
    );
    assert!(
        text(&out.stderr)
            .contains("_RJEM_MALLOC_CONF is set already, to 'narenas:4,dirty_decay_ms:7'")
    );
    let out = run(&["--dry-run", "--plan", &plan, "--", "true"], None);
    insta::assert_snapshot!(text(&out.stdout), @r"
    export QUELL_TEST='it'\''s'
    export _RJEM_MALLOC_CONF='dirty_decay_ms:-1,muzzy_decay_ms:-1'
    ");
}

/// Check that status, signal, input and arguments pass through as if quell were not there.
#[test]
fn passes_through() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let plan = plan_file(&dir);
    let out = run(&["--plan", &plan, "--", "sh", "-c", "exit 7"], None);
    assert_eq!(out.status.code(), Some(7));
    let out = run(&["--plan", &plan, "--", "sh", "-c", "kill -TERM $$"], None);
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&out.status),
        Some(libc::SIGTERM)
    );
    let mut child = Command::new(QUELL)
        .args(["run", "--plan", &plan, "--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("quell starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"through").expect("written");
    drop(input);
    assert_eq!(
        child.wait_with_output().expect("it ends").stdout,
        b"through"
    );
}

/// Check that without a plan nothing is set, what could be is said, the command runs, and there is no plan to save.
#[test]
fn sets_nothing_without_a_plan() {
    let _beside = beside_others();
    let out = run(
        &["--", "sh", "-c", "echo ${GLIBC_TUNABLES-unset}; exit 3"],
        None,
    );
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert_eq!(text(&out.stdout), "unset\n", "{said}");
    assert!(
        said.contains("nothing is set without a plan: glibc.keep") && said.contains("quell prove"),
        "{said}"
    );
    let dry = run(&["--dry-run", "--", "true"], None);
    assert_eq!(
        (dry.status.code(), text(&dry.stdout)),
        (Some(0), String::new())
    );
    let dir = tempfile::tempdir().expect("a folder");
    let saved = dir.path().join("saved.toml");
    let out = run(
        &["--save", &saved.display().to_string(), "--", "true"],
        None,
    );
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("there is no plan to write"));
    assert!(!saved.exists());
}

/// Check that what nobody has tried is set where that is asked for: the C library is recognised, what is set is said, and
/// it can be saved and read back.
#[test]
fn sets_the_untried() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let saved = dir.path().join("saved.toml").display().to_string();
    let out = run(
        &["--untried", "--dry-run", "--save", &saved, "--", "true"],
        None,
    );
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(
        text(&out.stderr).lines().count() <= 3,
        "{}",
        text(&out.stderr)
    );
    if text(&out.stderr).contains("glibc malloc") {
        assert!(
            text(&out.stdout).starts_with("export GLIBC_TUNABLES='glibc.malloc."),
            "{}",
            text(&out.stdout)
        );
    }
    let again = run(&["--dry-run", "--plan", &saved, "--", "true"], None);
    assert_eq!(again.stdout, out.stdout);
}

/// Check that a command that can't be started is bad usage, with and without a plan.
#[test]
fn cannot_start() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let plan = plan_file(&dir);
    for args in [
        vec!["--", "no-such-command-of-quell"],
        vec!["--plan", &plan, "--", "no-such-command-of-quell"],
    ] {
        let out = run(&args, None);
        assert_eq!(out.status.code(), Some(2));
        assert!(
            text(&out.stderr).contains("no such command: no-such-command-of-quell"),
            "{}",
            text(&out.stderr)
        );
    }
}

/// Check that a plan for a command keeps its output apart, passes its status on, reaches the program's own
/// calls by the preload library, within the budget, and is written in the form that is asked for.
#[test]
fn plan_of_a_command() {
    if !root_only("plan_of_a_command") {
        return;
    }
    let _beside = beside_others();
    let out = quell(&["plan", "--json", "--", "sh", "-c", "echo data; exit 4"]);
    assert_eq!(out.status.code(), Some(4));
    assert!(text(&out.stderr).contains("data") && !text(&out.stdout).contains("data"));
    let plan = json(&out.stdout);
    assert_eq!(plan["schema"], "quell/plan/1");
    // A shell's, and not what quell had in memory when it started it.
    let most = plan["max_rss"].as_u64().expect("bytes");
    assert!((1 << 16..20 << 20).contains(&most), "{most}");

    let dir = tempfile::tempdir().expect("a folder");
    let worst = worst(dir.path()).display().to_string();
    let out = quell(&["plan", "--json", "--", &worst, "50000"]);
    let plan = json(&out.stdout);
    assert_eq!(out.status.code(), Some(0));
    let remedy = &plan["remedies"][0];
    assert_eq!(remedy["remedy"], "shim.zero", "{plan:#}");
    assert_eq!(remedy["sets"]["LD_PRELOAD"], "libquell.so");
    assert!(plan["predicted_stop"].as_f64() > Some(0.9) && plan["max_rss"].is_u64());

    let none = quell(&["plan", "--budget", "0%", "--json", "--", &worst, "50000"]);
    let none = json(&none.stdout);
    assert_eq!(none["remedies"], serde_json::json!([]));
    let notes = none["notes"].to_string();
    assert!(
        notes.contains("worst's own calls") && notes.contains("budget"),
        "{notes}"
    );

    let unit = quell(&["plan", "--emit", "systemd", "--", &worst, "50000"]);
    let unit = text(&unit.stdout);
    assert!(
        unit.contains("[Service]\nEnvironment=\"LD_PRELOAD=/usr/lib/quell/libquell.so\"\n"),
        "{unit}"
    );
}

/// Check that plan refuses what is not there, and says what it takes.
#[test]
fn plan_usage() {
    let _beside = beside_others();
    for (args, why) in [
        (vec!["-p", "4194305"], "no such process: 4194305"),
        (vec!["-p", "1", "-d", "0"], "--duration 0"),
        (vec!["-p", "2"], "the kernel's own thread kthreadd"),
        (vec!["-p", "1", "--budget", "x"], "such as 25%"),
        (
            vec!["-p", "1", "--emit", "x"],
            "shell, systemd, docker or k8s",
        ),
        (vec!["/nonexistent/trace"], "/nonexistent/trace"),
        (vec!["--", "no-such-command-of-quell"], "no such command"),
    ] {
        let out = quell(&[vec!["plan"], args].concat());
        assert_eq!(out.status.code(), Some(2), "{}", text(&out.stderr));
        assert!(text(&out.stderr).contains(why), "{}", text(&out.stderr));
    }
    let out = Command::new(QUELL)
        .arg("plan")
        .current_dir("/")
        .output()
        .expect("quell starts");
    assert!(
        text(&out.stderr).contains("to plan for"),
        "{}",
        text(&out.stderr)
    );
}
