//! What `quell prove` does: observe, plan, run in pairs, judge, say.
//!
//! ```text
//! sample::observe ─> quell_remedy::choose ─> search::Search ─> pairs::Runs ─> proof::judge ─> text, json
//!        │                                  what wins time        │     ↑ what is left of the plan
//!        │                                   a run with it failed └> mend::mend, by blame::find
//!        └──── job::run, watched by watch::Watcher
//! ```

mod blame;
pub(crate) mod failed;
mod job;
mod json;
pub(crate) mod left_out;
mod mend;
mod metric;
mod pairs;
pub(crate) mod plan_text;
mod progress;
mod proof;
mod sample;
mod search;
mod short;
mod spent;
pub(crate) mod temp;
mod text;
mod watch;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};

use quell_event::account::AccountSummary;
use quell_remedy::{Plan, Planned};
use quell_stats::FEWEST_PAIRS;

use crate::cli::ProveArgs;
use crate::cmd::usage;
use crate::evidence;
use crate::launch;
use crate::show::Replace;
use crate::target::seconds;

pub(crate) use job::{Job, Load};
pub(crate) use json::{Remedy, json};
use left_out::LeftOut;
use metric::Metric;
use pairs::{Pairs, Ran, Runs};
use progress::Progress;
pub(crate) use proof::Proof;
use search::Tried;
pub(crate) use text::text;

/// More changes than this are not tried: the first are of the dearest origins.
const MOST_CANDIDATES: usize = 12;

/// More pairs than anyone waits for.
const MOST_PAIRS: usize = 10_000;

/// What was proved, and the signal that cut it short, if one did.
pub(crate) struct Outcome {
    pub(crate) proof: Proof,
    pub(crate) interrupted: Option<i32>,
}

/// Does all of it, but for printing.
pub(crate) fn prove(args: &ProveArgs) -> anyhow::Result<Outcome> {
    let metrics = metric::all(&args.metric)?;
    let timeout = seconds("--timeout", args.timeout)?;
    if args.pairs == 0 || args.pairs > MOST_PAIRS {
        return Err(usage(format!(
            "--pairs {}: give a number from 1 to {MOST_PAIRS}",
            args.pairs
        )));
    }
    let given = args.plan.as_deref().map(plan_text::read).transpose()?;
    // Whether it can be written is known before hours of runs, and what is written after them.
    let save = args.save.as_deref().map(|path| Replace::new(Some(path)));
    let save = save.transpose()?;
    launch::check(&args.command)?;
    launch::signals::install()?;
    // One that is observed or a warm-up, one to warm up with the plan, the pairs, and a pair for the account.
    let progress = Progress::new(4 + 2 * args.pairs);
    let job = Job {
        argv: &args.command,
        load: load(args),
        timeout,
        longest_plain: Cell::new(None),
        progress: &progress,
        said_leftovers: Cell::new(false),
    };
    if args.pairs < FEWEST_PAIRS {
        progress.say(&format!(
            "with fewer than {FEWEST_PAIRS} pairs nothing can be claimed, whatever changes"
        ));
    }
    // Chance decides the orders; printed, so that it can be told again. Of 32 bits, which any JSON reader
    // holds exactly.
    let seed = RandomState::new().hash_one(std::process::id()) >> 32;
    let chosen = match given {
        Some(plan) => Chosen::given(plan, &job),
        None => choose(&job, &metrics, args, seed)?,
    };
    let Chosen {
        mut plan,
        mut left_out,
        observed,
        account,
        mut notes,
        tried,
        interrupted,
        mut nothing,
    } = chosen;
    if let Some(note) = evidence::not_loaded(&args.command, &mend::environment(&plan)?) {
        progress.say(&note);
    }
    let mut ran = Pairs {
        interrupted,
        ..Pairs::default()
    };
    match &observed {
        _ if nothing.is_some() => {}
        Some(evidence) if plan.remedies.is_empty() && left_out.is_empty() => {
            nothing = Some(proof::why_nothing(&plan, evidence));
        }
        _ => {
            ran = run_what_works(&job, &metrics, &mut plan, &mut left_out, args.pairs, seed)?;
            if plan.remedies.is_empty() && !left_out.is_empty() {
                nothing = Some(proof::NOTHING_LEFT.to_owned());
            }
        }
    }
    if let (Some(save), Some(path)) = (save, &args.save) {
        plan_text::write(&plan, save, path)?;
    }
    let environment = mend::environment(&plan)?;
    let pairs = ran.pairs;
    if ran.interrupted.is_some() && interrupted.is_none() {
        let note = format!("interrupted after {} of {} pairs", pairs.len(), args.pairs);
        notes.insert(0, note);
    }
    notes.extend(plan_text::merged(&environment, &plan_text::own_env));
    notes.extend(evidence::not_loaded(&args.command, &environment));
    notes.extend(plan.notes.iter().cloned());
    let same = |(name, value): (&String, &String)| plan_text::own_env(name).as_ref() == Some(value);
    if !environment.is_empty() && environment.iter().all(same) {
        let note = "all that the plan sets is set already: both sides of a pair are the same";
        notes.push(note.to_owned());
    }
    notes.extend(ran.notes);
    let (metrics, overall) = proof::judge(&metrics, &pairs, seed);
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
        tried,
        spent: ran.spent,
        metrics,
        overall,
        nothing,
        notes,
    };
    Ok(Outcome {
        proof,
        interrupted: ran.interrupted,
    })
}

/// Runs the pairs; where the plan breaks the program, again with what is left of it, until that works or nothing is left.
fn run_what_works(
    job: &Job<'_>,
    metrics: &[Metric],
    plan: &mut Plan,
    left_out: &mut Vec<LeftOut>,
    asked: usize,
    seed: u64,
) -> anyhow::Result<Pairs> {
    // An empty plan that the user gave is run, to see what chance does; of one that was emptied there is nothing to see.
    while !plan.remedies.is_empty() || left_out.is_empty() {
        let environment = mend::environment(plan)?;
        let runs = Runs {
            job,
            metrics,
            plan,
            environment: &environment,
            asked,
            seed,
        };
        let tried = runs.run().and_then(|ran| {
            Ok(match ran {
                Ran::Pairs(pairs) => Some(pairs),
                Ran::Broke(broke) => {
                    left_out.extend(mend::mend(job, metrics, plan, &broke)?);
                    None
                }
            })
        });
        match tried {
            Ok(Some(pairs)) => return Ok(pairs),
            // The pairs are made anew: what was run with more in the plan says nothing of the rest.
            Ok(None) => job.progress.more_runs(3 + 2 * asked),
            Err(err) => return Err(after(left_out, err)),
        }
    }
    Ok(Pairs::default())
}

/// A failure, with what had been blamed for one before: it may have been blamed wrongly.
fn after(left_out: &[LeftOut], err: anyhow::Error) -> anyhow::Error {
    let blamed = left_out.iter().filter(|l| l.with.runs > 0);
    let names: Vec<&str> = blamed.map(|l| l.planned.remedy.as_str()).collect();
    match err.downcast::<failed::Failed>() {
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

fn load(args: &ProveArgs) -> Option<Load> {
    // clap sees to it that both are there or none.
    args.load
        .clone()
        .zip(args.ready)
        .map(|(command, port)| Load { command, port })
}

/// What is to be proved, and how it was come by.
#[derive(Default)]
struct Chosen {
    plan: Plan,
    left_out: Vec<LeftOut>,
    observed: Option<quell_remedy::Evidence>,
    account: Option<AccountSummary>,
    notes: Vec<String>,
    tried: Vec<Tried>,
    interrupted: Option<i32>,
    /// Why there is nothing to prove, where that is known already.
    nothing: Option<String>,
}

impl Chosen {
    /// What the user chose.
    fn given(plan: Plan, job: &Job<'_>) -> Self {
        let mut chosen = Self {
            plan,
            ..Self::default()
        };
        chosen.take_preload_out(job);
        chosen
    }

    fn take_preload_out(&mut self, job: &Job<'_>) {
        self.left_out = left_out::take_preload_out(&mut self.plan, job.argv);
        for one in &self.left_out {
            job.progress.say(&one.line());
        }
    }
}

/// The observed run, and what wins time of all that could help.
fn choose(
    job: &Job<'_>,
    metrics: &[Metric],
    args: &ProveArgs,
    seed: u64,
) -> anyhow::Result<Chosen> {
    job.progress.line(&format!("observing {}", job.name()));
    let seen = sample::observe(job, metrics)?;
    let budget = args.budget.unwrap_or_default();
    let quell_remedy::Proposal { plan, candidates } = quell_remedy::choose(
        &seen.found,
        &seen.evidence,
        &budget.options(),
        &plan_text::own_env,
    );
    let mut chosen = Chosen {
        plan,
        observed: Some(seen.evidence),
        account: seen.account,
        notes: seen.notes,
        ..Chosen::default()
    };
    // A figure of the program may be of a stall that is no part of its time.
    let is_time = !metrics.iter().any(Metric::is_from_output);
    chosen.nothing = proof::nothing_at_stake(chosen.account.as_ref()).filter(|_| is_time);
    if chosen.nothing.is_some() {
        chosen.plan.remedies.clear();
        return Ok(chosen);
    }
    chosen.take_preload_out(job);
    if args.no_try {
        return Ok(chosen);
    }
    let searched = search::Search {
        job,
        metrics,
        run: seen.run,
        seed,
    }
    .search(to_try(&chosen.plan, candidates, &chosen.left_out))?;
    chosen.plan.remedies = searched.kept;
    chosen.interrupted = searched.interrupted;
    if searched.interrupted.is_some() {
        chosen.nothing = Some(proof::NOT_PROVED.to_owned());
    } else if chosen.plan.remedies.is_empty() && !searched.tried.is_empty() {
        let objective = metric::objective(metrics);
        chosen.nothing = Some(proof::nothing_won(searched.tried.len(), objective.name()));
    }
    chosen.tried = searched.tried;
    Ok(chosen)
}

/// What races: the whole plan where it has several parts, and each single change, but for what was left out.
fn to_try(plan: &Plan, candidates: Vec<Planned>, left_out: &[LeftOut]) -> Vec<Vec<Planned>> {
    let is_out = |one: &Planned| left_out.iter().any(|l| l.planned.sets == one.sets);
    let singles = candidates.into_iter().filter(|one| !is_out(one));
    let whole = (plan.remedies.len() > 1).then(|| plan.remedies.clone());
    let singles = singles.map(|one| vec![one]);
    whole
        .into_iter()
        .chain(singles)
        .take(MOST_CANDIDATES)
        .collect()
}

/// What `quell prove` and `quell plan` print of an environment in JSON.
pub(crate) type Environment = BTreeMap<String, String>;
