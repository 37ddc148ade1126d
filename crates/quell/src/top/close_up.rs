//! One process looked at closely: its threads, regions and stacks.
//!
//! The counts tell processes apart, but not threads. So a second probe records this process alone, with the stacks of some of its
//! shootdowns, for as long as somebody looks.

use quell_event::tally_summary::{RegionRow, StackRow};
use quell_event::{Tally, TallySummary};
use serde::Serialize;

use super::count_columns::{self, CulpritActivity};
use super::filter::RowFilter;
use super::grid::{Grid, GridColumn, GridRow, RowId, RowMark, SortKey, passed_text, sampling_text};
use crate::show::units::{count, percent};

/// The shootdowns of one thread in one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ThreadShootdowns {
    pub(crate) tid: u32,
    pub(crate) comm: String,
    pub(crate) shootdowns: u64,
    pub(crate) victims: u64,
    pub(crate) wait_ns: u64,
}

/// One process in one interval of a close look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ProcessCloseUp {
    pub(crate) pid: u32,
    /// The threads with shootdowns in the interval, most shootdowns first.
    pub(crate) threads: Vec<ThreadShootdowns>,
    /// The regions of the shootdowns with stacks, since the close look began.
    pub(crate) regions: Vec<RegionRow>,
    /// The stacks of the same shootdowns.
    pub(crate) stacks: Vec<StackRow>,
    /// How many shootdowns have left a stack since the close look began.
    pub(crate) sampled: u64,
    /// One in so many shootdowns leaves a stack.
    pub(crate) one_in: u32,
    /// How many records were lost: the figures of the threads are too low by so much.
    pub(crate) lost: u64,
    /// Whether the process has ended.
    pub(crate) ended: bool,
    /// How long the interval was for the close look: its probe is read at a slightly different time.
    pub(crate) duration_ns: u64,
}

impl ProcessCloseUp {
    /// The table of threads.
    pub(crate) fn thread_grid(&self, filter: &RowFilter) -> Grid {
        let shown = self
            .threads
            .iter()
            .filter(|t| filter.passes_named(&t.comm, t.tid));
        let lines: Vec<GridRow> = shown
            .map(|t| {
                let did = CulpritActivity {
                    shootdowns: t.shootdowns,
                    victims: t.victims,
                    wait_ns: t.wait_ns,
                    id: t.tid,
                    comm: &t.comm,
                };
                GridRow {
                    id: RowId::Thread(t.tid),
                    cells: did.cell_texts(self.duration_ns),
                    keys: did.sort_keys(),
                    mark: RowMark::None,
                }
            })
            .collect();
        let mut note = filter_note(lines.len(), self.threads.len(), filter);
        if self.lost > 0 {
            note = format!("{} records lost: too low", count(self.lost));
        }
        Grid {
            title: format!("Threads {}", count(self.threads.len() as u64)),
            note,
            columns: CulpritActivity::culprit_columns("tid"),
            lines,
            sortable: true,
            empty: "no shootdown in this interval",
        }
    }

    /// The table of causes. They are exact, since they come from the counts.
    pub(crate) fn cause_grid(&self, tally: &Tally, filter: &RowFilter) -> Grid {
        let of = |c: &&quell_event::CulpritTally| c.pid == self.pid && filter.passes_cause(c);
        let tally = Tally {
            duration_ns: tally.duration_ns,
            culprits: tally.culprits.iter().filter(of).cloned().collect(),
            ..Tally::default()
        };
        count_columns::cause_grid(&TallySummary::new(&tally, "", 0), String::new())
    }

    /// The table of the regions at the ranges of its shootdowns.
    pub(crate) fn region_grid(&self, filter: &RowFilter) -> Grid {
        let shown = self
            .regions
            .iter()
            .filter(|r| filter.passes_text(&r.region));
        let lines: Vec<GridRow> = shown
            .enumerate()
            .map(|(i, r)| GridRow {
                id: RowId::Line(i),
                cells: vec![self.sampled_share(r.shootdowns), r.region.to_string()],
                keys: vec![
                    SortKey::Number(r.shootdowns),
                    SortKey::Text(r.region.to_string()),
                ],
                mark: RowMark::None,
            })
            .collect();
        Grid {
            title: format!("Regions {}", count(self.regions.len() as u64)),
            note: self.sampling_note(),
            columns: vec![
                GridColumn::of_numbers("share"),
                GridColumn::of_names("region"),
            ],
            lines,
            sortable: true,
            empty: "no stack yet",
        }
    }

    /// The table of stacks, with one frame a row.
    pub(crate) fn stack_grid(&self, filter: &RowFilter) -> Grid {
        let mut lines = Vec::new();
        for stack in &self.stacks {
            if !stack.frames.iter().any(|f| filter.passes_text(f))
                && !filter.passes_text(&stack.cause)
            {
                continue;
            }
            let head = format!("by {}, innermost first", stack.cause);
            let frames = stack.lines().map(|f| format!("  {f}"));
            for (i, text) in std::iter::once(head).chain(frames).enumerate() {
                let share = match i {
                    0 => self.sampled_share(stack.shootdowns),
                    _ => String::new(),
                };
                lines.push(GridRow {
                    id: RowId::Line(lines.len()),
                    cells: vec![share, text],
                    keys: Vec::new(),
                    mark: if i == 0 {
                        RowMark::None
                    } else {
                        RowMark::Minor
                    },
                });
            }
        }
        Grid {
            title: format!("Stacks {}", count(self.stacks.len() as u64)),
            note: self.sampling_note(),
            columns: vec![
                GridColumn::of_numbers("share"),
                GridColumn::of_names("frames"),
            ],
            lines,
            sortable: false,
            empty: "no stack yet",
        }
    }

    fn sampled_share(&self, n: u64) -> String {
        percent(n as f64 / self.sampled.max(1) as f64)
    }

    fn sampling_note(&self) -> String {
        sampling_text(self.sampled, self.one_in.into())
    }
}

fn filter_note(shown: usize, all: usize, filter: &RowFilter) -> String {
    if filter.is_empty() {
        return String::new();
    }
    passed_text(shown, all)
}
