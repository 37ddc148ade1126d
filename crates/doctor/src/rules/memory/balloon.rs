//! SYS-BALLOON: the host takes memory back from this machine.

use super::common;
use crate::finding::Severity;
use crate::fix::Fix;
use crate::look::Look;
use crate::rule::{Check, Checked, Rule};

/// Pages taken (virtio, VMware), and pages the host has now (any host, from 6.16).
const TAKEN: [&str; 2] = ["balloon_inflate", "nr_balloon_pages"];

pub(super) const RULE: Rule = Rule {
    id: "SYS-BALLOON",
    title: "the host takes memory back",
    severity: Severity::Medium,
    why: "To hand pages to the host this machine reclaims and compacts memory of its programs, with shootdowns, \
          and pays again with faults when it needs them.",
    risk: "The host can't lend this machine's memory to others.",
    source: "kernel mm/vmstat.c balloon_inflate; drivers/virtio/virtio_balloon.c",
    causes: &[],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (inflated, first) = common::vmstat(look, TAKEN[0]);
    let (held, second) = common::vmstat(look, TAKEN[1]);
    let counts = inflated.is_some() || held.is_some();
    let readable = look
        .file("/proc/vmstat")
        .text()
        .is_some_and(|t| t.contains("nr_free_pages "));
    // processors of other kinds don't tell
    let bare = look.cpu_flag("hypervisor") == Some(false);
    let checked = match common::grown(look, &TAKEN) {
        Some(n) if n > 0 => Checked::hazard("the host took pages while this machine ran")
            .fix(Fix::Advice(
            "host: give this machine all its memory, with no balloon or one that stays as it is"
                .to_owned(),
        )),
        _ if bare => Checked::ok("no host: this is no virtual machine"),
        _ if !readable => Checked::unknown("/proc/vmstat can't be read"),
        _ if !counts => Checked::ok("this kernel has no balloon"),
        Some(_) => Checked::ok("the host took no pages"),
        None => Checked::unknown(crate::rules::unseen(look)),
    };
    checked.read([first, second]).grows(&TAKEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask_with, assert_hazard, grown, status};

    const VMSTAT: (&str, &str) = (
        "/proc/vmstat",
        "nr_free_pages 7\nnr_balloon_pages 4\nballoon_inflate 9",
    );
    const GUEST: (&str, &str) = ("/proc/cpuinfo", "flags : pcid hypervisor");

    /// Check that pages that were taken while somebody looked are a hazard with its harm, and none are fine.
    #[test]
    fn growth_is_a_hazard() {
        let found = ask_with(&RULE, &[VMSTAT, GUEST], &grown(TAKEN[0], 256));
        assert_hazard(
            &found,
            "",
            "host: give this machine all its memory, with no balloon or one that stays as it is",
        );
        assert_eq!(found.harm.unwrap().what, "balloon_inflate +256 in 1.00 s");
        assert_eq!(
            ask_with(&RULE, &[VMSTAT, GUEST], &grown(TAKEN[0], 0)).status,
            Status::Ok
        );
    }

    /// Check that nothing is claimed without a second look, but of machines without a host or a balloon.
    #[test]
    fn one_look_tells_nothing() {
        assert_eq!(status(&RULE, &[VMSTAT, GUEST]), Status::Unknown);
        assert_eq!(
            status(&RULE, &[VMSTAT, ("/proc/cpuinfo", "flags : pcid")]),
            Status::Ok
        );
        assert_eq!(
            status(&RULE, &[("/proc/vmstat", "nr_free_pages 7"), GUEST]),
            Status::Ok
        );
        assert_eq!(status(&RULE, &[GUEST]), Status::Unknown);
    }
}
