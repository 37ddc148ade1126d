//! The agent's account of the time: by mechanism and by cgroup, and what was before a trace.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::agent_stress::cgroup_for;
use crate::agents::{Agent, run_culprit, sum};
use crate::common::{PATIENCE, QUELL, alone, example, json, root_only};

/// The seconds of all series of a family that have this in their labels.
fn seconds(metrics: &str, family: &str, label: &str) -> f64 {
    let series = metrics.lines().filter_map(|line| line.strip_prefix(family));
    let series = series.filter(|rest| rest.starts_with('{') && rest.contains(label));
    series
        .filter_map(|rest| rest.rsplit_once(' ')?.1.parse::<f64>().ok())
        .sum()
}

/// Has a program spend so long by a mechanism, in that cgroup; what it used of the CPUs, seconds. `None` where this place
/// can't have the mechanism.
fn spend(cgroup: &Path, by: &str, ms: &str) -> Option<f64> {
    let procs = fs::OpenOptions::new()
        .write(true)
        .open(cgroup.join("cgroup.procs"))
        .expect("a cgroup");
    let mut command = Command::new(example("spends"));
    command.args([by, ms]).stderr(Stdio::null());
    // SAFETY: one system call, which is all that may be done between fork and exec.
    unsafe {
        command.pre_exec(move || {
            rustix::io::write(&procs, b"0")
                .map(drop)
                .map_err(Into::into)
        });
    }
    let out = command.output().expect("it starts");
    if out.status.code() == Some(77) {
        return None;
    }
    assert!(out.status.success(), "{out:?}");
    let used = String::from_utf8(out.stdout).expect("text");
    let used: f64 = used.trim().parse().expect("ns");
    Some(used / 1e9)
}

/// A child that ends with this, also where the test fails.
struct Ends(std::process::Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _gone_already = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Check that a program's CPU time and time asleep are told by its cgroup, that it is no more than the program had, and that
/// all cgroups together have what all mechanisms have.
#[test]
fn time_is_told_by_cgroup() {
    const CPU: &str = "quell_cgroup_memory_cpu_seconds_total";
    const BLOCKED: &str = "quell_cgroup_memory_blocked_seconds_total";
    let Some(cgroup) = cgroup_for("time_is_told_by_cgroup") else {
        return;
    };
    let _alone = alone();
    let agent = Agent::start(Command::new(QUELL).args(["--color", "never"]));
    let name = |below: &str| cgroup.name(below).trim_end_matches('/').to_owned() + "\"";
    let folder = |below: &str| {
        let folder = cgroup.0.join(below);
        fs::create_dir(&folder).expect("made");
        folder
    };
    agent.metrics(|text| text.ends_with("# EOF\n"));
    let used = spend(&folder("faults"), "fault.anon", "4000").expect("any place has that");
    // a cgroup's name is looked for every half minute
    let looks = |text: &str| sum(text, "quell_agent_looks_total", "");
    let after = looks(&agent.get("/metrics")) + 2;
    let said =
        agent.metrics(|text| looks(text) >= after && seconds(text, CPU, &name("faults")) > 0.0);
    let told = seconds(&said, CPU, &name("faults"));
    // 49 samples a second: of 4 s some 200, of which more than half are memory management
    assert!(
        told > 0.1 * used && told < 1.2 * used + 0.2,
        "{told} of {used}"
    );
    assert!(
        seconds(&said, "quell_memory_cpu_seconds_total", "fault.anon") > 0.0,
        "{said}"
    );

    if spend(&folder("waits"), "lock.mmap", "3000").is_some() {
        let said = agent.metrics(|text| seconds(text, BLOCKED, &name("waits")) > 0.0);
        let told = seconds(&said, BLOCKED, &name("waits"));
        let lock = seconds(&said, "quell_memory_blocked_seconds_total", "\"lock.mmap\"");
        assert!(lock > 0.5 * told, "{lock} of {told}");
    }
    let said = agent.get("/metrics");
    for (groups, mechanisms) in [
        (CPU, "quell_memory_cpu_seconds_total"),
        (BLOCKED, "quell_memory_blocked_seconds_total"),
    ] {
        let (groups, mechanisms) = (seconds(&said, groups, ""), seconds(&said, mechanisms, ""));
        assert!(
            (groups - mechanisms).abs() < 1e-6,
            "{groups} and {mechanisms}: {said}"
        );
    }
    agent.stop();
}

/// Check that sleeps are left alone where that is asked for, and the rest is told.
#[test]
fn sleeps_are_left_alone() {
    if !root_only("sleeps_are_left_alone") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    let agent = Agent::configured(dir.path(), "blocked = false\n");
    let said = agent.metrics(|text| text.contains("quell_memory_cpu_seconds_total{"));
    assert!(!said.contains("blocked_seconds"), "{said}");
    agent.stop();
}

/// Check that a trace that a rule begins has what was counted before: the looks until then, who asked, and which code spent
/// the time, named; and that a report tells it.
#[test]
fn a_trace_has_what_was_before() {
    if !root_only("a_trace_has_what_was_before") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    let traces = dir.path().join("traces");
    let config = format!(
        "[traces]\ndir = '{}'\nlimit_mb = 16\nreserve_mb = 1\nseconds = 1\n[[traces.rule]]\nname = 'storm'\nrate = 100\n",
        traces.display()
    );
    let agent = Agent::configured(dir.path(), &config);
    // it spends CPU time before the rule fires, and lives when its code is named
    let spends = Command::new(example("spends"))
        .args(["fault.anon", "600000", "itself"])
        .stdout(Stdio::null())
        .spawn()
        .map(Ends)
        .expect("it starts");
    let looks = |text: &str| sum(text, "quell_agent_looks_total", "") >= 4;
    agent.metrics(looks);
    let kept = |text: &str| sum(text, "quell_agent_traces_total", "result=\"kept\"");
    let until = Instant::now() + PATIENCE;
    while kept(&agent.get("/metrics")) == 0 {
        assert!(Instant::now() < until, "{}", agent.get("/metrics"));
        run_culprit();
    }
    drop(spends);
    let trace = fs::read_dir(&traces).expect("a folder").flatten();
    let mut trace = trace.map(|entry| entry.path()).filter(|path| path.is_dir());
    let trace = trace.next().expect("a trace");
    let report = |more: &[&str]| {
        let out = Command::new(QUELL)
            .args(["--color", "never", "report"])
            .arg(&trace)
            .args(more)
            .output()
            .expect("it starts");
        assert!(out.status.success(), "{out:?}");
        out.stdout
    };
    let said = json(&report(&["--json"]));
    let lines = said["look_back"].as_array().expect("lines");
    let of = |kind: &'static str| lines.iter().filter(move |line| line["kind"] == kind);
    assert!(of("look").count() >= 3, "{said:#}");
    let began = serde_json::from_slice::<serde_json::Value>(
        &fs::read(trace.join("meta.json")).expect("there"),
    );
    let began = began.expect("JSON")["start_monotonic_ns"].as_u64();
    assert!(
        lines.iter().all(|line| line["to_ns"].as_u64() <= began),
        "{said:#}"
    );
    let asked = of("culprit").find(|line| line["comm"] == "culprit");
    assert!(
        asked.is_some_and(|line| line["shootdowns"].as_u64() > Some(0)),
        "{said:#}"
    );
    let code = of("code").filter(|line| line["comm"] == "spends");
    let frames = code.flat_map(|line| line["frames"].as_array().cloned().unwrap_or_default());
    let named = frames.filter_map(|frame| frame.as_str().map(str::to_owned));
    let named: Vec<String> = named.collect();
    assert!(
        named.iter().any(|frame| frame.contains("spend_memory")),
        "{said:#}"
    );
    let text = String::from_utf8(report(&[])).expect("text");
    for part in [
        "Before it: the ",
        "Who asked for shootdowns before it",
        "Where CPU time went before it",
        "spends",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    agent.stop();
}
