//! SYS-WDOG: the kernel watches each CPU for lock-ups.

use crate::rules::prelude::*;

use super::common::{cpu_list, cpus_without, online_cpus};

const WATCHDOG_FILE: &str = "/proc/sys/kernel/watchdog";
const NMI_WATCHDOG_FILE: &str = "/proc/sys/kernel/nmi_watchdog";
const SOFT_WATCHDOG_FILE: &str = "/proc/sys/kernel/soft_watchdog";
const WATCHDOG_CPUS_FILE: &str = "/proc/sys/kernel/watchdog_cpumask";

pub(super) const SYS_WDOG: AuditRule = AuditRule {
    id: "SYS-WDOG",
    title: "lock-up detectors",
    severity: Severity::Low,
    why: "A timer and a thread of the highest priority run on each watched CPU every 4 s, and the detector of \
          hard lock-ups adds an interrupt that can't be masked and takes a counter from perf.",
    risk: "A CPU that hangs in the kernel is not reported, nor is the machine restarted for it.",
    source: "github.com/bitcharmer/tlb_shootdowns; tuned profile cpu-partitioning; kernel \
             Documentation/admin-guide/lockup-watchdogs.rst",
    causes: &[],
    check: RuleCheck::System(check_sys_wdog),
};

fn check_sys_wdog(look: &SystemView<'_>) -> CheckResult {
    let (all, first) = look.read(WATCHDOG_FILE);
    let (nmi, second) = look.read(NMI_WATCHDOG_FILE);
    let (soft, third) = look.read(SOFT_WATCHDOG_FILE);
    let (watched, fourth) = look.read(WATCHDOG_CPUS_FILE);
    let hot = look.hot_cpus();
    let watched_list = watched.text().and_then(cpus::parse_cpu_list);
    let left_out = watched_list.is_some_and(|w| !hot.is_empty() && cpus_without(&hot, &w) == hot);
    // The first reads 1 where one of both runs (kernel/watchdog.c, proc_watchdog_common).
    let checked = match (all.number(), &all) {
        (Some(0), _) => CheckResult::ok("switched off"),
        (Some(1), _) if left_out => CheckResult::ok("the hot CPUs are left out"),
        (Some(1), _) => watchdog_hazard(look, &hot, &nmi, &soft),
        (None, FileValue::Absent) => CheckResult::ok("this kernel has none"),
        _ => CheckResult::unknown("the setting can't be read"),
    };
    checked.with_reads([first, second, third, fourth])
}

fn watchdog_hazard(
    look: &SystemView<'_>,
    hot: &[u32],
    nmi: &FileValue,
    soft: &FileValue,
) -> CheckResult {
    let each = [
        (soft, "soft", "kernel.soft_watchdog"),
        (nmi, "hard", "kernel.nmi_watchdog"),
    ];
    let on = each.iter().filter(|(value, ..)| value.number() == Some(1));
    let names: Vec<&str> = on.clone().map(|(_, name, _)| *name).collect();
    let which = if names.is_empty() {
        "all CPUs are watched".to_owned()
    } else {
        format!("CPUs are watched for {} lock-ups", names.join(" and "))
    };
    let checked = CheckResult::hazard(which);
    let rest = cpus_without(
        &cpu_list(&look.file(WATCHDOG_CPUS_FILE)).unwrap_or_default(),
        hot,
    );
    let rest = if rest.is_empty() {
        cpus_without(&online_cpus(look), hot)
    } else {
        rest
    };
    // the others stay watched where it is known which are hot
    if !hot.is_empty() && !rest.is_empty() && look.file(WATCHDOG_CPUS_FILE) != FileValue::Absent {
        return checked.with_fix(Fix::set_sysctl(
            "kernel.watchdog_cpumask",
            cpus::format_cpu_list(&rest),
        ));
    }
    // Each by its name: up to Linux 6.6 whoever reads one of the two while all are off switches it off for good
    // (kernel/watchdog.c, proc_watchdog_common()), and to switch all on again would not bring it back.
    checked
        .with_fix(Fix::set_sysctl("kernel.watchdog", "0"))
        .with_fixes(on.map(|(.., setting)| Fix::set_sysctl(setting, "0")))
        .with_fix(Fix::Cmdline("nowatchdog".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const ISOLATED: (&str, &str) = ("/sys/devices/system/cpu/isolated", "2-3");

    /// Check that a detector that runs is a hazard, and is switched off where no CPU is known to be hot.
    #[test]
    fn running_is_a_hazard() {
        let files = [
            (WATCHDOG_FILE, "1"),
            (NMI_WATCHDOG_FILE, "0"),
            (SOFT_WATCHDOG_FILE, "1"),
            (WATCHDOG_CPUS_FILE, "0-7"),
        ];
        let found = ask_rule_on(&SYS_WDOG, &files);
        assert_hazard(
            &found,
            "sysctl -w kernel.watchdog=0\nsysctl -w kernel.soft_watchdog=0",
            "sysctl.d: kernel.watchdog = 0\nsysctl.d: kernel.soft_watchdog = 0\nkernel command line: nowatchdog",
        );
        assert_eq!(found.said, "CPUs are watched for soft lock-ups");
        assert_eq!(
            status_on(&SYS_WDOG, &[(WATCHDOG_FILE, "0")]),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&SYS_WDOG, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_WDOG, &[(WATCHDOG_FILE, "x")]),
            FindingStatus::Unknown
        );
    }

    /// Check that only the hot CPUs are taken out where they are known, and that then all is fine.
    #[test]
    fn the_others_stay_watched() {
        let found = ask_rule_on(
            &SYS_WDOG,
            &[
                ISOLATED,
                (WATCHDOG_FILE, "1"),
                (NMI_WATCHDOG_FILE, "1"),
                (WATCHDOG_CPUS_FILE, "0-7"),
            ],
        );
        assert_hazard(
            &found,
            "sysctl -w kernel.watchdog_cpumask=0-1,4-7",
            "sysctl.d: kernel.watchdog_cpumask = 0-1,4-7",
        );
        assert_eq!(
            status_on(
                &SYS_WDOG,
                &[
                    ISOLATED,
                    (WATCHDOG_FILE, "1"),
                    (WATCHDOG_CPUS_FILE, "0-1,4-7")
                ]
            ),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(
                &SYS_WDOG,
                &[ISOLATED, (WATCHDOG_FILE, "1"), (WATCHDOG_CPUS_FILE, "0-2")]
            ),
            FindingStatus::Hazard
        );
    }
}
