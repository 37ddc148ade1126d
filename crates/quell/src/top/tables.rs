//! The tables of the overview: victims with their columns; culprits and causes, whose columns are in `count_columns`.

use std::cmp::Reverse;
use std::collections::HashMap;

use quell_event::TallySummary;
use quell_event::tally_summary::{CulpritRow, VictimRow};

use super::alarm::IsolatedCpuAlarm;
use super::count_columns::{cause_grid, culprit_columns, mean_ns};
use super::filter::RowFilter;
use super::grid::{Grid, GridColumn, RowId, RowMark};
use super::interval::LiveInterval;
use crate::show::units::{count, rate};

/// The tables of the counts, each with a note on the rows that a filter leaves out.
pub(crate) struct TallyTables {
    pub(crate) culprits: Grid,
    pub(crate) victims: Grid,
    pub(crate) causes: Grid,
}

impl TallyTables {
    /// Builds the tables of the counts that pass the filter.
    pub(crate) fn new(interval: &LiveInterval, filter: &RowFilter) -> Self {
        let tally = filter.passing_tally(&interval.tally);
        let shown = TallySummary::new(&tally, &interval.summary.backend, interval.summary.cpus);
        let note = |shown: u64, all: u64, what: &str| {
            if filter.is_empty() {
                return String::new();
            }
            format!(
                "{} of {} {what}/s pass the filter",
                rate(shown, interval.duration_ns()),
                rate(all, interval.duration_ns())
            )
        };
        let shot = note(shown.shootdowns, interval.summary.shootdowns, "shootdowns");
        let hits = |s: &TallySummary| s.victims_by.iter().map(|v| v.hits).sum();
        let hit = note(hits(&shown), hits(&interval.summary), "hits");
        let mut reasons: HashMap<u32, (u64, &str)> = HashMap::new();
        for c in &tally.culprits {
            let key = (c.counts.shootdowns, Reverse(c.cause.name()));
            let best = reasons.entry(c.pid).or_insert((0, c.cause.name()));
            if key > (best.0, Reverse(best.1)) {
                *best = (c.counts.shootdowns, c.cause.name());
            }
        }
        Self {
            culprits: culprit_grid(&shown, &reasons, interval.alarm.as_ref(), shot.clone()),
            victims: victim_grid(&shown, hit),
            causes: cause_grid(&shown, shot),
        }
    }
}

fn culprit_grid(
    s: &TallySummary,
    reasons: &HashMap<u32, (u64, &str)>,
    alarm: Option<&IsolatedCpuAlarm>,
    note: String,
) -> Grid {
    let mut columns = culprit_columns(
        s.duration_ns,
        |c: &CulpritRow| [c.shootdowns, c.victims, c.wait_ns],
        "pid",
        |c| c.pid,
        |c| c.comm.to_string(),
    );
    let reason = |c: &CulpritRow| reasons.get(&c.pid).map_or("", |r| r.1).to_owned();
    columns.push(GridColumn::of_names("mostly by", reason));
    let disturbs =
        |c: &CulpritRow| alarm.is_some_and(|a| a.culprits.iter().any(|other| other.pid == c.pid));
    Grid {
        title: format!("Culprits {}", count(s.culprits.len() as u64)),
        note,
        empty: "nobody",
        ..Grid::of_rows(&s.culprits, columns, |c| RowId::Process(c.pid)).with_mark(
            RowMark::Alarm,
            &s.culprits,
            disturbs,
        )
    }
}

fn victim_grid(s: &TallySummary, note: String) -> Grid {
    type Column<'a> = GridColumn<'a, VictimRow>;
    let ns = s.duration_ns;
    let columns = vec![
        Column::of_rates("hits/s", ns, |v| v.hits),
        Column::of_time_rates("stall/s", ns, |v| v.stall_ns),
        Column::of_times("each", |v| mean_ns(v.stall_ns, v.hits)).marked_spare(),
        Column::of_ids("pid", |v| v.pid),
        Column::of_counts("*", |v| v.bystander.into())
            .with_text(|v| if v.bystander { "*" } else { "" }.to_owned())
            .aligned_left(),
        Column::of_names("name", |v| v.comm.to_string()),
    ];
    // an idle CPU has no memory of its own, so nobody suffers
    let suffers = |v: &VictimRow| v.bystander && v.pid != 0;
    Grid {
        title: format!("Victims {}, * bystanders", count(s.victims_by.len() as u64)),
        note,
        empty: "nobody",
        ..Grid::of_rows(&s.victims_by, columns, |v| {
            RowId::Victim(v.pid, v.bystander)
        })
        .with_mark(RowMark::Bystander, &s.victims_by, suffers)
    }
}
