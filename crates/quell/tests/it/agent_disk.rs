//! The agent on a disk that somebody else fills up while it records.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::agents::{Agent, PATIENCE, can_stress, run_culprit, shrunk, sum};
use crate::common::{QUELL, alone};

struct Disk {
    agent: Agent,
    /// As its own mount namespace has it.
    root: PathBuf,
    last: String,
}

impl Disk {
    fn result(&mut self, result: &str) -> u64 {
        let now = self.agent.get("/metrics");
        assert_eq!(shrunk(&self.last, &now), Vec::<String>::new());
        self.last = now;
        sum(
            &self.last,
            "quell_agent_traces_total",
            &format!("result=\"{result}\""),
        )
    }

    /// Shoots until one more recording came to this.
    fn until(&mut self, result: &str) {
        let (before, until) = (self.result(result), Instant::now() + PATIENCE);
        while self.result(result) == before {
            assert!(
                Instant::now() < until,
                "no trace is '{result}': {}",
                self.last
            );
            run_culprit();
        }
    }

    fn traces(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.root.join("traces")).expect("it is there");
        entries.map(|e| e.expect("an entry").path()).collect()
    }

    fn free(&self) -> u64 {
        let fs = rustix::fs::statvfs(&self.root).expect("it is there");
        fs.f_bavail * fs.f_frsize
    }

    /// Takes all there is, to the last byte.
    fn fill(&self) {
        let mut file = File::create(self.root.join("somebody-elses")).expect("made");
        let part = vec![1; 64 << 10];
        while file.write_all(&part).is_ok() {}
        // what was written in part counts
        while file.write_all(&part[..512]).is_ok() {}
        assert_eq!(self.free(), 0);
    }

    /// What it said since the last call.
    fn said(&self) -> String {
        let said: Vec<String> = self.agent.said.try_iter().collect();
        said.join("\n")
    }
}

/// An agent in a mount namespace of its own, with a disk of 40 MB there.
fn on_a_small_disk(dir: &Path, config: &str) -> Disk {
    let disk = dir.join("disk");
    fs::create_dir(&disk).expect("made");
    let path = dir.join("agent.toml");
    fs::write(&path, config.replace("DISK", &disk.display().to_string())).expect("written");
    let mut command = Command::new("unshare");
    // private there, so that this machine has no such mount
    command.args(["--mount", "--propagation", "private", "sh", "-ec"]);
    command
        .arg("mount -t tmpfs -o size=40m quell-test \"$0\" && exec \"$@\"")
        .arg(&disk);
    command.args([QUELL, "--color", "never"]);
    let agent = Agent::start_with(&mut command, &["--config", path.to_str().expect("text")]);
    let last = agent.metrics(|text| text.ends_with("# EOF\n"));
    let mounts = fs::read_to_string("/proc/mounts").expect("it is there");
    assert!(!mounts.contains("quell-test"), "{mounts}");
    let root = agent
        .proc("root")
        .join(disk.strip_prefix("/").expect("from the root"));
    Disk { agent, root, last }
}

/// Check that a disk that fills up ends the recording that is under way, that old traces give way and no new ones are begun,
/// each of it said and counted, and that traces come back when there is room.
#[test]
fn a_disk_fills_up() {
    if !can_stress("a_disk_fills_up") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    let config = "[traces]\ndir = 'DISK/traces'\nlimit_mb = 16\nreserve_mb = 8\nseconds = 20\npause = 1\n[[traces.rule]]\nname = 'storm'\nrate = 50\n";
    let mut disk = on_a_small_disk(dir.path(), config);
    let until = Instant::now() + PATIENCE;
    while disk.traces().is_empty() {
        assert!(Instant::now() < until, "{}", disk.agent.get("/metrics"));
        run_culprit();
    }
    // some of it is written, and more is to come
    std::thread::sleep(Duration::from_secs(1));
    let began = Instant::now();
    disk.fill();
    while disk.result("kept") + disk.result("failed") == 0 {
        assert!(began.elapsed() < PATIENCE, "{}", disk.last);
        std::thread::sleep(Duration::from_millis(200));
    }
    // early, and not because its 20 s were over: by the agent, which looks now and then, or by the recording, where that is the first to know
    let said = disk.said();
    assert!(
        said.contains("no more room") || said.contains("no space left there"),
        "{said}"
    );

    // not begun, as the disk is full of what is not ours; whatever was there gave way
    disk.until("no_room");
    let said = disk.said();
    assert!(said.contains("for want of room"), "{said}");
    assert_eq!(disk.traces(), Vec::<PathBuf>::new());
    assert_eq!(sum(&disk.last, "quell_agent_traces_bytes", ""), 0);
    assert!(
        sum(&disk.last, "quell_agent_traces_removed_total", "") > 0,
        "{}",
        disk.last
    );
    assert!(disk.agent.get("/healthz").starts_with("HTTP/1.1 200"));

    fs::remove_file(disk.root.join("somebody-elses")).expect("it is ours");
    let before = disk.result("kept");
    disk.until("kept");
    assert_eq!(disk.result("kept"), before + 1);
    assert_eq!(disk.traces().len(), 1);
    disk.agent.stop();
}
