//! CPU-LA57: page tables of five levels.

use crate::rules::prelude::*;

use super::common::read_cpu_flag;

pub(super) const CPU_LA57: AuditRule = AuditRule {
    id: "CPU-LA57",
    title: "page tables of five levels",
    severity: Severity::Medium,
    why: "A miss of the TLB may read five tables instead of four, and after a flush there are many misses.",
    risk: "A machine with more than 64 TiB of memory can't use it all, and programs get no more than 128 TiB of \
           addresses.",
    source: "github.com/bitcharmer/tlb_shootdowns; johnnysswlab.com and jabperf.com; kernel \
             Documentation/arch/x86/x86_64/5level-paging.rst",
    causes: &[],
    check: RuleCheck::System(check_cpu_la57),
};

fn check_cpu_la57(look: &SystemView<'_>) -> CheckResult {
    // The flag says that the kernel uses them; '57 bits virtual' only that the processor could.
    let (la57, read) = read_cpu_flag(look, "la57");
    let checked = match la57 {
        Some(true) => CheckResult::hazard("the kernel uses five levels")
            .with_fix(Fix::Cmdline("no5lvl".to_owned())),
        Some(false) => CheckResult::ok("four levels"),
        None => CheckResult::unknown("/proc/cpuinfo can't be read"),
    };
    checked.with_reads([read])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const INFO: &str = "/proc/cpuinfo";

    /// Check that the flag is a hazard, and that what the processor could is none.
    #[test]
    fn in_use_is_a_hazard() {
        assert_hazard(
            &ask_rule_on(&CPU_LA57, &[(INFO, "flags : pcid la57")]),
            "",
            "kernel command line: no5lvl",
        );
        let could = "flags : pcid la57_hw\naddress sizes : 52 bits physical, 57 bits virtual";
        assert_eq!(status_on(&CPU_LA57, &[(INFO, could)]), FindingStatus::Ok);
        assert_eq!(status_on(&CPU_LA57, &[]), FindingStatus::Unknown);
    }
}
