//! Who only shoots at what is watched: told apart, and in no plan.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, fallocate};

use crate::common::{alone, json, quell, root_only};

/// Reads a page of a file that it has mapped, for two seconds.
const READER: &str = r"
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
int main(int count, char **arg)
{
	volatile char *page = mmap(0, 4096, PROT_READ, MAP_SHARED, open(arg[count - 1], O_RDONLY), 0);
	struct timespec t, end;
	clock_gettime(CLOCK_MONOTONIC, &end);
	do {
		for (int i = 0; i < 1000; i++)
			(void)*page;
		clock_gettime(CLOCK_MONOTONIC, &t);
	} while (t.tv_sec < end.tv_sec + 2);
}
";

fn reader(dir: &Path) -> String {
    let (source, program) = (dir.join("reader.c"), dir.join("reader"));
    std::fs::write(&source, READER).expect("a file");
    let cc = Command::new("cc")
        .arg("-O2")
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status();
    assert!(cc.expect("cc starts").success(), "cc builds the reader");
    program.display().to_string()
}

/// Takes a page of a file away again and again, from whoever has it mapped.
fn punch(file: &File, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        file.write_at(&[1], 0).expect("a write");
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(file, hole, 0, 4096).expect("a hole");
    }
}

/// Check that a process which is not watched, and takes a watched one's pages away, is told apart in the trace, and
/// that a plan for the watched one counts none of what the other did, and says how much that was.
#[test]
fn are_told_apart() {
    if !root_only("are_told_apart") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    let (program, page, trace) = (
        reader(dir.path()),
        dir.path().join("page"),
        dir.path().join("trace.quell").display().to_string(),
    );
    std::fs::write(&page, [1; 4096]).expect("a file");
    let file = File::options().write(true).open(&page).expect("the file");
    let page = page.display().to_string();
    let done = AtomicBool::new(false);
    let recorded = std::thread::scope(|threads| {
        threads.spawn(|| punch(&file, &done));
        let out = quell(&["record", "-o", &trace, "--", &program, &page]);
        done.store(true, Ordering::Relaxed);
        out
    });
    assert!(recorded.status.success(), "{recorded:?}");

    let report = quell(&["report", "--json", &trace]);
    let report = json(&report.stdout);
    let all = report["shootdowns"].as_u64().expect("a count");
    assert!(all >= 50, "{report:#}");

    let processes = Path::new(&trace).join("processes.jsonl");
    let processes = std::fs::read_to_string(processes).expect("the table of processes");
    let own = u64::from(std::process::id());
    let strangers: Vec<u64> = processes
        .lines()
        .map(|line| json(line.as_bytes()))
        .filter(|p| p["stranger"] == true)
        .filter_map(|p| p["pid"].as_u64())
        .collect();
    assert!(strangers.contains(&own), "{strangers:?}, not {own}");

    let plan = json(&quell(&["plan", "--json", &trace]).stdout);
    let of_it = plan["shootdowns"].as_u64().expect("a count");
    assert!(of_it < 50, "{plan:#}");
    assert_eq!(plan["remedies"], serde_json::json!([]), "{plan:#}");
    let notes = plan["notes"].to_string();
    let said = "more came from other processes, which were not watched";
    assert!(notes.contains(said), "{notes}");
}
