//! The agent's figures of itself.

use std::collections::HashMap;

use quell_agent::metric_families::{MetricFamily, SeriesValue};
use quell_agent::push;
use quell_agent::totals::HostTotals;

use crate::agent::recorder;
use crate::clock::{boottime_ns, own_cpu_ns, wall_ns};

/// State of the agent itself, of which its own figures are made.
#[derive(Debug, Default)]
pub(crate) struct AgentState {
    /// The agent's start, ns since 1970.
    pub(crate) started_ns: u64,
    pub(crate) backend: &'static str,
    pub(crate) looks: u64,
    /// Duration of all looks, ns.
    pub(crate) look_ns: u64,
    pub(crate) renewals: u64,
    pub(crate) failed_renewals: u64,
    /// Memory of the probe's tables in the kernel, bytes.
    pub(crate) probe_bytes: u64,
    /// The machine's start, ns since 1970.
    pub(crate) boot_ns: u64,
    /// Scrapes that were answered, and requests that were refused.
    pub(crate) scrapes: (u64, u64),
    pub(crate) pushes: Vec<(&'static str, push::PushCounts)>,
    /// `None` where no rule begins traces.
    pub(crate) traces: Option<recorder::RecordingCounts>,
    /// Number of series in the figures before these.
    pub(crate) series: u64,
    pub(crate) left_out: u64,
}

impl AgentState {
    /// Adds the families, with the probe's losses.
    pub(super) fn add_families(
        &self,
        totals: &HostTotals,
        guarded: Option<&HostTotals>,
        all: &mut Vec<MetricFamily>,
    ) {
        let own = self;
        let mut info = MetricFamily::new(
            "quell_agent_info",
            "The agent's version, and how it sees shootdowns.",
        );
        info.push(
            &[
                ("version", env!("CARGO_PKG_VERSION")),
                ("backend", own.backend),
            ],
            SeriesValue::Gauge(1),
        );
        all.push(info);
        let mut one = |name, help, value| all.push(MetricFamily::with_value(name, help, value));
        one(
            "quell_agent_cpu_seconds",
            "CPU time that the agent has used, without its probe in the kernel.",
            SeriesValue::Nanos(own_cpu_ns()),
        );
        if let Some(bytes) = resident_bytes() {
            one(
                "quell_agent_resident_bytes",
                "Memory that the agent has.",
                SeriesValue::Gauge(bytes),
            );
        }
        one(
            "quell_agent_probe_bytes",
            "Memory of the probe's tables in the kernel.",
            SeriesValue::Gauge(own.probe_bytes),
        );
        one(
            "quell_agent_looks",
            "How often it was counted.",
            SeriesValue::Count(own.looks),
        );
        one(
            "quell_agent_look_seconds",
            "How long that took, with what waited for a CPU.",
            SeriesValue::Nanos(own.look_ns),
        );
        one(
            "quell_agent_renewals",
            "How often the probe was attached anew, as its tables were full.",
            SeriesValue::Count(own.renewals),
        );
        one(
            "quell_agent_failed_renewals",
            "How often that failed, and the full tables went on.",
            SeriesValue::Count(own.failed_renewals),
        );
        one(
            "quell_agent_scrapes",
            "Scrapes that were answered.",
            SeriesValue::Count(own.scrapes.0),
        );
        one(
            "quell_agent_refused_requests",
            "Requests that were refused or not understood.",
            SeriesValue::Count(own.scrapes.1),
        );
        one(
            "quell_agent_series",
            "Series that were told the last time.",
            SeriesValue::Gauge(own.series),
        );
        one(
            "quell_agent_series_left_out",
            "Series that found no room the last time.",
            SeriesValue::Gauge(own.left_out),
        );
        let mut pushes = MetricFamily::new(
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
                pushes.push(&[("to", to), ("result", result)], SeriesValue::Count(n));
            }
        }
        all.push(pushes);
        if let Some(traces) = &own.traces {
            let mut results = MetricFamily::new(
                "quell_agent_traces",
                "Traces that a rule asked for, by what came of them.",
            );
            for ((rule, result), n) in &traces.results {
                results.push(
                    &[("rule", rule), ("result", result)],
                    SeriesValue::Count(*n),
                );
            }
            all.push(results);
            all.push(MetricFamily::with_value(
                "quell_agent_traces_removed",
                "Old traces that gave way to new ones.",
                SeriesValue::Count(traces.removed),
            ));
            all.push(MetricFamily::with_value(
                "quell_agent_traces_bytes",
                "What the traces take that are kept.",
                SeriesValue::Gauge(traces.bytes),
            ));
        }
        let mut lost = MetricFamily::new(
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
            // Hits on guarded CPUs that found no room in the tables of their own probe.
            ("isolated", guarded.map_or(0, |hits| hits.lost.crowded)),
            ("samples", totals.lost_samples),
            ("sleeps", totals.lost_sleeps),
        ];
        for (kind, n) in kinds {
            lost.push(&[("missing", kind)], SeriesValue::Count(n));
        }
        all.push(lost);
    }
}

/// Memory that this process has, bytes: the second figure of statm, in pages (proc_pid_statm(5)). `None` where it can't be read.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// The machine's start, ns since 1970, by the clocks as they are now.
pub(crate) fn boot_ns() -> u64 {
    wall_ns().saturating_sub(boottime_ns())
}

/// Memory of this process's BPF maps in the kernel, bytes, as fdinfo has it (Documentation/filesystems/proc.rst;
/// kernel/bpf/syscall.c: bpf_map_show_fdinfo()). A map that is open twice counts once.
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
