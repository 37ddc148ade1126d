//! What was seen to happen: counters before and after, and shootdowns by cause.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use quell_event::Cause;
use quell_host::proc::Proc;
use quell_host::vmstat;

use crate::finding::Harm;

/// Counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Of /proc/vmstat, and with a process of that under `process.`.
    by_name: HashMap<String, u64>,
}

impl Counters {
    /// Reads them; what can't be read is not there.
    #[must_use]
    pub fn read(root: &Path, pid: Option<u32>) -> Self {
        let mut by_name = vmstat::read(root).unwrap_or_default();
        if let Some(stat) = pid.and_then(|pid| Proc::new(root).stat(pid).ok()) {
            by_name.insert("process.minor_faults".to_owned(), stat.minor_faults);
            by_name.insert("process.major_faults".to_owned(), stat.major_faults);
        }
        for (name, path) in [
            (
                "khugepaged.pages_collapsed",
                "sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed",
            ),
            ("ksm.full_scans", "sys/kernel/mm/ksm/full_scans"),
        ] {
            let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
            if let Ok(n) = text.trim().parse() {
                by_name.insert(name.to_owned(), n);
            }
        }
        if let Some(steal) = steal(root) {
            by_name.insert("cpu.steal".to_owned(), steal);
        }
        Self { by_name }
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.by_name.get(name).copied()
    }
}

/// Time that this machine's CPUs were kept from running, clock ticks (proc_stat(5), 8th field).
fn steal(root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(root.join("proc/stat")).ok()?;
    let line = text.lines().find(|l| l.starts_with("cpu "))?;
    line.split_ascii_whitespace().nth(8)?.parse().ok()
}

/// What was seen to happen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Where it is from, in words: `in 5.00 s`, `in t.quell`. Empty where there is none.
    pub seen: String,
    /// Growth of counters; `None` where nobody looked twice.
    pub grown: Option<BTreeMap<String, u64>>,
    /// Shootdowns by cause; `None` where nobody counted.
    pub causes: Option<HashMap<Cause, u64>>,
}

impl Evidence {
    /// From counters before and after.
    #[must_use]
    pub fn between(before: &Counters, after: &Counters, seen: String) -> Self {
        let grown = after.by_name.iter().filter_map(|(name, now)| {
            let before = before.by_name.get(name)?;
            Some((name.clone(), now.saturating_sub(*before)))
        });
        Self {
            seen,
            grown: Some(grown.collect()),
            causes: None,
        }
    }

    /// How much a counter has grown, if somebody looked twice.
    #[must_use]
    pub fn grown(&self, counter: &str) -> Option<u64> {
        self.grown.as_ref()?.get(counter).copied()
    }

    /// How many shootdowns of these causes there were, if somebody counted.
    #[must_use]
    pub fn shootdowns(&self, causes: &[Cause]) -> Option<u64> {
        let counted = self.causes.as_ref()?;
        Some(causes.iter().filter_map(|c| counted.get(c)).sum())
    }

    /// The harm of these causes, or of counters that grew; none where there was none to be seen.
    pub(crate) fn harm(&self, causes: &[Cause], counters: &[&'static str]) -> Option<Harm> {
        let shootdowns = self.shootdowns(causes).filter(|&n| n > 0);
        let grown: Vec<(&str, u64)> = counters
            .iter()
            .filter_map(|name| Some((*name, self.grown(name).filter(|&n| n > 0)?)))
            .collect();
        let mut parts = Vec::new();
        if let Some(n) = shootdowns {
            let names: Vec<_> = causes.iter().map(|c| c.name()).collect();
            let s = if n == 1 { "" } else { "s" };
            parts.push(format!("{n} shootdown{s} by {}", names.join(", ")));
        }
        parts.extend(grown.iter().map(|(name, n)| format!("{name} +{n}")));
        if parts.is_empty() {
            return None;
        }
        Some(Harm {
            what: format!("{} {}", parts.join(", "), self.seen),
            count: shootdowns.unwrap_or(0) + grown.iter().map(|g| g.1).sum::<u64>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(pairs: &[(&str, u64)]) -> Counters {
        Counters {
            by_name: pairs.iter().map(|&(k, v)| (k.to_owned(), v)).collect(),
        }
    }

    /// Check that growth and shootdowns are harm, and that what did not grow or was not looked at is none.
    #[test]
    fn harm_is_what_was_seen() {
        let before = counters(&[("pgmajfault", 5), ("allocstall_normal", 1)]);
        let after = counters(&[("pgmajfault", 8), ("allocstall_normal", 1), ("new", 7)]);
        let mut evidence = Evidence::between(&before, &after, "in 1.00 s".to_owned());
        assert_eq!(evidence.grown("pgmajfault"), Some(3));
        assert_eq!(evidence.grown("new"), None);
        let harm = |e: &Evidence| e.harm(&[Cause::Ksm], &["pgmajfault", "allocstall_normal"]);
        assert_eq!(harm(&evidence).unwrap().what, "pgmajfault +3 in 1.00 s");
        evidence.causes = Some([(Cause::Ksm, 1)].into());
        let both = harm(&evidence).unwrap();
        assert_eq!(both.what, "1 shootdown by ksm, pgmajfault +3 in 1.00 s");
        assert_eq!(both.count, 4);
        assert_eq!(
            Evidence::default().harm(&[Cause::Ksm], &["pgmajfault"]),
            None
        );
    }
}
