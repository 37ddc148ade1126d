//! CPU-PTI: page tables of their own for the kernel.

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::Look;
use crate::rule::{Check, Checked, Rule};

use super::common::{Flag, flag};

const MELTDOWN: &str = "/sys/devices/system/cpu/vulnerabilities/meltdown";

pub(super) const RULE: Rule = Rule {
    id: "CPU-PTI",
    title: "page-table isolation",
    severity: Severity::Info,
    why: "Every system call, fault and interrupt changes the page tables twice, and each process needs two \
          sets of TLB entries that are both flushed.",
    risk: "This is for the security of the machine: it is told here, and not to be switched off.",
    source: "github.com/bitcharmer/tlb_shootdowns; kernel Documentation/arch/x86/pti.rst",
    causes: &[],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (pti, first) = flag(look, "pti");
    let (meltdown, second) = look.read(MELTDOWN);
    let text = meltdown.text().unwrap_or_default();
    // with pti=on the flag is set and the file still says that there is nothing to mitigate
    let checked = match (pti, text) {
        (Flag::Has, _) | (_, "Mitigation: PTI") => Checked::hazard("page-table isolation is on").fix(
            Fix::Advice(
                "hardware: a processor that Meltdown does not affect needs none; on this one leave it on"
                    .to_owned(),
            ),
        ),
        (_, "Not affected") => Checked::ok("off: Meltdown does not affect this processor"),
        (_, "Vulnerable") => Checked::ok("off").note(
            "Meltdown affects this processor and nothing is done about it: no stall, but others can read its memory",
        ),
        (_, text) if text.starts_with("Mitigation: ") => Checked::ok("off: another mitigation is used"),
        // before 4.15 the kernel had neither
        (Flag::Lacks, "") if meltdown.number().is_none() => Checked::ok("off"),
        _ => Checked::unknown("whether it is on can't be read"),
    };
    checked.read([first, second])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const INFO: &str = "/proc/cpuinfo";

    /// Check that it is reported, at no more than Info, and never advised against.
    #[test]
    fn on_is_reported() {
        let found = ask(
            &RULE,
            &[(INFO, "flags : pcid pti"), (MELTDOWN, "Mitigation: PTI")],
        );
        assert_hazard(
            &found,
            "",
            "hardware: a processor that Meltdown does not affect needs none; on this one leave it on",
        );
        assert_eq!(found.severity, Severity::Info);
        let forced = [(INFO, "flags : pti"), (MELTDOWN, "Not affected")];
        assert_eq!(status(&RULE, &forced), Status::Hazard);
        let arm = [(INFO, "processor : 0"), (MELTDOWN, "Mitigation: PTI")];
        assert_eq!(status(&RULE, &arm), Status::Hazard);
    }

    /// Check that a processor without need of it is fine, and one that is left open is fine with a word about it.
    #[test]
    fn off_is_fine() {
        let files = |text| [(INFO, "flags : pcid"), (MELTDOWN, text)];
        assert_eq!(status(&RULE, &files("Not affected")), Status::Ok);
        let open = ask(&RULE, &files("Vulnerable"));
        assert_eq!((open.status, open.notes.len()), (Status::Ok, 1));
        assert_eq!(status(&RULE, &[(INFO, "flags : pcid")]), Status::Ok);
        assert_eq!(
            status(&RULE, &files("Unknown (XEN PV detected)")),
            Status::Unknown
        );
        assert_eq!(status(&RULE, &[]), Status::Unknown);
    }
}
