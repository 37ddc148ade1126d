"""Opens exports of a trace with their real readers, and compares what they find with quell's report.

    readers.py QUELL TRACE FOLDER [GO]

FOLDER takes the exports. GO is the go command, for `go tool pprof`. Prints a line for each format;
ends with 1 at the first thing that is not as it should be.
"""

import json
import os
import subprocess
import sys

import duckdb
from google.protobuf import unknown_fields
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto

QUELL, TRACE, FOLDER = sys.argv[1:4]
GO = sys.argv[4] if len(sys.argv) > 4 else None
CULPRIT, VICTIM = "waits as culprit", "stalls as victim"
# the track of a thread, and the one below it
WAITS, HOLDS = "waits", "others wait for it"


def quell(*args):
    return subprocess.run([QUELL, "report", TRACE, *args], check=True, stdout=subprocess.PIPE).stdout


def export(form, *args):
    """Writes one export, and returns its path."""
    path = os.path.join(FOLDER, "-".join(["trace", *(a for a in args if a[0] != "-")]) + "." + form)
    quell("--export", form, "-o", path, *args)
    return path


def same(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: found {str(found)[:300]}, expected {str(expected)[:300]}")


def parquet():
    """The trace itself, by the query that docs/exports.md shows."""
    rows = duckdb.sql(
        f"""select count(*) filter (where victim_index = 0), count(*),
            coalesce(sum(wait_ns) filter (where victim_index = 0), 0)::bigint,
            coalesce(sum(stall_ns), 0)::bigint,
            count(*) filter (where victim_cpu <> 65535), count(distinct cpu)
            from '{TRACE}/events-*.parquet'"""
    ).fetchall()[0]
    keys = ["shootdowns", "victims", "wait_ns", "stall_ns", "seen", "cpus"]
    totals = dict(zip(keys, rows))
    keys = ["waits", "held", "blocked_ns"]
    query = f"""select count(*), count(*) filter (where holder_tid <> 0), coalesce(sum(wait_ns), 0)::bigint
            from '{TRACE}/waits-*.parquet'"""
    totals.update(zip(keys, duckdb.sql(query).fetchall()[0]))
    query = f"""select coalesce(sum(samples), 0)::bigint, count(*) filter (where mechanism <> '')
            from '{TRACE}/samples-*.parquet'"""
    totals.update(zip(["samples", "of_memory"], duckdb.sql(query).fetchall()[0]))
    report = json.loads(quell("--json"))
    same("duckdb: shootdowns", totals["shootdowns"], report["shootdowns"])
    same("duckdb: victims", totals["victims"], report["victims"])
    same("duckdb: wait", totals["wait_ns"], report["wait_ns"]["sum"])
    same("duckdb: stall", totals["stall_ns"], report["stall_ns"]["sum"])
    print(f"parquet     duckdb {duckdb.__version__}: {totals}")
    return totals, report


def csv(totals):
    path = export("csv")
    duckdb.sql(f"create table c as from read_csv('{path}', header = true, null_padding = false)")
    parquet = f"'{TRACE}/events-*.parquet'"
    for columns in [
        "cause, count(*), sum(pages)::hugeint, sum(delay_ns)::hugeint",
        "comm, count(*), sum(wait_ns)::hugeint, sum(t_ns)::hugeint",
        "victim_comm, victim_cpu, victim_pid, bystander, count(*), sum(stall_ns)::hugeint",
        'kernel_stack, user_stack, tid, "full", count(*)',
    ]:
        query = f"select {columns} from {{}} group by all order by all"
        same(f"csv: {columns}", duckdb.sql(query.format("c")).fetchall(), duckdb.sql(query.format(parquet)).fetchall())
    same("csv: rows", duckdb.sql("select count(*) from c").fetchall()[0][0], totals["victims"])
    # DuckDB reads 0x… as the number that it is
    addresses = 'select start, "end" from ' + parquet + " order by id, victim_index"
    same(
        "csv: addresses",
        duckdb.sql('select start, "end" from c order by id, victim_index').fetchall(),
        duckdb.sql(addresses).fetchall(),
    )
    print(f"csv         duckdb: {totals['victims']} rows, all as in the Parquet")


def perfetto_trace(totals):
    """Plays the packets through by the rules of the importer: names by number, slices as a stack."""
    trace = perfetto.Trace()
    with open(export("perfetto"), "rb") as file:
        trace.ParseFromString(file.read())
    tracks, names, args, strings, events = {}, {}, {}, {}, []
    clock = None
    for packet in trace.packet:
        if len(unknown_fields.UnknownFieldSet(packet)):
            sys.exit("perfetto: a field that the format does not have")
        if packet.HasField("trace_packet_defaults"):
            clock = packet.trace_packet_defaults.timestamp_clock_id
        if packet.HasField("clock_snapshot"):
            same("perfetto: clock", packet.clock_snapshot.primary_trace_clock, 3)
        interned = packet.interned_data
        names.update((n.iid, n.name) for n in interned.event_names)
        args.update((n.iid, n.name) for n in interned.debug_annotation_names)
        strings.update((n.iid, n.str) for n in interned.debug_annotation_string_values)
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            if track.parent_uuid and track.parent_uuid not in tracks:
                sys.exit(f"perfetto: {track.name} has a parent that is not there")
            if track.HasField("thread"):
                track.name = WAITS
            tracks[track.uuid] = track
        if packet.HasField("track_event"):
            event = packet.track_event
            said = {}
            for arg in event.debug_annotations:
                value = getattr(arg, arg.WhichOneof("value"))
                said[args[arg.name_iid]] = strings[value] if arg.HasField("string_value_iid") else value
            events.append((packet.timestamp, names.get(event.name_iid), said, event))
    same("perfetto: clock", clock, 3)
    events.sort(key=lambda e: e[0])

    open_slices, lasted, count, begins, flows = {}, {}, {}, {}, 0
    for t, name, said, event in events:
        track = tracks[event.track_uuid]
        if event.type == event.TYPE_SLICE_BEGIN:
            if event.track_uuid in open_slices:
                sys.exit(f"perfetto: slices overlap on '{track.name}' of {tracks[track.parent_uuid].name}")
            open_slices[event.track_uuid] = t
            count[track.name] = count.get(track.name, 0) + 1
            for flow in event.flow_ids:
                begins[flow] = t
            for flow in event.terminating_flow_ids:
                if t < begins.pop(flow):
                    sys.exit("perfetto: an arrow that goes back in time")
                flows += 1
            if track.name == CULPRIT:
                same("perfetto: arguments", {"pid", "tid", "comm", "syscall", "victims"} - set(said), set())
                same("perfetto: arrows of a slice", len(event.flow_ids), said["victims"] - said.get("unseen", 0))
            elif track.name == VICTIM:
                same("perfetto: name", (name, "bystander" in said), ("stall", True))
            elif track.name == WAITS:
                same("perfetto: arrows to who waits", len(event.terminating_flow_ids) <= ("role" in said), True)
            else:
                same("perfetto: arrows from who holds", (track.name, len(event.flow_ids)), (HOLDS, 1))
                same("perfetto: whom it keeps", {"waiter_tid", "waiter_comm", "role"} - set(said), set())
        elif event.type == event.TYPE_SLICE_END:
            lasted[track.name] = lasted.get(track.name, 0) + t - open_slices.pop(event.track_uuid)
        elif event.type == event.TYPE_INSTANT:
            same("perfetto: mark of a sample", (track.name, {"cpu", "part"} - set(said)), (WAITS, set()))
            count["marks"] = count.get("marks", 0) + 1
        elif event.type == event.TYPE_COUNTER:
            what = track.name.split(" per ")[0]
            count[what] = count.get(what, 0) + event.counter_value
        else:
            sys.exit(f"perfetto: an event of type {event.type}")
    same("perfetto: arrows without an end", begins, {})
    same("perfetto: slices without an end", open_slices, {})
    same("perfetto: arrows", flows, totals["seen"] + totals["held"])
    same("perfetto: waits", count.get(WAITS, 0), totals["waits"])
    same("perfetto: time of waits", lasted.get(WAITS, 0), totals["blocked_ns"])
    same("perfetto: holders", count.get(HOLDS, 0), totals["held"])
    for what in "marks", "samples of memory management":
        same(f"perfetto: {what}", count.get(what, 0), totals["of_memory"])
    same("perfetto: samples", count.get("samples", 0), totals["samples"])
    same("perfetto: shootdowns", count.get(CULPRIT, 0), totals["shootdowns"])
    same("perfetto: stalls", count.get(VICTIM, 0), totals["seen"])
    same("perfetto: wait", lasted.get(CULPRIT, 0), totals["wait_ns"])
    same("perfetto: stall", lasted.get(VICTIM, 0), totals["stall_ns"])
    same("perfetto: counter of shootdowns", count.get("shootdowns", 0), totals["shootdowns"])
    same("perfetto: counter of stalls", count.get("stalled time", 0), totals["stall_ns"])
    parents = [t.parent_uuid for t in tracks.values() if t.name == CULPRIT]
    same("perfetto: CPUs of culprits", len(set(parents)), totals["cpus"])
    groups = sum(1 for t in tracks.values() if t.name.startswith("CPU "))
    print(f"perfetto    {len(trace.packet)} packets, {groups} CPUs, {flows} arrows, {len(parents)} tracks of culprits")


def pprof(totals):
    path = export("pprof")
    for kind, key, args in [("shootdowns", "shootdowns", []), ("wait", "wait_ns", []), ("stall", "stall_ns", [])]:
        out = subprocess.run(
            [GO, "tool", "pprof", "-top", "-nodecount=3", f"-sample_index={kind}", "-unit=ns", path],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ).stdout
        if f"Type: {kind}" not in out:
            sys.exit(f"pprof: no type {kind} in: {out}")
        raw = subprocess.run([GO, "tool", "pprof", "-raw", path], check=True, stdout=subprocess.PIPE, text=True).stdout
        column = ["shootdowns", "wait", "stall"].index(kind)
        found = 0
        for line in raw[raw.index("Samples:") : raw.index("Locations")].splitlines()[2:]:
            if ":" in line and line.split(":")[0].replace(" ", "").isdigit():
                found += int(line.split(":")[0].split()[column])
        same(f"pprof: {kind}", found, totals[key])
    tags = subprocess.run(
        [GO, "tool", "pprof", "-tags", "-sample_index=shootdowns", path], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    for tag in ("cause", "comm", "pid"):
        if f"{tag}: Total" not in tags:
            sys.exit(f"pprof: no tag {tag} in: {tags}")
    out = subprocess.run(
        [GO, "tool", "pprof", "-top", export("pprof", "--weight", "stall")], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    if "Type: stall" not in out:
        sys.exit("pprof: --weight is not its default")
    version = subprocess.run([GO, "version"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[2]
    print(f"pprof       {version}: three types with the totals of the Parquet, tags cause, comm, pid")


def stacks(totals):
    for weight, key in [("count", "shootdowns"), ("wait", "wait_ns"), ("stall", "stall_ns")]:
        with open(export("folded", "--weight", weight), encoding="utf-8") as file:
            same(f"folded: {weight}", sum(int(line.rsplit(" ", 1)[1]) for line in file), totals[key])
        with open(export("speedscope", "--weight", weight), encoding="utf-8") as file:
            whole = json.load(file)
        same(f"speedscope: {weight}", sum(whole["profiles"][0]["weights"]), totals[key])
        schema = os.environ.get("SPEEDSCOPE_SCHEMA")
        if schema:
            import jsonschema

            with open(schema, encoding="utf-8") as file:
                jsonschema.validate(whole, json.load(file))
    print(f"folded      sums as in the Parquet\nspeedscope  {'by its schema' if schema else 'without its schema'}")


def times(totals, report):
    path = export("hlog")
    for tag, count in [("wait", "shootdowns"), ("delay", "seen"), ("stall", "seen")]:
        one = export("hlog", "--of", tag)
        whole = HdrHistogram(1, 1 << 44, 3)
        reader = HistogramLogReader(one, HdrHistogram(1, 1 << 44, 3))
        while (interval := reader.get_next_interval_histogram()) is not None:
            whole.add(interval)
        reader.close()
        same(f"hlog: {tag}", whole.get_total_count(), totals[count])
        for percentile, key in [(50, "p50"), (99, "p99"), (99.9, "p999"), (100, "max")]:
            # the report's own histograms are within 1.6 %, and few are beyond p99.9: a neighbour will do
            low, high = (whole.get_value_at_percentile(min(100, percentile + by)) for by in (-0.05, 0.05))
            found = report[tag + "_ns"][key]
            if not low * 0.98 - 1 <= found <= high * 1.02 + 1:
                sys.exit(f"hlog: {tag} {key}: the report has {found}, the log {low} to {high}")
        # The distribution as text: at each of its percentiles the value that the reader has there.
        with open(export("hgrm", "--of", tag), encoding="utf-8") as file:
            lines = [line.split() for line in file if line.strip() and line[0] != "#"]
        same(f"hgrm: {tag}", lines[0], ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"])
        for value, percentile, count, *_ in lines[1:]:
            # the two writers round a percentile to a count each in its way: a neighbour will do, which of few is more than a bit away
            at, ns = float(percentile) * 100, float(value) * 1000
            beside = max(0.05, 100 / whole.get_total_count())
            low, high = (whole.get_value_at_percentile(min(100, max(0, at + by))) for by in (-beside, beside))
            if not low * 0.998 - 1 <= ns <= high * 1.002 + 1:
                sys.exit(f"hgrm: {tag} at {percentile}: found {ns}, expected {low} to {high}")
        same(f"hgrm: {tag} count", int(lines[-1][2]), whole.get_total_count())
    with open(path, encoding="utf-8") as file:
        tags = {line.split(",")[0] for line in file if line.startswith("Tag=")}
    same("hlog: tags", tags, {"Tag=wait", "Tag=delay", "Tag=stall"} if totals["seen"] else {"Tag=wait"})
    print("hlog, hgrm  HdrHistogram for Python: counts and percentiles of the report")


totals, report = parquet()
csv(totals)
perfetto_trace(totals)
if GO:
    pprof(totals)
stacks(totals)
times(totals, report)
