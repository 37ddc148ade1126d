//! SYS-MCE: each CPU looks for corrected errors of the hardware.

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

// each CPU has such files, and all of them show the same (Documentation/ABI/testing/sysfs-mce)
const INTERVAL: &str = "/sys/devices/system/machinecheck/machinecheck0/check_interval";
const IGNORE: &str = "/sys/devices/system/machinecheck/machinecheck0/ignore_ce";

pub(super) const RULE: Rule = Rule {
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
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (interval, first) = look.read(INTERVAL);
    let (ignore, second) = look.read(IGNORE);
    // hexadecimal in old kernels: what matters is whether it is 0, which stops the timer
    let seconds = interval
        .text()
        .and_then(|t| i64::from_str_radix(t.trim(), 16).ok());
    let checked = match (seconds, ignore.number()) {
        (_, Some(1)) => Checked::ok("corrected errors are ignored"),
        (Some(0), _) => Checked::ok("nothing is polled"),
        (Some(_), Some(0)) => {
            let text = interval.text().unwrap_or_default();
            Checked::hazard(format!("every CPU polls (check_interval {text})"))
                .fix(Fix::write(IGNORE, "1"))
                .fix(Fix::Cmdline("mce=ignore_ce".to_owned()))
        }
        _ if interval == Value::Absent && ignore == Value::Absent => {
            Checked::ok("this machine reports no errors of its hardware")
        }
        _ => Checked::unknown("the settings can't be read"),
    };
    checked.read([first, second])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    /// Check that polling is a hazard, in decimal and hexadecimal, and that either setting ends it.
    #[test]
    fn polling_is_a_hazard() {
        let files = |interval, ignore| [(INTERVAL, interval), (IGNORE, ignore)];
        assert_hazard(
            &ask(&RULE, &files("300", "0")),
            "echo 1 > /sys/devices/system/machinecheck/machinecheck0/ignore_ce",
            "tmpfiles.d: w /sys/devices/system/machinecheck/machinecheck0/ignore_ce - - - - 1\n\
             kernel command line: mce=ignore_ce",
        );
        assert_eq!(status(&RULE, &files("12c", "0")), Status::Hazard);
        assert_eq!(status(&RULE, &files("300", "1")), Status::Ok);
        assert_eq!(status(&RULE, &files("0", "0")), Status::Ok);
        assert_eq!(status(&RULE, &files("x", "0")), Status::Unknown);
        assert_eq!(status(&RULE, &[]), Status::Ok);
    }
}
