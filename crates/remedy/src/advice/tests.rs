//! The catalogue as a whole.

use std::collections::BTreeSet;

use super::catalogue::ALL_ENTRIES;
use super::testing::{asleep, recorded, scene};
use super::*;

/// Programs that were recorded as they did ordinary work.
const ORDINARY: &[&str] = &[
    "gcc", "git", "go", "java", "node", "openssl", "perl", "polars", "python", "redis", "sh",
    "sort", "sqlite", "tar", "xz",
];

/// Check that nothing is advised to fifteen ordinary programs, though memory management costs some of them much.
#[test]
fn ordinary_programs_are_told_nothing() {
    let mut with_costs = 0;
    for name in ORDINARY {
        let scene = recorded(&format!("ordinary-{name}"));
        assert!(scene.cpu_ns > 0, "{name}");
        with_costs += usize::from(!scene.costs.is_empty());
        assert_eq!(advise(&scene), [], "{name}");
    }
    assert!(with_costs >= 10, "{with_costs} have any costs");
}

/// Check that the public cases get the advice of their switch first, and that a case without a known cure gets none.
#[test]
fn cases_are_told_their_switch() {
    for (case, expected) in [
        ("01-gperftools-release", "tcmalloc.release"),
        ("02-malloc-trim-timer", "malloc.trim"),
        ("03-spawn-fork", "fork.libuv"),
        ("04-cadvisor-clear-refs", "proc.clear-refs"),
        ("06-madvise-convoy", "mmap.read-advice"),
        ("07-go-mmap-fault", "go.mapped-file"),
        ("12-wasmtime-ondemand", "wasmtime.pool"),
        ("12-wasmtime-pool", "wasmtime.keep-resident"),
        ("13-luajit-churn", "luajit.machine-code"),
        ("19-java-arena-close", "java.arena-close"),
    ] {
        let advised = advise(&recorded(case));
        let ids: Vec<&str> = advised.iter().map(|a| a.id).collect();
        assert_eq!(ids, [expected], "{case}");
    }
    assert_eq!(advise(&recorded("17-advice-24")), []);
}

/// Check that a stack on which two programs' functions lie gives one piece of advice for each entry, the dearest first.
#[test]
fn the_dearest_comes_first() {
    let mut scene = scene(&[
        (
            Mechanism::Advise,
            "madvise (libc.so.6) < malloc_trim (libc.so.6) < idle (a)",
        ),
        (
            Mechanism::Protect,
            "mprotect (libc.so.6) < lj_mcode_reserve (libluajit-5.1.so.2)",
        ),
    ]);
    scene.costs[1].cpu_ns *= 3;
    let ids: Vec<&str> = advise(&scene).iter().map(|a| a.id).collect();
    assert_eq!(ids, ["luajit.machine-code", "malloc.trim"]);
}

/// Check that time asleep counts by the time that passed, and CPU time by CPU time.
#[test]
fn one_in_a_hundred_is_worth_a_word() {
    let trim = [(
        Mechanism::Advise,
        "madvise (libc.so.6) < malloc_trim (libc.so.6)",
    )];
    let mut busy = scene(&trim);
    busy.cpu_ns = busy.costs[0].cpu_ns * 100;
    assert_eq!(advise(&busy).len(), 1);
    busy.cpu_ns += 100;
    assert_eq!(advise(&busy), []);
    let mut waiting = asleep(scene(&trim));
    waiting.costs[0].mechanism = Mechanism::LockMmap;
    waiting.costs.push(scene(&trim).costs.remove(0));
    waiting.costs[1].cpu_ns = 1;
    waiting.wall_ns = waiting.costs[0].blocked_ns * 100;
    assert_eq!(advise(&waiting).len(), 1);
    waiting.wall_ns += 100;
    assert_eq!(advise(&waiting), []);
}

/// Check that every entry has all of its texts, that names are unique, and that the catalogue has its full number of entries.
#[test]
fn entries_are_whole() {
    let names: BTreeSet<&str> = ALL_ENTRIES.iter().map(|e| e.id).collect();
    assert_eq!(names.len(), ALL_ENTRIES.len());
    assert!(names.len() >= 25);
    for entry in ALL_ENTRIES {
        let texts = [entry.what, entry.seen_by, entry.switch, entry.why];
        for text in texts {
            assert!(
                text.len() > 10 && !text.contains("  "),
                "{}: {text}",
                entry.id
            );
            assert!(!text.ends_with('.'), "{}: {text}", entry.id);
        }
        assert!(entry.source.starts_with("https://"), "{}", entry.id);
        assert!(!entry.mechanisms.is_empty(), "{}", entry.id);
        for other in entry.instead_of {
            assert!(names.contains(other), "{}: {other}", entry.id);
        }
    }
}

/// Check that docs/advice-catalogue.md has every entry, in the words of the catalogue.
#[test]
fn documented() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/advice-catalogue.md"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let at = text.find("\n### ").expect("entries");
    let page = text[..at].to_owned() + &catalogue_sections();
    if text != page {
        let anew = std::env::current_exe().unwrap();
        let anew = anew.with_file_name("advice-catalogue.md");
        std::fs::write(&anew, page).unwrap();
        panic!("docs/advice-catalogue.md should be {}", anew.display());
    }
}

/// Every entry, as docs/advice-catalogue.md has them.
fn catalogue_sections() -> String {
    let mut entries = ALL_ENTRIES.to_vec();
    entries.sort_by_key(|entry| entry.id);
    entries.into_iter().map(entry_section).collect()
}

fn entry_section(entry: &AdviceEntry) -> String {
    let mechanisms: Vec<String> = entry.mechanisms.iter().map(|m| format!("`{m}`")).collect();
    let linked = |word: &str| match word.starts_with("https://") {
        true => format!("<{word}>"),
        false => word.to_owned(),
    };
    let source: Vec<String> = entry.source.split(' ').map(linked).collect();
    let (first, rest) = entry.what.split_at(1);
    format!(
        "\n### {}\n\n{}{rest}.\n\n- seen by: {}\n- touches: {}\n- change: {}\n- why: {}\n- source: {}\n",
        entry.id,
        first.to_uppercase(),
        entry.seen_by,
        mechanisms.join(", "),
        entry.switch,
        entry.why,
        source.join(" ")
    )
}
