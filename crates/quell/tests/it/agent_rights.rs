//! The agent of a user who is not root, and has the documented capabilities alone.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::agents::{Agent, PATIENCE, body, run_culprit, sum};
use crate::common::{QUELL, alone, beside_others, root_only};

const NOBODY: u32 = 65534;

/// What docs/agent.md says that the agent needs, as `bpf` and the like.
fn documented() -> Vec<String> {
    let docs = include_str!("../../../../docs/agent.md");
    let sentence = docs
        .split("\nIt needs ")
        .nth(1)
        .and_then(|rest| rest.split("and nothing else").next());
    let names = sentence
        .expect("a sentence that says so")
        .split('`')
        .filter_map(|word| word.strip_prefix("CAP_"));
    names.map(str::to_lowercase).collect()
}

/// quell as nobody, with these capabilities and no way to more.
fn as_nobody(caps: &[String]) -> Command {
    let caps: String = ["-all".to_owned()]
        .into_iter()
        .chain(caps.iter().map(|cap| format!(",+{cap}")))
        .collect();
    let mut command = Command::new("setpriv");
    let id = NOBODY.to_string();
    command.args([
        "--reuid",
        &id,
        "--regid",
        &id,
        "--clear-groups",
        "--no-new-privs",
    ]);
    command.args([
        "--inh-caps",
        &caps,
        "--ambient-caps",
        &caps,
        "--bounding-set",
        &caps,
    ]);
    // where nobody may look for it
    command.args(["--", "/proc/self/fd/0", "--color", "never"]);
    command.stdin(fs::File::open(QUELL).expect("quell"));
    command
}

/// Check that whoever is not root needs what is documented and nothing else, and is told by name what is missing, also
/// before anything begins.
#[test]
fn each_missing_capability_is_named() {
    if !root_only("each_missing_capability_is_named") {
        return;
    }
    let _beside = beside_others();
    let all = documented();
    assert!(all.len() >= 3 && all.contains(&"bpf".to_owned()), "{all:?}");
    // the unit of systemd gives the same
    let unit = include_str!("../../../../packaging/quell-agent.service");
    for line in ["AmbientCapabilities=", "CapabilityBoundingSet="] {
        let given = unit.lines().find_map(|l| l.strip_prefix(line)).expect(line);
        let given: Vec<String> = given
            .split(' ')
            .map(|cap| cap.trim_start_matches("CAP_").to_lowercase())
            .collect();
        assert_eq!(given, all, "{line}");
    }
    let agent = Agent::start(&mut as_nobody(&all));
    let text = agent.metrics(|text| text.ends_with("# EOF\n"));
    assert!(
        text.contains("quell_lost_events") && text.contains("quell_hazard"),
        "{text}"
    );
    agent.stop();
    for missing in &all {
        let caps: Vec<String> = all.iter().filter(|cap| *cap != missing).cloned().collect();
        for more in [&[][..], &["--check"]] {
            let out = as_nobody(&caps)
                .args(["agent", "--listen", "127.0.0.1:0"])
                .args(more)
                .output()
                .expect("it starts");
            let said = String::from_utf8_lossy(&out.stderr);
            let name = format!("CAP_{}", missing.to_uppercase());
            let others = caps.iter().map(|cap| format!("CAP_{}", cap.to_uppercase()));
            // what it names last is what is missing: the message may list all that are needed
            assert!(
                !out.status.success() && said.contains(&name),
                "without {missing}: {said}"
            );
            assert!(said.lines().count() == 1, "without {missing}: {said}");
            let named: Vec<String> = others
                .filter(|other| said.contains(other.as_str()))
                .collect();
            assert!(
                named.is_empty(),
                "without {missing}, {named:?} are named too: {said}"
            );
        }
    }
    let out = as_nobody(&[])
        .args(["agent", "--listen", "127.0.0.1:0"])
        .output();
    let said = String::from_utf8_lossy(&out.expect("it starts").stderr).into_owned();
    assert!(said.contains("CAP_BPF"), "{said}");
}

/// Check that with these capabilities alone a rule records a trace that tells of root's program, and figures are pushed.
#[test]
fn nobody_traces_and_pushes() {
    if !root_only("nobody_traces_and_pushes") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let traces = dir.path().join("traces");
    fs::create_dir(&traces).expect("made");
    std::os::unix::fs::chown(&traces, Some(NOBODY), Some(NOBODY)).expect("given away");
    let server = TcpListener::bind(("127.0.0.1", 0)).expect("an address");
    let config = dir.path().join("agent.toml");
    let text = format!(
        "[otlp]\nto = 'http://{}/v1/metrics'\n[traces]\ndir = '{}'\nreserve_mb = 1\nseconds = 1\npause = 1\n[[traces.rule]]\nname = 'storm'\nrate = 50\n",
        server.local_addr().expect("an address"),
        traces.display()
    );
    fs::write(&config, text).expect("written");
    let config = config.to_str().expect("text");
    let agent = Agent::start_with(&mut as_nobody(&documented()), &["--config", config]);
    let (mut stream, _) = server.accept().expect("it pushes");
    let mut part = [0; 100];
    let n = stream.peek(&mut part).expect("a request");
    assert!(String::from_utf8_lossy(&part[..n]).starts_with("POST /v1/metrics HTTP/1.1"));
    body(&stream);
    stream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .expect("answered");
    drop((stream, server));
    agent.metrics(|text| sum(text, "quell_agent_pushes_total", "result=\"taken\"") > 0);
    let until = Instant::now() + PATIENCE;
    while sum(
        &agent.get("/metrics"),
        "quell_agent_traces_total",
        "result=\"kept\"",
    ) == 0
    {
        assert!(Instant::now() < until, "{}", agent.get("/metrics"));
        run_culprit();
    }
    let listed = Command::new(QUELL)
        .args(["agent", "traces", "--json", "--config", config])
        .stderr(Stdio::inherit())
        .output()
        .expect("it starts");
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let found = &listed["traces"][0];
    assert!(
        found["shootdowns"].as_u64().is_some_and(|n| n > 0),
        "{listed:#}"
    );
    agent.stop();
}
