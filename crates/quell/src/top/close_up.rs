//! One process looked at closely: its threads, regions and stacks.
//!
//! The counts tell processes apart, but not threads. So a second probe records this process alone, with the stacks of some of its
//! shootdowns, for as long as somebody looks.

use quell_event::tally_summary::{RegionRow, StackRow};
use quell_event::{Tally, TallySummary};
use serde::Serialize;

use super::count_columns::{self, culprit_columns};
use super::filter::RowFilter;
use super::grid::{
    ColumnHead, Grid, GridColumn, GridRow, RowId, RowMark, passed_text, sampling_text,
};
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
        let passes = |t: &&ThreadShootdowns| filter.passes_named(&t.comm, t.tid);
        let shown: Vec<_> = self.threads.iter().filter(passes).collect();
        let columns = culprit_columns(
            self.duration_ns,
            |t: &&ThreadShootdowns| [t.shootdowns, t.victims, t.wait_ns],
            "tid",
            |t| t.tid,
            |t| t.comm.clone(),
        );
        Grid {
            title: format!("Threads {}", count(self.threads.len() as u64)),
            note: match self.lost {
                0 if filter.is_empty() => String::new(),
                0 => passed_text(shown.len(), self.threads.len()),
                lost => format!("{} records lost: too low", count(lost)),
            },
            empty: "no shootdown in this interval",
            ..Grid::of_rows(&shown, columns, |t| RowId::Thread(t.tid))
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
        type Column<'a> = GridColumn<'a, (usize, &'a RegionRow)>;
        let passes = |r: &&RegionRow| filter.passes_text(&r.region);
        let shown: Vec<_> = self.regions.iter().filter(passes).enumerate().collect();
        let columns = vec![
            Column::of_counts("share", |(_, r)| r.shootdowns)
                .with_text(|(_, r)| self.sampled_share(r.shootdowns)),
            Column::of_names("region", |(_, r)| r.region.to_string()),
        ];
        Grid {
            title: format!("Regions {}", count(self.regions.len() as u64)),
            note: self.sampling_note(),
            empty: "no stack yet",
            ..Grid::of_rows(&shown, columns, |(at, _)| RowId::Line(*at))
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
                ColumnHead {
                    title: "share",
                    right: true,
                    ..ColumnHead::default()
                },
                ColumnHead {
                    title: "frames",
                    ascending: true,
                    ..ColumnHead::default()
                },
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
