//! Names that are meant for the terminal of who reads them, through every verb.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Output};

use quell_event::text::is_plain;
use quell_event::trace::{
    MappedModule, StackFrame, StackKind, TraceMeta, TraceWriter, TracedProcess, TracedStack,
};
use quell_event::{
    Cause, Comm, CulpritTally, Shootdown, ShootdownCounts, ShootdownVictim, Tally, VictimTally,
};

use crate::agents::Agent;
use crate::common::{LAB_LOCK, QUELL, alone, beside_others, example, root_only};

/// What begins a line only where a name has begun one.
const LINE: &str = "quell: all is well";

/// A terminal's title, a bell, a line of its own, colours with eight bits and with seven, and characters that turn the
/// direction of writing, end a line and have no width.
fn name() -> String {
    format!("\u{1b}]0;x\u{7}\n{LINE}\n\u{9b}31m\u{1b}[32m\u{202e}\u{2028}\u{200b}\u{feff}\u{7f}é")
}

/// More of it than anybody reads.
fn long() -> String {
    name() + &"x".repeat(1 << 20)
}

/// Text that may go to a terminal: it obeys nothing, its lines are quell's own, and none is longer than people read.
fn is_safe(what: &str, text: &str) {
    is_quiet(what, text);
    for line in text.lines() {
        assert!(
            line.len() < 20_000,
            "{what}: {} bytes: {line:.200}",
            line.len()
        );
    }
}

/// The same but for the lengths of lines: for JSON, a page, and tables for other tools.
fn is_quiet(what: &str, text: &str) {
    for line in text.lines() {
        let bad = line.find(|c| !is_plain(c) && c != '\t');
        let near = |at: usize| line[at..].chars().take(40).collect::<String>();
        assert!(bad.is_none(), "{what}: {:?}", bad.map(near));
        assert!(!line.starts_with(LINE), "{what}: a line of a name's");
    }
}

fn run(what: &str, command: &mut Command) -> Output {
    let out = command.env(LAB_LOCK.0, LAB_LOCK.1).output();
    out.unwrap_or_else(|err| panic!("{what}: {err}"))
}

/// Runs quell, and looks at all that it says. Returns what it printed.
fn told(args: &[&str]) -> String {
    let what = args.join(" ");
    let out = run(&what, Command::new(QUELL).args(args));
    is_safe(&what, &String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("UTF-8")
}

/// A trace that somebody else wrote.
fn trace(path: &Path) {
    let mut writer = TraceWriter::create(path, &TraceMeta::default(), false).expect("a trace");
    let comm = Comm(*b"\x1b[31m\n\xe2\x80\xae\xc2\x9b12345");
    for n in 0..300 {
        let start = if n % 2 == 0 { 0x1000 } else { 0x9000_0000 };
        writer.push_shootdown(&Shootdown {
            t_ns: 1 + n * 10_000,
            wait_ns: 2_000,
            pid: 7,
            tid: 7 + n as u32 % 2,
            comm,
            cause: Cause::MadviseDontneed,
            syscall: 28,
            start,
            end: start + 4096,
            own_mm: true,
            user_stack: 1,
            victims: vec![ShootdownVictim {
                cpu: 1,
                pid: 8,
                tid: 8,
                comm,
                bystander: false,
                delay_ns: 900,
                stall_ns: 500,
            }],
            ..Shootdown::default()
        });
    }
    for (pid, name) in [(7, long()), (8, name())] {
        let module = |path: String, start| MappedModule {
            path,
            start,
            end: start + 0x10_0000,
            perms: "r-xp".to_owned(),
            build_id: Some("ab".to_owned()),
            ..MappedModule::default()
        };
        writer.push_process(&TracedProcess {
            pid,
            comm: name.clone(),
            exe: format!("/{name}"),
            cmdline: vec![name.clone(), long()],
            modules: vec![
                module(format!("/{name}"), 0),
                module(format!("/lib/{name}/libjemalloc.so.2"), 0x50_0000),
            ],
            ..TracedProcess::default()
        });
    }
    let frame = |symbol: Option<String>, module: &str| StackFrame {
        addr: 0x50_0010,
        symbol,
        module: Some(module.to_owned()),
        offset: Some(16),
        ..StackFrame::default()
    };
    writer.push_stack(&TracedStack {
        id: 1,
        kind: StackKind::User,
        pid: Some(7),
        frames: vec![
            frame(Some(name()), &format!("/lib/{}/libjemalloc.so.2", name())),
            frame(None, &format!("/lib/{}", name())),
            frame(Some(long()), &long()),
        ],
        ..TracedStack::default()
    });
    let counts = ShootdownCounts {
        shootdowns: 300,
        victims: 300,
        wait_ns: 1_000,
        ..ShootdownCounts::default()
    };
    writer.set_tally(&Tally {
        duration_ns: 3_000_000,
        culprits: vec![CulpritTally {
            pid: 7,
            comm: long(),
            cgroup: 1,
            cause: Cause::Other,
            detail: Some(name()),
            counts,
        }],
        victims: vec![VictimTally {
            pid: 8,
            comm: name(),
            cgroup: 0,
            bystander: true,
            hits: 300,
            stall_ns: 9,
        }],
        ..Tally::default()
    });
    writer.finish(4_000_000, |_| ()).expect("a closed trace");
    let file = path.join("meta.json");
    let text = fs::read_to_string(&file).expect("its description");
    let mut meta: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for key in ["quell", "kernel", "host", "scope", "stacks", "backend"] {
        meta[key] = name().into();
    }
    meta["command"] = vec![name(), long()].into();
    fs::write(&file, meta.to_string()).expect("written");
}

/// Check that nothing in a trace of somebody else's reaches the terminal as it is, by any verb and in any form.
#[test]
fn traces() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (a, b, page) = (path("a"), path("b"), path("page"));
    trace(Path::new(&a));
    trace(Path::new(&b));
    let meta = fs::read_to_string(path("b/meta.json")).expect("its description");
    let other = meta
        .replace("]0;x", "]0;y")
        .replace("\"start_wall_ns\":0", "\"start_wall_ns\":1");
    fs::write(path("b/meta.json"), other).expect("written");
    for args in [
        &["report", &a][..],
        &["report", &a, &b],
        &["plan", &a],
        &["plan", &a, "--emit", "shell"],
        &["plan", &a, "--emit", "systemd"],
        &["plan", &a, "--emit", "docker"],
        &["plan", &a, "--emit", "k8s"],
        &["doctor", &a],
        &["doctor", &a, "--all"],
        &[
            "agent",
            "traces",
            "--dir",
            dir.path().to_str().expect("a path"),
        ],
        &["report", &a, "--export", "hgrm"],
    ] {
        let said = told(args);
        is_safe(&args.join(" "), &said);
    }
    for args in [
        &["report", &a, "--json"][..],
        &["report", &a, &b, "--json"],
        &["plan", &a, "--json"],
        &["doctor", &a, "--json"],
        &["doctor", &a, "--sarif"],
        &["report", &a, "--export", "csv"],
        &["report", &a, "--export", "folded"],
        &["report", &a, "--export", "speedscope"],
        &["report", &a, "--export", "hlog"],
    ] {
        let said = told(args);
        assert!(!said.is_empty(), "{args:?}");
        is_quiet(&args.join(" "), &said);
    }
    told(&["report", &a, "--html", &page]);
    let html = fs::read_to_string(&page).expect("a page");
    is_quiet("--html", &html);
    let title = html
        .split_once("<title>")
        .and_then(|(_, rest)| rest.split_once("</title>"));
    assert!(title.expect("a title").0.len() < 2_000);
    let report = told(&["report", &a]);
    assert!(
        report.contains("?]0;x?"),
        "it is shown, cleaned: {report:.2000}"
    );
}

/// Check that folders of traces with such names, and traces that are damaged, are told safely.
#[test]
fn folders() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let bad = dir.path().join(name().replace('/', ""));
    fs::create_dir(&bad).expect("a folder");
    let all = dir.path().to_str().expect("a path");
    let one = bad.to_str().expect("a path");
    for text in [
        format!("{{\"schema\":\"quell/trace/{}\"}}", "\\u001b[2J\\u202e"),
        format!(
            "{{\"schema\":\"quell/trace/1\",\"quell\":{}}}",
            name().escape_debug()
        ),
        name(),
    ] {
        fs::write(bad.join("meta.json"), &text).expect("written");
        for args in [
            &["report", one][..],
            &["plan", one],
            &["doctor", one],
            &["report", one, "--export", "csv"],
            &["fleet", all],
            &["fleet", one],
            &["agent", "traces", "--dir", all],
            &["lab", "report", one],
            &["run", "--plan", one, "--", "true"],
        ] {
            is_safe(&args.join(" "), &told(args));
        }
    }
}

/// Check that plans and undo files of somebody else's are told safely, and that a value for a shell comes out of it as it
/// went in.
#[test]
fn plans() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let plan = dir.path().join("plan.toml");
    let file = plan.to_str().expect("a path");
    let quoted = serde_json::to_string(&name())
        .expect("JSON")
        .replace('\u{7f}', "\\u007F");
    let text = |schema: &str, starts: &str| {
        format!(
            "schema = {schema}\nnotes = [{quoted}]\n[[remedies]]\nremedy = {quoted}\nevidence = {quoted}\n\
             cost = {quoted}\n[remedies.sets]\nQUELL_T = {quoted}\n{starts}"
        )
    };
    fs::write(&plan, text("\"quell/plan/1\"", "")).expect("written");
    let exports = told(&["run", "--plan", file, "--dry-run", "--", "true"]);
    // an end of line in quotes is the shell's
    is_quiet("--dry-run", &exports.replace(LINE, ""));
    let script = format!("{exports}printf %s \"$QUELL_T\"");
    let out = run("sh", Command::new("sh").args(["-c", &script]));
    assert_eq!(String::from_utf8_lossy(&out.stdout), name());
    for broken in [
        text(&quoted, ""),
        text(
            "\"quell/plan/1\"",
            &format!("[remedies.starts]\n{quoted} = {quoted}\n"),
        ),
        text(
            "\"quell/plan/1\"",
            &format!("{quoted} = 1\n[remedies.starts]\nthp = {quoted}\n"),
        ),
        format!("{quoted} = 1\n"),
        name(),
    ] {
        fs::write(&plan, broken).expect("written");
        is_safe("run", &told(&["run", "--plan", file, "--", "true"]));
    }
    let undo = dir.path().join("undo.json");
    let file = undo.to_str().expect("a path");
    for (schema, path) in [
        ("quell/undo/1", format!("/sys/{}", name())),
        ("quell/undo/1", name()),
        (&*name(), "/proc/sys/vm/no_such".to_owned()),
    ] {
        let change =
            serde_json::json!({"rule": name(), "path": path, "before": name(), "after": long()});
        let text = serde_json::json!({"schema": schema, "changes": [change]});
        fs::write(&undo, text.to_string()).expect("written");
        is_safe("doctor --undo", &told(&["doctor", "--undo", file]));
    }
}

/// Check that a running program's file, name and arguments are told safely by all that watch, with a title that is cut.
#[test]
fn programs() {
    if !root_only("programs") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    let bin = dir.path().join(name().replace('/', ""));
    fs::copy(example("culprit"), &bin).expect("a program");
    let program = bin.to_str().expect("a path");
    let path = |name: &str| dir.path().join(name).display().to_string();
    // no argument may be longer than 128 KiB
    let argument = name() + &"x".repeat(100 << 10);
    let command = [&["--", program, "500"][..], &[&*argument; 12]].concat();
    let with = |args: &[&str]| told(&[args, &command].concat());
    // it prints what it did before
    for args in [
        &["stat"][..],
        &["stat", "--json"],
        &["stat", "--backend", "proc"],
        &["top", "--batch", "9", "--interval", "0.2"],
        &["top", "--batch", "9", "--interval", "0.2", "--json"],
        &["record", "-o", &path("trace")],
        &["plan"],
        &["plan", "--json"],
        &["prove", "--pairs", "1"],
        &["run"],
    ] {
        is_quiet(&args.join(" "), &with(args));
    }
    let report = told(&["report", &path("trace")]);
    is_safe("report", &report);
    assert!(
        report
            .lines()
            .next()
            .is_some_and(|title| title.len() < 1_000),
        "{report:.2000}"
    );
    let mut child = Command::new("sh")
        .args(["-c", "printf '\\033]0;x\\007\\n\\342\\200\\256' > /proc/self/comm; exec 2> /dev/null; while :; do sleep 1; done", &argument])
        .spawn()
        .expect("sh starts");
    let pid = child.id().to_string();
    let own = Path::new("/proc").join(&pid).join("comm");
    while fs::read(&own).is_ok_and(|comm| !comm.starts_with(b"\x1b") && comm.starts_with(b"sh")) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    for args in [
        &["doctor", "-p", &pid][..],
        &["doctor", "-p", &pid, "--json"],
        &["stat", "-p", &pid, "--duration", "0.5"],
        &["plan", "-p", &pid, "--duration", "0.5"],
    ] {
        is_quiet(&args.join(" "), &told(args));
    }
    child.kill().expect("killed");
    child.wait().expect("a child");
    let agent = Agent::start(Command::new(QUELL).args(["--color", "never"]));
    run(
        "culprit",
        Command::new(std::ffi::OsStr::from_bytes(program.as_bytes())).arg("500"),
    );
    let metrics = agent.metrics(|text| text.contains("quell_shootdowns_total"));
    is_safe("metrics", &metrics);
    let log = agent.stop();
    is_safe("the agent's log", &log);
}
