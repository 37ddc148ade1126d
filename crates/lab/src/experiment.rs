//! An experiment: rounds of blocks, one of each arm, in an order that chance decides, until the effect is known well
//! enough or the time is spent.

use std::io;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use quell_event::Backtraces;
use quell_stats::Rng;

use crate::arm::{Arm, MIN_VALID_ROUNDS};
use crate::failures::FailureStreaks;
use crate::gap_owners::ExperimentProcesses;
use crate::host_api::ExperimentHost;
use crate::judge::{self, Judgement, LabVerdict};
use crate::measure_block::ExperimentWorkers;
use crate::mechanism::{OperationTiming, StallMechanism};
use crate::params::Params;
use crate::protocol::{WorkerRole, WorkerSetup};
use crate::round::{ExperimentOptions, Round, is_valid_round};
use crate::worker_handle::WorkerHandle;

/// All that was measured.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Round by round.
    pub rounds: Vec<Round>,
    /// The processes that took the victim's time in them.
    pub processes: ExperimentProcesses,
    /// Whether somebody ended it early.
    pub interrupted: bool,
    /// The kernel's functions on both sides, where they were asked for.
    pub backtraces: Option<Backtraces>,
    /// A remark on where the culprit ran.
    pub note: Option<String>,
    /// A turn of the victim that took so long was a gap.
    pub gap_limit_ns: u64,
}

/// Runs an experiment, and judges all of its rounds.
///
/// # Errors
///
/// If a worker or the probe fails, in words that say at which step.
pub fn run_experiment(
    mechanism: &'static StallMechanism,
    params: &Params,
    options: &ExperimentOptions,
    around: &dyn ExperimentHost,
) -> anyhow::Result<(Outcome, Judgement)> {
    let began = Instant::now();
    let mut outcome = Outcome::default();
    let judged = match add_rounds(mechanism, params, options, around, &mut outcome) {
        Err(err) if is_interruption(&err) => {
            // It was interrupted before there was a round.
            outcome.interrupted = true;
            None
        }
        done => done?,
    };
    let rounds = &outcome.rounds;
    let mut judgement =
        judged.unwrap_or_else(|| judge::judge_rounds(mechanism, params, options.mode, rounds));
    if judgement.real.verdict == LabVerdict::TooShort && !outcome.interrupted {
        let why = &mut judgement.real.why;
        if options.rounds == 0 {
            let took = began.elapsed().as_secs_f64() / rounds.len().max(1) as f64;
            let seconds = (took * (MIN_VALID_ROUNDS + 1) as f64).ceil();
            *why =
                format!("{why} fitted into the budget: --budget {seconds:.0}s has room for them");
        }
    }
    Ok((outcome, judgement))
}

fn is_interruption(err: &anyhow::Error) -> bool {
    err.chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|err| err.kind() == io::ErrorKind::Interrupted)
}

/// Adds round after round, until the effect is known well, the time is over, or somebody wants it to end. It returns the judgement
/// of all rounds, where the last look was at all of them: to judge takes time, so it is not done twice.
fn add_rounds(
    mechanism: &'static StallMechanism,
    params: &Params,
    options: &ExperimentOptions,
    around: &dyn ExperimentHost,
    outcome: &mut Outcome,
) -> anyhow::Result<Option<Judgement>> {
    let started = Instant::now();
    let mut until = started + options.budget;
    let stop = around.stop_requested();
    let mut options = options.clone();
    options.block = mechanism.timing.block_time().unwrap_or(options.block);
    let options = &options;
    let setup = |role| WorkerSetup {
        mechanism: mechanism.name.to_owned(),
        params: params.clone(),
        role,
        culprit_cpu: options.culprit_cpu,
        victim_cpu: options.victim_cpu,
        mode: options.mode,
    };
    let start = |role| {
        WorkerHandle::start_worker(&mut around.worker_command(), &setup(role), stop)
            .with_context(|| format!("can't prepare {}", mechanism.name))
    };
    let mut workers = ExperimentWorkers {
        both: start(WorkerRole::Both)?,
        sham: start(WorkerRole::Culprit)?,
        stop,
    };
    outcome.gap_limit_ns = workers.both.ready().limit_ns;
    outcome.note.clone_from(&workers.both.ready().note);
    outcome.processes =
        ExperimentProcesses::new(workers.both.pid(), workers.sham.pid(), mechanism.daemons);
    // Stacks cost microseconds each, which only matters where there are many.
    let stacks = matches!(mechanism.timing, OperationTiming::Once { .. });
    let mut watch =
        around.start_watch(options.victim_cpu, workers.both.ready().victim_tid, stacks)?;
    let mut rng = Rng::new(options.seed);
    let mut took = Duration::ZERO;
    let mut judgement = None;
    let mut look = judge::next_look(0, None).unwrap_or_default();
    let mut failures = FailureStreaks::default();
    loop {
        let began = Instant::now();
        let mut arms = Arm::ALL;
        rng.shuffle(&mut arms);
        let mut round = Vec::new();
        let mut interrupted = false;
        for arm in arms {
            if stop() {
                break;
            }
            let block = workers
                .measure_block(arm, options, mechanism, &mut *watch)
                .with_context(|| format!("the {} arm of {}", arm.name(), mechanism.name));
            let block = match failures.accept_block(arm, block) {
                Err(err) if is_interruption(&err) => {
                    interrupted = true;
                    break;
                }
                block => block?,
            };
            outcome.processes.learn_names(&block.block);
            around.block_done(&block);
            round.push(block);
        }
        interrupted |= stop();
        // A part of a round compares nothing.
        if round.len() == arms.len() {
            outcome.rounds.push(round);
        }
        took = took.max(began.elapsed());
        let valid = outcome
            .rounds
            .iter()
            .filter(|round| is_valid_round(round))
            .count();
        // A stretched budget is one that nobody asked for; a machine that lets too few rounds count ends it too.
        let counted = options.rounds > 0;
        if options.may_stretch
            && !counted
            && valid < MIN_VALID_ROUNDS
            && outcome.rounds.len() < 2 * MIN_VALID_ROUNDS
        {
            let left = u32::try_from(MIN_VALID_ROUNDS - valid).unwrap_or(1);
            let needed = Instant::now() + took.saturating_mul(left + 1);
            if needed > until {
                until = needed;
                around.budget_stretched(started.elapsed() + took.saturating_mul(left + 1));
            }
        }
        let mut enough = false;
        let looked = outcome.rounds.len() >= look;
        if looked {
            let now = judge::judge_rounds(mechanism, params, options.mode, &outcome.rounds);
            let next = judge::next_look(outcome.rounds.len(), Some(&now));
            enough = next.is_none();
            look = next.unwrap_or(look);
            judgement = Some(now);
        }
        around.round_done(&outcome.rounds, look, judgement.as_ref());
        let counted_out = counted && outcome.rounds.len() >= options.rounds;
        if interrupted || enough || counted_out || Instant::now() + took > until {
            outcome.interrupted = interrupted;
            outcome.backtraces = watch.backtraces(workers.both.pid())?;
            return Ok(judgement.filter(|_| looked));
        }
    }
}
