//! The agent where the machine's clock jumps: by a day forwards, then by two days back.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::agents::{Agent, PATIENCE, body, built, can_stress, run_culprit, shrunk, sum};
use crate::common::{QUELL, alone};

const DAY: i64 = 86_400_000_000_000;

/// What is pushed late, on a machine that is busy, is not by a day.
const LATE: i64 = DAY / 24;

/// Clocks of one process that can be set.
pub(crate) struct Clocks {
    library: PathBuf,
    file: PathBuf,
}

impl Clocks {
    pub(crate) fn new(dir: &Path) -> Self {
        let clocks = Self {
            library: built("clock", &["-fPIC", "-shared"], dir),
            file: dir.join("clocks"),
        };
        clocks.set(0, 0);
        clocks
    }

    /// By so many ns are that of the day, and the one that never jumps, wrong.
    pub(crate) fn set(&self, day: i64, monotonic: i64) {
        let text: Vec<u8> = [day, monotonic]
            .iter()
            .flat_map(|ns| ns.to_ne_bytes())
            .collect();
        // in place, as it is mapped, and never shorter
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.file)
            .expect("it is ours");
        file.write_all(&text).expect("written");
    }

    /// quell with these clocks. What it starts has them too.
    pub(crate) fn quell(&self) -> Command {
        let mut command = Command::new(QUELL);
        command.args(["--color", "never"]);
        command
            .env("LD_PRELOAD", &self.library)
            .env("CLOCKS", &self.file);
        command
    }
}

/// The time that what is pushed has, ns since 1970.
fn pushed(server: TcpListener) -> mpsc::Receiver<i64> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for stream in server.incoming().map_while(Result::ok) {
            let body = body(&stream);
            let _ = (&stream).write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            let body = String::from_utf8(body).expect("text");
            let times: Vec<&str> = body
                .lines()
                .filter_map(|l| Some(l.rsplit_once(' ')?.1))
                .collect();
            assert!(times.iter().all(|t| *t == times[0]), "{body}");
            if tell.send(times[0].parse().expect("a time")).is_err() {
                return;
            }
        }
    });
    told
}

fn wall() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    i64::try_from(since.as_nanos()).expect("before 2262")
}

/// The traces that are kept, by name.
fn names(traces: &Path) -> Vec<String> {
    let entries = fs::read_dir(traces).expect("it is there");
    let mut names: Vec<String> = entries
        .map(|e| {
            e.expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    names.sort();
    names
}

struct Watched {
    agent: Agent,
    clocks: Clocks,
    pushes: mpsc::Receiver<i64>,
    traces: PathBuf,
    last: String,
}

impl Watched {
    /// The clock of the day is wrong by so much from now on: what is pushed says so, later and later, no more often than usual, and
    /// the agent is well.
    fn jump(&mut self, by: i64) {
        let looks = |text: &str| sum(text, "quell_agent_looks_total", "");
        self.scrape();
        let (before, begun) = (looks(&self.last), Instant::now());
        self.clocks.set(by, 0);
        let mut times = Vec::new();
        while times.len() < 6 {
            let t = self.pushes.recv_timeout(PATIENCE).expect("it pushes");
            // one that was made before may still come; no more of them than that
            let off = (t - by - wall()).abs();
            if off < LATE {
                times.push(t);
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "wrong by {off} ns: it is {by} that the clock jumped"
            );
        }
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
        self.scrape();
        let (made, over) = (looks(&self.last) - before, begun.elapsed().as_secs());
        // one a second, and what was due as it began
        assert!(made <= over + 2, "{made} looks in {over} s");
        assert!(self.agent.get("/healthz").starts_with("HTTP/1.1 200"));
    }

    fn scrape(&mut self) {
        let now = self.agent.get("/metrics");
        assert_eq!(shrunk(&self.last, &now), Vec::<String>::new());
        self.last = now;
    }

    /// Shoots until one more trace is kept: a pause that began before the clock jumped is to be over. Others may shoot as
    /// much in the meantime, and have a trace too.
    fn trace(&mut self) {
        let kept = |text: &str| sum(text, "quell_agent_traces_total", "result=\"kept\"");
        let (before, until) = (kept(&self.last), Instant::now() + PATIENCE);
        while kept(&self.last) == before {
            assert!(Instant::now() < until, "{}", self.last);
            run_culprit();
            self.scrape();
        }
    }

    /// Makes a trace larger.
    fn pad(&self, name: &str) {
        fs::write(self.traces.join(name).join("pad"), vec![0; 20 << 20]).expect("written");
    }
}

/// Check that a clock that jumps costs nothing: what is pushed has the new time, intervals and pauses keep their pace, the
/// oldest trace gives way and not the one with the lowest date, and no counter shrinks.
#[test]
fn a_clock_that_jumps() {
    if !can_stress("a_clock_that_jumps") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    let traces = dir.path().join("traces");
    let server = TcpListener::bind(("127.0.0.1", 0)).expect("an address");
    let config = dir.path().join("agent.toml");
    let text = format!(
        "[influx]\nto = 'http://{}/write?db=quell'\n[traces]\ndir = '{}'\nlimit_mb = 64\nreserve_mb = 1\nseconds = 1\npause = 10\n[[traces.rule]]\nname = 'storm'\nrate = 50\n[[traces.rule]]\nname = 'regression'\nregression = 2\n",
        server.local_addr().expect("an address"),
        traces.display()
    );
    fs::write(&config, text).expect("written");
    let clocks = Clocks::new(dir.path());
    let agent = Agent::start_with(
        &mut clocks.quell(),
        &["--config", config.to_str().expect("text")],
    );
    let last = agent.metrics(|text| text.ends_with("# EOF\n"));
    let mut all = Watched {
        agent,
        clocks,
        pushes: pushed(server),
        traces,
        last,
    };
    let t = all.pushes.recv_timeout(PATIENCE).expect("it pushes");
    assert!((t - wall()).abs() < LATE, "{t}");

    all.trace();
    // the last, should there be more: on a busy machine others shoot too
    let mut first = names(&all.traces);
    first.drain(..first.len() - 1);
    let before = names(&all.traces);
    all.jump(DAY);
    all.trace();
    let mut second: Vec<String> = names(&all.traces)
        .into_iter()
        .filter(|name| !before.contains(name))
        .collect();
    // others may have had one made before the clock jumped
    second.drain(..second.len() - 1);
    all.jump(-DAY);
    all.pad(&first[0]);
    all.pad(&second[0]);
    let before = names(&all.traces);
    all.trace();
    let third = names(&all.traces);
    // two of 20 MB and one to come, which may take half of all, don't fit in 64
    assert!(
        !third.contains(&first[0]),
        "the oldest is to give way: {third:?}"
    );
    let new = third.iter().filter(|name| !before.contains(name)).count();
    assert!(new > 0, "{before:?}, then {third:?}");
    // a second new one may take its room too
    assert!(
        third.contains(&second[0]) || new > 1,
        "{second:?}, then {third:?}"
    );
    let day = |name: &str| name[..10].to_owned();
    assert!(
        day(&first[0]) < day(&second[0]),
        "the trace has the new date: {first:?}, {second:?}"
    );
    let removed = sum(&all.last, "quell_agent_traces_removed_total", "");
    assert!(removed >= 1, "{removed}");
    assert_eq!(
        sum(&all.last, "quell_agent_traces_total", "rule=\"regression\""),
        0
    );
    assert_eq!(
        sum(&all.last, "quell_agent_pushes_total", "result=\"failed\""),
        0
    );
    let said: Vec<String> = all.agent.said.try_iter().collect();
    assert!(
        said.iter().all(|line| line.contains(": recorded ")),
        "{said:?}"
    );
    assert_eq!(all.agent.stop(), "");
}
