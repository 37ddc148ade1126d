//! One experiment on this machine.

use quell_lab::experiment;
use quell_lab::host_api::ExperimentHost;
use quell_lab::mechanism::StallMechanism;
use quell_lab::params::Params;
use quell_lab::round::{ExperimentOptions, InvalidReason};
use quell_lab::summary::ExperimentSummary;
use quell_lab::system::GuardedSettings;

use super::{Around, Live, Progress, guard, machine};

/// The end of an experiment.
#[derive(Debug)]
pub(crate) enum Ran {
    /// It has its result.
    Done(Box<ExperimentSummary>),
    /// This machine can't run it: why.
    Cant(String),
    /// It failed half-way, which says nothing of others.
    Failed(anyhow::Error),
}

/// Runs an experiment, and sends each block where `live` goes. Beside its end it returns whether all that was set up for it was
/// taken back; where it was not, it says so.
pub(crate) fn one(
    m: &'static StallMechanism,
    params: &Params,
    options: &ExperimentOptions,
    live: Option<&Live>,
) -> (Ran, bool) {
    if let Some(why) = (m.takes)(params).shortage() {
        return (Ran::Cant(why), true);
    }
    let guarded = match GuardedSettings::set_up(&mut guard(), m.needs) {
        Ok(guarded) => guarded,
        Err(why) => return (Ran::Cant(why.to_string()), true),
    };
    let ran = match (m.lacks)() {
        Some(why) => Ran::Cant(why),
        None => match measured(m, params, options, live) {
            Ok(summary) => Ran::Done(Box::new(summary)),
            Err(err) => Ran::Failed(err),
        },
    };
    (ran, take_back(guarded))
}

/// Has the settings taken back, and says which could not be; returns whether all were.
pub(super) fn take_back(guarded: Option<GuardedSettings>) -> bool {
    let back = guarded.map_or(Ok(()), GuardedSettings::take_back);
    if let Err(left) = &back {
        say!("quell: {left}");
    }
    back.is_ok()
}

fn measured(
    m: &'static StallMechanism,
    params: &Params,
    options: &ExperimentOptions,
    live: Option<&Live>,
) -> anyhow::Result<ExperimentSummary> {
    let around = Around {
        progress: Progress::new(m.name, options.budget),
        live: live.map(|live| live.of(m)),
        allocator: None,
    };
    within(m, params, options, &around)
}

/// Runs one that needs nothing of the system, with this around it.
pub(super) fn within(
    m: &'static StallMechanism,
    params: &Params,
    options: &ExperimentOptions,
    around: &dyn ExperimentHost,
) -> anyhow::Result<ExperimentSummary> {
    let (outcome, judged) = experiment::run_experiment(m, params, options, around)?;
    let machine = machine(options.victim_cpu, options.culprit_cpu);
    let summary = ExperimentSummary::new(m, params, options, machine, &outcome, &judged);
    let failed: usize = summary
        .arms
        .values()
        .filter_map(|arm| arm.invalid.get(InvalidReason::Failed.reason()))
        .sum();
    if failed > 0 {
        say!(
            "quell: {failed} blocks of {} don't count: an operation failed in them",
            m.name
        );
    }
    Ok(summary)
}
