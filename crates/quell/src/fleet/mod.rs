//! Questions over the traces of many hosts: what of a tree is asked, and what its processes and stacks say of code.

mod account;
mod choice;
mod code;
pub(crate) mod json;
pub(crate) mod text;
mod wins;

use quell_event::trace::Trace;
use quell_fleet::{Engine, PreparedFolder, QuestionAnswer, RemedyRow};
use quell_remedy::table;

pub(crate) use choice::{Choice, choose, of_the_future};

/// What was asked, and of what.
pub(crate) struct Asked<'a> {
    pub(crate) engine: Engine,
    pub(crate) choice: &'a Choice,
    /// Traces that were passed over, by why.
    pub(crate) passed: &'a std::collections::BTreeMap<&'static str, u64>,
    pub(crate) answers: &'a [QuestionAnswer],
}

/// Fills a folder with what the views are of. `told` is called before each trace, and it ends early where it is `stopped`.
/// Traces whose tables say too little are taken out of the choice and told to `passed`: why by a word, and in a line.
///
/// # Errors
///
/// The folder can't be written to.
pub(crate) fn prepare(
    choice: &mut Choice,
    mut prepared: PreparedFolder,
    mut told: impl FnMut(),
    stopped: &dyn Fn() -> bool,
    mut passed: impl FnMut(&'static str, String),
) -> anyhow::Result<String> {
    for row in table::table() {
        prepared.add_remedy(&RemedyRow {
            asker: row.asker.to_owned(),
            cause: row.cause.name().to_owned(),
            remedy: row.remedy,
            permille: row.permille,
        })?;
    }
    for (found, period) in std::mem::take(&mut choice.traces) {
        told();
        anyhow::ensure!(!stopped(), "interrupted");
        let number = choice.traces.len() as u64;
        let flat = match Trace::open(&found.dir).and_then(|trace| code::read(&trace, number)) {
            Ok(flat) => flat,
            // it was read before: it has gone or changed meanwhile
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
        for process in &flat.processes {
            prepared.add_process(process)?;
        }
        for stack in &flat.stacks {
            prepared.add_stack(stack)?;
        }
        for row in &flat.account {
            prepared.add_account(row)?;
        }
        for row in &flat.wins {
            prepared.add_win(row)?;
        }
    }
    prepared.end()
}
