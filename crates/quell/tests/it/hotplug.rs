//! CPUs that come and go while quell watches: in a virtual machine of `make test-kernels`, which is thrown away.

use std::fs;

use serde_json::Value;

use crate::common::{alone, emulated_only, json, quell};

const CPU: &str = "/sys/devices/system/cpu/cpu3/online";

/// Takes the last of four CPUs away for a while in the middle, and gives it back.
const HOTPLUG: &str = "sleep 4; echo 0 >\"$0\"; sleep 8; echo 1 >\"$0\"; sleep 4";

/// The CPU time that there was lies between that of three CPUs and that of four: the fourth was away for a part of it, and
/// there for another.
fn between_three_and_four(told: &Value) {
    let ns = |name: &str| {
        told[name]
            .as_u64()
            .unwrap_or_else(|| panic!("no {name}: {told:#}"))
    };
    let (online, duration) = (ns("online_ns"), ns("duration_ns"));
    assert_eq!(ns("cpus"), 4, "{told:#}");
    assert!(3 * duration < online && online < 4 * duration, "{told:#}");
}

/// Check that a CPU that goes and comes back leaves the CPU time that there was, in stat, in a trace, and in words.
#[test]
fn cpu_time_is_what_there_was() {
    if !emulated_only("cpu_time_is_what_there_was") {
        return;
    }
    let _alone = alone();
    let offline = ["sh", "-c", HOTPLUG, CPU];
    let stat = quell(&[&["stat", "-a", "--json", "--"], &offline[..]].concat());
    let said = String::from_utf8_lossy(&stat.stderr);
    assert!(stat.status.success(), "{said}");
    between_three_and_four(&json(&stat.stdout));

    let dir = tempfile::tempdir().expect("a folder");
    let trace = dir.path().join("trace").display().to_string();
    let out = quell(&[&["record", "-a", "-o", &trace, "--"], &offline[..]].concat());
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    between_three_and_four(&json(&quell(&["report", &trace, "--json"]).stdout));
    let text = quell(&["report", &trace]).stdout;
    let text = String::from_utf8_lossy(&text);
    assert!(
        text.contains("CPUs on average: some came or went"),
        "{text}"
    );
    assert_eq!(fs::read_to_string(CPU).expect("its state").trim(), "1");
}

/// Takes a CPU away for so long that quell sees it, gives it back, and has a program compute there and nowhere else.
const COMPUTES_LATER: &str = "echo 0 >\"$0\"; sleep 3; echo 1 >\"$0\"; sleep 3; \
                              taskset 8 sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'";

/// Check that a CPU that comes back is sampled: a program that computes there gets its share of samples.
#[test]
fn a_cpu_that_comes_back_is_sampled() {
    if !emulated_only("a_cpu_that_comes_back_is_sampled") {
        return;
    }
    let _alone = alone();
    let stat = quell(&["stat", "--json", "--", "sh", "-c", COMPUTES_LATER, CPU]);
    let said = String::from_utf8_lossy(&stat.stderr);
    assert!(stat.status.success(), "{said}");
    let account = &json(&stat.stdout)["account"];
    let figure = |name: &str| account[name].as_u64().unwrap_or_default();
    // 499 a second where all of its time is sampled; what ran before on other CPUs is next to nothing
    let full = figure("cpu_ns") / 1_000_000_000 * 499;
    assert!(full > 100 && figure("samples") > full / 3, "{account:#}");
}
