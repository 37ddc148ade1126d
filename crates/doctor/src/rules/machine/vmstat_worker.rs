//! SYS-STAT: counters of memory are gathered often.

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

use super::common::{ISOLATED, NOHZ_FULL, cpu_list, release, without};

const NAME: &str = "vm.stat_interval";
const FILE: &str = "/proc/sys/vm/stat_interval";
/// Seconds, as tuned's realtime profiles set it.
const ENOUGH: i64 = 10;
/// From here on CPUs that are set apart are left out (mm/vmstat.c, vmstat_shepherd).
const LEAVES_OUT: (u32, u32) = (6, 5);

pub(super) const RULE: Rule = Rule {
    id: "SYS-STAT",
    title: "counters of memory are gathered often",
    severity: Severity::Low,
    why: "A kworker of each CPU that touched memory wakes up at this interval to add up counters, and takes the \
          CPU from the hot thread for some µs.",
    risk: "Numbers of pages in /proc/vmstat and /proc/meminfo are up to 10 s old.",
    source: "github.com/bitcharmer/tlb_shootdowns; tuned profile cpu-partitioning; kernel \
             Documentation/admin-guide/sysctl/vm.rst, stat_interval",
    causes: &[],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (value, read) = look.read(FILE);
    let checked = match (value.number(), &value) {
        (Some(seconds), _) if seconds >= ENOUGH => Checked::ok(format!("every {seconds} s")),
        (Some(_), _) if are_left_out(look) => {
            Checked::ok("the CPUs that are set apart are left out (Linux 6.5 and later)")
        }
        (Some(seconds), _) => {
            Checked::hazard(format!("every {seconds} s")).fix(Fix::sysctl(NAME, ENOUGH.to_string()))
        }
        (None, Value::Absent) => Checked::ok("this kernel has none (one CPU)"),
        (None, _) => Checked::unknown("the setting can't be read"),
    };
    checked.read([read])
}

/// Whether all hot CPUs are set apart by the kernel's own means, and the kernel heeds that.
fn are_left_out(look: &Look<'_>) -> bool {
    let hot = look.hot_cpus();
    let lists = [ISOLATED, NOHZ_FULL].map(|path| cpu_list(&look.file(path)).unwrap_or_default());
    let apart = lists.concat();
    let heeds = release(look).is_some_and(|r| r >= LEAVES_OUT);
    heeds && !hot.is_empty() && without(&hot, &apart).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    /// Check that the kernel's default is a hazard, and ten seconds are none.
    #[test]
    fn the_default_is_a_hazard() {
        assert_hazard(
            &ask(&RULE, &[(FILE, "1")]),
            "sysctl -w vm.stat_interval=10",
            "sysctl.d: vm.stat_interval = 10",
        );
        assert_eq!(status(&RULE, &[(FILE, "10")]), Status::Ok);
        assert_eq!(status(&RULE, &[(FILE, "120")]), Status::Ok);
        assert_eq!(status(&RULE, &[]), Status::Ok);
        assert_eq!(status(&RULE, &[(FILE, "x")]), Status::Unknown);
    }

    /// Check that it doesn't matter to CPUs that the kernel leaves out, and does under an older one.
    #[test]
    fn cpus_set_apart_are_left_out() {
        let files = |release| {
            [
                (FILE, "1"),
                (ISOLATED, "2-3"),
                ("/proc/sys/kernel/osrelease", release),
            ]
        };
        assert_eq!(status(&RULE, &files("6.12.0")), Status::Ok);
        assert_eq!(status(&RULE, &files("6.1.0-18")), Status::Hazard);
    }
}
