//! VM-PVFLUSH: the hypervisor flushes for this machine.

use quell_host::flush::{Silent, without_interrupts};

use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::Look;
use crate::rule::{Check, Checked, Rule};

use super::common::parameter;

pub(super) const RULE: Rule = Rule {
    id: "VM-PVFLUSH",
    title: "shootdowns by way of the hypervisor",
    severity: Severity::Info,
    why: "A CPU of this machine that the host has taken away is flushed later or by the host, so fewer \
          shootdowns are counted than there are; and a host that does so shares its CPUs out.",
    risk: "CPUs that the host keeps for this machine serve no other one.",
    source: "kernel arch/x86/kernel/kvm.c, pv_tlb_flush_supported; Documentation/virt/kvm/x86/cpuid.rst; \
             ByteDance 2020, jemalloc and TLB shootdown",
    causes: &[],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    judge(look, &without_interrupts())
}

fn judge(look: &Look<'_>, ways: &[Silent]) -> Checked {
    let way = ways
        .iter()
        .find(|w| matches!(w, Silent::Kvm | Silent::HyperV));
    let (said, advice) = match way {
        Some(Silent::Kvm) => (
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
    let off = parameter(&look.cmdline(), "nopv").is_some();
    let checked = match way {
        None => Checked::ok("no hypervisor flushes for this machine"),
        Some(_) if off => Checked::ok("the hypervisor offers it, and 'nopv' turns it off"),
        Some(way) => Checked::hazard(way.to_string()).fix(Fix::Advice(advice.to_owned())),
    };
    checked.read([Read::new("CPUID 4000_0000h and following", said)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const KVM: Rule = Rule {
        check: Check::System(|look| judge(look, &[Silent::Invlpgb, Silent::Kvm])),
        ..RULE
    };
    const HYPERV: Rule = Rule {
        check: Check::System(|look| judge(look, &[Silent::HyperV])),
        ..RULE
    };
    const BARE: Rule = Rule {
        check: Check::System(|look| judge(look, &[Silent::Invlpgb])),
        ..RULE
    };

    /// Check that what a hypervisor flushes is reported, and the processor's own ways are not.
    #[test]
    fn it_is_reported() {
        let found = ask(&KVM, &[]);
        assert_hazard(
            &found,
            "",
            "host: give this machine CPUs of its own (pinned vCPUs) and tell it so (KVM_HINTS_REALTIME; QEMU: \
             kvm-hint-dedicated=on)",
        );
        assert_eq!(found.severity, Severity::Info);
        assert_eq!(status(&HYPERV, &[]), Status::Hazard);
        assert_eq!(status(&BARE, &[]), Status::Ok);
        assert_eq!(status(&KVM, &[("/proc/cmdline", "ro nopv")]), Status::Ok);
    }
}
