//! SYS-CLOCK: reading the clock takes a system call.

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const AVAILABLE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Clocks that a program reads without the kernel (the vDSO), on any kind of processor.
const FAST: &[&str] = &[
    "tsc",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "arch_sys_counter",
    "riscv_clocksource",
    "timebase",
    "tod",
];
/// Clocks that take a system call and a slow device, or the hypervisor.
const SLOW: &[&str] = &[
    "hpet",
    "acpi_pm",
    "pit",
    "jiffies",
    "refined-jiffies",
    "hyperv_clocksource_msr",
];

/// Read without the kernel only where the host says that its time stamp counter is stable
/// (arch/x86/xen/time.c, xen_setup_vsyscall_time_info), which nothing in /sys tells.
const XEN: &str = "xen";

pub(super) const RULE: Rule = Rule {
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
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (current, first) = look.read(CURRENT);
    let (available, second) = look.read(AVAILABLE);
    let offered = available.text().unwrap_or_default();
    let has_tsc = offered.split_ascii_whitespace().any(|c| c == "tsc");
    let checked = match (&current, current.text().unwrap_or_default()) {
        (_, name) if FAST.contains(&name) => Checked::ok(name),
        (_, name) if (SLOW.contains(&name) || name == XEN) && has_tsc => Checked::hazard(format!("{name}, and tsc is there"))
            .severity(if name == XEN { Severity::Low } else { Severity::Medium })
            .fix(Fix::write(CURRENT, "tsc"))
            .fix(Fix::Cmdline("clocksource=tsc".to_owned()))
            .fix(Fix::Cmdline("tsc=reliable".to_owned())),
        // the kernel has found it to run unevenly: forcing it would be worse than a slow clock
        (_, name) if SLOW.contains(&name) => Checked::hazard(name).fix(Fix::Advice(
            "machine: the kernel's log says why it gave tsc up ('Marking TSC unstable'); firmware or host can \
             mend that, and tsc=reliable only hides it"
                .to_owned(),
        )),
        (_, XEN) => Checked::unknown("'xen' is slow only where the kernel's log says 'VDSO_CLOCKMODE_PVCLOCK not supported'"),
        (Value::Absent, _) => Checked::unknown("this kernel does not say which clock it uses"),
        (Value::Refused(_), _) => Checked::unknown("the clock can't be read"),
        (Value::Text(_), name) => Checked::unknown(format!("what '{name}' costs is not known here")),
    };
    checked.read([first, second])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    /// Check that a slow clock is a hazard, and that tsc is chosen only where the kernel offers it.
    #[test]
    fn slow_clocks() {
        assert_hazard(
            &ask(
                &RULE,
                &[(CURRENT, "xen"), (AVAILABLE, "xen tsc hpet acpi_pm ")],
            ),
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
            "tmpfiles.d: w /sys/devices/system/clocksource/clocksource0/current_clocksource - - - - tsc\n\
             kernel command line: clocksource=tsc\nkernel command line: tsc=reliable",
        );
        assert_eq!(
            ask(&RULE, &[(CURRENT, "xen"), (AVAILABLE, "xen tsc")]).severity,
            Severity::Low
        );
        assert_eq!(
            status(&RULE, &[(CURRENT, "xen"), (AVAILABLE, "xen")]),
            Status::Unknown
        );
        let given_up = ask(&RULE, &[(CURRENT, "hpet"), (AVAILABLE, "hpet acpi_pm")]);
        assert_eq!(given_up.status, Status::Hazard);
        assert_eq!(given_up.fix_now(), "");
        assert!(
            !given_up.fix_lasting().contains("command line"),
            "{given_up:?}"
        );
    }

    /// Check that clocks that need no system call are fine, and that one that nobody knows is unknown.
    #[test]
    fn fast_clocks() {
        for name in ["tsc", "kvm-clock", "arch_sys_counter"] {
            assert_eq!(status(&RULE, &[(CURRENT, name)]), Status::Ok);
        }
        assert_eq!(status(&RULE, &[(CURRENT, "sundial")]), Status::Unknown);
        assert_eq!(status(&RULE, &[]), Status::Unknown);
    }
}
