//! VM-STEAL: the host takes CPUs away.

use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::Look;
use crate::rule::{Check, Checked, Rule};
use crate::rules::UNSEEN;

const COUNTER: &str = "cpu.steal";

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
        Some(n) => Checked::hazard(format!("the host took {n} ticks away")).fix(Fix::Advice(
            "host: pin this machine's vCPUs to CPUs of their own, and don't give those to others"
                .to_owned(),
        )),
        None if bare => Checked::ok("no host: this is no virtual machine"),
        None if looked_twice || total.is_none() => Checked::unknown("/proc/stat can't be read"),
        None => Checked::unknown(UNSEEN),
    };
    checked
        .read([Read::new("/proc/stat cpu, steal", shown)])
        .grows(&[COUNTER])
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
