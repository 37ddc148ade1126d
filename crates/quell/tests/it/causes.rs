//! Every cause is made on purpose, and found under its name: what changes no system here, the rest in a
//! virtual machine (`make test-kernels`).

use std::collections::BTreeSet;

use quell_event::Cause;

use crate::common::{alone, emulated_only, json, quell, root_only};

/// A cause, how it is made, and what is found.
struct Made {
    cause: &'static str,
    /// What else the way there has to shoot by.
    along: &'static [&'static str],
    /// How many must be found of those that are asked for; the kernel's own threads do it in their own time.
    fewest: Fewest,
}

#[derive(Clone, Copy)]
enum Fewest {
    /// Half: a peer that is not running on a busy machine is not hit.
    Half,
    /// So many.
    Number(u64),
}

const fn made(cause: &'static str, along: &'static [&'static str], fewest: Fewest) -> Made {
    Made {
        cause,
        along,
        fewest,
    }
}

use Fewest::{Half, Number};

/// By what changes nothing on the system.
const HERE: &[Made] = &[
    made("munmap", &[], Half),
    made("madvise.dontneed", &[], Half),
    made("madvise.free", &[], Half),
    made("madvise.cold", &[], Half),
    made("madvise.guard", &[], Half),
    made("madvise.pageout", &["writeback", "munmap"], Half),
    made("madvise.remove", &["munmap"], Half),
    made("madvise.collapse", &["munmap"], Half),
    made("mprotect", &[], Half),
    made("mremap", &["munmap"], Half),
    made("mmap", &[], Half),
    made("brk", &[], Half),
    made("shm", &[], Half),
    // the CPU that they ran on before must be idle meanwhile
    made("exit", &[], Number(10)),
    made("exec", &["exit"], Number(10)),
    made("fork", &["cow"], Half),
    made("cow", &["fork"], Half),
    made("writeback", &["munmap"], Half),
    made("truncate", &["munmap"], Half),
    made("tracking", &[], Half),
    made("userfaultfd", &[], Half),
    made("debugger", &[], Half),
];

/// By what does change it: swap, nodes of memory, settings of the kernel.
const ON_A_MACHINE: &[Made] = &[
    made("reclaim", &[], Number(20)),
    made("migrate.numa", &["munmap"], Number(10)),
    made("migrate.move", &[], Half),
    made("migrate.demote", &["munmap", "reclaim"], Number(5)),
    made("migrate.other", &[], Number(20)),
    made("compaction", &["munmap"], Number(20)),
    made("ksm", &["cow"], Number(100)),
    made("thp.collapse", &["munmap"], Number(4)),
    made("thp.split", &["munmap"], Half),
    made("madvise.other", &[], Number(10)),
    made("hugetlb", &["fork"], Half),
    made("kernel", &[], Number(2)),
];

/// Causes that some kernel can't have, and that the program says so of.
const MAY_LACK: &[&str] = &[
    "madvise.collapse",
    "madvise.guard",
    "madvise.other",
    "migrate.demote",
];

/// Causes of which Linux 5 copies pages on the way: at a write to a page that is write-protected and that
/// anybody else refers to, as the swap cache and lists of the LRU do (`do_wp_page()` in mm/memory.c; 5.18 and
/// 5.19 look at who it is).
const COPIES_ON_LINUX_5: &[&str] = &["mprotect", "tracking", "reclaim"];

/// The status with which the program says so.
const ABSENT: i32 = 77;

/// How often each is made.
fn count() -> u64 {
    let asked = std::env::var("QUELL_TEST_COUNT").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(200)
}

/// Check that each cause that changes nothing on the system is found under its name, and that what is found besides is only what the way there takes.
#[test]
fn causes_are_named() {
    if root_only("causes_are_named") {
        all_are_named(HERE);
    }
}

/// Check the same of the causes that take swap, two nodes of memory or settings of the kernel, in a virtual machine.
#[test]
fn machine_causes_are_named() {
    if emulated_only("machine_causes_are_named") {
        all_are_named(ON_A_MACHINE);
    }
}

/// Check that every cause there is has a way to be made, but for `other`, which is none of them, and those of a kernel with
/// LUF, which no distribution has (kernel/luf).
#[test]
fn no_cause_is_left_out() {
    let made: BTreeSet<_> = HERE.iter().chain(ON_A_MACHINE).map(|m| m.cause).collect();
    let all = Cause::ALL.iter().map(|c| c.name());
    let documented: BTreeSet<_> = all
        .filter(|&name| name != "other" && !name.starts_with("luf."))
        .collect();
    assert_eq!(made, documented);
}

fn all_are_named(causes: &[Made]) {
    let _alone = alone();
    let program = crate::common::example("causes");
    let mut failed = Vec::new();
    println!("{:20} {:>6}  besides", "cause", "found");
    for made in causes {
        // work of others on the machine takes the peer off its CPU, or shoots by itself: once more then
        if !is_named(&program, made) && !is_named(&program, made) {
            failed.push(made.cause);
        }
    }
    assert!(
        failed.is_empty(),
        "not found, or mixed with others: {failed:?}"
    );
}

/// Makes a cause, and says whether it was found, and not mixed with others.
fn is_named(program: &str, made: &Made) -> bool {
    let &Made { cause, along, .. } = made;
    let count = count();
    let asked = count.to_string();
    // what flushes the kernel's mappings is one of its own threads
    let scope = if cause == "kernel" { &["-a"][..] } else { &[] };
    let mut args = vec!["stat", "--json"];
    args.extend(scope);
    args.extend(["--", program, cause, &asked]);
    let out = quell(&args);
    let said = String::from_utf8_lossy(&out.stderr);
    if out.status.code() == Some(ABSENT) {
        let why = said.lines().next().unwrap_or_default();
        println!("{cause:20} {:>6}  {why}", "-");
        eprintln!("SKIPPED {cause}: {why}");
        return MAY_LACK.contains(&cause);
    }
    assert_eq!(out.status.code(), Some(0), "{cause}: {said}");
    let stat = json(&out.stdout);
    let found = crate::common::cause(&stat, cause, "shootdowns");
    let others: Vec<_> = stat["causes"]
        .as_array()
        .expect("causes")
        .iter()
        .filter(|c| c["cause"] != cause)
        .map(|c| {
            (
                c["cause"].as_str().expect("a name").to_owned(),
                c["shootdowns"].as_u64().expect("a count"),
            )
        })
        .collect();
    println!("{cause:20} {found:>6}  {others:?}");
    // what a process does anyhow: start, start a thread, end
    let usual = [
        "mprotect",
        "munmap",
        "exit",
        "exec",
        "fork",
        "madvise.dontneed",
        "cow",
        "brk",
    ];
    let uname = rustix::system::uname();
    let copies =
        COPIES_ON_LINUX_5.contains(&cause) && uname.release().to_bytes().starts_with(b"5.");
    let wrong = others.iter().any(|(name, n)| {
        // freed kernel memory is flushed by whoever comes along
        let free = along.contains(&name.as_str()) || name == "kernel" || (copies && name == "cow");
        !free && *n > if usual.contains(&name.as_str()) { 5 } else { 0 }
    });
    let enough = match made.fewest {
        Half => found >= count / 2,
        Number(n) => found >= n,
    };
    // with -a everybody's are there
    enough && (!wrong || cause == "kernel")
}
