//! One experiment on this machine.

use quell_lab::experiment::{self, Options};
use quell_lab::mechanism::Mechanism;
use quell_lab::params::Params;
use quell_lab::summary::Summary;
use quell_lab::system::Guarded;

use super::{Around, Live, Progress, guard, machine};

/// Runs one, and sends each block where `live` goes; the inner error is why this machine can't.
pub(crate) fn one(
    m: &'static Mechanism,
    params: &Params,
    options: &Options,
    live: Option<&Live>,
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
        live: live.map(|live| live.of(m)),
    };
    let outcome = experiment::run(m, params, options, &around)?;
    drop(guarded);
    let machine = machine(options.victim_cpu, options.culprit_cpu);
    Ok(Ok(Summary::new(m, params, options, machine, &outcome)))
}
