//! Stacks of programs that keep no frame pointers: the same as of those that do.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::{GOES, alone, json, quell, root_only, too_busy};

/// Frames that are compared.
const DEPTH: usize = 16;

/// So many calls that shoot where another CPU runs the other thread, and so many shootdowns that are enough. A stack is
/// followed by frame pointers until quell has looked at it once, which on a busy machine may be some ms later: a thousand
/// of these calls.
const CALLS: &str = "60000";
const ENOUGH: u64 = 20_000;

/// How a program is built, but for its frame pointers.
struct Build {
    source: &'static str,
    command: &'static [&'static str],
    with: &'static [&'static str],
    without: &'static [&'static str],
}

const GCC_WITH: &[&str] = &["-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"];
const GCC_WITHOUT: &[&str] = &["-fomit-frame-pointer"];

const BUILDS: &[Build] = &[
    Build {
        source: "chain.c",
        command: &["cc", "-O2", "-pthread", "-o"],
        with: GCC_WITH,
        without: GCC_WITHOUT,
    },
    Build {
        source: "chain.cpp",
        command: &["c++", "-O2", "-pthread", "-o"],
        with: GCC_WITH,
        without: GCC_WITHOUT,
    },
    Build {
        source: "chain.rs",
        command: &["rustc", "--edition=2024", "-O", "-o"],
        with: &["-C", "force-frame-pointers=yes"],
        without: &["-C", "force-frame-pointers=no"],
    },
];

/// Builds a program with and without frame pointers, under one name; `None` without a compiler.
fn built(dir: &Path, build: &Build) -> Option<[PathBuf; 2]> {
    let (compiler, options) = build.command.split_first()?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/chains")
        .join(build.source);
    let mut made = Vec::new();
    for (n, more) in [build.with, build.without].iter().enumerate() {
        let dir = dir.join(n.to_string());
        std::fs::create_dir_all(&dir).expect("a folder");
        let program = dir.join("chain");
        let built = Command::new(compiler)
            .args(options)
            .arg(&program)
            .args(*more)
            .arg(&source)
            .output();
        match built {
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => return None,
            built => {
                let out = built.expect("it starts");
                assert!(out.status.success(), "{out:?}");
            }
        }
        made.push(program);
    }
    made.try_into().ok()
}

/// How many shootdowns each stack has, as far as the program's own code goes, and how many there are.
fn stacks(dir: &Path, program: &Path, more: &[&str]) -> (HashMap<Vec<String>, u64>, u64) {
    let trace = dir.join("t.quell").display().to_string();
    let program = program.to_str().expect("a path");
    let record = ["record", "--force", "-o", &trace];
    let out = quell(&[&record[..], more, &["--", program, CALLS]].concat());
    assert!(out.status.success(), "{out:?}");
    let report = json(&quell(&["report", &trace, "--json", "--top", "1000"]).stdout);
    let (mut stacks, mut all) = (HashMap::new(), 0);
    for stack in report["stacks"].as_array().expect("stacks") {
        let frames = stack["frames"].as_array().expect("frames").iter();
        let frames = frames.map(|f| f.as_str().expect("a frame").to_owned());
        let mut frames: Vec<String> = frames.take(DEPTH).collect();
        if frames.first().is_none_or(|f| !f.starts_with("munmap")) {
            continue;
        }
        // what calls main() is the C library's, which is built as it is
        if let Some(main) = frames.iter().position(|f| f.starts_with("main ")) {
            frames.truncate(main + 1);
        }
        let n = stack["shootdowns"].as_u64().expect("a number");
        *stacks.entry(frames).or_default() += n;
        all += n;
    }
    (stacks, all)
}

/// The same, in one of several goes with enough shootdowns.
fn enough(dir: &Path, program: &Path, more: &[&str]) -> Option<(HashMap<Vec<String>, u64>, u64)> {
    let mut goes = (0..GOES).map(|_| stacks(dir, program, more));
    goes.find(|(_, all)| *all >= ENOUGH)
}

fn account(program: &Path, more: &[&str]) -> Value {
    let program = program.to_str().expect("a path");
    let stat = ["stat", "--json", "-o", "/dev/stderr"];
    let out = quell(&[&stat[..], more, &["--", program, CALLS]].concat());
    json(&out.stderr)["account"].clone()
}

/// Check that C, C++ and Rust programs have the same stacks with and without frame pointers, for 95 of 100 shootdowns at
/// least, and that by frame pointers alone those without have not; and that the account's stacks go on to the end.
#[test]
fn frame_pointers_are_not_needed() {
    if !root_only("frame_pointers_are_not_needed") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    let mut tried = 0;
    for build in BUILDS {
        let source = build.source;
        let Some([with, without]) = built(&dir.path().join(source), build) else {
            eprintln!("SKIPPED {source}: no {}", build.command[0]);
            continue;
        };
        let both = [&with, &without].map(|program| enough(dir.path(), program, &[]));
        let [Some((with, of_with)), Some((mut found, mut of_found))] = both else {
            too_busy("frame_pointers_are_not_needed", "hardly anything shoots");
            return;
        };
        let share = |stacks: &HashMap<Vec<String>, u64>, stack, of: u64| {
            stacks.get(stack).copied().unwrap_or(0) as f64 / of as f64
        };
        let same = |found: &HashMap<Vec<String>, u64>, of| -> f64 {
            let shares = with
                .keys()
                .map(|stack| share(&with, stack, of_with).min(share(found, stack, of)));
            shares.sum()
        };
        // where others have the CPUs, quell looks late at what is new
        let mut unwound = same(&found, of_found);
        for _ in 1..GOES {
            if unwound < 0.95
                && let Some((again, of_again)) = enough(dir.path(), &without, &[])
            {
                (found, of_found) = (again, of_again);
                unwound = same(&found, of_found);
            }
        }
        let (walked, of_walked) = stacks(dir.path(), &without, &["--no-unwind"]);
        let by_pointers = same(&walked, of_walked.max(1));
        eprintln!(
            "{source}: {:.1} % of {of_found} stacks as with frame pointers; {:.1} % by frame pointers alone",
            unwound * 100.0,
            by_pointers * 100.0
        );
        assert!(unwound >= 0.95, "{source}: {with:#?}\n{found:#?}");
        assert!(by_pointers < 0.5, "{source}: {walked:#?}");
        // two ways lead there, and each half of the shootdowns came by one
        let halves = found.values().filter(|&&n| n * 3 > of_found).count();
        assert_eq!(halves, 2, "{source}: {found:#?}");
        let account = account(&without, &[]);
        let number = |key: &str| account[key].as_u64().expect("a number");
        assert!(number("with_stack") > 20, "{account}");
        assert!(
            number("early_ends") * 20 <= number("with_stack"),
            "{account}"
        );
        tried += 1;
    }
    assert!(tried > 0, "no compiler at all");
}
