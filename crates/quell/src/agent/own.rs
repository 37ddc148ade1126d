//! What the agent tells of itself.

use std::collections::HashMap;

use quell_agent::figures::{Family, Value};
use quell_agent::push;
use quell_agent::totals::Totals;

use crate::agent::recorder;
use crate::clock::{boottime_ns, own_cpu_ns, wall_ns};

/// What is told of the agent itself.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// When it started, ns since 1970.
    pub(crate) started_ns: u64,
    pub(crate) backend: &'static str,
    pub(crate) looks: u64,
    /// How long all of them took, ns.
    pub(crate) look_ns: u64,
    pub(crate) renewals: u64,
    pub(crate) failed_renewals: u64,
    /// What the probe's tables take in the kernel, bytes.
    pub(crate) probe_bytes: u64,
    /// When the machine started, ns since 1970.
    pub(crate) boot_ns: u64,
    pub(crate) scrapes: (u64, u64),
    pub(crate) pushes: Vec<(&'static str, push::Counts)>,
    /// `None` where no rule begins traces.
    pub(crate) traces: Option<recorder::Counts>,
    /// Of the figures before.
    pub(crate) series: u64,
    pub(crate) left_out: u64,
}

impl Own {
    /// They, with what is missing of the counts.
    pub(super) fn families(
        &self,
        totals: &Totals,
        guarded: Option<&Totals>,
        all: &mut Vec<Family>,
    ) {
        let own = self;
        let mut info = Family::new(
            "quell_agent_info",
            "The agent's version, and how it sees shootdowns.",
        );
        info.push(
            &[
                ("version", env!("CARGO_PKG_VERSION")),
                ("backend", own.backend),
            ],
            Value::Now(1),
        );
        all.push(info);
        let mut one = |name, help, value| all.push(Family::one(name, help, value));
        one(
            "quell_agent_cpu_seconds",
            "CPU time that the agent has used, without its probe in the kernel.",
            Value::Nanos(own_cpu_ns()),
        );
        if let Some(bytes) = resident() {
            one(
                "quell_agent_resident_bytes",
                "Memory that the agent has.",
                Value::Now(bytes),
            );
        }
        one(
            "quell_agent_probe_bytes",
            "Memory of the probe's tables in the kernel.",
            Value::Now(own.probe_bytes),
        );
        one(
            "quell_agent_looks",
            "How often it was counted.",
            Value::Count(own.looks),
        );
        one(
            "quell_agent_look_seconds",
            "How long that took, with what waited for a CPU.",
            Value::Nanos(own.look_ns),
        );
        one(
            "quell_agent_renewals",
            "How often the probe was attached anew, as its tables were full.",
            Value::Count(own.renewals),
        );
        one(
            "quell_agent_failed_renewals",
            "How often that failed, and the full tables went on.",
            Value::Count(own.failed_renewals),
        );
        one(
            "quell_agent_scrapes",
            "Scrapes that were answered.",
            Value::Count(own.scrapes.0),
        );
        one(
            "quell_agent_refused_requests",
            "Requests that were refused or not understood.",
            Value::Count(own.scrapes.1),
        );
        one(
            "quell_agent_series",
            "Series that were told the last time.",
            Value::Now(own.series),
        );
        one(
            "quell_agent_series_left_out",
            "Series that found no room the last time.",
            Value::Now(own.left_out),
        );
        let mut pushes = Family::new(
            "quell_agent_pushes",
            "Pushes, by where to and what came of them; dropped ones were replaced by newer figures.",
        );
        for (to, counts) in &own.pushes {
            let results = [
                ("taken", counts.pushed),
                ("failed", counts.failed),
                ("dropped", counts.dropped),
            ];
            for (result, n) in results {
                pushes.push(&[("to", to), ("result", result)], Value::Count(n));
            }
        }
        all.push(pushes);
        if let Some(traces) = &own.traces {
            let mut results = Family::new(
                "quell_agent_traces",
                "Traces that a rule asked for, by what came of them.",
            );
            for ((rule, result), n) in &traces.results {
                results.push(&[("rule", rule), ("result", result)], Value::Count(*n));
            }
            all.push(results);
            all.push(Family::one(
                "quell_agent_traces_removed",
                "Old traces that gave way to new ones.",
                Value::Count(traces.removed),
            ));
            all.push(Family::one(
                "quell_agent_traces_bytes",
                "What the traces take that are kept.",
                Value::Now(traces.bytes),
            ));
        }
        let mut lost = Family::new(
            "quell_lost_events",
            "What the probe could not count or time, by what is missing.",
        );
        let kinds = [
            ("crowded", totals.lost.crowded),
            ("details", totals.lost.details),
            ("stacks", totals.lost.stacks),
            ("unseen", totals.unseen),
            ("untimed", totals.untimed),
            ("renewed", totals.renewed),
            ("isolated", guarded.map_or(0, |hits| hits.lost.crowded)),
            ("samples", totals.lost_samples),
            ("sleeps", totals.lost_sleeps),
        ];
        for (kind, n) in kinds {
            lost.push(&[("missing", kind)], Value::Count(n));
        }
        all.push(lost);
    }
}

/// Memory that this process has, bytes.
fn resident() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// When the machine started, ns since 1970, as far as the clocks tell now.
pub(crate) fn boot_ns() -> u64 {
    wall_ns().saturating_sub(boottime_ns())
}

/// What the tables of this process take in the kernel, bytes: of each map that it has open (Documentation/filesystems/proc.rst
/// has fdinfo; kernel/bpf/syscall.c: bpf_map_show_fdinfo()). A map that is open twice counts once.
pub(crate) fn probe_bytes() -> u64 {
    let Ok(files) = std::fs::read_dir("/proc/self/fdinfo") else {
        return 0;
    };
    let mut maps = HashMap::new();
    for file in files.flatten() {
        let text = std::fs::read_to_string(file.path()).unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|n| n.trim().parse::<u64>().ok())
        };
        if let (Some(id), Some(bytes)) = (field("map_id:"), field("memlock:")) {
            maps.insert(id, bytes);
        }
    }
    maps.values().sum()
}
