//! The table of function calls between CPUs, where they are watched.

use quell_event::FunctionCalls;
use quell_host::cpus;

use super::filter::RowFilter;
use super::grid::{Grid, GridColumn, GridRow, RowId, RowMark, SortKey, left_by_filter};
use super::interval::LiveInterval;
use crate::show::calls::{CalledFunction, called_functions};
use crate::show::units::{count, rate, time, time_rate};

/// The table of calls by function and culprit, over all CPUs.
pub(crate) fn call_grid(
    interval: &LiveInterval,
    calls: &FunctionCalls,
    filter: &RowFilter,
) -> Grid {
    let ns = interval.duration_ns();
    let all = called_functions(calls);
    let shown = all.iter().filter(|r| {
        filter.passes_named(r.comm, r.pid)
            || filter.passes_text(r.function)
            || filter.passes_text(r.kind.name())
    });
    let lines: Vec<GridRow> = shown.map(|r| call_row(r, interval, ns)).collect();
    let mut note = left_by_filter(lines.len(), all.len());
    if calls.lost > 0 {
        note = format!("{} lost: counted nowhere", count(calls.lost));
    }
    Grid {
        title: format!("Calls {}/s", rate(calls.total_calls(), ns)),
        note,
        columns: vec![
            GridColumn::of_numbers("calls/s"),
            GridColumn::of_numbers("stall/s"),
            GridColumn::of_numbers("longest").as_spare(),
            GridColumn::of_names("on CPUs"),
            GridColumn::of_names("kind"),
            GridColumn::of_names("function"),
            GridColumn::of_ids("pid"),
            GridColumn::of_names("name"),
        ],
        lines,
        sortable: true,
        empty: "no function call in this interval",
    }
}

fn call_row(r: &CalledFunction<'_>, interval: &LiveInterval, ns: u64) -> GridRow {
    let guarded =
        |alarm: &super::alarm::IsolatedCpuAlarm| r.cpus.iter().any(|&cpu| alarm.is_guarded(cpu));
    let known = |text: String| if r.timed == 0 { "-".to_owned() } else { text };
    let first = r.cpus.first().copied().unwrap_or(0);
    GridRow {
        id: RowId::Call(r.function.to_owned(), r.pid),
        cells: vec![
            rate(r.calls, ns),
            known(time_rate(r.stall_ns, ns)),
            known(time(r.stall_max_ns)),
            cpus::text(&r.cpus),
            r.kind.name().to_owned(),
            r.function.to_owned(),
            r.pid.to_string(),
            r.comm.to_owned(),
        ],
        keys: vec![
            SortKey::Number(r.calls),
            SortKey::Number(r.stall_ns),
            SortKey::Number(r.stall_max_ns),
            SortKey::Number(first.into()),
            SortKey::Text(r.kind.name().to_owned()),
            SortKey::Text(r.function.to_owned()),
            SortKey::Number(r.pid.into()),
            SortKey::Text(r.comm.to_owned()),
        ],
        mark: if interval.alarm.as_ref().is_some_and(guarded) {
            RowMark::Alarm
        } else {
            RowMark::None
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_event::{CallKind, CallTally, InterruptMatrix, Tally};

    use crate::top::alarm::IsolatedCpuAlarm;

    /// Check that calls on an isolated CPU stand out, and that a filter finds functions, kinds and culprits.
    #[test]
    fn isolated_cpus_stand_out() {
        let call = |function: &str, cpu, comm: &str| CallTally {
            function: function.to_owned(),
            kind: CallKind::of_function(function, false),
            comm: comm.to_owned(),
            pid: 7,
            cpu,
            calls: 4,
            timed: 4,
            ..CallTally::default()
        };
        let calls = FunctionCalls {
            by: vec![
                call("ipi_mb", 1, "java"),
                call("do_sync_core", 3, "systemd"),
            ],
            ..FunctionCalls::default()
        };
        let interval = LiveInterval {
            alarm: Some(IsolatedCpuAlarm::new(
                &[3],
                &InterruptMatrix::new(4),
                &Tally::default(),
            )),
            ..LiveInterval::default()
        };
        let grid = |text| call_grid(&interval, &calls, &RowFilter::new(text));
        let marks: Vec<_> = grid("").lines.iter().map(|l| l.mark).collect();
        assert_eq!(marks, [RowMark::Alarm, RowMark::None], "by function's name");
        for (text, n) in [
            ("membarrier", 1),
            ("sync", 1),
            ("JAVA", 1),
            ("7", 2),
            ("zzz", 0),
        ] {
            assert_eq!(grid(text).lines.len(), n, "{text}");
        }
    }
}
