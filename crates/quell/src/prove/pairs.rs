//! The runs that are compared: a warm-up, then pairs without and with the plan, and in the end one more pair for the account.

use std::time::{Duration, Instant};

use quell_remedy::Plan;
use quell_stats::{Looks, MetricRole, PairOrder, Rules, is_gain_open};

use super::failed::{BadEnd, Failed, Interrupted};
use super::job::Job;
use super::limits::Limits;
use super::measure;
use super::metric::Metric;
use super::proof;
use super::sample::Sample;
use super::short::Short;
use super::spent::Spent;
use crate::launch::Setup;
use crate::plan::{self, Environment};
use crate::show::units::time;

/// Of runs that shoot more often than is timed.
const ESTIMATED: &str = "of more than 15,000 shootdowns per second on a CPU only some are timed: the wait is estimated from those; shootdowns and victims are all counted";

/// What came out of the runs.
pub(super) enum Ran {
    Pairs(Pairs),
    /// A run with the plan failed.
    Broke(Broke),
}

#[derive(Default)]
pub(super) struct Pairs {
    pub(super) pairs: Vec<(Sample, Sample)>,
    /// How many were to be made.
    pub(super) asked: usize,
    /// Where the time of one more pair went.
    pub(super) spent: Option<Box<Spent>>,
    pub(super) notes: Vec<String>,
    pub(super) interrupted: Option<i32>,
}

/// A plan whose run failed.
pub(super) struct Broke {
    /// So many runs with the plan had worked before.
    pub(super) worked: usize,
    pub(super) end: BadEnd,
    /// The run that failed, in words.
    pub(super) when: String,
}

/// What is to be proved with any plan.
pub(super) struct Asked<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) metrics: &'a [Metric],
    /// After how many pairs to look.
    pub(super) looks: &'a Looks,
    pub(super) limits: Limits,
    /// For the orders of the pairs.
    pub(super) seed: u64,
}

/// What to run.
pub(super) struct Runs<'a> {
    pub(super) asked: &'a Asked<'a>,
    pub(super) plan: &'a Plan,
    pub(super) environment: &'a Environment,
}

impl Runs<'_> {
    /// The warm-up and the pairs. An interrupt ends them, and what is there is kept.
    ///
    /// # Errors
    ///
    /// A run without the plan failed, or something around the runs did.
    pub(super) fn run(&self) -> anyhow::Result<Ran> {
        let setup = plan::setup_of(self.environment, self.plan);
        let mut with_plan = WithPlan {
            runs: self,
            setup: &setup,
            short: Short::of(self.environment),
            worked: 0,
            broke: None,
        };
        let mut ran = Pairs::default();
        let done = self.run_into(&mut ran, &mut with_plan);
        if let Some(broke) = with_plan.broke {
            return Ok(Ran::Broke(broke));
        }
        ran.notes.extend(with_plan.short.note());
        if ran.pairs.iter().any(|(a, b)| a.estimated || b.estimated) {
            ran.notes.push(ESTIMATED.to_owned());
        }
        match done {
            // What a few pairs say is said; without any there is nothing to say.
            Err(err) if err.is::<Interrupted>() && !ran.pairs.is_empty() => {
                ran.interrupted = err.downcast_ref::<Interrupted>().map(|i| i.0);
                Ok(Ran::Pairs(ran))
            }
            Err(err) => Err(err),
            Ok(()) => Ok(Ran::Pairs(ran)),
        }
    }

    fn run_into(&self, ran: &mut Pairs, with_plan: &mut WithPlan<'_>) -> anyhow::Result<()> {
        let Asked { job, looks, .. } = *self.asked;
        if job.longest_plain.get().is_none() && with_plan.setup != Setup::NONE {
            // Of a plan that is given: what the program does by itself is known before anything is blamed on the plan.
            job.progress.line("warming up, without the plan");
            self.without_plan("the warm-up, without the plan")?;
        }
        job.progress.line("warming up, with the plan");
        let warm = with_plan.measure("the warm-up, with the plan")?;
        for complaint in warm.complaints {
            let note = format!("the program refuses a setting: {complaint}");
            job.progress.say(&note);
            ran.notes.push(note);
        }
        ran.asked = looks.first();
        let began = Instant::now();
        for (index, order) in looks.orders(self.asked.seed).into_iter().enumerate() {
            if index == ran.asked {
                let run = began.elapsed() / u32::try_from(2 * index).unwrap_or(u32::MAX);
                match self.next_look(ran, run) {
                    Some(next) => ran.asked = next,
                    None => break,
                }
            }
            let (number, asked) = (index + 1, ran.asked);
            let with = format!("pair {number} of {asked}, with the plan");
            let without = format!("pair {number} of {asked}, without the plan");
            let (before, after) = match order {
                PairOrder::BeforeFirst => {
                    let before = self.without_plan(&without)?;
                    (before, with_plan.measure(&with)?)
                }
                PairOrder::AfterFirst => {
                    let after = with_plan.measure(&with)?;
                    (self.without_plan(&without)?, after)
                }
            };
            job.progress.line(&format!(
                "pair {number} of {asked}: {}",
                in_a_line(self.asked.metrics, &before, &after)
            ));
            ran.pairs.push((before, after));
        }
        // Against itself there is nothing to tell.
        if with_plan.setup != Setup::NONE {
            ran.spent = self.spend(with_plan)?;
        }
        Ok(())
    }

    /// How many pairs there should be at the next look, where those that are there promise a gain and don't settle it, and a run takes
    /// so long; none where that is settled, or nothing is left for more.
    fn next_look(&self, ran: &mut Pairs, run: Duration) -> Option<usize> {
        let Asked {
            job,
            metrics,
            looks,
            limits,
            seed,
        } = *self.asked;
        let made = ran.pairs.len();
        let next = looks.next_after(made)?;
        let (judged, _) = proof::judge(metrics, &ran.pairs, looks, seed);
        let objectives = judged
            .iter()
            .filter(|j| j.metric.role == MetricRole::Objective);
        let objectives: Vec<_> = objectives
            .map(|j| (&j.comparison, j.metric.higher_is_better))
            .collect();
        if !is_gain_open(&objectives, Rules::default().smallest_effect) {
            return None;
        }
        let more = 2 * (next - made);
        let about = run.saturating_mul(u32::try_from(more).unwrap_or(u32::MAX));
        // the pair for the account comes after them
        if !limits.allow_more(job.runs.get(), more + 2, run, Instant::now()) {
            let note = format!(
                "{made} pairs promise a gain and don't settle it, and {} more are not allowed: --pairs {next} makes them",
                next - made
            );
            job.progress.say(&note);
            ran.notes.push(note);
            return None;
        }
        job.progress.more_runs(more);
        job.progress.say(&format!(
            "{made} pairs promise a gain and don't settle it: {} more, about {}",
            next - made,
            time(u64::try_from(about.as_nanos()).unwrap_or(u64::MAX))
        ));
        Some(next)
    }

    /// One more pair, for the account. What the account costs depends on what a program does, so that it would move the
    /// figures of the pairs; and the observed run is no match, for it found the caches as they were.
    fn spend(&self, with_plan: &mut WithPlan<'_>) -> anyhow::Result<Option<Box<Spent>>> {
        let job = self.asked.job;
        job.progress
            .line("one more run without and with the plan, for the account of the time");
        let before = measure::spend(
            job,
            Setup::NONE,
            "the run for the account, without the plan",
        )?;
        let Some(before) = before else {
            return Ok(None);
        };
        let when = "the run for the account, with the plan";
        let after = with_plan.run(when, |setup| measure::spend(job, setup, when))?;
        Ok(after.map(|after| Box::new(Spent { before, after })))
    }

    fn without_plan(&self, when: &str) -> anyhow::Result<Sample> {
        measure::measure(self.asked.job, Setup::NONE, self.asked.metrics, when)
    }
}

/// Runs with the plan, and what becomes of them.
struct WithPlan<'a> {
    runs: &'a Runs<'a>,
    setup: &'a Setup,
    short: Short,
    worked: usize,
    broke: Option<Broke>,
}

impl WithPlan<'_> {
    fn measure(&mut self, when: &str) -> anyhow::Result<Sample> {
        let Asked { job, metrics, .. } = *self.runs.asked;
        self.run(when, |setup| measure::measure(job, setup, metrics, when))
    }

    /// One run, however it is watched: where it fails the plan is to blame.
    fn run<T>(
        &mut self,
        when: &str,
        run: impl FnOnce(&Setup) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let setup = self.setup;
        let measured = self.short.during(|| run(setup));
        match &measured {
            Ok(_) => self.worked += 1,
            Err(err) => {
                let end = err.downcast_ref::<Failed>().and_then(|f| f.end.clone());
                // A plan that changes nothing breaks nothing.
                self.broke = end.filter(|_| setup != Setup::NONE).map(|end| Broke {
                    worked: self.worked,
                    end,
                    when: when.to_owned(),
                });
            }
        }
        measured
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
