//! The account's waits, against others that measure the same in the same run: the kernel's delay accounting, `perf`'s waits for
//! locks, and the clock.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::account::{is_absent, ns, of_mechanism};
use crate::common::{QUELL, alone, emulated, example, root_only};
use crate::perf;
use crate::taskstats::{Ended, Taskstats};

/// How far apart, per cent, where a thread sleeps ten thousand times a second: what it did before its clock began is by the
/// kernel's figures, which have the end of a sleep elsewhere.
const APART: f64 = 5.0;

fn apart(a: u64, b: u64) -> f64 {
    100.0 * a.abs_diff(b) as f64 / b.max(1) as f64
}

/// Delay accounting is on, until this goes: then, or when the tests are killed, it is as it was.
struct DelayAccounting(std::process::Child);

impl DelayAccounting {
    const KNOB: &str = "/proc/sys/kernel/task_delayacct";

    /// `None` where this kernel has no such setting.
    fn on() -> Option<Self> {
        let before = std::fs::read_to_string(Self::KNOB).ok()?;
        // reads until the tests close its input, or are gone
        let guard = Command::new("setsid")
            .args(["sh", "-c", "cat >/dev/null; echo \"$0\" >\"$1\""])
            .args([before.trim(), Self::KNOB])
            .stdin(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let on = Self(guard);
        // where that is refused it goes again
        std::fs::write(Self::KNOB, "1").ok().map(|()| on)
    }
}

impl Drop for DelayAccounting {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// What a run of the program left.
struct Run {
    stat: Value,
    /// The first process of its own, which does all of it.
    ended: Ended,
    pid_of_quell: u32,
    /// What it says itself of its time: how long it went on, of that on a CPU, and waiting for one; and waiting for
    /// one and having one before, ns.
    own: [u64; 5],
}

impl Run {
    fn account(&self, key: &str) -> u64 {
        ns(&self.stat["account"], key)
    }

    fn of(&self, mechanism: &str, key: &str) -> u64 {
        of_mechanism(&self.stat["account"], mechanism, key)
    }
}

/// Runs it; `None`, said loudly, where it can't be.
fn run(by: &str, ms: &str, taskstats: &Taskstats) -> Option<Run> {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("stat.json");
    let child = Command::new(QUELL)
        .args(["stat", "--json", "-o"])
        .arg(&file)
        .arg("--")
        .args([&example("spends"), by, ms, "itself"])
        // what the kernel calls a delay goes on while others have the CPU
        .env("QUELL_TEST_FIRST", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("quell starts");
    let quell = child.id();
    let out = child.wait_with_output().expect("quell ends");
    if is_absent(by, &out) {
        return None;
    }
    let text = std::fs::read_to_string(&file).expect("the counts");
    let ended = taskstats.descendants(quell).into_iter().next();
    let own = String::from_utf8_lossy(&out.stdout);
    let own = own.split_whitespace().map(|w| w.parse().expect("a number"));
    let own: Vec<u64> = own.collect();
    Some(Run {
        stat: serde_json::from_str(&text).expect("an object"),
        ended: ended.expect("the program ended"),
        pid_of_quell: quell,
        own: own.try_into().expect("five numbers"),
    })
}

fn listen(test: &str) -> Option<Taskstats> {
    match Taskstats::listen() {
        Ok(taskstats) => Some(taskstats),
        Err(err) => {
            eprintln!("SKIPPED {test}: {err}");
            None
        }
    }
}

/// Check that for a thread that does nothing but what memory management makes it wait for, running, waiting for a CPU and being
/// blocked make up all of its time: by its own clock, and what the kernel says of what it did before that began.
#[test]
fn running_and_blocked_are_all() {
    const TEST: &str = "running_and_blocked_are_all";
    if !root_only(TEST) {
        return;
    }
    let _alone = alone();
    let Some(taskstats) = listen(TEST) else {
        return;
    };
    eprintln!("mechanism       by its clock  running   blocked  waits for a CPU    apart");
    let mut wrong = Vec::new();
    let all: [(&str, &[&str]); 5] = [
        ("fault.major", &["fault.major"]),
        ("fault.swap", &["fault.swap", "reclaim.direct"]),
        ("thrashing", &["fault.major", "reclaim.direct"]),
        ("fault.anon", &["fault.anon"]),
        ("collapse", &["collapse"]),
    ];
    for (by, its_waits) in all {
        let Some(run) = run(by, "4000", &taskstats) else {
            continue;
        };
        let [all, _, _, waited_before, ran_before] = run.own;
        // from switch to switch, as what is asleep is
        let ran = run.account("on_cpu_ns").saturating_sub(ran_before);
        // what was prepared before waits too, by other mechanisms
        let waits = |m: &&str| run.of(m, "blocked_ns");
        let blocked: u64 = its_waits.iter().map(waits).sum();
        let ready = run.account("ready_ns").saturating_sub(waited_before);
        let ours = ran + blocked + ready;
        let ms = |n: u64| n as f64 / 1e6;
        eprintln!(
            "{by:15} {:9.0} ms {:6.0} ms {:6.0} ms {:13.0} ms {:6.2} %",
            ms(all),
            ms(ran),
            ms(blocked),
            ms(ready),
            apart(ours, all),
        );
        if apart(ours, all) > APART {
            wrong.push(format!("{by}: {ours} of {all} ns"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A delay as the kernel adds it up, and what the account says of the same.
struct Delay {
    by: &'static str,
    name: &'static str,
    told: fn(&Run) -> Option<u64>,
    mechanism: &'static str,
    /// Time on CPUs, or else asleep.
    on_cpu: bool,
    /// The account's part of the kernel's figure: the least, and the most.
    parts: (f64, f64),
}

/// The kernel's ends as the thread is woken, and where another CPU is asked to run it the time until that one has heard is in
/// no figure of the kernel's; with tens of thousands of waits a second it is much.
const WOKEN: (f64, f64) = (0.95, 1.5);

const DELAYS: &[Delay] = &[
    Delay {
        by: "fault.major",
        name: "block",
        // that ends as it is woken: then it waits for a CPU
        told: |r| Some(r.ended.delays.block + r.own[2]),
        mechanism: "fault.major",
        on_cpu: false,
        parts: WOKEN,
    },
    Delay {
        by: "fault.swap",
        name: "block",
        told: |r| Some(r.ended.delays.block + r.own[2]),
        mechanism: "fault.swap",
        on_cpu: false,
        parts: WOKEN,
    },
    Delay {
        by: "fault.swap",
        name: "swapin",
        // until the disk has been asked for the page, which is a part of the fault
        told: |r| Some(r.ended.delays.swapin),
        mechanism: "fault.swap",
        on_cpu: true,
        parts: (1.0, 10.0),
    },
    Delay {
        by: "reclaim.direct",
        name: "freepages",
        // by the clock, with whatever else happens on the CPU meanwhile
        told: |r| Some(r.ended.delays.freepages),
        mechanism: "reclaim.direct",
        on_cpu: true,
        parts: (0.5, 1.05),
    },
    Delay {
        by: "fault.cow",
        name: "wpcopy",
        // the copying alone, without what else the fault takes and the adding up itself
        told: |r| r.ended.delays.wpcopy,
        mechanism: "fault.cow",
        on_cpu: true,
        parts: (1.0, 1.4),
    },
    Delay {
        by: "compact.direct",
        name: "compact",
        told: |r| r.ended.delays.compact,
        mechanism: "compact.direct",
        on_cpu: true,
        parts: (0.5, 1.05),
    },
];

/// Three standard errors of time that was sampled, ns.
fn missed(run: &Run, sampled: u64) -> f64 {
    let each = run.account("cpu_ns") as f64 / run.account("samples").max(1) as f64;
    3.0 * (sampled as f64 / each).sqrt() * each
}

/// Check that waits and time on CPUs are as much of a delay that the kernel adds up itself as what the delay spans lets expect,
/// within what sampling may miss.
#[test]
fn delays_are_the_kernels() {
    const TEST: &str = "delays_are_the_kernels";
    if !root_only(TEST) {
        return;
    }
    let _alone = alone();
    let Some(taskstats) = listen(TEST) else {
        return;
    };
    let Some(_on) = DelayAccounting::on() else {
        eprintln!("SKIPPED {TEST}: this kernel's delay accounting can't be switched on");
        return;
    };
    eprintln!("by              delay      taskstats    account  of it");
    let mut wrong = Vec::new();
    for delay in DELAYS {
        let Some(run) = run(delay.by, "5000", &taskstats) else {
            continue;
        };
        let Some(told) = (delay.told)(&run) else {
            eprintln!(
                "SKIPPED {} in {TEST}: this kernel does not add it up",
                delay.name
            );
            continue;
        };
        let key = if delay.on_cpu { "cpu_ns" } else { "blocked_ns" };
        let ours = run.of(delay.mechanism, key);
        let of_it = ours as f64 / told.max(1) as f64;
        eprintln!(
            "{:15} {:10} {:6.0} ms {:7.0} ms  {of_it:5.2}",
            delay.by,
            delay.name,
            told as f64 / 1e6,
            ours as f64 / 1e6,
        );
        let (least, most) = delay.parts;
        let missed = if delay.on_cpu {
            missed(&run, ours)
        } else {
            0.0
        };
        let (ours, told) = (ours as f64, told as f64);
        if ours + missed < least * told || ours - missed > most * told {
            wrong.push(format!("{}, {}: {of_it:.2} of it", delay.by, delay.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Check that waits for the lock of an address space are as long as `perf` sees them, within 5 %.
#[test]
fn lock_waits_are_those_of_perf() {
    const TEST: &str = "lock_waits_are_those_of_perf";
    if !root_only(TEST) {
        return;
    }
    let _alone = alone();
    if emulated() {
        eprintln!("SKIPPED {TEST}: the virtual machine has no perf");
        return;
    }
    let Some(taskstats) = listen(TEST) else {
        return;
    };
    let dir = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let events = [
        "-e",
        "lock:contention_begin",
        "--filter",
        "flags == 2 || flags == 4",
        "-e",
        "lock:contention_end",
    ];
    let Some(perf) = perf::Recording::start(&dir.path().join("perf.data"), &events) else {
        eprintln!("SKIPPED {TEST}: there is no perf");
        return;
    };
    let run = run("lock.mmap", "5000", &taskstats);
    let recorded = perf.stop();
    let Some(run) = run else {
        return;
    };
    let family = recorded.family(run.pid_of_quell);
    let mut by_lock = std::collections::HashMap::<String, (u64, u64)>::new();
    for wait in recorded.waits().iter().filter(|w| family.contains(&w.pid)) {
        let sum = by_lock.entry(wait.lock.clone()).or_default();
        *sum = (sum.0 + wait.ns, sum.1 + 1);
    }
    // what the program and its child use both is the lock of its address space
    let (told, waits) = by_lock.into_values().max().expect("waits for a lock");
    let ours = run.of("lock.mmap", "blocked_ns");
    eprintln!(
        "lock.mmap: {:.1} ms asleep in {} waits; perf {:.1} ms in {waits}; {:.1} % apart",
        ours as f64 / 1e6,
        run.of("lock.mmap", "count"),
        told as f64 / 1e6,
        apart(ours, told)
    );
    assert!(apart(ours, told) <= 5.0, "{ours} ns, and perf says {told}");
}
