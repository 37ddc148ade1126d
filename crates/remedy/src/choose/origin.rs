//! The choice for one origin of shootdowns.

use super::Choosing;
use super::pick::{Candidate, ENOUGH_STOPPED, PREDICTION_ERROR, best_set, candidate_sets};
use super::weigh::{WeighedChange, planned_from_offer};
use crate::FEW_SHOOTDOWNS;
use crate::remedy::{self, RemedyAnswer, RemedyCase, ShootdownOrigin};
use crate::share::Share;

impl<'a> Choosing<'a> {
    /// Chooses for one origin; whether anything was chosen, or said of why not. `name` stands for the origin in notes, and `text`
    /// says how much came from it, as evidence. Every offer that is worth it becomes a candidate too, chosen or not.
    pub(super) fn choose_for_origin(
        &mut self,
        origin: ShootdownOrigin<'_>,
        share: &Share,
        name: &str,
        text: &str,
    ) -> bool {
        let total = self.split.total;
        let case = self.case_of(origin, share);
        let (mut tunings, mut preloads) = (Vec::new(), Vec::new());
        let mut refused = Vec::new();
        for &remedy in remedy::ALL_REMEDIES {
            // Few shootdowns, and much else: that is for the allocator's own settings.
            let few = self.evidence.shootdowns < FEW_SHOOTDOWNS && !remedy.helps_without_shootdowns;
            if few || remedy.preloads && !self.options.preload {
                continue;
            }
            match (remedy.consider)(&case) {
                None => {}
                Some(RemedyAnswer::Refuse(why)) => refused.push((remedy, why)),
                Some(RemedyAnswer::Advise { settings, why }) => {
                    self.add_note(format!("{name}: {}: {why}", settings.join("; ")));
                }
                Some(RemedyAnswer::Offer(offers)) => {
                    let list = if remedy.preloads {
                        &mut preloads
                    } else {
                        &mut tunings
                    };
                    let offers = offers.into_iter().map(|offer| (remedy, offer));
                    list.extend(offers.filter(|(r, offer)| self.is_worth(&case, r, offer)));
                }
            }
        }
        for (remedy, offer) in tunings.iter().chain(&preloads) {
            self.offer_change(&case, remedy, offer, text);
        }
        // The effect of an untried offer is known by runs only, unless it states one.
        let is_known = |(_, offer): &Candidate| !offer.untried || offer.stops > 0.0;
        tunings.retain(is_known);
        preloads.retain(is_known);
        // The library's memory counts once, whichever origins it serves.
        let sets = candidate_sets(&tunings, &preloads, |(remedy, offer)| {
            if remedy.preloads && self.library.is_some() {
                return Some(0.0);
            }
            self.memory_share(offer.memory)
        });
        let left = self.budget_left();
        // Changes for page faults may have no shootdown of their own to stop.
        let for_faults = self.evidence.shootdowns < FEW_SHOOTDOWNS;
        let best = best_set(&sets, left, for_faults);
        let stops = best.map_or(0.0, |b| b.stops);
        // Said of the library only where it is missed.
        let mut said: Vec<String> = Vec::new();
        for (remedy, why) in refused {
            if (!remedy.preloads || stops < ENOUGH_STOPPED) && !said.contains(&why) {
                self.add_note(match origin {
                    ShootdownOrigin::Allocator(_) | ShootdownOrigin::Program(_) => {
                        format!("{name}: nothing set: {why}")
                    }
                    _ => format!("{text}: {why}"),
                });
                said.push(why);
            }
        }
        // Sets that would stop more for more memory than is left: one is named, so that the user may raise the budget.
        let over: Vec<_> = sets
            .iter()
            .filter(|s| s.stops > stops + PREDICTION_ERROR && s.memory.is_some_and(|m| m > left))
            .filter(|_| stops < ENOUGH_STOPPED)
            .collect();
        // The cheapest of the sets that stop enough, or else as much as any.
        let most = over.iter().map(|s| s.stops).fold(0.0, f64::max);
        let good = over
            .iter()
            .filter(|s| s.stops >= ENOUGH_STOPPED.min(most - PREDICTION_ERROR));
        let cheapest = good.min_by(|a, b| {
            let (a, b) = (a.memory.unwrap_or(0.0), b.memory.unwrap_or(0.0));
            a.total_cmp(&b)
        });
        if let Some(over) = cheapest {
            let ids: Vec<&str> = over.chosen.iter().map(|c| c.0.id).collect();
            self.add_note(format!(
                "{name}: {} would stop {:.0} % of them, not {:.0} %, for {:.0} % more memory as predicted, \
                 and the budget leaves {:.0} %",
                ids.join(" and "),
                over.stops * 100.0,
                stops * 100.0,
                over.memory.unwrap_or(0.0) * 100.0,
                left * 100.0
            ));
        }
        let Some(best) = best else {
            return !said.is_empty();
        };
        if self.library.is_none() && best.chosen.iter().any(|c| c.0.preloads) {
            self.library = Some(case.room);
        }
        self.spent += best.memory.unwrap_or(0.0).max(0.0);
        // The promise is a share of all that the victims suffer, because that is measured later.
        let all = total + self.evidence.by_strangers;
        let part = share.shootdowns as f64 / all.max(1) as f64;
        let chosen: Vec<Candidate> = best.chosen.iter().map(|c| (c.0, c.1.clone())).collect();
        // The library stops its share only of what the settings leave, as `candidate_sets` has it.
        let mut remaining = part;
        for group in [false, true] {
            let mut stopped = 0.0;
            for (remedy, offer) in chosen.iter().filter(|c| c.0.preloads == group) {
                let stops = remaining * offer.stops;
                stopped += stops;
                let weighed = WeighedChange::of_origin(&case, remedy, offer);
                self.add_to_plan(
                    name,
                    planned_from_offer(remedy, offer, weighed, stops, text),
                );
            }
            remaining -= stopped;
        }
        true
    }

    /// An origin, as remedies consider it.
    pub(super) fn case_of<'c>(
        &self,
        origin: ShootdownOrigin<'c>,
        share: &'c Share,
    ) -> RemedyCase<'c>
    where
        'a: 'c,
    {
        RemedyCase {
            origin,
            found: self.found,
            evidence: self.evidence,
            total: self.split.total,
            copies: self.split.copies_share(),
            huge: self.split.huge_pages_share(),
            room: self.room_bytes(),
            env: self.env,
            share,
        }
    }
}
