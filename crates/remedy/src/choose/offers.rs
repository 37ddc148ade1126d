//! Changes that are offered to be tried, and changes that go into a plan.

use std::collections::BTreeMap;

use super::Choosing;
use super::weigh::{WeighedChange, planned_from_offer, round_permille, too_little};
use crate::remedy::{self, Offer, Remedy, RemedyAnswer, RemedyCase, ShootdownOrigin};
use crate::share::Share;
use crate::{Planned, conf};

impl Choosing<'_> {
    /// Offers what may help an origin with next to no shootdowns, to be tried, without putting it into the plan. Refusals and
    /// advice are not noted here.
    pub(super) fn offer_all(&mut self, origin: ShootdownOrigin<'_>, share: &Share, text: &str) {
        let case = self.case_of(origin, share);
        let may =
            |r: &&&Remedy| r.helps_without_shootdowns && (!r.preloads || self.options.preload);
        for &remedy in remedy::ALL_REMEDIES.iter().filter(may) {
            if let Some(RemedyAnswer::Offer(offers)) = (remedy.consider)(&case) {
                for offer in offers {
                    if self.is_worth(&case, remedy, &offer) {
                        self.offer_change(&case, remedy, &offer, text);
                    }
                }
            }
        }
    }

    /// Notes the changes that could win too little for every origin.
    pub(super) fn say_dropped(&mut self) {
        for (id, said) in std::mem::take(&mut self.dropped) {
            if !self.candidates.iter().any(|c| c.remedy == id) {
                self.add_note(said);
            }
        }
    }

    /// Offers one change to be tried, if it would change anything and the budget allows its memory. Each candidate has the whole
    /// budget, since it is tried for itself, and growth that nobody measured is no reason against it. A change that was offered
    /// for another origin gets this one's evidence, share and ceiling added.
    pub(super) fn offer_change(
        &mut self,
        case: &RemedyCase<'_>,
        remedy: &Remedy,
        offer: &Offer,
        text: &str,
    ) {
        let allowed = self.budget_share();
        let grows = self.memory_share(offer.memory);
        let dear = !offer.allowed && grows.is_some_and(|m| m > allowed + 1e-9);
        let is_set = |(name, value): (&String, &String)| {
            conf::is_set_already(name, (self.env)(name).as_deref(), value)
        };
        let changes = !offer.starts.is_empty() || !offer.sets.iter().all(is_set);
        if dear || !changes {
            return;
        }
        let part = case.shootdowns() as f64 / self.split.total.max(1) as f64;
        let same = |p: &&mut Planned| {
            p.remedy == remedy.id && p.sets == offer.sets && p.starts == offer.starts
        };
        let stops = part * offer.stops;
        match self.candidates.iter_mut().find(same) {
            Some(known) => {
                known.evidence = format!("{}; {text}", known.evidence);
                known.predicted_stop = round_permille((known.predicted_stop + stops).min(1.0));
                WeighedChange::of_origin(case, remedy, offer).add_to(known);
            }
            None => {
                let weighed = WeighedChange::of_origin(case, remedy, offer);
                let planned = planned_from_offer(remedy, offer, weighed, stops, text);
                self.candidates.push(planned);
            }
        }
    }

    /// Whether a change could win anything that is noticed; true where nobody knows where the time went. Where not, a note is
    /// kept for [`Self::say_dropped`].
    pub(super) fn is_worth(
        &mut self,
        case: &RemedyCase<'_>,
        remedy: &Remedy,
        offer: &Offer,
    ) -> bool {
        let Some(ceiling) = WeighedChange::of_origin(case, remedy, offer).ceiling else {
            return true;
        };
        if ceiling.is_below_notice() && !self.options.without_gain {
            let said = too_little(remedy, &ceiling);
            self.dropped.push((remedy.id, said));
            return false;
        }
        true
    }

    /// Puts a remedy into the plan, or adds to it where it is there already for another origin. One whose variables the user has
    /// set so already is left out, with a note, unless it also changes the process. `name` is the origin's, for the notes.
    pub(super) fn add_to_plan(&mut self, name: &str, new: Planned) {
        let preloads = new.sets.contains_key("LD_PRELOAD");
        let same = |p: &&mut Planned| {
            p.remedy == new.remedy && p.starts == new.starts && (preloads || p.sets == new.sets)
        };
        if let Some(known) = self.plan.remedies.iter_mut().find(same) {
            known.predicted_stop =
                round_permille((known.predicted_stop + new.predicted_stop).min(1.0));
            known.evidence = format!("{}; {}", known.evidence, new.evidence);
            // For another allocator a remedy may set another variable besides the library's.
            let mut more = BTreeMap::new();
            for (variable, value) in &new.sets {
                match known.sets.get_mut(variable) {
                    Some(set) => *set = conf::merge_values(variable, set, value),
                    None => drop(more.insert(variable.clone(), value.clone())),
                }
            }
            known.sets.extend(more.clone());
            WeighedChange::from_ceiling(new.ceiling, new.touches).add_to(known);
            self.plan.user_has(name, &more, &self.env);
            return;
        }
        if self.plan.user_has(name, &new.sets, &self.env) && new.starts.is_empty() {
            return;
        }
        self.plan.remedies.push(new);
    }
}
