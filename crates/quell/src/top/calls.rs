//! The table of function calls between CPUs, where they are watched.

use quell_event::FunctionCalls;
use quell_host::cpus;

use super::filter::Filter;
use super::grid::{Column, Grid, Id, Key, Line, Mark, left_by_filter};
use super::sample::Sample;
use crate::show::calls::{Row, rows};
use crate::show::units::{count, rate, time, time_rate};

/// By function and culprit, over all CPUs.
pub(crate) fn grid(sample: &Sample, calls: &FunctionCalls, filter: &Filter) -> Grid {
    let ns = sample.duration_ns();
    let all = rows(calls);
    let shown = all.iter().filter(|r| {
        filter.name(r.comm, r.pid) || filter.text(r.function) || filter.text(r.kind.name())
    });
    let lines: Vec<Line> = shown.map(|r| line(r, sample, ns)).collect();
    let mut note = left_by_filter(lines.len(), all.len());
    if calls.lost > 0 {
        note = format!("{} lost: counted nowhere", count(calls.lost));
    }
    Grid {
        title: format!("Calls {}/s", rate(calls.total_calls(), ns)),
        note,
        columns: vec![
            Column::number("calls/s"),
            Column::number("stall/s"),
            Column::number("longest").spare(),
            Column::name("on CPUs"),
            Column::name("kind"),
            Column::name("function"),
            Column::id("pid"),
            Column::name("name"),
        ],
        lines,
        sortable: true,
        empty: "no function call in this interval",
    }
}

fn line(r: &Row<'_>, sample: &Sample, ns: u64) -> Line {
    let guarded = |alarm: &super::alarm::Alarm| r.cpus.iter().any(|&cpu| alarm.guards(cpu));
    let known = |text: String| if r.timed == 0 { "-".to_owned() } else { text };
    let first = r.cpus.first().copied().unwrap_or(0);
    Line {
        id: Id::Call(r.function.to_owned(), r.pid),
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
            Key::Number(r.calls),
            Key::Number(r.stall_ns),
            Key::Number(r.stall_max_ns),
            Key::Number(first.into()),
            Key::Text(r.kind.name().to_owned()),
            Key::Text(r.function.to_owned()),
            Key::Number(r.pid.into()),
            Key::Text(r.comm.to_owned()),
        ],
        mark: if sample.alarm.as_ref().is_some_and(guarded) {
            Mark::Alarm
        } else {
            Mark::None
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_event::{CallKind, CallTally, InterruptMatrix, Tally};

    use crate::top::alarm::Alarm;

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
        let sample = Sample {
            alarm: Some(Alarm::new(
                &[3],
                &InterruptMatrix::new(4),
                &Tally::default(),
            )),
            ..Sample::default()
        };
        let grid = |text| grid(&sample, &calls, &Filter::new(text));
        let marks: Vec<_> = grid("").lines.iter().map(|l| l.mark).collect();
        assert_eq!(marks, [Mark::Alarm, Mark::None], "by function's name");
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
