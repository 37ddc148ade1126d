//! The table of function calls between CPUs, where they are watched.

use quell_event::FunctionCalls;
use quell_host::cpus;

use super::filter::RowFilter;
use super::grid::{Grid, GridColumn, RowId, RowMark, left_by_filter};
use super::interval::LiveInterval;
use crate::show::calls::{CalledFunction, called_functions};
use crate::show::units::{count, rate, time, time_rate};

/// The table of calls by function and culprit, over all CPUs.
pub(crate) fn call_grid(
    interval: &LiveInterval,
    calls: &FunctionCalls,
    filter: &RowFilter,
) -> Grid {
    type Column<'a> = GridColumn<'a, &'a CalledFunction<'a>>;
    let ns = interval.duration_ns();
    let all = called_functions(calls);
    let passes = |r: &&CalledFunction<'_>| {
        filter.passes_named(r.comm, r.pid)
            || filter.passes_text(r.function)
            || filter.passes_text(r.kind.name())
    };
    let shown: Vec<_> = all.iter().filter(passes).collect();
    let known =
        |r: &CalledFunction<'_>, text: String| if r.timed == 0 { "-".to_owned() } else { text };
    let grid = Grid::of_rows(
        &shown,
        vec![
            Column::of_rates("calls/s", ns, |r| r.calls),
            Column::of_time_rates("stall/s", ns, |r| r.stall_ns)
                .with_text(|r| known(r, time_rate(r.stall_ns, ns))),
            Column::of_times("longest", |r| r.stall_max_ns)
                .with_text(|r| known(r, time(r.stall_max_ns)))
                .marked_spare(),
            // the first of them is what rows are sorted by
            Column::of_ids("on CPUs", |r| r.cpus.first().copied().unwrap_or(0))
                .with_text(|r| cpus::format_cpu_list(&r.cpus))
                .aligned_left(),
            Column::of_names("kind", |r| r.kind.name().to_owned()),
            Column::of_names("function", |r| r.function.to_owned()),
            Column::of_ids("pid", |r| r.pid),
            Column::of_names("name", |r| r.comm.to_owned()),
        ],
        |r| RowId::Call(r.function.to_owned(), r.pid),
    );
    let disturbs = |r: &&CalledFunction<'_>| {
        let alarm = interval.alarm.as_ref();
        alarm.is_some_and(|a| r.cpus.iter().any(|&cpu| a.is_guarded(cpu)))
    };
    Grid {
        title: format!("Calls {}/s", rate(calls.total_calls(), ns)),
        note: match calls.lost {
            0 => left_by_filter(shown.len(), all.len()),
            lost => format!("{} lost: counted nowhere", count(lost)),
        },
        empty: "no function call in this interval",
        ..grid.with_mark(RowMark::Alarm, &shown, disturbs)
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
