//! CPU-PTI: page tables of their own for the kernel.

use crate::rules::prelude::*;

use super::common::read_cpu_flag;

const MELTDOWN_FILE: &str = "/sys/devices/system/cpu/vulnerabilities/meltdown";

pub(super) const CPU_PTI: AuditRule = AuditRule {
    id: "CPU-PTI",
    title: "page-table isolation",
    severity: Severity::Info,
    why: "Every system call, fault and interrupt changes the page tables twice, and each process needs two \
          sets of TLB entries that are both flushed.",
    risk: "This is for the security of the machine: it is told here, and not to be switched off.",
    source: "github.com/bitcharmer/tlb_shootdowns; kernel Documentation/arch/x86/pti.rst",
    causes: &[],
    check: RuleCheck::System(check_cpu_pti),
};

fn check_cpu_pti(look: &SystemView<'_>) -> CheckResult {
    let (pti, first) = read_cpu_flag(look, "pti");
    let (meltdown, second) = look.read(MELTDOWN_FILE);
    let text = meltdown.text().unwrap_or_default();
    // with pti=on the flag is set and the file still says that there is nothing to mitigate
    let checked = match (pti, text) {
        (Some(true), _) | (_, "Mitigation: PTI") => CheckResult::hazard("page-table isolation is on").with_fix(
            Fix::Advice(
                "hardware: a processor that Meltdown does not affect needs none; on this one leave it on"
                    .to_owned(),
            ),
        ),
        (_, "Not affected") => CheckResult::ok("off: Meltdown does not affect this processor"),
        (_, "Vulnerable") => CheckResult::ok("off").with_note(
            "Meltdown affects this processor and nothing is done about it: no stall, but others can read its memory",
        ),
        (_, text) if text.starts_with("Mitigation: ") => CheckResult::ok("off: another mitigation is used"),
        // before 4.15 the kernel had neither
        (Some(false), "") if meltdown.number().is_none() => CheckResult::ok("off"),
        _ => CheckResult::unknown("whether it is on can't be read"),
    };
    checked.with_reads([first, second])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const INFO: &str = "/proc/cpuinfo";

    /// Check that it is reported, at no more than Info, and never advised against.
    #[test]
    fn on_is_reported() {
        let found = ask_rule_on(
            &CPU_PTI,
            &[
                (INFO, "flags : pcid pti"),
                (MELTDOWN_FILE, "Mitigation: PTI"),
            ],
        );
        assert_hazard(
            &found,
            "",
            "hardware: a processor that Meltdown does not affect needs none; on this one leave it on",
        );
        assert_eq!(found.severity, Severity::Info);
        let forced = [(INFO, "flags : pti"), (MELTDOWN_FILE, "Not affected")];
        assert_eq!(status_on(&CPU_PTI, &forced), FindingStatus::Hazard);
        let unread = [(INFO, "processor : 0"), (MELTDOWN_FILE, "Mitigation: PTI")];
        assert_eq!(status_on(&CPU_PTI, &unread), FindingStatus::Hazard);
    }

    /// Check that a processor without need of it is fine, and one that is left open is fine with a word about it.
    #[test]
    fn off_is_fine() {
        let files = |text| [(INFO, "flags : pcid"), (MELTDOWN_FILE, text)];
        assert_eq!(
            status_on(&CPU_PTI, &files("Not affected")),
            FindingStatus::Ok
        );
        let open = ask_rule_on(&CPU_PTI, &files("Vulnerable"));
        assert_eq!((open.status, open.notes.len()), (FindingStatus::Ok, 1));
        assert_eq!(
            status_on(&CPU_PTI, &[(INFO, "flags : pcid")]),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&CPU_PTI, &files("Unknown (XEN PV detected)")),
            FindingStatus::Unknown
        );
        assert_eq!(status_on(&CPU_PTI, &[]), FindingStatus::Unknown);
    }
}
