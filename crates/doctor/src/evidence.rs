//! Evidence of harm: counters before and after, and shootdowns by cause.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use quell_event::Cause;
use quell_host::proc::Proc;
use quell_host::vmstat;
use quell_remedy::ShootdownSource;

use crate::finding::Harm;
use crate::judged_allocators::JudgedAllocators;
use crate::memory_limits::{LIMIT_REACHED_COUNTER, count_limits_reached};
use crate::process::AuditedProcess;
use crate::system_files::SystemFiles;

/// Reads the counters of this moment: of /proc/vmstat, and with a process of that under `process.`. One that can't be read
/// is left out.
#[must_use]
pub fn read_counters(root: &Path, pid: Option<u32>) -> HashMap<String, u64> {
    let mut by_name = vmstat::read_vmstat(root).unwrap_or_default();
    if let Some(stat) = pid.and_then(|pid| Proc::new(root).stat(pid).ok()) {
        by_name.insert("process.minor_faults".to_owned(), stat.minor_faults);
        by_name.insert("process.major_faults".to_owned(), stat.major_faults);
    }
    if let Some(reached) = pid.and_then(|pid| {
        count_limits_reached(&SystemFiles::new(root), &AuditedProcess::new(root, pid))
    }) {
        by_name.insert(LIMIT_REACHED_COUNTER.to_owned(), reached);
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
    if let Some((steal, total)) = stolen_ticks(root) {
        by_name.insert("cpu.steal".to_owned(), steal);
        by_name.insert("cpu.total".to_owned(), total);
    }
    by_name
}

/// Time that this machine's CPUs were kept from running, clock ticks (proc_stat(5), 8th field), and all of their time:
/// guests' time, behind it, is counted before it too.
fn stolen_ticks(root: &Path) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(root.join("proc/stat")).ok()?;
    let line = text.lines().find(|l| l.starts_with("cpu "))?;
    let fields = line.split_ascii_whitespace().skip(1).take(8);
    let ticks: Vec<u64> = fields.map_while(|f| f.parse().ok()).collect();
    Some((*ticks.get(7)?, ticks.iter().sum()))
}

/// Evidence that the settings of a machine did harm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HarmEvidence {
    /// Where it is from, in words: `in 5.00 s`, `in t.quell`. Empty where there is none.
    pub where_seen: String,
    /// Growth of counters; `None` where nobody looked twice.
    pub counter_growth: Option<BTreeMap<String, u64>>,
    /// Shootdowns by cause; `None` where nobody counted.
    pub shootdowns_by_cause: Option<HashMap<Cause, u64>>,
    /// The same of the process alone, where `shootdowns_by_cause` are of more than that.
    pub process_shootdowns: Option<HashMap<Cause, u64>>,
    /// Who called for those of the process; `None` where nobody knows.
    pub process_callers: Option<Vec<ShootdownSource>>,
}

impl HarmEvidence {
    /// From counters before and after.
    #[must_use]
    pub fn from_counters(
        before: &HashMap<String, u64>,
        after: &HashMap<String, u64>,
        seen: String,
    ) -> Self {
        let grown = after.iter().filter_map(|(name, now)| {
            let before = before.get(name)?;
            Some((name.clone(), now.saturating_sub(*before)))
        });
        Self {
            where_seen: seen,
            counter_growth: Some(grown.collect()),
            ..Self::default()
        }
    }

    /// How much a counter has grown, if somebody looked twice.
    pub(crate) fn growth_of(&self, counter: &str) -> Option<u64> {
        self.counter_growth.as_ref()?.get(counter).copied()
    }

    /// How many shootdowns of these causes there were, if somebody counted.
    pub(crate) fn shootdowns_by(&self, causes: &[Cause]) -> Option<u64> {
        let counted = self.shootdowns_by_cause.as_ref()?;
        Some(causes.iter().filter_map(|c| counted.get(c)).sum())
    }

    /// The same of the process that is looked at, if somebody counted.
    pub(crate) fn process_shootdowns_by(&self, causes: &[Cause]) -> Option<u64> {
        let counted = self
            .process_shootdowns
            .as_ref()
            .or(self.shootdowns_by_cause.as_ref())?;
        Some(causes.iter().filter_map(|c| counted.get(c)).sum())
    }

    /// How many were seen, of the process or in all.
    pub(crate) fn count_shootdowns(&self, of_process: bool, causes: &[Cause]) -> u64 {
        let n = if of_process {
            self.process_shootdowns_by(causes)
        } else {
            self.shootdowns_by(causes)
        };
        n.unwrap_or(0)
    }

    /// How many shootdowns of a cause the judged allocators called for, and of how many no stack proves who did. Those of which a stack
    /// names another caller are in neither.
    pub(crate) fn shootdowns_by_callers(
        &self,
        cause: Cause,
        callers: &JudgedAllocators,
    ) -> (u64, u64) {
        let Some(sources) = &self.process_callers else {
            return (0, self.count_shootdowns(true, &[cause]));
        };
        let (mut theirs, mut nobodys) = (0, 0);
        for source in sources.iter().filter(|s| s.cause == cause) {
            match quell_remedy::calling_allocator(&callers.all_in_process, source) {
                Ok(Some(i)) if callers.kinds.contains(&callers.all_in_process[i].kind) => {
                    theirs += source.shootdowns;
                }
                Ok(_) => {}
                Err(_) => nobodys += source.shootdowns,
            }
        }
        (theirs, nobodys)
    }

    /// The harm of shootdowns by these causes, and of counters that grew; none where there was none to be seen.
    pub(crate) fn harm_seen(
        &self,
        shootdowns: &[(Cause, u64)],
        counters: &[&'static str],
    ) -> Option<Harm> {
        let seen = shootdowns.iter().filter(|(_, n)| *n > 0);
        let (causes, counts): (Vec<Cause>, Vec<u64>) = seen.copied().unzip();
        let shootdowns: u64 = counts.iter().sum();
        let grown: Vec<(&str, u64)> = counters
            .iter()
            .filter_map(|name| Some((*name, self.growth_of(name).filter(|&n| n > 0)?)))
            .collect();
        let mut parts = Vec::new();
        if shootdowns > 0 {
            parts.push(shootdowns_in_words(shootdowns, &causes));
        }
        parts.extend(grown.iter().map(|(name, n)| format!("{name} +{n}")));
        if parts.is_empty() {
            return None;
        }
        Some(Harm {
            description: format!("{} {}", parts.join(", "), self.where_seen),
            count: shootdowns + grown.iter().map(|g| g.1).sum::<u64>(),
        })
    }
}

/// `3 shootdowns by munmap, brk`.
pub(crate) fn shootdowns_in_words(n: u64, causes: &[Cause]) -> String {
    let names: Vec<_> = causes.iter().map(|c| c.name()).collect();
    let s = if n == 1 { "" } else { "s" };
    format!("{n} shootdown{s} by {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(pairs: &[(&str, u64)]) -> HashMap<String, u64> {
        pairs.iter().map(|&(k, v)| (k.to_owned(), v)).collect()
    }

    /// Check that growth and shootdowns are harm, and that what did not grow or was not looked at is none.
    #[test]
    fn harm_is_what_was_seen() {
        let before = counters(&[("pgmajfault", 5), ("allocstall_normal", 1)]);
        let after = counters(&[("pgmajfault", 8), ("allocstall_normal", 1), ("new", 7)]);
        let mut evidence = HarmEvidence::from_counters(&before, &after, "in 1.00 s".to_owned());
        assert_eq!(evidence.growth_of("pgmajfault"), Some(3));
        assert_eq!(evidence.growth_of("new"), None);
        let harm = |e: &HarmEvidence| {
            let ksm = e.count_shootdowns(false, &[Cause::Ksm]);
            e.harm_seen(&[(Cause::Ksm, ksm)], &["pgmajfault", "allocstall_normal"])
        };
        assert_eq!(
            harm(&evidence).unwrap().description,
            "pgmajfault +3 in 1.00 s"
        );
        evidence.shootdowns_by_cause = Some([(Cause::Ksm, 1)].into());
        let both = harm(&evidence).unwrap();
        assert_eq!(
            both.description,
            "1 shootdown by ksm, pgmajfault +3 in 1.00 s"
        );
        assert_eq!(both.count, 4);
        assert_eq!(harm(&HarmEvidence::default()), None);
        // a trace of others is no evidence of the process
        evidence.process_shootdowns = Some(HashMap::new());
        assert_eq!(evidence.process_shootdowns_by(&[Cause::Ksm]), Some(0));
    }
}
