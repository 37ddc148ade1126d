//! Finding a plan that wins time: single changes race beside plain runs, and winners are put together as long as that wins more.
//!
//! What a change does to the time of this program on this machine no table knows, and a few runs do. Which runs to make, and
//! what to keep, is decided by [`quell_stats::Race`]; here they are made. What is found is not proved by that: whoever chooses
//! the best of several is flattered by chance, so the pairs that follow are fresh runs.

use std::time::Duration;

use quell_event::Text;
use quell_remedy::{Plan, Planned};
use quell_stats::{Fate, Out, Race, RaceRules, Rng, Runner, Standing};

use super::failed::{Failed, Interrupted};
use super::job::Job;
use super::metric::{self, Metric};
use super::sample;
use super::text::change;
use super::{Environment, mend, plan_text};
use crate::launch::Setup;
use crate::show::units::{plural, time};

/// A race takes about so long, where a few rounds don't take longer.
const PATIENCE: Duration = Duration::from_secs(90);
/// Rounds of a race: with fewer nothing can be told apart, and more are for the proof.
const ROUNDS: [usize; 2] = [4, 8];

/// One thing that was tried.
#[derive(Debug, Clone)]
pub(crate) struct Tried {
    pub(crate) changes: Vec<Planned>,
    /// For people: with its settings, where several of one name were tried.
    pub(crate) label: String,
    /// Runs with it that worked.
    pub(crate) runs: usize,
    /// The objective with it over that without; 1 where no run worked.
    pub(crate) ratio: f64,
    /// 0 to infinity while there are too few runs.
    pub(crate) ci95: (f64, f64),
    pub(crate) kept: bool,
    /// Why it was kept, or was not.
    pub(crate) why: String,
    /// It ran beside runs with these, and not beside plain ones.
    pub(crate) beside: Vec<String>,
}

impl Tried {
    /// The names of its remedies.
    pub(crate) fn name(&self) -> String {
        name(&self.changes)
    }
}

/// What a search ended with.
#[derive(Default)]
pub(crate) struct Searched {
    /// What won; nothing where nothing did.
    pub(crate) kept: Vec<Planned>,
    pub(crate) tried: Vec<Tried>,
    pub(crate) interrupted: Option<i32>,
}

/// Some changes together, ready to run.
#[derive(Clone)]
struct Entrant {
    changes: Vec<Planned>,
    label: String,
    setup: Setup,
}

fn name(changes: &[Planned]) -> String {
    let names: Vec<&str> = changes.iter().map(|c| c.remedy.as_str()).collect();
    names.join(" and ")
}

/// What a change sets, in few words.
fn settings(changes: &[Planned]) -> String {
    const MOST: usize = 70;
    let all = changes.iter().flat_map(|c| c.sets.iter().chain(&c.starts));
    let all: Vec<String> = all.map(|(name, value)| format!("{name}={value}")).collect();
    Text::from(all.join(" ")).cut(MOST).to_string()
}

/// Names for people: what several have in common does not tell them apart.
fn labels(all: &[Vec<Planned>]) -> Vec<String> {
    let names: Vec<String> = all.iter().map(|changes| name(changes)).collect();
    let label = |(place, own): (usize, &String)| {
        if names.iter().filter(|n| *n == own).count() > 1 {
            format!("{own} ({})", settings(&all[place]))
        } else {
            own.clone()
        }
    };
    names.iter().enumerate().map(label).collect()
}

fn plan_of(changes: &[Planned]) -> Plan {
    Plan {
        remedies: changes.to_vec(),
        notes: Vec::new(),
    }
}

impl Entrant {
    fn new(changes: Vec<Planned>, label: String) -> anyhow::Result<Self> {
        let plan = plan_of(&changes);
        let environment: Environment = mend::environment(&plan)?;
        let setup = plan_text::setup(&environment, &plan);
        Ok(Self {
            changes,
            label,
            setup,
        })
    }

    /// Its changes, and those of another.
    fn with(&self, other: &Self) -> anyhow::Result<Self> {
        let changes = [self.changes.as_slice(), &other.changes].concat();
        Self::new(changes, format!("{} and {}", self.label, other.label))
    }
}

/// A search under way.
pub(crate) struct Search<'a> {
    pub(crate) job: &'a Job<'a>,
    pub(crate) metrics: &'a [Metric],
    /// How long the observed run took.
    pub(crate) run: Duration,
    /// What chance decides by.
    pub(crate) seed: u64,
}

impl Search<'_> {
    /// Races the candidates, and then what wins in combination with what has won.
    ///
    /// # Errors
    ///
    /// A run without any change failed, or something around the runs did.
    pub(crate) fn search(&self, candidates: Vec<Vec<Planned>>) -> anyhow::Result<Searched> {
        let mut rng = Rng::new(self.seed);
        let mut searched = Searched::default();
        let labels = labels(&candidates);
        let entrants = candidates.into_iter().zip(labels);
        let entrants = entrants.map(|(changes, label)| Entrant::new(changes, label));
        let entrants: Vec<Entrant> = entrants.collect::<anyhow::Result<_>>()?;
        let plain = Entrant::new(Vec::new(), "plain runs".to_owned())?;
        let winners = self.race(&plain, &entrants, rng.next_u64(), &mut searched)?;
        let Some((best, others)) = winners.split_first() else {
            return Ok(searched);
        };
        let mut kept = entrants[*best].clone();
        // each that won by itself is added once, the largest gain first, and stays if that wins more
        for other in others {
            let other = &entrants[*other];
            if searched.interrupted.is_some() || !is_new(&kept.changes, &other.changes) {
                continue;
            }
            let both = [kept.with(other)?];
            let won = self.race(&kept, &both, rng.next_u64(), &mut searched)?;
            if !won.is_empty() {
                [kept] = both;
            }
        }
        searched.kept = kept.changes;
        Ok(searched)
    }

    /// One race; the numbers of its winners, the best first.
    fn race(
        &self,
        baseline: &Entrant,
        entrants: &[Entrant],
        seed: u64,
        searched: &mut Searched,
    ) -> anyhow::Result<Vec<usize>> {
        let objective = metric::objective(self.metrics);
        let rules = RaceRules {
            most_rounds: self.rounds(entrants.len()),
            higher_is_better: objective.higher_is_better(),
            ..RaceRules::default()
        };
        let mut race = Race::new(entrants.len(), rules, seed);
        let runs = race.runs_left();
        self.job.progress.more_runs(runs);
        self.job.progress.say(&format!(
            "trying {} beside {}, in up to {} rounds: {} at most, about {}",
            match entrants {
                [one] => one.label.clone(),
                many => plural(many.len() as u64, "change"),
            },
            baseline.label,
            rules.most_rounds,
            plural(runs as u64, "run"),
            time(u64::try_from((self.run * runs as u32).as_nanos()).unwrap_or(u64::MAX))
        ));
        let mut ends = vec![None; entrants.len()];
        let ran = self.run(baseline, entrants, &mut race, &mut ends);
        let ran = ran.map_err(|err| err.downcast::<Interrupted>());
        match ran {
            Ok(()) => {}
            Err(Ok(Interrupted(signal))) => searched.interrupted = Some(signal),
            Err(Err(err)) => return Err(err),
        }
        let beside: Vec<String> = baseline.changes.iter().map(|c| c.remedy.clone()).collect();
        for ((entrant, standing), end) in entrants.iter().zip(race.standings()).zip(ends) {
            let tried = Tried {
                changes: entrant.changes.clone(),
                label: entrant.label.clone(),
                runs: standing.rounds,
                ratio: standing.ratio,
                ci95: standing.ci95,
                kept: standing.fate == Fate::Won,
                why: end.unwrap_or_else(|| why(&standing, objective.name())),
                beside: beside.clone(),
            };
            self.job.progress.say(&line(&tried));
            searched.tried.push(tried);
        }
        Ok(race.winners())
    }

    fn run(
        &self,
        baseline: &Entrant,
        entrants: &[Entrant],
        race: &mut Race,
        ends: &mut [Option<String>],
    ) -> anyhow::Result<()> {
        let objective = metric::objective(self.metrics);
        while let Some(group) = race.next_group() {
            let mut ran = Vec::with_capacity(group.len());
            for runner in group {
                let (entrant, when) = match runner {
                    Runner::Baseline => (baseline, "a run to compare with".to_owned()),
                    Runner::Candidate(number) => {
                        let entrant = &entrants[number];
                        (entrant, format!("a run with {}", entrant.label))
                    }
                };
                self.job.progress.line(&when);
                let measured = sample::measure(self.job, &entrant.setup, self.metrics, &when);
                let value = match (measured, runner) {
                    (Ok(sample), _) => Some(objective.value(&sample)),
                    (Err(err), Runner::Candidate(number)) => {
                        let failed = err.downcast::<Failed>()?;
                        let Some(end) = &failed.end else {
                            return Err(failed.into());
                        };
                        self.job.progress.done();
                        ends[number] = Some(format!("it breaks the program, which {end}"));
                        None
                    }
                    (Err(err), Runner::Baseline) => return Err(err),
                };
                ran.push((runner, value));
            }
            race.record(&ran);
        }
        Ok(())
    }

    /// As many rounds as there is patience for.
    fn rounds(&self, entrants: usize) -> usize {
        let runs = entrants + entrants.div_ceil(quell_stats::GROUP);
        let round = self.run.as_secs_f64() * runs as f64;
        let rounds = PATIENCE.as_secs_f64() / round.max(0.001);
        (rounds as usize).clamp(ROUNDS[0], ROUNDS[1])
    }
}

/// Whether changes add something to those that are there, and take nothing of theirs away.
fn is_new(kept: &[Planned], more: &[Planned]) -> bool {
    let sets = |changes: &[Planned]| plan_of(changes).environment(&|_| None);
    let starts = |changes: &[Planned]| plan_of(changes).starts();
    let both: Vec<Planned> = [kept, more].concat();
    let remedies = |one: &Planned| kept.iter().all(|k| k.remedy != one.remedy);
    let adds = sets(&both) != sets(kept) || starts(&both) != starts(kept);
    adds && more.iter().all(remedies)
}

/// Why something was kept or not, in words.
fn why(standing: &Standing, objective: &str) -> String {
    let rounds = plural(standing.rounds as u64, "round");
    match standing.fate {
        Fate::Won => format!("{objective} {} in {rounds}", change(standing.ratio)),
        Fate::Racing => format!("interrupted after {rounds}"),
        Fate::Out(Out::Failed) => "a run with it failed".to_owned(),
        Fate::Out(Out::Slower) => {
            format!(
                "{objective} got worse: {} in {rounds}",
                change(standing.ratio)
            )
        }
        Fate::Out(Out::NoGain) => {
            format!(
                "no gain: {objective} {} in {rounds}",
                change(standing.ratio)
            )
        }
        Fate::Out(Out::Wild { ratio }) => format!(
            "{objective} {} in the middle of {rounds}, and {} in the worst tenth",
            change(standing.ratio),
            change(ratio)
        ),
    }
}

/// A line for the log and the report.
pub(crate) fn line(tried: &Tried) -> String {
    let word = if tried.kept { "keeps" } else { "drops" };
    format!("{word} {}: {}", tried.label, tried.why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn planned(remedy: &str, variable: &str, value: &str) -> Planned {
        Planned {
            remedy: remedy.into(),
            sets: BTreeMap::from([(variable.to_owned(), value.to_owned())]),
            ..Planned::default()
        }
    }

    /// Check that a change is new unless it sets nothing more, or is another form of one that was kept.
    #[test]
    fn what_adds_something() {
        let kept = [planned("a", "A", "1")];
        assert!(is_new(&kept, &[planned("b", "B", "1")]));
        assert!(!is_new(&kept, &[planned("b", "A", "1")]));
        assert!(!is_new(&kept, &[planned("a", "A", "2")]));
        assert!(is_new(&[], &kept));
    }

    /// Check that forms of one remedy are told apart by what they set, and others by their names alone.
    #[test]
    fn forms_are_told_apart() {
        let all = [
            vec![planned("a", "A", "1")],
            vec![planned("a", "A", "2")],
            vec![planned("b", "B", "1")],
            vec![planned("a", "A", "1"), planned("b", "B", "1")],
        ];
        assert_eq!(labels(&all), ["a (A=1)", "a (A=2)", "b", "a and b"]);
    }

    /// Check that each fate is told with what was seen.
    #[test]
    fn fates_in_words() {
        let standing = |fate| Standing {
            fate,
            rounds: 4,
            ratio: 0.9,
            ci95: (0.8, 1.1),
        };
        let words = |fate| why(&standing(fate), "time");
        assert_eq!(words(Fate::Won), "time -10 % in 4 rounds");
        assert_eq!(words(Fate::Racing), "interrupted after 4 rounds");
        assert_eq!(
            words(Fate::Out(Out::NoGain)),
            "no gain: time -10 % in 4 rounds"
        );
        assert_eq!(
            words(Fate::Out(Out::Wild { ratio: 1.4 })),
            "time -10 % in the middle of 4 rounds, and +40 % in the worst tenth"
        );
    }
}
