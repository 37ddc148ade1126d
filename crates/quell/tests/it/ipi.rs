//! Other function calls between CPUs: against a program that makes them, and against the shootdowns' own counts.

use serde_json::Value;

use crate::common::{GOES, alone, example, json, quell, root_only};

const COUNT: u64 = 300;

fn rows<'a>(stat: &'a Value, key: &str) -> &'a Vec<Value> {
    stat["calls"][key].as_array().expect("rows")
}

/// Sums a figure over the rows of a kind.
fn sum(stat: &Value, key: &str, kind: &str, figure: &str) -> u64 {
    let of_kind = rows(stat, key).iter().filter(|r| r["kind"] == kind);
    of_kind.map(|r| r[figure].as_u64().expect("a count")).sum()
}

/// Check that membarriers and counters of another CPU are found under their kinds, by the program that makes them, on the CPU that they hit, with their times.
#[test]
fn calls_are_told_apart() {
    if !root_only("calls_are_told_apart") {
        return;
    }
    let _alone = alone();
    for (what, function) in [("membarrier", "ipi_mb"), ("perf", "remote_function")] {
        // work of others on the machine takes the peer off its CPU; and there are hosts whose kernel runs
        // no eBPF while a thread of their init runs, so that a call that comes then has no times
        let mut run = calls_of(what, function);
        for _ in 0..4 {
            if run.1 >= COUNT / 2 && untimed(&run.0, function) == 0 {
                break;
            }
            run = calls_of(what, function);
        }
        let (stat, calls) = run;
        // a peer that is off its CPU is not interrupted by a membarrier; a counter is switched on and off
        assert!(calls >= COUNT / 2, "{what}: {calls}\n{stat:#}");
        assert!(calls <= COUNT * 3, "{what}: {calls}\n{stat:#}");
        for row in rows(&stat, "by")
            .iter()
            .filter(|r| r["function"] == function)
        {
            assert_eq!(row["kind"], what);
            assert_eq!(row["comm"], "calls", "{row}");
            assert_eq!(row["cpu"], 1, "{row}");
            assert_eq!(row["timed"], row["calls"], "{row}");
            assert!(row["stall_ns"].as_u64() > Some(0), "{row}");
            assert!(row["delay_ns"].as_u64() > Some(0), "{row}");
            assert!(
                row["stall_max_ns"].as_u64() <= row["stall_ns"].as_u64(),
                "{row}"
            );
        }
        // one that comes while the same program runs on that CPU is passed over by the kernel, and said:
        // of everybody's calls, not of this program's alone
        let lost = stat["calls"]["lost"].as_u64().expect("lost");
        assert!(lost <= COUNT / 20, "{lost} lost");
    }
}

/// Calls of the function without times.
fn untimed(stat: &Value, function: &str) -> u64 {
    let count = |row: &Value, key: &str| row[key].as_u64().expect("a count");
    let of_function = rows(stat, "by")
        .iter()
        .filter(|r| r["function"] == function);
    of_function
        .map(|r| count(r, "calls") - count(r, "timed"))
        .sum()
}

/// What the example's calls are counted as, and how many of the function there are.
fn calls_of(what: &str, function: &str) -> (Value, u64) {
    let program = example("calls");
    let count = COUNT.to_string();
    let out = quell(&["stat", "--ipi", "--json", "--", &program, what, &count]);
    assert_eq!(
        out.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let stat = json(&out.stdout);
    let of_function = rows(&stat, "by")
        .iter()
        .filter(|r| r["function"] == function);
    let calls = of_function
        .map(|r| r["calls"].as_u64().expect("calls"))
        .sum();
    println!("{what}: {calls} of {COUNT}");
    (stat, calls)
}

/// Check that shootdowns counted as function calls are as many as the probe's victims, and their victims as many as it has hits: two programs that share nothing but the tracepoints.
#[test]
fn shootdowns_agree() {
    if !root_only("shootdowns_agree") {
        return;
    }
    let _alone = alone();
    let program = example("culprit");
    let mut seen = Vec::new();
    // what others shoot while one is attached and the other is not is seen by one alone: on a busy machine that may be many
    for _ in 0..GOES {
        let out = quell(&[
            "stat",
            "-a",
            "--ipi",
            "--json",
            "-o",
            "/dev/stderr",
            "--",
            &program,
            "300",
        ]);
        let stat = json(&out.stderr);
        let victims = stat["victims"].as_u64().expect("victims");
        let calls =
            sum(&stat, "by", "shootdown", "calls") + sum(&stat, "by", "vmap-flush", "calls");
        let hits = sum(&stat, "at", "shootdown", "hits") + sum(&stat, "at", "vmap-flush", "hits");
        println!("{victims} victims, {calls} calls, {hits} hits");
        assert!(victims > 300, "{stat:#}");
        if victims.abs_diff(calls) <= 5 && calls.abs_diff(hits) <= 5 {
            return;
        }
        seen.push((victims, calls, hits));
    }
    panic!("never as many victims as calls and hits: {seen:?}");
}

/// Check that with --cpu only that CPU's interrupts are counted, and that a trace keeps them for its report.
#[test]
fn one_cpu_and_a_trace() {
    if !root_only("one_cpu_and_a_trace") {
        return;
    }
    let _alone = alone();
    let program = example("calls");
    let count = COUNT.to_string();
    for cpu in [0_u64, 1] {
        let out = quell(&[
            "stat",
            "--ipi",
            "--json",
            "--cpu",
            &cpu.to_string(),
            "--",
            &program,
            "membarrier",
            &count,
        ]);
        let stat = json(&out.stdout);
        let elsewhere = rows(&stat, "by").iter().find(|r| r["cpu"] != cpu);
        assert_eq!(elsewhere, None, "on CPU {cpu} only");
        let membarriers = sum(&stat, "by", "membarrier", "calls");
        assert_eq!(membarriers > 0, cpu == 1, "{membarriers} on CPU {cpu}");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let trace = dir.path().join("t.quell");
    let trace = trace.to_str().expect("a path");
    quell(&[
        "record",
        "--ipi",
        "-o",
        trace,
        "--",
        &program,
        "membarrier",
        &count,
    ]);
    let report = json(&quell(&["report", trace, "--json"]).stdout);
    assert!(
        sum(&report, "by", "membarrier", "calls") >= COUNT / 2,
        "{report:#}"
    );
    let text = quell(&["report", trace]).stdout;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("ipi_mb"), "{text}");
}

/// Check that a kernel without the tracepoints is told so in one line, and not counted as quiet.
#[test]
fn refused_by_old_kernels() {
    if !root_only("refused_by_old_kernels") {
        return;
    }
    let symbols = std::fs::read_to_string("/proc/kallsyms").expect("the kernel's symbols");
    if symbols.contains(" __traceiter_csd_queue_cpu") {
        eprintln!(
            "SKIPPED refused_by_old_kernels: this kernel has the tracepoints; 'make test-kernels' runs it on 5.15 and 6.1"
        );
        return;
    }
    let out = quell(&["stat", "--ipi", "-a", "-d", "1"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("--ipi needs"), "{said}");
}
