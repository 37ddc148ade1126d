//! The runs that are compared: a warm-up, then pairs without and with the plan, and in the end one more pair for the account.

use std::time::{Duration, Instant};

use quell_remedy::Plan;
use quell_stats::{Looks, MetricRole, PairOrder, Rules, is_gain_open};

use super::failed::{BadEnd, FailedRun, Interrupted};
use super::job::ProveJob;
use super::limits::ProofLimits;
use super::measure;
use super::memory_shortage::MemoryShortage;
use super::metric::ProofMetric;
use super::pair_accounts::PairAccounts;
use super::proof;
use super::sample::RunSample;
use crate::launch::Setup;
use crate::plan::{self, Environment};
use crate::show::units::time;

/// The note for runs with more shootdowns than are timed.
const ESTIMATED_WAIT_NOTE: &str = "of more than 15,000 shootdowns per second on a CPU only some are timed: the wait is estimated from those; shootdowns and victims are all counted";

/// The result of the runs.
pub(super) enum PairsOutcome {
    Pairs(ComparedPairs),
    /// A run with the plan failed.
    BrokenPlan(BrokenPlan),
}

#[derive(Default)]
pub(super) struct ComparedPairs {
    pub(super) pairs: Vec<(RunSample, RunSample)>,
    /// The number of pairs that were intended.
    pub(super) intended: usize,
    /// The accounts of one more pair.
    pub(super) spent: Option<Box<PairAccounts>>,
    pub(super) notes: Vec<String>,
    pub(super) interrupted: Option<i32>,
}

/// A plan whose run failed.
pub(super) struct BrokenPlan {
    /// The number of runs with the plan that worked before.
    pub(super) worked: usize,
    pub(super) end: BadEnd,
    /// The run that failed, in words.
    pub(super) when: String,
}

/// The job of a proof, the same for whichever plan is left.
pub(super) struct ProofTask<'a> {
    pub(super) job: &'a ProveJob<'a>,
    pub(super) metrics: &'a [ProofMetric],
    /// The numbers of pairs after which to judge.
    pub(super) looks: &'a Looks,
    pub(super) limits: ProofLimits,
    /// It decides the orders of the pairs.
    pub(super) seed: u64,
}

/// Runs the pairs of one plan.
pub(super) struct PairRunner<'a> {
    pub(super) task: &'a ProofTask<'a>,
    pub(super) plan: &'a Plan,
    pub(super) environment: &'a Environment,
}

impl PairRunner<'_> {
    /// Makes the warm-up and the pairs. An interrupt ends them, and the pairs so far are kept.
    ///
    /// # Errors
    ///
    /// A run without the plan failed, or something around the runs did, or an interrupt came before the first pair was whole.
    pub(super) fn run_pairs(&self) -> anyhow::Result<PairsOutcome> {
        let setup = plan::setup_of(self.environment, self.plan);
        let mut with_plan = WithPlan {
            runs: self,
            setup: &setup,
            short: MemoryShortage::of_environment(self.environment),
            worked: 0,
            broke: None,
        };
        let mut ran = ComparedPairs::default();
        let done = self.run_into(&mut ran, &mut with_plan);
        if let Some(broke) = with_plan.broke {
            return Ok(PairsOutcome::BrokenPlan(broke));
        }
        ran.notes.extend(with_plan.short.shortage_note());
        if ran.pairs.iter().any(|(a, b)| a.estimated || b.estimated) {
            ran.notes.push(ESTIMATED_WAIT_NOTE.to_owned());
        }
        match done {
            // A few pairs are reported; without any there is nothing to report.
            Err(err) if err.is::<Interrupted>() && !ran.pairs.is_empty() => {
                ran.interrupted = err.downcast_ref::<Interrupted>().map(|i| i.0);
                Ok(PairsOutcome::Pairs(ran))
            }
            Err(err) => Err(err),
            Ok(()) => Ok(PairsOutcome::Pairs(ran)),
        }
    }

    /// Makes the warm-ups and the pairs, in a random order within each pair so that drift of the machine favours neither side.
    /// The results go into `ran`, so that those before an interrupt are kept.
    fn run_into(
        &self,
        ran: &mut ComparedPairs,
        with_plan: &mut WithPlan<'_>,
    ) -> anyhow::Result<()> {
        let ProofTask { job, looks, .. } = *self.task;
        if job.longest_plain.get().is_none() && with_plan.setup != Setup::NONE {
            // For a plan that the user gave: a failure of the program by itself must show before the plan is blamed for one.
            job.progress.log_line("warming up, without the plan");
            self.without_plan("the warm-up, without the plan")?;
        }
        job.progress.log_line("warming up, with the plan");
        let warm = with_plan.run_counted("the warm-up, with the plan")?;
        for complaint in warm.complaints {
            let note = format!("the program refuses a setting: {complaint}");
            job.progress.say(&note);
            ran.notes.push(note);
        }
        ran.intended = looks.first();
        let began = Instant::now();
        for (index, order) in looks.orders(self.task.seed).into_iter().enumerate() {
            if index == ran.intended {
                // A look comes after at least one pair, so this divides by 2 or more.
                let run = began.elapsed() / u32::try_from(2 * index).unwrap_or(u32::MAX);
                match self.next_look(ran, run) {
                    Some(next) => ran.intended = next,
                    None => break,
                }
            }
            let (number, intended) = (index + 1, ran.intended);
            let with = format!("pair {number} of {intended}, with the plan");
            let without = format!("pair {number} of {intended}, without the plan");
            let (before, after) = match order {
                PairOrder::BeforeFirst => {
                    let before = self.without_plan(&without)?;
                    (before, with_plan.run_counted(&with)?)
                }
                PairOrder::AfterFirst => {
                    let after = with_plan.run_counted(&with)?;
                    (self.without_plan(&without)?, after)
                }
            };
            job.progress.log_line(&format!(
                "pair {number} of {intended}: {}",
                in_a_line(self.task.metrics, &before, &after)
            ));
            ran.pairs.push((before, after));
        }
        // An empty plan is the program against itself, which has no account to compare.
        if with_plan.setup != Setup::NONE {
            ran.spent = self.spend_pair(with_plan)?;
        }
        Ok(())
    }

    /// The number of pairs at the next look, where the pairs so far promise a gain without settling it, and a run takes `run`;
    /// none where the gain is settled, there is no further look, or no time or runs are left for more, which a note says.
    fn next_look(&self, ran: &mut ComparedPairs, run: Duration) -> Option<usize> {
        let ProofTask {
            job,
            metrics,
            looks,
            limits,
            seed,
        } = *self.task;
        let made = ran.pairs.len();
        let next = looks.next_after(made)?;
        let (judged, _) = proof::judge_metrics(metrics, &ran.pairs, looks, seed);
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
        // The pair for the account comes after them.
        if !limits.allow_more(job.runs.get(), more + 2, run, Instant::now()) {
            let note = format!(
                "{made} pairs promise a gain and don't settle it, and {} more would take more time or runs than there are: --pairs {next} makes them",
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

    /// Makes one more pair, for the account. The cost of the account depends on the program's behaviour, so it would move the
    /// figures of the pairs. The observed run can't stand for one side, because it began with cold caches.
    fn spend_pair(
        &self,
        with_plan: &mut WithPlan<'_>,
    ) -> anyhow::Result<Option<Box<PairAccounts>>> {
        let job = self.task.job;
        job.progress
            .log_line("one more run without and with the plan, for the account of the time");
        let before = measure::run_for_account(
            job,
            Setup::NONE,
            "the run for the account, without the plan",
        )?;
        let Some(before) = before else {
            return Ok(None);
        };
        let when = "the run for the account, with the plan";
        let after =
            with_plan.run_watched(when, |setup| measure::run_for_account(job, setup, when))?;
        Ok(after.map(|after| Box::new(PairAccounts { before, after })))
    }

    fn without_plan(&self, when: &str) -> anyhow::Result<RunSample> {
        measure::run_counted(self.task.job, Setup::NONE, self.task.metrics, when)
    }
}

/// The runs with the plan, and their outcome so far.
struct WithPlan<'a> {
    runs: &'a PairRunner<'a>,
    setup: &'a Setup,
    short: MemoryShortage,
    worked: usize,
    broke: Option<BrokenPlan>,
}

impl WithPlan<'_> {
    fn run_counted(&mut self, when: &str) -> anyhow::Result<RunSample> {
        let ProofTask { job, metrics, .. } = *self.runs.task;
        self.run_watched(when, |setup| {
            measure::run_counted(job, setup, metrics, when)
        })
    }

    /// Makes one run, however it is watched. If the program fails in it, the plan is to blame, and `broke` says so beside the
    /// error; an interrupt or a failure around the program leaves `broke` empty.
    fn run_watched<T>(
        &mut self,
        when: &str,
        run: impl FnOnce(&Setup) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let setup = self.setup;
        let measured = self.short.watch_run(|| run(setup));
        match &measured {
            Ok(_) => self.worked += 1,
            Err(err) => {
                let end = err.downcast_ref::<FailedRun>().and_then(|f| f.end.clone());
                // A plan that changes nothing breaks nothing.
                self.broke = end.filter(|_| setup != Setup::NONE).map(|end| BrokenPlan {
                    worked: self.worked,
                    end,
                    when: when.to_owned(),
                });
            }
        }
        measured
    }
}

/// One pair as a line of a log: shootdowns, faults and the time.
fn in_a_line(metrics: &[ProofMetric], before: &RunSample, after: &RunSample) -> String {
    let shown = metrics.iter().zip(before.values.iter().zip(&after.values));
    let shown = shown.filter(|(m, _)| {
        ["shootdowns", "page_faults", "wall_ns"].contains(&m.name.as_str()) || m.is_from_output()
    });
    let parts: Vec<String> = shown
        .map(|(m, (b, a))| {
            format!(
                "{} {} to {}",
                m.name_in_text(),
                m.unit.format_value(*b),
                m.unit.format_value(*a)
            )
        })
        .collect();
    parts.join(", ")
}
