//! `quell lab advise`: which of doctor's rules matter on this machine, by what the lab measures on it.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use quell_doctor::{Evidence, Finding, Look, Profile, Severity, Status, audit};
use quell_lab::attribute::Class;
use quell_lab::block::Arm;
use quell_lab::experiment::Options;
use quell_lab::judge::Verdict;
use quell_lab::mechanism;
use quell_lab::params::Params;
use quell_lab::protocol::Mode;
use quell_lab::summary::Summary;
use serde::Serialize;

use super::{Beside, Ran, lock, one, place};
use crate::cli::LabAdviseArgs;
use crate::clock::monotonic_ns;
use crate::cmd::usage;
use crate::launch::signals;
use crate::show::emit;
use crate::show::style::{BOLD, heading};
use crate::show::units::time;

/// What an experiment is evidence for.
struct Link {
    experiment: &'static str,
    /// In the idle arm this class, and not what the culprit did.
    idle: Option<Class>,
    rules: &'static [&'static str],
}

/// The short set, and the rules that each part of it speaks to: those whose hazard makes the kernel do what the
/// experiment does, or that are about what the idle arm shows.
const LINKS: &[Link] = &[
    Link {
        experiment: "untouched",
        idle: Some(Class::Timer),
        rules: &["SYS-TIMER", "CPU-ISO", "SYS-STAT", "SYS-WDOG"],
    },
    Link {
        experiment: "untouched",
        idle: Some(Class::Sched),
        rules: &["CPU-ISO", "SYS-RT", "WQ-MASK"],
    },
    Link {
        experiment: "untouched",
        idle: Some(Class::Irq),
        rules: &["IRQ-AFF"],
    },
    Link {
        experiment: "untouched",
        idle: Some(Class::None),
        rules: &["VM-STEAL", "CPU-SMT", "CPU-IDLE"],
    },
    Link {
        experiment: "dontneed",
        idle: None,
        rules: &[
            "VM-PVFLUSH",
            "CPU-INVLPGB",
            "CPU-PCID",
            "CPU-PTI",
            "SYS-BALLOON",
        ],
    },
    Link {
        experiment: "munmap",
        idle: None,
        rules: &["CPU-CEILING"],
    },
    Link {
        experiment: "msync",
        idle: None,
        rules: &["SYS-WB", "PROC-WBMAP"],
    },
    Link {
        experiment: "swap",
        idle: None,
        rules: &[
            "SYS-SWAP",
            "SYS-MGLRU",
            "SYS-WMARK",
            "SYS-ZRECLAIM",
            "SYS-DAMON",
            "CG-MEM",
            "PROC-MLOCK",
        ],
    },
    Link {
        experiment: "ksm",
        idle: None,
        rules: &["SYS-KSM", "PROC-KSM", "SYS-KSM-RESIDUE"],
    },
    Link {
        experiment: "collapse",
        idle: None,
        rules: &[
            "SYS-THP",
            "SYS-KHUGE",
            "SYS-MTHP",
            "PROC-THP",
            "SYS-THP-SHRINK",
        ],
    },
    Link {
        experiment: "compact",
        idle: None,
        rules: &["SYS-COMPACT", "SYS-THP-DEFRAG", "SYS-COMPACT-MLOCK"],
    },
    Link {
        experiment: "numa-balancing",
        idle: None,
        rules: &["SYS-NUMABAL", "SYS-NUMAD", "PROC-NUMA", "SYS-DEMOTE"],
    },
];

/// What the lab says of a rule.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    experiment: &'static str,
    /// Shown, not shown or too noisy; nothing where it can't run here.
    verdict: Option<Verdict>,
    /// In a sentence.
    said: String,
    /// Stall, ppm of the victim's time.
    stall_ppm: Option<f64>,
}

#[derive(Serialize)]
struct Advice {
    rule: &'static str,
    status: Status,
    severity: Severity,
    said: String,
    fix_now: String,
    measured: Vec<Measured>,
}

#[derive(Serialize)]
struct Object {
    schema: &'static str,
    advice: Vec<Advice>,
}

pub(crate) fn advise(args: &LabAdviseArgs) -> anyhow::Result<ExitCode> {
    if !quell_lab::tsc::is_usable() {
        return Err(usage(
            "this CPU has no time stamp counter that runs at one rate",
        ));
    }
    lock(Beside::Nobody)?;
    let findings = findings();
    let (victim_cpu, culprit_cpu) = place(None, None)?;
    signals::install()?;
    let options = Options {
        victim_cpu,
        culprit_cpu,
        budget: Duration::from_secs(args.budget),
        may_stretch: false,
        block: Duration::from_millis(150),
        pace: Duration::from_micros(10),
        mode: Mode::Spin,
        seed: monotonic_ns(),
        rounds: 0,
    };
    let mut names: Vec<&'static str> = LINKS.iter().map(|l| l.experiment).collect();
    names.dedup();
    let mut failed = false;
    let mut ran: Vec<(&'static str, Result<Summary, String>)> = Vec::new();
    for name in names {
        let Some(m) = mechanism::find(name) else {
            continue;
        };
        let params = Params::new(m.params, &[]).map_err(usage)?;
        let least = m.timing.least_budget().unwrap_or_default();
        let options = Options {
            budget: options.budget.max(least),
            ..options.clone()
        };
        let (summary, left) = one(m, &params, &options, None);
        if let Some(left) = left {
            say!("quell: {left}");
            failed = true;
        }
        let summary = match summary {
            Ran::Done(summary) => Ok(*summary),
            Ran::Cant(why) => Err(format!("can't run here: {why}")),
            Ran::Failed(err) => {
                say!("quell: {name} failed: {err:#}");
                failed = true;
                Err(format!("failed: {err:#}"))
            }
        };
        let interrupted = summary.as_ref().is_ok_and(|s| s.interrupted);
        ran.push((name, summary));
        if interrupted {
            say!("quell: interrupted: what follows is of what was run by then");
            break;
        }
    }
    let mut advice: Vec<Advice> = findings.iter().map(|f| of_rule(f, &ran)).collect();
    advice.retain(|a| a.status == Status::Hazard || !a.measured.is_empty());
    advice.sort_by(rank);
    let out = if args.json {
        let object = Object {
            schema: "quell/lab-advice/1",
            advice,
        };
        serde_json::to_string(&object)? + "\n"
    } else {
        text(&advice)
    };
    emit(&mut anstream::stdout(), &out)?;
    Ok(ExitCode::from(u8::from(failed)))
}

/// What doctor finds on this machine, before the lab changes anything of it.
fn findings() -> Vec<Finding> {
    let evidence = Evidence::default();
    let look = Look::new(Path::new("/"), None, Profile::default(), &evidence);
    audit(&look, |_| true)
}

fn of_rule(finding: &Finding, ran: &[(&'static str, Result<Summary, String>)]) -> Advice {
    let links = LINKS.iter().filter(|l| l.rules.contains(&finding.rule));
    let measured = links.filter_map(|link| {
        let (_, result) = ran.iter().find(|(name, _)| *name == link.experiment)?;
        Some(match result {
            Ok(summary) => told(link, summary),
            Err(why) => Measured {
                experiment: link.experiment,
                verdict: None,
                said: why.clone(),
                stall_ppm: None,
            },
        })
    });
    Advice {
        rule: finding.rule,
        status: finding.status,
        severity: finding.severity,
        said: finding.said.clone(),
        fix_now: finding.fix_now(),
        measured: measured.collect(),
    }
}

fn told(link: &Link, summary: &Summary) -> Measured {
    if let Some(class) = link.idle {
        let idle = summary.arms.get(Arm::Idle.name());
        let ppm = idle.map(|a| match class {
            Class::Sched => a.away_ns as f64 * 1e6 / (a.ran_ns + a.away_ns).max(1) as f64,
            class => a.class_ppm(class),
        });
        let rate = idle.map_or(0.0, |a| a.class_rate(class));
        return Measured {
            experiment: link.experiment,
            verdict: None,
            said: format!(
                "with nothing else going on: {rate:.0} gaps a second of class {}, {:.0} ppm of the time",
                class.name(),
                ppm.unwrap_or(0.0)
            ),
            stall_ppm: ppm,
        };
    }
    let e = &summary.effect;
    let each = e.ns_per_event.map_or_else(String::new, |ns| {
        format!(", {} for each shootdown or fault", time(ns.round() as u64))
    });
    let said = match summary.verdict {
        Verdict::Shown => format!(
            "when it happens all the time, a thread loses {:.1} % of its time{each}",
            e.stall_ppm.difference / 1e4
        ),
        Verdict::NotShown => format!("stalls nobody here: {}", summary.why),
        Verdict::TooNoisy | Verdict::TooShort => format!("can't be told now: {}", summary.why),
    };
    Measured {
        experiment: link.experiment,
        verdict: Some(summary.verdict),
        said,
        stall_ppm: Some(e.stall_ppm.difference),
    }
}

/// Hazards before the rest, those that were measured to stall first, the worst of them first.
fn rank(a: &Advice, b: &Advice) -> std::cmp::Ordering {
    let key = |x: &Advice| {
        let worst = x.measured.iter().filter_map(|m| m.stall_ppm);
        (
            x.status == Status::Hazard,
            worst.fold(0.0, f64::max),
            x.severity,
        )
    };
    let (a, b) = (key(a), key(b));
    b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)).then(b.2.cmp(&a.2))
}

/// A heading, and what belongs under it.
type Part = (&'static str, fn(&Advice) -> bool);

fn text(advice: &[Advice]) -> String {
    let mut out = String::new();
    let parts: [Part; 3] = [
        ("Hazards, by what they were measured to cost here", |a| {
            a.status == Status::Hazard && !a.measured.is_empty()
        }),
        (
            "Hazards that no experiment of the short set is about",
            |a| a.status == Status::Hazard && a.measured.is_empty(),
        ),
        ("No hazard as it is set, and what it would cost", |a| {
            a.status != Status::Hazard
        }),
    ];
    for (title, belongs) in parts {
        let mut some = advice.iter().filter(|a| belongs(a)).peekable();
        if some.peek().is_none() {
            continue;
        }
        heading(&mut out, title);
        for a in some {
            // writing to a String does not fail
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
            if a.status == Status::Hazard {
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
mod tests {
    use super::*;

    /// Check that every rule that is linked is one of doctor's, so that no evidence is lost.
    #[test]
    fn links_name_rules() {
        let known: Vec<&str> = quell_doctor::rules().iter().map(|r| r.id).collect();
        for rule in LINKS.iter().flat_map(|l| l.rules) {
            assert!(known.contains(rule), "{rule}");
        }
    }
}
