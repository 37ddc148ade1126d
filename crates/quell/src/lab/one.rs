//! One experiment on this machine.

use std::io;

use quell_lab::around::Surroundings;
use quell_lab::experiment;
use quell_lab::mechanism::Mechanism;
use quell_lab::params::Params;
use quell_lab::round::{Invalid, Options};
use quell_lab::summary::Summary;
use quell_lab::system::Guarded;

use super::{Around, Live, Progress, guard, machine};

/// What became of an experiment.
#[derive(Debug)]
pub(crate) enum Ran {
    /// It has its result.
    Done(Box<Summary>),
    /// This machine can't run it: why.
    Cant(String),
    /// It failed half-way, which says nothing of others.
    Failed(anyhow::Error),
}

/// Runs one, and sends each block where `live` goes. Beside what became of it is what could not be taken back of what
/// was set up for it.
pub(crate) fn one(
    m: &'static Mechanism,
    params: &Params,
    options: &Options,
    live: Option<&Live>,
) -> (Ran, Option<io::Error>) {
    if let Some(why) = (m.takes)(params).lacks() {
        return (Ran::Cant(why), None);
    }
    let guarded = match Guarded::set_up(&mut guard(), m.needs) {
        Ok(guarded) => guarded,
        Err(why) => return (Ran::Cant(why.to_string()), None),
    };
    let ran = match (m.lacks)() {
        Some(why) => Ran::Cant(why),
        None => match measured(m, params, options, live) {
            Ok(summary) => Ran::Done(Box::new(summary)),
            Err(err) => Ran::Failed(err),
        },
    };
    let back = guarded.map_or(Ok(()), Guarded::take_back);
    (ran, back.err())
}

fn measured(
    m: &'static Mechanism,
    params: &Params,
    options: &Options,
    live: Option<&Live>,
) -> anyhow::Result<Summary> {
    let around = Around {
        progress: Progress::new(m.name, options.budget),
        live: live.map(|live| live.of(m)),
        allocator: None,
    };
    within(m, params, options, &around)
}

/// Runs one that needs nothing of the system, with this around it.
pub(super) fn within(
    m: &'static Mechanism,
    params: &Params,
    options: &Options,
    around: &dyn Surroundings,
) -> anyhow::Result<Summary> {
    let outcome = experiment::run(m, params, options, around)?;
    let machine = machine(options.victim_cpu, options.culprit_cpu);
    let summary = Summary::new(m, params, options, machine, &outcome);
    let failed: usize = summary
        .arms
        .values()
        .filter_map(|arm| arm.invalid.get(Invalid::Failed.why()))
        .sum();
    if failed > 0 {
        say!(
            "quell: {failed} blocks of {} don't count: an operation failed in them",
            m.name
        );
    }
    Ok(summary)
}
