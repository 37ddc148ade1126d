//! One process looked at closely: its threads, regions and stacks.
//!
//! The counts tell processes apart, not threads. So a second probe records this process alone, with
//! the stacks of some of its shootdowns, for as long as somebody looks.

use quell_event::tally_summary::{RegionRow, StackRow};
use quell_event::{Tally, TallySummary};
use serde::Serialize;

use super::filter::Filter;
use super::grid::{Column, Grid, Id, Key, Line, Mark, passed, seen};
use super::rows::{self, Did};
use crate::show::units::{count, percent};

/// A thread, in one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Thread {
    pub(crate) tid: u32,
    pub(crate) comm: String,
    pub(crate) shootdowns: u64,
    pub(crate) victims: u64,
    pub(crate) wait_ns: u64,
}

/// What is known of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Detail {
    pub(crate) pid: u32,
    /// In the interval, most shootdowns first.
    pub(crate) threads: Vec<Thread>,
    /// Of the shootdowns with stacks since the close look began.
    pub(crate) regions: Vec<RegionRow>,
    /// The same.
    pub(crate) stacks: Vec<StackRow>,
    /// Shootdowns of which stacks were taken since.
    pub(crate) sampled: u64,
    /// Of one in so many stacks are taken.
    pub(crate) one_in: u32,
    /// Records that were lost: the threads' figures are too low by so much.
    pub(crate) lost: u64,
    /// The process has ended.
    pub(crate) ended: bool,
    /// How long the interval was for the close look, ns.
    pub(crate) duration_ns: u64,
}

impl Detail {
    /// The threads.
    pub(crate) fn threads(&self, filter: &Filter) -> Grid {
        let shown = self.threads.iter().filter(|t| filter.name(&t.comm, t.tid));
        let lines: Vec<Line> = shown
            .map(|t| {
                let did = Did {
                    shootdowns: t.shootdowns,
                    victims: t.victims,
                    wait_ns: t.wait_ns,
                    id: t.tid,
                    comm: &t.comm,
                };
                Line {
                    id: Id::Thread(t.tid),
                    cells: did.cells(self.duration_ns),
                    keys: did.keys(),
                    mark: Mark::None,
                }
            })
            .collect();
        let mut note = left_out(lines.len(), self.threads.len(), filter);
        if self.lost > 0 {
            note = format!("{} records lost: too low", count(self.lost));
        }
        Grid {
            title: format!("Threads {}", count(self.threads.len() as u64)),
            note,
            columns: Did::columns("tid"),
            lines,
            sortable: true,
            empty: "no shootdown in this interval",
        }
    }

    /// The causes: exact, from the counts.
    pub(crate) fn causes(&self, tally: &Tally, filter: &Filter) -> Grid {
        let of = |c: &&quell_event::CulpritTally| c.pid == self.pid && filter.cause(c);
        let tally = Tally {
            duration_ns: tally.duration_ns,
            culprits: tally.culprits.iter().filter(of).cloned().collect(),
            ..Tally::default()
        };
        rows::causes(&TallySummary::new(&tally, "", 0), String::new())
    }

    /// What lies at the ranges.
    pub(crate) fn regions(&self, filter: &Filter) -> Grid {
        let shown = self.regions.iter().filter(|r| filter.text(&r.region));
        let lines: Vec<Line> = shown
            .enumerate()
            .map(|(i, r)| Line {
                id: Id::Line(i),
                cells: vec![self.share(r.shootdowns), r.region.to_string()],
                keys: vec![Key::Number(r.shootdowns), Key::Text(r.region.to_string())],
                mark: Mark::None,
            })
            .collect();
        Grid {
            title: format!("Regions {}", count(self.regions.len() as u64)),
            note: self.sampling(),
            columns: vec![Column::number("share"), Column::name("region")],
            lines,
            sortable: true,
            empty: "no stack yet",
        }
    }

    /// The stacks, one frame a row.
    pub(crate) fn stacks(&self, filter: &Filter) -> Grid {
        let mut lines = Vec::new();
        for stack in &self.stacks {
            if !stack.frames.iter().any(|f| filter.text(f)) && !filter.text(&stack.cause) {
                continue;
            }
            let head = format!("by {}, innermost first", stack.cause);
            let frames = stack.lines().map(|f| format!("  {f}"));
            for (i, text) in std::iter::once(head).chain(frames).enumerate() {
                let share = match i {
                    0 => self.share(stack.shootdowns),
                    _ => String::new(),
                };
                lines.push(Line {
                    id: Id::Line(lines.len()),
                    cells: vec![share, text],
                    keys: Vec::new(),
                    mark: if i == 0 { Mark::None } else { Mark::Minor },
                });
            }
        }
        Grid {
            title: format!("Stacks {}", count(self.stacks.len() as u64)),
            note: self.sampling(),
            columns: vec![Column::number("share"), Column::name("frames")],
            lines,
            sortable: false,
            empty: "no stack yet",
        }
    }

    fn share(&self, n: u64) -> String {
        percent(n as f64 / self.sampled.max(1) as f64)
    }

    fn sampling(&self) -> String {
        seen(self.sampled, self.one_in.into())
    }
}

fn left_out(shown: usize, all: usize, filter: &Filter) -> String {
    if filter.is_empty() {
        return String::new();
    }
    passed(shown, all)
}
