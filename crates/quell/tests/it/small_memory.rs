//! Where memory is short: what is left out is said, and where there is no room nothing is begun.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::root_only;

/// A control group with a bound of memory, which goes with it.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// `None` where there is none that can be made.
    fn new(megabytes: u64) -> Option<Self> {
        let hierarchies = [
            ("/sys/fs/cgroup", "memory.max"),
            ("/sys/fs/cgroup/unified", "memory.max"),
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ];
        hierarchies.iter().find_map(|(root, limit)| {
            let name = format!("quell-test-{}-{megabytes}", std::process::id());
            let group = Self(Path::new(root).join(name));
            fs::create_dir(&group.0).ok()?;
            // where memory is not this hierarchy's there is no such file, and none can be made
            let bytes = (megabytes << 20).to_string();
            fs::OpenOptions::new()
                .write(true)
                .open(group.0.join(limit))
                .ok()?;
            fs::write(group.0.join(limit), bytes).ok()?;
            Some(group)
        })
    }

    /// Runs quell inside, beside nobody.
    fn quell(&self, words: &[&str]) -> Output {
        let procs = self.0.join("cgroup.procs");
        let script = format!("echo 0 >'{}' && exec \"$@\"", procs.display());
        Command::new("sh")
            .args(["-c", &script, "sh", env!("CARGO_BIN_EXE_quell")])
            .args(words)
            .output()
            .expect("sh runs")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // its process has been waited for; what it took may be given back a moment later
        let _left_behind = (0..100).any(|_| {
            let gone = fs::remove_dir(&self.0).is_ok() || !self.0.exists();
            if !gone {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            gone
        });
    }
}

/// Check that 96 MB do for counting and recording, without what takes more, which is said; that with 40 a recording is
/// refused in one line and its command is not begun, while counting goes on; and that with 20 counting is refused too.
#[test]
fn what_has_no_room_is_left_out() {
    if !root_only("what_has_no_room_is_left_out") {
        return;
    }
    let trace = std::env::temp_dir().join(format!("quell-small-{}", std::process::id()));
    let trace = trace.to_str().unwrap();
    let record = ["record", "-o", trace, "--", "echo", "begun"];
    let stat = ["stat", "--json", "-o", "/dev/null", "--", "echo", "begun"];
    let told = |output: &Output| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let begun = String::from_utf8_lossy(&output.stdout).contains("begun");
        (output.status.code(), begun, said)
    };
    for (megabytes, words, code, has_begun, line) in [
        (96, &record[..], 0, true, "frame pointers alone"),
        (96, &stat[..], 0, true, "frame pointers alone"),
        (
            40,
            &record[..],
            1,
            false,
            "a recording takes 56 MB of memory",
        ),
        (40, &stat[..], 0, true, "no account of the time"),
        (20, &stat[..], 1, false, "to count takes 28 MB of memory"),
    ] {
        let Some(group) = MemoryGroup::new(megabytes) else {
            eprintln!(
                "SKIPPED what_has_no_room_is_left_out: no control group can bound memory here"
            );
            return;
        };
        let (status, begun, said) = told(&group.quell(words));
        let what = format!("{} in {megabytes} MB: {said}", words[0]);
        assert_eq!((status, begun), (Some(code), has_begun), "{what}");
        assert!(said.contains(line), "{what}");
        let refused = code != 0;
        assert!(!refused || said.lines().count() == 1, "{what}");
    }
    fs::remove_dir_all(trace).unwrap();
}
