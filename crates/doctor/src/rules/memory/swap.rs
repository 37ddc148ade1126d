//! SYS-SWAP: memory of programs can be swapped out.

use quell_event::Cause;

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const SWAPS: &str = "/proc/swaps";
const ZSWAP: &str = "/sys/module/zswap/parameters/enabled";

pub(super) const RULE: Rule = Rule {
    id: "SYS-SWAP",
    title: "swap is in use",
    severity: Severity::High,
    why: "Reclaim unmaps pages of running programs to swap them out, a shootdown, and the next access waits until \
          they are read, or unpacked, again.",
    risk: "When memory runs out the kernel ends a program (OOM killer) instead of getting slow; no hibernation.",
    source: "LUF patch series; johnnysswlab.com and jabperf.com; rigtorp.se/virtual-memory",
    causes: &[Cause::Reclaim],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (swaps, read) = look.read(SWAPS);
    let (zswap, zswap_read) = look.read(ZSWAP);
    // packs pages on their way to a swap area, so without one it does nothing (mm/zswap.c)
    let zswap = matches!(zswap.text().map(str::trim), Some("Y" | "1"));
    let areas = swaps.text().and_then(areas);
    let checked = match (areas, &swaps) {
        (Some(areas), _) if areas.is_empty() => Checked::ok("no swap area"),
        (Some(areas), _) => {
            let through = if zswap { ", through zswap" } else { "" };
            Checked::hazard(format!("swapped to {}{through}", areas.join(", ")))
                .fix(Fix::Command("swapoff -a".to_owned()))
                .fix(Fix::Mask("swap.target"))
                .fix(Fix::Advice("/etc/fstab: remove the lines of type swap".to_owned()))
                .fix(Fix::Directive("MemorySwapMax=0".to_owned()))
                .note("MemorySwapMax=0 keeps one service from it, where the others are to have swap (cgroup v2)")
        }
        (None, Value::Absent) => Checked::ok("this kernel has no swap"),
        (None, _) => Checked::unknown("the swap areas can't be read"),
    };
    checked
        .read([read, zswap_read])
        .grows(&["pswpin", "pswpout", "zswpin", "zswpout"])
}

/// The first column of the table below its head; `None` if it is no such table.
fn areas(text: &str) -> Option<Vec<&str>> {
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
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const HEAD: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority";

    /// Check that an area is a hazard, also one in memory, and that zswap alone is none.
    #[test]
    fn an_area_is_a_hazard() {
        let text = format!(
            "{HEAD}\n/dev/zram0                              partition\t4194300\t\t0\t\t100"
        );
        let found = ask(&RULE, &[(SWAPS, &text), (ZSWAP, "Y")]);
        assert_hazard(
            &found,
            "swapoff -a\nsystemctl mask --now swap.target",
            "systemctl mask swap.target\n\
             /etc/fstab: remove the lines of type swap\n\
             systemd service: MemorySwapMax=0",
        );
        assert_eq!(found.said, "swapped to /dev/zram0, through zswap");
        assert_eq!(status(&RULE, &[(SWAPS, HEAD), (ZSWAP, "Y")]), Status::Ok);
    }

    /// Check that a kernel without swap is fine, and nonsense is unknown.
    #[test]
    fn what_is_missing() {
        assert_eq!(status(&RULE, &[]), Status::Ok);
        assert_eq!(status(&RULE, &[(SWAPS, "")]), Status::Unknown);
    }
}
