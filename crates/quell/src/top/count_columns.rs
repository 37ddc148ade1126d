//! The columns of culprits and causes, with their cells and order: in the overview, and in the close look at one process.

use quell_event::TallySummary;

use super::grid::{Grid, GridColumn, GridRow, RowId, RowMark, SortKey};
use crate::show::units::{count, rate, time, time_rate};

pub(super) fn mean_ns(ns: u64, n: u64) -> u64 {
    ns.checked_div(n).unwrap_or(0)
}

/// The shootdowns of a culprit in an interval: of a process, or of one thread.
pub(super) struct CulpritActivity<'a> {
    pub(super) shootdowns: u64,
    pub(super) victims: u64,
    pub(super) wait_ns: u64,
    /// The number of the process or of the thread.
    pub(super) id: u32,
    pub(super) comm: &'a str,
}

impl CulpritActivity<'_> {
    pub(super) fn culprit_columns(id: &'static str) -> Vec<GridColumn> {
        vec![
            GridColumn::of_numbers("shoot/s"),
            GridColumn::of_numbers("victims/s").as_spare(),
            GridColumn::of_numbers("wait/s"),
            GridColumn::of_numbers("each").as_spare(),
            GridColumn::of_ids(id),
            GridColumn::of_names("name"),
        ]
    }

    pub(super) fn cell_texts(&self, duration_ns: u64) -> Vec<String> {
        vec![
            rate(self.shootdowns, duration_ns),
            rate(self.victims, duration_ns),
            time_rate(self.wait_ns, duration_ns),
            time(mean_ns(self.wait_ns, self.shootdowns)),
            self.id.to_string(),
            self.comm.to_owned(),
        ]
    }

    pub(super) fn sort_keys(&self) -> Vec<SortKey> {
        vec![
            SortKey::Number(self.shootdowns),
            SortKey::Number(self.victims),
            SortKey::Number(self.wait_ns),
            SortKey::Number(mean_ns(self.wait_ns, self.shootdowns)),
            SortKey::Number(self.id.into()),
            SortKey::Text(self.comm.to_owned()),
        ]
    }
}

/// The table of causes, of everything or of one process.
pub(super) fn cause_grid(s: &TallySummary, note: String) -> Grid {
    let lines = s.causes.iter().map(|c| {
        let name = c.label();
        GridRow {
            id: RowId::Cause(c.cause.clone(), c.function.as_deref().map(str::to_owned)),
            cells: vec![
                rate(c.shootdowns, s.duration_ns),
                rate(c.victims, s.duration_ns),
                time_rate(c.wait_ns, s.duration_ns),
                time_rate(c.stall_ns, s.duration_ns),
                name.clone(),
            ],
            keys: vec![
                SortKey::Number(c.shootdowns),
                SortKey::Number(c.victims),
                SortKey::Number(c.wait_ns),
                SortKey::Number(c.stall_ns),
                SortKey::Text(name),
            ],
            mark: RowMark::None,
        }
    });
    Grid {
        title: format!("Causes {}", count(s.causes.len() as u64)),
        note,
        columns: vec![
            GridColumn::of_numbers("shoot/s"),
            GridColumn::of_numbers("victims/s").as_spare(),
            GridColumn::of_numbers("wait/s"),
            GridColumn::of_numbers("stall/s").as_spare(),
            GridColumn::of_names("cause"),
        ],
        lines: lines.collect(),
        sortable: true,
        empty: "none",
    }
}
