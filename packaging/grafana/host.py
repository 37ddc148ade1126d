"""The dashboard of hosts that run `quell agent`: one list of panels, each with its queries for both servers."""

from __future__ import annotations

from typing import Any

from grafana import TYPES, column, dashboard, heatmap, influx, lines, prometheus, row, table, variables
from queries import WHERE, distribution, now, percentiles, rate, whole

# Events of /proc/vmstat that belong together, and what to do about them.
EVENTS = [
    (
        "Reclaim",
        "allocstall_.*|pgscan_.*|pgsteal_.*|pgdemote_.*|oom_kill|balloon_.*",
        "Pages that the kernel looked at and took back (scan, steal), moved to slower memory (demote), and allocations that had to "
        "wait for it (allocstall). Allocstall and direct above 0 mean that programs wait for memory: give them more, or raise "
        "vm.min_free_kbytes and vm.watermark_scale_factor (quell doctor).",
    ),
    (
        "Migration and NUMA balancing",
        "pgmigrate_.*|pgpromote_.*|numa_.*",
        "Pages that were moved, and those that NUMA balancing made unreadable to see who uses them (pte_updates). Each costs "
        "shootdowns of the cause migrate: for programs that are bound to a node, switch off kernel.numa_balancing.",
    ),
    (
        "Compaction",
        "compact_.*",
        "How often the kernel moved pages to make free blocks. compact_stall is a program that waited for it: look at the "
        "setting of transparent huge pages (defrag) and vm.compaction_proactiveness.",
    ),
    (
        "Transparent huge pages",
        "thp_.*",
        "Huge pages that were made at a fault, by khugepaged (collapse), and split. Collapses and splits cause shootdowns of the "
        "causes thp.collapse and thp.split: quell doctor tells by which setting.",
    ),
    (
        "Swap and same-page merging",
        "pswp.*|ksm_.*|cow_ksm",
        "Pages that went to swap and came back, and copies of pages that KSM had merged. A page that comes back from swap "
        "stalls its program for a read of the disk: lock it (mlock), or give the machine more memory.",
    ),
    (
        "LUF",
        "luf_.*",
        "What the kernel's LUF (kernel/luf) defers and forces, where it has it; else nothing. Many forced flushes mean that little "
        "is saved: see the series' own documentation.",
    ),
]


def _events(title: str, text: str, name: str, by: str) -> tuple[Any, ...]:
    """How many there are a second, stacked by a label."""
    return (lines, title, text, rate(name, [by]), {"unit": "ops", "stacked": True})


def _seconds(title: str, text: str, name: str, by: str) -> tuple[Any, ...]:
    """How many seconds each second, stacked by a label."""
    return (lines, title, text, rate(name, [by], "ns"), {"unit": "s", "stacked": True})


def _shootdowns() -> list[tuple[Any, ...]]:
    return [
        (
            heatmap,
            "Hosts by their rate of shootdowns",
            "One row a host; the darker, the more shootdowns a second. A row that turns dark is a host to choose above, and to "
            "look at by cause below.",
            rate("shootdowns", ["host"]),
            {"cell": "ops", "width": 24},
        ),
        _events(
            "Shootdowns by cause",
            "Requests to flush other CPUs, a second, stacked. The cause says what to do: docs/causes.md says what each is, and "
            "quell record with quell report -- on that host -- from which code it comes; quell prove what a remedy would change.",
            "shootdowns",
            "cause",
        ),
        _events(
            "Victims by cause",
            "CPUs that were interrupted, a second, stacked. Divided by the shootdowns it is how many CPUs each hits: a process of "
            "many threads, or one whose threads move among CPUs. Bind its threads, or split it into processes.",
            "victims",
            "cause",
        ),
        _events(
            "Hits on isolated CPUs by cause",
            "Interruptions a second of CPUs that the kernel isolates; nothing where there are none. Each is a stall of what "
            "should not be disturbed: find the process with quell top --cpu, and let it free memory elsewhere or not at all.",
            "isolated_cpu_victims",
            "cause",
        ),
        _events(
            "Victims that had nothing to do with it",
            "Victims a second, by whether what ran there used the memory that was flushed (bystander false) or not (true). Many "
            "bystanders: kernel threads or lazy switches keep an address space loaded; keep culprits off these CPUs.",
            "victim_hits",
            "bystander",
        ),
        (
            lines,
            "Whole address spaces, pages, empty sends",
            "Shootdowns a second that flushed everything, pages that the others flushed, and flushes that found no other CPU to "
            "interrupt. Full flushes cost TLB misses afterwards: free in pieces of at most 33 pages, or in huge pages.",
            rate("full_flushes", [], label="whole address space")
            + rate("flushed_pages", [], label="pages")
            + rate("empty_sends", [], label="nobody to interrupt"),
            {"unit": "ops"},
        ),
        (
            lines,
            "TLB interrupts, as the kernel counts them",
            "TLB: of /proc/interrupts, a second, by host. It should go with the victims; far more than those means that the agent "
            "misses some: look at its lost events below.",
            rate("tlb_interrupts", ["host"]),
            {"unit": "ops"},
        ),
    ]


def _times() -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for name, title, what, next_ in (
        ("wait", "Waits of culprits", "from the first request until the last victim is done",
         "p99 far above p50 means that a victim answers late: see the delays."),
        ("delay", "Delays of victims", "from the request until the victim's handler starts",
         "Long ones are CPUs with interrupts off, idle in a deep state, or a hypervisor that has taken the CPU: quell doctor "
         "lists the settings."),
        ("stall", "Stalls of victims", "time in the victim's handler",
         "Long ones flush whole address spaces or many pages; see how many above."),
    ):
        found += [
            (
                heatmap,
                title,
                f"How many of them ({what}) lay in each step of time; colour is the number in an interval. {next_}",
                distribution(name),
                {"row": "s", "height": 9},
            ),
            (
                lines,
                f"{title}: percentiles",
                f"What 50, 99 and 99.9 % of them ({what}) did not exceed, in seconds. With InfluxDB it is the worst host's, "
                f"and 0 where there were none. {next_}",
                percentiles(name),
                {"unit": "s", "height": 9},
            ),
        ]
    found += [
        _seconds(
            "Time that culprits waited, by cause",
            "Seconds waited each second, stacked: 0.01 is 1 % of one CPU. This is system time of the culprit; the largest cause is "
            "the first to get a remedy (quell plan).",
            "wait_seconds",
            "cause",
        ),
        _seconds(
            "Time in victims' handlers, by cause",
            "Seconds of stall each second, stacked: 0.01 is 1 % of one CPU, taken from whoever ran there. The TLB misses "
            "afterwards are not in it.",
            "stall_seconds",
            "cause",
        ),
    ]
    return found


def _memory() -> list[tuple[Any, ...]]:
    by = ["cgroup", "pod", "container"]
    bar = {"custom_cellOptions": {"type": "gauge", "mode": "gradient"}}
    return [
        _seconds(
            "CPU time in memory management, by mechanism",
            "Seconds of CPU time each second, stacked, by 49 samples a second on each CPU: 0.01 is 1 % of one CPU, and an estimate. "
            "docs/mechanisms.md says what each is; quell stat -a on that host, which function has it done.",
            "memory_cpu_seconds",
            "mechanism",
        ),
        _seconds(
            "Time that threads slept for memory management, by mechanism",
            "Seconds of sleep each second, stacked: 1 is one thread that never runs. lock.mmap is threads of a process in each other's "
            "way, fault.major a disk, reclaim.direct too little memory; quell stat -a tells who holds a lock.",
            "memory_blocked_seconds",
            "mechanism",
        ),
        (
            table,
            "Cgroups and pods by time in memory management",
            "Seconds of CPU time over the chosen time, and of sleep, of the ten cgroups with most. Look into the first with quell stat, "
            "and prove what a change gains with quell prove.",
            whole("cgroup_memory_cpu_seconds", by, "CPU time", "ns") + whole("cgroup_memory_blocked_seconds", by, "blocked", "ns"),
            {
                "columns": ("CPU time", "blocked"),
                "overrides": [column("CPU time", unit="s", **bar), column("blocked", unit="s")],
                "width": 24,
            },
        ),
    ]


def _groups() -> list[tuple[Any, ...]]:
    by = ["cgroup", "pod", "container"]
    bar = {"custom_cellOptions": {"type": "gauge", "mode": "gradient"}}
    return [
        (
            table,
            "Cgroups and pods that shoot",
            "Shootdowns over the chosen time, and the seconds that their culprits waited, of the ten cgroups with most. `other` is "
            "all without a name of their own. Look into the first with quell record and quell plan.",
            whole("cgroup_shootdowns", by, "shootdowns") + whole("cgroup_wait_seconds", by, "waited", "ns"),
            {"columns": ("shootdowns", "waited"), "overrides": [column("shootdowns", **bar), column("waited", unit="s")]},
        ),
        (
            table,
            "Cgroups and pods that are hit",
            "Victims over the chosen time by the cgroup that ran there, and the seconds of their stalls. Who is hit and does not "
            "shoot has a noisy neighbour: give it CPUs of its own, or the neighbour a remedy.",
            whole("cgroup_hits", by, "hits") + whole("cgroup_stall_seconds", by, "stalled", "ns"),
            {"columns": ("hits", "stalled"), "overrides": [column("hits", **bar), column("stalled", unit="s")]},
        ),
    ]


def _vm() -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = [
        (
            lines,
            "Page faults by kind",
            "Faults of the machine a second: minor ones take microseconds, major ones wait for a disk. Many minor faults beside "
            "shootdowns of madvise or munmap are memory that is given back and taken again: let the allocator keep it (quell plan).",
            rate("page_faults", ["kind"]),
            {"unit": "ops"},
        )
    ]
    for title, events, about in EVENTS:
        what = rate("vm_events", ["event"], tag="event", values=events)
        found.append((lines, title, f"A second, of /proc/vmstat. {about}", what, {"unit": "ops"}))
    return found


def _hazards(plugin: str) -> dict[str, Any]:
    about = (
        "What quell doctor finds on each host that will stall a program, by rule and severity. On the host, quell doctor --rule RULE "
        "says why and how to mend it. "
    )
    colours = {"high": "red", "medium": "orange", "low": "yellow", "info": "blue"}
    mapped = [{"type": "value", "options": {k: {"text": k, "color": c, "index": i} for i, (k, c) in enumerate(colours.items())}}]
    severity = column("severity", mappings=mapped, custom_cellOptions={"type": "color-text"})
    found = now("hazard", ["host", "rule", "severity"])
    if plugin == "prometheus":
        targets = [prometheus(found.prometheus[0]["expr"], "", "table")]
        names, hide, when = {"instance": "host", "rule": "rule", "severity": "severity"}, ["Time", "Value"], "As it is now."
    else:
        query = f'SELECT last("now") AS "there" FROM "quell_hazard" WHERE {WHERE % ""} GROUP BY "host", "rule", "severity"'
        targets = [influx(query, "", "table")]
        names, hide = {"host": "host", "rule": "rule", "severity": "severity", "Time": "last seen"}, ["there"]
        when = "One that is mended is not seen again, and goes from the table with the chosen time."
    options = {"names": names, "hide": hide, "overrides": [severity], "width": 24}
    return table("What quell doctor finds", about + when, targets, **options)


def _own() -> list[tuple[Any, ...]]:
    return [
        (
            lines,
            "The agent's share of a CPU",
            "CPU time of the agent itself, as a share of one CPU, by host. What its probe takes in the kernel is not in it "
            "(docs/overhead.md). More than 1 %: raise its interval.",
            rate("agent_cpu_seconds", ["host"], "ns"),
            {"unit": "percentunit", "width": 8},
        ),
        (
            lines,
            "The agent's memory",
            "Memory of the agent, bytes, by host. It stays as it is; one that grows for days is a defect to report.",
            now("agent_resident_bytes", ["host"]),
            {"unit": "bytes", "width": 8},
        ),
        (
            lines,
            "Series that the agent tells",
            "Series of the fullest host, and those that found no room among its 2,000. Left out ones are those of the last "
            "families in docs/agent.md.",
            now("agent_series", [], "told") + now("agent_series_left_out", [], "left out"),
            {"width": 8},
        ),
        (
            lines,
            "Lost events",
            "What the probe could not count apart or time, a second, by what is missing (docs/agent.md). `untimed` is normal at high "
            "rates; with `unseen` or `crowded` counts by cause or cgroup are too small.",
            rate("lost_events", ["missing"]),
            {"unit": "ops", "width": 8},
        ),
        (
            lines,
            "Pushes by result",
            "Pushes to InfluxDB and OpenTelemetry, a second, by result. Failed or dropped ones are a server that is away, slow or "
            "refuses: the agent's log has the reason, once. No counts are lost by it, only the times between.",
            rate("agent_pushes", ["to", "result"]),
            {"unit": "ops", "width": 8},
        ),
        (
            lines,
            "Traces by rule and result",
            "Traces that rules asked for, a second; nothing where none is configured. quell agent traces lists those that were "
            "kept, quell report explains one; `no_room` is a disk that is too full.",
            rate("agent_traces", ["rule", "result"]),
            {"unit": "ops", "width": 8},
        ),
        (
            lines,
            "Looks and renewals",
            "How often the agent counted, a second, by host, and how often it attached its probe anew. A host whose looks stop "
            "has no agent any more.",
            rate("agent_looks", ["host"]) + rate("agent_renewals", [], label="renewals"),
            {"unit": "ops", "width": 8},
        ),
        (
            lines,
            "Scrapes and refused requests",
            "Requests a second that were answered, and refused ones: a wrong token, no TLS, or somebody who tries. A scraper "
            "that is refused needs the token of docs/agent.md.",
            rate("agent_scrapes", [], label="answered") + rate("agent_refused_requests", [], label="refused"),
            {"unit": "ops", "width": 8},
        ),
        (
            lines,
            "Rules of quell doctor that can't tell",
            "How many rules lack a right or a file, by host. quell doctor on that host says which right is missing.",
            now("unknown_rules", ["host"]),
            {"width": 8},
        ),
    ]


def made(plugin: str) -> dict[str, Any]:
    def panels(which: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
        done = []
        for kind, title, about, both, more in which:
            more = dict(more)
            columns = more.pop("columns", None)
            targets = getattr(both, plugin)
            if columns:
                # what a table calls the value of its first and second query
                values = ("Value #A", "Value #B") if plugin == "prometheus" else columns
                more["names"] = {"cgroup": "cgroup", "pod": "pod", "container": "container"} | dict(zip(values, columns))
                more |= {"hide": ["Time"], "sort": columns[0], "top": 10}
            done.append(kind(title, about, targets, **more))
        return done

    query = {
        "prometheus": "label_values(quell_agent_info, instance)",
        "influxdb": 'SHOW TAG VALUES FROM "quell_agent_info" WITH KEY = "host"',
    }[plugin]
    about = {"prometheus": "scraped by Prometheus", "influxdb": "pushed to InfluxDB (InfluxQL)"}[plugin]
    whose = "Where the figures of quell agent are"
    content = [row("Shootdowns"), *panels(_shootdowns()), row("Waits, delays and stalls"), *panels(_times())]
    content += [row("Time in memory management"), *panels(_memory())]
    content += [row("Cgroups and pods"), *panels(_groups()), row("Page faults and what the kernel does with memory"), *panels(_vm())]
    content += [row("Hazards"), _hazards(plugin), row("The agent itself"), *panels(_own())]
    return dashboard(
        f"quell-{plugin}",
        f"quell: hosts ({TYPES[plugin]})",
        f"TLB shootdowns of hosts that run quell agent, {about}: who asks, why, who is hit, and for how long.",
        plugin,
        content,
        variables=variables(plugin, "host", "Host", query, whose),
    )
