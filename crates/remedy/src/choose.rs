//! Choosing remedies: for each origin of shootdowns the changes that stop most of them, within a budget of memory.

mod describe;
mod offers;
mod origin;
mod pick;
mod weigh;

use std::collections::BTreeMap;

use weigh::WeighedChange;

use crate::attribute::split_shootdowns;
use crate::evidence::Evidence;
use crate::remedy::{self, MemoryGrowth, Offer, ShootdownOrigin};
use crate::share::{Share, ShootdownSplit};
use crate::words::{count_noun, percent_text};
use crate::{FEW_SHOOTDOWNS, FoundSoftware, Plan, Planned, SoftwareKind};

/// An allocator with less than this share of the shootdowns is left alone.
const SMALL_SHARE: f64 = 0.02;
/// A file's own calls, and the kernel's work, are mentioned only if they make one in this many of the shootdowns.
const MENTIONED_DIVISOR: u64 = 20;

/// Bounds of the choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanOptions {
    /// By which share of its maximum the resident memory may grow, as predicted: 0.25 is a quarter.
    pub budget: f64,
    /// Bytes that are within the budget in any case: of a small program any share is next to nothing.
    pub at_least: u64,
    /// Whether the preload library may be chosen: not where nobody is there to say where it lies.
    pub preload: bool,
    /// Whether changes that can't win time are offered too: a metric of the program's own may measure a stall that is no part of
    /// its time.
    pub without_gain: bool,
}

impl Default for PlanOptions {
    fn default() -> Self {
        PlanOptions {
            budget: 0.25,
            at_least: 16 << 20,
            preload: false,
            without_gain: false,
        }
    }
}

/// Everything that could be done for a program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Proposal {
    /// The changes that stop most of the shootdowns, as predicted.
    pub plan: Plan,
    /// Every single change that may help, each for itself: whether it wins time only runs can tell. The dearest origin's
    /// first; within the budget of memory as far as that is known.
    pub candidates: Vec<Planned>,
}

/// Chooses a plan for the software that was found, from one observed run, as [`choose_remedies`] does with its defaults. `env` is
/// the environment that the program was observed in.
pub fn plan(
    found: &[FoundSoftware],
    evidence: &Evidence,
    env: &impl Fn(&str) -> Option<String>,
) -> Plan {
    choose_remedies(found, evidence, &PlanOptions::default(), env).plan
}

/// Chooses remedies within the options, and says all that it chose from.
pub fn choose_remedies(
    found: &[FoundSoftware],
    evidence: &Evidence,
    options: &PlanOptions,
    env: &impl Fn(&str) -> Option<String>,
) -> Proposal {
    let mut plan = Plan::default();
    let split = split_shootdowns(found, evidence);
    let faults = evidence.page_faults.unwrap_or(0);
    let is_unknown = evidence.spent.is_none();
    if evidence.shootdowns < FEW_SHOOTDOWNS && faults < remedy::MANY_FAULTS && is_unknown {
        plan.notes.push(format!(
            "{} and {} in the whole run: nothing to gain",
            count_noun(evidence.shootdowns, "shootdown"),
            evidence.page_faults.map_or_else(
                || "an unknown number of page faults".to_owned(),
                |n| count_noun(n, "page fault")
            ),
        ));
        return Proposal {
            plan,
            candidates: Vec::new(),
        };
    }
    let mut choosing = Choosing {
        found,
        evidence,
        split: &split,
        options,
        env,
        spent: 0.0,
        library: None,
        plan,
        candidates: Vec::new(),
        dropped: Vec::new(),
    };
    choosing.choose_for_allocators();
    choosing.choose_for_rest();
    choosing.without_huge_pages();
    choosing.say_dropped();
    Proposal {
        plan: choosing.plan,
        candidates: choosing.candidates,
    }
}

struct Choosing<'a> {
    found: &'a [FoundSoftware],
    evidence: &'a Evidence,
    split: &'a ShootdownSplit,
    options: &'a PlanOptions,
    env: &'a dyn Fn(&str) -> Option<String>,
    /// The share of the maximum of memory that the chosen changes are expected to take.
    spent: f64,
    /// The bytes that were left when the library was first chosen, since its sizes are made from them (the inner none is memory
    /// that was not measured); none before.
    library: Option<Option<u64>>,
    plan: Plan,
    candidates: Vec<Planned>,
    /// Changes that could win too little for one origin, by name, each with its note.
    dropped: Vec<(&'static str, String)>,
}

impl<'a> Choosing<'a> {
    /// Chooses for each allocator that made enough of the shootdowns. One that made few is chosen for too where the program has
    /// many page faults, because its threads may not have run side by side; but not the C library, Node and CPython, which are
    /// there whether or not they make the faults. Of the others the settings are offered, to be tried, if there are many faults
    /// or an account to judge them by, and no other file's malloc has taken their place.
    fn choose_for_allocators(&mut self) {
        let (found, split) = (self.found, self.split);
        let faults = self.evidence.page_faults.unwrap_or(0);
        // The largest first, so that the plan reads by importance.
        let mut order: Vec<(&FoundSoftware, &Share)> =
            found.iter().zip(&split.allocators).collect();
        order.sort_by_key(|(_, share)| std::cmp::Reverse(share.shootdowns));
        for (found, share) in order {
            if !found.kind.has_allocator() {
                continue;
            }
            let part = share.shootdowns as f64 / split.total.max(1) as f64;
            let enough = self.evidence.shootdowns >= FEW_SHOOTDOWNS
                && share.shootdowns > 0
                && part >= SMALL_SHARE;
            let aside = found.kind.is_libc()
                || matches!(found.kind, SoftwareKind::Node | SoftwareKind::CPython);
            if !enough && (aside || faults < remedy::MANY_FAULTS) {
                let is_replaced = self
                    .found
                    .iter()
                    .any(|f| f.replaces_malloc && f.module != found.module);
                let is_timed = self.evidence.spent.is_some();
                let offered = self.candidates.len();
                if (is_timed || faults >= remedy::MANY_FAULTS) && !is_replaced {
                    // Its pages may be those that are faulted in, even where shootdowns are few.
                    let text = match faults {
                        0 => "by where its time went".to_owned(),
                        _ => format!("the program has {}", count_noun(faults, "page fault")),
                    };
                    self.offer_all(ShootdownOrigin::Allocator(found), share, &text);
                }
                let from = format!(
                    "{} of {} shootdowns are from it",
                    share.shootdowns, split.total
                );
                self.add_note(if self.candidates.len() == offered {
                    format!("{found}: left as it is, {from}")
                } else {
                    format!("{found}: {from}; whether its settings win time only runs can tell")
                });
                continue;
            }
            let mut text = share.describe_share(found, split.total);
            if !enough {
                text = format!("{text}; chosen for the program's {faults} page faults");
            }
            self.choose_for_origin(
                ShootdownOrigin::Allocator(found),
                share,
                &found.to_string(),
                &text,
            );
        }
    }

    /// Chooses for shootdowns that no allocator caused, and notes those which no remedy stops. Programs with settings of their
    /// own come last, with all shootdowns; where there are next to none, these settings are only offered.
    fn choose_for_rest(&mut self) {
        let split = self.split;
        if self.evidence.shootdowns < FEW_SHOOTDOWNS {
            self.offer_of_programs();
            return;
        }
        let worth = |count: u64| count > 0 && count * MENTIONED_DIVISOR >= split.total;
        let part = |count: u64| {
            let verb = if count == 1 { "is" } else { "are" };
            let percent = percent_text(count, split.total);
            format!("{} ({percent} %) {verb}", count_noun(count, "shootdown"))
        };
        for (file, share) in split.own.iter().filter(|(_, s)| worth(s.shootdowns)) {
            let name = file.file_name().unwrap_or(file.as_os_str());
            let name = name.to_string_lossy();
            let text = format!(
                "{} from {name}'s own calls{}{}",
                part(share.shootdowns),
                share.cause_list(),
                share.guess_remark()
            );
            let chosen = self.choose_for_origin(ShootdownOrigin::Own(file), share, &name, &text);
            if !chosen {
                self.add_note(format!(
                    "{} from {name}'s own calls, where no known allocator is: no setting stops them",
                    part(share.shootdowns)
                ));
            }
        }
        for (call, &count) in split.asked.iter().filter(|(_, count)| worth(**count)) {
            self.add_note(format!(
                "{} from {call}, which the program calls itself: that is not the allocator's policy, and no setting of it changes that",
                part(count)
            ));
        }
        for (who, &count) in split.guessed.iter().filter(|(_, n)| worth(**n)) {
            self.add_note(format!(
                "{} from calls whose caller no stack names: it may be {who}, and no remedy rests on that",
                part(count)
            ));
        }
        if worth(split.unknown) {
            self.add_note(format!(
                "{} from code that could not be named: whether a setting stops them is not known",
                part(split.unknown)
            ));
        }
        if worth(split.threads.shootdowns) {
            let text = format!(
                "{} for the stacks of ending threads",
                part(split.threads.shootdowns)
            );
            let chosen = self.choose_for_origin(
                ShootdownOrigin::Threads,
                &split.threads,
                "stacks of ending threads",
                &text,
            );
            if !chosen {
                self.add_note(format!(
                    "{} the stacks of ending threads: a pool of threads that stay would stop them",
                    part(split.threads.shootdowns)
                ));
            }
        }
        for (&cause, &count) in split.others.iter().filter(|(_, count)| worth(**count)) {
            let mut share = Share::default();
            share.count_cause(cause, count);
            let text = format!("{} by {cause}", part(count));
            let chosen =
                self.choose_for_origin(ShootdownOrigin::Kernel, &share, cause.name(), &text);
            if !chosen {
                self.add_note(format!(
                    "{} by {cause}, which no allocator does: no remedy here",
                    part(count)
                ));
            }
        }
        // Whatever the allocators do, a program that has settings of its own knows more about itself.
        let all = self.all_by_cause();
        let found = self.found;
        for program in found.iter().filter(|f| !f.kind.has_allocator()) {
            self.choose_for_origin(
                ShootdownOrigin::Program(program),
                &all,
                &program.to_string(),
                "",
            );
        }
    }

    /// Offers the settings of programs that have their own, where there are next to no shootdowns.
    fn offer_of_programs(&mut self) {
        let all = self.all_by_cause();
        let found = self.found;
        for program in found.iter().filter(|f| !f.kind.has_allocator()) {
            let text = format!("{program} has a setting for it");
            self.offer_all(ShootdownOrigin::Program(program), &all, &text);
        }
    }

    /// Where huge pages take much of the time it may be won without them, or lost: that can be tried, and is in no plan.
    fn without_huge_pages(&mut self) {
        let share = self.evidence.huge_time_permille;
        let planned = self
            .plan
            .remedies
            .iter()
            .any(|r| r.starts.contains_key("thp"));
        if share < remedy::MUCH_HUGE_TIME || planned {
            return;
        }
        let mut planned = Planned {
            remedy: remedy::kernel::NO_HUGE_PAGES.id.to_owned(),
            starts: BTreeMap::from([("thp".to_owned(), "never".to_owned())]),
            evidence: format!("huge pages take {} % of its CPU time", share / 10),
            cost: "more page faults and TLB misses, and less memory that is touched thinly"
                .to_owned(),
            ..Planned::default()
        };
        let none = Share::default();
        let case = self.case_of(ShootdownOrigin::Kernel, &none);
        WeighedChange::of_origin(&case, &remedy::kernel::NO_HUGE_PAGES, &Offer::default())
            .add_to(&mut planned);
        self.candidates.push(planned);
    }

    /// The shootdowns of every origin by cause, without those of unknown and of guessed callers, whose causes were not kept.
    fn all_by_cause(&self) -> Share {
        let mut all = Share::default();
        let own = self.split.own.values();
        let shares = self.split.allocators.iter().chain(own);
        for share in shares.chain([&self.split.threads]) {
            for (&cause, &count) in &share.causes {
                all.count_cause(cause, count);
            }
        }
        for (&cause, &count) in &self.split.others {
            all.count_cause(cause, count);
        }
        all
    }

    fn add_note(&mut self, text: String) {
        if !self.plan.notes.contains(&text) {
            self.plan.notes.push(text);
        }
    }

    /// The share by which memory may grow.
    fn budget_share(&self) -> f64 {
        // A program whose memory was not measured has no budget to keep.
        let Some(rss) = self.evidence.max_rss else {
            return f64::INFINITY;
        };
        let least = self.options.at_least as f64 / rss.max(1) as f64;
        self.options.budget.max(least)
    }

    /// The share by which it may still grow.
    fn budget_left(&self) -> f64 {
        (self.budget_share() - self.spent).max(0.0)
    }

    /// Bytes by which memory may still grow; none where the program's memory was not measured. Once the library is chosen it
    /// stays what it was then, so that the sizes of all remedies by the library are made from the same bytes.
    fn room_bytes(&self) -> Option<u64> {
        if let Some(room) = self.library {
            return room;
        }
        Some((self.evidence.max_rss? as f64 * self.budget_left()) as u64)
    }

    /// The share of the most resident memory by which this grows. None where nobody measured the growth, or where it is in bytes
    /// and the program's memory was not measured.
    fn memory_share(&self, memory: MemoryGrowth) -> Option<f64> {
        match (memory, self.evidence.max_rss) {
            (MemoryGrowth::Share(share), _) => Some(share),
            (MemoryGrowth::UpTo(bytes), Some(rss)) => Some(bytes as f64 / rss.max(1) as f64),
            (MemoryGrowth::UpTo(_), None) | (MemoryGrowth::Unknown, _) => None,
        }
    }
}

#[cfg(test)]
#[path = "choose_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "tried_tests.rs"]
mod tried_tests;
