//! SYS-MCE: each CPU looks for corrected errors of the hardware.

use crate::rules::prelude::*;

// each CPU has such files, and all of them show the same (Documentation/ABI/testing/sysfs-mce)
const CHECK_INTERVAL_FILE: &str = "/sys/devices/system/machinecheck/machinecheck0/check_interval";
const IGNORE_CE_FILE: &str = "/sys/devices/system/machinecheck/machinecheck0/ignore_ce";

pub(super) const SYS_MCE: AuditRule = AuditRule {
    id: "SYS-MCE",
    title: "polling for errors of the hardware",
    severity: Severity::Low,
    why: "A timer on every CPU reads the registers that hold corrected errors, every 5 minutes and more often \
          after one was found.",
    risk: "Corrected errors are no longer logged: memory that begins to fail goes unnoticed until it fails for \
           good.",
    source: "github.com/bitcharmer/tlb_shootdowns; tuned profile cpu-partitioning; kernel \
             Documentation/arch/x86/x86_64/machinecheck.rst",
    causes: &[],
    check: RuleCheck::System(check_sys_mce),
};

fn check_sys_mce(look: &SystemView<'_>) -> CheckResult {
    let (interval, first) = look.read(CHECK_INTERVAL_FILE);
    let (ignore, second) = look.read(IGNORE_CE_FILE);
    // hexadecimal in old kernels: what matters is whether it is 0, which stops the timer
    let seconds = interval
        .text()
        .and_then(|t| i64::from_str_radix(t.trim(), 16).ok());
    let checked = match (seconds, ignore.number()) {
        (_, Some(1)) => CheckResult::ok("corrected errors are ignored"),
        (Some(0), _) => CheckResult::ok("nothing is polled"),
        (Some(_), Some(0)) => {
            let text = interval.text().unwrap_or_default();
            CheckResult::hazard(format!("every CPU polls (check_interval {text})"))
                .with_fix(Fix::set_file(IGNORE_CE_FILE, "1"))
                .with_fix(Fix::Cmdline("mce=ignore_ce".to_owned()))
        }
        _ if interval == FileValue::Absent && ignore == FileValue::Absent => {
            CheckResult::ok("this machine reports no errors of its hardware")
        }
        _ => CheckResult::unknown("the settings can't be read"),
    };
    checked.with_reads([first, second])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    /// Check that polling is a hazard, in decimal and hexadecimal, and that either setting ends it.
    #[test]
    fn polling_is_a_hazard() {
        let files = |interval, ignore| [(CHECK_INTERVAL_FILE, interval), (IGNORE_CE_FILE, ignore)];
        assert_hazard(
            &ask_rule_on(&SYS_MCE, &files("300", "0")),
            "echo 1 > /sys/devices/system/machinecheck/machinecheck0/ignore_ce",
            "tmpfiles.d: w /sys/devices/system/machinecheck/machinecheck0/ignore_ce - - - - 1\n\
             kernel command line: mce=ignore_ce",
        );
        assert_eq!(
            status_on(&SYS_MCE, &files("12c", "0")),
            FindingStatus::Hazard
        );
        assert_eq!(status_on(&SYS_MCE, &files("300", "1")), FindingStatus::Ok);
        assert_eq!(status_on(&SYS_MCE, &files("0", "0")), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_MCE, &files("x", "0")),
            FindingStatus::Unknown
        );
        assert_eq!(status_on(&SYS_MCE, &[]), FindingStatus::Ok);
    }
}
