//! The advice that evidence leads to.

use super::*;
use crate::lab::fixture;

/// Check that every rule that is linked is one of doctor's, so that no evidence is lost, and every experiment one of the lab's
/// with these parameters.
#[test]
fn links_name_rules() {
    let known: Vec<&str> = quell_doctor::all_rules().iter().map(|r| r.id).collect();
    for link in EVIDENCE_LINKS {
        for rule in link.rule_ids() {
            assert!(known.contains(&rule), "{rule}");
        }
        let m = mechanism::mechanism_by_name(link.experiment).expect("an experiment");
        let set: Vec<_> = link
            .set
            .iter()
            .map(|(n, v)| ((*n).to_owned(), *v))
            .collect();
        Params::new(m.params, &set).expect("its parameters");
    }
}

/// A finding of doctor's, as if it were of this rule: which rules apply goes by the machine.
fn finding(rule: &'static str, status: FindingStatus) -> Finding {
    let mut finding = audit_machine().into_iter().next().expect("a finding");
    finding.rule = rule;
    finding.status = status;
    finding.severity = Severity::High;
    finding
}

fn shown(ppm: f64, verdict: LabVerdict) -> ExperimentSummary {
    let mut s = fixture::dontneed_result();
    s.effect.stall_ppm.difference = ppm;
    s.verdict = verdict;
    s
}

/// Check that hazards stand by what was measured, that what was too noisy or can't run ranks nothing and stands apart, and that
/// the step of the flush is measured on both of its sides.
#[test]
fn evidence_ranks() {
    let ran: Vec<LinkOutcome> = vec![
        (
            "dontneed pages=33".into(),
            Ok(shown(20_000.0, LabVerdict::Shown)),
        ),
        (
            "dontneed pages=34".into(),
            Ok(shown(9_000.0, LabVerdict::Shown)),
        ),
        ("ksm".into(), Ok(shown(900_000.0, LabVerdict::TooNoisy))),
        (
            "swap".into(),
            Err("can't run here: there is no zram".into()),
        ),
        ("compact".into(), Ok(shown(40_000.0, LabVerdict::Shown))),
    ];
    let hazards = ["SYS-KSM", "CPU-CEILING", "SYS-SWAP", "SYS-COMPACT"];
    let findings = hazards.map(|rule| finding(rule, FindingStatus::Hazard));
    let mut advice: Vec<_> = findings.iter().map(|f| advice_on_rule(f, &ran)).collect();
    advice.sort_by(compare_advice);
    let order: Vec<_> = advice.iter().take(2).map(|a| a.rule).collect();
    assert_eq!(order, ["SYS-COMPACT", "CPU-CEILING"]);
    let told = anstream::adapter::strip_str(&advice_text(&advice)).to_string();
    let (known, unknown) = told
        .split_once("Hazards of which it can't be told here and now")
        .expect("both parts");
    assert!(
        known.contains("SYS-COMPACT") && known.contains("CPU-CEILING"),
        "{told}"
    );
    assert!(
        known.contains("dontneed pages=33: ") && known.contains("dontneed pages=34: "),
        "{told}"
    );
    assert!(
        unknown.contains("SYS-KSM") && unknown.contains("SYS-SWAP"),
        "{told}"
    );
    assert!(
        unknown.contains("can't run here: there is no zram"),
        "{told}"
    );
    assert!(!told.contains("nothing else"), "{told}");
}
