//! The columns of culprits and causes, with their cells and order: in the overview, and in the close look at one process.

use quell_event::TallySummary;
use quell_event::tally_summary::CauseRow;

use super::grid::{Grid, GridColumn, RowId};
use crate::show::units::count;

pub(super) fn mean_ns(ns: u64, n: u64) -> u64 {
    ns.checked_div(n).unwrap_or(0)
}

/// The columns of culprits: of processes, or of the threads of one. `counts` are the shootdowns, the victims and the wait in ns.
pub(super) fn culprit_columns<'a, R: 'a>(
    duration_ns: u64,
    counts: fn(&R) -> [u64; 3],
    id_title: &'static str,
    id: fn(&R) -> u32,
    comm: fn(&R) -> String,
) -> Vec<GridColumn<'a, R>> {
    let mean_wait_ns = move |row: &R| {
        let [shootdowns, _, wait_ns] = counts(row);
        mean_ns(wait_ns, shootdowns)
    };
    vec![
        GridColumn::of_rates("shoot/s", duration_ns, move |row| counts(row)[0]),
        GridColumn::of_rates("victims/s", duration_ns, move |row| counts(row)[1]).marked_spare(),
        GridColumn::of_time_rates("wait/s", duration_ns, move |row| counts(row)[2]),
        GridColumn::of_times("each", mean_wait_ns).marked_spare(),
        GridColumn::of_ids(id_title, id),
        GridColumn::of_names("name", comm),
    ]
}

/// The table of causes, of everything or of one process.
pub(super) fn cause_grid(s: &TallySummary, note: String) -> Grid {
    type Column<'a> = GridColumn<'a, CauseRow>;
    let ns = s.duration_ns;
    let columns = vec![
        Column::of_rates("shoot/s", ns, |c| c.shootdowns),
        Column::of_rates("victims/s", ns, |c| c.victims).marked_spare(),
        Column::of_time_rates("wait/s", ns, |c| c.wait_ns),
        Column::of_time_rates("stall/s", ns, |c| c.stall_ns).marked_spare(),
        Column::of_names("cause", CauseRow::label),
    ];
    let id = |c: &CauseRow| RowId::Cause(c.cause.clone(), c.function.as_deref().map(str::to_owned));
    Grid {
        title: format!("Causes {}", count(s.causes.len() as u64)),
        note,
        empty: "none",
        ..Grid::of_rows(&s.causes, columns, id)
    }
}
