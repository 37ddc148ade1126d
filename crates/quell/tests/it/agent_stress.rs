//! The agent beside very many processes, and very many cgroups.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use quell_event::Cause;
use quell_probe::{Backend, Probe, ProbeOptions, TimedShare};

use crate::agent_clock::Clocks;
use crate::agents::{Agent, PATIENCE, built, can_stress, series, shrunk, sum};
use crate::common::{GOES, QUELL, alone, comes_true, example, first, too_busy};

/// What /metrics has at most: 2,000 series.
const MOST_SERIES: usize = 2000;
/// Pages of its heap come and go by some.
const MORE_KB: u64 = 4 << 10;
/// What it has in all at most.
const MOST_KB: u64 = 34 << 10;

/// By how much the sum of a family grew.
fn grown(before: &str, after: &str, family: &str, label: &str) -> u64 {
    sum(after, family, label) - sum(before, family, label)
}

/// The shootdowns that a program of many munmaps has made, and those that found nobody to interrupt, of all programs.
fn munmaps(before: &str, after: &str) -> (u64, u64) {
    (
        grown(before, after, "quell_shootdowns_total", "cause=\"munmap\""),
        grown(before, after, "quell_empty_sends_total", ""),
    )
}

fn looks(text: &str) -> u64 {
    sum(text, "quell_agent_looks_total", "")
}

/// The metrics once all that was shot until now is told: the kernel's count is read with each page and ours at each look, so that
/// what came between the two is told by the next look.
fn settled(agent: &Agent) -> String {
    let now = looks(&agent.get("/metrics"));
    agent.metrics(|text| looks(text) >= now + 2)
}

/// What the kernel counted is told, or told to be lost. Its count and ours are read one after the other, and others shoot
/// meanwhile.
fn adds_up(before: &str, after: &str) {
    let kernel = grown(before, after, "quell_tlb_interrupts_total", "");
    let told = grown(before, after, "quell_victims_total", "");
    let lost: u64 = ["unseen", "renewed"]
        .iter()
        .map(|kind| {
            grown(
                before,
                after,
                "quell_lost_events_total",
                &format!("missing=\"{kind}\""),
            )
        })
        .sum();
    let slack = 50 + kernel / 50;
    assert!(
        told + lost + slack >= kernel,
        "{told} victims told and {lost} lost, of {kernel}"
    );
    assert!(told <= kernel + slack, "{told} victims told, of {kernel}");
    assert_eq!(shrunk(before, after), Vec::<String>::new());
}

/// Check that thousands of processes, which come and go as quickly as the machine can start them, leave nothing behind: not in
/// memory, in open files or in series; and that what they shot is told.
#[test]
fn thousands_of_processes() {
    if !can_stress("thousands_of_processes") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    let shooters = built("shooters", &[], dir.path());
    let shoot = |count: u64| {
        let out = Command::new(&shooters)
            .args(["processes", &count.to_string(), "250"])
            .output()
            .expect("it starts");
        assert!(out.status.success(), "{out:?}");
        let ns = String::from_utf8_lossy(&out.stdout).trim().parse::<u64>();
        ns.expect("how long") as f64 / 1e9
    };
    let agent = Agent::start(Command::new(QUELL).args(["--color", "never"]));
    agent.metrics(|text| looks(text) > 0);
    // the first shootdown that no system call explains takes the names of the kernel's functions, some 8 MB, once
    agent.metrics(|text| {
        let made = Command::new(example("causes")).args(["cow", "40"]).status();
        assert!(made.expect("it starts").success());
        sum(text, "quell_shootdowns_total", "cause=\"cow\"") > 0
    });
    shoot(1000);
    let before = settled(&agent);
    let (memory, files, threads) = (agent.memory(), agent.files(), agent.status("Threads"));

    // A thousand of them shoot twice, where their other thread has a CPU; where others have it that may take several goes.
    let mut goes = (0..GOES).map(|_| {
        let rate = 4000.0 * 60.0 / shoot(4000);
        let after = settled(&agent);
        let (shot, empty) = munmaps(&before, &after);
        println!("{rate:.0} processes a minute; {shot} munmaps told, {empty} empty");
        (shot + empty, after)
    });
    let Some((_, after)) = goes.find(|(shot, _)| *shot > 100) else {
        too_busy("thousands_of_processes", "hardly any of them shoots");
        return;
    };
    println!(
        "{memory} kB, then {}; {} files, then {}; {} series",
        agent.memory(),
        files.len(),
        agent.files().len(),
        series(&after)
    );
    adds_up(&before, &after);
    for (causes, groups) in [
        ("quell_shootdowns_total", "quell_cgroup_shootdowns_total"),
        ("quell_victim_hits_total", "quell_cgroup_hits_total"),
    ] {
        assert_eq!(sum(&after, causes, ""), sum(&after, groups, ""), "{after}");
    }
    assert!(
        agent.memory() <= memory + MORE_KB,
        "{memory} kB, then {}",
        agent.memory()
    );
    assert_eq!((agent.files(), agent.status("Threads")), (files, threads));
    assert!(series(&after) <= MOST_SERIES);
    assert_eq!(sum(&after, "quell_agent_series_left_out", ""), 0);
    let said: Vec<String> = agent.said.try_iter().collect();
    assert!(said.is_empty(), "{said:?}");
    agent.stop();
}

/// A cgroup for the test that goes with it, and all below.
pub(crate) struct Cgroup(pub(crate) PathBuf);

impl Cgroup {
    /// `None` where there is no hierarchy of cgroup v2, or none that can be written to.
    fn new() -> Option<Self> {
        let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let mount = mounts
            .into_iter()
            .find(|m| m.join("cgroup.controllers").exists())?;
        let path = mount.join(format!("quell-test-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    pub(crate) fn name(&self, below: &str) -> String {
        let folder = self
            .0
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        format!("cgroup=\"/{folder}/{below}/")
    }

    /// Removes it; what runs there is over.
    fn remove(folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                Self::remove(&entry.path());
            }
        }
        // who has just ended may still be counted there
        comes_true(|| fs::remove_dir(folder).is_ok() || !folder.exists());
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        Self::remove(&self.0);
    }
}

/// A cgroup to stress the agent in; `None` is said to skip the test.
pub(crate) fn cgroup_for(test: &str) -> Option<Cgroup> {
    if !can_stress(test) {
        return None;
    }
    let cgroup = Cgroup::new();
    if cgroup.is_none() {
        eprintln!("SKIPPED {test}: there is no cgroup v2 that can be written to");
    }
    cgroup
}

/// Check that a process which moves to another cgroup and shoots on counts there from then on, as culprit and as
/// victim, also where it is not timed: who a CPU ran last is remembered.
#[test]
fn a_process_that_moves() {
    const SHOTS: u64 = 4000;
    let Some(cgroup) = cgroup_for("a_process_that_moves") else {
        return;
    };
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    let shooters = built("shooters", &[], dir.path());
    let folders = ["from", "to"].map(|name| {
        let folder = cgroup.0.join(name);
        fs::create_dir(&folder).expect("made");
        folder
    });
    let options = ProbeOptions {
        by_cgroup: true,
        timed: TimedShare::SPARING_RATE,
        backend: Some(Backend::RawTp),
        ..ProbeOptions::default()
    };
    let symbols = fs::read_to_string("/proc/kallsyms").expect("it is there");
    if !symbols.contains("__traceiter_csd_queue_cpu") {
        eprintln!("SKIPPED a_process_that_moves: this kernel has no tracepoint csd_queue_cpu");
        return;
    }
    let counted = || {
        let mut probe = Probe::attach(&options).expect("attached");
        let moved = Command::new(first()[0])
            .args(&first()[1..])
            .arg(&shooters)
            .arg("moved")
            .args(&folders)
            .arg(SHOTS.to_string())
            .status();
        assert!(moved.expect("it starts").success());
        probe.detach().expect("detached");
        let tally = probe.tally().expect("read");
        let [from, to] = [&folders[0], &folders[1]].map(|folder| {
            let id = fs::metadata(folder).expect("it is there").ino();
            let hits: u64 = (tally.victims.iter().filter(|v| v.cgroup == id))
                .map(|v| v.hits)
                .sum();
            let shot = tally
                .culprits
                .iter()
                .filter(|c| c.cgroup == id && c.cause == Cause::Munmap);
            let shot: u64 = shot.map(|c| c.counts.shootdowns).sum();
            println!(
                "{}: {shot} shot, {hits} hits, of all {} not timed",
                folder.display(),
                tally.untimed
            );
            (shot, hits)
        });
        (from, to, tally.untimed)
    };
    // on a busy machine some find that nobody runs, and more are timed as they come more slowly
    let mut goes = (0..GOES).map(|_| counted());
    let shoots = |&(from, to, untimed): &((u64, u64), (u64, u64), u64)| {
        from.0 > SHOTS / 2 && to.0 > SHOTS / 2 && untimed > SHOTS
    };
    let Some((from, to, _)) = goes.find(shoots) else {
        too_busy("a_process_that_moves", "it hardly shoots");
        return;
    };
    for (shot, hits) in [from, to] {
        assert!(shot <= SHOTS, "{shot}");
        assert!(
            hits + SHOTS / 100 >= shot && hits < shot + SHOTS / 10,
            "{hits} of {shot}"
        );
    }
}

/// Check that ten thousand cgroups that shoot are told by cause, as many shootdowns as they made, in few series; that the
/// tables that are full of them are renewed; and that then new cgroups are told by name again.
#[test]
fn ten_thousand_cgroups() {
    const MANY: u64 = 10_000;
    const SHOTS: u64 = 2;
    let Some(cgroup) = cgroup_for("ten_thousand_cgroups") else {
        return;
    };
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a directory");
    let shooters = built("shooters", &[], dir.path());
    let shoot = |below: &str, count: u64, shots: u64| {
        let folder = cgroup.0.join(below);
        fs::create_dir_all(&folder).expect("made");
        let status = Command::new(&shooters)
            .args(["cgroups"])
            .arg(&folder)
            .args([count.to_string(), shots.to_string()])
            .stdout(std::process::Stdio::null())
            .status();
        assert!(status.expect("it starts").success());
        folder
    };
    let clocks = Clocks::new(dir.path());
    let agent = Agent::start(&mut clocks.quell());
    let before = agent.metrics(|text| looks(text) > 1);
    let memory = agent.memory();
    let begun = Instant::now();
    let many = shoot("many", MANY, SHOTS);
    let took = begun.elapsed();
    let told = |text: &str| {
        let (shot, empty) = munmaps(&before, text);
        shot + empty >= MANY * SHOTS
    };
    let full = agent.metrics(told);
    let (shot, empty) = munmaps(&before, &full);
    println!(
        "{MANY} cgroups in {took:?}; {shot} munmaps told, {empty} empty; {} series; {memory} kB, then {}",
        series(&full),
        agent.memory()
    );
    if shot < MANY * SHOTS / 2 {
        too_busy("ten_thousand_cgroups", "most find nobody to hit");
        return;
    }
    if shot > MANY * SHOTS + 1000 {
        too_busy("ten_thousand_cgroups", "others shoot as much");
    }
    adds_up(&before, &full);
    assert!(series(&full) <= MOST_SERIES);
    let lost = |text: &str, kind: &str| {
        sum(
            text,
            "quell_lost_events_total",
            &format!("missing=\"{kind}\""),
        )
    };
    assert_eq!(lost(&full, "crowded"), 0, "each has its cause");
    assert!(fs::read_dir(&many).expect("it is there").count() as u64 > MANY);

    // a cgroup that is new now finds no room, and counts as one of the others
    let late = shoot("late", 1, 3000);
    let crowded = agent.metrics(|text| munmaps(&full, text).0 + munmaps(&full, text).1 >= 3000);
    adds_up(&full, &crowded);
    let id = fs::metadata(late.join("0")).expect("it is there").ino();
    // It may have a name for its time in memory management, which is told apart in a table of its own.
    let shot_by = |label: &str| sum(&crowded, "quell_cgroup_shootdowns_total", label);
    assert_eq!(
        shot_by(&cgroup.name("late")) + shot_by(&format!("cgroup=\"id {id}\"")),
        0,
        "the tables were to be full: {crowded}"
    );
    assert_eq!(sum(&crowded, "quell_agent_renewals_total", ""), 0);
    Cgroup::remove(&many);
    assert!(!many.exists());

    // tables are renewed no more often than every five minutes, which pass at once here
    clocks.set(0, 301_000_000_000);
    let renewed = agent.metrics(|text| sum(text, "quell_agent_renewals_total", "") > 0);
    assert_eq!(sum(&renewed, "quell_agent_renewals_total", ""), 1);
    assert_eq!(sum(&renewed, "quell_agent_failed_renewals_total", ""), 0);
    let files = agent.files();
    // what attaching anew shot itself is not part of the account
    let renewed = settled(&agent);
    // what it does before it has a name counts as the others'; names are looked for every half minute
    shoot("new", 1, 500);
    clocks.set(0, 400_000_000_000);
    let until = Instant::now() + PATIENCE;
    let named = |text: &str| sum(text, "quell_cgroup_shootdowns_total", &cgroup.name("new"));
    while named(&agent.get("/metrics")) == 0 {
        assert!(
            Instant::now() < until,
            "no new cgroup has a name: {}",
            agent.get("/metrics")
        );
        shoot("new", 1, 500);
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    let after = settled(&agent);
    adds_up(&renewed, &after);
    assert_eq!(agent.files(), files);
    // the kernel's symbols, what ten thousand names took, and what loading a probe again left in the heap
    let most = memory + 4 * MORE_KB;
    println!(
        "{memory} kB, then {}; in all {} kB, {} at most",
        agent.memory(),
        agent.status("VmRSS"),
        agent.status("VmHWM")
    );
    assert!(
        agent.memory() <= most,
        "{memory} kB, then {}",
        agent.memory()
    );
    assert!(agent.status("VmRSS") <= MOST_KB);
    let said: Vec<String> = agent.said.try_iter().collect();
    assert!(said.is_empty(), "{said:?}");
    agent.stop();
}
