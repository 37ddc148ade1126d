//! The tables of culprits, victims and causes.

use std::cmp::Reverse;
use std::collections::HashMap;

use quell_event::Summary;

use super::alarm::Alarm;
use super::filter::Filter;
use super::grid::{Column, Grid, Id, Key, Line, Mark};
use super::sample::Sample;
use crate::show::units::{count, rate, time, time_rate};

/// What is in the tables, and what a filter has left out.
pub(crate) struct Tables {
    pub(crate) culprits: Grid,
    pub(crate) victims: Grid,
    pub(crate) causes: Grid,
}

impl Tables {
    /// Of what passes the filter.
    pub(crate) fn new(sample: &Sample, filter: &Filter) -> Self {
        let tally = filter.tally(&sample.tally);
        let shown = Summary::new(&tally, &sample.summary.backend, sample.summary.cpus);
        let note = |shown: u64, all: u64, what: &str| {
            if filter.is_empty() {
                return String::new();
            }
            format!(
                "{} of {} {what}/s pass the filter",
                rate(shown, sample.duration_ns()),
                rate(all, sample.duration_ns())
            )
        };
        let shot = note(shown.shootdowns, sample.summary.shootdowns, "shootdowns");
        let hits = |s: &Summary| s.victims_by.iter().map(|v| v.hits).sum();
        let hit = note(hits(&shown), hits(&sample.summary), "hits");
        let mut reasons: HashMap<u32, (u64, &str)> = HashMap::new();
        for c in &tally.culprits {
            let key = (c.counts.shootdowns, Reverse(c.cause.name()));
            let best = reasons.entry(c.pid).or_insert((0, c.cause.name()));
            if key > (best.0, Reverse(best.1)) {
                *best = (c.counts.shootdowns, c.cause.name());
            }
        }
        Self {
            culprits: culprits(&shown, &reasons, sample.alarm.as_ref(), shot.clone()),
            victims: victims(&shown, hit),
            causes: causes(&shown, shot),
        }
    }
}

fn each(ns: u64, n: u64) -> u64 {
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

fn culprits(
    s: &Summary,
    reasons: &HashMap<u32, (u64, &str)>,
    alarm: Option<&Alarm>,
    note: String,
) -> Grid {
    let disturbs = |pid| alarm.is_some_and(|a| a.culprits.iter().any(|c| c.pid == pid));
    let lines = s.culprits.iter().map(|c| {
        let why = reasons.get(&c.pid).map_or("", |r| r.1).to_owned();
        let did = Did {
            shootdowns: c.shootdowns,
            victims: c.victims,
            wait_ns: c.wait_ns,
            id: c.pid,
            comm: &c.comm,
        };
        Line {
            id: Id::Process(c.pid),
            cells: [did.cells(s.duration_ns), vec![why.clone()]].concat(),
            keys: [did.keys(), vec![Key::Text(why)]].concat(),
            mark: if disturbs(c.pid) {
                Mark::Alarm
            } else {
                Mark::None
            },
        }
    });
    Grid {
        title: format!("Culprits {}", count(s.culprits.len() as u64)),
        note,
        columns: [Did::columns("pid"), vec![Column::name("mostly by")]].concat(),
        lines: lines.collect(),
        sortable: true,
        empty: "nobody",
    }
}

fn victims(s: &Summary, note: String) -> Grid {
    let lines = s.victims_by.iter().map(|v| Line {
        id: Id::Victim(v.pid, v.bystander),
        cells: vec![
            rate(v.hits, s.duration_ns),
            time_rate(v.stall_ns, s.duration_ns),
            time(each(v.stall_ns, v.hits)),
            v.pid.to_string(),
            if v.bystander { "*" } else { "" }.to_owned(),
            v.comm.to_string(),
        ],
        keys: vec![
            Key::Number(v.hits),
            Key::Number(v.stall_ns),
            Key::Number(each(v.stall_ns, v.hits)),
            Key::Number(v.pid.into()),
            Key::Number(v.bystander.into()),
            Key::Text(v.comm.to_string()),
        ],
        // an idle CPU has no memory of its own: nobody suffers
        mark: if v.bystander && v.pid != 0 {
            Mark::Bystander
        } else {
            Mark::None
        },
    });
    Grid {
        title: format!("Victims {}, * bystanders", count(s.victims_by.len() as u64)),
        note,
        columns: vec![
            Column::number("hits/s"),
            Column::number("stall/s"),
            Column::number("each").spare(),
            Column::id("pid"),
            Column {
                right: false,
                ..Column::number("*")
            },
            Column::name("name"),
        ],
        lines: lines.collect(),
        sortable: true,
        empty: "nobody",
    }
}

/// Of everything, or of one process.
pub(super) fn causes(s: &Summary, note: String) -> Grid {
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
