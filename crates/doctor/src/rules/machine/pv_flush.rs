//! VM-PVFLUSH: the hypervisor flushes for this machine.

use quell_host::flush::{SilentFlush, find_silent_flushes};

use crate::rules::prelude::*;

use super::common::kernel_parameter;

pub(super) const VM_PVFLUSH: AuditRule = AuditRule {
    id: "VM-PVFLUSH",
    title: "shootdowns by way of the hypervisor",
    severity: Severity::Info,
    why: "A CPU of this machine that the host has taken away is flushed later or by the host, so fewer \
          shootdowns are counted than there are; and a host that does so shares its CPUs out.",
    risk: "CPUs that the host keeps for this machine serve no other one.",
    source: "kernel arch/x86/kernel/kvm.c, pv_tlb_flush_supported; Documentation/virt/kvm/x86/cpuid.rst; \
             ByteDance 2020, jemalloc and TLB shootdown",
    causes: &[],
    check: RuleCheck::System(check_vm_pvflush),
};

fn check_vm_pvflush(look: &SystemView<'_>) -> CheckResult {
    judge_pv_flush(look, &find_silent_flushes())
}

fn judge_pv_flush(look: &SystemView<'_>, ways: &[SilentFlush]) -> CheckResult {
    let way = ways
        .iter()
        .find(|w| matches!(w, SilentFlush::Kvm | SilentFlush::HyperV));
    let (said, advice) = match way {
        Some(SilentFlush::Kvm) => (
            "KVM, paravirtual flush",
            "host: give this machine CPUs of its own (pinned vCPUs) and tell it so (KVM_HINTS_REALTIME; QEMU: \
             kvm-hint-dedicated=on)",
        ),
        Some(_) => (
            "Hyper-V, flush by hypercall",
            "host: give this machine CPUs of its own",
        ),
        None => ("(none)", ""),
    };
    // nopv: the kernel uses nothing of what the hypervisor offers (arch/x86/kernel/cpu/hypervisor.c)
    let off = kernel_parameter(&look.kernel_parameters(), "nopv").is_some();
    let checked = match way {
        None => CheckResult::ok("no hypervisor flushes for this machine"),
        Some(_) if off => CheckResult::ok("the hypervisor offers it, and 'nopv' turns it off"),
        Some(way) => CheckResult::hazard(way.to_string()).with_advice(advice),
    };
    checked.with_reads([FileReading::new("CPUID 4000_0000h and following", said)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const KVM: AuditRule = AuditRule {
        check: RuleCheck::System(|look| {
            judge_pv_flush(look, &[SilentFlush::Invlpgb, SilentFlush::Kvm])
        }),
        ..VM_PVFLUSH
    };
    const HYPERV: AuditRule = AuditRule {
        check: RuleCheck::System(|look| judge_pv_flush(look, &[SilentFlush::HyperV])),
        ..VM_PVFLUSH
    };
    const BARE: AuditRule = AuditRule {
        check: RuleCheck::System(|look| judge_pv_flush(look, &[SilentFlush::Invlpgb])),
        ..VM_PVFLUSH
    };

    /// Check that what a hypervisor flushes is reported, and the processor's own ways are not.
    #[test]
    fn it_is_reported() {
        let found = ask_rule_on(&KVM, &[]);
        assert_hazard(
            &found,
            "",
            "host: give this machine CPUs of its own (pinned vCPUs) and tell it so (KVM_HINTS_REALTIME; QEMU: \
             kvm-hint-dedicated=on)",
        );
        assert_eq!(found.severity, Severity::Info);
        assert_eq!(status_on(&HYPERV, &[]), FindingStatus::Hazard);
        assert_eq!(status_on(&BARE, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&KVM, &[("/proc/cmdline", "ro nopv")]),
            FindingStatus::Ok
        );
    }
}
