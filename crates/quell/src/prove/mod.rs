//! The work of `quell prove`: observe, plan, run in pairs, judge, report.
//!
//! ```text
//!            ┌──── further changes to try ────┐
//!            ↓                                │
//! run_observed ─> choose_remedies ──────> PlanSearch ─> PairRunner ─> judge_metrics ─> text, json
//!            │                              winners        │    ↑ rest of the plan
//!            │                     a run with it failed    └> mend_plan, by find_blame
//!            └──── ProveJob::run, watched by a RunWatcher
//! ```

mod blame;
mod chosen;
mod entrant;
pub(crate) mod failed;
mod job;
mod json;
pub(crate) mod left_out;
mod limits;
mod measure;
mod memory;
mod memory_shortage;
mod mend;
mod metric;
mod pair_accounts;
mod pairs;
mod progress;
mod proof;
mod sample;
mod search;
mod text;
mod tried;
mod watch;

use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Instant;

use quell_remedy::Plan;
use quell_stats::{Looks, MIN_PAIRS};

use crate::cli::ProveArgs;
use crate::launch;
use crate::plan;
use crate::preload::fitness;
use crate::show::Replace;
use crate::target::seconds;
use crate::usage::usage;

use chosen::Chosen;
pub(crate) use job::{ProveJob, ServerLoad};
pub(crate) use json::proof_json;
use left_out::LeftOut;
use pairs::{ComparedPairs, PairRunner, PairsOutcome, ProofTask};
use progress::RunProgress;
pub(crate) use proof::Proof;
pub(crate) use text::proof_text;

/// Nobody would wait for more pairs.
const MAX_PAIRS: usize = 10_000;

/// The proof, and the signal that cut it short, if one did.
pub(crate) struct ProveOutcome {
    pub(crate) proof: Proof,
    pub(crate) interrupted: Option<i32>,
}

/// Runs the whole proof; printing is the caller's.
pub(crate) fn prove(args: &ProveArgs) -> anyhow::Result<ProveOutcome> {
    let began = Instant::now();
    let metrics = metric::all_metrics(&args.metric)?;
    let timeout = seconds("--timeout", args.timeout)?;
    if let Some(pairs) = args.pairs.filter(|n| *n == 0 || *n > MAX_PAIRS) {
        return Err(usage(format!(
            "--pairs {pairs}: give a number from 1 to {MAX_PAIRS}"
        )));
    }
    let looks = args.pairs.map_or_else(Looks::while_open, Looks::once);
    let limits = chosen::read_limits(args, &looks, began)?;
    let given = args.plan.as_deref().map(plan::read_plan).transpose()?;
    // The file is checked before hours of runs, and written after them.
    let save = args.save.as_deref().map(|path| Replace::new(Some(path)));
    let save = save.transpose()?;
    launch::check_command(&args.command)?;
    launch::signals::install_handlers()?;
    // An observed run or a warm-up, a warm-up with the plan, the pairs, and a pair for the account.
    let progress = RunProgress::new(4 + 2 * looks.first());
    let job = ProveJob {
        argv: &args.command,
        load: server_load(args),
        timeout,
        longest_plain: Cell::new(None),
        runs: Cell::new(0),
        progress: &progress,
        said_leftovers: Cell::new(false),
    };
    if looks.first() < MIN_PAIRS {
        progress.say(&format!(
            "with fewer than {MIN_PAIRS} pairs nothing can be claimed, whatever changes"
        ));
    }
    // The seed decides the orders of the pairs, and is printed so that a proof can be repeated. It has 32 bits, which any
    // JSON reader holds exactly.
    let seed = RandomState::new().hash_one(std::process::id()) >> 32;
    let chosen = match given {
        Some(plan) => Chosen::of_given_plan(plan, &job),
        None => chosen::choose_plan(&job, &metrics, args, limits, seed)?,
    };
    let Chosen {
        mut plan,
        mut left_out,
        observed,
        account,
        advice,
        mut notes,
        tried,
        interrupted,
        mut nothing,
    } = chosen;
    if let Some(note) = fitness::not_loaded(&args.command, &mend::environment_of(&plan)?) {
        progress.say(&note);
    }
    let mut ran = ComparedPairs {
        interrupted,
        ..ComparedPairs::default()
    };
    match &observed {
        _ if nothing.is_some() => {}
        // A plan that is empty because remedies were left out goes on below, where it gets another reason.
        Some(evidence) if plan.remedies.is_empty() && left_out.is_empty() => {
            nothing = Some(proof::why_nothing(&plan, evidence, account.as_ref()));
        }
        _ => {
            let task = ProofTask {
                job: &job,
                metrics: &metrics,
                looks: &looks,
                limits,
                seed,
            };
            ran = run_what_works(&task, &mut plan, &mut left_out)?;
            if plan.remedies.is_empty() && !left_out.is_empty() {
                nothing = Some(proof::NOTHING_LEFT.to_owned());
            }
        }
    }
    if let (Some(save), Some(path)) = (save, &args.save) {
        plan::write_plan(&plan, save, path)?;
    }
    let environment = mend::environment_of(&plan)?;
    let pairs = ran.pairs;
    if ran.interrupted.is_some() && interrupted.is_none() {
        let note = format!(
            "interrupted after {} of {} pairs",
            pairs.len(),
            ran.intended
        );
        notes.insert(0, note);
    }
    notes.extend(plan::overridden_settings(&environment, &plan::own_variable));
    notes.extend(fitness::not_loaded(&args.command, &environment));
    notes.extend(plan.notes.iter().cloned());
    let same = |(name, value): (&String, &String)| plan::own_variable(name).as_ref() == Some(value);
    if !environment.is_empty() && environment.iter().all(same) {
        let note = "all that the plan sets is set already: both sides of a pair are the same";
        notes.push(note.to_owned());
    }
    notes.extend(ran.notes);
    let (metrics, overall) = proof::judge_metrics(&metrics, &pairs, &looks, seed);
    let words = args.command.iter();
    let proof = Proof {
        command: words.map(|w| w.to_string_lossy().into_owned()).collect(),
        pairs: pairs.len(),
        seed,
        plan,
        left_out,
        environment,
        observed,
        account,
        advice,
        tried,
        spent: ran.spent,
        metrics,
        overall,
        nothing,
        notes,
    };
    Ok(ProveOutcome {
        proof,
        interrupted: ran.interrupted,
    })
}

/// Runs the pairs. Where the plan breaks the program, they are run again with the rest of it, until that works or nothing
/// is left. This ends, because [`mend::mend_plan`] takes out at least one remedy each time. `plan` and `left_out` are then the
/// plan that the pairs are of and all that was taken out of it; without any pairs nothing was left.
fn run_what_works(
    task: &ProofTask<'_>,
    plan: &mut Plan,
    left_out: &mut Vec<LeftOut>,
) -> anyhow::Result<ComparedPairs> {
    // An empty plan that the user gave is run, to show the effect of chance; one that was emptied here is not.
    while !plan.remedies.is_empty() || left_out.is_empty() {
        let environment = mend::environment_of(plan)?;
        let runs = PairRunner {
            task,
            plan,
            environment: &environment,
        };
        let tried = runs.run_pairs().and_then(|ran| {
            Ok(match ran {
                PairsOutcome::Pairs(pairs) => Some(pairs),
                PairsOutcome::BrokenPlan(broke) => {
                    left_out.extend(mend::mend_plan(task.job, task.metrics, plan, &broke)?);
                    None
                }
            })
        });
        match tried {
            Ok(Some(pairs)) => return Ok(pairs),
            // The pairs are made anew: runs with more in the plan say nothing about the rest.
            Ok(None) => task.job.progress.more_runs(3 + 2 * task.looks.first()),
            Err(err) => return Err(with_earlier_blame(left_out, err)),
        }
    }
    Ok(ComparedPairs::default())
}

/// Adds the remedies that were blamed before to a failure: the blame may have been wrong.
fn with_earlier_blame(left_out: &[LeftOut], err: anyhow::Error) -> anyhow::Error {
    let blamed = left_out.iter().filter(|l| l.with.runs > 0);
    let names: Vec<&str> = blamed.map(|l| l.planned.remedy.as_str()).collect();
    match err.downcast::<failed::FailedRun>() {
        Ok(mut failed) if !names.is_empty() => {
            let names = names.join(", ");
            failed.line.push_str(&format!(
                " (it failed before, and {names} was left out for it)"
            ));
            failed.into()
        }
        Ok(failed) => failed.into(),
        Err(err) => err,
    }
}

fn server_load(args: &ProveArgs) -> Option<ServerLoad> {
    // clap requires both options or none.
    args.load
        .clone()
        .zip(args.ready)
        .map(|(command, port)| ServerLoad { command, port })
}
