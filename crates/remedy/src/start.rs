//! Changes to a process between fork and exec: settings that no environment variable holds.
//!
//! A program inherits them through execve(2) and passes them on to its children. The set is closed, and each value is checked
//! when a plan is read, so that nothing can be refused when it is applied.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Result, anyhow, bail, ensure};
use quell_host::cpus;

/// More nodes than any Linux has (MAX_NUMNODES is 1 << 10 at most, include/linux/numa.h).
const MOST_NODES: u32 = 1024;
/// Ten seconds: a timer that is later than that is no timer any more.
const MOST_SLACK_NS: u64 = 10_000_000_000;

/// One thing that is done before the program starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// `thp = "never"`: no transparent huge pages (prctl(2), `PR_SET_THP_DISABLE`, Linux 3.15).
    ThpNever,
    /// `ksm = "merge"` or `"never"`: whether all of its memory may be merged with that of others (prctl(2),
    /// `PR_SET_MEMORY_MERGE` with 1 or 0, Linux 6.4).
    Ksm {
        /// May be merged.
        merge: bool,
    },
    /// `timer_slack_ns = "N"`: how much later than asked a sleep may end (prctl(2), `PR_SET_TIMERSLACK`).
    TimerSlack {
        /// Nanoseconds, 1 to ten thousand million.
        ns: u64,
    },
    /// `cpus = "0-3,5"`: where it may run (sched_setaffinity(2)).
    Cpus(List),
    /// `numa = "bind:0-1"`, `"interleave:0-1"`, `"preferred:0"` or `"local"`: where its memory comes from
    /// (set_mempolicy(2)).
    Numa(Numa),
}

/// CPUs or nodes, ascending, each once; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List(Vec<u32>);

impl List {
    /// The numbers, ascending.
    #[must_use]
    pub fn numbers(&self) -> &[u32] {
        &self.0
    }
}

/// As the kernel writes it: `0-3,5`.
impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&cpus::format_cpu_list(&self.0))
    }
}

/// Where memory comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Numa {
    /// From the node of the CPU that touches it first, whatever else was set (`MPOL_LOCAL`).
    Local,
    /// From these nodes only (`MPOL_BIND`).
    Bind(List),
    /// From these nodes in turn (`MPOL_INTERLEAVE`).
    Interleave(List),
    /// From this node while it has any (`MPOL_PREFERRED`).
    Preferred(u32),
}

impl Start {
    /// The keys, as a plan has them.
    pub const KEYS: [&'static str; 5] = ["thp", "ksm", "timer_slack_ns", "cpus", "numa"];

    /// Reads a key and its value, as in a plan.
    ///
    /// # Errors
    ///
    /// If there is no such key, or it does not take that value: in one line that names the values it takes.
    pub fn parse(key: &str, value: &str) -> Result<Start> {
        let takes = |what: &str| anyhow!("{key} is '{}', not {what}", value.escape_debug());
        match (key, value) {
            ("thp", "never") => Ok(Start::ThpNever),
            ("thp", _) => Err(takes("'never'")),
            ("ksm", "merge") => Ok(Start::Ksm { merge: true }),
            ("ksm", "never") => Ok(Start::Ksm { merge: false }),
            ("ksm", _) => Err(takes("'merge' or 'never'")),
            ("timer_slack_ns", _) => match value.parse() {
                Ok(ns @ 1..=MOST_SLACK_NS) => Ok(Start::TimerSlack { ns }),
                _ => Err(takes("a number of nanoseconds from 1 to 10000000000")),
            },
            ("cpus", _) => match cpus::parse_cpu_list(value) {
                Some(list) => Ok(Start::Cpus(List(list))),
                None => Err(takes("a list of CPUs such as '0-3,5'")),
            },
            ("numa", _) => parse_numa(value)
                .map(Start::Numa)
                .ok_or_else(|| takes("'bind:0-1', 'interleave:0-1', 'preferred:0' or 'local'")),
            _ => bail!(
                "there is no '{}': write {}",
                key.escape_debug(),
                Self::KEYS.join(", ")
            ),
        }
    }

    /// Its key in a plan.
    #[must_use]
    pub fn key(&self) -> &'static str {
        match self {
            Start::ThpNever => "thp",
            Start::Ksm { .. } => "ksm",
            Start::TimerSlack { .. } => "timer_slack_ns",
            Start::Cpus(_) => "cpus",
            Start::Numa(_) => "numa",
        }
    }

    /// Its value in a plan, always written the same way.
    #[must_use]
    pub fn value(&self) -> String {
        match self {
            Start::ThpNever | Start::Ksm { merge: false } => "never".to_owned(),
            Start::Ksm { merge: true } => "merge".to_owned(),
            Start::TimerSlack { ns } => ns.to_string(),
            Start::Cpus(list) => list.to_string(),
            Start::Numa(numa) => numa.to_string(),
        }
    }
}

/// `thp=never`.
impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}={}", self.key(), self.value()))
    }
}

impl fmt::Display for Numa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Numa::Local => f.pad("local"),
            Numa::Bind(nodes) => f.pad(&format!("bind:{nodes}")),
            Numa::Interleave(nodes) => f.pad(&format!("interleave:{nodes}")),
            Numa::Preferred(node) => f.pad(&format!("preferred:{node}")),
        }
    }
}

/// None where the value has another mode, no list of nodes, a node that no Linux has, or several nodes to prefer.
fn parse_numa(value: &str) -> Option<Numa> {
    if value == "local" {
        return Some(Numa::Local);
    }
    let (mode, nodes) = value.split_once(':')?;
    let nodes = cpus::parse_cpu_list(nodes).filter(|n| n.iter().all(|n| *n < MOST_NODES))?;
    match (mode, nodes.as_slice()) {
        ("bind", _) => Some(Numa::Bind(List(nodes))),
        ("interleave", _) => Some(Numa::Interleave(List(nodes))),
        ("preferred", [node]) => Some(Numa::Preferred(*node)),
        _ => None,
    }
}

/// All of several tables as one list, in the order of their keys.
///
/// # Errors
///
/// If a key or value is none, or two tables want different things.
pub(crate) fn merge_starts<'a>(
    tables: impl Iterator<Item = (&'a str, &'a BTreeMap<String, String>)>,
) -> Result<Vec<Start>> {
    let mut all: BTreeMap<&str, (Start, &str)> = BTreeMap::new();
    for (remedy, table) in tables {
        for (key, value) in table {
            let start = Start::parse(key, value)
                .map_err(|why| anyhow!("remedy {remedy}: starts: {why}"))?;
            if let Some((other, whose)) = all.get(start.key()) {
                ensure!(
                    *other == start,
                    "remedy {remedy}: starts: {start} contradicts {other} of remedy {whose}: keep one of them"
                );
            }
            all.insert(start.key(), (start, remedy));
        }
    }
    Ok(all.into_values().map(|(start, _)| start).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Check that each key takes its values, and shows them the one way.
    #[test]
    fn reads() {
        let good = [
            ("thp", "never", "thp=never"),
            ("ksm", "merge", "ksm=merge"),
            ("ksm", "never", "ksm=never"),
            ("timer_slack_ns", "50000", "timer_slack_ns=50000"),
            ("cpus", "5,0-2,3", "cpus=0-3,5"),
            ("numa", "bind:1,0", "numa=bind:0-1"),
            ("numa", "interleave:0-1", "numa=interleave:0-1"),
            ("numa", "preferred:3", "numa=preferred:3"),
            ("numa", "local", "numa=local"),
        ];
        for (key, value, shown) in good {
            assert_eq!(Start::parse(key, value).unwrap().to_string(), shown);
        }
    }

    /// Check that an unknown key or value is refused in one line that says how to write it.
    #[test]
    fn refuses() {
        let bad = [
            ("thp", "always", "'never'"),
            ("ksm", "", "'merge' or"),
            ("timer_slack_ns", "0", "nanoseconds"),
            ("timer_slack_ns", "-1", "nanoseconds"),
            ("timer_slack_ns", "10000000001", "nanoseconds"),
            ("cpus", "", "list of CPUs"),
            ("cpus", "3-1", "list of CPUs"),
            ("cpus", "0-99999", "list of CPUs"),
            ("numa", "preferred:0-1", "'preferred:0'"),
            ("numa", "bind:", "'bind:0-1'"),
            ("numa", "bind:1024", "'bind:0-1'"),
            ("numa", "bind", "'bind:0-1'"),
            ("nice", "1", "there is no 'nice': write thp, ksm"),
        ];
        for (key, value, why) in bad {
            let error = Start::parse(key, value).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains('\n'), "{error}");
        }
    }

    /// Check that two remedies may ask for the same, and not for opposites.
    #[test]
    fn merges() {
        let table = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let (a, b, c) = (
            table("cpus", "0-1"),
            table("cpus", "0,1"),
            table("cpus", "2"),
        );
        let same = merge_starts([("a", &a), ("b", &b)].into_iter()).unwrap();
        assert_eq!(same, [Start::parse("cpus", "0-1").unwrap()]);
        let why = merge_starts([("a", &a), ("c", &c)].into_iter())
            .unwrap_err()
            .to_string();
        assert_eq!(
            why,
            "remedy c: starts: cpus=2 contradicts cpus=0-1 of remedy a: keep one of them"
        );
    }

    proptest! {
        /// Check that each start is read back from its text, and that no text panics.
        #[test]
        fn round_trip(key in "(thp|ksm|timer_slack_ns|cpus|numa|.{0,8})", value in "(([a-z]{0,10}:)?[0-9,-]{0,12}|never|merge|local|.{0,12})") {
            if let Ok(start) = Start::parse(&key, &value) {
                prop_assert_eq!(Start::parse(start.key(), &start.value()).unwrap(), start);
            }
        }
    }
}
