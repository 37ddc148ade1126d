//! What was seen to happen: counters before and after, and shootdowns by cause.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use quell_event::Cause;
use quell_host::proc::Proc;
use quell_host::vmstat;
use quell_remedy::ShootdownSource;

use crate::finding::Harm;
use crate::harm::{Callers, words};
use crate::rules;

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
        if let Some(reached) = pid.and_then(|pid| rules::memory_limit(root, pid)) {
            by_name.insert(rules::MEMORY_LIMIT.to_owned(), reached);
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
        if let Some((steal, total)) = steal(root) {
            by_name.insert("cpu.steal".to_owned(), steal);
            by_name.insert("cpu.total".to_owned(), total);
        }
        Self { by_name }
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.by_name.get(name).copied()
    }
}

/// Time that this machine's CPUs were kept from running, clock ticks (proc_stat(5), 8th field), and all of their time:
/// guests' time, behind it, is counted before it too.
fn steal(root: &Path) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(root.join("proc/stat")).ok()?;
    let line = text.lines().find(|l| l.starts_with("cpu "))?;
    let fields = line.split_ascii_whitespace().skip(1).take(8);
    let ticks: Vec<u64> = fields.map_while(|f| f.parse().ok()).collect();
    Some((*ticks.get(7)?, ticks.iter().sum()))
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
    /// The same of the process alone, where `causes` are of more than that.
    pub process: Option<HashMap<Cause, u64>>,
    /// Who called for those of the process; `None` where nobody knows.
    pub callers: Option<Vec<ShootdownSource>>,
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
            ..Self::default()
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

    /// The same of the process that is looked at, if somebody counted.
    #[must_use]
    pub fn of_process(&self, causes: &[Cause]) -> Option<u64> {
        let counted = self.process.as_ref().or(self.causes.as_ref())?;
        Some(causes.iter().filter_map(|c| counted.get(c)).sum())
    }

    /// How many were seen, of the process or in all.
    pub(crate) fn count(&self, of_process: bool, causes: &[Cause]) -> u64 {
        let n = if of_process {
            self.of_process(causes)
        } else {
            self.shootdowns(causes)
        };
        n.unwrap_or(0)
    }

    /// How many shootdowns of a cause these allocators called for, and of how many nobody knows who did.
    pub(crate) fn called(&self, cause: Cause, callers: &Callers) -> (u64, u64) {
        let Some(sources) = &self.callers else {
            return (0, self.count(true, &[cause]));
        };
        let (mut theirs, mut nobodys) = (0, 0);
        for source in sources.iter().filter(|s| s.cause == cause) {
            match quell_remedy::calling_allocator(&callers.all, source) {
                Ok(Some(i)) if callers.kinds.contains(&callers.all[i].kind) => {
                    theirs += source.shootdowns;
                }
                Ok(_) => {}
                Err(_) => nobodys += source.shootdowns,
            }
        }
        (theirs, nobodys)
    }

    /// The harm of shootdowns by these causes, and of counters that grew; none where there was none to be seen.
    pub(crate) fn harm(
        &self,
        shootdowns: &[(Cause, u64)],
        counters: &[&'static str],
    ) -> Option<Harm> {
        let seen = shootdowns.iter().filter(|(_, n)| *n > 0);
        let (causes, counts): (Vec<Cause>, Vec<u64>) = seen.copied().unzip();
        let shootdowns: u64 = counts.iter().sum();
        let grown: Vec<(&str, u64)> = counters
            .iter()
            .filter_map(|name| Some((*name, self.grown(name).filter(|&n| n > 0)?)))
            .collect();
        let mut parts = Vec::new();
        if shootdowns > 0 {
            parts.push(words(shootdowns, &causes));
        }
        parts.extend(grown.iter().map(|(name, n)| format!("{name} +{n}")));
        if parts.is_empty() {
            return None;
        }
        Some(Harm {
            what: format!("{} {}", parts.join(", "), self.seen),
            count: shootdowns + grown.iter().map(|g| g.1).sum::<u64>(),
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
        let harm = |e: &Evidence| {
            let ksm = e.count(false, &[Cause::Ksm]);
            e.harm(&[(Cause::Ksm, ksm)], &["pgmajfault", "allocstall_normal"])
        };
        assert_eq!(harm(&evidence).unwrap().what, "pgmajfault +3 in 1.00 s");
        evidence.causes = Some([(Cause::Ksm, 1)].into());
        let both = harm(&evidence).unwrap();
        assert_eq!(both.what, "1 shootdown by ksm, pgmajfault +3 in 1.00 s");
        assert_eq!(both.count, 4);
        assert_eq!(harm(&Evidence::default()), None);
        // a trace of others is no evidence of the process
        evidence.process = Some(HashMap::new());
        assert_eq!(evidence.of_process(&[Cause::Ksm]), Some(0));
    }
}
