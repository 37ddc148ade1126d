//! Whose times are whose: every shootdown has an address of its own, and its culprit times the call that it lies in.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use quell_event::Cause;
use quell_event::trace::{EventRow, Trace, UNSEEN_CPU};

use crate::common::{alone, emulated, quell, root_only};

/// Clocks of two CPUs may be apart by so much, ns.
const SKEW_NS: u64 = 1000;

struct TimedCall {
    address: u64,
    pid: u32,
    began_ns: u64,
    ended_ns: u64,
}

/// What the programs say that they did, by thread, in the order of time.
#[derive(Default)]
struct TimedCalls(HashMap<u32, Vec<TimedCall>>);

impl TimedCalls {
    fn read(&mut self, pid: u32, path: &Path) {
        let text = std::fs::read_to_string(path).expect("what the program did");
        for line in text.lines() {
            let words: Vec<u64> = line
                .split(' ')
                .map(|word| word.parse().expect("a number"))
                .collect();
            let tid = words[1].try_into().expect("a thread's number");
            self.0.entry(tid).or_default().push(TimedCall {
                address: words[0],
                pid,
                began_ns: words[2],
                ended_ns: words[3],
            });
        }
    }

    fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Whether a row can be of the call that its thread was in; none if it is of none of these threads, or of their
    /// beginning and end. Two threads that change one address space at a time have all of it flushed (tlb_finish_mmu() in
    /// mm/mmu_gather.c): of such rows only thread and time tell.
    fn is_right(&self, row: &EventRow) -> Option<bool> {
        if row.cause != Cause::MadviseDontneed {
            return None;
        }
        let of_thread = self.0.get(&row.tid)?;
        let after = of_thread.partition_point(|call| call.began_ns <= row.t_ns + SKEW_NS);
        let call = &of_thread[after.checked_sub(1)?];
        if !row.is_full() && !self.is_an_address(row) {
            return None;
        }
        if row.t_ns > of_thread.last()?.ended_ns {
            return None;
        }
        let lies_in_it = row.pid == call.pid
            && (row.is_full() || row.start == call.address)
            && row.t_ns + row.wait_ns <= call.ended_ns + SKEW_NS;
        let of_its_memory = row.bystander || row.victim_pid == call.pid;
        let over = u64::from(row.delay_ns) + u64::from(row.stall_ns) <= row.wait_ns + SKEW_NS;
        Some(lies_in_it && of_its_memory && over)
    }

    /// Whether some call was of that address.
    fn is_an_address(&self, row: &EventRow) -> bool {
        let mut threads = self.0.values();
        threads.any(|calls| {
            calls
                .binary_search_by_key(&row.start, |call| call.address)
                .is_ok()
        })
    }
}

/// What became of the victims of a trace.
#[derive(Debug, Default)]
struct Verdict {
    right: u64,
    wrong: u64,
    unseen: u64,
    /// Of the shootdowns, those that began on a CPU while another of it was under way.
    overlapping: u64,
}

fn judge(trace: &Trace, calls: &TimedCalls) -> Verdict {
    let mut verdict = Verdict::default();
    let mut rounds = Vec::new();
    trace
        .for_each_row(|row| {
            if row.is_first() {
                rounds.push((row.cpu, row.t_ns, row.t_ns + row.wait_ns));
            }
            match calls.is_right(row) {
                Some(_) if row.victim_cpu == UNSEEN_CPU => verdict.unseen += 1,
                Some(true) => verdict.right += 1,
                Some(false) => {
                    verdict.wrong += 1;
                    if verdict.wrong <= 5 {
                        eprintln!("wrong: {row:?}");
                    }
                }
                None => {}
            }
        })
        .expect("rows");
    rounds.sort_unstable();
    let apart = |two: &&[(u16, u64, u64)]| two[0].0 == two[1].0 && two[1].1 < two[0].2;
    verdict.overlapping = rounds.windows(2).filter(apart).count() as u64;
    verdict
}

/// Check that where culprits are moved from CPU to CPU all the time, no victim and no time is another shootdown's, none is
/// missing, and as many victims are counted as the kernel counts itself. `QUELL_TEST_MOVING_SECONDS` says for how long, and
/// `QUELL_TEST_OVERLAP` that a culprit may be preempted while it waits, so that some overlap.
#[test]
fn culprits_that_move() {
    if !root_only("culprits_that_move") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    let seconds = std::env::var("QUELL_TEST_MOVING_SECONDS");
    let seconds = seconds.unwrap_or_else(|_| if emulated() { "20" } else { "3" }.to_owned());
    let moving = crate::common::example("moving");
    let trace_dir = dir.path().join("t.quell");
    let path = |number: u32| dir.path().join(format!("calls.{number}"));
    // both start once the recording has begun, and are over before it ends
    let script = format!(
        "for n in 0 1; do {moving} {seconds} {}/calls.$n $n & echo $! >{}/pid.$n; done; wait",
        dir.path().display(),
        dir.path().display(),
    );
    let named = trace_dir.to_str().expect("a path");
    let out = quell(&["record", "-a", "-o", named, "--", "sh", "-c", &script]);
    assert!(out.status.success(), "{out:?}");
    let mut calls = TimedCalls::default();
    for number in [0, 1] {
        let pid = std::fs::read_to_string(dir.path().join(format!("pid.{number}")));
        let pid = pid.expect("its number").trim().parse().expect("a number");
        calls.read(pid, &path(number));
    }
    let trace = Trace::open(&trace_dir).expect("a trace");
    let verdict = judge(&trace, &calls);
    let tally = trace.read_tally().unwrap().expect("a tally");
    let kernel = tally.kernel_interrupts.expect("TLB: of /proc/interrupts");
    let victims = tally.tlb_interrupts();
    println!(
        "{verdict:?} of {} calls; {victims} victims, the kernel says {kernel}",
        calls.len()
    );
    assert!(verdict.right > 0, "{verdict:?}");
    if std::env::var_os("QUELL_TEST_OVERLAP").is_some() {
        assert!(verdict.overlapping > 0, "no two overlap: {verdict:?}");
    }
    assert_eq!(verdict.wrong, 0, "{verdict:?}");
    // some, where the kernel runs no BPF in certain tasks (docs/how.md): in the virtual machines of ours it does in all
    let unseen = if emulated() {
        0
    } else {
        20 + verdict.right / 5000
    };
    assert!(verdict.unseen <= unseen, "{verdict:?}");
    assert_eq!(tally.lost.missing_total(), 0);
    // others shoot between the moment when the kernel is asked and the last one that is seen
    let apart = kernel / 1000 + if emulated() { 2 } else { 200 };
    assert!(
        victims.abs_diff(kernel) <= apart,
        "{victims} victims, the kernel says {kernel}"
    );
}

/// One recording that ends while a program, quiet so far, shoots again. Whether every time is of a call.
fn end_of_a_recording(late: &str, dir: &Path) -> Verdict {
    let trace_dir = dir.join("t.quell");
    let file = dir.join("calls");
    let _ = std::fs::remove_file(&file);
    let (named, pid_file) = (trace_dir.to_str().expect("a path"), dir.join("pid"));
    // what is recorded ends, and with it the recording, when the program has been quiet for a while
    let script = format!(
        "{late} 60 {} & echo $! >{}; sleep 0.5",
        file.display(),
        pid_file.display()
    );
    let out = quell(&[
        "record", "--force", "-a", "-o", named, "--", "sh", "-c", &script,
    ]);
    assert!(out.status.success(), "{out:?}");
    let pid = std::fs::read_to_string(pid_file).expect("its number");
    let pid = pid.trim().parse().expect("a number");
    // it ends after a minute, whatever happens
    while !file.exists() {
        assert!(
            Path::new(&format!("/proc/{pid}")).exists(),
            "late has ended"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut calls = TimedCalls::default();
    calls.read(pid, &file);
    judge(&Trace::open(&trace_dir).expect("a trace"), &calls)
}

/// Check that what a victim leaves when nobody saw its shootdown begin, as at the end of a recording, is no other
/// shootdown's. `QUELL_TEST_LATE` says how often it is tried.
#[test]
fn late_hits_are_nobodys() {
    if !root_only("late_hits_are_nobodys") {
        return;
    }
    let _alone = alone();
    let late = crate::common::example("late");
    let dir = tempfile::tempdir().expect("a folder");
    let tries = std::env::var("QUELL_TEST_LATE").ok();
    let tries: u32 = tries.and_then(|n| n.parse().ok()).unwrap_or(5);
    let mut seen = Verdict::default();
    for _ in 0..tries {
        let verdict = end_of_a_recording(&late, dir.path());
        assert_eq!(verdict.wrong, 0, "{verdict:?}");
        seen.right += verdict.right;
        seen.unseen += verdict.unseen;
    }
    println!("{tries} tries: {seen:?}");
    assert!(seen.right > 0, "{seen:?}");
}
