//! CPU-ISO: hot CPUs that the kernel still uses for its own work.

use crate::rules::prelude::*;

use super::common::{
    ISOLATED_CPUS_FILE, NOHZ_FULL_FILE, check_hot_cpus, cpu_list, cpus_without, kernel_parameter,
    online_cpus,
};

const ISOLATED_PARTITIONS_FILE: &str = "/sys/fs/cgroup/cpuset.cpus.isolated";
const KERNEL_PARAMETERS_FILE: &str = "/proc/cmdline";

pub(super) const CPU_ISO: AuditRule = AuditRule {
    id: "CPU-ISO",
    title: "hot CPUs are not set apart",
    severity: Severity::Medium,
    why: "The scheduler moves other tasks to the CPU, its timer ticks up to 1000 times a second, and it runs the \
          callbacks of RCU: each interrupts the thread that was to have it alone.",
    risk: "Nothing else runs on these CPUs; where a thread there makes many system calls they get slower.",
    source: "github.com/bitcharmer/tlb_shootdowns; kernel Documentation/admin-guide/kernel-parameters.txt, \
             Documentation/timers/no_hz.rst; tuned profile cpu-partitioning",
    causes: &[],
    check: RuleCheck::System(|look| check_hot_cpus(look, check_cpu_iso)),
};

fn check_cpu_iso(look: &SystemView<'_>, hot: &[u32]) -> CheckResult {
    let (isolated, first) = look.read(ISOLATED_CPUS_FILE);
    let (partitions, second) = look.read(ISOLATED_PARTITIONS_FILE);
    let (full, third) = look.read(NOHZ_FULL_FILE);
    let (_, fourth) = look.read(KERNEL_PARAMETERS_FILE);
    let words = look.kernel_parameters();
    let lists = [&isolated, &partitions, &full].map(cpu_list);
    let unread = lists.iter().any(Option::is_none);
    // a list that can't be read counts as one of all: what it lacks can't be told
    let left = |list: &Option<Vec<u32>>| match list {
        Some(covered) => cpus_without(hot, covered),
        None => Vec::new(),
    };
    let shared: Vec<u32> = left(&lists[0])
        .into_iter()
        .filter(|cpu| left(&lists[1]).contains(cpu))
        .collect();
    let ticked = left(&lists[2]);
    // the CPUs of nohz_full= are taken from RCU too (kernel/rcu/tree_nocb.h, rcu_init_nohz)
    let callbacks = match nocbs_cpus(look, &words) {
        Some(nocbs) => cpus_without(&ticked, &nocbs),
        None => Vec::new(),
    };
    let parts = [
        (&shared, "other tasks may run on CPUs"),
        (&ticked, "the timer ticks on CPUs"),
        (&callbacks, "callbacks of RCU run on CPUs"),
    ];
    let said: Vec<String> = parts
        .iter()
        .filter(|(cpus, _)| !cpus.is_empty())
        .map(|(cpus, what)| format!("{what} {}", cpus::format_cpu_list(cpus)))
        .collect();
    let checked = if said.is_empty() && unread {
        CheckResult::unknown("which CPUs are set apart can't be read")
    } else if said.is_empty() {
        CheckResult::ok("the hot CPUs are set apart")
    } else {
        let list = cpus::format_cpu_list(hot);
        let mut checked = CheckResult::hazard(said.join("; "));
        if !shared.is_empty() {
            checked = checked
                .with_advice(format!(
                    "cgroup v2: a cgroup with cpuset.cpus={list} and cpuset.cpus.partition=isolated, and the \
                     program in it, sets them apart without a restart"
                ))
                .with_fix(Fix::Cmdline(format!("isolcpus={list}")));
        }
        if !ticked.is_empty() {
            checked = add_tick_fixes(checked, &full, hot);
            // ticks of all CPUs at once meet at the same locks
            if kernel_parameter(&words, "skew_tick").is_none() {
                checked = checked.with_fix(Fix::Cmdline("skew_tick=1".to_owned()));
            }
        }
        if !callbacks.is_empty() {
            checked = checked.with_fix(Fix::Cmdline(format!("rcu_nocbs={list}")));
        }
        checked
    };
    checked.with_reads([first, second, third, fourth])
}

fn add_tick_fixes(checked: CheckResult, full: &FileValue, hot: &[u32]) -> CheckResult {
    // the kernel takes the CPU that it starts on from the list (kernel/time/tick-sched.c, tick_nohz_init)
    let list = cpus::format_cpu_list(&cpus_without(hot, &[0]));
    let checked = if hot.contains(&0) {
        checked.with_advice(
            "program: run it on another CPU than 0, which keeps the time and can't be without ticks",
        )
    } else {
        checked
    };
    match full {
        _ if list.is_empty() => checked,
        FileValue::Absent => checked.with_advice(format!(
            "kernel: one with CONFIG_NO_HZ_FULL, which this one lacks, and nohz_full={list}"
        )),
        _ => checked.with_fix(Fix::Cmdline(format!("nohz_full={list}"))),
    }
}

/// The CPUs of rcu_nocbs=; without a list they are none (Documentation/admin-guide/kernel-parameters.txt).
/// `None` for what the kernel takes and nobody writes, such as `0-8:2/4`.
fn nocbs_cpus(look: &SystemView<'_>, words: &[String]) -> Option<Vec<u32>> {
    match kernel_parameter(words, "rcu_nocbs") {
        None | Some("") => Some(Vec::new()),
        Some("all") => Some(online_cpus(look)),
        Some(text) => cpus::parse_cpu_list(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    /// Check that CPUs that are kept from the scheduler only are a hazard, with what is still missing.
    #[test]
    fn half_set_apart() {
        let found = ask_rule_on(
            &CPU_ISO,
            &[
                (ISOLATED_CPUS_FILE, "2-3"),
                (NOHZ_FULL_FILE, "  (null)"),
                (KERNEL_PARAMETERS_FILE, "isolcpus=2-3"),
            ],
        );
        assert_hazard(
            &found,
            "",
            "kernel command line: nohz_full=2-3\nkernel command line: skew_tick=1\n\
             kernel command line: rcu_nocbs=2-3",
        );
        assert_eq!(
            found.said,
            "the timer ticks on CPUs 2-3; callbacks of RCU run on CPUs 2-3"
        );
        let tickless = ask_rule_on(
            &CPU_ISO,
            &[
                (NOHZ_FULL_FILE, "2-3"),
                (ISOLATED_CPUS_FILE, ""),
                (KERNEL_PARAMETERS_FILE, ""),
            ],
        );
        assert!(
            tickless.said.starts_with("other tasks"),
            "{}",
            tickless.said
        );
        assert!(tickless.fix_lasting().ends_with("isolcpus=2-3"));
    }

    /// Check that CPU 0, which keeps the time, is not asked to be without ticks.
    #[test]
    fn the_first_cpu_ticks() {
        let files = |isolated| {
            [
                (ISOLATED_CPUS_FILE, isolated),
                (NOHZ_FULL_FILE, ""),
                (KERNEL_PARAMETERS_FILE, "rcu_nocbs=all skew_tick=1"),
            ]
        };
        let other = "program: run it on another CPU than 0, which keeps the time and can't be without ticks";
        assert_hazard(&ask_rule_on(&CPU_ISO, &files("0")), "", other);
        assert_hazard(
            &ask_rule_on(&CPU_ISO, &files("0,2")),
            "",
            &format!("{other}\nkernel command line: nohz_full=2"),
        );
    }

    /// Check that CPUs that are set apart in full are fine, and so is a machine without any.
    #[test]
    fn set_apart() {
        let files = [(ISOLATED_CPUS_FILE, "2-3"), (NOHZ_FULL_FILE, "2-3")];
        assert_eq!(status_on(&CPU_ISO, &files), FindingStatus::Ok);
        let partition = [(ISOLATED_PARTITIONS_FILE, "2-3"), (NOHZ_FULL_FILE, "2-3")];
        assert_eq!(status_on(&CPU_ISO, &partition), FindingStatus::Ok);
        assert_eq!(status_on(&CPU_ISO, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&CPU_ISO, &[(ISOLATED_CPUS_FILE, "garbage")]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status_on(
                &CPU_ISO,
                &[(ISOLATED_CPUS_FILE, "2"), (NOHZ_FULL_FILE, "x")]
            ),
            FindingStatus::Unknown
        );
    }

    /// Check that a kernel that can't run without ticks is told from one that was not asked to.
    #[test]
    fn a_kernel_without() {
        let found = ask_rule_on(
            &CPU_ISO,
            &[
                (ISOLATED_CPUS_FILE, "2"),
                (KERNEL_PARAMETERS_FILE, "rcu_nocbs=all skew_tick=1"),
            ],
        );
        assert_hazard(
            &found,
            "",
            "kernel: one with CONFIG_NO_HZ_FULL, which this one lacks, and nohz_full=2",
        );
    }
}
