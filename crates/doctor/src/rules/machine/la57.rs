//! CPU-LA57: page tables of five levels.

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::Look;
use crate::rule::{Check, Checked, Rule};

use super::common::{Flag, flag};

pub(super) const RULE: Rule = Rule {
    id: "CPU-LA57",
    title: "page tables of five levels",
    severity: Severity::Medium,
    why: "A miss of the TLB may read five tables instead of four, and after a flush there are many misses.",
    risk: "A machine with more than 64 TiB of memory can't use it all, and programs get no more than 128 TiB of \
           addresses.",
    source: "github.com/bitcharmer/tlb_shootdowns; johnnysswlab.com and jabperf.com; kernel \
             Documentation/arch/x86/x86_64/5level-paging.rst",
    causes: &[],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    // The flag says that the kernel uses them; '57 bits virtual' only that the processor could.
    let (la57, read) = flag(look, "la57");
    let checked = match la57 {
        Flag::Has => {
            Checked::hazard("the kernel uses five levels").fix(Fix::Cmdline("no5lvl".to_owned()))
        }
        Flag::Lacks => Checked::ok("four levels"),
        Flag::Foreign => Checked::ok("not a processor of x86"),
        Flag::Unreadable => Checked::unknown("/proc/cpuinfo can't be read"),
    };
    checked.read([read])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const INFO: &str = "/proc/cpuinfo";

    /// Check that the flag is a hazard, and that what the processor could is none.
    #[test]
    fn in_use_is_a_hazard() {
        assert_hazard(
            &ask(&RULE, &[(INFO, "flags : pcid la57")]),
            "",
            "kernel command line: no5lvl",
        );
        let could = "flags : pcid la57_hw\naddress sizes : 52 bits physical, 57 bits virtual";
        assert_eq!(status(&RULE, &[(INFO, could)]), Status::Ok);
        assert_eq!(status(&RULE, &[(INFO, "processor : 0")]), Status::Ok);
        assert_eq!(status(&RULE, &[]), Status::Unknown);
    }
}
