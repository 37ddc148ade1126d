//! SYS-WDOG: the kernel watches each CPU for lock-ups.

use quell_host::cpus;

use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

use super::common::{cpu_list, online, without};

const ALL: &str = "/proc/sys/kernel/watchdog";
const NMI: &str = "/proc/sys/kernel/nmi_watchdog";
const SOFT: &str = "/proc/sys/kernel/soft_watchdog";
const CPUS: &str = "/proc/sys/kernel/watchdog_cpumask";

pub(super) const RULE: Rule = Rule {
    id: "SYS-WDOG",
    title: "lock-up detectors",
    severity: Severity::Low,
    why: "A timer and a thread of the highest priority run on each watched CPU every 4 s, and the detector of \
          hard lock-ups adds an interrupt that can't be masked and takes a counter from perf.",
    risk: "A CPU that hangs in the kernel is not reported, nor is the machine restarted for it.",
    source: "github.com/bitcharmer/tlb_shootdowns; tuned profile cpu-partitioning; kernel \
             Documentation/admin-guide/lockup-watchdogs.rst",
    causes: &[],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (all, first) = look.read(ALL);
    let (nmi, second) = look.read(NMI);
    let (soft, third) = look.read(SOFT);
    let (watched, fourth) = look.read(CPUS);
    let hot = look.hot_cpus();
    let watched_list = watched.text().and_then(cpus::list);
    let left_out = watched_list.is_some_and(|w| !hot.is_empty() && without(&hot, &w) == hot);
    // The first reads 1 where one of both runs (kernel/watchdog.c, proc_watchdog_common).
    let checked = match (all.number(), &all) {
        (Some(0), _) => Checked::ok("switched off"),
        (Some(1), _) if left_out => Checked::ok("the hot CPUs are left out"),
        (Some(1), _) => hazard(look, &hot, &nmi, &soft),
        (None, Value::Absent) => Checked::ok("this kernel has none"),
        _ => Checked::unknown("the setting can't be read"),
    };
    checked.read([first, second, third, fourth])
}

fn hazard(look: &Look<'_>, hot: &[u32], nmi: &Value, soft: &Value) -> Checked {
    let each = [
        (soft, "soft", "kernel.soft_watchdog"),
        (nmi, "hard", "kernel.nmi_watchdog"),
    ];
    let on = each.iter().filter(|(value, ..)| value.number() == Some(1));
    let names: Vec<&str> = on.clone().map(|(_, name, _)| *name).collect();
    let which = if names.is_empty() {
        "all CPUs are watched".to_owned()
    } else {
        format!("CPUs are watched for {} lock-ups", names.join(" and "))
    };
    let checked = Checked::hazard(which);
    let rest = without(&cpu_list(&look.file(CPUS)).unwrap_or_default(), hot);
    let rest = if rest.is_empty() {
        without(&online(look), hot)
    } else {
        rest
    };
    // the others stay watched where it is known which are hot
    if !hot.is_empty() && !rest.is_empty() && look.file(CPUS) != Value::Absent {
        return checked.fix(Fix::sysctl("kernel.watchdog_cpumask", cpus::text(&rest)));
    }
    // Each by its name: up to Linux 6.6 whoever reads one of the two while all are off switches it off for good
    // (kernel/watchdog.c, proc_watchdog_common()), and to switch all on again would not bring it back.
    let all = checked.fix(Fix::sysctl("kernel.watchdog", "0"));
    on.fold(all, |checked, (.., setting)| {
        checked.fix(Fix::sysctl(setting, "0"))
    })
    .fix(Fix::Cmdline("nowatchdog".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const ISOLATED: (&str, &str) = ("/sys/devices/system/cpu/isolated", "2-3");

    /// Check that a detector that runs is a hazard, and is switched off where no CPU is known to be hot.
    #[test]
    fn running_is_a_hazard() {
        let files = [(ALL, "1"), (NMI, "0"), (SOFT, "1"), (CPUS, "0-7")];
        let found = ask(&RULE, &files);
        assert_hazard(
            &found,
            "sysctl -w kernel.watchdog=0\nsysctl -w kernel.soft_watchdog=0",
            "sysctl.d: kernel.watchdog = 0\nsysctl.d: kernel.soft_watchdog = 0\nkernel command line: nowatchdog",
        );
        assert_eq!(found.said, "CPUs are watched for soft lock-ups");
        assert_eq!(status(&RULE, &[(ALL, "0")]), Status::Ok);
        assert_eq!(status(&RULE, &[]), Status::Ok);
        assert_eq!(status(&RULE, &[(ALL, "x")]), Status::Unknown);
    }

    /// Check that only the hot CPUs are taken out where they are known, and that then all is fine.
    #[test]
    fn the_others_stay_watched() {
        let found = ask(&RULE, &[ISOLATED, (ALL, "1"), (NMI, "1"), (CPUS, "0-7")]);
        assert_hazard(
            &found,
            "sysctl -w kernel.watchdog_cpumask=0-1,4-7",
            "sysctl.d: kernel.watchdog_cpumask = 0-1,4-7",
        );
        assert_eq!(
            status(&RULE, &[ISOLATED, (ALL, "1"), (CPUS, "0-1,4-7")]),
            Status::Ok
        );
        assert_eq!(
            status(&RULE, &[ISOLATED, (ALL, "1"), (CPUS, "0-2")]),
            Status::Hazard
        );
    }
}
