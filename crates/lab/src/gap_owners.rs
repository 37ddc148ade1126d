//! The process that answers for each gap of the victim, and its relation to the experiment.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use quell_host::proc::Proc;
use serde::{Deserialize, Serialize};

use crate::arm::Arm;
use crate::attribute::{ClassifiedBlock, ClassifiedGap, GapClass};

/// The relation of a process to the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GapOwner {
    /// The culprit's process, which also answers for the faults that its mechanism makes the victim take.
    Culprit,
    /// A thread of the kernel's that works for the culprit.
    Daemon,
    /// The victim's own process: other faults, and whatever else of it no culprit does.
    Victim,
    /// Another process.
    Other,
    /// Nobody that the kernel knows of: timers, devices, a hypervisor.
    Nobody,
}

/// The victim's gaps of one class that one process answers for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedGaps {
    /// Its relation to the experiment.
    pub who: GapOwner,
    /// Its name, of daemons and others; of others it is empty where the process ended before its name was read, or is one of the
    /// many that took little.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comm: String,
    /// Why there were gaps.
    pub class: GapClass,
    /// Their number.
    pub gaps: u64,
    /// Their sum, ns.
    pub ns: u64,
}

/// The other processes of an arm that are listed by name.
const MAX_NAMED_PROCESSES: usize = 8;

/// The processes of an experiment, and the names of those that took the victim's time.
#[derive(Clone, Debug, Default)]
pub struct ExperimentProcesses {
    /// The process of victim and culprit.
    both: u32,
    /// The culprit in a process of its own.
    sham: u32,
    /// The beginnings of the names of kernel threads that work for a culprit.
    daemons: &'static [&'static str],
    names: BTreeMap<u32, String>,
}

impl ExperimentProcesses {
    pub(crate) fn new(both: u32, sham: u32, daemons: &'static [&'static str]) -> Self {
        Self {
            both,
            sham,
            daemons,
            names: BTreeMap::new(),
        }
    }

    /// Reads the names of those that took the victim's time in a block: soon after it, for processes end.
    pub(crate) fn learn_names(&mut self, block: &ClassifiedBlock) {
        let proc = Proc::new("/");
        for told in &block.gaps {
            if told.by != 0 && !self.names.contains_key(&told.by) {
                let name = proc.comm(told.by).unwrap_or_default();
                self.names.insert(told.by, name);
            }
        }
    }

    /// All gaps of an arm's blocks by the process that answers for them: the culprit first, and the most time first among equals.
    pub(crate) fn gaps_by_owner(&self, arm: Arm, blocks: &[&ClassifiedBlock]) -> Vec<OwnedGaps> {
        let gaps = || {
            let all = blocks.iter().flat_map(|b| &b.gaps);
            all.map(move |told| (self.owner_of(arm, told), told))
        };
        let named = longest_names(gaps());
        let mut sums: BTreeMap<(GapOwner, &str, GapClass), (u64, u64)> = BTreeMap::new();
        for ((who, comm), told) in gaps() {
            let is_little = who == GapOwner::Other && !named.contains(comm);
            let comm = if is_little { "" } else { comm };
            let sum = sums.entry((who, comm, told.class)).or_default();
            sum.0 += 1;
            sum.1 += told.gap.ns;
        }
        let mut all: Vec<OwnedGaps> = sums
            .into_iter()
            .map(|((who, comm, class), (gaps, ns))| OwnedGaps {
                who,
                comm: comm.to_owned(),
                class,
                gaps,
                ns,
            })
            .collect();
        all.sort_by_key(|taken| (taken.who, Reverse(taken.ns)));
        all
    }

    fn owner_of(&self, arm: Arm, told: &ClassifiedGap) -> (GapOwner, &str) {
        let name = self.names.get(&told.by).map_or("", String::as_str);
        let culprit = match arm {
            Arm::Idle => None,
            Arm::Sham => Some(self.sham),
            Arm::Real | Arm::Untraced => Some(self.both),
        };
        if told.caused {
            let works_for_it = self.daemons.iter().any(|begin| name.starts_with(begin));
            return if works_for_it {
                (GapOwner::Daemon, name)
            } else {
                (GapOwner::Culprit, "")
            };
        }
        match told.by {
            _ if told.class == GapClass::Fault => (GapOwner::Victim, ""),
            0 => (GapOwner::Nobody, ""),
            by if Some(by) == culprit => (GapOwner::Culprit, ""),
            by if by == self.both => (GapOwner::Victim, ""),
            _ => (GapOwner::Other, name),
        }
    }
}

/// The names of the other processes that took most.
fn longest_names<'a>(
    gaps: impl Iterator<Item = ((GapOwner, &'a str), &'a ClassifiedGap)>,
) -> BTreeSet<&'a str> {
    let mut others: BTreeMap<&str, u64> = BTreeMap::new();
    for ((_, comm), told) in gaps.filter(|((who, _), _)| *who == GapOwner::Other) {
        *others.entry(comm).or_default() += told.gap.ns;
    }
    let mut others: Vec<(&str, u64)> = others.into_iter().collect();
    others.sort_by_key(|(_, ns)| Reverse(*ns));
    others
        .iter()
        .take(MAX_NAMED_PROCESSES)
        .map(|(comm, _)| *comm)
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::block::VictimGap;

    const BOTH: u32 = 7;
    const SHAM: u32 = 8;
    const KSMD: u32 = 30;

    fn processes() -> ExperimentProcesses {
        let mut all = ExperimentProcesses::new(BOTH, SHAM, &["ksmd"]);
        all.names = BTreeMap::from([(BOTH, "quell".to_owned()), (KSMD, "ksmd".to_owned())]);
        for pid in 100..120 {
            all.names.insert(pid, format!("other-{pid}"));
        }
        all
    }

    fn told(class: GapClass, by: u32, caused: bool) -> ClassifiedGap {
        ClassifiedGap {
            gap: VictimGap {
                begin_ns: 0,
                ns: 500,
            },
            class,
            caused,
            by,
        }
    }

    /// Check that the same gap is laid to whom it belongs in each arm, and that a daemon answers only for what it did for the culprit.
    #[test]
    fn each_gap_has_its_process() {
        let all = processes();
        let who = |arm, class, by, caused| all.owner_of(arm, &told(class, by, caused));
        assert_eq!(
            who(Arm::Real, GapClass::Tlb, BOTH, true),
            (GapOwner::Culprit, "")
        );
        assert_eq!(
            who(Arm::Sham, GapClass::Callfn, SHAM, false),
            (GapOwner::Culprit, "")
        );
        assert_eq!(
            who(Arm::Sham, GapClass::Sched, BOTH, false),
            (GapOwner::Victim, "")
        );
        assert_eq!(
            who(Arm::Idle, GapClass::Sched, BOTH, false),
            (GapOwner::Victim, "")
        );
        assert_eq!(
            who(Arm::Real, GapClass::Tlb, KSMD, true),
            (GapOwner::Daemon, "ksmd")
        );
        assert_eq!(
            who(Arm::Idle, GapClass::Sched, KSMD, false),
            (GapOwner::Other, "ksmd")
        );
        assert_eq!(
            who(Arm::Real, GapClass::Fault, 0, true),
            (GapOwner::Culprit, "")
        );
        assert_eq!(
            who(Arm::Real, GapClass::Fault, 0, false),
            (GapOwner::Victim, "")
        );
        assert_eq!(
            who(Arm::Real, GapClass::Timer, 0, false),
            (GapOwner::Nobody, "")
        );
        assert_eq!(
            who(Arm::Real, GapClass::Sched, 100, false),
            (GapOwner::Other, "other-100")
        );
        assert_eq!(
            who(Arm::Real, GapClass::Sched, 999, false),
            (GapOwner::Other, "")
        );
        assert_eq!(
            ExperimentProcesses::default().owner_of(Arm::Real, &told(GapClass::None, 0, false)),
            (GapOwner::Nobody, "")
        );
    }

    proptest! {
        /// Check that no gap is lost or told twice, whoever made it, and that no more than so many others have names.
        #[test]
        fn sums_are_those_of_the_classes(
            gaps in prop::collection::vec((0usize..7, prop_oneof![Just(0u32), Just(BOTH), Just(SHAM), Just(KSMD), 100u32..130], any::<bool>()), 0..200),
        ) {
            let gaps = gaps.into_iter().map(|(class, by, caused)| told(GapClass::ALL[class], by, caused));
            let block = ClassifiedBlock { gaps: gaps.collect(), ..ClassifiedBlock::default() };
            for arm in [Arm::Idle, Arm::Sham, Arm::Real] {
                let all = processes().gaps_by_owner(arm, &[&block]);
                for class in GapClass::ALL {
                    let of_class = block.gaps.iter().filter(|t| t.class == class);
                    let (n, ns) = of_class.fold((0, 0), |(n, ns), t| (n + 1, ns + t.gap.ns));
                    let here = all.iter().filter(|t| t.class == class);
                    prop_assert_eq!((n, ns), here.fold((0, 0), |(n, ns), t| (n + t.gaps, ns + t.ns)));
                }
                let mut named: Vec<_> = all.iter().filter(|t| t.who == GapOwner::Other && !t.comm.is_empty()).map(|t| &t.comm).collect();
                named.sort();
                named.dedup();
                prop_assert!(named.len() <= MAX_NAMED_PROCESSES);
                prop_assert!(all.is_sorted_by_key(|t| t.who));
            }
        }
    }
}
