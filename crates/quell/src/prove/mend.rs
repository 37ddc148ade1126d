//! A plan without what breaks the program: the search for it, on the program itself.

use std::collections::BTreeMap;

use quell_remedy::{Plan, Planned};

use super::blame::{self, Found, Guilty};
use super::failed::Failed;
use super::job::Job;
use super::left_out::LeftOut;
use super::measure;
use super::metric::Metric;
use super::pairs::Broke;
use crate::plan::{self, Environment};
use crate::preload;

/// What a program gets of a plan: its variables over the user's, with the library's file named.
pub(super) fn environment(plan: &Plan) -> anyhow::Result<Environment> {
    let mut environment = plan.environment(&plan::own_variable);
    preload::resolve(&mut environment)?;
    Ok(environment)
}

/// Takes out of a plan what broke the program, and says so. Never nothing.
///
/// # Errors
///
/// The program fails without the plan too, or something around a run failed.
pub(super) fn mend(
    job: &Job<'_>,
    metrics: &[Metric],
    plan: &mut Plan,
    broke: &Broke,
) -> anyhow::Result<Vec<LeftOut>> {
    let Broke { end, when, worked } = broke;
    job.progress.say(&format!(
        "{end} in {when}: looking for the remedy that does it"
    ));
    let mut run = |with: &[usize]| -> anyhow::Result<Option<Failed>> {
        let part = part(plan, with);
        let setup = plan::setup_of(&environment(&part)?, &part);
        let when = in_words(plan, with);
        job.progress.more_runs(1);
        job.progress
            .line(&format!("looking for what breaks it: {when}"));
        let ran = measure::measure(job, &setup, metrics, &when);
        match ran.map_err(|err| err.downcast::<Failed>()) {
            Ok(_) => Ok(None),
            Err(Ok(failed)) if failed.end.is_some() => {
                job.progress.done();
                Ok(Some(failed))
            }
            Err(Ok(failed)) => Err(failed.into()),
            Err(Err(other)) => Err(other),
        }
    };
    let order = most_suspicious_first(plan);
    let found = blame::find(&order, *worked, end.clone(), &mut run)?;
    match found {
        Found::ByItself(mut failed) => {
            failed
                .line
                .push_str(&format!(", as in {when}: it fails by itself"));
            Err(failed.into())
        }
        Found::Remedies(guilty) => {
            let out = take_out(plan, &guilty);
            for one in &out {
                job.progress.say(&one.line());
            }
            Ok(out)
        }
    }
}

/// A plan's remedies at these places, in its order.
fn part(plan: &Plan, with: &[usize]) -> Plan {
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

/// Places in a plan. A library that runs in the program comes first, for it can do the most to it.
fn most_suspicious_first(plan: &Plan) -> Vec<usize> {
    let preloads = |place: &usize| {
        let planned = plan.remedies.get(*place);
        planned.is_some_and(|p| p.sets.contains_key("LD_PRELOAD"))
    };
    let (mut first, rest): (Vec<usize>, Vec<usize>) = (0..plan.remedies.len()).partition(preloads);
    first.extend(rest);
    first
}

/// Which run of the search it is.
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

fn take_out(plan: &mut Plan, guilty: &[Guilty]) -> Vec<LeftOut> {
    let guilty: BTreeMap<usize, &Guilty> = guilty.iter().map(|g| (g.remedy, g)).collect();
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

    /// Check that a remedy with a library is looked at first, and that runs are named by what they lack or have.
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
        assert_eq!(part(&plan, &[0, 2]).environment(&|_| None).len(), 2);
    }
}
