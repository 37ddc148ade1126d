//! Finds a plan that wins time: single changes race beside plain runs, and winners are combined as long as that wins more.
//!
//! No table knows the effect of a change on the time of this program on this machine, but a few runs show it.
//! [`quell_stats::Race`] decides which runs to make and which changes to keep; they are made here. A winner is not proved by
//! that: chance flatters whoever chooses the best of several, so the pairs that follow are fresh runs.

use std::time::{Duration, Instant};

use quell_remedy::Planned;
use quell_stats::{Fate, MAX_GROUP_CANDIDATES, MIN_ROUNDS, Race, RaceRules, Rng, Runner};

use super::entrant::{Entrant, is_new, without_reasons};
use super::failed::{FailedRun, Interrupted};
use super::job::ProveJob;
use super::limits::ProofLimits;
use super::measure;
use super::memory::MemoryBudget;
use super::metric::{self, ProofMetric};
use super::sample::RunSample;
use super::tried::{TriedChange, explain_standing, so_far};
use crate::launch::Setup;
use crate::show::units::{plural, time};

/// The most steps of a search: each is a race of single changes, and after a winner an observed run with the winners so far.
const MAX_STEPS: usize = 3;

/// The result of a search.
#[derive(Default)]
pub(crate) struct SearchResult {
    /// The changes that won; empty where none did.
    pub(crate) kept: Vec<Planned>,
    pub(crate) tried: Vec<TriedChange>,
    pub(crate) interrupted: Option<i32>,
    /// Further notes for the user.
    pub(crate) notes: Vec<String>,
}

/// A search under way.
pub(crate) struct PlanSearch<'a> {
    pub(crate) job: &'a ProveJob<'a>,
    pub(crate) metrics: &'a [ProofMetric],
    pub(crate) limits: ProofLimits,
    pub(crate) memory: MemoryBudget,
    /// The seed for the order of the runs.
    pub(crate) seed: u64,
}

/// Observes one run with the winners so far, and returns further changes that could help beside them.
pub(crate) type LookAgain<'a> = &'a dyn Fn(&[Planned], &Setup) -> anyhow::Result<Vec<Vec<Planned>>>;

/// The state of a search, from one race to the next.
struct SearchCourse {
    rng: Rng,
    /// The time that a run takes, by the warm-up, which had no change.
    run: Duration,
    /// The maximum memory of each run without any change, in bytes.
    plain_memory: Vec<f64>,
    /// The winners so far; at first nothing is changed.
    kept: Entrant,
    searched: SearchResult,
}

impl PlanSearch<'_> {
    /// Races the candidates, then the winners in combination, and then the changes that `again` finds beside them.
    ///
    /// # Errors
    ///
    /// A run to compare with failed, without any change or with the winners so far, or something around the runs did. An
    /// interrupt is no error: the result has it, and the winners until then.
    pub(crate) fn find_winners(
        &self,
        candidates: Vec<Vec<Planned>>,
        again: LookAgain<'_>,
    ) -> anyhow::Result<SearchResult> {
        let mut course = SearchCourse {
            rng: Rng::new(self.seed),
            run: Duration::ZERO,
            plain_memory: Vec::new(),
            kept: Entrant::new(Vec::new(), "plain runs".to_owned())?,
            searched: SearchResult::default(),
        };
        let done = self.follow_winners(&mut course, candidates, again);
        let mut searched = course.searched;
        searched.kept = course.kept.changes;
        match done.map_err(|err| err.downcast::<Interrupted>()) {
            Ok(()) => {}
            Err(Ok(Interrupted(signal))) => searched.interrupted = Some(signal),
            Err(Err(err)) => return Err(err),
        }
        searched.say_what_is_kept();
        Ok(searched)
    }

    /// Makes the steps of a search: a race, and an observed run with the winners for further candidates, until a race has no
    /// winner, no candidate is new, no runs are left, or [`MAX_STEPS`] are made. What was kept by then is in `course`, also
    /// after an error.
    fn follow_winners(
        &self,
        course: &mut SearchCourse,
        mut candidates: Vec<Vec<Planned>>,
        again: LookAgain<'_>,
    ) -> anyhow::Result<()> {
        if candidates.is_empty() {
            return Ok(());
        }
        // The observed run read files from the disk and was watched, so its time says little about that of others.
        let began = Instant::now();
        let when = "a run to warm up";
        self.job.progress.log_line(when);
        let warm = measure::run_counted(self.job, Setup::NONE, self.metrics, when)?;
        course.run = began.elapsed();
        course.plain_memory.push(warm.max_rss());
        let mut seen: Vec<Vec<Planned>> = Vec::new();
        for _ in 0..MAX_STEPS {
            seen.extend(candidates.iter().map(|c| without_reasons(c)));
            let entrants = Entrant::from_candidates(candidates)?;
            let before = course.kept.changes.len();
            self.run_step(course, &entrants)?;
            let kept = &course.kept;
            if kept.changes.len() == before {
                break;
            }
            // It takes one more observed run, and a race of one candidate.
            let needed = 1 + 2 * MIN_ROUNDS;
            if self.runs_left(course).is_some_and(|left| left < needed) {
                break;
            }
            let found = again(&kept.changes, &kept.setup)?;
            let is_untried = |changes: &Vec<Planned>| {
                is_new(&kept.changes, changes) && !seen.contains(&without_reasons(changes))
            };
            candidates = found.into_iter().filter(is_untried).collect();
            if candidates.is_empty() {
                break;
            }
            self.job.progress.say(&format!(
                "{} more to try beside {}",
                plural(candidates.len() as u64, "change"),
                kept.label
            ));
        }
        Ok(())
    }

    /// Races some changes beside the ones that are kept, and keeps those that win more.
    fn run_step(&self, course: &mut SearchCourse, singles: &[Entrant]) -> anyhow::Result<()> {
        let kept = course.kept.clone();
        let entrants = singles.iter().map(|one| kept.joined_with(one));
        let entrants: Vec<Entrant> = entrants.collect::<anyhow::Result<_>>()?;
        let winners = self.run_race(course, &kept, &entrants)?;
        let Some((best, others)) = winners.split_first() else {
            return Ok(());
        };
        course.kept = entrants[*best].clone();
        // Each that won by itself is added once, the largest gain first, and stays if the combination wins more.
        for other in others.iter().map(|other| &singles[*other]) {
            let kept = course.kept.clone();
            if !is_new(&kept.changes, &other.changes) {
                continue;
            }
            let both = [kept.joined_with(other)?];
            if !self.run_race(course, &kept, &both)?.is_empty() {
                [course.kept] = both;
            }
        }
        Ok(())
    }

    /// Runs that may still be made for trials; `None` where nothing bounds them.
    fn runs_left(&self, course: &SearchCourse) -> Option<usize> {
        self.limits
            .trial_runs_left(self.job.runs.get(), course.run, Instant::now())
    }

    /// Runs one race, and returns the indexes of its winners, the best first. Where the runs that are left are too few for all
    /// entrants, the last ones don't run, which a note says.
    fn run_race(
        &self,
        course: &mut SearchCourse,
        baseline: &Entrant,
        entrants: &[Entrant],
    ) -> anyhow::Result<Vec<usize>> {
        let left = self.runs_left(course);
        let fit = ProofLimits::max_candidates(left, MAX_GROUP_CANDIDATES, MIN_ROUNDS);
        if fit < entrants.len() {
            let names: Vec<&str> = entrants[fit..].iter().map(|e| e.label.as_str()).collect();
            let note = format!(
                "no time or no runs are left to try {} beside {}",
                names.join(", "),
                baseline.label
            );
            self.job.progress.say(&note);
            course.searched.notes.push(note);
        }
        let entrants = &entrants[..fit.min(entrants.len())];
        if entrants.is_empty() {
            return Ok(Vec::new());
        }
        let objective = metric::Objective(self.metrics);
        let a_round = entrants.len() + entrants.len().div_ceil(MAX_GROUP_CANDIDATES);
        let rounds = ProofLimits::race_rounds(left, a_round, course.run);
        let rules = RaceRules {
            most_rounds: rounds,
            open_rounds: ProofLimits::open_rounds(left, a_round, rounds),
            higher_is_better: objective.higher_is_better(),
            ..RaceRules::default()
        };
        let mut race = Race::new(entrants.len(), rules, course.rng.next_u64());
        let runs = race.runs_left();
        self.job.progress.more_runs(runs);
        let about = course
            .run
            .saturating_mul(u32::try_from(rounds * a_round).unwrap_or(u32::MAX));
        self.job.progress.say(&format!(
            "trying {} beside {}, in {} rounds, about {}; where a gain is open then, in {} more: {} at most",
            match entrants {
                [one] => one.label.clone(),
                many => plural(many.len() as u64, "change"),
            },
            baseline.label,
            rules.most_rounds,
            time(u64::try_from(about.as_nanos()).unwrap_or(u64::MAX)),
            rules.open_rounds,
            plural(runs as u64, "run")
        ));
        let mut ends = vec![None; entrants.len()];
        let made = self.job.runs.get();
        let ran = self.run_rounds(course, baseline, entrants, &mut race, &mut ends);
        self.job.progress.so_far(String::new());
        let made = self.job.runs.get() - made;
        self.job.progress.fewer_runs(runs.saturating_sub(made));
        let beside: Vec<String> = baseline.changes.iter().map(|c| c.remedy.clone()).collect();
        for ((entrant, standing), end) in entrants.iter().zip(race.standings()).zip(ends) {
            let won = standing.fate == Fate::Won;
            let tried = TriedChange {
                changes: entrant.changes.clone(),
                label: entrant.label.clone(),
                runs: standing.rounds,
                ratio: standing.ratio,
                ci95: standing.ci95,
                won,
                kept: false,
                why: end.unwrap_or_else(|| explain_standing(&standing, objective.name())),
                beside: beside.clone(),
            };
            let word = if won { "wins" } else { "does not win" };
            let said = format!("{} {word}: {}", tried.label, tried.why);
            self.job.progress.say(&said);
            course.searched.tried.push(tried);
        }
        let winners = race.winners();
        if let (Err(_), Some(best)) = (&ran, winners.first())
            && baseline.changes.is_empty()
        {
            // The interrupt came after this one had clearly won.
            course.kept = entrants[*best].clone();
        }
        ran.map(|()| winners)
    }

    /// Makes the runs that a race asks for. A candidate that breaks the program or takes too much memory is out, with the
    /// reason in `ends`.
    fn run_rounds(
        &self,
        course: &mut SearchCourse,
        baseline: &Entrant,
        entrants: &[Entrant],
        race: &mut Race,
        ends: &mut [Option<String>],
    ) -> anyhow::Result<()> {
        let objective = metric::Objective(self.metrics);
        let labels: Vec<&str> = entrants.iter().map(|e| e.label.as_str()).collect();
        let mut memory = vec![Vec::new(); entrants.len()];
        while let Some(group) = race.next_group() {
            let mut ran = Vec::with_capacity(group.len());
            for runner in group {
                let value = match runner {
                    Runner::Baseline => {
                        let when = "a run to compare with";
                        let sample = self.run_once(baseline, when)?;
                        if baseline.changes.is_empty() {
                            course.plain_memory.push(sample.max_rss());
                        }
                        Some(objective.value_of_run(&sample.values))
                    }
                    Runner::Candidate(number) => {
                        let entrant = &entrants[number];
                        let when = format!("a run with {}", entrant.label);
                        match self.run_once(entrant, &when) {
                            Ok(sample) => {
                                memory[number].push(sample.max_rss());
                                ends[number] = self.too_large(course, entrant, &memory[number]);
                                let is_within = ends[number].is_none();
                                is_within.then(|| objective.value_of_run(&sample.values))
                            }
                            Err(err) => {
                                let failed = err.downcast::<FailedRun>()?;
                                let Some(end) = &failed.end else {
                                    return Err(failed.into());
                                };
                                self.job.progress.end_run();
                                ends[number] = Some(format!("it breaks the program, which {end}"));
                                None
                            }
                        }
                    }
                };
                ran.push((runner, value));
            }
            race.record_group(&ran);
            let told = so_far(&race.standings(), &labels, objective.higher_is_better());
            self.job.progress.so_far(told);
        }
        Ok(())
    }

    fn run_once(&self, entrant: &Entrant, when: &str) -> anyhow::Result<RunSample> {
        self.job.progress.log_line(when);
        measure::run_counted(self.job, &entrant.setup, self.metrics, when)
    }

    /// The reason why its memory is too much beside plain runs, if it is. No budget bounds a change that only takes memory which
    /// the user has allowed already.
    fn too_large(
        &self,
        course: &SearchCourse,
        entrant: &Entrant,
        memory: &[f64],
    ) -> Option<String> {
        if entrant.changes.iter().any(|c| c.memory_allowed) {
            return None;
        }
        let times = self
            .memory
            .growth_over_budget(&course.plain_memory, memory)?;
        Some(format!(
            "it takes {times:.1} times the memory, and the budget allows {} (--budget)",
            self.memory.allowed_growth()
        ))
    }
}

impl SearchResult {
    /// Marks each tried change that is part of the plan to be proved, and gives the reason for each winner that is not.
    fn say_what_is_kept(&mut self) {
        let kept = &self.kept;
        for tried in &mut self.tried {
            let is_kept = |change: &Planned| kept.contains(change);
            tried.kept = tried.won && tried.changes.iter().all(is_kept);
            if tried.won && !tried.kept {
                tried
                    .why
                    .push_str(", and nothing more beside the other winners");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prove::tried::tests::{planned_change, tried_change};

    /// Check that exactly the proved changes are marked as kept: a change that won by itself and was left out later is not.
    #[test]
    fn kept_in_the_end() {
        let [a, b] = [planned_change("a", "A", "1"), planned_change("b", "B", "1")];
        let mut searched = SearchResult {
            kept: vec![a.clone()],
            tried: vec![
                tried_change(&a, true),
                tried_change(&b, true),
                tried_change(&b, false),
            ],
            ..SearchResult::default()
        };
        searched.say_what_is_kept();
        let kept: Vec<bool> = searched.tried.iter().map(|t| t.kept).collect();
        assert_eq!(kept, [true, false, false]);
        assert!(searched.tried[1].why.ends_with("beside the other winners"));
        assert_eq!(searched.tried[2].why, "so");
    }
}
