//! CPU-INVLPGB: the processor could flush other CPUs without interrupting them.

use quell_host::flush::{SilentFlush, find_silent_flushes};

use crate::rules::prelude::*;

use super::common::{kernel_config, kernel_version, read_cpu_flag};

/// The first kernel that uses it (arch/x86/mm/tlb.c, X86_FEATURE_INVLPGB).
const FIRST_INVLPGB_KERNEL: (u32, u32) = (6, 15);
const INVLPGB_OPTION: &str = "CONFIG_BROADCAST_TLB_FLUSH=y";

pub(super) const CPU_INVLPGB: AuditRule = AuditRule {
    id: "CPU-INVLPGB",
    title: "flushes without interrupts are not used",
    severity: Severity::Info,
    why: "Kernels before 6.15 interrupt every CPU of a process for a shootdown, where AMD's INVLPGB would do \
          it without.",
    risk: "A new kernel; and shootdowns by INVLPGB are counted nowhere.",
    source: "kernel arch/x86/Kconfig.cpu, BROADCAST_TLB_FLUSH; AMD64 Architecture Programmer's Manual, volume 3",
    causes: &[],
    check: RuleCheck::System(check_cpu_invlpgb),
};

fn check_cpu_invlpgb(look: &SystemView<'_>) -> CheckResult {
    judge_invlpgb(look, find_silent_flushes().contains(&SilentFlush::Invlpgb))
}

fn judge_invlpgb(look: &SystemView<'_>, has: bool) -> CheckResult {
    let said = if has { "INVLPGB" } else { "no INVLPGB" };
    let cpuid = FileReading::new("CPUID 8000_0008h EBX bit 3", said);
    let (_, read) = look.read("/proc/sys/kernel/osrelease");
    // the configuration tells it of kernels that had it added, too
    let knows = match kernel_config(look) {
        Some(text) => Some(text.lines().any(|l| l == INVLPGB_OPTION)),
        None => kernel_version(look).map(|r| r >= FIRST_INVLPGB_KERNEL),
    };
    let (pcid, pcid_read) = read_cpu_flag(look, "pcid");
    let checked = match (has, knows, pcid) {
        (false, ..) => CheckResult::ok("this processor has no INVLPGB"),
        (_, None, _) => CheckResult::unknown("the kernel's version can't be read"),
        (_, Some(false), _) => CheckResult::hazard("this kernel does not use the processor's INVLPGB")
            .with_advice("kernel: 6.15 or later"),
        // the kernel gives INVLPGB up with PCID (arch/x86/kernel/cpu/cpuid-deps.c)
        (_, _, Some(false)) => CheckResult::hazard("the kernel gives INVLPGB up, because it has no PCID")
            .with_advice("see CPU-PCID"),
        _ => CheckResult::ok("the kernel uses INVLPGB for processes that run on many CPUs")
            .with_note("what is flushed by INVLPGB is no shootdown: it interrupts nobody and is counted nowhere"),
    };
    checked.with_reads([cpuid, read, pcid_read])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const KERNEL: &str = "/proc/sys/kernel/osrelease";
    const INFO: &str = "/proc/cpuinfo";
    const WITH: AuditRule = AuditRule {
        check: RuleCheck::System(|look| judge_invlpgb(look, true)),
        ..CPU_INVLPGB
    };
    const WITHOUT: AuditRule = AuditRule {
        check: RuleCheck::System(|look| judge_invlpgb(look, false)),
        ..CPU_INVLPGB
    };

    /// Check that a processor that has it under an old kernel is reported, and one without never.
    #[test]
    fn unused_is_reported() {
        let old = [(KERNEL, "6.14.9-1-amd64"), (INFO, "flags : pcid")];
        assert_hazard(&ask_rule_on(&WITH, &old), "", "kernel: 6.15 or later");
        assert_eq!(status_on(&WITHOUT, &old), FindingStatus::Ok);
        let new = [(KERNEL, "6.15.0"), (INFO, "flags : pcid")];
        assert_eq!(status_on(&WITH, &new), FindingStatus::Ok);
        assert_eq!(status_on(&WITH, &[(KERNEL, "x")]), FindingStatus::Unknown);
        let without_pcid = [(KERNEL, "6.15.0"), (INFO, "flags : fpu")];
        assert_eq!(status_on(&WITH, &without_pcid), FindingStatus::Hazard);
    }

    /// Check that the kernel's configuration counts more than its version.
    #[test]
    fn the_configuration_counts() {
        let files = |option| {
            [
                (KERNEL, "6.12.0-el10"),
                (INFO, "flags : pcid"),
                ("/boot/config-6.12.0-el10", option),
            ]
        };
        assert_eq!(
            status_on(&WITH, &files("CONFIG_A=y\nCONFIG_BROADCAST_TLB_FLUSH=y")),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&WITH, &files("CONFIG_A=y")),
            FindingStatus::Hazard
        );
    }
}
