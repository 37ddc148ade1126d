//! What the lab leaves behind, however it ends: nothing.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{
    GOES, LAB_LOCK, QUELL, alone, beside_others, comes_true, json, quell, root_only, too_busy,
};

/// A lab that would run for an hour, in a process group of its own, as a shell starts it; and all that it starts can be
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
            .args(["lab", "run", "--json", "--budget", "3600"])
            .args(words)
            .env(name, value)
            .env(LAB_LOCK.0, LAB_LOCK.1)
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
        let ready =
            comes_true(|| self.workers() == 2 || self.child.try_wait().is_ok_and(|s| s.is_some()));
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

/// Check that Ctrl-C, which goes to every process of the terminal, ends it in the middle of a long block, with the result so far, and that nothing that it started goes on.
#[test]
fn interrupt_leaves_a_result() {
    if !root_only("lab::interrupt_leaves_a_result") {
        return;
    }
    let _beside = beside_others();
    // how long it had, too
    let interrupted = |block: &str, more: Duration| -> (Value, Duration) {
        let words = ["dontneed", "--block", block];
        let started = Instant::now();
        let mut long = Long::start(&words);
        assert!(long.begins(), "{words:?}: it has ended by itself");
        std::thread::sleep(more);
        let had = started.elapsed();
        long.signal(libc::SIGINT, true);
        let ended = comes_true(|| long.child.try_wait().is_ok_and(|s| s.is_some()));
        assert!(ended, "{words:?}: it goes on");
        assert_eq!(long.started(), BTreeMap::new(), "{words:?}");
        let mut text = Vec::new();
        let mut stdout = long.child.stdout.take().expect("a pipe");
        std::io::Read::read_to_end(&mut stdout, &mut text).expect("a result");
        let said = json(&text);
        assert_eq!(said["schema"], "quell/lab/1");
        assert_eq!(said["interrupted"], true, "{said:#}");
        (said, had)
    };
    let blocks = |said: &Value| said["arms"]["idle"]["blocks"] != 0;
    // of blocks as long as can be a round takes more than 15 s
    let mut goes = (0..GOES).map(|_| interrupted("5000", Duration::ZERO));
    match goes.find(|(_, had)| had.as_secs() < 15) {
        Some((said, had)) => assert!(!blocks(&said), "a round in {had:?}: {said:#}"),
        None => too_busy("lab::interrupt_leaves_a_result", "it takes long to begin"),
    }
    // a round takes a second, and longer where others want the CPUs
    let mut goes = [0, 10, 60, 240].into_iter().map(Duration::from_secs);
    let whole = goes.any(|more| blocks(&interrupted("150", more).0));
    assert!(whole, "after minutes there is no round");
}

/// What the experiments set, or could: how KSM, huge pages and NUMA balancing are set and what KSM has merged, what can be
/// swapped to, and which compressed devices there are.
fn state() -> BTreeMap<String, String> {
    let mut files: Vec<PathBuf> = [
        "/proc/swaps",
        "/proc/sys/kernel/numa_balancing",
        "/sys/kernel/mm/ksm/pages_shared",
    ]
    .map(PathBuf::from)
    .to_vec();
    for folder in [
        "/sys/kernel/mm/ksm",
        "/sys/kernel/mm/transparent_hugepage",
        "/sys/kernel/mm/transparent_hugepage/khugepaged",
        "/proc/sys/vm",
    ] {
        let all = fs::read_dir(folder).into_iter().flatten();
        // what can be set, and not what is counted
        files.extend(all.filter_map(|e| {
            let e = e.ok()?;
            let is_set = e.metadata().ok()?.permissions().mode() & 0o200 != 0;
            (is_set && e.file_type().ok()?.is_file()).then(|| e.path())
        }));
    }
    let mut state: BTreeMap<String, String> = files
        .into_iter()
        .filter_map(|file| {
            // how much of a swap is in use is nobody's setting
            let of_swaps = |text: String| match file.ends_with("swaps") {
                true => text
                    .lines()
                    .map(|l| l.split_whitespace().next().unwrap_or_default().to_owned() + "\n")
                    .collect(),
                false => text,
            };
            let text = fs::read_to_string(&file).ok().map(of_swaps)?;
            Some((file.display().to_string(), text))
        })
        .collect();
    let devices = fs::read_dir("/sys/block").expect("/sys/block");
    for name in devices.filter_map(|e| e.ok()?.file_name().into_string().ok()) {
        if name.starts_with("zram") {
            state.insert(name, String::new());
        }
    }
    state
}

/// What is not as it was.
fn changed(before: &BTreeMap<String, String>) -> Vec<(String, Option<String>)> {
    let now = state();
    let mut all: Vec<&String> = before.keys().chain(now.keys()).collect();
    all.sort();
    all.dedup();
    all.into_iter()
        .filter(|name| before.get(*name) != now.get(*name))
        .map(|name| (name.clone(), now.get(name).cloned()))
        .collect()
}

/// Pages that KSM has merged for programs that have gone are counted until ksmd comes by, and while it stands still the
/// lab refuses to begin. True where nobody has any, and where those were all.
fn nothing_merged() -> bool {
    let read = |name: &str| fs::read_to_string(format!("/sys/kernel/mm/ksm/{name}"));
    let says = |name: &str, value: &str| read(name).is_ok_and(|text| text.trim() == value);
    says("pages_shared", "0") && !says("run", "1")
}

/// Check that what was set up is taken back after Ctrl-C, and soon after kill -9, when the workers go too; that pages that ksmd has merged are so no more; and that it was set up at all.
#[test]
fn ended_lab_leaves_nothing() {
    if !root_only("ended_lab_leaves_nothing") {
        return;
    }
    let _alone = alone();
    for (experiment, signal) in [
        ("swap", libc::SIGINT),
        ("swap", libc::SIGKILL),
        ("ksm", libc::SIGINT),
        ("ksm", libc::SIGKILL),
    ] {
        if experiment == "ksm" && !nothing_merged() {
            eprintln!("SKIPPED ended_lab_leaves_nothing: KSM is in use, or this kernel has none");
            continue;
        }
        let before = state();
        let mut long = Long::start(&[experiment]);
        if !long.begins() {
            eprintln!("SKIPPED ended_lab_leaves_nothing: {experiment} can't run here");
            continue;
        }
        let is_guarded = long.started().values().any(|word| word == "guard");
        assert_eq!(!changed(&before).is_empty(), is_guarded, "{experiment}");
        long.signal(signal, signal == libc::SIGINT);
        let status = long.child.wait().expect("quell ends");
        if signal == libc::SIGINT {
            // too few rounds, or not; but no error
            assert!(matches!(status.code(), Some(0 | 1)), "{status}");
            assert_eq!(changed(&before), [], "{experiment} after Ctrl-C");
            continue;
        }
        comes_true(|| changed(&before).is_empty() && long.started().is_empty());
        assert_eq!(changed(&before), [], "{experiment} after kill -9");
        assert_eq!(long.started(), BTreeMap::new(), "{experiment}");
    }
}

/// Check that where the process is killed that takes the system back, the lab does it when it ends.
#[test]
fn killed_guard_leaves_nothing() {
    if !root_only("killed_guard_leaves_nothing") {
        return;
    }
    let _alone = alone();
    let before = state();
    let mut long = Long::start(&["swap"]);
    let guard = |long: &Long| {
        let started = long.started();
        let guard = started.into_iter().find(|(_, word)| word == "guard");
        guard.map(|(pid, _)| pid)
    };
    if !long.begins() || guard(&long).is_none() {
        eprintln!("SKIPPED killed_guard_leaves_nothing: nothing is set up for swap here");
        return;
    }
    assert_ne!(changed(&before), []);
    let pid = guard(&long).expect("a guard");
    // SAFETY: sends a signal to a process that this test has started, by way of quell.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    long.signal(libc::SIGINT, false);
    let status = long.child.wait().expect("quell ends");
    assert!(matches!(status.code(), Some(0 | 1)), "{status}");
    assert_eq!(changed(&before), []);
}

/// Check that each experiment that needs something of the system leaves it as it was.
#[test]
fn runs_leave_the_system() {
    if !root_only("runs_leave_the_system") {
        return;
    }
    let _alone = alone();
    for experiment in [
        "swap",
        "ksm",
        "numa-balancing",
        "compact",
        "collapse",
        "khugepaged",
    ] {
        let before = state();
        let out = quell(&["lab", "run", experiment, "--budget", "1", "--block", "50"]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(matches!(out.status.code(), Some(0..=2)), "{said}");
        if out.status.code() == Some(2) {
            eprintln!(
                "SKIPPED runs_leave_the_system: {experiment}: {}",
                said.trim()
            );
        }
        assert!(!said.contains("not as it was"), "{said}");
        assert_eq!(changed(&before), [], "{experiment}: {said}");
    }
}

/// Check that what can't be taken back, for somebody has the device open, is said with exit status 1, beside the result, and that the commands that are said undo it.
#[test]
fn what_stays_is_said() {
    if !root_only("what_stays_is_said") {
        return;
    }
    let _alone = alone();
    let before = state();
    if before["/proc/swaps"].lines().count() > 1 {
        eprintln!("SKIPPED what_stays_is_said: there is swap, so none is made");
        return;
    }
    let mut lab = Command::new(QUELL)
        .args(["lab", "run", "swap", "--json", "--budget", "3600"])
        .env(LAB_LOCK.0, LAB_LOCK.1)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("quell starts");
    let device = || {
        let now = state();
        let new = now.keys().find(|name| !before.contains_key(*name))?;
        let swaps = now["/proc/swaps"].contains(new.as_str());
        swaps.then(|| format!("/dev/{new}"))
    };
    comes_true(|| device().is_some() || lab.try_wait().is_ok_and(|s| s.is_some()));
    let held = device().map(|device| fs::File::open(device).expect("a device"));
    if lab.try_wait().is_ok_and(|s| s.is_none()) {
        // SAFETY: sends a signal to a process that this test started and has not waited for.
        unsafe { libc::kill(lab.id().cast_signed(), libc::SIGINT) };
    }
    let out = lab.wait_with_output().expect("quell ends");
    let said = String::from_utf8_lossy(&out.stderr);
    if held.is_none() {
        eprintln!("SKIPPED what_stays_is_said: {said}");
        return;
    }
    drop(held);
    let commands = said
        .lines()
        .find_map(|line| line.split_once("this undoes it: "))
        .map(|(_, commands)| commands)
        .unwrap_or_else(|| panic!("nothing said: {said}"));
    let undone = Command::new("sh").args(["-c", commands]).status();
    assert!(undone.is_ok_and(|s| s.success()), "{commands}");
    assert_eq!(changed(&before), [], "{commands}");
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert_eq!(json(&out.stdout)["interrupted"], true);
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
    let mut bystander = Command::new("sleep").arg("3600").spawn().expect("sleep");
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
