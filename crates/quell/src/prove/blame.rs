//! Finds the remedy of a plan that breaks the program, by runs with parts of the plan.
//!
//! No remedy may be blamed for a program that fails now and then by itself. So one remedy is blamed only after two failures
//! with it, and kept only after at least twice as many runs that worked as it took to see the failure again. A failure that
//! does not come again is blamed on the whole plan, which is then left out after one failure.

use super::failed::{BadEnd, FailedRun};

/// The most repeats of the whole plan to see the failure once more. Nobody would wait for the runs that a rarer failure
/// needs before it can be pinned on one remedy.
const MAX_PLAN_REPEATS: u32 = 3;

/// The result of a search for the remedy that breaks a program.
#[derive(Debug)]
pub(super) enum BlameResult {
    /// These break it. The list is never empty.
    Remedies(Vec<BlamedRemedy>),
    /// It failed in a run without any remedy.
    ByItself(FailedRun),
}

/// A remedy that broke the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlamedRemedy {
    /// Its index in the plan.
    pub(super) remedy: usize,
    /// How the program failed with it.
    pub(super) end: BadEnd,
    /// The runs with it, and those of them that failed.
    pub(super) with: FailureCount,
    /// The runs without it, and those of them that failed.
    pub(super) without: FailureCount,
    /// False where only the plan as a whole is known to break it.
    pub(super) singled_out: bool,
}

/// How many runs were made, and how many of them failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailureCount {
    pub(crate) runs: usize,
    pub(crate) failed: usize,
}

/// Runs the program once with these remedies of the plan, and says how it failed, if it did.
pub(super) type RunWithRemedies<'a> = dyn FnMut(&[usize]) -> anyhow::Result<Option<FailedRun>> + 'a;

/// One run: its remedies, and how it failed, if it did.
struct SubsetRun {
    with: Vec<usize>,
    end: Option<BadEnd>,
}

struct BlameSearch<'a> {
    run: &'a mut RunWithRemedies<'a>,
    seen: Vec<SubsetRun>,
}

/// Looks for the remedy that breaks a program: sees the failure again with the whole plan, singles out a remedy, and gives the
/// program without any remedy as many runs to fail by itself as a part of the plan gets. `order` has every remedy's index, the
/// most suspicious first; `worked` is the number of runs in which the whole plan worked before it failed as `first` says.
///
/// # Errors
///
/// A run could not be made. A failure of the program is a result and no error.
pub(super) fn find_blame<'a>(
    order: &[usize],
    worked: usize,
    first: BadEnd,
    run: &'a mut RunWithRemedies<'a>,
) -> anyhow::Result<BlameResult> {
    let all = places_without(order, None);
    let mut seen: Vec<SubsetRun> = (0..worked)
        .map(|_| SubsetRun {
            with: all.clone(),
            end: None,
        })
        .collect();
    seen.push(SubsetRun {
        with: all.clone(),
        end: Some(first),
    });
    let mut search = BlameSearch { run, seen };
    if let Some(failed) = search.run_with(&[])? {
        return Ok(BlameResult::ByItself(failed));
    }
    // The number of runs that it takes to see the failure again.
    let mut again = 1;
    while search.run_with(&all)?.is_none() {
        again += 1;
        if again > MAX_PLAN_REPEATS {
            // The failure did not come again, so no remedy can be singled out. Without the plan it gets as many chances to fail.
            return Ok(match search.fails_within(&[], MAX_PLAN_REPEATS)? {
                Some(failed) => BlameResult::ByItself(failed),
                None => BlameResult::Remedies(search.blame_whole_plan(&all)),
            });
        }
    }
    let enough = 2 * again;
    let guilty = search.single_out(order, enough)?;
    if let Some(failed) = search.fails_within(&[], enough)? {
        return Ok(BlameResult::ByItself(failed));
    }
    Ok(BlameResult::Remedies(if guilty.is_empty() {
        search.blame_whole_plan(&all)
    } else {
        guilty
            .into_iter()
            .filter_map(|one| search.blame_one(one))
            .collect()
    }))
}

/// All indexes in ascending order, but for one.
fn places_without(order: &[usize], one: Option<usize>) -> Vec<usize> {
    let mut rest: Vec<usize> = order.iter().copied().filter(|o| Some(*o) != one).collect();
    rest.sort_unstable();
    rest
}

impl BlameSearch<'_> {
    fn run_with(&mut self, with: &[usize]) -> anyhow::Result<Option<FailedRun>> {
        let failed = (self.run)(with)?;
        self.seen.push(SubsetRun {
            with: with.to_vec(),
            end: failed.as_ref().and_then(|f| f.end.clone()),
        });
        Ok(failed)
    }

    /// Runs it until it has worked `enough` times, earlier runs included, or until it fails.
    fn fails_within(&mut self, with: &[usize], enough: u32) -> anyhow::Result<Option<FailedRun>> {
        let worked = |s: &&SubsetRun| s.with == with && s.end.is_none();
        let mut worked = self.seen.iter().filter(worked).count();
        while worked < enough as usize {
            if let Some(failed) = self.run_with(with)? {
                return Ok(Some(failed));
            }
            worked += 1;
        }
        Ok(None)
    }

    /// Whether it works `enough` times with these remedies. One failure, also an earlier one, is enough for no.
    fn works_with(&mut self, with: &[usize], enough: u32) -> anyhow::Result<bool> {
        // This set may have run before, as the rest of a plan of two.
        if self.seen.iter().any(|s| s.with == with && s.end.is_some()) {
            return Ok(false);
        }
        Ok(self.fails_within(with, enough)?.is_none())
    }

    /// Returns the first remedy without which the rest works, or else all that fail alone; none where only several together
    /// fail. The only remedy of a plan needs no runs.
    fn single_out(&mut self, order: &[usize], enough: u32) -> anyhow::Result<Vec<usize>> {
        if let [only] = order {
            return Ok(vec![*only]);
        }
        for &suspect in order {
            if self.works_with(&places_without(order, Some(suspect)), enough)? {
                return Ok(vec![suspect]);
            }
        }
        let mut guilty = Vec::new();
        for &suspect in order {
            if !self.works_with(&[suspect], enough)? {
                guilty.push(suspect);
            }
        }
        Ok(guilty)
    }

    fn count_runs(&self, counts: impl Fn(&SubsetRun) -> bool) -> FailureCount {
        let runs = self.seen.iter().filter(|s| counts(s));
        FailureCount {
            runs: runs.clone().count(),
            failed: runs.filter(|s| s.end.is_some()).count(),
        }
    }

    /// Blames one remedy that was singled out. It is never `None` for a remedy of the plan, since the plan's first failure is
    /// among the runs.
    fn blame_one(&self, remedy: usize) -> Option<BlamedRemedy> {
        let has = |s: &SubsetRun| s.with.contains(&remedy);
        // The run with the fewest others says the most about this one.
        let failed = self.seen.iter().filter(|s| has(s) && s.end.is_some());
        let end = failed.min_by_key(|s| s.with.len())?.end.clone()?;
        Some(BlamedRemedy {
            remedy,
            end,
            with: self.count_runs(has),
            without: self.count_runs(|s| !has(s)),
            singled_out: true,
        })
    }

    /// Blames every remedy of a plan that fails only as a whole.
    fn blame_whole_plan(&self, all: &[usize]) -> Vec<BlamedRemedy> {
        let end = self
            .seen
            .iter()
            .rev()
            .find(|s| s.with == all && s.end.is_some());
        let Some(end) = end.and_then(|s| s.end.clone()) else {
            return Vec::new();
        };
        let one = |&remedy: &usize| BlamedRemedy {
            remedy,
            end: end.clone(),
            with: self.count_runs(|s| s.with == all),
            without: self.count_runs(|s| s.with.is_empty()),
            singled_out: false,
        };
        all.iter().map(one).collect()
    }
}

#[cfg(test)]
#[path = "blame_tests.rs"]
mod tests;
