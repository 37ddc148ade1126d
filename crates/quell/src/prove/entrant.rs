//! The entrants of a race: changes with the setup that they make, and whether further changes add to them.

use quell_remedy::{Plan, Planned};

use super::mend;
use super::tried::distinct_labels;
use crate::launch::Setup;
use crate::plan::{self, Environment};

/// One or several changes together, ready to run.
#[derive(Clone)]
pub(super) struct Entrant {
    pub(super) changes: Vec<Planned>,
    pub(super) label: String,
    pub(super) setup: Setup,
}

fn plan_of(changes: &[Planned]) -> Plan {
    Plan {
        remedies: changes.to_vec(),
        notes: Vec::new(),
    }
}

impl Entrant {
    pub(super) fn new(changes: Vec<Planned>, label: String) -> anyhow::Result<Self> {
        let plan = plan_of(&changes);
        let environment: Environment = mend::environment_of(&plan)?;
        let setup = plan::setup_of(&environment, &plan);
        Ok(Self {
            changes,
            label,
            setup,
        })
    }

    /// This entrant's changes together with those of another. Plain runs add neither changes nor a name.
    pub(super) fn joined_with(&self, other: &Self) -> anyhow::Result<Self> {
        if self.changes.is_empty() {
            return Ok(other.clone());
        }
        let changes = [self.changes.as_slice(), &other.changes].concat();
        Self::new(changes, format!("{} and {}", self.label, other.label))
    }

    pub(super) fn from_candidates(candidates: Vec<Vec<Planned>>) -> anyhow::Result<Vec<Self>> {
        let labels = distinct_labels(&candidates);
        let entrants = candidates.into_iter().zip(labels);
        entrants
            .map(|(changes, label)| Self::new(changes, label))
            .collect()
    }
}

/// Changes without their reasons, so that the same change is not tried twice when it is found for another reason.
pub(super) fn without_reasons(changes: &[Planned]) -> Vec<Planned> {
    let reduced = |change: &Planned| Planned {
        remedy: change.remedy.clone(),
        sets: change.sets.clone(),
        starts: change.starts.clone(),
        ..Planned::default()
    };
    changes.iter().map(reduced).collect()
}

/// Whether changes add something to those that are kept, and replace none of them.
pub(super) fn is_new(kept: &[Planned], more: &[Planned]) -> bool {
    let sets = |changes: &[Planned]| plan_of(changes).environment(&|_| None);
    let starts = |changes: &[Planned]| plan_of(changes).starts();
    let both: Vec<Planned> = [kept, more].concat();
    let remedies = |one: &Planned| kept.iter().all(|k| k.remedy != one.remedy);
    let adds = sets(&both) != sets(kept) || starts(&both) != starts(kept);
    adds && more.iter().all(remedies)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prove::tried::tests::planned_change;

    /// Check that a change is new unless it sets nothing more, or is another form of a kept one.
    #[test]
    fn what_adds_something() {
        let kept = [planned_change("a", "A", "1")];
        assert!(is_new(&kept, &[planned_change("b", "B", "1")]));
        assert!(!is_new(&kept, &[planned_change("b", "A", "1")]));
        assert!(!is_new(&kept, &[planned_change("a", "A", "2")]));
        assert!(is_new(&[], &kept));
    }
}
