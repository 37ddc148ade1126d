//! PROC-BLAST: threads that nobody is to disturb share an address space with others.

use crate::rules::prelude::*;

pub(super) const PROC_BLAST: AuditRule = AuditRule {
    id: "PROC-BLAST",
    title: "pinned threads share memory with others",
    severity: Severity::Info,
    why: "A thread that unmaps or protects memory interrupts every CPU that runs a thread of the same process, \
          pinned and isolated or not.",
    risk: "Two processes need shared memory to talk to each other, and more work to start and stop.",
    source: "github.com/bitcharmer/tlb_shootdowns; jabperf.com; arch/x86/mm/tlb.c flush_tlb_mm_range",
    // it makes no shootdown, it makes each one wider
    causes: &[],
    check: RuleCheck::Process(check_proc_blast),
};

fn check_proc_blast(look: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    let folder = process.proc_path("task");
    let tasks = look.numbered_files_in(&folder);
    // a thread that ended meanwhile has none
    let allowed = tasks.iter().filter_map(|task| {
        let status = look.file(&format!("{task}/status"));
        cpus::parse_cpu_list(status.field("Cpus_allowed_list")?)
    });
    let threads: Vec<Vec<u32>> = allowed.collect();
    let mut width: Vec<u32> = threads.concat();
    width.sort_unstable();
    width.dedup();
    let apart = cpus::Isolation::read(process.root()).all_cpus();
    // on CPUs that are set apart, or alone on one
    let is_pinned = |own: &&Vec<u32>| {
        own.len() == 1 || !apart.is_empty() && own.iter().all(|cpu| apart.contains(cpu))
    };
    let all = threads.len();
    let pinned = threads.iter().filter(is_pinned).count();
    let width = cpus::format_cpu_list(&width);
    let checked = match (all, pinned) {
        (0, _) => CheckResult::unknown("its threads can't be read"),
        (1, _) => CheckResult::ok("one thread: it has nobody to interrupt"),
        (_, 0) => {
            CheckResult::ok("none of its threads is pinned to a CPU or to CPUs that are set apart")
        }
        (_, _) if all == pinned => CheckResult::ok("all of its threads are pinned"),
        _ => {
            let checked = CheckResult::hazard(format!(
                "{pinned} of {all} threads are pinned, and the others share their memory"
            ))
            .with_advice(
                "program: map and unmap before the pinned threads start, or move the other threads to a process \
                 of their own with shared memory between the two",
            );
            match housekeeping_cpus(look, &apart) {
                // what starts pinned elsewhere pins itself, which a service's CPUAffinity= doesn't forbid
                Some(rest) => checked.with_fix(Fix::Directive(format!("CPUAffinity={rest}"))),
                None => checked,
            }
        }
    };
    let shown = format!("{all} threads, {pinned} pinned, on CPUs {width}");
    checked.with_reads([FileReading::new(folder, shown)])
}

/// CPUs that are left for the other threads, where some are set apart.
fn housekeeping_cpus(look: &SystemView<'_>, apart: &[u32]) -> Option<String> {
    let online = look.file("/sys/devices/system/cpu/online");
    let mut rest = cpus::parse_cpu_list(online.text()?)?;
    rest.retain(|cpu| !apart.contains(cpu));
    (!apart.is_empty() && !rest.is_empty()).then(|| cpus::format_cpu_list(&rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Finding;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard};

    const ADVICE: &str = "program: map and unmap before the pinned threads start, or move the other threads to a \
                          process of their own with shared memory between the two";

    fn threads(lists: &[&str], isolated: &str) -> Finding {
        let named = lists.iter().enumerate().map(|(i, list)| {
            (
                format!("PID/task/{i}/status"),
                format!("Name:\tx\nCpus_allowed_list:\t{list}"),
            )
        });
        let named: Vec<(String, String)> = named.collect();
        let mut files: Vec<(&str, &str)> = named.iter().map(|(a, b)| (&a[..], &b[..])).collect();
        files.push(("/sys/devices/system/cpu/isolated", isolated));
        ask_rule_on(&PROC_BLAST, &files)
    }

    /// Check that a pinned thread beside others is said, with the CPUs that are left to those.
    #[test]
    fn pinned_beside_others() {
        let found = threads(&["0-7", "6-7"], "6-7");
        let lasting = format!("{ADVICE}\nsystemd service: CPUAffinity=0-5");
        assert_hazard(&found, "", &lasting);
        assert_eq!(found.severity, Severity::Info);
        assert_eq!(
            found.said,
            "1 of 2 threads are pinned, and the others share their memory"
        );
        assert_hazard(&threads(&["0-7", "3"], ""), "", ADVICE);
    }

    /// Check that threads that are all alike are fine, as is one alone, and that unreadable ones are unknown.
    #[test]
    fn nobody_to_disturb() {
        assert_eq!(threads(&["0-7", "0-7"], "6-7").status, FindingStatus::Ok);
        assert_eq!(threads(&["6", "7"], "6-7").status, FindingStatus::Ok);
        assert_eq!(threads(&["6"], "").status, FindingStatus::Ok);
        assert_eq!(threads(&[], "").status, FindingStatus::Unknown);
        assert_eq!(threads(&["x"], "").status, FindingStatus::Unknown);
    }
}
