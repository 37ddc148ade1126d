//! SYS-RT: threads of real-time priority are paused.

use crate::rules::prelude::*;

use super::common::{kernel_config, kernel_version};

const RT_RUNTIME_FILE: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const RT_PERIOD_FILE: &str = "/proc/sys/kernel/sched_rt_period_us";
/// There with CONFIG_RT_GROUP_SCHED, which keeps the old way (cgroup v1).
const RT_GROUP_FILE: &str = "/sys/fs/cgroup/cpu/cpu.rt_runtime_us";
const FAIR_SERVERS_FOLDER: &str = "/sys/kernel/debug/sched/fair_server";
/// From here on threads are paused only for tasks that starve (kernel/sched/deadline.c, dl_server).
const FIRST_SERVED_KERNEL: (u32, u32) = (6, 12);

/// SCHED_FIFO and SCHED_RR, of include/uapi/linux/sched.h.
const REAL_TIME_POLICIES: [u32; 2] = [1, 2];
/// PF_KTHREAD of include/linux/sched.h.
const KERNEL_THREAD_FLAG: u32 = 0x0020_0000;

pub(super) const SYS_RT: AuditRule = AuditRule {
    id: "SYS-RT",
    title: "real-time threads are paused",
    severity: Severity::Medium,
    why: "A thread of SCHED_FIFO or SCHED_RR that does not sleep is taken off its CPU for 50 ms of each second; \
          from Linux 6.12 on only while an ordinary task waits for that CPU.",
    risk: "A real-time thread that loops by mistake takes its CPU for good, and kernel threads that have work \
           there wait.",
    source: "tuned profile realtime; kernel Documentation/scheduler/sched-rt-group.rst; kernel/sched/rt.c",
    causes: &[],
    check: RuleCheck::System(check_sys_rt),
};

fn check_sys_rt(look: &SystemView<'_>) -> CheckResult {
    let (runtime, first) = look.read(RT_RUNTIME_FILE);
    let (period, second) = look.read(RT_PERIOD_FILE);
    let Some(us) = runtime.number() else {
        let checked = match runtime {
            FileValue::Absent => CheckResult::ok("this kernel pauses none"),
            _ => CheckResult::unknown("the setting can't be read"),
        };
        return checked.with_reads([first]);
    };
    // as kernel/sched/rt.c, sched_rt_runtime_exceeded
    let limited = us >= 0 && period.number().is_none_or(|period| us < period);
    let served = kernel_version(look).is_some_and(|r| r >= FIRST_SERVED_KERNEL);
    let throttles = match (limited, served) {
        (false, _) => Some(false),
        (true, false) => Some(true),
        (true, true) => has_group_limit(look),
    };
    let servers = if served {
        read_fair_servers(look)
    } else {
        Vec::new()
    };
    let serves = served && (servers.is_empty() || servers.iter().any(|(_, ns)| *ns != Some(0)));
    let checked = match count_real_time_threads(look) {
        _ if throttles == Some(false) && !serves => {
            CheckResult::ok("real-time threads are never paused")
        }
        None => CheckResult::unknown("the policies of threads can't be read"),
        Some(0) if look.process().is_none() && !look.sees_all_processes() => {
            CheckResult::unknown("not all processes of the machine can be seen from here")
        }
        Some(0) => CheckResult::ok("no thread runs by SCHED_FIFO or SCHED_RR"),
        Some(n) if throttles == Some(true) => CheckResult::hazard(format!(
            "{n} threads run by SCHED_FIFO or SCHED_RR, for no more than {us} µs of each period"
        ))
        .with_fix(Fix::set_sysctl("kernel.sched_rt_runtime_us", "-1")),
        Some(n) if serves => serve_hazard(look, n, &servers),
        Some(_) => CheckResult::unknown(
            "whether this kernel pauses them can't be read (CONFIG_RT_GROUP_SCHED)",
        ),
    };
    let shown = servers.iter().map(|(path, ns)| {
        FileReading::new(
            path.clone(),
            ns.map_or("(not readable)".to_owned(), |ns| format!("{ns} ns")),
        )
    });
    checked
        .with_reads([first, second])
        .with_reads(shown.take(2))
}

/// Whether threads are paused in the old way also from 6.12 on, as with groups of real-time threads: the root
/// group has the limits too (kernel/sched/core.c, sched_init), with or without a cgroup of version 1. From 6.16 on
/// they may be built in and switched off (CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED, rt_group_sched=): what that does
/// to the root group is not known here.
fn has_group_limit(look: &SystemView<'_>) -> Option<bool> {
    if look.file(RT_GROUP_FILE) != FileValue::Absent {
        return Some(true);
    }
    let config = kernel_config(look)?;
    let has = |option| config.lines().any(|l| l == option);
    let switched = has("CONFIG_RT_GROUP_SCHED_DEFAULT_DISABLED=y")
        || look
            .kernel_parameters()
            .iter()
            .any(|p| p.starts_with("rt_group_sched="));
    match has("CONFIG_RT_GROUP_SCHED=y") {
        true if switched => None,
        has => Some(has),
    }
}

/// The hazard that is left from 6.12 on, where the sysctl limits admission only.
fn serve_hazard(
    look: &SystemView<'_>,
    threads: usize,
    servers: &[(String, Option<i64>)],
) -> CheckResult {
    let mut checked = CheckResult::hazard(format!(
        "{threads} threads run by SCHED_FIFO or SCHED_RR, and ordinary tasks that starve may pause them"
    ))
    .with_severity(Severity::Low);
    let hot = look.hot_cpus();
    if hot.is_empty() || servers.is_empty() {
        return checked.with_advice(format!(
            "real-time: write 0 to {FAIR_SERVERS_FOLDER}/cpuN/runtime of the CPUs of these threads"
        ));
    }
    for (path, ns) in servers {
        if *ns != Some(0) {
            checked = checked.with_fix(Fix::set_file(path.clone(), "0"));
        }
    }
    checked.with_note(format!(
        "of CPUs {}, which are set apart",
        cpus::format_cpu_list(&hot)
    ))
}

/// How long tasks that starve may run, ns, by CPU: of the hot ones, or of all where there are none.
fn read_fair_servers(look: &SystemView<'_>) -> Vec<(String, Option<i64>)> {
    let hot = look.hot_cpus();
    let of_hot = |name: &str| {
        let cpu = name.strip_prefix("cpu").and_then(|n| n.parse().ok());
        cpu.is_some_and(|cpu: u32| hot.is_empty() || hot.contains(&cpu))
    };
    let paths = look
        .files_in(FAIR_SERVERS_FOLDER, of_hot)
        .into_iter()
        .map(|p| format!("{p}/runtime"));
    paths
        .map(|path| {
            let ns = look.file(&path).number();
            (path, ns)
        })
        .collect()
}

/// How many threads, of the process or of all, run by a real-time policy; those of the kernel don't count.
/// `None` if none at all can be read.
fn count_real_time_threads(look: &SystemView<'_>) -> Option<usize> {
    let folders = match look.process() {
        Some(process) => vec![process.proc_path("task")],
        None => look
            .numbered_files_in("/proc")
            .iter()
            .map(|p| format!("{p}/task"))
            .collect(),
    };
    let tasks = folders
        .iter()
        .flat_map(|folder| look.numbered_files_in(folder));
    let (mut seen, mut count) = (false, 0);
    for task in tasks {
        let stat = look.file(&format!("{task}/stat"));
        let Some((flags, policy)) = stat.text().and_then(flags_and_policy) else {
            continue; // it has ended
        };
        seen = true;
        count +=
            usize::from(flags & KERNEL_THREAD_FLAG == 0 && REAL_TIME_POLICIES.contains(&policy));
    }
    seen.then_some(count)
}

/// Fields 9 and 41 of proc_pid_stat(5), counted from the end of the name, which may hold anything.
fn flags_and_policy(stat: &str) -> Option<(u32, u32)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let flags = fields.nth(9 - 3)?.parse().ok()?;
    Some((flags, fields.nth(41 - 9 - 1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const OLD: (&str, &str) = ("/proc/sys/kernel/osrelease", "6.1.0-18-amd64");
    const TASK: &str = "/proc/9/task/9/stat";
    const FIFO: &str = "9 (a) b) R 1 9 9 0 -1 4194304 1 0 0 0 0 0 0 0 -51 0 1 0 5 0 0 18446744073709551615 \
                        0 0 0 0 0 0 0 0 0 0 0 0 17 2 50 1 0 0 0";

    fn machine(us: &'static str, stat: &str) -> Vec<(&'static str, String)> {
        let files = [
            OLD,
            (RT_RUNTIME_FILE, us),
            (RT_PERIOD_FILE, "1000000"),
            (TASK, stat),
        ];
        files.map(|(path, text)| (path, text.to_owned())).to_vec()
    }

    fn found(files: &[(&'static str, String)]) -> FindingStatus {
        let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (*p, t.as_str())).collect();
        status_on(&SYS_RT, &files)
    }

    /// Check that a real-time thread under a limit is a hazard, and neither alone is.
    #[test]
    fn limited_threads_are_a_hazard() {
        let files = [
            OLD,
            (RT_RUNTIME_FILE, "950000"),
            (RT_PERIOD_FILE, "1000000"),
            (TASK, FIFO),
        ];
        assert_hazard(
            &ask_rule_on(&SYS_RT, &files),
            "sysctl -w kernel.sched_rt_runtime_us=-1",
            "sysctl.d: kernel.sched_rt_runtime_us = -1",
        );
        assert_eq!(found(&machine("-1", FIFO)), FindingStatus::Ok);
        assert_eq!(found(&machine("1000000", FIFO)), FindingStatus::Ok);
        let ordinary = FIFO.replace("17 2 50 1 ", "17 2 0 0 ");
        assert_eq!(found(&machine("950000", &ordinary)), FindingStatus::Ok);
        let kernel = FIFO.replace("4194304", "69238880"); // with PF_KTHREAD
        assert_eq!(found(&machine("950000", &kernel)), FindingStatus::Ok);
        assert_eq!(found(&machine("950000", "garbage")), FindingStatus::Unknown);
        assert_eq!(found(&machine("x", FIFO)), FindingStatus::Unknown);
        let mut hidden = machine("950000", &ordinary);
        hidden.push(("/proc/2/comm", "bash".to_owned()));
        assert_eq!(found(&hidden), FindingStatus::Unknown);
        assert_eq!(status_on(&SYS_RT, &[]), FindingStatus::Ok);
    }

    /// Check that a new kernel's server for tasks that starve is the one to ask, and a smaller hazard.
    #[test]
    fn a_new_kernel() {
        let server = "/sys/kernel/debug/sched/fair_server/cpu2/runtime";
        let files = |ns| {
            [
                ("/boot/config-6.12.0", "CONFIG_A=y"),
                ("/sys/devices/system/cpu/isolated", "2"),
                (RT_RUNTIME_FILE, "950000"),
                (RT_PERIOD_FILE, "1000000"),
                (TASK, FIFO),
                (server, ns),
            ]
        };
        let found = ask_rule_on(&SYS_RT, &files("50000000"));
        assert_hazard(
            &found,
            "echo 0 > /sys/kernel/debug/sched/fair_server/cpu2/runtime",
            "tmpfiles.d: w /sys/kernel/debug/sched/fair_server/cpu2/runtime - - - - 0",
        );
        assert_eq!(found.severity, Severity::Low);
        assert_eq!(status_on(&SYS_RT, &files("0")), FindingStatus::Ok);
        let unseen = ask_rule_on(&SYS_RT, &files("0")[..5]);
        assert!(unseen.fix_lasting().starts_with("real-time:"), "{unseen:?}");
        // groups keep the old way, and without the configuration nobody knows
        let mut grouped = files("0");
        grouped[0].1 = "CONFIG_RT_GROUP_SCHED=y";
        let found = ask_rule_on(&SYS_RT, &grouped);
        assert_eq!(found.fix_now(), "sysctl -w kernel.sched_rt_runtime_us=-1");
        assert_eq!(status_on(&SYS_RT, &files("0")[1..]), FindingStatus::Unknown);
    }
}
