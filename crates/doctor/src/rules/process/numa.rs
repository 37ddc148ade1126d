//! PROC-NUMA: memory of the process lies on another node than its CPUs.

use std::collections::BTreeMap;

use crate::rules::prelude::*;

use super::common::MAPPINGS_UNREADABLE;

const NODES_FOLDER: &str = "/sys/devices/system/node";
const ONLINE_NODES_FILE: &str = "/sys/devices/system/node/online";

/// A smaller share of memory that is far away is nothing to worry about, percent.
const MAX_FAR_PERCENT: u64 = 5;

pub(super) const PROC_NUMA: AuditRule = AuditRule {
    id: "PROC-NUMA",
    title: "memory on another node than the CPUs",
    severity: Severity::Medium,
    why: "Each miss of the cache takes the longer way, and automatic NUMA balancing unmaps such pages to find \
          out who uses them and moves them: shootdowns and page faults for as long as it takes.",
    risk: "Bound to one node the process has only that node's memory: what doesn't fit is reclaimed or refused.",
    source: "rigtorp.se/virtual-memory; man numa_maps(5); man numactl(8)",
    causes: &[Cause::MigrateNuma],
    check: RuleCheck::Process(check_proc_numa),
};

fn check_proc_numa(look: &SystemView<'_>, process: &AuditedProcess) -> CheckResult {
    let (online, online_read) = look.read(ONLINE_NODES_FILE);
    let online = match (online.text().map(cpus::parse_cpu_list), &online) {
        (Some(Some(nodes)), _) => nodes,
        (_, FileValue::Absent) => {
            return CheckResult::ok("this kernel has no NUMA").with_reads([online_read]);
        }
        _ => return CheckResult::unknown("the nodes can't be read").with_reads([online_read]),
    };
    if online.len() == 1 {
        return CheckResult::ok("this machine has one node").with_reads([online_read]);
    }
    let (allowed, allowed_read) = process.status_field("Cpus_allowed_list");
    let read = |shown: String| {
        [
            online_read,
            allowed_read,
            FileReading::new(process.proc_path("numa_maps"), shown),
        ]
    };
    let Some(memory) = process.file("numa_maps").text().and_then(bytes_by_node) else {
        return CheckResult::unknown(MAPPINGS_UNREADABLE)
            .with_reads(read("(not readable)".to_owned()));
    };
    let Some(allowed) = allowed.as_deref().and_then(cpus::parse_cpu_list) else {
        return CheckResult::unknown("its CPUs can't be read")
            .with_reads(read("(not judged)".to_owned()));
    };
    let is_near = |node: &u32| {
        let text = look.file(&format!("{NODES_FOLDER}/node{node}/cpulist"));
        // a node without CPUs, such as memory behind CXL, has an empty list
        let own = text
            .text()
            .and_then(cpus::parse_cpu_list)
            .unwrap_or_default();
        own.iter().any(|cpu| allowed.contains(cpu))
    };
    let near: Vec<u32> = online.into_iter().filter(is_near).collect();
    if near.is_empty() {
        return CheckResult::unknown("the CPUs of the nodes can't be read")
            .with_reads(read("(not judged)".to_owned()));
    }
    let shown = memory
        .iter()
        .map(|(node, bytes)| format!("N{node} {} kB", bytes >> 10));
    let shown: Vec<String> = shown.collect();
    judge_placement(process.pid(), &near, &memory).with_reads(read(shown.join(", ")))
}

fn judge_placement(pid: u32, near: &[u32], memory: &BTreeMap<u32, u64>) -> CheckResult {
    let total: u64 = memory.values().sum();
    let far: Vec<u32> = memory
        .keys()
        .copied()
        .filter(|n| !near.contains(n))
        .collect();
    let far_bytes: u64 = far.iter().filter_map(|n| memory.get(n)).sum();
    let (to, from) = (cpus::format_cpu_list(near), cpus::format_cpu_list(&far));
    if far_bytes * 100 > total * MAX_FAR_PERCENT {
        return CheckResult::hazard(format!(
            "{} of {} kB lie on node {from}, and its CPUs are on node {to}",
            far_bytes >> 10,
            total >> 10
        ))
        .with_fix(Fix::Command(format!("migratepages {pid} {from} {to}")))
        .with_advice(format!(
            "start it by: numactl --cpunodebind={to} --membind={to} PROGRAM"
        ))
        .with_fix(Fix::Directive("NUMAPolicy=bind".to_owned()))
        .with_fix(Fix::Directive(format!("NUMAMask={to}")))
        .with_harm_counters(&["numa_pages_migrated"]);
    }
    if near.len() > 1 && total > 0 {
        return CheckResult::unknown(format!(
            "it may run on node {to}: which memory is far away can be told once it is bound to one"
        ));
    }
    CheckResult::ok(format!("its memory lies on node {to}, as its CPUs"))
}

/// Bytes on each node, of memory that the process itself has: clean pages of files are shared with everybody, and code
/// that several processes map is not moved (mm/mempolicy.c, mm/migrate.c). `None` if the text is none of the kernel's.
fn bytes_by_node(text: &str) -> Option<BTreeMap<u32, u64>> {
    let mut bytes = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        u64::from_str_radix(words.next()?, 16).ok()?;
        let words: Vec<&str> = words.collect();
        let has = |key: &str| words.iter().any(|w| w.starts_with(key));
        if has("file=") && !has("anon=") && !has("dirty=") {
            continue;
        }
        let number = |key: &str| {
            words
                .iter()
                .find_map(|w| w.strip_prefix(key)?.parse::<u64>().ok())
        };
        let size = number("kernelpagesize_kB=").unwrap_or(4) << 10;
        for word in &words {
            let pages = word.strip_prefix('N').and_then(|rest| rest.split_once('='));
            if let Some((Ok(node), Ok(n))) =
                pages.map(|(k, n)| (k.parse::<u32>(), n.parse::<u64>()))
            {
                *bytes.entry(node).or_default() += n * size;
            }
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const MAPS: &str = "55e0 default file=/usr/bin/x mapped=500 mapmax=9 N1=500 kernelpagesize_kB=4\n\
                        7f00 default heap anon=100 dirty=100 N0=90 N1=10 kernelpagesize_kB=4\n\
                        7f10 bind:0 anon=1 dirty=1 N0=1 kernelpagesize_kB=2048";

    fn files<'a>(cpus: &'a str, maps: &'a str) -> Vec<(&'a str, &'a str)> {
        vec![
            (ONLINE_NODES_FILE, "0-1"),
            ("/sys/devices/system/node/node0/cpulist", "0-3"),
            ("/sys/devices/system/node/node1/cpulist", "4-7"),
            ("PID/status", cpus),
            ("PID/numa_maps", maps),
        ]
    }

    /// Check that memory on the other node is a hazard with all its fixes, and on the own node is none.
    #[test]
    fn far_away_is_a_hazard() {
        let found = ask_rule_on(&PROC_NUMA, &files("Cpus_allowed_list:\t4-7", MAPS));
        assert_hazard(
            &found,
            "migratepages 4711 0 1",
            "start it by: numactl --cpunodebind=1 --membind=1 PROGRAM\n\
             systemd service: NUMAPolicy=bind\n\
             systemd service: NUMAMask=1",
        );
        assert!(found.said.starts_with("2408 of 2448 kB"), "{}", found.said);
        // 40 of 2,448 kB
        let near = files("Cpus_allowed_list:\t0-3", MAPS);
        assert_eq!(status_on(&PROC_NUMA, &near), FindingStatus::Ok);
    }

    /// Check that who may run everywhere, and what can't be read, is unknown, and that one node is fine.
    #[test]
    fn what_cannot_be_told() {
        let anywhere = files("Cpus_allowed_list:\t0-7", MAPS);
        assert_eq!(status_on(&PROC_NUMA, &anywhere), FindingStatus::Unknown);
        let garbage = files("Cpus_allowed_list:\t0-3", "hello");
        assert_eq!(status_on(&PROC_NUMA, &garbage), FindingStatus::Unknown);
        assert_eq!(
            status_on(&PROC_NUMA, &[(ONLINE_NODES_FILE, "0-1")]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status_on(&PROC_NUMA, &[(ONLINE_NODES_FILE, "x")]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status_on(&PROC_NUMA, &[(ONLINE_NODES_FILE, "0")]),
            FindingStatus::Ok
        );
        assert_eq!(
            status_on(&PROC_NUMA, &[]),
            FindingStatus::Ok,
            "a kernel without NUMA"
        );
    }

    /// Check that memory on a node without CPUs is far away from everybody.
    #[test]
    fn nodes_without_cpus() {
        let mut files = files(
            "Cpus_allowed_list:\t0-7",
            "7f00 default anon=9 N2=9 kernelpagesize_kB=4",
        );
        files[0].1 = "0-2";
        files.push(("/sys/devices/system/node/node2/cpulist", ""));
        let found = ask_rule_on(&PROC_NUMA, &files);
        assert_eq!(found.fix_now(), "migratepages 4711 2 0-1");
    }
}
