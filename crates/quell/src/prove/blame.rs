//! Which remedy of a plan breaks the program: found by runs with parts of the plan.
//!
//! A program that fails now and then by itself must not be blamed on a remedy, so that whoever is blamed had to fail
//! twice, and what is kept had to work at least twice as often as it took to see the failure again.

use super::failed::{BadEnd, Failed};

/// So often the whole plan is run again to see the failure once more. What fails more seldom than that can't be pinned
/// on one remedy with runs that anyone waits for.
const AGAIN: u32 = 3;

/// What came out.
#[derive(Debug)]
pub(super) enum Found {
    /// These break it. Never none.
    Remedies(Vec<Guilty>),
    /// It failed in a run without any.
    ByItself(Failed),
}

/// A remedy that is not to be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Guilty {
    /// Its place in the plan.
    pub(super) remedy: usize,
    /// How the program failed with it.
    pub(super) end: BadEnd,
    /// Runs with it, and those of them that failed.
    pub(super) with: Count,
    /// The same without it.
    pub(super) without: Count,
    /// False where only the plan as a whole is known to break it.
    pub(super) singled_out: bool,
}

/// A number of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) runs: usize,
    pub(crate) failed: usize,
}

/// Runs the program once with these remedies of the plan, and says how it failed, if it did.
pub(super) type Run<'a> = dyn FnMut(&[usize]) -> anyhow::Result<Option<Failed>> + 'a;

/// A run: with which remedies, and how it failed, if it did.
struct Seen {
    with: Vec<usize>,
    end: Option<BadEnd>,
}

struct Search<'a> {
    run: &'a mut Run<'a>,
    seen: Vec<Seen>,
}

/// Looks for it. `order` has every remedy's place, the most suspicious first; `worked` is how often the whole plan has
/// worked before it failed as `first` says.
///
/// # Errors
///
/// What running says, but for a failure of the program.
pub(super) fn find<'a>(
    order: &[usize],
    worked: usize,
    first: BadEnd,
    run: &'a mut Run<'a>,
) -> anyhow::Result<Found> {
    let all = without(order, None);
    let mut seen: Vec<Seen> = (0..worked)
        .map(|_| Seen {
            with: all.clone(),
            end: None,
        })
        .collect();
    seen.push(Seen {
        with: all.clone(),
        end: Some(first),
    });
    let mut search = Search { run, seen };
    if let Some(failed) = search.once(&[])? {
        return Ok(Found::ByItself(failed));
    }
    let mut again = 1;
    while search.once(&all)?.is_none() {
        again += 1;
        if again > AGAIN {
            // Nothing to single one out by. Without the plan it gets as many chances to fail.
            return Ok(match search.fails_within(&[], AGAIN)? {
                Some(failed) => Found::ByItself(failed),
                None => Found::Remedies(search.all_of_it(&all)),
            });
        }
    }
    let enough = 2 * again;
    let guilty = search.single_out(order, enough)?;
    if let Some(failed) = search.fails_within(&[], enough)? {
        return Ok(Found::ByItself(failed));
    }
    Ok(Found::Remedies(if guilty.is_empty() {
        search.all_of_it(&all)
    } else {
        guilty
            .into_iter()
            .filter_map(|one| search.guilty(one))
            .collect()
    }))
}

/// All places in their order, but for one.
fn without(order: &[usize], one: Option<usize>) -> Vec<usize> {
    let mut rest: Vec<usize> = order.iter().copied().filter(|o| Some(*o) != one).collect();
    rest.sort_unstable();
    rest
}

impl Search<'_> {
    fn once(&mut self, with: &[usize]) -> anyhow::Result<Option<Failed>> {
        let failed = (self.run)(with)?;
        self.seen.push(Seen {
            with: with.to_vec(),
            end: failed.as_ref().and_then(|f| f.end.clone()),
        });
        Ok(failed)
    }

    /// Runs it until it has worked so often, with the times that it did before, or until it fails.
    fn fails_within(&mut self, with: &[usize], enough: u32) -> anyhow::Result<Option<Failed>> {
        let worked = |s: &&Seen| s.with == with && s.end.is_none();
        let mut worked = self.seen.iter().filter(worked).count();
        while worked < enough as usize {
            if let Some(failed) = self.once(with)? {
                return Ok(Some(failed));
            }
            worked += 1;
        }
        Ok(None)
    }

    fn works(&mut self, with: &[usize], enough: u32) -> anyhow::Result<bool> {
        // Known from when it was tried as the rest of a plan of two.
        if self.seen.iter().any(|s| s.with == with && s.end.is_some()) {
            return Ok(false);
        }
        Ok(self.fails_within(with, enough)?.is_none())
    }

    /// The remedy without which the rest works; or else all that fail alone.
    fn single_out(&mut self, order: &[usize], enough: u32) -> anyhow::Result<Vec<usize>> {
        if let [only] = order {
            return Ok(vec![*only]);
        }
        for &suspect in order {
            if self.works(&without(order, Some(suspect)), enough)? {
                return Ok(vec![suspect]);
            }
        }
        let mut guilty = Vec::new();
        for &suspect in order {
            if !self.works(&[suspect], enough)? {
                guilty.push(suspect);
            }
        }
        Ok(guilty)
    }

    fn count(&self, counts: impl Fn(&Seen) -> bool) -> Count {
        let runs = self.seen.iter().filter(|s| counts(s));
        Count {
            runs: runs.clone().count(),
            failed: runs.filter(|s| s.end.is_some()).count(),
        }
    }

    /// One that was singled out.
    fn guilty(&self, remedy: usize) -> Option<Guilty> {
        let has = |s: &Seen| s.with.contains(&remedy);
        // The run with the fewest others says the most about this one.
        let failed = self.seen.iter().filter(|s| has(s) && s.end.is_some());
        let end = failed.min_by_key(|s| s.with.len())?.end.clone()?;
        Some(Guilty {
            remedy,
            end,
            with: self.count(has),
            without: self.count(|s| !has(s)),
            singled_out: true,
        })
    }

    /// All of a plan that fails as a whole.
    fn all_of_it(&self, all: &[usize]) -> Vec<Guilty> {
        let end = self
            .seen
            .iter()
            .rev()
            .find(|s| s.with == all && s.end.is_some());
        let Some(end) = end.and_then(|s| s.end.clone()) else {
            return Vec::new();
        };
        let one = |&remedy: &usize| Guilty {
            remedy,
            end: end.clone(),
            with: self.count(|s| s.with == all),
            without: self.count(|s| s.with.is_empty()),
            singled_out: false,
        };
        all.iter().map(one).collect()
    }
}

#[cfg(test)]
#[path = "blame_tests.rs"]
mod tests;
