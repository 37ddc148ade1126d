//! SYS-TIMER: timers of other CPUs.

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

const NAME: &str = "kernel.timer_migration";
const FILE: &str = "/proc/sys/kernel/timer_migration";

pub(super) const RULE: Rule = Rule {
    id: "SYS-TIMER",
    title: "timers move between CPUs",
    severity: Severity::Low,
    why: "Timers of a CPU that goes idle are run by one that is busy, and a hot thread keeps its CPU busy all \
          the time.",
    risk: "Idle CPUs wake up for their own timers: more power.",
    source: "tuned profiles realtime and cpu-partitioning; kernel kernel/time/timer.c and timer_migration.c",
    causes: &[],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (value, read) = look.read(FILE);
    let checked = match (value.number(), &value) {
        (Some(0), _) => Checked::ok("timers stay where they were set"),
        (Some(1), _) => {
            Checked::hazard("timers move to CPUs that are busy").fix(Fix::sysctl(NAME, "0"))
        }
        (None, Value::Absent) => Checked::ok("this kernel moves no timers"),
        _ => Checked::unknown("the setting can't be read"),
    };
    checked.read([read])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    /// Check that the kernel's default is a hazard, and 0 is none.
    #[test]
    fn the_default_is_a_hazard() {
        assert_hazard(
            &ask(&RULE, &[(FILE, "1")]),
            "sysctl -w kernel.timer_migration=0",
            "sysctl.d: kernel.timer_migration = 0",
        );
        assert_eq!(status(&RULE, &[(FILE, "0")]), Status::Ok);
        assert_eq!(status(&RULE, &[]), Status::Ok);
        assert_eq!(status(&RULE, &[(FILE, "x")]), Status::Unknown);
    }
}
