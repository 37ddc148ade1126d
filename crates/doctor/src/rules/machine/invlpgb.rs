//! CPU-INVLPGB: the processor could flush other CPUs without interrupting them.

use quell_host::flush::{Silent, without_interrupts};

use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::Look;
use crate::rule::{Check, Checked, Rule};

use super::common::{Flag, config, flag, release};

/// The first kernel that uses it (arch/x86/mm/tlb.c, X86_FEATURE_INVLPGB).
const SINCE: (u32, u32) = (6, 15);
const OPTION: &str = "CONFIG_BROADCAST_TLB_FLUSH=y";

pub(super) const RULE: Rule = Rule {
    id: "CPU-INVLPGB",
    title: "flushes without interrupts are not used",
    severity: Severity::Info,
    why: "Kernels before 6.15 interrupt every CPU of a process for a shootdown, where AMD's INVLPGB would do \
          it without.",
    risk: "A new kernel; and shootdowns by INVLPGB are counted nowhere.",
    source: "kernel arch/x86/Kconfig.cpu, BROADCAST_TLB_FLUSH; AMD64 Architecture Programmer's Manual, volume 3",
    causes: &[],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    judge(look, without_interrupts().contains(&Silent::Invlpgb))
}

fn judge(look: &Look<'_>, has: bool) -> Checked {
    let said = if has { "INVLPGB" } else { "no INVLPGB" };
    let cpuid = Read::new("CPUID 8000_0008h EBX bit 3", said);
    let (_, read) = look.read("/proc/sys/kernel/osrelease");
    // the configuration tells it of kernels that had it added, too
    let knows = match config(look) {
        Some(text) => Some(text.lines().any(|l| l == OPTION)),
        None => release(look).map(|r| r >= SINCE),
    };
    let (pcid, pcid_read) = flag(look, "pcid");
    let checked = match (has, knows, pcid) {
        (false, ..) => Checked::ok("this processor has no INVLPGB"),
        (_, None, _) => Checked::unknown("the kernel's version can't be read"),
        (_, Some(false), _) => Checked::hazard("this kernel does not use the processor's INVLPGB")
            .fix(Fix::Advice("kernel: 6.15 or later".to_owned())),
        // the kernel gives INVLPGB up with PCID (arch/x86/kernel/cpu/cpuid-deps.c)
        (_, _, Flag::Lacks) => Checked::hazard("the kernel gives INVLPGB up, because it has no PCID")
            .fix(Fix::Advice("see CPU-PCID".to_owned())),
        _ => Checked::ok("the kernel uses INVLPGB for processes that run on many CPUs")
            .note("what is flushed by INVLPGB is no shootdown: it interrupts nobody and is counted nowhere"),
    };
    checked.read([cpuid, read, pcid_read])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const KERNEL: &str = "/proc/sys/kernel/osrelease";
    const INFO: &str = "/proc/cpuinfo";
    const WITH: Rule = Rule {
        check: Check::System(|look| judge(look, true)),
        ..RULE
    };
    const WITHOUT: Rule = Rule {
        check: Check::System(|look| judge(look, false)),
        ..RULE
    };

    /// Check that a processor that has it under an old kernel is reported, and one without never.
    #[test]
    fn unused_is_reported() {
        let old = [(KERNEL, "6.14.9-1-amd64"), (INFO, "flags : pcid")];
        assert_hazard(&ask(&WITH, &old), "", "kernel: 6.15 or later");
        assert_eq!(status(&WITHOUT, &old), Status::Ok);
        let new = [(KERNEL, "6.15.0"), (INFO, "flags : pcid")];
        assert_eq!(status(&WITH, &new), Status::Ok);
        assert_eq!(status(&WITH, &[(KERNEL, "x")]), Status::Unknown);
        let without_pcid = [(KERNEL, "6.15.0"), (INFO, "flags : fpu")];
        assert_eq!(status(&WITH, &without_pcid), Status::Hazard);
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
            status(&WITH, &files("CONFIG_A=y\nCONFIG_BROADCAST_TLB_FLUSH=y")),
            Status::Ok
        );
        assert_eq!(status(&WITH, &files("CONFIG_A=y")), Status::Hazard);
    }
}
