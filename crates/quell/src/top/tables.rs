//! The tables of culprits, victims and causes.

use std::cmp::Reverse;
use std::collections::HashMap;

use quell_event::TallySummary;

use super::alarm::Alarm;
use super::filter::Filter;
use super::grid::{Column, Grid, Id, Key, Line, Mark};
use super::rows::{Did, causes, each};
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
        let shown = TallySummary::new(&tally, &sample.summary.backend, sample.summary.cpus);
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
        let hits = |s: &TallySummary| s.victims_by.iter().map(|v| v.hits).sum();
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

fn culprits(
    s: &TallySummary,
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

fn victims(s: &TallySummary, note: String) -> Grid {
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
