//! Rows of culprits and causes, of all processes and of one.

use quell_event::TallySummary;

use super::grid::{Column, Grid, Id, Key, Line, Mark};
use crate::show::units::{count, rate, time, time_rate};

pub(super) fn each(ns: u64, n: u64) -> u64 {
    ns.checked_div(n).unwrap_or(0)
}

/// What a culprit did in an interval of so many ns: a process, or a thread of one.
pub(super) struct Did<'a> {
    pub(super) shootdowns: u64,
    pub(super) victims: u64,
    pub(super) wait_ns: u64,
    /// The process or the thread.
    pub(super) id: u32,
    pub(super) comm: &'a str,
}

impl Did<'_> {
    pub(super) fn columns(id: &'static str) -> Vec<Column> {
        vec![
            Column::number("shoot/s"),
            Column::number("victims/s").spare(),
            Column::number("wait/s"),
            Column::number("each").spare(),
            Column::id(id),
            Column::name("name"),
        ]
    }

    pub(super) fn cells(&self, duration_ns: u64) -> Vec<String> {
        vec![
            rate(self.shootdowns, duration_ns),
            rate(self.victims, duration_ns),
            time_rate(self.wait_ns, duration_ns),
            time(each(self.wait_ns, self.shootdowns)),
            self.id.to_string(),
            self.comm.to_owned(),
        ]
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        vec![
            Key::Number(self.shootdowns),
            Key::Number(self.victims),
            Key::Number(self.wait_ns),
            Key::Number(each(self.wait_ns, self.shootdowns)),
            Key::Number(self.id.into()),
            Key::Text(self.comm.to_owned()),
        ]
    }
}

/// Of everything, or of one process.
pub(super) fn causes(s: &TallySummary, note: String) -> Grid {
    let lines = s.causes.iter().map(|c| {
        let name = c.label();
        Line {
            id: Id::Cause(c.cause.clone(), c.function.as_deref().map(str::to_owned)),
            cells: vec![
                rate(c.shootdowns, s.duration_ns),
                rate(c.victims, s.duration_ns),
                time_rate(c.wait_ns, s.duration_ns),
                time_rate(c.stall_ns, s.duration_ns),
                name.clone(),
            ],
            keys: vec![
                Key::Number(c.shootdowns),
                Key::Number(c.victims),
                Key::Number(c.wait_ns),
                Key::Number(c.stall_ns),
                Key::Text(name),
            ],
            mark: Mark::None,
        }
    });
    Grid {
        title: format!("Causes {}", count(s.causes.len() as u64)),
        note,
        columns: vec![
            Column::number("shoot/s"),
            Column::number("victims/s").spare(),
            Column::number("wait/s"),
            Column::number("stall/s").spare(),
            Column::name("cause"),
        ],
        lines: lines.collect(),
        sortable: true,
        empty: "none",
    }
}
