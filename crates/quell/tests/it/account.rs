//! The account, against programs that spend their time by one mechanism on purpose, and against what the kernel says of them.

use std::process::Output;

use serde_json::Value;

use crate::common::{GOES, alone, emulated, example, root_only};

/// The status with which the program says that a mechanism can't be had.
const ABSENT: i32 = 77;

/// A program that spends its time by a mechanism, and what its account is to be made of.
struct Spent {
    by: &'static str,
    /// The mechanism that is named for it.
    named: &'static str,
    /// What else the way there takes. All else together is to be little.
    along: &'static [&'static str],
    /// The least share of all that memory management took.
    least: f64,
    /// The function that is named.
    function: &'static str,
}

const fn spent(
    by: &'static str,
    along: &'static [&'static str],
    least: f64,
    function: &'static str,
) -> Spent {
    Spent {
        by,
        named: by,
        along,
        least,
        function,
    }
}

const MEMORY: &str = "spend_memory";

/// The stack is of no use, for what it ran on is gone.
const NOBODY: &str = "";

const SPENT: &[Spent] = &[
    spent(
        "fault.anon",
        &["fault.entry", "zeroing", "unmap"],
        0.25,
        MEMORY,
    ),
    spent(
        "zeroing",
        &["fault.huge", "fault.entry", "unmap"],
        0.5,
        MEMORY,
    ),
    spent(
        "fault.cow",
        &["fault.entry", "fault.file", "unmap"],
        0.3,
        MEMORY,
    ),
    spent("fault.file", &["fault.entry", "unmap"], 0.2, MEMORY),
    spent("map", &["unmap"], 0.3, MEMORY),
    // its pages are touched anew each time, which a host that hands out memory slowly makes 10 to 20 times as dear
    spent(
        "advise",
        &["fault.anon", "fault.entry", "zeroing"],
        0.04,
        MEMORY,
    ),
    spent("protect", &[], 0.8, MEMORY),
    spent("remap", &["unmap"], 0.7, MEMORY),
    spent("brk", &[], 0.8, MEMORY),
    spent("populate", &[], 0.8, MEMORY),
    // the child's copy is torn down as it ends
    spent(
        "fork",
        &[
            "exit",
            "lock.mmap",
            "fault.cow",
            "fault.anon",
            "fault.entry",
            "zeroing",
        ],
        0.3,
        "spend",
    ),
    spent(
        "inspect",
        &["fault.anon", "fault.entry", "zeroing"],
        0.5,
        "read_to_end",
    ),
    spent(
        "fault.major",
        &["fault.entry", "fault.file", "map", "unmap", "zeroing"],
        0.4,
        "spend_reading",
    ),
    spent(
        "shootdown.wait",
        &[
            "advise",
            "fault.anon",
            "fault.entry",
            "zeroing",
            "shootdown.hit",
        ],
        0.1,
        "scope",
    ),
    spent(
        "lock.mmap",
        &[
            "inspect",
            "exit",
            "fault.anon",
            "fault.entry",
            "zeroing",
            "fault.cow",
            "fork",
        ],
        0.05,
        "spend_waiting",
    ),
];

/// Those that take preparation: swap, a full group of memory, a file that others map, and programs that begin and end.
const SPENT_RARELY: &[Spent] = &[
    // what a hit takes is little where an interrupt is, as on an emulated CPU
    Spent {
        by: "shootdown.wait",
        ..spent(
            "shootdown.hit",
            &[
                "advise",
                "fault.anon",
                "fault.entry",
                "shootdown.wait",
                "zeroing",
            ],
            0.1,
            NOBODY,
        )
    },
    spent("fault.huge", &["fault.entry", "advise"], 0.15, MEMORY),
    spent("fault.entry", &[], 0.8, MEMORY),
    spent("unmap", &["fault.file", "fault.entry", "map"], 0.25, MEMORY),
    spent(
        "collapse",
        &["advise", "fault.anon", "fault.entry", "zeroing"],
        0.2,
        MEMORY,
    ),
    spent(
        "exit",
        &[
            "fork",
            "fault.anon",
            "fault.cow",
            "fault.entry",
            "fault.file",
            "map",
        ],
        0.2,
        NOBODY,
    ),
    spent(
        "exec",
        &[
            "exit",
            "fault.anon",
            "fault.cow",
            "fault.entry",
            "fault.file",
            "map",
            "unmap",
            "zeroing",
        ],
        0.1,
        NOBODY,
    ),
    spent(
        "lock.rmap",
        &["fault.entry", "fault.file", "map", "unmap", "zeroing"],
        0.1,
        "spend_listing",
    ),
    spent(
        "writeback",
        &["fault.cow", "fault.entry", "fault.file"],
        0.4,
        "spend_writing",
    ),
    spent(
        "userfault",
        &["fault.anon", "fault.entry"],
        0.8,
        "userfault",
    ),
    spent(
        "reclaim.direct",
        &["fault.anon", "fault.entry", "zeroing"],
        0.5,
        "spend_freeing",
    ),
    spent(
        "fault.swap",
        &[
            "fault.anon",
            "fault.entry",
            "reclaim.direct",
            "shootdown.wait",
            "zeroing",
        ],
        0.2,
        "spend_swapped",
    ),
    spent(
        "migrate",
        &["fault.anon", "fault.entry", "shootdown.wait"],
        0.5,
        "spend_moving",
    ),
    spent(
        "compact.direct",
        &[
            "fault.anon",
            "fault.entry",
            "fault.huge",
            "reclaim.direct",
            "shootdown.wait",
            "unmap",
            "zeroing",
        ],
        0.05,
        "spend_compacting",
    ),
];

/// What the program prints, and the account of it; `None` where it can't be.
///
/// At each further go it spends as much time again: of a machine that others have, what it begins with may take all that it gets.
fn account_of(by: &str, go: usize) -> Option<(u64, Value)> {
    let ms = go * if emulated() { 2000 } else { 1000 };
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("stat.json");
    let out = std::process::Command::new(crate::common::QUELL)
        .args(["stat", "--json", "-o"])
        .arg(&file)
        .arg("--")
        // A machine that is busy with other work leaves it too little time beside what it begins with; with all of a CPU it
        // would leave quell none to see it.
        .args(if emulated() {
            &["env"][..]
        } else {
            &["nice", "-n", "-5"]
        })
        .args([&example("spends"), by, &ms.to_string()])
        .output()
        .expect("quell starts");
    if is_absent(by, &out) {
        return None;
    }
    let used = String::from_utf8_lossy(&out.stdout);
    let used = used.trim().parse().expect("what the program used");
    let text = std::fs::read_to_string(&file).expect("the counts");
    let all: Value = serde_json::from_str(&text).expect("an object");
    Some((used, all["account"].clone()))
}

/// Whether this place can't have the mechanism, which is said.
pub(crate) fn is_absent(by: &str, out: &Output) -> bool {
    let is_absent = out.status.code() == Some(ABSENT);
    if is_absent {
        let why = String::from_utf8_lossy(&out.stderr);
        eprintln!("SKIPPED {by}: {}", why.trim());
    } else {
        assert!(out.status.success(), "{by}: {out:?}");
    }
    is_absent
}

/// A figure of an account or of its row.
pub(crate) fn ns(row: &Value, key: &str) -> u64 {
    row[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key} of {row}"))
}

/// A figure of a mechanism of an account; 0 where it is not there.
pub(crate) fn of_mechanism(account: &Value, mechanism: &str, key: &str) -> u64 {
    let rows = account["mechanisms"].as_array().expect("rows");
    let mut rows = rows.iter().filter(|r| r["mechanism"] == mechanism);
    rows.next().map_or(0, |r| ns(r, key))
}

/// What a mechanism took: on CPUs and asleep.
fn taken(row: &Value) -> u64 {
    ns(row, "cpu_ns") + ns(row, "blocked_ns")
}

/// Why an account is not the one that is expected.
fn problem(s: &Spent, account: &Value) -> Option<String> {
    let rows = account["mechanisms"].as_array()?;
    let all: u64 = rows.iter().map(taken).sum();
    let share = |n: u64| n as f64 / all.max(1) as f64;
    let of = |name: &str| rows.iter().find(|r| r["mechanism"] == name);
    let Some(row) = of(s.named) else {
        return Some("is not there".to_owned());
    };
    let expected = |r: &&Value| {
        let name = r["mechanism"].as_str().unwrap_or_default();
        name == s.named || s.along.contains(&name) || emulated() && name == "zeroing"
    };
    let others: u64 = rows.iter().filter(|r| !expected(r)).map(taken).sum();
    // an emulated CPU zeroes a page slowly, and enters the kernel slowly, beside all else
    let least = if emulated() { s.least / 8.0 } else { s.least };
    if share(taken(row)) < least {
        return Some(format!("is {:.2} of it", share(taken(row))));
    }
    if share(others) > 0.1 {
        return Some(format!("others are {:.2} of it", share(others)));
    }
    let first = row["who"][0]["function"].as_str().unwrap_or_default();
    (!first.contains(s.function)).then(|| format!("'{first}' is said to have it done"))
}

/// Why the time on CPUs is not what the kernel tells the program that it used, within 2 %, if so; or memory management is
/// not part of it.
fn does_not_add_up(used: u64, account: &Value) -> Option<String> {
    // the first process starts, and its end is in nobody's hands; that takes longer on an emulated CPU
    let started = if emulated() { 150_000_000 } else { 10_000_000 };
    let cpu = ns(account, "cpu_ns");
    if cpu + used / 50 < used || cpu > used + used / 50 + started {
        return Some(format!("{cpu} ns, and the kernel says {used}"));
    }
    let memory = ns(account, "memory_cpu_ns");
    let mechanisms = account["mechanisms"].as_array()?.iter();
    // its time is in no sample
    let hits = mechanisms.filter(|r| r["mechanism"] == "shootdown.hit");
    let hits: u64 = hits.map(|r| ns(r, "cpu_ns")).sum();
    (memory > cpu + hits).then(|| format!("memory management is {memory} of {cpu} ns"))
}

/// Check that each mechanism that a program spends its time by is named, with the function that has it done, and that nothing
/// else is; and that the time adds up to what the kernel tells each program that it used.
#[test]
fn mechanisms_are_named() {
    if !root_only("mechanisms_are_named") {
        return;
    }
    let _alone = alone();
    let seen = named(SPENT);
    assert!(seen >= 10, "{seen} programs");
}

/// Check the same of mechanisms that take preparation, as far as this machine has them. In a virtual machine it takes too
/// long, but where QUELL_TEST_RARE asks for it.
#[test]
fn rare_mechanisms_are_named() {
    let test = "rare_mechanisms_are_named";
    if !root_only(test) {
        return;
    }
    if emulated() && std::env::var_os("QUELL_TEST_RARE").is_none() {
        eprintln!(
            "SKIPPED {test}: on an emulated CPU it takes long, so QUELL_TEST_RARE has to ask for it"
        );
        return;
    }
    let _alone = alone();
    let seen = named(SPENT_RARELY);
    assert!(seen >= 5, "{seen} programs");
}

/// Runs each and checks what is named; how many ran.
fn named(all: &[Spent]) -> u64 {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for s in all {
        // on a busy machine others may disturb one, and on an emulated CPU the timer's interrupts come when they can
        let mut said = Vec::new();
        for go in 1..=GOES {
            let Some((used, account)) = account_of(s.by, go) else {
                break;
            };
            said = judged(s, used, &account);
            seen += 1;
            if said.is_empty() {
                break;
            }
        }
        wrong.extend(said);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    seen
}

/// What is wrong with an account.
fn judged(s: &Spent, used: u64, account: &Value) -> Vec<String> {
    let rows: Vec<String> = account["mechanisms"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|r| format!("{} {:.0} ms", r["mechanism"], taken(r) as f64 / 1e6))
        .collect();
    let via = if s.by == s.named { "" } else { " of it" };
    eprintln!("{:16}{via} {}", s.named, rows.join(", "));
    let problems = [problem(s, account), does_not_add_up(used, account)];
    let problems = problems.into_iter().flatten();
    let problems = problems.map(|problem| format!("{}: {problem}", s.by));
    problems.collect()
}

/// Check that a program without any memory management is told that there is nothing to win.
#[test]
fn nothing_to_win() {
    if !root_only("nothing_to_win") {
        return;
    }
    let _alone = alone();
    let out = crate::common::quell(&[
        "stat",
        "-o",
        "-",
        "--",
        &example("spends"),
        "nothing",
        // In five seconds the few samples of shootdowns that other programs cause are far below 1 %.
        if emulated() { "20000" } else { "5000" },
    ]);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("nothing to win here"), "{text}");
}

/// Check that of a lock that another process holds, the process and what it does are named.
#[test]
fn holders_are_named() {
    if !root_only("holders_are_named") {
        return;
    }
    let _alone = alone();
    // on a busy machine some of the waits may be for others
    for go in 1..=GOES {
        let Some((_, account)) = account_of("lock.mmap", go) else {
            return;
        };
        if account["sees_holders"] == false {
            eprintln!("SKIPPED holders_are_named: only Linux 5.19 and later tell who holds a lock");
            return;
        }
        let rows = account["mechanisms"].as_array().expect("rows");
        let row = rows.iter().find(|r| r["mechanism"] == "lock.mmap");
        let holder = row.map(|row| &row["holders"][0]);
        let doing = holder.and_then(|holder| holder["doing"].as_str());
        let doing = doing.unwrap_or_default();
        let is_it = doing.starts_with("write /proc/") && doing.ends_with("/clear_refs");
        if !is_it && go < GOES {
            continue;
        }
        let holder = holder.expect("waits for the lock");
        assert!(is_it, "{holder}");
        assert_eq!(holder["comm"], "spends", "{holder}");
        assert!(
            ns(holder, "pid") > 0 && ns(holder, "blocked_ns") > 0,
            "{holder}"
        );
        return;
    }
}
