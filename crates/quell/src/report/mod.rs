//! A trace, read and summed up.

pub(crate) mod aggregate;
pub(crate) mod code;
pub(crate) mod export;
mod mappings;
mod notes;
mod page;
pub(crate) mod places;
mod progress;
pub(crate) mod regions;

use std::path::{Path, PathBuf};

use quell_event::trace::Trace;
use quell_event::{Cause, Summary};

use crate::show::units::plural;
use crate::subject::Subject;
use aggregate::{Aggregate, Summing};
use code::Code;
use places::Places;
use progress::Progress;

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

/// Sums up the rows of a trace and reads what it knows of code; last the number of lines of that
/// which can't be read.
///
/// # Errors
///
/// If it can't be read.
pub(crate) fn read(trace: &Trace) -> anyhow::Result<(Aggregate, Code, u64)> {
    let (code, garbled) = Code::read(trace)?;
    let progress = Progress::new(trace.rows());
    let mut sum = Aggregate::default();
    let summing = || Summing::new(code.mappings());
    for one in trace.sum(summing, &|rows| progress.set(rows))? {
        sum.add(one.sum);
    }
    drop(progress);
    Ok((sum, code, garbled))
}

impl Report {
    /// Reads a trace.
    ///
    /// # Errors
    ///
    /// If it is none, or can't be read.
    pub(crate) fn open(dir: &Path) -> anyhow::Result<Self> {
        let trace = Trace::open(dir)?;
        let (sum, code, garbled) = read(&trace)?;
        Ok(Self::new(&trace, &sum, &code, garbled))
    }

    /// What the sums over all rows of a trace say.
    pub(crate) fn new(trace: &Trace, sum: &Aggregate, code: &Code, garbled: u64) -> Self {
        let meta = trace.meta();
        let mut notes = Vec::new();
        let cut_short = trace.cut_short();
        let saved = trace.tally();
        let lost_known = matches!(saved, Ok(Some(_)));
        let mut rows = sum.tally();
        // rows have the names of threads
        let culprits = rows.culprits.iter_mut().map(|c| (c.pid, &mut c.comm));
        let victims = rows.victims.iter_mut().map(|v| (v.pid, &mut v.comm));
        for (pid, comm) in culprits.chain(victims) {
            if let Some(process) = code.process(pid).filter(|p| !p.comm.is_empty()) {
                comm.clone_from(&process.comm);
            }
        }
        let tally = match saved {
            // counts are exact also where records were lost
            Ok(Some(tally)) if !cut_short => tally,
            saved => {
                let mut tally = rows;
                let missing = match &saved {
                    Err(why) => Some(why.to_string()),
                    Ok(None) => Some("The trace has no counts (tally.json)".to_owned()),
                    Ok(Some(_)) => None,
                };
                if let Some(missing) = missing {
                    notes.push(format!(
                        "{missing}: all figures are counted from the events, without those that were lost, and how \
                         many were lost is not known."
                    ));
                }
                if let Ok(Some(saved)) = saved {
                    tally.lost = saved.lost;
                    tally.empty_sends = saved.empty_sends;
                    tally.calls = saved.calls;
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
        summary.lost_known = lost_known;
        sum.add_threads(&mut summary);
        let places = Places::new(sum, code);
        summary.regions = places.regions();
        summary.stacks = places.stacks(STACKS);
        notes.extend(notes::notes(code, places.user_stacks()));
        let subject = Subject {
            scope: meta.scope.clone(),
            command: meta.command.clone(),
        };
        Self {
            title: subject.title(),
            summary,
            notes,
            origins: places.origins(),
            modules: code.modules(),
        }
    }
}
