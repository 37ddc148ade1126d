//! VM-STEAL: the host takes CPUs away.

use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::Look;
use crate::rule::{Check, Checked, Rule};
use crate::rules::unseen;

const COUNTER: &str = "cpu.steal";
/// Time of all CPUs, whatever they did.
const TOTAL: &str = "cpu.total";
/// As bad as the rule says from this share on.
const MUCH: f64 = 1.0 / 100.0;

pub(super) const RULE: Rule = Rule {
    id: "VM-STEAL",
    title: "the host takes CPUs away",
    severity: Severity::High,
    why: "A CPU that the host has taken away runs nothing and answers no shootdown: who asked for it waits until \
          the host gives the CPU back, ms later.",
    risk: "CPUs that the host keeps for this machine serve no other one.",
    source: "ByteDance 2020, jemalloc and TLB shootdown; proc_stat(5), steal",
    causes: &[],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let stat = look.file("/proc/stat");
    let total = stat.text().and_then(|text| {
        let line = text.lines().find(|l| l.starts_with("cpu "))?;
        line.split_ascii_whitespace().nth(8)?.parse::<u64>().ok()
    });
    let shown = total.map_or("(not readable)".to_owned(), |t| {
        format!("{t} ticks since the start")
    });
    let looked_twice = look.evidence().grown.is_some();
    // Xen and others set it too; processors of other kinds don't tell
    let bare = look.cpu_flag("hypervisor") == Some(false);
    let checked = match look.evidence().grown(COUNTER) {
        Some(0) => Checked::ok("the host took no time away"),
        Some(n) => hazard(n, look.evidence().grown(TOTAL)),
        None if bare => Checked::ok("no host: this is no virtual machine"),
        None if looked_twice || total.is_none() => Checked::unknown("/proc/stat can't be read"),
        None => Checked::unknown(unseen(look)),
    };
    checked
        .read([Read::new("/proc/stat cpu, steal", shown)])
        .grows(&[COUNTER])
}

/// How much of the time of all CPUs that is. A tick is 10 ms on most machines, and single ones are rounding.
fn hazard(stolen: u64, total: Option<u64>) -> Checked {
    let share = total
        .filter(|&t| t > 0)
        .map(|t| stolen as f64 / t.max(stolen) as f64);
    let (said, much) = match share {
        Some(share) => (
            format!("the host took {:.2} % of the time away", 100.0 * share),
            share >= MUCH,
        ),
        None => ("the host took time away".to_owned(), stolen > 1),
    };
    let checked = Checked::hazard(said).fix(Fix::Advice(
        "host: pin this machine's vCPUs to CPUs of their own, and don't give those to others"
            .to_owned(),
    ));
    if much {
        checked
    } else {
        checked.severity(Severity::Low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask_with, assert_hazard, grown, status};

    const STAT: (&str, &str) = (
        "/proc/stat",
        "cpu  1 2 3 4 5 6 7 800 0 0\ncpu0 1 2 3 4 5 6 7 800 0 0",
    );

    /// Check that time that was taken while somebody looked is a hazard with its harm, and that none is fine.
    #[test]
    fn growth_is_a_hazard() {
        let found = ask_with(&RULE, &[STAT], &grown(COUNTER, 12));
        assert_hazard(
            &found,
            "",
            "host: pin this machine's vCPUs to CPUs of their own, and don't give those to others",
        );
        assert_eq!(found.harm.unwrap().what, "cpu.steal +12 in 1.00 s");
        let of = |steal, total| {
            let mut evidence = grown(COUNTER, steal);
            let more = evidence.grown.as_mut().unwrap();
            more.insert(TOTAL.to_owned(), total);
            ask_with(&RULE, &[STAT], &evidence)
        };
        let much = of(12, 800);
        assert_eq!(much.said, "the host took 1.50 % of the time away");
        assert_eq!(much.severity, Severity::High);
        assert_eq!(of(1, 800).severity, Severity::Low, "one tick");
        assert_eq!(found.read[0].value, "800 ticks since the start");
        assert_eq!(
            ask_with(&RULE, &[STAT], &grown(COUNTER, 0)).status,
            Status::Ok
        );
    }

    /// Check that nothing is claimed without a second look, but of a machine that has no host.
    #[test]
    fn one_look_tells_nothing() {
        let guest = ("/proc/cpuinfo", "flags : pcid hypervisor");
        assert_eq!(status(&RULE, &[STAT, guest]), Status::Unknown);
        assert_eq!(
            status(&RULE, &[STAT, ("/proc/cpuinfo", "flags : pcid")]),
            Status::Ok
        );
        assert_eq!(status(&RULE, &[]), Status::Unknown);
    }
}
