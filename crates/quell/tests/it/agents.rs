//! What the tests of the agent share.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use crate::common::PATIENCE;
use crate::common::{QUELL, emulated, example, root_only};

/// Shootdowns of each kind that the program makes.
pub(crate) const COUNT: u64 = 500;

/// An agent that ends with the test.
pub(crate) struct Agent {
    child: Child,
    /// `ADDR:PORT`.
    at: String,
    pub(crate) said: mpsc::Receiver<String>,
}

impl Agent {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::start_with(command, &[])
    }

    pub(crate) fn start_with(command: &mut Command, more: &[&str]) -> Self {
        let mut child = command
            .args(["agent", "--listen", "127.0.0.1:0", "--interval", "1"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let stderr = child.stderr.take().expect("piped");
        let (tell, said) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        let line = said.recv_timeout(PATIENCE).expect("it says what it does");
        let at = line
            .split("http://")
            .nth(1)
            .and_then(|rest| rest.split('/').next());
        let at = at
            .unwrap_or_else(|| panic!("no address in: {line}"))
            .to_owned();
        Self { child, at, said }
    }

    /// One with this configuration, which is put into a file in the folder.
    pub(crate) fn configured(folder: &Path, config: &str) -> Self {
        let path = folder.join("agent.toml");
        std::fs::write(&path, config).expect("written");
        let mut command = Command::new(QUELL);
        command.args(["--color", "never"]);
        Self::start_with(&mut command, &["--config", path.to_str().expect("text")])
    }

    /// A figure of its process: a line of /proc/PID/status.
    pub(crate) fn status(&self, field: &str) -> u64 {
        let text = std::fs::read_to_string(self.proc("status")).expect("it is there");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.unwrap_or_else(|| panic!("no {field} in: {text}"))
    }

    /// The files that it has open, in order: the fewest of some looks, as a connection that has just been answered is one more.
    /// Without one of /proc/kallsyms, which is opened when the first of the kernel's stacks is to be named.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let look = |_| {
            thread::sleep(Duration::from_millis(100));
            let files = std::fs::read_dir(self.proc("fd")).expect("it is there");
            let links = files
                .flatten()
                .flat_map(|file| std::fs::read_link(file.path()));
            let mut all: Vec<PathBuf> = links.collect();
            all.sort_unstable();
            if let Ok(at) = all.binary_search(&PathBuf::from("/proc/kallsyms")) {
                all.remove(at);
            }
            all
        };
        (0..10).map(look).min_by_key(Vec::len).unwrap_or_default()
    }

    /// Memory of its own, kB: pages of files come and go as the kernel likes.
    pub(crate) fn memory(&self) -> u64 {
        self.status("RssAnon")
    }

    /// The recording that it has started: who names what was before it may live for a moment longer than it takes.
    pub(crate) fn child(&self) -> rustix::process::Pid {
        let parent = self.child.id().to_string();
        let stat = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        let is_child = |pid: &String| {
            let text = stat(pid).unwrap_or_default();
            // the name may have anything in it
            let after = text.rsplit_once(')').map_or("", |(_, after)| after);
            after.split_whitespace().nth(1) == Some(&*parent)
        };
        let all = std::fs::read_dir("/proc").expect("it is there").flatten();
        let names = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let numbers = names.filter(|name| name.parse::<u32>().is_ok());
        let records = |pid: &String| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|b| *b == 0).any(|word| word == b"record")
        };
        let found: Vec<String> = numbers.filter(is_child).filter(records).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        let pid = found[0].parse().expect("a number");
        rustix::process::Pid::from_raw(pid).expect("not zero")
    }

    /// A file of its process.
    pub(crate) fn proc(&self, name: &str) -> PathBuf {
        Path::new("/proc")
            .join(self.child.id().to_string())
            .join(name)
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.at).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("asked");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("an answer");
        said
    }

    /// The figures, once they are as wanted.
    pub(crate) fn metrics(&self, wanted: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let said = self.get("/metrics");
            if said.starts_with("HTTP/1.1 200") && wanted(&said) {
                return said;
            }
            assert!(Instant::now() < until, "not told in time: {said}");
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Asks it to stop; it has to say that all was well.
    pub(crate) fn stop(mut self) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is there");
        let status = self.child.wait().expect("a status");
        assert!(status.success(), "{status}");
        let mut out = String::new();
        let mut stdout = self.child.stdout.take().expect("piped");
        stdout.read_to_string(&mut out).expect("text");
        out
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of a request that comes, once all of it is there.
pub(crate) fn body(stream: &TcpStream) -> Vec<u8> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
        if let Some(n) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = n.trim().parse().expect("a number");
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("all of it");
    body
}

/// The sum of all series of a family that have this in their labels.
pub(crate) fn sum(metrics: &str, family: &str, label: &str) -> u64 {
    let series = metrics.lines().filter_map(|line| line.strip_prefix(family));
    let series = series.filter(|rest| rest.starts_with(['{', ' ']) && rest.contains(label));
    series
        .filter_map(|rest| rest.rsplit_once(' ')?.1.parse::<u64>().ok())
        .sum()
}

pub(crate) fn known(metrics: &str) -> u64 {
    let causes = ["munmap", "madvise.dontneed", "mprotect"];
    let of = |cause| {
        sum(
            metrics,
            "quell_shootdowns_total",
            &format!("cause=\"{cause}\""),
        )
    };
    causes.into_iter().map(of).sum()
}

pub(crate) fn run_culprit() {
    let status = Command::new(example("culprit"))
        .arg(COUNT.to_string())
        .env("QUELL_TEST_DEADLINE", "300")
        .stdout(Stdio::null())
        .status();
    assert!(status.expect("it starts").success());
}

/// True where the test can be had: as root, on a machine that is as quick as machines are, with a compiler.
pub(crate) fn can_stress(test: &str) -> bool {
    if !root_only(test) {
        return false;
    }
    let compiler = Command::new("cc").arg("--version").output();
    let why = match () {
        () if emulated() => "a machine that is emulated is too slow",
        () if compiler.is_err() => "there is no C compiler",
        () => return true,
    };
    eprintln!("SKIPPED {test}: {why}");
    false
}

/// Builds a program of tests/c.
pub(crate) fn built(name: &str, options: &[&str], dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let out = dir.join(name);
    let status = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(&out)
        .arg(source.join(format!("{name}.c")))
        .args(options)
        .status();
    assert!(status.expect("cc starts").success(), "cc builds {name}.c");
    out
}

/// What is never to shrink: every series of a counter or a distribution, but of cgroups, which begin anew with each name.
pub(crate) fn counters(metrics: &str) -> BTreeMap<String, f64> {
    let lines = metrics.lines().filter(|line| line.starts_with("quell_"));
    let lines = lines.filter(|line| !line.starts_with("quell_cgroup"));
    let split = lines.filter_map(|line| line.rsplit_once(' '));
    split
        .filter(|(name, _)| {
            let name = name.split('{').next().unwrap_or_default();
            ["_total", "_count", "_sum", "_bucket"]
                .iter()
                .any(|end| name.ends_with(end))
        })
        .map(|(name, value)| (name.to_owned(), value.parse().expect("a number")))
        .collect()
}

/// Those that have shrunk or gone.
pub(crate) fn shrunk(before: &str, after: &str) -> Vec<String> {
    let after = counters(after);
    let before = counters(before);
    let shrunk = before
        .iter()
        .filter(|(name, was)| after.get(*name).is_none_or(|is| is < *was));
    shrunk
        .map(|(name, was)| format!("{name}: {was}, then {:?}", after.get(name)))
        .collect()
}

/// How many series a scrape has.
pub(crate) fn series(metrics: &str) -> usize {
    metrics
        .lines()
        .filter(|line| line.starts_with("quell_"))
        .count()
}
