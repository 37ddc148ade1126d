//! One experiment on this machine.

use quell_lab::experiment::{self, Options, Surroundings};
use quell_lab::mechanism::Mechanism;
use quell_lab::params::Params;
use quell_lab::summary::Summary;
use quell_lab::system::Guarded;

use super::{Around, Progress, guard, machine};

/// Runs one; the inner error is why this machine can't.
pub(crate) fn one(
    m: &'static Mechanism,
    params: &Params,
    options: &Options,
) -> anyhow::Result<Result<Summary, String>> {
    let guarded = match Guarded::set_up(&mut guard(), m.needs) {
        Ok(guarded) => guarded,
        Err(why) => return Ok(Err(why.to_string())),
    };
    if let Some(why) = (m.lacks)() {
        return Ok(Err(why));
    }
    let around = Around {
        progress: Progress::new(m.name, options.budget),
        allocator: None,
    };
    let summary = within(m, params, options, &around)?;
    drop(guarded);
    Ok(Ok(summary))
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
    Ok(Summary::new(m, params, options, machine, &outcome))
}
