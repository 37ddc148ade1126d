//! Questions over the traces of many hosts: what of a tree is asked, and what its processes and stacks say of code.

mod choice;
mod code;
pub(crate) mod json;
pub(crate) mod text;

use anyhow::Context as _;
use quell_event::trace::Trace;
use quell_fleet::{Answer, Engine, Prepared, Remedy};
use quell_remedy::table;

pub(crate) use choice::{Choice, choose, of_the_future};

/// What was asked, and of what.
pub(crate) struct Asked<'a> {
    pub(crate) engine: Engine,
    pub(crate) choice: &'a Choice,
    /// Traces that were passed over, by why.
    pub(crate) passed: &'a std::collections::BTreeMap<&'static str, u64>,
    pub(crate) answers: &'a [Answer],
}

/// Fills a folder with what the views are of. `told` is called before each trace, and it ends early where it is `stopped`.
///
/// # Errors
///
/// A trace can't be read, or the folder not written to.
pub(crate) fn prepare(
    choice: &Choice,
    mut prepared: Prepared,
    mut told: impl FnMut(),
    stopped: &dyn Fn() -> bool,
) -> anyhow::Result<String> {
    for row in table::table() {
        prepared.remedy(&Remedy {
            asker: row.asker.to_owned(),
            cause: row.cause.name().to_owned(),
            remedy: row.remedy,
            permille: row.permille,
        })?;
    }
    for (found, period) in &choice.traces {
        told();
        anyhow::ensure!(!stopped(), "interrupted");
        let number = prepared.trace(found, *period)?;
        let read =
            || -> anyhow::Result<code::Flat> { code::read(&Trace::open(&found.dir)?, number) };
        let flat = read().with_context(|| format!("can't read {}", found.dir.display()))?;
        for process in &flat.processes {
            prepared.process(process)?;
        }
        for stack in &flat.stacks {
            prepared.stack(stack)?;
        }
    }
    prepared.end()
}
