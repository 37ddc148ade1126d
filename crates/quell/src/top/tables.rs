//! The tables of the overview: victims with their columns; culprits and causes, whose columns are in `count_columns`.

use std::cmp::Reverse;
use std::collections::HashMap;

use quell_event::TallySummary;

use super::alarm::IsolatedCpuAlarm;
use super::count_columns::{CulpritActivity, cause_grid, mean_ns};
use super::filter::RowFilter;
use super::grid::{Grid, GridColumn, GridRow, RowId, RowMark, SortKey};
use super::interval::LiveInterval;
use crate::show::units::{count, rate, time, time_rate};

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
    let disturbs = |pid| alarm.is_some_and(|a| a.culprits.iter().any(|c| c.pid == pid));
    let lines = s.culprits.iter().map(|c| {
        let why = reasons.get(&c.pid).map_or("", |r| r.1).to_owned();
        let did = CulpritActivity {
            shootdowns: c.shootdowns,
            victims: c.victims,
            wait_ns: c.wait_ns,
            id: c.pid,
            comm: &c.comm,
        };
        GridRow {
            id: RowId::Process(c.pid),
            cells: [did.cell_texts(s.duration_ns), vec![why.clone()]].concat(),
            keys: [did.sort_keys(), vec![SortKey::Text(why)]].concat(),
            mark: if disturbs(c.pid) {
                RowMark::Alarm
            } else {
                RowMark::None
            },
        }
    });
    Grid {
        title: format!("Culprits {}", count(s.culprits.len() as u64)),
        note,
        columns: [
            CulpritActivity::culprit_columns("pid"),
            vec![GridColumn::of_names("mostly by")],
        ]
        .concat(),
        lines: lines.collect(),
        sortable: true,
        empty: "nobody",
    }
}

fn victim_grid(s: &TallySummary, note: String) -> Grid {
    let lines = s.victims_by.iter().map(|v| GridRow {
        id: RowId::Victim(v.pid, v.bystander),
        cells: vec![
            rate(v.hits, s.duration_ns),
            time_rate(v.stall_ns, s.duration_ns),
            time(mean_ns(v.stall_ns, v.hits)),
            v.pid.to_string(),
            if v.bystander { "*" } else { "" }.to_owned(),
            v.comm.to_string(),
        ],
        keys: vec![
            SortKey::Number(v.hits),
            SortKey::Number(v.stall_ns),
            SortKey::Number(mean_ns(v.stall_ns, v.hits)),
            SortKey::Number(v.pid.into()),
            SortKey::Number(v.bystander.into()),
            SortKey::Text(v.comm.to_string()),
        ],
        // an idle CPU has no memory of its own, so nobody suffers
        mark: if v.bystander && v.pid != 0 {
            RowMark::Bystander
        } else {
            RowMark::None
        },
    });
    Grid {
        title: format!("Victims {}, * bystanders", count(s.victims_by.len() as u64)),
        note,
        columns: vec![
            GridColumn::of_numbers("hits/s"),
            GridColumn::of_numbers("stall/s"),
            GridColumn::of_numbers("each").as_spare(),
            GridColumn::of_ids("pid"),
            GridColumn {
                right: false,
                ..GridColumn::of_numbers("*")
            },
            GridColumn::of_names("name"),
        ],
        lines: lines.collect(),
        sortable: true,
        empty: "nobody",
    }
}
