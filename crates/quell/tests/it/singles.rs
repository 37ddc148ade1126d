//! Waits and samples one by one in a trace, against what the kernel tells the program that was recorded.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use quell_event::trace::{SampleRow, Trace, TracedStack, WaitRow};
use quell_event::{Account, HolderRole, Mechanism};
use serde_json::Value;

use crate::common::{QUELL, alone, comes_true, example, root_only};

/// The number of mincore(2), by which the program waits.
const MINCORE: i16 = 27;

/// What a recording of a program has, and what the program printed.
struct Recorded {
    _dir: tempfile::TempDir,
    trace: Trace,
    printed: Value,
}

fn record(args: &[&str]) -> Recorded {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("t.quell");
    let out = Command::new(QUELL)
        .args(["record", "-o"])
        .arg(&path)
        .arg("--")
        .args(args)
        .output()
        .expect("quell starts");
    assert!(out.status.success(), "{out:?}");
    let text = String::from_utf8_lossy(&out.stdout);
    let line = text.lines().find(|l| l.starts_with('{')).unwrap_or("null");
    Recorded {
        trace: Trace::open(&path).expect("a trace"),
        printed: serde_json::from_str(line).expect("an object"),
        _dir: dir,
    }
}

impl Recorded {
    fn waits(&self) -> Vec<WaitRow> {
        let mut all = Vec::new();
        let read = self.trace.for_each_wait(|wait| all.push(wait.clone()));
        assert_eq!(read.expect("waits").unread_bytes, 0);
        all
    }

    fn samples(&self) -> Vec<SampleRow> {
        let mut all = Vec::new();
        self.trace
            .for_each_sample(|s| all.push(*s))
            .expect("samples");
        all
    }

    fn account(&self) -> Account {
        let tally = self.trace.read_tally().expect("counts").expect("counts");
        tally.account.expect("an account")
    }

    fn number(&self, key: &str) -> u64 {
        let number = self.printed[key].as_u64();
        number.unwrap_or_else(|| panic!("{key} of {}", self.printed))
    }

    fn stack(&self, id: i32) -> Option<TracedStack> {
        let mut stacks = self.trace.read_stacks().expect("stacks").rows;
        stacks.remove(&u32::try_from(id).ok()?)
    }
}

/// Check that a program which waits for the lock of its address space, so often as the kernel counts, has a row of each
/// wait, as long as it was, with both stacks, and with the thread that kept it waiting and what that did.
#[test]
fn waits_are_told_one_by_one() {
    if !root_only("waits_are_told_one_by_one") {
        return;
    }
    let _alone = alone();
    let recorded = record(&[&example("kept_waiting"), "60"]);
    let account = recorded.account();
    assert_eq!(account.lost_waits, 0);
    let tid = recorded.number("tid");
    let of_thread = recorded.waits().into_iter();
    let (mine, others): (Vec<WaitRow>, Vec<WaitRow>) = of_thread
        .filter(|w| u64::from(w.tid) == tid)
        .partition(|w| w.mechanism == Some(Mechanism::LockMmap) && w.syscall == MINCORE);
    let known = recorded.number("waits");
    assert!(known >= 30, "it waited {known} times");
    // The kernel's count has each of these, and those in which a page of its code had to come back into memory.
    let least = known.saturating_sub(others.len() as u64);
    assert!(
        (least..=known).contains(&(mine.len() as u64)),
        "{} of {known}, and {} others: {mine:#?}",
        mine.len(),
        others.len()
    );
    let slept: u64 = mine.iter().map(|w| w.wait_ns).sum();
    let by_clock = recorded.number("waited_ns");
    assert!(slept <= by_clock, "{slept} ns of {by_clock}");
    assert!(slept >= by_clock / 2, "{slept} ns of {by_clock}");
    let in_order = mine
        .windows(2)
        .all(|w| w[0].t_ns + w[0].wait_ns <= w[1].t_ns);
    assert!(in_order, "{mine:#?}");
    let first = &mine[mine.len() / 2];
    assert_eq!(u64::from(first.pid), recorded.number("pid"));
    assert_eq!(first.comm.as_text(), "kept_waiting");
    let has = |id, name: &str| {
        let stack = recorded.stack(id);
        let mut frames = stack.iter().flat_map(|s| &s.frames);
        frames.any(|f| f.symbol.as_deref().is_some_and(|s| s.contains(name)))
    };
    assert!(has(first.user_stack, "waits_for_it"), "{first:?}");
    assert!(has(first.kernel_stack, "mincore"), "{first:?}");
    if !account.sees_holders {
        eprintln!("SKIPPED holders: only Linux 5.19 and later tell who holds a lock");
        return;
    }
    // who reads the program's mappings, as quell does, may keep it waiting as well
    let right = |w: &&WaitRow| {
        u64::from(w.holder_tid) == recorded.number("holder_tid")
            && u64::from(w.holder_pid) == recorded.number("pid")
            && w.holder_comm.as_text() == "kept_waiting"
            && w.holder_doing == "mprotect of 262144 pages"
            && matches!(w.role, Some(HolderRole::Alone | HolderRole::Queued))
    };
    let named = mine.iter().filter(right).count();
    assert!(named * 10 >= mine.len() * 9, "{named} of {mine:#?}");
}

/// Check that waits and samples one by one add up to the account, by mechanism, and that other samples are counted too.
#[test]
fn singles_add_up_to_the_account() {
    if !root_only("singles_add_up_to_the_account") {
        return;
    }
    let _alone = alone();
    for args in [
        ["kept_waiting", "30"].as_slice(),
        &["spends", "fork", "600"],
    ] {
        let program = example(args[0]);
        let mut command = vec![program.as_str()];
        command.extend(&args[1..]);
        let recorded = record(&command);
        let account = recorded.account();
        let (mut blocked, mut samples) = (BTreeMap::new(), BTreeMap::new());
        for row in &account.rows {
            *blocked.entry(row.mechanism).or_insert(0) += row.blocked_ns;
            *samples.entry(row.mechanism).or_insert(0) += row.samples;
        }
        blocked.retain(|_, ns| *ns > 0);
        samples.retain(|_, n| *n > 0);
        let (mut by_waits, mut by_samples) = (BTreeMap::new(), BTreeMap::new());
        for wait in recorded.waits() {
            *by_waits.entry(wait.mechanism.expect("one")).or_insert(0) += wait.wait_ns;
        }
        let mut others = 0;
        for sample in recorded.samples() {
            match sample.mechanism {
                Some(m) => *by_samples.entry(m).or_insert(0) += u64::from(sample.samples),
                None => others += u64::from(sample.samples),
            }
        }
        assert_eq!(by_waits, blocked, "{args:?}");
        assert_eq!(by_samples, samples, "{args:?}");
        let all: u64 = account.processes.iter().map(|p| p.samples).sum();
        assert_eq!(by_samples.values().sum::<u64>() + others, all, "{args:?}");
        assert!(others > 0 && !by_samples.is_empty(), "{args:?}");
        // one that forks waits for nothing but by chance
        assert!(!by_waits.is_empty() || args.contains(&"fork"), "{args:?}");
        let ended = recorded.trace.meta().ended.expect("an end");
        assert_eq!(ended.left_out, 0);
    }
}

/// Check that a recording that is killed leaves waits and samples that can be read, that its report is as it would be
/// without them, and that an export of them works.
#[test]
fn killed_recordings_have_waits() {
    if !root_only("killed_recordings_have_waits") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("t.quell");
    let mut program = Command::new(example("kept_waiting"))
        .arg("1000000")
        .spawn()
        .expect("the program starts");
    let mut child = Command::new(QUELL)
        .args(["record", "-p", &program.id().to_string(), "-o"])
        .arg(&path)
        .spawn()
        .expect("quell starts");
    let waits = |path: &Path| Some(Trace::open(path).ok()?.for_each_wait(|_| ()).ok()?.rows);
    let some = comes_true(|| waits(&path).is_some_and(|n| n > 0));
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    program.kill().expect("it runs");
    program.wait().expect("it ends");
    assert!(some, "{:?}", waits(&path));
    assert!(path.join("waits-tail-00001.arrows").exists());
    assert!(waits(&path).is_some_and(|n| n > 0));
    let report = || crate::common::quell(&["report", path.to_str().expect("text"), "--json"]);
    let with = report();
    assert!(with.status.success(), "{with:?}");
    let export = path.with_extension("pftrace");
    let args = ["--export", "perfetto", "-o", export.to_str().expect("text")];
    let mut all = vec!["report", path.to_str().expect("text")];
    all.extend(args);
    assert!(crate::common::quell(&all).status.success());
    assert!(std::fs::metadata(&export).expect("a file").len() > 1000);
    // cut, and then gone
    let tail = path.join("waits-tail-00001.arrows");
    let bytes = std::fs::read(&tail).expect("a tail");
    std::fs::write(&tail, &bytes[..bytes.len() / 2]).expect("written");
    assert_eq!(report().stdout, with.stdout);
    std::fs::remove_file(&tail).expect("removed");
    assert_eq!(report().stdout, with.stdout);
}
