//! CPU-SMT: a hot CPU shares its core with another one.

use crate::rules::prelude::*;

use super::common::{check_hot_cpus, cpus_without};

const SMT_ACTIVE_FILE: &str = "/sys/devices/system/cpu/smt/active";
const SMT_CONTROL_FILE: &str = "/sys/devices/system/cpu/smt/control";

pub(super) const CPU_SMT: AuditRule = AuditRule {
    id: "CPU-SMT",
    title: "hot CPUs share their cores",
    severity: Severity::Medium,
    why: "Whatever runs on the other thread of the core, also a shootdown that it answers, takes execution \
          units, caches and TLB entries from the hot one.",
    risk: "Half of the logical CPUs are gone, and lists of CPUs that name them (isolcpus, affinities) have to \
           be written anew.",
    source: "github.com/bitcharmer/tlb_shootdowns; kernel Documentation/admin-guide/kernel-parameters.txt, nosmt",
    causes: &[],
    check: RuleCheck::System(|look| check_hot_cpus(look, check_cpu_smt)),
};

fn check_cpu_smt(look: &SystemView<'_>, hot: &[u32]) -> CheckResult {
    let (active, read) = look.read(SMT_ACTIVE_FILE);
    if active.number() == Some(0) {
        return CheckResult::ok("each core runs one thread").with_reads([read]);
    }
    let (mut foreign, mut reads, mut unread, mut shared) = (Vec::new(), vec![read], false, false);
    let mut firsts = Vec::new();
    for cpu in hot {
        // lists threads that are online, also where the kernel has no smt/active (before 4.19)
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let (value, read) = look.read(&path);
        let Some(threads) = value.text().and_then(cpus::parse_cpu_list) else {
            unread = true;
            continue;
        };
        let others = cpus_without(&threads, hot);
        shared |= threads.len() > 1;
        if !others.is_empty() {
            firsts.extend(threads.iter().min().copied());
            foreign.extend(others);
            reads.push(read);
        }
    }
    foreign.sort_unstable();
    foreign.dedup();
    firsts.sort_unstable();
    firsts.dedup();
    let checked = if !foreign.is_empty() {
        shared_core_hazard(look, hot, &foreign, &firsts)
    } else if unread || matches!(active, FileValue::Refused(_)) {
        CheckResult::unknown("which CPUs share a core can't be read")
    } else if shared {
        CheckResult::ok("the cores of the hot CPUs are theirs alone")
            .with_note("hot CPUs share cores with one another: leave one thread of each core idle")
    } else {
        CheckResult::ok("the hot CPUs have their cores to themselves")
    };
    checked.with_reads(reads)
}

/// `firsts` are the first threads of the cores that are shared.
fn shared_core_hazard(
    look: &SystemView<'_>,
    hot: &[u32],
    foreign: &[u32],
    firsts: &[u32],
) -> CheckResult {
    let list = cpus::format_cpu_list(foreign);
    let mut checked =
        CheckResult::hazard(format!("CPUs {list} are threads of the hot CPUs' cores"));
    // without SMT the kernel keeps the first thread of each core, and takes the others (kernel/cpu.c)
    if !cpus_without(firsts, hot).is_empty() {
        for cpu in foreign {
            // CPU 0 can't be taken offline
            if *cpu > 0 {
                checked = checked.with_fix(Fix::Command(format!(
                    "echo 0 > /sys/devices/system/cpu/cpu{cpu}/online"
                )));
            }
        }
        return checked
            .with_advice(format!(
                "make CPUs {} the hot ones, the first threads of their cores: then 'nosmt' takes the others away",
                cpus::format_cpu_list(firsts)
            ))
            .with_note(format!(
                "not 'nosmt' as it is: it keeps the first thread of each core, and takes hot CPUs of {} away",
                cpus::format_cpu_list(hot)
            ));
    }
    if look.file(SMT_CONTROL_FILE).text() == Some("on") {
        // shown, and never made by --apply: threads that are pinned to these CPUs lose that, cpusets of cgroup v1
        // lose the CPUs, and neither comes back with them (kernel/cpu.c; kernel/cgroup/cpuset.c)
        checked = checked.with_fix(Fix::Command(format!("echo off > {SMT_CONTROL_FILE}")));
    }
    checked
        .with_fix(Fix::Cmdline("nosmt".to_owned()))
        .with_note(format!(
            "it also helps to set CPUs {list} apart as well and to leave them idle"
        ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const ISOLATED: (&str, &str) = ("/sys/devices/system/cpu/isolated", "2-3");
    const TWO: &str = "/sys/devices/system/cpu/cpu2/topology/thread_siblings_list";
    const THREE: &str = "/sys/devices/system/cpu/cpu3/topology/thread_siblings_list";

    /// Check that a sibling that others use is a hazard.
    #[test]
    fn shared_cores_are_a_hazard() {
        let files = [
            ISOLATED,
            (SMT_ACTIVE_FILE, "1"),
            (SMT_CONTROL_FILE, "on"),
            (TWO, "2,6"),
            (THREE, "3,7"),
        ];
        let found = ask_rule_on(&CPU_SMT, &files);
        assert_hazard(
            &found,
            "echo off > /sys/devices/system/cpu/smt/control",
            "kernel command line: nosmt",
        );
        assert!(found.said.contains("6-7"), "{}", found.said);
        assert_eq!(
            status_on(&CPU_SMT, &files[1..]),
            FindingStatus::Ok,
            "no hot CPU"
        );
        // one that can't be read does not hide the other
        assert_eq!(status_on(&CPU_SMT, &files[..4]), FindingStatus::Hazard);
    }

    /// Check that where hot CPUs are not the first threads of their cores, nothing is offered that takes them away.
    #[test]
    fn second_threads_are_kept() {
        let files = [
            ISOLATED,
            (SMT_ACTIVE_FILE, "1"),
            (SMT_CONTROL_FILE, "on"),
            (TWO, "0,2"),
            (THREE, "1,3"),
        ];
        assert_hazard(
            &ask_rule_on(&CPU_SMT, &files),
            "echo 0 > /sys/devices/system/cpu/cpu1/online",
            "make CPUs 0-1 the hot ones, the first threads of their cores: then 'nosmt' takes the others away",
        );
    }

    /// Check that hot CPUs that share only with one another, or with nobody, are fine.
    #[test]
    fn own_cores_are_fine() {
        let both = ask_rule_on(
            &CPU_SMT,
            &[
                ISOLATED,
                (SMT_ACTIVE_FILE, "1"),
                (TWO, "2-3"),
                (THREE, "2-3"),
            ],
        );
        assert_eq!((both.status, both.notes.len()), (FindingStatus::Ok, 1));
        let alone = [ISOLATED, (SMT_ACTIVE_FILE, "1"), (TWO, "2"), (THREE, "3")];
        assert_eq!(status_on(&CPU_SMT, &alone), FindingStatus::Ok);
        assert_eq!(
            status_on(&CPU_SMT, &[ISOLATED, (SMT_ACTIVE_FILE, "0")]),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&CPU_SMT, &[ISOLATED, (SMT_ACTIVE_FILE, "1")]),
            FindingStatus::Unknown
        );
    }
}
