//! `quell prove`: finds the costs, makes a plan, runs with and without it in pairs, and reports the change.

use std::process::ExitCode;

use quell_stats::Verdict;

use crate::cli::ProveArgs;
use crate::outcome::by_signal;
use crate::prove::failed::FailedRun;
use crate::prove::{self, prove};
use crate::show::{self, emit};

/// The status is 0 only where the plan is proved to be better, and 1 where it is not, also where nothing was to be tried.
pub(crate) fn run(args: &ProveArgs) -> anyhow::Result<ExitCode> {
    // The output is opened before hours of runs, not after them.
    let mut out = show::output(args.output.as_deref())?;
    let outcome = match prove(args) {
        Ok(outcome) => outcome,
        Err(err) => return show_failed_run(err),
    };
    let proof = &outcome.proof;
    let text = if args.json {
        prove::proof_json(proof)?
    } else {
        prove::proof_text(proof, args.save.as_deref())
    };
    emit(&mut out, &text)?;
    Ok(match outcome.interrupted {
        Some(signal) => by_signal(signal),
        None if proof.overall.verdict == Verdict::Better => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    })
}

/// Prints the error of a run that failed, and below it the end of the run's output.
fn show_failed_run(err: anyhow::Error) -> anyhow::Result<ExitCode> {
    if let Some(failed) = err.downcast_ref::<FailedRun>() {
        let code = super::complain(&err);
        say_on!("{}", failed.output_tail());
        return Ok(code);
    }
    Err(err)
}
