//! SYS-MGLRU: reclaim walks the page tables of programs.

use crate::finding::Severity;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const FILE: &str = "/sys/kernel/mm/lru_gen/enabled";
/// Bits of the setting (Documentation/admin-guide/mm/multigen_lru.rst): it is on, and walks page tables.
const ON: u32 = 1;
const WALKS: u32 = 2;

pub(super) const RULE: Rule = Rule {
    id: "SYS-MGLRU",
    title: "multi-generational LRU",
    severity: Severity::Info,
    why: "When memory runs short reclaim walks the page tables of programs and clears accessed bits, under their \
          locks; without shortage it does nothing.",
    risk: "There is nothing to change for this alone: the older LRU looks at pages one by one.",
    source: "kernel Documentation/admin-guide/mm/multigen_lru.rst; mm/vmscan.c should_walk_mmu",
    causes: &[],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (value, read) = look.read(FILE);
    // such as 0x0007
    let hex = value.text().and_then(|text| text.trim().strip_prefix("0x"));
    let bits = hex.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let checked = match (bits, &value) {
        (Some(bits), _) if bits & ON == 0 => Checked::ok("switched off"),
        (Some(bits), _) if bits & WALKS == 0 => Checked::ok("on, without walks of page tables"),
        (Some(_), _) => Checked::hazard("on: page tables are walked when memory runs short"),
        (None, Value::Absent) => Checked::ok("this kernel has none"),
        (None, _) => Checked::unknown("the setting can't be read"),
    };
    checked.read([read])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    /// Check that walks are worth knowing, with nothing to change, and that the rest is fine.
    #[test]
    fn walks_are_told() {
        let found = ask(&RULE, &[(FILE, "0x0007")]);
        assert_hazard(&found, "", "");
        assert_eq!(found.severity, Severity::Info);
        assert_eq!(status(&RULE, &[(FILE, "0x0005")]), Status::Ok);
        assert_eq!(status(&RULE, &[(FILE, "0x0006")]), Status::Ok);
        assert_eq!(status(&RULE, &[(FILE, "0x0000")]), Status::Ok);
        assert_eq!(status(&RULE, &[]), Status::Ok);
        assert_eq!(status(&RULE, &[(FILE, "y")]), Status::Unknown);
    }
}
