//! Mends a plan: finds the remedies that break the program, by runs of the program, and takes them out.

use std::collections::BTreeMap;

use quell_remedy::{Plan, Planned};

use super::blame::{self, BlameResult, BlamedRemedy};
use super::failed::FailedRun;
use super::job::ProveJob;
use super::left_out::LeftOut;
use super::measure;
use super::metric::ProofMetric;
use super::pairs::BrokenPlan;
use crate::plan::{self, Environment};
use crate::preload;

/// The variables that a plan sets for a program, put over the user's own, with the path of the preload library.
pub(super) fn environment_of(plan: &Plan) -> anyhow::Result<Environment> {
    let mut environment = plan.environment(&plan::own_variable);
    preload::put_library_path(&mut environment)?;
    Ok(environment)
}

/// Takes the remedies that broke the program out of a plan, at least one, and says so.
///
/// # Errors
///
/// The program fails without the plan too, which is a [`FailedRun`] that says so, or something around a run failed.
pub(super) fn mend_plan(
    job: &ProveJob<'_>,
    metrics: &[ProofMetric],
    plan: &mut Plan,
    broke: &BrokenPlan,
) -> anyhow::Result<Vec<LeftOut>> {
    let BrokenPlan { end, when, worked } = broke;
    job.progress.say(&format!(
        "{end} in {when}: looking for the remedy that does it"
    ));
    let mut run = |with: &[usize]| -> anyhow::Result<Option<FailedRun>> {
        let part = part_of(plan, with);
        let setup = plan::setup_of(&environment_of(&part)?, &part);
        let when = in_words(plan, with);
        job.progress.more_runs(1);
        job.progress
            .log_line(&format!("looking for what breaks it: {when}"));
        let ran = measure::run_counted(job, &setup, metrics, &when);
        match ran.map_err(|err| err.downcast::<FailedRun>()) {
            Ok(_) => Ok(None),
            Err(Ok(failed)) if failed.end.is_some() => {
                job.progress.end_run();
                Ok(Some(failed))
            }
            Err(Ok(failed)) => Err(failed.into()),
            Err(Err(other)) => Err(other),
        }
    };
    let order = most_suspicious_first(plan);
    let found = blame::find_blame(&order, *worked, end.clone(), &mut run)?;
    match found {
        BlameResult::ByItself(mut failed) => {
            failed
                .line
                .push_str(&format!(", as in {when}: it fails by itself"));
            Err(failed.into())
        }
        BlameResult::Remedies(guilty) => {
            let out = take_out(plan, &guilty);
            for one in &out {
                job.progress.say(&one.report_line());
            }
            Ok(out)
        }
    }
}

/// The part of a plan that has the remedies at these indexes, in the plan's order.
fn part_of(plan: &Plan, with: &[usize]) -> Plan {
    let chosen =
        |(place, planned): (usize, &Planned)| with.contains(&place).then(|| planned.clone());
    Plan {
        remedies: plan
            .remedies
            .iter()
            .enumerate()
            .filter_map(chosen)
            .collect(),
        notes: Vec::new(),
    }
}

/// The indexes of a plan's remedies. A library that runs inside the program comes first, because it can do the most harm.
fn most_suspicious_first(plan: &Plan) -> Vec<usize> {
    let preloads = |place: &usize| {
        let planned = plan.remedies.get(*place);
        planned.is_some_and(|p| p.sets.contains_key("LD_PRELOAD"))
    };
    let (mut first, rest): (Vec<usize>, Vec<usize>) = (0..plan.remedies.len()).partition(preloads);
    first.extend(rest);
    first
}

/// Says for people which run of the search this is.
fn in_words(plan: &Plan, with: &[usize]) -> String {
    let name = |place: usize| {
        let planned = plan.remedies.get(place);
        planned.map_or("", |p| p.remedy.as_str())
    };
    let missing: Vec<usize> = (0..plan.remedies.len())
        .filter(|place| !with.contains(place))
        .collect();
    match (with, missing.as_slice()) {
        ([], _) => "a run without the plan".to_owned(),
        (_, []) => "a run with the whole plan again".to_owned(),
        ([one], _) => format!("a run with {} alone", name(*one)),
        (_, [one]) => format!("a run with the plan without {}", name(*one)),
        _ => "a run with a part of the plan".to_owned(),
    }
}

fn take_out(plan: &mut Plan, guilty: &[BlamedRemedy]) -> Vec<LeftOut> {
    let guilty: BTreeMap<usize, &BlamedRemedy> = guilty.iter().map(|g| (g.remedy, g)).collect();
    let mut out = Vec::new();
    for (place, planned) in std::mem::take(&mut plan.remedies).into_iter().enumerate() {
        match guilty.get(&place) {
            Some(guilty) => out.push(LeftOut::after_runs(planned, guilty)),
            None => plan.remedies.push(planned),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let planned = |remedy: &str, variable: &str| Planned {
            remedy: remedy.into(),
            sets: BTreeMap::from([(variable.to_owned(), "1".to_owned())]),
            ..Planned::default()
        };
        Plan {
            remedies: vec![
                planned("a", "A"),
                planned("b", "LD_PRELOAD"),
                planned("c", "C"),
            ],
            notes: vec!["a note".into()],
        }
    }

    /// Check that a remedy with a library is tried first, and that runs are named by the remedies that they lack or have.
    #[test]
    fn order_and_words() {
        let plan = plan();
        assert_eq!(most_suspicious_first(&plan), [1, 0, 2]);
        for (with, words) in [
            (&[][..], "a run without the plan"),
            (&[0, 1, 2], "a run with the whole plan again"),
            (&[0, 2], "a run with the plan without b"),
            (&[2], "a run with c alone"),
        ] {
            assert_eq!(in_words(&plan, with), words);
        }
        assert_eq!(part_of(&plan, &[0, 2]).environment(&|_| None).len(), 2);
    }
}
