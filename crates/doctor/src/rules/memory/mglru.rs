//! SYS-MGLRU: reclaim walks the page tables of programs.

use crate::rules::prelude::*;

const LRU_GEN_FILE: &str = "/sys/kernel/mm/lru_gen/enabled";
/// Bits of the setting (Documentation/admin-guide/mm/multigen_lru.rst): it is on, and walks page tables.
const LRU_GEN_IS_ON: u32 = 1;
const LRU_GEN_WALKS_TABLES: u32 = 2;

pub(super) const SYS_MGLRU: AuditRule = AuditRule {
    id: "SYS-MGLRU",
    title: "multi-generational LRU",
    severity: Severity::Info,
    why: "When memory runs short reclaim walks the page tables of programs and clears accessed bits, under their \
          locks; without shortage it does nothing.",
    risk: "There is nothing to change for this alone: the older LRU looks at pages one by one.",
    source: "kernel Documentation/admin-guide/mm/multigen_lru.rst; mm/vmscan.c should_walk_mmu",
    causes: &[],
    check: RuleCheck::System(check_sys_mglru),
};

fn check_sys_mglru(look: &SystemView<'_>) -> CheckResult {
    let (value, read) = look.read(LRU_GEN_FILE);
    // such as 0x0007
    let hex = value.text().and_then(|text| text.trim().strip_prefix("0x"));
    let bits = hex.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let checked = match (bits, &value) {
        (Some(bits), _) if bits & LRU_GEN_IS_ON == 0 => CheckResult::ok("switched off"),
        (Some(bits), _) if bits & LRU_GEN_WALKS_TABLES == 0 => {
            CheckResult::ok("on, without walks of page tables")
        }
        (Some(_), _) => CheckResult::hazard("on: page tables are walked when memory runs short"),
        (None, FileValue::Absent) => CheckResult::ok("this kernel has none"),
        (None, _) => CheckResult::unknown("the setting can't be read"),
    };
    checked.with_reads([read])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    /// Check that walks are worth knowing, with nothing to change, and that the rest is fine.
    #[test]
    fn walks_are_told() {
        let found = ask_rule_on(&SYS_MGLRU, &[(LRU_GEN_FILE, "0x0007")]);
        assert_hazard(&found, "", "");
        assert_eq!(found.severity, Severity::Info);
        assert_eq!(
            status_on(&SYS_MGLRU, &[(LRU_GEN_FILE, "0x0005")]),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&SYS_MGLRU, &[(LRU_GEN_FILE, "0x0006")]),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&SYS_MGLRU, &[(LRU_GEN_FILE, "0x0000")]),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&SYS_MGLRU, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_MGLRU, &[(LRU_GEN_FILE, "y")]),
            FindingStatus::Unknown
        );
    }
}
