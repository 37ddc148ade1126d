//! Chooses one set of changes among all that several remedies offer for one origin.

use crate::conf::SHIM_VARIABLE;
use crate::remedy::{Offer, Remedy};

/// A set that stops this share of an origin's shootdowns is enough: nothing is added to it.
pub(super) const ENOUGH_STOPPED: f64 = 0.95;
/// Predictions are no more exact than this: another change has to stop more to be worth it.
pub(super) const PREDICTION_ERROR: f64 = 0.02;

/// A remedy with one of its offers.
pub(super) type Candidate = (&'static Remedy, Offer);

/// Some candidates together.
pub(super) struct CandidateSet<'c> {
    pub(super) chosen: Vec<&'c Candidate>,
    /// The share of the origin's shootdowns that they are expected to stop together.
    pub(super) stops: f64,
    /// The share by which memory grows; none where it was not measured.
    pub(super) memory: Option<f64>,
}

/// Every set that can be: one tuning or none, with and without the library, which always comes with all of its remedies. `cost`
/// is by how much memory grows for one, as a share, and none where that was not measured.
pub(super) fn candidate_sets<'c>(
    tunings: &'c [Candidate],
    preloads: &'c [Candidate],
    cost: impl Fn(&Candidate) -> Option<f64>,
) -> Vec<CandidateSet<'c>> {
    let mut out = Vec::new();
    let tuned = std::iter::once(None).chain(tunings.iter().map(Some));
    for tuning in tuned {
        for with in [false, true] {
            let library: &[Candidate] = if with { preloads } else { &[] };
            let chosen: Vec<&Candidate> = tuning.into_iter().chain(library).collect();
            if chosen.is_empty() || (with && preloads.is_empty()) || set_same_variable(&chosen) {
                continue;
            }
            let first = tuning.map_or(0.0, |t| t.1.stops);
            let then: f64 = library.iter().map(|l| l.1.stops).sum();
            // The library bounds its memory once for all of its remedies, so the largest counts.
            let kept: Option<f64> = library
                .iter()
                .map(&cost)
                .try_fold(0.0, |most: f64, one| Some(most.max(one?)));
            let memory = tuning
                .map_or(Some(0.0), &cost)
                .zip(kept)
                .map(|(t, k)| t + k);
            out.push(CandidateSet {
                chosen,
                stops: 1.0 - (1.0 - first) * (1.0 - then.min(1.0)),
                memory,
            });
        }
    }
    out
}

/// Whether two of them set one variable. The library's own don't contradict: of each setting it gets the most that any
/// of its remedies asks for.
fn set_same_variable(chosen: &[&Candidate]) -> bool {
    let set = |c: &&Candidate| {
        let own = [SHIM_VARIABLE, "LD_PRELOAD"];
        let names = c.1.sets.keys().map(String::as_str);
        names
            .filter(|n| !own.contains(n))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let mut all: Vec<String> = chosen.iter().flat_map(set).collect();
    let count = all.len();
    all.sort();
    all.dedup();
    all.len() < count
}

/// The set that stops enough, or nearly as much as any, within the budget that is left: with the fewest changes, and settings
/// before the library; among equal ones the first of its remedy. Offers whose memory nobody measured are taken last. A set that
/// is chosen for page faults may stop no shootdown.
pub(super) fn best_set<'s, 'c>(
    sets: &'s [CandidateSet<'c>],
    left: f64,
    for_faults: bool,
) -> Option<&'s CandidateSet<'c>> {
    let fits = |s: &&CandidateSet<'_>| {
        s.memory.is_none_or(|m| m <= left + 1e-9) && (s.stops > 0.0 || for_faults)
    };
    let most = sets
        .iter()
        .filter(fits)
        .map(|s| s.stops)
        .fold(0.0, f64::max);
    let goal = ENOUGH_STOPPED.min(most - PREDICTION_ERROR);
    let price = |s: &CandidateSet<'_>| {
        let untried = s.chosen.iter().any(|c| c.1.untried);
        let library = s.chosen.iter().any(|c| c.0.preloads);
        let tuned = s.chosen.iter().any(|c| !c.0.preloads);
        (untried, library, library && tuned, s.memory.is_none())
    };
    sets.iter()
        .filter(fits)
        .filter(|s| s.stops >= goal)
        .min_by_key(|s| price(s))
}
