//! Every cause that can be made here without changing the system is made, and found under its name.

use crate::common::{alone, json, quell, root_only};

/// Causes, and what else the way there has to shoot by.
const CAUSES: &[(&str, &[&str])] = &[
    ("munmap", &[]),
    ("madvise.dontneed", &[]),
    ("madvise.free", &[]),
    ("madvise.cold", &[]),
    ("madvise.guard", &[]),
    ("madvise.pageout", &["writeback", "munmap"]),
    ("madvise.remove", &["munmap"]),
    ("madvise.collapse", &["munmap"]),
    ("mprotect", &[]),
    ("mremap", &["munmap"]),
    ("mmap", &[]),
    ("brk", &[]),
    ("fork", &["cow"]),
    ("cow", &["fork"]),
    ("writeback", &["munmap"]),
    ("truncate", &["munmap"]),
];

/// How often each is made, and how many must be found: a peer that is not running on a busy machine is not hit.
const COUNT: u64 = 200;
const FEWEST: u64 = COUNT / 2;

/// Check that each cause is found under its name, and that what is found besides is only what the way there takes.
#[test]
fn causes_are_named() {
    if !root_only("causes_are_named") {
        return;
    }
    let _alone = alone();
    let program = crate::common::example("causes");
    let mut failed = Vec::new();
    println!("{:20} {:>6}  besides", "cause", "found");
    for (cause, along) in CAUSES {
        // work of others on the machine takes the peer off its CPU, or shoots by itself: once more then
        if !named(&program, cause, along) && !named(&program, cause, along) {
            failed.push(*cause);
        }
    }
    assert!(
        failed.is_empty(),
        "not found, or mixed with others: {failed:?}"
    );
}

/// Makes a cause, and says whether it was found, and not mixed with others.
fn named(program: &str, cause: &str, along: &[&str]) -> bool {
    let out = quell(&["stat", "--json", "--", program, cause, &COUNT.to_string()]);
    assert_eq!(
        out.status.code(),
        Some(0),
        "{cause}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
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
        "madvise.dontneed",
        "cow",
        "brk",
    ];
    let wrong = others.iter().any(|(name, n)| {
        // freed kernel memory is flushed by whoever comes along
        let free = along.contains(&name.as_str()) || name == "kernel";
        !free && *n > if usual.contains(&name.as_str()) { 5 } else { 0 }
    });
    found >= FEWEST && !wrong
}
