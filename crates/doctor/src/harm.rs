//! Whose harm it is: a shootdown is counted once, under the rule that is its cause.

use std::collections::HashMap;

use quell_event::Cause;

use crate::evidence::{HarmEvidence, shootdowns_in_words};
use crate::finding::Finding;
use crate::judged_allocators::JudgedAllocators;
use crate::rule::UnattributedFinding;

/// The findings with their harm: of hazards only. A shootdown that several rules might be the cause of is counted under one. That is
/// the one whose own counters grew, then the worst, then the first.
pub(crate) fn attribute_harm(
    asked: Vec<UnattributedFinding<'_>>,
    evidence: &HarmEvidence,
) -> Vec<Finding> {
    let mut kept: HashMap<Cause, usize> = HashMap::new();
    let weight = |i: usize| {
        let one = &asked[i];
        let grew = |name: &&str| evidence.growth_of(name).is_some_and(|n| n > 0);
        (one.counters.iter().any(grew), one.finding.severity)
    };
    for (i, one) in asked.iter().enumerate() {
        if !one.is_hazard() || one.callers.is_some() {
            continue;
        }
        for &cause in one.rule.causes {
            if evidence.count_shootdowns(one.is_of_process(), &[cause]) == 0 {
                continue;
            }
            let best = kept.entry(cause).or_insert(i);
            if weight(i) > weight(*best) {
                *best = i;
            }
        }
    }
    let ids: Vec<&'static str> = asked.iter().map(|a| a.rule.id).collect();
    let one = |(i, mut one): (usize, UnattributedFinding<'_>)| {
        if one.is_hazard() {
            match one.callers.take() {
                Some(callers) => attribute_by_caller(&mut one, &callers, evidence),
                None => attribute_by_cause(&mut one, evidence, |cause| {
                    kept.get(&cause)
                        .filter(|&&keeper| keeper != i)
                        .map(|&keeper| ids[keeper])
                }),
            }
        }
        one.finding
    };
    asked.into_iter().enumerate().map(one).collect()
}

fn attribute_by_cause(
    one: &mut UnattributedFinding<'_>,
    evidence: &HarmEvidence,
    keeper: impl Fn(Cause) -> Option<&'static str>,
) {
    let mut counted = Vec::new();
    for &cause in one.rule.causes {
        let n = evidence.count_shootdowns(one.is_of_process(), &[cause]);
        match keeper(cause) {
            Some(rule) => one.finding.notes.push(format!(
                "{} {}: counted under {rule}",
                shootdowns_in_words(n, &[cause]),
                evidence.where_seen
            )),
            None => counted.push((cause, n)),
        }
    }
    one.finding.harm = evidence.harm_seen(&counted, &one.counters);
}

fn attribute_by_caller(
    one: &mut UnattributedFinding<'_>,
    callers: &JudgedAllocators,
    evidence: &HarmEvidence,
) {
    let (mut counted, mut unknown, mut unknown_by) = (Vec::new(), 0, Vec::new());
    for &cause in one.rule.causes {
        let (theirs, nobodys) = evidence.shootdowns_by_callers(cause, callers);
        counted.push((cause, theirs));
        if nobodys > 0 {
            unknown += nobodys;
            unknown_by.push(cause);
        }
    }
    if unknown > 0 {
        one.finding.notes.push(format!(
            "{} {}: by whom is not known (a trace with stacks tells: quell record)",
            shootdowns_in_words(unknown, &unknown_by),
            evidence.where_seen
        ));
    }
    one.finding.harm = evidence.harm_seen(&counted, &one.counters);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{FindingStatus, Severity};
    use crate::rules;
    use quell_remedy::{FoundSoftware, Linking, ShootdownSource, SoftwareKind};

    fn asked(
        id: &str,
        counters: &[&'static str],
        callers: Option<JudgedAllocators>,
    ) -> UnattributedFinding<'static> {
        let rule = rules::all_rules().find(|r| r.id == id).unwrap();
        UnattributedFinding {
            rule,
            finding: Finding {
                rule: rule.id,
                title: rule.title,
                status: FindingStatus::Hazard,
                severity: Severity::High,
                read: Vec::new(),
                said: String::new(),
                why: rule.why,
                harm: None,
                fixes: Vec::new(),
                risk: rule.risk,
                source: rule.source,
                notes: Vec::new(),
            },
            counters: counters.to_vec(),
            callers,
        }
    }

    fn seen(cause: Cause, n: u64) -> HarmEvidence {
        HarmEvidence {
            where_seen: "in t.quell".to_owned(),
            shootdowns_by_cause: Some([(cause, n)].into()),
            ..HarmEvidence::default()
        }
    }

    /// Check that a shootdown that several rules might be the cause of did harm under one of them: the first, or the
    /// one whose counter grew; and that what is no hazard did none.
    #[test]
    fn a_shootdown_is_counted_once() {
        let all = || {
            vec![
                asked("SYS-THP-DEFRAG", &["compact_stall"], None),
                asked("SYS-COMPACT", &["compact_daemon_migrate_scanned"], None),
                asked("SYS-COMPACT-MLOCK", &[], None),
            ]
        };
        let harmful = |findings: &[Finding]| -> Vec<&'static str> {
            let harmful = findings.iter().filter(|f| f.harm.is_some());
            harmful.map(|f| f.rule).collect()
        };
        let mut evidence = seen(Cause::Compaction, 1);
        let told_all = attribute_harm(all(), &evidence);
        assert_eq!(harmful(&told_all), ["SYS-THP-DEFRAG"]);
        assert_eq!(
            told_all[2].notes,
            ["1 shootdown by compaction in t.quell: counted under SYS-THP-DEFRAG"]
        );
        let grown = [("compact_daemon_migrate_scanned".to_owned(), 9)];
        evidence.counter_growth = Some(grown.into());
        assert_eq!(harmful(&attribute_harm(all(), &evidence)), ["SYS-COMPACT"]);
        let mut fine = all();
        for one in &mut fine {
            one.finding.status = FindingStatus::Ok;
        }
        assert_eq!(
            harmful(&attribute_harm(fine, &evidence)),
            Vec::<&str>::new()
        );
    }

    /// Check that an allocator is blamed for what it called for, and not where nobody knows who called.
    #[test]
    fn callers_are_told_apart() {
        let file = "/lib/libc.so.6";
        let callers = || JudgedAllocators {
            all_in_process: vec![FoundSoftware::new(
                SoftwareKind::Glibc,
                file,
                Linking::SharedLibrary,
                "",
            )],
            kinds: vec![SoftwareKind::Glibc],
        };
        let one = |evidence: &HarmEvidence| {
            let asked = vec![asked("ALLOC-GLIBC", &[], Some(callers()))];
            attribute_harm(asked, evidence).remove(0)
        };
        let mut evidence = seen(Cause::Munmap, 7);
        let nobody = one(&evidence);
        assert_eq!(nobody.harm, None);
        assert!(
            nobody.notes[0].starts_with("7 shootdowns by munmap in t.quell: by whom is not known"),
            "{:?}",
            nobody.notes
        );
        let source = |module: &str, symbol: &str, shootdowns| ShootdownSource {
            cause: Cause::Munmap,
            caller_module: Some(module.into()),
            caller_symbol: Some(symbol.to_owned()),
            region: None,
            shootdowns,
        };
        evidence.process_callers = Some(vec![
            source(file, "free", 4),
            source("/usr/bin/app", "unmap_all", 3),
        ]);
        let found = one(&evidence);
        assert_eq!(
            found.harm.unwrap().description,
            "4 shootdowns by munmap in t.quell"
        );
        assert!(found.notes.is_empty(), "{:?}", found.notes);
    }
}
