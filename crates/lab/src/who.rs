//! The process that answers for each gap of the victim, and its relation to the experiment.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use quell_host::proc::Proc;
use serde::{Deserialize, Serialize};

use crate::arm::Arm;
use crate::attribute::{Attributed, Class, Told};

/// The relation of a process to the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
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
pub struct Taken {
    /// Its relation to the experiment.
    pub who: Who,
    /// Its name, of daemons and others; of others it is empty where the process ended before its name was read, or is one of the
    /// many that took little.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comm: String,
    /// Why there were gaps.
    pub class: Class,
    /// Their number.
    pub gaps: u64,
    /// Their sum, ns.
    pub ns: u64,
}

/// The other processes of an arm that are listed by name.
const NAMED: usize = 8;

/// The processes of an experiment, and the names of those that took the victim's time.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    /// The process of victim and culprit.
    both: u32,
    /// The culprit in a process of its own.
    sham: u32,
    /// The beginnings of the names of kernel threads that work for a culprit.
    daemons: &'static [&'static str],
    names: BTreeMap<u32, String>,
}

impl Processes {
    pub(crate) fn new(both: u32, sham: u32, daemons: &'static [&'static str]) -> Self {
        Self {
            both,
            sham,
            daemons,
            names: BTreeMap::new(),
        }
    }

    /// Reads the names of those that took the victim's time in a block: soon after it, for processes end.
    pub(crate) fn meet(&mut self, block: &Attributed) {
        let proc = Proc::new("/");
        for told in &block.gaps {
            if told.by != 0 && !self.names.contains_key(&told.by) {
                let name = proc.comm(told.by).unwrap_or_default();
                self.names.insert(told.by, name);
            }
        }
    }

    /// All gaps of an arm's blocks by the process that answers for them: the culprit first, and the most time first among equals.
    pub(crate) fn taken(&self, arm: Arm, blocks: &[&Attributed]) -> Vec<Taken> {
        let gaps = || {
            let all = blocks.iter().flat_map(|b| &b.gaps);
            all.map(move |told| (self.who(arm, told), told))
        };
        let named = most(gaps());
        let mut sums: BTreeMap<(Who, &str, Class), (u64, u64)> = BTreeMap::new();
        for ((who, comm), told) in gaps() {
            let is_little = who == Who::Other && !named.contains(comm);
            let comm = if is_little { "" } else { comm };
            let sum = sums.entry((who, comm, told.class)).or_default();
            sum.0 += 1;
            sum.1 += told.gap.ns;
        }
        let mut all: Vec<Taken> = sums
            .into_iter()
            .map(|((who, comm, class), (gaps, ns))| Taken {
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

    fn who(&self, arm: Arm, told: &Told) -> (Who, &str) {
        let name = self.names.get(&told.by).map_or("", String::as_str);
        let culprit = match arm {
            Arm::Idle => None,
            Arm::Sham => Some(self.sham),
            Arm::Real | Arm::Untraced => Some(self.both),
        };
        if told.caused {
            let works_for_it = self.daemons.iter().any(|begin| name.starts_with(begin));
            return if works_for_it {
                (Who::Daemon, name)
            } else {
                (Who::Culprit, "")
            };
        }
        match told.by {
            _ if told.class == Class::Fault => (Who::Victim, ""),
            0 => (Who::Nobody, ""),
            by if Some(by) == culprit => (Who::Culprit, ""),
            by if by == self.both => (Who::Victim, ""),
            _ => (Who::Other, name),
        }
    }
}

/// The names of the other processes that took most.
fn most<'a>(gaps: impl Iterator<Item = ((Who, &'a str), &'a Told)>) -> BTreeSet<&'a str> {
    let mut others: BTreeMap<&str, u64> = BTreeMap::new();
    for ((_, comm), told) in gaps.filter(|((who, _), _)| *who == Who::Other) {
        *others.entry(comm).or_default() += told.gap.ns;
    }
    let mut others: Vec<(&str, u64)> = others.into_iter().collect();
    others.sort_by_key(|(_, ns)| Reverse(*ns));
    others.iter().take(NAMED).map(|(comm, _)| *comm).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::block::Gap;

    const BOTH: u32 = 7;
    const SHAM: u32 = 8;
    const KSMD: u32 = 30;

    fn processes() -> Processes {
        let mut all = Processes::new(BOTH, SHAM, &["ksmd"]);
        all.names = BTreeMap::from([(BOTH, "quell".to_owned()), (KSMD, "ksmd".to_owned())]);
        for pid in 100..120 {
            all.names.insert(pid, format!("other-{pid}"));
        }
        all
    }

    fn told(class: Class, by: u32, caused: bool) -> Told {
        Told {
            gap: Gap {
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
        let who = |arm, class, by, caused| all.who(arm, &told(class, by, caused));
        assert_eq!(who(Arm::Real, Class::Tlb, BOTH, true), (Who::Culprit, ""));
        assert_eq!(
            who(Arm::Sham, Class::Callfn, SHAM, false),
            (Who::Culprit, "")
        );
        assert_eq!(who(Arm::Sham, Class::Sched, BOTH, false), (Who::Victim, ""));
        assert_eq!(who(Arm::Idle, Class::Sched, BOTH, false), (Who::Victim, ""));
        assert_eq!(
            who(Arm::Real, Class::Tlb, KSMD, true),
            (Who::Daemon, "ksmd")
        );
        assert_eq!(
            who(Arm::Idle, Class::Sched, KSMD, false),
            (Who::Other, "ksmd")
        );
        assert_eq!(who(Arm::Real, Class::Fault, 0, true), (Who::Culprit, ""));
        assert_eq!(who(Arm::Real, Class::Fault, 0, false), (Who::Victim, ""));
        assert_eq!(who(Arm::Real, Class::Timer, 0, false), (Who::Nobody, ""));
        assert_eq!(
            who(Arm::Real, Class::Sched, 100, false),
            (Who::Other, "other-100")
        );
        assert_eq!(who(Arm::Real, Class::Sched, 999, false), (Who::Other, ""));
        assert_eq!(
            Processes::default().who(Arm::Real, &told(Class::None, 0, false)),
            (Who::Nobody, "")
        );
    }

    proptest! {
        /// Check that no gap is lost or told twice, whoever made it, and that no more than so many others have names.
        #[test]
        fn sums_are_those_of_the_classes(
            gaps in prop::collection::vec((0usize..7, prop_oneof![Just(0u32), Just(BOTH), Just(SHAM), Just(KSMD), 100u32..130], any::<bool>()), 0..200),
        ) {
            let gaps = gaps.into_iter().map(|(class, by, caused)| told(Class::ALL[class], by, caused));
            let block = Attributed { gaps: gaps.collect(), ..Attributed::default() };
            for arm in [Arm::Idle, Arm::Sham, Arm::Real] {
                let all = processes().taken(arm, &[&block]);
                for class in Class::ALL {
                    let of_class = block.gaps.iter().filter(|t| t.class == class);
                    let (n, ns) = of_class.fold((0, 0), |(n, ns), t| (n + 1, ns + t.gap.ns));
                    let here = all.iter().filter(|t| t.class == class);
                    prop_assert_eq!((n, ns), here.fold((0, 0), |(n, ns), t| (n + t.gaps, ns + t.ns)));
                }
                let mut named: Vec<_> = all.iter().filter(|t| t.who == Who::Other && !t.comm.is_empty()).map(|t| &t.comm).collect();
                named.sort();
                named.dedup();
                prop_assert!(named.len() <= NAMED);
                prop_assert!(all.is_sorted_by_key(|t| t.who));
            }
        }
    }
}
