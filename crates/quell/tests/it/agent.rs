//! The agent: what it tells of a known program, and what it does when a server is away or a rule is broken.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::agents::{Agent, COUNT, PATIENCE, known, run_culprit, sum};
use crate::common::{QUELL, alone, beside_others, root_only, too_busy};

/// Check that a program with known shootdowns is told by cause, as many as it made, that cgroups add up to causes, that the
/// documentation has every name, and that the end is orderly.
#[test]
fn tells_a_known_program() {
    if !root_only("tells_a_known_program") {
        return;
    }
    let _alone = alone();
    let agent = Agent::start(Command::new(QUELL).args(["--color", "never"]));
    let before = agent.metrics(|text| text.ends_with("# EOF\n"));
    run_culprit();
    let grown = |text: &str| {
        let empty =
            sum(text, "quell_empty_sends_total", "") - sum(&before, "quell_empty_sends_total", "");
        known(text) - known(&before) + empty
    };
    let after = agent.metrics(|text| grown(text) >= 3 * COUNT);
    // those that found nobody to interrupt are of all programs, and others may shoot too: how many it is exactly is checked by
    // cgroup (agent_stress.rs)
    let told = known(&after) - known(&before);
    if told > 3 * COUNT + COUNT {
        too_busy("tells_a_known_program", "others shoot as much");
    }
    let (causes, groups) = (
        sum(&after, "quell_shootdowns_total", ""),
        sum(&after, "quell_cgroup_shootdowns_total", ""),
    );
    assert_eq!(causes, groups, "{after}");
    let victims = sum(&after, "quell_victim_hits_total", "");
    assert_eq!(victims, sum(&after, "quell_cgroup_hits_total", ""));
    let count = sum(&after, "quell_wait_distribution_seconds_count", "");
    // at such a rate one in 64 or so is timed, drawn by chance, and stands for as many: an estimate of so few may be far off
    assert!(count > 0 && count <= 3 * causes, "{count} of {causes}");
    assert!(!after.contains("pid="), "{after}");
    let docs = include_str!("../../../../docs/agent.md");
    let names = after
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let unknown: Vec<_> = names
        .filter(|name| !docs.contains(&format!("`{name}`")))
        .collect();
    assert!(unknown.is_empty(), "docs/agent.md lacks: {unknown:?}");
    assert!(agent.get("/healthz").starts_with("HTTP/1.1 200"));
    assert_eq!(agent.stop(), "");
}

/// Check that lines for Telegraf come to stdout, and nothing else does.
#[test]
fn lines_come_to_stdout() {
    if !root_only("lines_come_to_stdout") {
        return;
    }
    let _beside = beside_others();
    let mut child = Command::new(QUELL)
        .args([
            "agent",
            "--listen",
            "127.0.0.1:0",
            "--interval",
            "1",
            "--influx",
            "-",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    for line in lines.map_while(Result::ok).take(40) {
        let parts: Vec<&str> = line.split(' ').collect();
        assert!(
            line.starts_with("quell_") && line.contains(",host="),
            "{line}"
        );
        assert!(
            parts.last().is_some_and(|t| t.parse::<u64>().is_ok()),
            "{line}"
        );
    }
    child.kill().expect("it is there");
    child.wait().expect("a status");
}

/// Check that a server that answers 500, and then is gone, is told once and counted, while scrapes go on.
#[test]
fn goes_on_without_a_server() {
    if !root_only("goes_on_without_a_server") {
        return;
    }
    let _beside = beside_others();
    let server = TcpListener::bind(("127.0.0.1", 0)).expect("an address");
    let url = format!(
        "http://{}/v1/metrics",
        server.local_addr().expect("an address")
    );
    let mut command = Command::new(QUELL);
    let config = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(config.path(), format!("[otlp]\nto = '{url}'\n")).expect("written");
    command.args(["--color", "never"]);
    let path = config.path().to_str().expect("text").to_owned();
    let agent = Agent::start_with(&mut command, &["--config", &path]);
    let (mut stream, _) = server.accept().expect("it pushes");
    let mut part = [0; 1 << 16];
    let n = stream.read(&mut part).expect("a request");
    assert!(String::from_utf8_lossy(&part[..n]).starts_with("POST /v1/metrics HTTP/1.1"));
    stream
        .write_all(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .expect("answered");
    drop((stream, server));
    let failed = |text: &str| sum(text, "quell_agent_pushes_total", "result=\"failed\"");
    let after = agent.metrics(|text| failed(text) >= 2);
    assert_eq!(
        sum(&after, "quell_agent_pushes_total", "result=\"taken\""),
        0
    );
    let said: Vec<String> = agent.said.try_iter().collect();
    assert!(said.len() == 1 && said[0].contains("500"), "{said:?}");
    agent.stop();
}

/// Check that a rule begins a trace, that it is kept, listed with its reason and read by report, that a second one within
/// the pause is not begun, and that old ones give way to the limit.
#[test]
fn rules_record_traces() {
    if !root_only("rules_record_traces") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    let traces = dir.path().join("traces");
    // what was there before, larger than the limit allows beside a new one
    let old = traces.join("2020-01-01T00-00-00Z-old.quell");
    std::fs::create_dir_all(&old).expect("made");
    std::fs::write(old.join("events-00001.parquet"), vec![0; 9 << 20]).expect("written");
    let config = format!(
        "[traces]\ndir = '{}'\nlimit_mb = 16\nreserve_mb = 1\nseconds = 1\n[[traces.rule]]\nname = 'storm'\nrate = 100\n",
        traces.display()
    );
    let agent = Agent::configured(dir.path(), &config);
    let config = dir.path().join("agent.toml");
    let config = config.to_str().expect("text");
    agent.metrics(|text| text.ends_with("# EOF\n"));
    let kept = |text: &str| sum(text, "quell_agent_traces_total", "result=\"kept\"");
    let until = Instant::now() + PATIENCE;
    let after = loop {
        run_culprit();
        let text = agent.get("/metrics");
        if kept(&text) > 0 {
            break text;
        }
        assert!(Instant::now() < until, "{text}");
    };
    run_culprit();
    assert!(!old.exists(), "the old trace has to give way");
    assert_eq!(sum(&after, "quell_agent_traces_removed_total", ""), 1);
    let listed = Command::new(QUELL)
        .args(["agent", "traces", "--json", "--config", config])
        .output()
        .expect("it starts");
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let found = listed["traces"].as_array().expect("a list");
    assert_eq!(found.len(), 1, "{listed:#}");
    assert!(
        found[0]["why"]
            .as_str()
            .is_some_and(|why| why.contains("shootdowns a second")),
        "{listed:#}"
    );
    assert!(
        found[0]["shootdowns"].as_u64().is_some_and(|n| n > 0),
        "{listed:#}"
    );
    let path = found[0]["path"].as_str().expect("a path");
    let report = Command::new(QUELL)
        .args(["report", path])
        .output()
        .expect("it starts");
    assert!(report.status.success());
    let text = Command::new(QUELL)
        .args(["agent", "traces", "--config", config])
        .output()
        .expect("it starts");
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(
        text.contains("storm") && text.contains("1 trace in"),
        "{text}"
    );
    agent.stop();
}

/// The traces in a folder, as a script gets them.
fn listed(dir: &Path) -> Vec<serde_json::Value> {
    let out = Command::new(QUELL)
        .args(["agent", "traces", "--json", "--dir"])
        .arg(dir)
        .output()
        .expect("it starts");
    assert!(out.status.success(), "{out:?}");
    let listed: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    listed["traces"].as_array().expect("a list").clone()
}

/// Check that a trace is listed as under way while it is recorded, that a recording which somebody kills is told and counted
/// as failed, and that its trace is then listed as cut short.
#[test]
fn a_killed_recording_is_told() {
    if !root_only("a_killed_recording_is_told") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    let traces = dir.path().join("traces");
    let config = format!(
        "[traces]\ndir = '{}'\nlimit_mb = 16\nreserve_mb = 1\nseconds = 600\n[[traces.rule]]\nname = 'storm'\nrate = 100\n",
        traces.display()
    );
    let agent = Agent::configured(dir.path(), &config);
    let until = Instant::now() + PATIENCE;
    let is = |field: &str| listed(&traces).iter().any(|trace| trace[field] == true);
    while !is("under_way") {
        assert!(Instant::now() < until, "{}", agent.get("/metrics"));
        run_culprit();
    }
    assert!(!is("cut_short"));
    let recorder = agent.child();
    rustix::process::kill_process(recorder, rustix::process::Signal::KILL).expect("it is there");
    let after =
        agent.metrics(|text| sum(text, "quell_agent_traces_total", "result=\"failed\"") > 0);
    assert_eq!(
        sum(&after, "quell_agent_traces_total", "result=\"kept\""),
        0
    );
    let told = "which was cut short: quell record: killed by signal 9";
    while !agent
        .said
        .recv_timeout(PATIENCE)
        .expect("it is told")
        .contains(told)
    {}
    assert!(is("cut_short") && !is("under_way"));
    agent.stop();
}

/// Check that --check says what would keep the agent from starting, and only that: an agent that is at work does not.
#[test]
fn a_check_is_what_the_start_is() {
    if !root_only("a_check_is_what_the_start_is") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("written");
    let with_reserve = |traces: &Path, listen: &str, reserve: u64| {
        let config = dir.path().join("agent.toml");
        let text = format!(
            "listen = '{listen}'\n[traces]\ndir = '{}'\nlimit_mb = 16\nreserve_mb = {reserve}\n[[traces.rule]]\nname = 'storm'\nrate = 100\n",
            traces.display()
        );
        std::fs::write(&config, text).expect("written");
        let mut command = Command::new(QUELL);
        let out = command.args(["agent", "--check", "--config"]).arg(&config);
        let out = out.output().expect("it starts");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        (out.status.code(), said)
    };
    let checked = |traces: &Path, listen: &str| with_reserve(traces, listen, 0);
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = free.local_addr().expect("an address").to_string();

    let (code, said) = checked(&dir.path().join("not/yet"), "127.0.0.1:0");
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("would record by 1 rule to ") && !said.contains("taken"),
        "{said}"
    );
    assert!(!said.contains("no room"), "{said}");
    // no file system has so much; it may yet, so that this is said and no more
    let (code, said) = with_reserve(
        &dir.path().join("not/yet"),
        "127.0.0.1:0",
        1_000_000_000_000,
    );
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("there is no room for a trace"), "{said}");
    assert!(!dir.path().join("not").exists(), "nothing is made");
    let (code, said) = checked(&dir.path().join("not/yet"), &taken);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("{taken} is taken now")), "{said}");
    let (code, said) = checked(&file.join("below"), "127.0.0.1:0");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("file is no folder"), "{said}");
}

/// Check that a file system without room costs no trace and no agent: it is told and counted.
#[test]
fn a_full_disk_is_counted() {
    if !root_only("a_full_disk_is_counted") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    // no file system has so much
    let config = format!(
        "[traces]\ndir = '{}'\nreserve_mb = 1000000000000\n[[traces.rule]]\nname = 'storm'\nrate = 10\n",
        dir.path().join("traces").display()
    );
    let agent = Agent::configured(dir.path(), &config);
    agent.metrics(|text| text.ends_with("# EOF\n"));
    let until = Instant::now() + PATIENCE;
    while sum(
        &agent.get("/metrics"),
        "quell_agent_traces_total",
        "result=\"no_room\"",
    ) == 0
    {
        assert!(Instant::now() < until, "{}", agent.get("/metrics"));
        run_culprit();
    }
    // at the start, and each time
    for text in ["there is no room for a trace", "no trace, for want of room"] {
        let said = agent.said.recv_timeout(PATIENCE).expect("it is told");
        assert!(
            said.contains(text) && said.contains("MB, reserve_mb"),
            "{said}"
        );
    }
    agent.stop();
}
