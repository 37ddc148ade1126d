//! SYS-WMARK: programs reclaim memory themselves, or kswapd more than it must.

use crate::rules::prelude::*;

use super::common;

const BOOST_FILE: &str = "/proc/sys/vm/watermark_boost_factor";
const SCALE_FILE: &str = "/proc/sys/vm/watermark_scale_factor";
const MIN_FREE_FILE: &str = "/proc/sys/vm/min_free_kbytes";
/// Of 10,000 of a node's memory: kswapd begins so much before programs must help. The default is 10.
const ENOUGH_SCALE: i64 = 100;
/// Programs that wait for memory. The first by zone; without one before 4.10.
const STALL_COUNTERS: [&str; 8] = [
    "allocstall_dma",
    "allocstall_dma32",
    "allocstall_normal",
    "allocstall_movable",
    "allocstall_device",
    "allocstall",
    "compact_stall",
    "pgscan_direct",
];

pub(super) const SYS_WMARK: AuditRule = AuditRule {
    id: "SYS-WMARK",
    title: "watermarks of free memory",
    severity: Severity::Medium,
    why: "When kswapd begins too late, who allocates reclaims or compacts memory in its own time; and after mixed \
          blocks a boost has kswapd reclaim beyond need, with shootdowns for what was mapped.",
    risk: "Without the boost memory fragments sooner; a higher scale factor keeps more of it free.",
    source: "kernel Documentation/admin-guide/sysctl/vm.rst, watermark_boost_factor and watermark_scale_factor; \
             LUF patch series",
    causes: &[Cause::Reclaim],
    check: RuleCheck::System(check_sys_wmark),
};

fn check_sys_wmark(look: &SystemView<'_>) -> CheckResult {
    let (boost, first) = look.read(BOOST_FILE);
    let (scale, second) = look.read(SCALE_FILE);
    let (_, third) = look.read(MIN_FREE_FILE);
    // Some(0) where this kernel has none (before 5.0)
    let factor = match boost {
        FileValue::Absent => Some(0),
        FileValue::Text(_) | FileValue::Refused(_) => boost.number(),
    };
    let stalls = common::total_growth(look, &STALL_COUNTERS);
    // of 10,000 of the high watermark
    let boosted = |checked: CheckResult| match factor {
        Some(n) if n > 0 => checked.with_fix(Fix::set_sysctl("vm.watermark_boost_factor", "0")),
        _ => checked,
    };
    let checked = match (stalls, factor) {
        (Some(n), _) if n > 0 => {
            let checked = CheckResult::hazard("programs had to make room themselves")
                .with_severity(Severity::High);
            let checked = boosted(checked);
            let checked = match scale.number() {
                Some(scale) if scale < ENOUGH_SCALE => checked.with_fix(Fix::set_sysctl(
                    "vm.watermark_scale_factor",
                    ENOUGH_SCALE.to_string(),
                )),
                _ => checked,
            };
            checked.with_advice(
                "sysctl.d: raise vm.min_free_kbytes if it goes on, to no more than 1 % of memory for each node",
            )
        }
        (_, Some(n)) if n > 0 => boosted(CheckResult::hazard(format!(
            "kswapd is boosted, by up to {} % of the high watermark",
            n / 100
        ))),
        (_, None) => CheckResult::unknown("the boost can't be read"),
        (Some(_), _) => CheckResult::ok("no boost, and no program waited for memory"),
        (None, _) => CheckResult::unknown(format!(
            "no boost; whether programs wait for memory is not known: {}",
            crate::rules::why_no_growth(look)
        )),
    };
    checked
        .with_reads([first, second, third])
        .with_harm_counters(&STALL_COUNTERS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{
        ask_rule_on, ask_rule_with, assert_hazard, evidence_of_growth, status_on,
    };

    /// Check that the default of the boost is a hazard, and that without it one look tells nothing.
    #[test]
    fn a_boost_is_a_hazard() {
        let found = ask_rule_on(&SYS_WMARK, &[(BOOST_FILE, "15000"), (SCALE_FILE, "10")]);
        assert_hazard(
            &found,
            "sysctl -w vm.watermark_boost_factor=0",
            "sysctl.d: vm.watermark_boost_factor = 0",
        );
        assert_eq!(found.severity, Severity::Medium);
        assert_eq!(
            found.said,
            "kswapd is boosted, by up to 150 % of the high watermark"
        );
        assert_eq!(
            status_on(&SYS_WMARK, &[(BOOST_FILE, "0")]),
            FindingStatus::Unknown
        );
        let quiet = ask_rule_with(
            &SYS_WMARK,
            &[(BOOST_FILE, "0")],
            &evidence_of_growth("allocstall_normal", 0),
        );
        assert_eq!(quiet.status, FindingStatus::Ok);
        let old = ask_rule_with(&SYS_WMARK, &[], &evidence_of_growth("allocstall_normal", 0));
        assert_eq!(old.status, FindingStatus::Ok);
        let odd = ask_rule_with(
            &SYS_WMARK,
            &[(BOOST_FILE, "x")],
            &evidence_of_growth("allocstall_normal", 0),
        );
        assert_eq!(odd.status, FindingStatus::Unknown);
    }

    /// Check that programs that waited are worse, and have the marks raised where they are low.
    #[test]
    fn waits_are_worse() {
        let advice = "sysctl.d: raise vm.min_free_kbytes if it goes on, to no more than 1 % of memory for each node";
        let found = ask_rule_with(
            &SYS_WMARK,
            &[(BOOST_FILE, "0"), (SCALE_FILE, "10")],
            &evidence_of_growth("allocstall_normal", 4),
        );
        assert_hazard(
            &found,
            "sysctl -w vm.watermark_scale_factor=100",
            &format!("sysctl.d: vm.watermark_scale_factor = 100\n{advice}"),
        );
        assert_eq!(found.severity, Severity::High);
        assert_eq!(
            found.harm.unwrap().description,
            "allocstall_normal +4 in 1.00 s"
        );
        let high = ask_rule_with(
            &SYS_WMARK,
            &[(BOOST_FILE, "0"), (SCALE_FILE, "200")],
            &evidence_of_growth("allocstall_normal", 4),
        );
        assert_hazard(&high, "", advice);
    }
}
