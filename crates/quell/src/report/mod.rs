//! A trace, read and summed up.

pub(crate) mod aggregate;
pub(crate) mod code;
pub(crate) mod export;
mod notes;
mod page;
pub(crate) mod regions;

use std::path::{Path, PathBuf};

use quell_event::trace::{Row, Trace};
use quell_event::{Cause, Summary};

use crate::show::units::plural;
use crate::subject::Subject;
use aggregate::Aggregate;
use code::Code;
use regions::Regions;

pub(crate) use page::html;

/// Stacks in a summary: the text shows fewer.
const STACKS: usize = 50;

/// What a trace says.
pub(crate) struct Report {
    pub(crate) title: String,
    pub(crate) summary: Summary,
    /// What the reader should know: a recording that was cut short, frames without a name.
    pub(crate) notes: Vec<String>,
    /// Where shootdowns came from, for a plan.
    pub(crate) origins: Vec<Origin>,
    /// Files that the culprits ran code from.
    pub(crate) modules: Vec<PathBuf>,
}

/// Shootdowns of one cause, called for by one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) cause: Cause,
    pub(crate) module: Option<PathBuf>,
    pub(crate) symbol: Option<String>,
    pub(crate) region: String,
    pub(crate) shootdowns: u64,
}

impl Report {
    /// Reads a trace.
    ///
    /// # Errors
    ///
    /// If it is none, or can't be read.
    pub(crate) fn open(dir: &Path) -> anyhow::Result<Self> {
        let trace = Trace::open(dir)?;
        Ok(Self::read(&trace, |_, _| {})?.0)
    }

    /// Reads a trace and hands its rows on, so that who needs more than sums needs no second pass.
    fn read(
        trace: &Trace,
        mut each: impl FnMut(&Row, &Regions<'_>),
    ) -> anyhow::Result<(Self, Code)> {
        let meta = trace.meta();
        let (processes, stacks) = (trace.processes()?, trace.stacks()?);
        let garbled = processes.garbled + stacks.garbled;
        let code = Code::new(processes.rows, stacks.rows.into_values());
        let mut aggregate = Aggregate::default();
        let regions = Regions::new(&code);
        trace.for_each(|row| {
            aggregate.take(row);
            each(row, &regions);
        })?;

        let mut notes = Vec::new();
        let cut_short = trace.cut_short();
        let saved = trace.tally();
        let rows = aggregate.tally();
        let tally = match saved {
            // counts are exact also where records were lost
            Ok(Some(tally)) if !cut_short => tally,
            saved => {
                let mut tally = rows;
                if let Err(why) = &saved {
                    notes.push(format!(
                        "{why}: what follows is counted from the events, without those that were lost."
                    ));
                }
                if let Ok(Some(saved)) = saved {
                    tally.lost = saved.lost;
                    tally.empty_sends = saved.empty_sends;
                    tally.duration_ns = tally.duration_ns.max(saved.duration_ns);
                }
                tally
            }
        };
        if garbled > 0 {
            notes.push(format!(
                "The trace is damaged: {} of its processes and stacks can't be read and {} left out.",
                plural(garbled, "line"),
                if garbled == 1 { "is" } else { "are" },
            ));
        }
        if let Ok(every) = meta.stacks.parse::<u64>() {
            notes.push(format!(
                "Stacks were taken of one in {every} shootdowns: code is of those only."
            ));
        }
        if cut_short {
            notes
                .push("The recording was cut short: this is all up to its last second.".to_owned());
        }
        let mut summary = Summary::new(&tally, &meta.backend, meta.cpus);
        aggregate.add_threads(&mut summary);
        summary.regions = aggregate.regions(&regions);
        summary.stacks = aggregate.stacks(&code, STACKS);
        notes.extend(notes::notes(&code, aggregate.user_stacks()));
        let subject = Subject {
            scope: meta.scope.clone(),
            command: meta.command.clone(),
        };
        let origins = aggregate.origins(&code, &regions);
        let report = Self {
            title: subject.title(),
            summary,
            notes,
            origins,
            modules: code.modules(),
        };
        Ok((report, code))
    }
}
