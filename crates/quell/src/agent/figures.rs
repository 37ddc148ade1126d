//! Composes the families of figures from counts and from /proc.

use std::collections::HashMap;
use std::path::Path;

use quell_agent::cgroup_names::CgroupName;
use quell_agent::metric_families::{
    HostFigures, MAX_SERIES, MetricFamily, SeriesValue, TimeDistribution,
};
use quell_agent::named_cgroups::CgroupTotals;
use quell_agent::totals::HostTotals;
use quell_doctor::{FindingStatus, HarmEvidence, SystemView, WorkloadProfile, audit_system};
use quell_event::{Cause, Mechanism};
use quell_host::{interrupts, vmstat};

use crate::agent::own::AgentState;
use crate::clock::wall_ns;

/// Counters of the kernel, by their names in /proc/vmstat, that explain shootdowns and stalls; those of LUF are added where they
/// exist.
const VMSTAT_EVENTS: [&str; 34] = [
    "allocstall_dma32",
    "allocstall_movable",
    "allocstall_normal",
    "balloon_deflate",
    "balloon_inflate",
    "compact_daemon_wake",
    "compact_fail",
    "compact_stall",
    "compact_success",
    "cow_ksm",
    "ksm_swpin_copy",
    "numa_hint_faults",
    "numa_pages_migrated",
    "numa_pte_updates",
    "oom_kill",
    "pgdemote_direct",
    "pgdemote_khugepaged",
    "pgdemote_kswapd",
    "pgmigrate_fail",
    "pgmigrate_success",
    "pgpromote_success",
    "pgscan_direct",
    "pgscan_kswapd",
    "pgsteal_direct",
    "pgsteal_kswapd",
    "pswpin",
    "pswpout",
    "thp_collapse_alloc",
    "thp_fault_alloc",
    "thp_fault_fallback",
    "thp_migration_success",
    "thp_split_page",
    "thp_split_pmd",
    "thp_zero_page_alloc",
];

/// A hazard that the doctor found: its rule and severity.
pub(crate) type HazardLabels = (&'static str, &'static str);

/// All hazards of this machine, and the number of rules that could not tell.
pub(crate) fn find_hazards() -> (Vec<HazardLabels>, u64) {
    let evidence = HarmEvidence::default();
    let look = SystemView::new(Path::new("/"), None, WorkloadProfile::default(), &evidence);
    let findings = audit_system(&look, |_| true);
    let unknown = findings
        .iter()
        .filter(|f| f.status == FindingStatus::Unknown)
        .count() as u64;
    let hazards = findings
        .iter()
        .filter(|f| f.status == FindingStatus::Hazard);
    (
        hazards.map(|f| (f.rule, f.severity.name())).collect(),
        unknown,
    )
}

/// The state of the host and of the agent at one time, of which figures are made.
pub(crate) struct HostState<'a> {
    pub(crate) totals: &'a HostTotals,
    /// Counts of guarded CPUs; `None` where there are none.
    pub(crate) guarded: Option<&'a HostTotals>,
    pub(crate) hazards: &'a [HazardLabels],
    pub(crate) unknown_rules: u64,
    pub(crate) own: &'a AgentState,
}

impl HostState<'_> {
    /// The figures: the agent's own first, then the others by how often they are asked for, since the last give way.
    pub(crate) fn compose_figures(&self, names: &HashMap<u64, CgroupName>) -> HostFigures {
        let mut figures = HostFigures {
            t_ns: wall_ns(),
            started_ns: self.own.started_ns,
            families: Vec::new(),
            left_out: 0,
        };
        let all = &mut figures.families;
        self.own.add_families(self.totals, self.guarded, all);
        self.add_memory_families(all);
        self.add_shootdown_families(all);
        self.add_guarded_families(all);
        self.add_vmstat_families(all);
        self.add_hazard_families(all);
        self.add_cgroup_families(all, names);
        figures.families.retain(|f| !f.series.is_empty());
        figures.leave_out_beyond(MAX_SERIES);
        figures
    }

    fn add_memory_families(&self, all: &mut Vec<MetricFamily>) {
        let Some(memory) = &self.totals.memory else {
            return;
        };
        let mut times = MetricFamily::new(
            "quell_memory_cpu_seconds",
            "CPU time in memory management, by mechanism: estimated by samples.",
        );
        let mut blocked = MetricFamily::new(
            "quell_memory_blocked_seconds",
            "Time that threads slept because memory management made them, by mechanism.",
        );
        // All mechanisms are there from the start, but for the one that no sample can be of.
        let sampled = Mechanism::ALL
            .into_iter()
            .filter(|m| *m != Mechanism::ShootdownHit);
        for mechanism in sampled {
            let labels = [("mechanism", mechanism.name())];
            let of = memory.get(&mechanism).copied().unwrap_or_default();
            times.push(&labels, SeriesValue::Nanos(of.cpu_ns));
            if self.totals.sees_sleeps {
                blocked.push(&labels, SeriesValue::Nanos(of.blocked_ns));
            }
        }
        all.extend([times, blocked]);
    }

    fn add_shootdown_families(&self, all: &mut Vec<MetricFamily>) {
        let totals = self.totals;
        let mut shootdowns = MetricFamily::new("quell_shootdowns", "Shootdowns, by cause.");
        let mut victims = MetricFamily::new(
            "quell_victims",
            "CPUs that were interrupted for a shootdown, by its cause.",
        );
        let mut waits =
            MetricFamily::new("quell_wait_seconds", "Time that culprits waited, by cause.");
        let mut stalls = MetricFamily::new(
            "quell_stall_seconds",
            "Time in victims' handlers, by cause.",
        );
        // All causes are there from the start: to a server the first value of a new counter is no growth.
        for cause in Cause::ALL {
            let labels = [("cause", cause.name())];
            let counts = totals.cause_counts(cause);
            shootdowns.push(&labels, SeriesValue::Count(counts.shootdowns));
            victims.push(&labels, SeriesValue::Count(counts.victims));
            waits.push(&labels, SeriesValue::Nanos(counts.wait_ns));
            stalls.push(&labels, SeriesValue::Nanos(counts.stall_ns));
        }
        all.extend([shootdowns, victims, waits, stalls]);
        if let Ok(Some(n)) = interrupts::read_flush_interrupts(Path::new("/")) {
            let family = MetricFamily::with_value(
                "quell_tlb_interrupts",
                "The kernel's own count, TLB: of /proc/interrupts, since boot.",
                SeriesValue::Count(n),
            );
            all.push(family.counted_since(self.own.boot_ns));
        }
        let mut bystanders = MetricFamily::new(
            "quell_victim_hits",
            "Victims, by whether the flush had nothing to do with what ran there.",
        );
        let hits = [("false", totals.involved), ("true", totals.bystanders)];
        for (is, hits) in hits {
            bystanders.push(&[("bystander", is)], SeriesValue::Count(hits.hits));
        }
        all.push(bystanders);
        let sum = totals.all_causes();
        let one = |name, help, n| MetricFamily::with_value(name, help, SeriesValue::Count(n));
        all.push(one(
            "quell_full_flushes",
            "Shootdowns that flushed a whole address space.",
            sum.full,
        ));
        all.push(one(
            "quell_flushed_pages",
            "Pages that the others flushed.",
            sum.pages,
        ));
        all.push(one(
            "quell_empty_sends",
            "Flushes that found no other CPU to interrupt.",
            totals.empty_sends,
        ));
        let last = &totals.last_interval;
        let times = [
            (
                "quell_wait_distribution_seconds",
                "Culprits' waits: from queueing the first request until the last victim is done.",
                &totals.wait,
                &last[0],
            ),
            (
                "quell_delay_distribution_seconds",
                "Victims' delays: from queueing until the handler starts.",
                &totals.delay,
                &last[1],
            ),
            (
                "quell_stall_distribution_seconds",
                "Victims' stalls: time in the handler.",
                &totals.stall,
                &last[2],
            ),
        ];
        for (name, help, hist, last) in times {
            all.push(MetricFamily::with_value(
                name,
                help,
                SeriesValue::Distribution(Box::new(TimeDistribution::new(hist, last))),
            ));
        }
    }

    fn add_guarded_families(&self, all: &mut Vec<MetricFamily>) {
        let Some(guarded) = self.guarded else {
            return;
        };
        let mut hits = MetricFamily::new(
            "quell_isolated_cpu_victims",
            "Interruptions of CPUs that nobody should disturb, by cause.",
        );
        for cause in Cause::ALL {
            let labels = [("cause", cause.name())];
            hits.push(
                &labels,
                SeriesValue::Count(guarded.cause_counts(cause).victims),
            );
        }
        all.push(hits);
    }

    fn add_vmstat_families(&self, all: &mut Vec<MetricFamily>) {
        let Ok(counters) = vmstat::read_vmstat(Path::new("/")) else {
            return;
        };
        let get = |name: &str| counters.get(name).copied();
        if let (Some(every), Some(major)) = (get("pgfault"), get("pgmajfault")) {
            let mut faults = MetricFamily::new(
                "quell_page_faults",
                "Page faults of the machine since boot.",
            );
            faults.push(
                &[("kind", "minor")],
                SeriesValue::Count(every.saturating_sub(major)),
            );
            faults.push(&[("kind", "major")], SeriesValue::Count(major));
            all.push(faults.counted_since(self.own.boot_ns));
        }
        let mut events = MetricFamily::new(
            "quell_vm_events",
            "Counters of /proc/vmstat since boot that explain shootdowns and stalls.",
        );
        let mut names: Vec<&str> = VMSTAT_EVENTS.to_vec();
        names.extend(
            counters
                .keys()
                .map(String::as_str)
                .filter(|name| name.starts_with("luf_")),
        );
        names.sort_unstable();
        for name in names {
            if let Some(n) = get(name) {
                events.push(&[("event", name)], SeriesValue::Count(n));
            }
        }
        all.push(events.counted_since(self.own.boot_ns));
    }

    fn add_hazard_families(&self, all: &mut Vec<MetricFamily>) {
        let mut hazards = MetricFamily::new(
            "quell_hazard",
            "1: quell doctor's rule finds what will stall a program.",
        );
        for (rule, severity) in self.hazards {
            hazards.push(
                &[("rule", rule), ("severity", severity)],
                SeriesValue::Gauge(1),
            );
        }
        all.push(hazards);
        all.push(MetricFamily::with_value(
            "quell_unknown_rules",
            "Rules of quell doctor that could not tell.",
            SeriesValue::Gauge(self.unknown_rules),
        ));
    }

    fn add_cgroup_families(&self, all: &mut Vec<MetricFamily>, names: &HashMap<u64, CgroupName>) {
        let mut seats: Vec<_> = self.totals.cgroups.named().collect();
        seats.sort_unstable_by_key(|(id, _)| *id);
        let ids: Vec<u64> = seats.iter().map(|(id, _)| *id).collect();
        let named = cgroup_labels(&ids, names);
        let none = ["other".to_owned(), String::new(), String::new()];
        let mut families = [
            MetricFamily::new(
                "quell_cgroup_shootdowns",
                "Shootdowns by the culprit's cgroup: the busiest 20, and other.",
            ),
            MetricFamily::new(
                "quell_cgroup_wait_seconds",
                "Time that culprits waited, by cgroup.",
            ),
            MetricFamily::new("quell_cgroup_hits", "Victims by the cgroup that ran there."),
            MetricFamily::new(
                "quell_cgroup_stall_seconds",
                "Time in victims' handlers, by the cgroup that ran there.",
            ),
            MetricFamily::new(
                "quell_cgroup_memory_cpu_seconds",
                "CPU time in memory management, by cgroup: estimated by samples.",
            ),
            MetricFamily::new(
                "quell_cgroup_memory_blocked_seconds",
                "Time that threads slept because memory management made them, by cgroup.",
            ),
        ];
        let groups = named.iter().zip(seats.iter().map(|(_, group)| *group));
        for ([cgroup, container, pod], group) in
            groups.chain([(&none, self.totals.cgroups.unnamed())])
        {
            let mut labels = vec![("cgroup", cgroup.as_str())];
            // An empty label is the same as none.
            labels.extend(
                [("container", container.as_str()), ("pod", pod.as_str())]
                    .into_iter()
                    .filter(|(_, v)| !v.is_empty()),
            );
            for (family, value) in families.iter_mut().zip(cgroup_values(group)) {
                family.push(&labels, value);
                if let Some(series) = family.series.last_mut() {
                    series.since_ns = group.since_ns;
                }
            }
        }
        // The last two are of the account: they are left out where nobody looks, since 0 would be a figure.
        let [.., cpu, blocked] = &mut families;
        if self.totals.memory.is_none() {
            cpu.series.clear();
        }
        if !self.totals.sees_sleeps {
            blocked.series.clear();
        }
        all.extend(families);
    }
}

/// The values of a cgroup, in the order of the families of [`HostState::add_cgroup_families`].
fn cgroup_values(group: &CgroupTotals) -> [SeriesValue; 6] {
    [
        SeriesValue::Count(group.culprit.shootdowns),
        SeriesValue::Nanos(group.culprit.wait_ns),
        SeriesValue::Count(group.victim.hits),
        SeriesValue::Nanos(group.victim.stall_ns),
        SeriesValue::Nanos(group.memory.cpu_ns),
        SeriesValue::Nanos(group.memory.blocked_ns),
    ]
}

/// The labels of cgroups, which all differ after [`quell_agent::named_cgroups::NamedCgroups::merge_same_names`]. A cgroup without
/// a known name is labelled by its number.
fn cgroup_labels(ids: &[u64], names: &HashMap<u64, CgroupName>) -> Vec<[String; 3]> {
    let label = |id: &u64| {
        let name = names.get(id).cloned().unwrap_or_default();
        let cgroup = if name.path.is_empty() {
            format!("id {id}")
        } else {
            name.path
        };
        [cgroup, name.container, name.pod]
    };
    ids.iter().map(label).collect()
}

#[cfg(test)]
mod tests {
    use quell_event::{
        CgroupCost, CulpritTally, ShootdownCounts, Tally, VictimTally, WatchInterval,
    };

    use super::*;

    /// Check that ten thousand cgroups, each by every cause, with every push, rule and loss there is, stay below the most
    /// series, that nothing was left out for it, and that no label is a process, an address or a stack.
    #[test]
    fn a_host_has_few_series() {
        let culprit = |n: u64| CulpritTally {
            pid: 0,
            comm: String::new(),
            cgroup: n,
            cause: Cause::ALL[n as usize % Cause::ALL.len()],
            detail: None,
            counts: ShootdownCounts {
                shootdowns: 1 + n,
                victims: 1,
                ..ShootdownCounts::default()
            },
        };
        let victim = |n: u64| VictimTally {
            pid: 0,
            comm: String::new(),
            cgroup: n,
            bystander: n.is_multiple_of(2),
            hits: 1,
            stall_ns: 1,
        };
        let tally = Tally {
            culprits: (1..=10_000).map(culprit).collect(),
            victims: (1..=10_000).map(victim).collect(),
            ..Tally::default()
        };
        let row = |n: u64| CgroupCost {
            cgroup: n,
            mechanism: Mechanism::ALL[n as usize % Mechanism::ALL.len()],
            samples: 1,
            sleeps: 1,
            blocked_ns: 1,
        };
        let watched = WatchInterval {
            period_ns: 1,
            sees_sleeps: true,
            rows: (1..=10_000).map(row).collect(),
            ..WatchInterval::default()
        };
        let mut totals = HostTotals::default();
        for _ in 0..100 {
            totals.add(&tally, Some(&watched), 1);
        }
        let results = ["kept", "failed", "busy", "no_room"];
        let results =
            (0..10).flat_map(|n| results.map(|result| ((format!("rule-{n}"), result), 1)));
        let own = AgentState {
            pushes: vec![("influx", Default::default()), ("otlp", Default::default())],
            traces: Some(crate::agent::recorder::RecordingCounts {
                results: results.collect(),
                ..Default::default()
            }),
            ..AgentState::default()
        };
        let hazards: Vec<HazardLabels> = vec![("RULE", "high"); 100];
        let host = HostState {
            totals: &totals,
            guarded: Some(&totals),
            hazards: &hazards,
            unknown_rules: 0,
            own: &own,
        };
        let figures = host.compose_figures(&HashMap::new());
        assert!(
            figures.series_count() <= MAX_SERIES && figures.left_out == 0,
            "{}",
            figures.series_count()
        );
        let causes = figures
            .families
            .iter()
            .find(|f| f.name == "quell_shootdowns");
        assert_eq!(causes.map(|f| f.series.len()), Some(Cause::ALL.len()));
        let labels = figures
            .families
            .iter()
            .flat_map(|f| &f.series)
            .flat_map(|s| &s.labels);
        let known = [
            "backend",
            "bystander",
            "cause",
            "cgroup",
            "container",
            "event",
            "kind",
            "mechanism",
            "missing",
            "pod",
            "result",
            "rule",
            "severity",
            "to",
            "version",
        ];
        for (label, _) in labels {
            assert!(known.contains(label), "{label}");
        }
    }
}
