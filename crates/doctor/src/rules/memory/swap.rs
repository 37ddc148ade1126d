//! SYS-SWAP: memory of programs can be swapped out.

use crate::rules::prelude::*;

const SWAPS_FILE: &str = "/proc/swaps";
const ZSWAP_FILE: &str = "/sys/module/zswap/parameters/enabled";

pub(super) const SYS_SWAP: AuditRule = AuditRule {
    id: "SYS-SWAP",
    title: "swap is in use",
    severity: Severity::High,
    why: "Reclaim unmaps pages of running programs to swap them out, a shootdown, and the next access waits until \
          they are read, or unpacked, again.",
    risk: "When memory runs out the kernel ends a program (OOM killer) instead of getting slow; no hibernation.",
    source: "LUF patch series; johnnysswlab.com and jabperf.com; rigtorp.se/virtual-memory",
    causes: &[Cause::Reclaim],
    check: RuleCheck::System(check_sys_swap),
};

fn check_sys_swap(look: &SystemView<'_>) -> CheckResult {
    let (swaps, read) = look.read(SWAPS_FILE);
    let (zswap, zswap_read) = look.read(ZSWAP_FILE);
    // packs pages on their way to a swap area, so without one it does nothing (mm/zswap.c)
    let zswap = matches!(zswap.text().map(str::trim), Some("Y" | "1"));
    let areas = swaps.text().and_then(swap_areas);
    let checked = match (areas, &swaps) {
        (Some(areas), _) if areas.is_empty() => CheckResult::ok("no swap area"),
        (Some(areas), _) => {
            let through = if zswap { ", through zswap" } else { "" };
            CheckResult::hazard(format!("swapped to {}{through}", areas.join(", ")))
                .with_fix(Fix::Command("swapoff -a".to_owned()))
                .with_fix(Fix::Mask("swap.target"))
                .with_advice("/etc/fstab: remove the lines of type swap")
                .with_fix(Fix::Directive("MemorySwapMax=0".to_owned()))
                .with_note("MemorySwapMax=0 keeps one service from it, where the others are to have swap (cgroup v2)")
        }
        (None, FileValue::Absent) => CheckResult::ok("this kernel has no swap"),
        (None, _) => CheckResult::unknown("the swap areas can't be read"),
    };
    checked
        .with_reads([read, zswap_read])
        .with_harm_counters(&["pswpin", "pswpout", "zswpin", "zswpout"])
}

/// The first column of the table below its head; `None` if it is no such table.
fn swap_areas(text: &str) -> Option<Vec<&str>> {
    let mut lines = text.lines();
    lines.next().filter(|head| head.starts_with("Filename"))?;
    Some(
        lines
            .filter_map(|l| l.split_ascii_whitespace().next())
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const HEAD: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority";

    /// Check that an area is a hazard, also one in memory, and that zswap alone is none.
    #[test]
    fn an_area_is_a_hazard() {
        let text = format!(
            "{HEAD}\n/dev/zram0                              partition\t4194300\t\t0\t\t100"
        );
        let found = ask_rule_on(&SYS_SWAP, &[(SWAPS_FILE, &text), (ZSWAP_FILE, "Y")]);
        assert_hazard(
            &found,
            "swapoff -a\nsystemctl mask --now swap.target",
            "systemctl mask swap.target\n\
             /etc/fstab: remove the lines of type swap\n\
             systemd service: MemorySwapMax=0",
        );
        assert_eq!(found.said, "swapped to /dev/zram0, through zswap");
        assert_eq!(
            status_on(&SYS_SWAP, &[(SWAPS_FILE, HEAD), (ZSWAP_FILE, "Y")]),
            FindingStatus::Ok
        );
    }

    /// Check that a kernel without swap is fine, and nonsense is unknown.
    #[test]
    fn what_is_missing() {
        assert_eq!(status_on(&SYS_SWAP, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_SWAP, &[(SWAPS_FILE, "")]),
            FindingStatus::Unknown
        );
    }
}
