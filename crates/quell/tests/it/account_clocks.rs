//! The account's clocks: does the time of a thread have no gap? Against its own clock.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::account::{is_absent, ns};
use crate::common::{GOES, PATIENCE, QUELL, alone, comes_true, example, root_only};

/// How far apart, per cent.
const APART: f64 = 1.0;

/// A program that does nothing but what memory management makes it wait for.
struct Waits {
    by: &'static str,
    /// Its beginning that counts: what is prepared before is none of it.
    beginning: &'static str,
}

const ALL: [Waits; 5] = [
    Waits {
        by: "fault.major",
        beginning: "2",
    },
    Waits {
        by: "fault.swap",
        beginning: "2",
    },
    Waits {
        by: "thrashing",
        beginning: "2",
    },
    Waits {
        by: "fault.anon",
        beginning: "1",
    },
    Waits {
        by: "collapse",
        beginning: "1",
    },
];

/// Its time by state, ns.
struct Times {
    /// By its own clock, from when it went on until it stopped.
    all: u64,
    ran: u64,
    blocked: u64,
    ready: u64,
}

fn signal(child: &Child, signal: i32) {
    let pid = libc::pid_t::try_from(child.id()).expect("a pid");
    // SAFETY: a signal to our own child, which has not been waited for.
    unsafe { libc::kill(pid, signal) };
}

/// Waits until it has stopped itself; false if it has ended.
fn stops(child: &mut Child) -> bool {
    let path = format!("/proc/{}/stat", child.id());
    let state = || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let (_, rest) = text.rsplit_once(')')?;
        rest.trim_start().chars().next()
    };
    let is_over = comes_true(|| matches!(state(), Some('T' | 'Z') | None));
    assert!(is_over, "it does not stop in {PATIENCE:?}");
    state() == Some('T')
}

/// Watches it from one stop to the next; `None`, said loudly, where it can't be.
fn watched(waits: &Waits) -> Option<Times> {
    let mut program = Command::new(example("spends"))
        .args([waits.by, "4000", "itself"])
        .env("QUELL_TEST_FIRST", "1")
        .env("QUELL_TEST_STOPS", waits.beginning)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = Vec::new();
    if stops(&mut program) {
        let mut quell = Command::new(QUELL)
            .args(["stat", "--json", "-I", "1", "-p", &program.id().to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("quell starts");
        let mut told = BufReader::new(quell.stdout.take().expect("a pipe"));
        let mut first = String::new();
        // with the first of its figures it watches
        told.read_line(&mut first).expect("quell tells");
        signal(&program, libc::SIGCONT);
        assert!(stops(&mut program), "it ended early");
        signal(&quell, libc::SIGINT);
        let mut rest = String::new();
        told.read_to_string(&mut rest).expect("quell tells");
        assert!(quell.wait().expect("quell ends").success(), "{first}{rest}");
        lines = [first, rest].concat().lines().map(str::to_owned).collect();
        signal(&program, libc::SIGCONT);
    }
    let out = program.wait_with_output().expect("it ends");
    if is_absent(waits.by, &out) {
        return None;
    }
    let intervals: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    let sum = |of: &dyn Fn(&Value) -> u64| intervals.iter().map(|i| of(&i["account"])).sum::<u64>();
    let own = String::from_utf8_lossy(&out.stdout);
    let all = own.split_whitespace().next().expect("its time");
    Some(Times {
        all: all.parse().expect("a number"),
        ran: sum(&|a| ns(a, "on_cpu_ns")),
        blocked: sum(&|a| ns(a, "blocked_ns")),
        ready: sum(&|a| ns(a, "ready_ns")),
    })
}

/// How far apart they are, per cent.
fn told(by: &str, times: &Times) -> f64 {
    let ours = times.ran + times.blocked + times.ready;
    let apart = 100.0 * ours.abs_diff(times.all) as f64 / times.all.max(1) as f64;
    let ms = |n: u64| n as f64 / 1e6;
    eprintln!(
        "{by:15} {:9.1} ms {:6.1} ms {:6.1} ms {:13.1} ms {apart:6.2} %",
        ms(times.all),
        ms(times.ran),
        ms(times.blocked),
        ms(times.ready),
    );
    apart
}

/// Check that for a thread that does nothing but what memory management makes it wait for, running, waiting for a CPU and being
/// blocked make up all of its time by its own clock, within 1 %: with ten thousand sleeps a second, too.
#[test]
fn running_and_blocked_are_all() {
    const TEST: &str = "running_and_blocked_are_all";
    if !root_only(TEST) {
        return;
    }
    let _alone = alone();
    eprintln!("mechanism       by its clock  running   blocked  waits for a CPU    apart");
    let mut wrong = Vec::new();
    for waits in &ALL {
        // on one machine some switches away from a thread of the kernel's never come by the tracepoint: perf misses the same
        let mut apart = f64::INFINITY;
        for _ in 0..GOES {
            let Some(times) = watched(waits) else {
                apart = 0.0;
                break;
            };
            apart = told(waits.by, &times);
            if apart <= APART {
                break;
            }
        }
        if apart > APART {
            wrong.push(format!("{}: {apart:.2} % apart", waits.by));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
