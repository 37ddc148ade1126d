//! A plan, and the environment that it makes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{RemedyCeiling, Start, conf, start};

/// The remedies chosen for one program, each with its evidence and its cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The changes to make.
    pub remedies: Vec<Planned>,
    /// Remedies that were considered and refused, with the reason, and remarks for the user.
    pub notes: Vec<String>,
}

/// One remedy of a plan. In its file tables come last, as TOML wants them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// Its stable name, such as `jemalloc.decay`.
    pub remedy: String,
    /// The evidence for it, in a sentence with figures.
    #[serde(default)]
    pub evidence: String,
    /// The share of all observed shootdowns that it is expected to stop, 0 to 1.
    #[serde(default)]
    pub predicted_stop: f64,
    /// The cost of it, in words with the figure.
    #[serde(default)]
    pub cost: String,
    /// Which of the time it touches, and why, in a sentence; empty where there is no ceiling.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub touches: String,
    /// The change of CPU time that is predicted, from the least to the most, in 90 of 100 cases: -0.2 is a fifth less. None where
    /// there is no ceiling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<[f64; 2]>,
    /// The environment variables that it sets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sets: BTreeMap<String, String>,
    /// Changes to the process before it starts: keys and values of [`Start`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub starts: BTreeMap<String, String>,
    /// The most that it could win, in the run that was observed; none where nobody knows where the time went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<RemedyCeiling>,
    /// The user has allowed the program the memory that it takes already: no budget bounds it. Not kept in files.
    #[serde(skip)]
    pub memory_allowed: bool,
}

impl Plan {
    /// Notes how the user's environment meets these settings; true if all of them are set already. False where there are none,
    /// and where a value of the user's is malformed, because its reader may ignore the rest. `found` stands for the software in
    /// the note.
    pub(crate) fn user_has(
        &mut self,
        found: &str,
        sets: &BTreeMap<String, String>,
        env: &impl Fn(&str) -> Option<String>,
    ) -> bool {
        for (name, value) in sets {
            let theirs = env(name);
            if let Some(complaint) = theirs
                .as_deref()
                .and_then(|v| conf::value_complaint(name, v))
            {
                self.notes.push(complaint);
            }
            let replaced = conf::replaced_settings(name, theirs.as_deref(), value);
            if !replaced.is_empty() {
                self.notes.push(format!(
                    "{name}: the plan replaces your {}",
                    replaced.join(" and ")
                ));
            }
        }
        let malformed =
            |name: &str| env(name).is_some_and(|v| conf::value_complaint(name, &v).is_some());
        let has = !sets.is_empty()
            && sets
                .iter()
                .all(|(n, v)| conf::is_set_already(n, env(n).as_deref(), v) && !malformed(n));
        if has {
            self.notes.push(format!(
                "{found}: its remedy was set already when this was observed"
            ));
        }
        has
    }

    /// The environment that the plan makes of the user's (`base`): only the variables that it
    /// changes, each with the user's own settings kept and the plan's behind them.
    pub fn environment(&self, base: &impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
        let mut ours: BTreeMap<&String, String> = BTreeMap::new();
        for (name, value) in self.remedies.iter().flat_map(|r| &r.sets) {
            let all = match ours.get(name) {
                Some(before) => conf::merge_values(name, before, value),
                None => value.clone(),
            };
            ours.insert(name, all);
        }
        // The remedies' needs are merged first, and only then the user's value: that is no further need.
        let over = |(name, value): (&String, String)| {
            let all = conf::merge_setting(name, base(name).as_deref(), &value);
            (name.clone(), all)
        };
        ours.into_iter().map(over).collect()
    }

    /// The share of all observed shootdowns that the whole plan is expected to stop, 0 to 1.
    #[must_use]
    pub fn predicted_stop(&self) -> f64 {
        // An empty sum of floats is -0.
        let sum = self
            .remedies
            .iter()
            .fold(0.0, |sum, r| sum + r.predicted_stop);
        (f64::min(sum, 1.0) * 1000.0).round() / 1000.0
    }

    /// The changes to the process before it starts, of all remedies, one for each key. A plan that was read or chosen has no
    /// contradiction; of one that was put together wrongly this is empty.
    #[must_use]
    pub fn starts(&self) -> Vec<Start> {
        let tables = self.remedies.iter().map(|r| (r.remedy.as_str(), &r.starts));
        start::merge_starts(tables).unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
