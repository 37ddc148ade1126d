//! VM-STEAL: the host takes CPUs away.

use crate::rules::prelude::*;
use crate::rules::why_no_growth;

const STEAL_COUNTER: &str = "cpu.steal";
/// Time of all CPUs, whatever they did.
const CPU_TIME_COUNTER: &str = "cpu.total";
/// As bad as the rule says from this share on.
const MIN_HARMFUL_SHARE: f64 = 1.0 / 100.0;

pub(super) const VM_STEAL: AuditRule = AuditRule {
    id: "VM-STEAL",
    title: "the host takes CPUs away",
    severity: Severity::High,
    why: "A CPU that the host has taken away runs nothing and answers no shootdown: who asked for it waits until \
          the host gives the CPU back, ms later.",
    risk: "CPUs that the host keeps for this machine serve no other one.",
    source: "ByteDance 2020, jemalloc and TLB shootdown; proc_stat(5), steal",
    causes: &[],
    check: RuleCheck::System(check_vm_steal),
};

fn check_vm_steal(look: &SystemView<'_>) -> CheckResult {
    let stat = look.file("/proc/stat");
    let total = stat.text().and_then(|text| {
        let line = text.lines().find(|l| l.starts_with("cpu "))?;
        line.split_ascii_whitespace().nth(8)?.parse::<u64>().ok()
    });
    let shown = total.map_or("(not readable)".to_owned(), |t| {
        format!("{t} ticks since the start")
    });
    let looked_twice = look.evidence.counter_growth.is_some();
    // Xen and others set it too; processors of other kinds don't tell
    let bare = look.cpu_flag("hypervisor") == Some(false);
    let checked = match look.evidence.growth_of(STEAL_COUNTER) {
        Some(0) => CheckResult::ok("the host took no time away"),
        Some(n) => steal_hazard(n, look.evidence.growth_of(CPU_TIME_COUNTER)),
        None if bare => CheckResult::ok("no host: this is no virtual machine"),
        None if looked_twice || total.is_none() => CheckResult::unknown("/proc/stat can't be read"),
        None => CheckResult::unknown(why_no_growth(look)),
    };
    checked
        .with_reads([FileReading::new("/proc/stat cpu, steal", shown)])
        .with_harm_counters(&[STEAL_COUNTER])
}

/// How much of the time of all CPUs that is. A tick is 10 ms on most machines, and single ones are rounding.
fn steal_hazard(stolen: u64, total: Option<u64>) -> CheckResult {
    let share = total
        .filter(|&t| t > 0)
        .map(|t| stolen as f64 / t.max(stolen) as f64);
    let (said, much) = match share {
        Some(share) => (
            format!("the host took {:.2} % of the time away", 100.0 * share),
            share >= MIN_HARMFUL_SHARE,
        ),
        None => ("the host took time away".to_owned(), stolen > 1),
    };
    let checked = CheckResult::hazard(said).with_advice(
        "host: pin this machine's vCPUs to CPUs of their own, and don't give those to others",
    );
    if much {
        checked
    } else {
        checked.with_severity(Severity::Low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_with, assert_hazard, evidence_of_growth, status_on};

    const STAT: (&str, &str) = (
        "/proc/stat",
        "cpu  1 2 3 4 5 6 7 800 0 0\ncpu0 1 2 3 4 5 6 7 800 0 0",
    );

    /// Check that time that was taken while somebody looked is a hazard with its harm, and that none is fine.
    #[test]
    fn growth_is_a_hazard() {
        let found = ask_rule_with(&VM_STEAL, &[STAT], &evidence_of_growth(STEAL_COUNTER, 12));
        assert_hazard(
            &found,
            "",
            "host: pin this machine's vCPUs to CPUs of their own, and don't give those to others",
        );
        assert_eq!(found.harm.unwrap().description, "cpu.steal +12 in 1.00 s");
        let of = |steal, total| {
            let mut evidence = evidence_of_growth(STEAL_COUNTER, steal);
            let more = evidence.counter_growth.as_mut().unwrap();
            more.insert(CPU_TIME_COUNTER.to_owned(), total);
            ask_rule_with(&VM_STEAL, &[STAT], &evidence)
        };
        let much = of(12, 800);
        assert_eq!(much.said, "the host took 1.50 % of the time away");
        assert_eq!(much.severity, Severity::High);
        assert_eq!(of(1, 800).severity, Severity::Low, "one tick");
        assert_eq!(found.read[0].value, "800 ticks since the start");
        assert_eq!(
            ask_rule_with(&VM_STEAL, &[STAT], &evidence_of_growth(STEAL_COUNTER, 0)).status,
            FindingStatus::Ok
        );
    }

    /// Check that nothing is claimed without a second look, but of a machine that has no host.
    #[test]
    fn one_look_tells_nothing() {
        let guest = ("/proc/cpuinfo", "flags : pcid hypervisor");
        assert_eq!(status_on(&VM_STEAL, &[STAT, guest]), FindingStatus::Unknown);
        assert_eq!(
            status_on(&VM_STEAL, &[STAT, ("/proc/cpuinfo", "flags : pcid")]),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&VM_STEAL, &[]), FindingStatus::Unknown);
    }
}
