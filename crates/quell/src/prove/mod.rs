//! What `quell prove` does: observe, plan, run in pairs, judge, say.
//!
//! ```text
//! sample::observe ─> quell_remedy::plan ─> sample::measure, in pairs ─> proof::judge ─> text, json
//!        └──────────────── job::run, watched by watch::Watcher ┘
//! ```

pub(crate) mod failed;
mod job;
mod json;
mod metric;
pub(crate) mod plan_text;
mod progress;
mod proof;
mod sample;
mod short;
pub(crate) mod temp;
mod text;
mod watch;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};

use quell_remedy::{Evidence, Plan};
use quell_stats::{FEWEST_PAIRS, Order, orders};

use crate::cli::{Budget, ProveArgs};
use crate::cmd::usage;
use crate::evidence;
use crate::launch::{self, Setup};
use crate::preload;
use crate::target::seconds;

pub(crate) use job::{Job, Load};
pub(crate) use json::{Remedy, json};
use metric::Metric;
use progress::Progress;
pub(crate) use proof::Proof;
use sample::Sample;
use short::Short;
pub(crate) use text::text;

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
    launch::check(&args.command)?;
    launch::signals::install()?;
    let progress = Progress::new(2 + 2 * args.pairs);
    let job = Job {
        argv: &args.command,
        load: load(args),
        timeout,
        progress: &progress,
        said_leftovers: Cell::new(false),
    };
    if args.pairs < FEWEST_PAIRS {
        progress.say(&format!(
            "with fewer than {FEWEST_PAIRS} pairs nothing can be claimed, whatever changes"
        ));
    }
    let (plan, observed, notes) = match given {
        Some(plan) => {
            progress.set_runs(1 + 2 * args.pairs);
            (plan, None, Vec::new())
        }
        None => choose(&job, &metrics, args.budget.unwrap_or_default())?,
    };
    if let Some(path) = &args.save {
        plan_text::save(&plan, path)?;
    }
    let mut environment = plan.environment(&plan_text::own_env);
    preload::resolve(&mut environment)?;
    let not_loaded = evidence::not_loaded(&args.command, &environment);
    if let Some(note) = &not_loaded {
        progress.say(note);
    }
    let mut proof = Proof {
        command: args
            .command
            .iter()
            .map(|w| w.to_string_lossy().into_owned())
            .collect(),
        pairs: 0,
        // Chance decides the orders; printed, so that it can be told again.
        // Of 32 bits, which any JSON reader holds exactly.
        seed: RandomState::new().hash_one(std::process::id()) >> 32,
        notes: [
            notes,
            plan_text::merged(&environment, &plan_text::own_env),
            not_loaded.into_iter().collect(),
            plan.notes.clone(),
        ]
        .concat(),
        nothing: None,
        metrics: Vec::new(),
        overall: quell_stats::overall(&[]),
        plan,
        environment,
        observed,
    };
    let same = |(name, value): (&String, &String)| plan_text::own_env(name).as_ref() == Some(value);
    if !proof.environment.is_empty() && proof.environment.iter().all(same) {
        let note = "all that the plan sets is set already: both sides of a pair are the same";
        proof.notes.push(note.to_owned());
    }
    let (mut pairs, mut interrupted) = (Vec::new(), None);
    match &proof.observed {
        Some(evidence) if proof.plan.remedies.is_empty() => {
            proof.nothing = Some(proof::why_nothing(&proof.plan, evidence));
        }
        _ => {
            let ran = run_pairs(&job, &metrics, &proof, args.pairs)?;
            (pairs, interrupted) = (ran.pairs, ran.interrupted);
            proof.notes.extend(ran.notes);
        }
    }
    proof.pairs = pairs.len();
    (proof.metrics, proof.overall) = proof::judge(&metrics, &pairs, proof.seed);
    if interrupted.is_some() {
        let note = format!("interrupted after {} of {} pairs", pairs.len(), args.pairs);
        proof.notes.insert(0, note);
    }
    Ok(Outcome { proof, interrupted })
}

fn load(args: &ProveArgs) -> Option<Load> {
    // clap sees to it that both are there or none.
    args.load
        .clone()
        .zip(args.ready)
        .map(|(command, port)| Load { command, port })
}

/// The observed run, and the plan that follows from it.
fn choose(
    job: &Job<'_>,
    metrics: &[Metric],
    budget: Budget,
) -> anyhow::Result<(Plan, Option<Evidence>, Vec<String>)> {
    job.progress.line(&format!("observing {}", job.name()));
    let seen = sample::observe(job, metrics)?;
    let plan = quell_remedy::plan_within(
        &seen.found,
        &seen.evidence,
        &budget.options(),
        &plan_text::own_env,
    );
    Ok((plan, Some(seen.evidence), seen.notes))
}

/// Of runs that shoot more often than is timed.
const ESTIMATED: &str = "of more than 15,000 shootdowns per second on a CPU only some are timed: the wait is estimated from those; shootdowns and victims are all counted";

struct RanPairs {
    pairs: Vec<(Sample, Sample)>,
    notes: Vec<String>,
    interrupted: Option<i32>,
}

/// The warm-up and the pairs. An interrupt ends them, and what is there is kept.
fn run_pairs(
    job: &Job<'_>,
    metrics: &[Metric],
    proof: &Proof,
    asked: usize,
) -> anyhow::Result<RanPairs> {
    let setup = plan_text::setup(&proof.environment, &proof.plan);
    let mut short = Short::of(&proof.environment);
    let mut ran = RanPairs {
        pairs: Vec::new(),
        notes: Vec::new(),
        interrupted: None,
    };
    let mut run = || -> anyhow::Result<()> {
        // With the plan: without it, the program has run already, when it was observed.
        job.progress.line("warming up, with the plan");
        let warm = sample::measure(job, &setup, metrics, "the warm-up, with the plan")?;
        for complaint in warm.complaints {
            let note = format!("the program refuses a setting: {complaint}");
            job.progress.say(&note);
            ran.notes.push(note);
        }
        for (index, order) in orders(asked, proof.seed).into_iter().enumerate() {
            let number = index + 1;
            let side = |setup: &Setup, which: &str| {
                sample::measure(
                    job,
                    setup,
                    metrics,
                    &format!("pair {number} of {asked}, {which} the plan"),
                )
            };
            let (before, after) = match order {
                Order::BeforeFirst => {
                    let before = side(Setup::NONE, "without")?;
                    (before, short.during(|| side(&setup, "with"))?)
                }
                Order::AfterFirst => {
                    let after = short.during(|| side(&setup, "with"))?;
                    (side(Setup::NONE, "without")?, after)
                }
            };
            job.progress.line(&format!(
                "pair {number} of {asked}: {}",
                in_a_line(metrics, &before, &after)
            ));
            ran.pairs.push((before, after));
        }
        Ok(())
    };
    let done = run();
    ran.notes.extend(short.note());
    if ran.pairs.iter().any(|(a, b)| a.estimated || b.estimated) {
        ran.notes.push(ESTIMATED.to_owned());
    }
    match done {
        // What a few pairs say is said; without any there is nothing to say.
        Err(err) if err.is::<failed::Interrupted>() && !ran.pairs.is_empty() => {
            ran.interrupted = err.downcast_ref::<failed::Interrupted>().map(|i| i.0);
            Ok(ran)
        }
        Err(err) => Err(err),
        Ok(()) => Ok(ran),
    }
}

/// A pair, for a log: shootdowns, faults and the time.
fn in_a_line(metrics: &[Metric], before: &Sample, after: &Sample) -> String {
    let shown = metrics.iter().zip(before.values.iter().zip(&after.values));
    let shown = shown.filter(|(m, _)| {
        ["shootdowns", "page_faults", "wall_ns"].contains(&m.name.as_str()) || m.is_from_output()
    });
    let parts: Vec<String> = shown
        .map(|(m, (b, a))| {
            format!(
                "{} {} to {}",
                m.name_in_text(),
                m.unit.show(*b),
                m.unit.show(*a)
            )
        })
        .collect();
    parts.join(", ")
}

/// What `quell prove` and `quell plan` print of an environment in JSON.
pub(crate) type Environment = BTreeMap<String, String>;
