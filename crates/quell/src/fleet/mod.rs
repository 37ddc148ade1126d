//! Questions over the traces of many hosts: the choice of traces, and the tables that their processes and stacks fill.

mod account;
mod choice;
mod code;
pub(crate) mod json;
pub(crate) mod text;
mod wins;

use quell_event::trace::Trace;
use quell_fleet::{Engine, PreparedFolder, QuestionAnswer, RemedyRow};
use quell_remedy::table;

pub(crate) use choice::{TraceChoice, choose_traces, of_the_future};

/// The answers, with the traces and the engine that they come from.
pub(crate) struct FleetAnswers<'a> {
    pub(crate) engine: Engine,
    pub(crate) choice: &'a TraceChoice,
    /// The number of traces that were passed over, by reason.
    pub(crate) passed: &'a std::collections::BTreeMap<&'static str, u64>,
    pub(crate) answers: &'a [QuestionAnswer],
}

/// Fills a folder with the tables under the views, and returns its path. `on_trace` is called before each trace, and `stopped`
/// ends it early. Traces with unusable tables are taken out of the choice and handed to `passed`, with the reason as a word and
/// as a line. A trace's number in the tables is its place among those that are left in the choice.
///
/// # Errors
///
/// The folder can't be written to, or `stopped` ended it; the choice has only the traces until then.
pub(crate) fn fill_tables(
    choice: &mut TraceChoice,
    mut prepared: PreparedFolder,
    mut on_trace: impl FnMut(),
    stopped: &dyn Fn() -> bool,
    mut passed: impl FnMut(&'static str, String),
) -> anyhow::Result<String> {
    for row in table::table() {
        prepared.add_rows(&[RemedyRow {
            asker: row.asker.to_owned(),
            cause: row.cause.name().to_owned(),
            remedy: row.remedy,
            permille: row.permille,
        }])?;
    }
    for (found, period) in std::mem::take(&mut choice.traces) {
        on_trace();
        anyhow::ensure!(!stopped(), "interrupted");
        let number = choice.traces.len() as u64;
        let flat =
            match Trace::open(&found.dir).and_then(|trace| code::flatten_trace(&trace, number)) {
                Ok(flat) => flat,
                // It was read before, so it has gone or changed meanwhile.
                Err(err) => {
                    passed("unreadable", format!("{err:#}"));
                    continue;
                }
            };
        if let Some((why, line)) = flat.wrong {
            passed(why, format!("{}: {line}", found.dir.display()));
            continue;
        }
        prepared.add_trace(&found, period)?;
        choice.traces.push((found, period));
        prepared.add_rows(&flat.processes)?;
        prepared.add_rows(&flat.stacks)?;
        prepared.add_rows(&flat.account)?;
        prepared.add_rows(&flat.wins)?;
    }
    prepared.end()
}
