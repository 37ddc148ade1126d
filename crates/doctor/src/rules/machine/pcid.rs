//! CPU-PCID: TLB entries without the number of their address space.

use crate::rules::prelude::*;

use super::common::{kernel_parameter, read_cpu_flag};

pub(super) const CPU_PCID: AuditRule = AuditRule {
    id: "CPU-PCID",
    title: "TLB entries without an address space",
    severity: Severity::High,
    why: "Without PCID the whole TLB of user pages is flushed at every switch to another process; without \
          INVPCID a kernel with page-table isolation flushes all of a process where one page would do.",
    risk: "None.",
    source: "github.com/bitcharmer/tlb_shootdowns; kernel arch/x86/mm/tlb.c and init.c, setup_pcid",
    causes: &[],
    check: RuleCheck::System(check_cpu_pcid),
};

fn check_cpu_pcid(look: &SystemView<'_>) -> CheckResult {
    let (pcid, first) = read_cpu_flag(look, "pcid");
    let (invpcid, second) = read_cpu_flag(look, "invpcid");
    let checked = match (pcid, invpcid) {
        (Some(true), Some(false)) => {
            let isolated = look.cpu_flag("pti") == Some(true);
            let severity = if isolated {
                Severity::Medium
            } else {
                Severity::Low
            };
            missing_flag(look, "invpcid", "noinvpcid").with_severity(severity)
        }
        (Some(true), _) => CheckResult::ok("the kernel uses pcid and invpcid"),
        (Some(false), _) => missing_flag(look, "pcid", "nopcid"),
        (None, _) => CheckResult::unknown("/proc/cpuinfo can't be read"),
    };
    checked.with_reads([first, second])
}

fn missing_flag(look: &SystemView<'_>, flag: &str, switch: &str) -> CheckResult {
    let off = kernel_parameter(&look.kernel_parameters(), switch).is_some();
    let guest = look.cpu_flag("hypervisor") == Some(true);
    let (said, advice) = if off {
        (
            format!("{flag} is switched off by '{switch}'"),
            format!("kernel command line: take '{switch}' out"),
        )
    } else if guest {
        (
            format!("this machine is not given {flag}"),
            format!("host: choose a CPU model with {flag} (QEMU: -cpu host)"),
        )
    } else {
        (
            format!("no {flag}"),
            // Linux gives PCID up on Alder Lake with old microcode (arch/x86/mm/init.c, invlpg_miss_ids)
            format!(
                "hardware: Intel since Haswell and AMD since Zen 3 have {flag}; update the microcode where the \
                 kernel's log says 'Incomplete global flushes, disabling PCID'"
            ),
        )
    };
    CheckResult::hazard(said).with_advice(advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const INFO: &str = "/proc/cpuinfo";

    /// Check that a kernel told to do without is a hazard whose fix is to tell it no more.
    #[test]
    fn switched_off() {
        let files = [(INFO, "flags\t\t: fpu pge"), ("/proc/cmdline", "ro nopcid")];
        assert_hazard(
            &ask_rule_on(&CPU_PCID, &files),
            "",
            "kernel command line: take 'nopcid' out",
        );
    }

    /// Check that a machine of a host that hides it, and one that has none, are told apart.
    #[test]
    fn missing_flag() {
        let guest = ask_rule_on(&CPU_PCID, &[(INFO, "flags\t\t: fpu hypervisor")]);
        assert_hazard(
            &guest,
            "",
            "host: choose a CPU model with pcid (QEMU: -cpu host)",
        );
        let old = ask_rule_on(&CPU_PCID, &[(INFO, "flags\t\t: fpu")]);
        assert_eq!(old.severity, Severity::High);
        assert!(old.fix_lasting().starts_with("hardware:"), "{old:?}");
    }

    /// Check that INVPCID matters more with page-table isolation, and that all is fine with both.
    #[test]
    fn invpcid() {
        let found = |flags| ask_rule_on(&CPU_PCID, &[(INFO, flags)]);
        assert_eq!(found("flags : pcid pti").severity, Severity::Medium);
        assert_eq!(found("flags : pcid").severity, Severity::Low);
        assert_eq!(found("flags : pcid").status, FindingStatus::Hazard);
        assert_eq!(found("flags : pcid invpcid").status, FindingStatus::Ok);
    }

    /// Check that a file that can't be read is unknown.
    #[test]
    fn unreadable() {
        assert_eq!(
            status_on(&CPU_PCID, &[(INFO, "garbage")]),
            FindingStatus::Unknown
        );
        assert_eq!(status_on(&CPU_PCID, &[]), FindingStatus::Unknown);
    }
}
