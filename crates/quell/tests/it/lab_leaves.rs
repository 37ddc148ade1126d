//! What the lab leaves behind, however it ends: nothing.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{QUELL, beside_others, json, root_only};

/// A lab that would run for minutes, in a process group of its own, as a shell starts it; and all that it starts can be
/// told by a variable.
struct Long {
    child: Child,
    mark: String,
}

impl Long {
    fn start(words: &[&str]) -> Self {
        let mark = format!("QUELL_TEST_LAB={}-{}", std::process::id(), words.join("-"));
        let (name, value) = mark.split_once('=').expect("a variable");
        let child = Command::new(QUELL)
            .args(["lab", "run", "--json", "--budget", "300"])
            .args(words)
            .env(name, value)
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("quell starts");
        Self { child, mark }
    }

    /// The processes that it has started and that still run, by their last words: worker or guard.
    fn started(&self) -> BTreeMap<i32, String> {
        let all = fs::read_dir("/proc").expect("/proc");
        all.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
            .filter(|pid| *pid != self.child.id().cast_signed())
            .filter(|pid| {
                let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environ
                    .split(|b| *b == 0)
                    .any(|v| v == self.mark.as_bytes())
            })
            .map(|pid| {
                let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let word = words.split(|b| *b == 0).nth(2).unwrap_or_default();
                (pid, String::from_utf8_lossy(word).into_owned())
            })
            .collect()
    }

    fn workers(&self) -> usize {
        self.started()
            .values()
            .filter(|word| *word == "worker")
            .count()
    }

    /// Waits until both workers are there and have begun; false if it has ended before.
    fn begins(&mut self) -> bool {
        let ready = within(Duration::from_secs(20), || {
            self.workers() == 2 || self.child.try_wait().is_ok_and(|s| s.is_some())
        });
        assert!(ready, "no workers: {:?}", self.started());
        std::thread::sleep(Duration::from_secs(2));
        self.child.try_wait().is_ok_and(|s| s.is_none())
    }

    fn signal(&self, signal: i32, group: bool) {
        let pid = self.child.id().cast_signed();
        // SAFETY: sends a signal to a process, or its group, that this test started and has not waited for.
        let sent = unsafe { libc::kill(if group { -pid } else { pid }, signal) };
        assert_eq!(sent, 0);
    }
}

impl Drop for Long {
    fn drop(&mut self) {
        // where a check has failed
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether it comes true in time.
fn within(time: Duration, mut is_true: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + time;
    while Instant::now() < until {
        if is_true() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    is_true()
}

/// Check that Ctrl-C, which goes to every process of the terminal, ends it within 2 s in the middle of a long block, with the result so far, and that nothing that it started goes on.
#[test]
fn interrupt_leaves_a_result() {
    if !root_only("lab::interrupt_leaves_a_result") {
        return;
    }
    let _beside = beside_others();
    for words in [
        ["dontneed", "--block", "150"],
        ["dontneed", "--block", "5000"],
    ] {
        let mut long = Long::start(&words);
        assert!(long.begins(), "{words:?}: it has ended by itself");
        long.signal(libc::SIGINT, true);
        let began = Instant::now();
        let ended = within(Duration::from_secs(10), || {
            long.child.try_wait().is_ok_and(|s| s.is_some())
        });
        let took = began.elapsed();
        assert!(
            ended && took <= Duration::from_secs(2),
            "{words:?}: {took:?}"
        );
        assert_eq!(long.started(), BTreeMap::new(), "{words:?}");
        let mut text = Vec::new();
        let mut stdout = long.child.stdout.take().expect("a pipe");
        std::io::Read::read_to_end(&mut stdout, &mut text).expect("a result");
        let said = json(&text);
        assert_eq!(said["schema"], "quell/lab/1");
        assert_eq!(said["interrupted"], true, "{said:#}");
        // of the long block no round was whole
        let long_block = words[2] == "5000";
        assert_eq!(said["arms"]["idle"]["blocks"] == 0, long_block, "{said:#}");
    }
}

/// What could be swapped to, and which compressed devices there are.
fn swaps() -> (Vec<String>, Vec<String>) {
    let text = fs::read_to_string("/proc/swaps").expect("/proc/swaps");
    let words = text
        .lines()
        .skip(1)
        .filter_map(|l| l.split_whitespace().next());
    let devices = fs::read_dir("/sys/block").expect("/sys/block");
    let mut devices: Vec<String> = devices
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("zram"))
        .collect();
    devices.sort();
    (words.map(str::to_owned).collect(), devices)
}

/// Check that after kill -9 the workers are gone within 2 s, and that what was set up to swap to is taken back within 5 s.
#[test]
fn killed_lab_leaves_nothing() {
    if !root_only("killed_lab_leaves_nothing") {
        return;
    }
    let _beside = beside_others();
    let before = swaps();
    let mut long = Long::start(&["swap"]);
    if !long.begins() {
        eprintln!("SKIPPED killed_lab_leaves_nothing: no swap, and no zram to make some");
        return;
    }
    let guarded = before.0.is_empty();
    assert_eq!(swaps() != before, guarded, "swap was set up");
    long.signal(libc::SIGKILL, false);
    let began = Instant::now();
    long.child.wait().expect("quell ends");
    assert!(
        within(Duration::from_secs(2), || long.workers() == 0),
        "{:?}",
        long.started()
    );
    let left = Duration::from_secs(5).saturating_sub(began.elapsed());
    assert!(
        within(left, || swaps() == before && long.started().is_empty()),
        "{:?} was {before:?}; {:?}",
        swaps(),
        long.started()
    );
}

/// On which CPUs each thread of these processes may run.
fn affinity(pids: &[u32]) -> BTreeMap<String, String> {
    let threads = pids.iter().flat_map(|pid| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task"));
        tasks
            .into_iter()
            .flatten()
            .filter_map(|e| Some(e.ok()?.path()))
    });
    threads
        .filter_map(|path| {
            let status = fs::read_to_string(path.join("status")).ok()?;
            let allowed = status
                .lines()
                .find(|l| l.starts_with("Cpus_allowed_list"))?;
            Some((path.display().to_string(), allowed.to_owned()))
        })
        .collect()
}

/// Check that no other process is moved to other CPUs while it runs, nor afterwards: not who started it, and not a bystander.
#[test]
fn affinity_of_others_is_left() {
    if !root_only("affinity_of_others_is_left") {
        return;
    }
    let _beside = beside_others();
    let mut bystander = Command::new("sleep").arg("60").spawn().expect("sleep");
    let own = std::process::id();
    let parent = std::os::unix::process::parent_id();
    // of this process only the thread that starts it, for other tests start and end theirs
    let of_all = || {
        let mut all = affinity(&[bystander.id(), parent]);
        all.insert(
            own.to_string(),
            affinity(&[own])[&format!("/proc/{own}/task/{own}")].clone(),
        );
        all
    };
    let before = of_all();
    let mut long = Long::start(&["munmap"]);
    assert!(long.begins(), "it has ended by itself");
    let during = of_all();
    long.signal(libc::SIGINT, false);
    long.child.wait().expect("quell ends");
    let after = of_all();
    bystander.kill().expect("sleep is there");
    bystander.wait().expect("sleep ends");
    assert_eq!(before, during);
    assert_eq!(before, after);
}
