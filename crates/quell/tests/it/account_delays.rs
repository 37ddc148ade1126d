//! The account's waits, against others that measure the same in the same run: the kernel's delay accounting, and `perf`'s waits for
//! locks.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::account::{is_absent, ns, of_mechanism};
use crate::common::{GOES, QUELL, alone, emulated, example, root_only};
use crate::delay_spans::{self, Like};
use crate::perf;
use crate::perf_sleeps::{Seen, Watch};
use crate::taskstats::{Delays, Ended, Taskstats};

/// How far apart, per cent.
const APART: f64 = 5.0;
/// And of sleeps, some ten thousand a second of 40 µs each. Perf looks at the clock and walks the stack before the account looks at
/// the clock, and a wake-up that takes the thread to another CPU ends the kernel's delay before perf sees it: 0.95 to 1.10 times.
const APART_OF_SLEEPS: f64 = 12.0;

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
    /// How long it waited for a CPU, as the kernel has it, ns.
    waited: u64,
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
    let waited = own.split_whitespace().nth(2).expect("five numbers");
    Some(Run {
        stat: serde_json::from_str(&text).expect("an object"),
        ended: ended.expect("the program ended"),
        pid_of_quell: quell,
        waited: waited.parse().expect("a number"),
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

/// A delay as the kernel adds it up, and what the account says of the same.
struct Delay {
    by: &'static str,
    ms: &'static str,
    name: &'static str,
    told: fn(&Delays) -> Option<u64>,
    mechanism: &'static str,
    /// Time on CPUs, or else asleep.
    on_cpu: bool,
    /// Which part of the mechanism the kernel's delay spans, as perf saw it; `None` where that was not looked at.
    like: Option<fn(&Seen) -> Like>,
    /// Without perf the account's part of the kernel's figure: the least, and the most.
    parts: (f64, f64),
}

/// The kernel's ends as the thread is woken; until it runs again much may pass.
const WOKEN: (f64, f64) = (0.95, 1.5);

const DELAYS: &[Delay] = &[
    Delay {
        by: "fault.major",
        ms: "5000",
        name: "block",
        told: |d| Some(d.block),
        mechanism: "fault.major",
        on_cpu: false,
        like: Some(delay_spans::block_of_files),
        parts: WOKEN,
    },
    Delay {
        by: "fault.swap",
        ms: "5000",
        name: "block",
        told: |d| Some(d.block),
        mechanism: "fault.swap",
        on_cpu: false,
        like: Some(delay_spans::block_of_swap),
        parts: WOKEN,
    },
    Delay {
        by: "fault.swap",
        ms: "10000",
        name: "swapin",
        // until the disk has been asked for the page, which is a part of the fault
        told: |d| Some(d.swapin),
        mechanism: "fault.swap",
        on_cpu: true,
        like: Some(delay_spans::swapin),
        parts: (1.0, 10.0),
    },
    Delay {
        by: "reclaim.direct",
        ms: "20000",
        name: "freepages",
        // by the clock, with whatever else happens on the CPU meanwhile
        told: |d| Some(d.freepages),
        mechanism: "reclaim.direct",
        on_cpu: true,
        like: Some(delay_spans::freepages),
        parts: (0.5, 1.05),
    },
    Delay {
        by: "fault.cow",
        ms: "10000",
        name: "wpcopy",
        // the copying alone, without what else the fault takes and the adding up itself
        told: |d| d.wpcopy,
        mechanism: "fault.cow",
        on_cpu: true,
        like: Some(delay_spans::wpcopy),
        parts: (1.0, 1.4),
    },
    Delay {
        by: "compact.direct",
        ms: "5000",
        name: "compact",
        told: |d| d.compact,
        mechanism: "compact.direct",
        on_cpu: true,
        like: None,
        parts: (0.5, 1.05),
    },
];

/// Three standard errors of time that was sampled, ns.
fn missed(run: &Run, sampled: u64) -> f64 {
    let each = run.account("cpu_ns") as f64 / run.account("samples").max(1) as f64;
    3.0 * (sampled as f64 / each).sqrt() * each
}

impl Delay {
    /// Compares; an `Err` says how far apart they are.
    fn compare(&self, run: &Run, told: u64, seen: Option<&Seen>) -> Result<(), String> {
        let key = if self.on_cpu { "cpu_ns" } else { "blocked_ns" };
        let whole = run.of(self.mechanism, key);
        let cpu = run.account("cpu_ns").max(1) as f64;
        let like = self.like.zip(seen).map(|(like, seen)| {
            // the kernel's sum of CPU time has some of the waiting too: a delay is by the clock, as samples are
            let on_clock = if self.on_cpu {
                seen.sampled_ns() / cpu
            } else {
                1.0
            };
            (like(seen), on_clock)
        });
        let bound = if self.on_cpu { APART } else { APART_OF_SLEEPS };
        let (ours, theirs, (least, most)) = match &like {
            Some((like, on_clock)) => (
                whole as f64 * on_clock * like.inside / like.of.max(1.0),
                (told + like.more).saturating_sub(like.less) as f64,
                (1.0 - bound / 100.0, 1.0 + bound / 100.0),
            ),
            None => {
                let waited = if self.on_cpu { 0 } else { run.waited };
                (whole as f64, (told + waited) as f64, self.parts)
            }
        };
        let of_it = ours / theirs.max(1.0);
        let ms = |n: f64| n / 1e6;
        eprintln!(
            "{:15} {:10} {:7.0} ms {:7.0} ms {:7.0} ms {:7.0} ms  {of_it:5.3}",
            self.by,
            self.name,
            ms(told as f64),
            ms(theirs),
            ms(whole as f64),
            ms(ours),
        );
        let missed = if self.on_cpu { missed(run, whole) } else { 0.0 };
        if ours + missed < least * theirs || ours - missed > most * theirs {
            return Err(format!("{}, {}: {of_it:.3} of it", self.by, self.name));
        }
        Ok(())
    }
}

/// Runs it once and compares; an `Err` says how far apart they are. What can't be compared here is said loudly.
fn once(delay: &Delay, taskstats: &Taskstats) -> Result<(), String> {
    let dir = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let watch = Watch::start(dir.path(), "spends");
    let run = run(delay.by, delay.ms, taskstats);
    let recorded = watch.map(Watch::stop);
    let Some(run) = run else {
        return Ok(());
    };
    let Some(told) = (delay.told)(&run.ended.delays) else {
        eprintln!(
            "SKIPPED {}: this kernel's delay accounting does not add it up",
            delay.name
        );
        return Ok(());
    };
    let Some(watched) = recorded else {
        eprintln!(
            "SKIPPED perf for {}: there is no perf, and the bounds are wide",
            delay.name
        );
        return delay.compare(&run, told, None);
    };
    if watched.lacks_some() {
        return Err(format!("{}: perf lost some of it", delay.name));
    }
    let seen = Seen::of(&watched, run.ended.pid);
    delay.compare(&run, told, Some(&seen))
}

/// Check that waits and time on CPUs are as much of a delay that the kernel adds up itself as what the delay spans lets expect,
/// within what sampling may miss: where perf can tell what it spans, within 5 %, and of sleeps within 12 %.
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
    eprintln!("by              delay       taskstats  made alike     account  made alike  of it");
    let mut wrong = Vec::new();
    for delay in DELAYS {
        let mut last = Ok(());
        for _ in 0..GOES {
            last = once(delay, &taskstats);
            if last.is_ok() {
                break;
            }
        }
        wrong.extend(last.err());
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
    assert!(
        apart(ours, told) <= APART,
        "{ours} ns, and perf says {told}"
    );
}
