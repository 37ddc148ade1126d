//! CPU-PCID: TLB entries without the number of their address space.

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::Look;
use crate::rule::{Check, Checked, Rule};

use super::common::{Flag, flag, parameter};

pub(super) const RULE: Rule = Rule {
    id: "CPU-PCID",
    title: "TLB entries without an address space",
    severity: Severity::High,
    why: "Without PCID the whole TLB of user pages is flushed at every switch to another process; without \
          INVPCID a kernel with page-table isolation flushes all of a process where one page would do.",
    risk: "None.",
    source: "github.com/bitcharmer/tlb_shootdowns; kernel arch/x86/mm/tlb.c and init.c, setup_pcid",
    causes: &[],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (pcid, first) = flag(look, "pcid");
    let (invpcid, second) = flag(look, "invpcid");
    let checked = match (pcid, invpcid) {
        (Flag::Has, Flag::Lacks) => {
            let isolated = look.cpu_flag("pti") == Some(true);
            let severity = if isolated {
                Severity::Medium
            } else {
                Severity::Low
            };
            missing(look, "invpcid", "noinvpcid").severity(severity)
        }
        (Flag::Has, _) => Checked::ok("the kernel uses pcid and invpcid"),
        (Flag::Lacks, _) => missing(look, "pcid", "nopcid"),
        (Flag::Foreign, _) => Checked::ok("not a processor of x86"),
        (Flag::Unreadable, _) => Checked::unknown("/proc/cpuinfo can't be read"),
    };
    checked.read([first, second])
}

fn missing(look: &Look<'_>, flag: &str, switch: &str) -> Checked {
    let off = parameter(&look.cmdline(), switch).is_some();
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
    Checked::hazard(said).fix(Fix::Advice(advice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const INFO: &str = "/proc/cpuinfo";

    /// Check that a kernel told to do without is a hazard whose fix is to tell it no more.
    #[test]
    fn switched_off() {
        let files = [(INFO, "flags\t\t: fpu pge"), ("/proc/cmdline", "ro nopcid")];
        assert_hazard(
            &ask(&RULE, &files),
            "",
            "kernel command line: take 'nopcid' out",
        );
    }

    /// Check that a machine of a host that hides it, and one that has none, are told apart.
    #[test]
    fn missing() {
        let guest = ask(&RULE, &[(INFO, "flags\t\t: fpu hypervisor")]);
        assert_hazard(
            &guest,
            "",
            "host: choose a CPU model with pcid (QEMU: -cpu host)",
        );
        let old = ask(&RULE, &[(INFO, "flags\t\t: fpu")]);
        assert_eq!(old.severity, Severity::High);
        assert!(old.fix_lasting().starts_with("hardware:"), "{old:?}");
    }

    /// Check that INVPCID matters more with page-table isolation, and that all is fine with both.
    #[test]
    fn invpcid() {
        let found = |flags| ask(&RULE, &[(INFO, flags)]);
        assert_eq!(found("flags : pcid pti").severity, Severity::Medium);
        assert_eq!(found("flags : pcid").severity, Severity::Low);
        assert_eq!(found("flags : pcid").status, Status::Hazard);
        assert_eq!(found("flags : pcid invpcid").status, Status::Ok);
    }

    /// Check that another processor is fine and a file that can't be read is unknown.
    #[test]
    fn others() {
        let arm = "processor\t: 0\nFeatures\t: fp asimd";
        assert_eq!(status(&RULE, &[(INFO, arm)]), Status::Ok);
        assert_eq!(status(&RULE, &[(INFO, "garbage")]), Status::Unknown);
        assert_eq!(status(&RULE, &[]), Status::Unknown);
    }
}
