//! When a thread left its CPU, was woken and ran again, as `perf record` saw the scheduler do it; and how much of its time on a
//! CPU was within a function.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::perf::{Recorded, Recording, entries, functions, pid};

/// So many samples are taken in a second on a CPU.
const RATE: u32 = 1997;

/// A thread was off its CPU.
pub(crate) struct Off {
    /// It slept, and was no more than waiting for a CPU.
    pub(crate) slept: bool,
    /// Until it was woken, and from then on until it ran again, ns.
    pub(crate) asleep: u64,
    pub(crate) woken: u64,
    stack: Vec<String>,
}

impl Off {
    pub(crate) fn is_in(&self, function: &str) -> bool {
        self.stack.iter().any(|f| f == function)
    }
}

/// What was seen of a thread.
pub(crate) struct Seen {
    pub(crate) offs: Vec<Off>,
    /// Stacks of samples, innermost function first, with how far within it: `function+0x1f`.
    samples: Vec<Vec<String>>,
}

/// perf at work: one for samples, one for switches, for a rate would hold for both.
///
/// A thread's return is taken from a record of perf's own, not from the tracepoint: that fires while the CPU's idle task is still
/// the current one, and of an idle task perf may see no tracepoint for as long as the system runs (Linux 6.18: the task's guard
/// against events within events, `perf_recursion`, stays taken on one CPU). A wake-up by an interrupt of that CPU is lost the same
/// way.
pub(crate) struct Watch {
    samples: Recording,
    switches: Recording,
    at: PathBuf,
}

/// What it left.
pub(crate) struct Watched {
    samples: Recorded,
    switches: Recorded,
    at: PathBuf,
}

/// A field of a tracepoint, as perf prints it.
fn field<'t>(told: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = told.split_once(name)?;
    rest.split_whitespace().next()
}

fn time(words: &str) -> Option<u64> {
    let word = words.split_whitespace().find(|w| w.ends_with(':'))?;
    let (seconds, ns) = word.trim_end_matches(':').split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + ns.parse::<u64>().ok()?)
}

impl Watch {
    /// Begins with threads of that name; `None` if there is no perf.
    pub(crate) fn start(folder: &Path, comm: &str) -> Option<Self> {
        let switched = format!("prev_comm == \"{comm}\" || next_comm == \"{comm}\"");
        let woken = format!("comm == \"{comm}\"");
        let events = [
            "-e",
            "sched:sched_switch",
            "--filter",
            &switched,
            "-e",
            "sched:sched_wakeup",
            "--filter",
            &woken,
            "-g",
            "--kernel-callchains",
            "--switch-events",
        ];
        let rate = RATE.to_string();
        let clock = ["-e", "cpu-clock", "-F", &rate, "-g", "--kernel-callchains"];
        let at = folder.join("switches.data");
        Some(Self {
            samples: Recording::start(&folder.join("samples.data"), &clock)?,
            switches: Recording::start(&at, &events)?,
            at,
        })
    }

    pub(crate) fn stop(self) -> Watched {
        Watched {
            samples: self.samples.stop(),
            switches: self.switches.stop(),
            at: self.at,
        }
    }
}

impl Watched {
    /// Did perf have no room for some? Sums are too small then.
    pub(crate) fn lacks_some(&self) -> bool {
        self.samples.lacks_some() || self.switches.lacks_some()
    }

    /// The tracepoints with their stacks, and perf's own records of who left a CPU and who came to one.
    fn switches(&self) -> String {
        let fields = "comm,pid,tid,time,event,trace,ip,sym";
        let out = Command::new("perf")
            .args(["script", "--ns", "--show-switch-events", "-F", fields, "-i"])
            .arg(&self.at)
            .output()
            .expect("perf starts");
        assert!(out.status.success(), "{out:?}");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

impl Seen {
    /// Of one thread.
    pub(crate) fn of(watched: &Watched, tid: u32) -> Self {
        let text = watched.samples.script("comm,pid,tid,ip,sym,symoff");
        let its =
            |entry: &Vec<&str>| pid(entry[0]) == Some(tid) && !entry[0].contains(" PERF_RECORD_");
        let owned = |stack: &[&str]| functions(stack).into_iter().map(str::to_owned).collect();
        let stacks = entries(&text)
            .iter()
            .filter(|e| its(e))
            .map(|e| owned(&e[1..]))
            .collect();
        let mut seen = Self {
            offs: Vec::new(),
            samples: stacks,
        };
        let text = watched.switches();
        let prev = format!("prev_pid={tid} ");
        let woke = format!(" pid={tid} ");
        let mut left: Option<(u64, bool, Vec<String>)> = None;
        let mut woken = None;
        for entry in entries(&text) {
            let Some(at) = time(entry[0]) else {
                continue;
            };
            if entry[0].contains("sched_wakeup:") {
                if entry[0].contains(&woke) {
                    woken = Some(at);
                }
                continue;
            }
            if entry[0].contains(" PERF_RECORD_SWITCH") {
                let returns = pid(entry[0]) == Some(tid) && entry[0].contains(" IN ");
                let Some((since, slept, stack)) = left.take_if(|_| returns) else {
                    continue;
                };
                // of a wake-up that was not seen all is sleep, and what only waits for a CPU was never asleep
                let unseen = if slept { at } else { since };
                let woke = woken.filter(|w| slept && *w >= since).unwrap_or(unseen);
                seen.offs.push(Off {
                    slept,
                    asleep: woke - since,
                    woken: at - woke,
                    stack,
                });
                continue;
            }
            if entry[0].contains(&prev) {
                let slept = field(entry[0], "prev_state=").is_some_and(|s| !s.starts_with('R'));
                left = Some((at, slept, owned(&entry[1..])));
                woken = None;
            }
        }
        seen
    }

    /// Time off a CPU within a function, asleep or waiting for one, ns.
    pub(crate) fn off_in(&self, function: &str) -> u64 {
        let offs = self.offs.iter().filter(|o| o.is_in(function));
        offs.map(|o| o.asleep + o.woken).sum()
    }

    /// How many samples fell where.
    pub(crate) fn count(&self, is: impl Fn(&[String]) -> bool) -> usize {
        self.samples.iter().filter(|s| is(s)).count()
    }

    /// What all samples stand for by the clock, ns.
    pub(crate) fn sampled_ns(&self) -> f64 {
        self.samples.len() as f64 * 1e9 / f64::from(RATE)
    }

    pub(crate) fn samples(&self) -> &[Vec<String>] {
        &self.samples
    }
}

/// A frame's function, and how far within it.
pub(crate) fn within(frame: &str) -> (&str, u64) {
    let (function, offset) = frame.split_once("+0x").unwrap_or((frame, "0"));
    (
        function,
        u64::from_str_radix(offset, 16).unwrap_or_default(),
    )
}

/// Is that function on the stack?
pub(crate) fn has(stack: &[String], function: &str) -> bool {
    stack.iter().any(|frame| within(frame).0 == function)
}

/// Of the samples within a function, those by what it called there, with where: `None` for its own code.
pub(crate) fn calls<'s>(
    samples: &'s [Vec<String>],
    function: &str,
) -> HashMap<(u64, Option<&'s str>), usize> {
    let mut calls = HashMap::new();
    for stack in samples {
        if let Some(at) = stack.iter().position(|frame| within(frame).0 == function) {
            let called = at.checked_sub(1).map(|inner| within(&stack[inner]).0);
            *calls.entry((within(&stack[at]).1, called)).or_default() += 1;
        }
    }
    calls
}
