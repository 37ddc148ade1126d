//! `quell prove`: find, plan, then run with and without in pairs; say what changed.

use std::process::ExitCode;

use quell_stats::Verdict;

use crate::cli::ProveArgs;
use crate::outcome::by_signal;
use crate::prove::failed::FailedRun;
use crate::prove::{self, prove};
use crate::show::{self, emit};

pub(crate) fn run(args: &ProveArgs) -> anyhow::Result<ExitCode> {
    // Before hours of runs, not after them.
    let mut out = show::output(args.output.as_deref())?;
    let outcome = match prove(args) {
        Ok(outcome) => outcome,
        Err(err) => return failed(err),
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

/// A run that failed shows the end of its output, below the one line.
fn failed(err: anyhow::Error) -> anyhow::Result<ExitCode> {
    if let Some(failed) = err.downcast_ref::<FailedRun>() {
        let code = super::complain(&err);
        say_on!("{}", failed.output_tail());
        return Ok(code);
    }
    Err(err)
}
