//! Choosing remedies, and what a plan is.

use std::collections::BTreeMap;

use crate::attribute::{Evidence, Share, split};
use crate::remedy::{self, Case, Verdict};
use crate::words::{counted, percent};
use crate::{Found, Kind, Start, conf, start};

/// Below this many shootdowns in a run there is nothing worth changing: start and end of any threaded
/// program make a few dozen.
pub const FEW: u64 = 50;
/// An allocator with less than this share of the shootdowns is left alone.
const SMALL_SHARE: f64 = 0.02;
/// The remedies chosen for one program, each with its evidence and its cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// What to set.
    pub remedies: Vec<Planned>,
    /// What was considered and refused, with the reason, and what the user should know.
    pub notes: Vec<String>,
}

/// One remedy of a plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Planned {
    /// Its stable name, such as `jemalloc.decay`.
    pub remedy: String,
    /// The environment variables that it sets.
    pub sets: BTreeMap<String, String>,
    /// What is done to the process before it starts: keys and values of [`Start`].
    pub starts: BTreeMap<String, String>,
    /// What speaks for it, in a sentence with figures.
    pub evidence: String,
    /// The share of all observed shootdowns that it is expected to stop, 0 to 1.
    pub predicted_stop: f64,
    /// What it costs, in words with the figure.
    pub cost: String,
}

/// Chooses remedies for what was found, from what was observed. `env` is the environment that the
/// program was observed in.
pub fn plan(found: &[Found], evidence: &Evidence, env: &impl Fn(&str) -> Option<String>) -> Plan {
    let mut plan = Plan::default();
    let split = split(found, evidence);
    let faults = evidence.page_faults.unwrap_or(0);
    if evidence.shootdowns < FEW && faults < remedy::MANY_FAULTS {
        plan.notes.push(format!(
            "{} and {} in the whole run: nothing to gain",
            counted(evidence.shootdowns, "shootdown"),
            evidence.page_faults.map_or_else(
                || "an unknown number of page faults".to_owned(),
                |n| counted(n, "page fault")
            ),
        ));
        return plan;
    }
    // Copies after fork; without a fork, copy-on-write is the replacing of zero pages.
    let by = |cause: &str| split.others.get(cause).copied().unwrap_or(0);
    let copies = if by("fork") > 0 {
        by("fork") + by("cow")
    } else {
        0
    };
    let mut done: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    // The largest first, so that the plan reads by importance.
    let mut order: Vec<(usize, &Share)> = split.allocators.iter().enumerate().collect();
    order.sort_by_key(|(_, share)| std::cmp::Reverse(share.shootdowns));
    for (index, share) in order {
        let found = &found[index];
        let part = share.shootdowns as f64 / split.total.max(1) as f64;
        let enough = evidence.shootdowns >= FEW && share.shootdowns > 0 && part >= SMALL_SHARE;
        let by_faults =
            faults >= remedy::MANY_FAULTS && !found.kind.is_libc() && found.kind != Kind::Node;
        if !enough && !by_faults {
            plan.notes.push(format!(
                "{found}: left as it is, {} of {} shootdowns are from it",
                share.shootdowns, split.total
            ));
            continue;
        }
        let case = Case {
            found,
            total: split.total,
            page_faults: evidence.page_faults,
            copies: copies as f64 / split.total.max(1) as f64,
            env,
            share,
        };
        for remedy in remedy::all().iter().filter(|r| r.kind() == found.kind) {
            match remedy.consider(&case) {
                Verdict::Refuse(why) => plan.notes.push(format!("{found}: nothing set: {why}")),
                Verdict::Set { sets, stops, cost } => {
                    // Two copies of one allocator listen to one variable.
                    let same = (remedy.id().to_owned(), sets.clone());
                    if done.contains(&same) {
                        continue;
                    }
                    if plan.user_has(found, &sets, env) {
                        continue;
                    }
                    done.push(same);
                    let mut evidence_text = share.describe(found, split.total);
                    if !enough {
                        evidence_text = format!(
                            "{evidence_text}; chosen for the program's {faults} page faults"
                        );
                    }
                    plan.remedies.push(Planned {
                        remedy: remedy.id().to_owned(),
                        sets,
                        starts: BTreeMap::new(),
                        evidence: evidence_text,
                        predicted_stop: (part * stops * 1000.0).round() / 1000.0,
                        cost,
                    });
                }
            }
        }
    }
    plan.note_the_rest(&split);
    plan
}

impl Share {
    fn describe(&self, found: &Found, total: u64) -> String {
        let mut causes: Vec<(&&str, &u64)> = self.causes.iter().collect();
        causes.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), **name));
        let causes: Vec<String> = causes
            .iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        let mut text = format!(
            "{} of {} ({} %) {} from {}",
            self.shootdowns,
            counted(total, "shootdown"),
            percent(self.shootdowns, total),
            if self.shootdowns == 1 { "is" } else { "are" },
            found.kind.name()
        );
        if let Some(version) = found.version {
            text.push_str(&format!(" {version}"));
        }
        text.push_str(&format!(" in {}", found.file_name()));
        if !causes.is_empty() {
            text.push_str(&format!(": {}", causes.join(", ")));
        }
        if self.guessed > 0 {
            text.push_str(&format!(
                "; {} of them counted to it without a stack that says so",
                self.guessed
            ));
        }
        text
    }
}

impl Plan {
    /// Notes what the user's environment has to do with what would be set; true if it is set already.
    fn user_has(
        &mut self,
        found: &Found,
        sets: &BTreeMap<String, String>,
        env: &impl Fn(&str) -> Option<String>,
    ) -> bool {
        for (name, value) in sets {
            let theirs = env(name);
            if let Some(complaint) = theirs.as_deref().and_then(|v| conf::complaint(name, v)) {
                self.notes.push(complaint);
            }
            let replaced = conf::replaced(name, theirs.as_deref(), value);
            if !replaced.is_empty() {
                self.notes.push(format!(
                    "{name}: the plan replaces your {}",
                    replaced.join(" and ")
                ));
            }
        }
        let malformed = |name: &str| env(name).is_some_and(|v| conf::complaint(name, &v).is_some());
        let has = sets
            .iter()
            .all(|(n, v)| conf::already(n, env(n).as_deref(), v) && !malformed(n));
        if has {
            self.notes.push(format!(
                "{found}: its remedy was set already when this was observed"
            ));
        }
        has
    }

    /// What no remedy here stops: said, so that nobody expects it.
    fn note_the_rest(&mut self, split: &crate::attribute::Split) {
        // `12 shootdowns (5 %) are`
        let part = |count: u64| {
            let verb = if count == 1 { "is" } else { "are" };
            let percent = percent(count, split.total);
            format!("{} ({percent} %) {verb}", counted(count, "shootdown"))
        };
        let worth = |count: u64| count > 0 && count * 20 >= split.total;
        for (file, &count) in split.own.iter().filter(|(_, count)| worth(**count)) {
            self.notes.push(format!(
                "{} from {file}'s own calls, where no known allocator is: no setting stops them",
                part(count)
            ));
        }
        if worth(split.unknown) {
            self.notes.push(format!(
                "{} from code that could not be named: whether a setting stops them is not known",
                part(split.unknown)
            ));
        }
        if worth(split.threads) {
            self.notes.push(format!(
                "{} the stacks of ending threads: a pool of threads that stay would stop them",
                part(split.threads)
            ));
        }
        for (cause, &count) in split.others.iter().filter(|(_, count)| worth(**count)) {
            self.notes.push(format!(
                "{} by {cause}, which no allocator does: no remedy here",
                part(count)
            ));
        }
    }

    /// The environment that the plan makes of the user's (`base`): only the variables that it
    /// changes, each with the user's own settings kept and the plan's behind them.
    pub fn environment(&self, base: &impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
        let mut out: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in self.remedies.iter().flat_map(|r| &r.sets) {
            let before = out.get(name).cloned().or_else(|| base(name));
            out.insert(name.clone(), conf::merge(name, before.as_deref(), value));
        }
        out
    }

    /// What is done to the process before it starts, of all remedies, one for each key. Of a plan that was
    /// read or chosen that is all of it; of one that was put together wrongly, nothing.
    #[must_use]
    pub fn starts(&self) -> Vec<Start> {
        let tables = self.remedies.iter().map(|r| (r.remedy.as_str(), &r.starts));
        start::merge(tables).unwrap_or_default()
    }

    /// Lines for a shell that set the plan's variables, whatever they were before.
    #[must_use]
    pub fn exports(&self) -> String {
        let quote = |value: &str| format!("'{}'", value.replace('\'', r"'\''"));
        let environment = self.environment(&|_| None);
        environment
            .iter()
            .map(|(name, value)| format!("export {name}={}\n", quote(value)))
            .collect()
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
