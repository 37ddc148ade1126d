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
        planned.ceiling = match (planned.ceiling, self.ceiling) {
            (Some(known), Some(more)) => Some(known.with_origin(&more)),
            (known, more) => known.or(more),
        };
        if planned.touches.is_empty() {
            planned.touches = self.touches;
        }
        let is_predictable = !crate::ALL_REMEDIES
            .iter()
            .any(|r| r.id == planned.remedy && r.wins_beyond_account);
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
