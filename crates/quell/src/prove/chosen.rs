//! The plan to be proved: the user's own, or the changes that win time among all that could help.

use std::time::Instant;

use quell_event::account::AccountSummary;
use quell_remedy::advice::Advised;
use quell_remedy::{Plan, Planned, Proposal};
use quell_stats::{Looks, MIN_ROUNDS};

use super::failed::FailedRun;
use super::job::ProveJob;
use super::left_out::{self, LeftOut};
use super::limits::ProofLimits;
use super::memory::MemoryBudget;
use super::metric::{self, ProofMetric};
use super::tried::{TriedChange, distinct_labels};
use super::{measure, proof, search};
use crate::cli::ProveArgs;
use crate::launch::Setup;
use crate::plan;
use crate::show::units::plural;
use crate::target::seconds;
use crate::usage::usage;

/// No more changes than this are tried. The first are for the origins that cost the most.
const MAX_CANDIDATES: usize = 12;

/// The plan to be proved, and everything that was learnt while it was chosen.
#[derive(Default)]
pub(super) struct Chosen {
    pub(super) plan: Plan,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) observed: Option<quell_remedy::Evidence>,
    pub(super) account: Option<AccountSummary>,
    /// Advice for costs that no setting reaches.
    pub(super) advice: Vec<Advised>,
    pub(super) notes: Vec<String>,
    pub(super) tried: Vec<TriedChange>,
    pub(super) interrupted: Option<i32>,
    /// The reason why there is nothing to prove, where that is known already.
    pub(super) nothing: Option<String>,
}

impl Chosen {
    /// A plan that the user gave.
    pub(super) fn of_given_plan(plan: Plan, job: &ProveJob<'_>) -> Self {
        let mut chosen = Self {
            plan,
            ..Self::default()
        };
        chosen.take_preload_out(job);
        chosen
    }

    fn take_preload_out(&mut self, job: &ProveJob<'_>) {
        self.left_out = left_out::take_preload_out(&mut self.plan, job.argv);
        for one in &self.left_out {
            job.progress.say(&one.report_line());
        }
    }
}

/// Reads the bounds that a user sets.
///
/// # Errors
///
/// The runs are too few to try and prove anything, or a time is invalid.
pub(super) fn read_limits(
    args: &ProveArgs,
    looks: &Looks,
    began: Instant,
) -> anyhow::Result<ProofLimits> {
    // The proof takes a warm-up with the plan, the pairs, and a pair for the account.
    let proof = 2 * looks.first() + 3;
    // Before it come the observed run, one to warm up, and a race of one candidate.
    let fewest = proof + 2 + 2 * MIN_ROUNDS;
    if let Some(runs) = args.runs.filter(|runs| *runs < fewest) {
        return Err(usage(format!(
            "--runs {runs}: to try one change and prove it in {} takes {fewest}",
            plural(looks.first() as u64, "pair")
        )));
    }
    let budget = args.budget_time.map(|s| seconds("--budget-time", s));
    Ok(ProofLimits {
        runs: args.runs,
        until: budget.transpose()?.map(|budget| began + budget),
        proof,
    })
}

/// Makes the observed run, and races all changes that could help for those that win time. The winners are the plan. With
/// `--no-try` nothing races, and the plan is what the observed run suggests. A plan without remedies is a result too, mostly with
/// its reason in [`Chosen::nothing`].
pub(super) fn choose_plan(
    job: &ProveJob<'_>,
    metrics: &[ProofMetric],
    args: &ProveArgs,
    limits: ProofLimits,
    seed: u64,
) -> anyhow::Result<Chosen> {
    job.progress
        .log_line(&format!("observing {}", job.quoted_command()));
    let seen = measure::run_observed(job, metrics, Setup::NONE)?;
    // A figure that the program prints may depend on a stall that its CPU time and wall time don't show.
    let is_time = !metrics.iter().any(ProofMetric::is_from_output);
    let options = quell_remedy::PlanOptions {
        without_gain: !is_time,
        ..args.budget.unwrap_or_default().options()
    };
    let Proposal { plan, candidates } =
        quell_remedy::choose_remedies(&seen.found, &seen.evidence, &options, &plan::own_variable);
    let mut chosen = Chosen {
        plan,
        observed: Some(seen.evidence),
        account: seen.account,
        advice: seen.advice,
        notes: seen.notes,
        ..Chosen::default()
    };
    chosen.nothing = proof::nothing_at_stake(chosen.account.as_ref()).filter(|_| is_time);
    if chosen.nothing.is_some() {
        chosen.plan.remedies.clear();
        return Ok(chosen);
    }
    chosen.take_preload_out(job);
    if args.no_try {
        return Ok(chosen);
    }
    let forms: Vec<Vec<Planned>> = candidates.iter().map(|one| vec![one.clone()]).collect();
    for (one, label) in candidates.iter().zip(distinct_labels(&forms)) {
        job.progress.say(&plan::could_help(one, &label));
    }
    let left_out = &chosen.left_out;
    let again = |kept: &[Planned], setup: &Setup| {
        let names: Vec<&str> = kept.iter().map(|c| c.remedy.as_str()).collect();
        let names = names.join(" and ");
        job.progress
            .log_line(&format!("observing {} with {names}", job.quoted_command()));
        job.progress.more_runs(1);
        let seen = match measure::run_observed(job, metrics, setup) {
            // It ran with this a few times before, so the pairs will show whether it really breaks.
            Err(err) if err.is::<FailedRun>() => return Ok(Vec::new()),
            seen => seen?,
        };
        if is_time && proof::nothing_at_stake(seen.account.as_ref()).is_some() {
            return Ok(Vec::new());
        }
        // The variables as that run had them.
        let env = |name: &str| {
            let set = setup.env.iter().find(|(n, _)| n == name);
            match set {
                Some((_, value)) => value.to_str().map(str::to_owned),
                None => plan::own_variable(name),
            }
        };
        let more = quell_remedy::choose_remedies(&seen.found, &seen.evidence, &options, &env);
        Ok(to_try(&Plan::default(), more.candidates, left_out))
    };
    let search = search::PlanSearch {
        job,
        metrics,
        limits,
        memory: MemoryBudget::from_options(args.budget.is_some(), &options),
        seed,
    };
    let to_try = to_try(&chosen.plan, candidates, left_out);
    let could_help = to_try.len();
    let searched = search.find_winners(to_try, &again)?;
    chosen.plan.remedies = searched.kept;
    chosen.interrupted = searched.interrupted;
    chosen.notes.extend(searched.notes);
    if searched.interrupted.is_some() {
        chosen.nothing = Some(proof::NOT_PROVED.to_owned());
    } else if chosen.plan.remedies.is_empty() && !searched.tried.is_empty() {
        let objective = metric::Objective(metrics);
        chosen.nothing = Some(proof::nothing_won(searched.tried.len(), objective.name()));
    } else if searched.tried.is_empty() && could_help > 0 {
        chosen.nothing = Some(proof::nothing_tried(could_help));
    }
    chosen.tried = searched.tried;
    Ok(chosen)
}

/// The candidates of a race: the whole plan where it has several parts, and each single change that was not left out, at most
/// [`MAX_CANDIDATES`] of both.
fn to_try(plan: &Plan, candidates: Vec<Planned>, left_out: &[LeftOut]) -> Vec<Vec<Planned>> {
    let is_out = |one: &Planned| left_out.iter().any(|l| l.planned.sets == one.sets);
    let singles = candidates.into_iter().filter(|one| !is_out(one));
    let whole = (plan.remedies.len() > 1).then(|| plan.remedies.clone());
    let singles = singles.map(|one| vec![one]);
    whole
        .into_iter()
        .chain(singles)
        .take(MAX_CANDIDATES)
        .collect()
}
