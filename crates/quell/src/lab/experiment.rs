//! One experiment on this machine.

use quell_lab::experiment;
use quell_lab::host_api::ExperimentHost;
use quell_lab::mechanism::StallMechanism;
use quell_lab::params::Params;
use quell_lab::round::{ExperimentOptions, InvalidReason};
use quell_lab::summary::ExperimentSummary;
use quell_lab::system::GuardedSettings;

use super::{ExperimentProgress, InfluxStream, LabHost, guard_command, this_machine};

/// The end of an experiment.
#[derive(Debug)]
pub(crate) enum ExperimentEnd {
    /// It has its result.
    Done(Box<ExperimentSummary>),
    /// This machine can't run it, for this reason.
    CantRun(String),
    /// It failed half-way, which says nothing of others.
    Failed(anyhow::Error),
}

/// Runs an experiment, and sends each block where `live` goes. Beside its end it returns whether all that was set up for it was
/// taken back; where it was not, it says so.
pub(crate) fn run_one_experiment(
    m: &'static StallMechanism,
    params: &Params,
    options: &ExperimentOptions,
    live: Option<&InfluxStream>,
) -> (ExperimentEnd, bool) {
    if let Some(why) = (m.takes)(params).shortage() {
        return (ExperimentEnd::CantRun(why), true);
    }
    let guarded = match GuardedSettings::set_up(&mut guard_command(), m.needs) {
        Ok(guarded) => guarded,
        Err(why) => return (ExperimentEnd::CantRun(why.to_string()), true),
    };
    let ran = match (m.lacks)() {
        Some(why) => ExperimentEnd::CantRun(why),
        None => match measure_with_progress(m, params, options, live) {
            Ok(summary) => ExperimentEnd::Done(Box::new(summary)),
            Err(err) => ExperimentEnd::Failed(err),
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

fn measure_with_progress(
    m: &'static StallMechanism,
    params: &Params,
    options: &ExperimentOptions,
    live: Option<&InfluxStream>,
) -> anyhow::Result<ExperimentSummary> {
    let around = LabHost {
        progress: ExperimentProgress::new(m.name, options.budget),
        live: live.map(|live| live.begin_experiment(m)),
        allocator: None,
    };
    measure_experiment(m, params, options, &around)
}

/// Runs an experiment that needs nothing of the system, or has it already, and sums it up.
pub(super) fn measure_experiment(
    m: &'static StallMechanism,
    params: &Params,
    options: &ExperimentOptions,
    around: &dyn ExperimentHost,
) -> anyhow::Result<ExperimentSummary> {
    let (outcome, judged) = experiment::run_experiment(m, params, options, around)?;
    let machine = this_machine(options.victim_cpu, options.culprit_cpu);
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
