//! The time that a change touches, and the gain that is predicted from it.

use crate::ceiling::origin_ceiling;
use crate::predict::predict_change;
use crate::remedy::{Offer, Remedy, RemedyCase};
use crate::{Planned, RemedyCeiling};

/// The gain that a change could have.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct WeighedChange {
    /// None where nobody knows where the time went.
    pub(super) ceiling: Option<RemedyCeiling>,
    touches: String,
}

impl WeighedChange {
    /// Of one origin.
    pub(super) fn of_origin(case: &RemedyCase<'_>, remedy: &Remedy, offer: &Offer) -> Self {
        let touches = remedy.touched_by(offer);
        // The library passes on memory of other kinds than it keeps.
        let reach = if remedy.preloads {
            case.part_kept()
        } else {
            1.0
        };
        Self::from_ceiling(origin_ceiling(case, touches, reach), touches.in_words())
    }

    pub(super) fn from_ceiling(ceiling: Option<RemedyCeiling>, touches: String) -> Self {
        let touches = ceiling.map_or_else(String::new, |_| touches);
        Self { ceiling, touches }
    }

    /// Adds it to a change, which has another origin's already, or none yet, and predicts the gain anew from the sum. No gain is
    /// predicted for a remedy that also wins time of which the account has no ceiling.
    pub(super) fn add_to(self, planned: &mut Planned) {
        let remedy = crate::ALL_REMEDIES.iter().find(|r| r.id == planned.remedy);
        // One that reaches all memory of the program alike has the same time for each origin.
        let is_of_all = remedy.is_some_and(|r| r.touches.calls.is_empty());
        planned.ceiling = match (planned.ceiling, self.ceiling) {
            (Some(known), Some(more)) if is_of_all => Some(known.larger(&more)),
            (Some(known), Some(more)) => Some(known.with_origin(&more)),
            (known, more) => known.or(more),
        };
        if planned.touches.is_empty() {
            planned.touches = self.touches;
        }
        let is_predictable = remedy.is_none_or(|r| !r.wins_beyond_account);
        let ceiling = planned.ceiling.filter(|_| is_predictable);
        let predicted =
            ceiling.and_then(|c| predict_change(&planned.remedy, c.cpu, c.cpu_between()));
        planned.predicted = predicted.map(|change| change.map(round_permille));
    }
}

/// An offer, as a plan has it.
pub(super) fn planned_from_offer(
    remedy: &Remedy,
    offer: &Offer,
    weighed: WeighedChange,
    stops: f64,
    text: &str,
) -> Planned {
    let mut planned = Planned {
        remedy: remedy.id.to_owned(),
        sets: offer.sets.clone(),
        starts: offer.starts.clone(),
        evidence: text.to_owned(),
        predicted_stop: round_permille(stops),
        cost: offer.cost.clone(),
        memory_allowed: offer.allowed,
        ..Planned::default()
    };
    weighed.add_to(&mut planned);
    planned
}

pub(super) fn round_permille(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

/// The note that a change touches too little for a gain that anybody would notice.
pub(super) fn too_little(remedy: &Remedy, ceiling: &RemedyCeiling) -> String {
    format!(
        "{}: not offered, it touches {:.1} % of CPU time and {:.1} % of the time that passed",
        remedy.id,
        ceiling.cpu * 100.0,
        ceiling.wall * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedy::kernel::NO_HUGE_PAGES;

    /// Check that the time of a change of all memory counts once, whatever number of origins it is offered for, and that of a change of
    /// one origin's calls is added up.
    #[test]
    fn time_of_all_memory_counts_once() {
        let ceiling = |cpu_ns| RemedyCeiling {
            cpu_ns,
            cpu: cpu_ns as f64 / 1e9,
            ci95: [cpu_ns / 2, cpu_ns * 2],
            ..RemedyCeiling::default()
        };
        for (remedy, expected) in [
            (NO_HUGE_PAGES.id, 300_000_000),
            ("jemalloc.decay", 500_000_000),
        ] {
            assert!(crate::ALL_REMEDIES.iter().any(|r| r.id == remedy));
            let mut planned = Planned {
                remedy: remedy.to_owned(),
                ..Planned::default()
            };
            for ns in [200_000_000, 300_000_000] {
                let change = WeighedChange::from_ceiling(Some(ceiling(ns)), "zeroing".to_owned());
                change.add_to(&mut planned);
            }
            assert_eq!(
                planned.ceiling.map(|c| c.cpu_ns),
                Some(expected),
                "{remedy}"
            );
        }
    }
}
