//! `quell lab advise`: the rules of doctor that matter on this machine, by measurements of the lab.

mod links;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use quell_doctor::{
    Finding, FindingStatus, HarmEvidence, Severity, SystemView, WorkloadProfile, audit_system,
};
use quell_lab::arm::Arm;
use quell_lab::judge::LabVerdict;
use quell_lab::mechanism;
use quell_lab::params::Params;
use quell_lab::round::ExperimentOptions;
use quell_lab::summary::ExperimentSummary;
use serde::Serialize;

use super::{ExperimentEnd, begin_lab, run_one_experiment, say_interrupted};
use crate::cli::LabAdviseArgs;
use crate::show::emit_result;
use crate::show::style::{BOLD, heading};
use crate::show::units::{count, time};
use crate::usage::usage;
use links::{EVIDENCE_LINKS, EvidenceLink};

/// The lab's evidence on a rule.
#[derive(Clone, Debug, Serialize)]
struct RuleEvidence {
    experiment: String,
    /// The verdict; none where the experiment can't run here, and of the idle arm.
    verdict: Option<LabVerdict>,
    /// The evidence in a sentence.
    said: String,
    /// The stall, ppm of the victim's time; none where it can't be known.
    stall_ppm: Option<f64>,
}

impl RuleEvidence {
    /// The evidence of an experiment of which nothing is known here and now.
    fn unknown(experiment: String, why: String) -> Self {
        Self {
            experiment,
            verdict: None,
            said: why,
            stall_ppm: None,
        }
    }
}

impl RuleAdvice {
    /// Whether anything of the rule is known on this machine.
    fn is_measured(&self) -> bool {
        self.measured.iter().any(|m| m.stall_ppm.is_some())
    }
}

/// An experiment that ran: the name of the link, and the summary or why it can't run here.
type LinkOutcome = (String, Result<ExperimentSummary, String>);

#[derive(Serialize)]
struct RuleAdvice {
    rule: &'static str,
    status: FindingStatus,
    severity: Severity,
    said: String,
    fix_now: String,
    measured: Vec<RuleEvidence>,
}

#[derive(Serialize)]
struct AdviceObject<'a> {
    schema: &'static str,
    advice: &'a [RuleAdvice],
}

pub(crate) fn run_advise(args: &LabAdviseArgs) -> anyhow::Result<ExitCode> {
    let findings = audit_machine();
    let (victim_cpu, culprit_cpu) = begin_lab(None, None)?;
    let budget = Duration::from_secs(args.budget);
    let mut failed = false;
    let mut ran: Vec<LinkOutcome> = Vec::new();
    for link in EVIDENCE_LINKS {
        let name = link.name();
        let Some(m) = mechanism::mechanism_by_name(link.experiment) else {
            continue;
        };
        if ran.iter().any(|(n, _)| *n == name) {
            continue;
        }
        let set: Vec<(String, u64)> = link
            .set
            .iter()
            .map(|(n, v)| ((*n).to_owned(), *v))
            .collect();
        let params = Params::new(m.params, &set).map_err(usage)?;
        let least = m.timing.least_budget().unwrap_or_default();
        let options = ExperimentOptions::new(victim_cpu, culprit_cpu, budget.max(least));
        let (summary, as_before) = run_one_experiment(m, &params, &options, None);
        failed |= !as_before;
        let summary = match summary {
            ExperimentEnd::Done(summary) => Ok(*summary),
            ExperimentEnd::CantRun(why) => Err(format!("can't run here: {why}")),
            ExperimentEnd::Failed(err) => {
                say!("quell: {name} failed: {err:#}");
                failed = true;
                Err(format!("failed: {err:#}"))
            }
        };
        let interrupted = summary.as_ref().is_ok_and(|s| s.interrupted);
        ran.push((name, summary));
        if interrupted {
            say_interrupted();
            break;
        }
    }
    let mut advice: Vec<RuleAdvice> = findings.iter().map(|f| advice_on_rule(f, &ran)).collect();
    advice.retain(|a| a.status == FindingStatus::Hazard || !a.measured.is_empty());
    advice.sort_by(compare_advice);
    let object = || AdviceObject {
        schema: "quell/lab-advice/1",
        advice: &advice,
    };
    emit_result(args.json, object, || advice_text(&advice))?;
    Ok(ExitCode::from(u8::from(failed)))
}

/// Doctor's findings on this machine, before the lab changes anything of it.
fn audit_machine() -> Vec<Finding> {
    let evidence = HarmEvidence::default();
    let look = SystemView::new(Path::new("/"), None, WorkloadProfile::default(), &evidence);
    audit_system(&look, |_| true)
}

fn advice_on_rule(finding: &Finding, ran: &[LinkOutcome]) -> RuleAdvice {
    let links = EVIDENCE_LINKS
        .iter()
        .filter(|link| link.rule_ids().any(|rule| rule == finding.rule));
    let measured = links.filter_map(|link| {
        let name = link.name();
        let (_, result) = ran.iter().find(|(n, _)| *n == name)?;
        Some(match result {
            Ok(summary) => link_evidence(link, summary),
            Err(why) => RuleEvidence::unknown(name, why.clone()),
        })
    });
    RuleAdvice {
        rule: finding.rule,
        status: finding.status,
        severity: finding.severity,
        said: finding.said.clone(),
        fix_now: finding.fix_now(),
        measured: measured.collect(),
    }
}

fn link_evidence(link: &EvidenceLink, summary: &ExperimentSummary) -> RuleEvidence {
    let experiment = link.name();
    if let Some(class) = link.idle {
        let idle = summary.arms.get(Arm::Idle.name()).filter(|a| a.ran_ns > 0);
        let Some(idle) = idle else {
            let why = "can't be told now: no idle block counts";
            return RuleEvidence::unknown(experiment, why.to_owned());
        };
        let ppm = idle.class_ppm(class);
        return RuleEvidence {
            experiment,
            verdict: None,
            said: format!(
                "without a culprit, beside what else ran: {} gaps a second of class {}, {} ppm of the time",
                count(idle.class_rate(class).round() as u64),
                class.name(),
                count(ppm.round() as u64)
            ),
            stall_ppm: Some(ppm),
        };
    }
    let e = &summary.effect;
    let each = e.ns_per_event.map_or_else(String::new, |ns| {
        format!(", {} for each shootdown or fault", time(ns.round() as u64))
    });
    let op = summary.arms.get(Arm::Real.name()).and_then(|a| a.op_ns);
    let op = op.map_or_else(String::new, |(p50, _)| {
        format!("; the operation itself takes {}", time(p50))
    });
    let said = match summary.verdict {
        LabVerdict::Shown => format!(
            "when it happens all the time, a thread loses {:.1} % of its time{each}{op}",
            e.stall_ppm.difference / 1e4
        ),
        LabVerdict::NotShown => format!("stalls nobody here: {}", summary.why),
        LabVerdict::TooNoisy | LabVerdict::TooShort => {
            format!("can't be told now: {}", summary.why)
        }
    };
    let is_known = summary.verdict.is_answer();
    RuleEvidence {
        experiment,
        verdict: Some(summary.verdict),
        said,
        // An unknown stall ranks nothing.
        stall_ppm: is_known.then_some(e.stall_ppm.difference),
    }
}

/// Orders hazards before the rest, those that were measured to stall first, the worst of them first.
fn compare_advice(a: &RuleAdvice, b: &RuleAdvice) -> std::cmp::Ordering {
    let key = |x: &RuleAdvice| {
        let worst = x.measured.iter().filter_map(|m| m.stall_ppm);
        (
            x.status == FindingStatus::Hazard,
            worst.fold(0.0, f64::max),
            x.severity,
        )
    };
    let (a, b) = (key(a), key(b));
    b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)).then(b.2.cmp(&a.2))
}

/// A heading, and whether advice belongs under it.
type AdvicePart<'a> = (&'static str, &'a dyn Fn(&RuleAdvice) -> bool);

fn advice_text(advice: &[RuleAdvice]) -> String {
    let mut out = String::new();
    let is_hazard = |a: &RuleAdvice| a.status == FindingStatus::Hazard;
    let parts: [AdvicePart<'_>; 5] = [
        ("Hazards, by what they were measured to cost here", &|a| {
            is_hazard(a) && a.is_measured()
        }),
        ("Hazards of which it can't be told here and now", &|a| {
            is_hazard(a) && !a.is_measured() && !a.measured.is_empty()
        }),
        (
            "Hazards that no experiment of the short set is about",
            &|a| is_hazard(a) && a.measured.is_empty(),
        ),
        ("No hazard as it is set, and what it would cost", &|a| {
            !is_hazard(a) && a.is_measured()
        }),
        (
            "No hazard as it is set; what it would cost can't be told here and now",
            &|a| !is_hazard(a) && !a.is_measured(),
        ),
    ];
    for (title, belongs) in parts {
        let mut some = advice.iter().filter(|a| belongs(a)).peekable();
        if some.peek().is_none() {
            continue;
        }
        heading(&mut out, title);
        for a in some {
            // Writing to a String does not fail.
            let _ = writeln!(
                out,
                "{BOLD}{}{BOLD:#} {}: {}",
                a.rule,
                a.severity.name(),
                a.said
            );
            for m in &a.measured {
                let _ = writeln!(out, "  {}: {}", m.experiment, m.said);
            }
            if a.status == FindingStatus::Hazard {
                for line in a.fix_now.lines() {
                    let _ = writeln!(out, "  fix: {line}");
                }
            }
        }
    }
    out.push_str("\n'quell doctor --rule ID' says more of a rule; 'quell lab run EXPERIMENT' of an experiment.\n");
    out.trim_start().to_owned()
}

#[cfg(test)]
#[path = "advise_tests.rs"]
mod tests;
