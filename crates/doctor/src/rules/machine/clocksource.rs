//! SYS-CLOCK: reading the clock takes a system call.

use crate::rules::prelude::*;

const CURRENT_CLOCK_FILE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const AVAILABLE_CLOCKS_FILE: &str =
    "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Clocks that a program reads without the kernel (the vDSO).
const FAST_CLOCKS: &[&str] = &["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];
/// Clocks that take a system call and a slow device, or the hypervisor.
const SLOW_CLOCKS: &[&str] = &[
    "hpet",
    "acpi_pm",
    "pit",
    "jiffies",
    "refined-jiffies",
    "hyperv_clocksource_msr",
];

/// Read without the kernel only where the host says that its time stamp counter is stable
/// (arch/x86/xen/time.c, xen_setup_vsyscall_time_info), which nothing in /sys tells.
const XEN_CLOCK: &str = "xen";

pub(super) const SYS_CLOCK: AuditRule = AuditRule {
    id: "SYS-CLOCK",
    title: "a slow clock",
    severity: Severity::Medium,
    why: "With this clock source each look at the clock is a system call that reads a device, a µs or more in \
          place of 20 ns.",
    risk: "Where the time stamp counters of the CPUs drift apart the clock jumps; tsc=reliable stops the kernel \
           from watching for that.",
    source: "github.com/bitcharmer/tlb_shootdowns; Redis documentation, latency; kernel \
             Documentation/admin-guide/kernel-parameters.txt, tsc= and clocksource=",
    causes: &[],
    check: RuleCheck::System(check_sys_clock),
};

fn check_sys_clock(look: &SystemView<'_>) -> CheckResult {
    let (current, first) = look.read(CURRENT_CLOCK_FILE);
    let (available, second) = look.read(AVAILABLE_CLOCKS_FILE);
    let offered = available.text().unwrap_or_default();
    let has_tsc = offered.split_ascii_whitespace().any(|c| c == "tsc");
    let checked = match (&current, current.text().unwrap_or_default()) {
        (_, name) if FAST_CLOCKS.contains(&name) => CheckResult::ok(name),
        (_, name) if (SLOW_CLOCKS.contains(&name) || name == XEN_CLOCK) && has_tsc => CheckResult::hazard(format!("{name}, and tsc is there"))
            .with_severity(if name == XEN_CLOCK { Severity::Low } else { Severity::Medium })
            .with_fix(Fix::set_file(CURRENT_CLOCK_FILE, "tsc"))
            .with_fix(Fix::Cmdline("clocksource=tsc".to_owned()))
            .with_fix(Fix::Cmdline("tsc=reliable".to_owned())),
        // the kernel has found it to run unevenly: forcing it would be worse than a slow clock
        (_, name) if SLOW_CLOCKS.contains(&name) => CheckResult::hazard(name).with_advice(
            "machine: the kernel's log says why it gave tsc up ('Marking TSC unstable'); firmware or host can \
             mend that, and tsc=reliable only hides it",
        ),
        (_, XEN_CLOCK) => CheckResult::unknown("'xen' is slow only where the kernel's log says 'VDSO_CLOCKMODE_PVCLOCK not supported'"),
        (FileValue::Absent, _) => CheckResult::unknown("this kernel does not say which clock it uses"),
        (FileValue::Refused(_), _) => CheckResult::unknown("the clock can't be read"),
        (FileValue::Text(_), name) => CheckResult::unknown(format!("what '{name}' costs is not known here")),
    };
    checked.with_reads([first, second])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    /// Check that a slow clock is a hazard, and that tsc is chosen only where the kernel offers it.
    #[test]
    fn slow_clocks() {
        assert_hazard(
            &ask_rule_on(
                &SYS_CLOCK,
                &[
                    (CURRENT_CLOCK_FILE, "xen"),
                    (AVAILABLE_CLOCKS_FILE, "xen tsc hpet acpi_pm "),
                ],
            ),
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
            "tmpfiles.d: w /sys/devices/system/clocksource/clocksource0/current_clocksource - - - - tsc\n\
             kernel command line: clocksource=tsc\nkernel command line: tsc=reliable",
        );
        assert_eq!(
            ask_rule_on(
                &SYS_CLOCK,
                &[
                    (CURRENT_CLOCK_FILE, "xen"),
                    (AVAILABLE_CLOCKS_FILE, "xen tsc")
                ]
            )
            .severity,
            Severity::Low
        );
        assert_eq!(
            status_on(
                &SYS_CLOCK,
                &[(CURRENT_CLOCK_FILE, "xen"), (AVAILABLE_CLOCKS_FILE, "xen")]
            ),
            FindingStatus::Unknown
        );
        let given_up = ask_rule_on(
            &SYS_CLOCK,
            &[
                (CURRENT_CLOCK_FILE, "hpet"),
                (AVAILABLE_CLOCKS_FILE, "hpet acpi_pm"),
            ],
        );
        assert_eq!(given_up.status, FindingStatus::Hazard);
        assert_eq!(given_up.fix_now(), "");
        assert!(
            !given_up.fix_lasting().contains("command line"),
            "{given_up:?}"
        );
    }

    /// Check that clocks that need no system call are fine, and that one that nobody knows is unknown.
    #[test]
    fn fast_clocks() {
        for name in ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"] {
            assert_eq!(
                status_on(&SYS_CLOCK, &[(CURRENT_CLOCK_FILE, name)]),
                FindingStatus::Ok
            );
        }
        assert_eq!(
            status_on(&SYS_CLOCK, &[(CURRENT_CLOCK_FILE, "sundial")]),
            FindingStatus::Unknown
        );
        assert_eq!(status_on(&SYS_CLOCK, &[]), FindingStatus::Unknown);
    }
}
