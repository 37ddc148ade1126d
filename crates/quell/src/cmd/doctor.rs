//! `quell doctor`: which settings of this system or process will stall a program, why, and the fix.

use std::path::Path;
use std::process::ExitCode;

use quell_doctor::emit::EmitOptions;
use quell_doctor::{
    AuditRule, AuditedProcess, Finding, FindingStatus, Fix, HarmEvidence, RuleCheck, Severity,
    SystemView, all_rules, audit_system, emit, sarif,
};
use quell_host::proc::Proc;
use serde_json::json;

use crate::cli::DoctorArgs;
use crate::doctor::{change, evidence, text};
use crate::show::{self, emit as print};
use crate::target;
use crate::usage::usage;

/// The severity of `--fail-on` where it is not given.
const DEFAULT_FAIL_SEVERITY: Severity = Severity::Medium;

pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    if let Some(file) = &args.undo {
        change::undo_changes_of(file)?;
        return Ok(ExitCode::SUCCESS);
    }
    let asked = asked_rules(args)?;
    let evidence = match (&args.trace, args.duration) {
        (Some(trace), _) => {
            let (evidence, notes) = evidence::trace_evidence(trace, args.pid)?;
            for note in notes {
                say!("quell: {note}");
            }
            evidence
        }
        (None, Some(duration)) => {
            let (evidence, refused) = evidence::live_evidence(args.pid, duration)?;
            if let Some(why) = refused {
                say!("quell: {why}");
            }
            evidence
        }
        (None, None) => HarmEvidence::default(),
    };
    let look = SystemView::new(Path::new("/"), args.pid, args.profile, &evidence);
    if let Some(pid) = args
        .pid
        .filter(|_| look.process().is_some_and(AuditedProcess::has_ended))
    {
        say!("quell: process {pid} ended: its rules can't tell");
    }
    let wanted = |rule: &AuditRule| asked.is_empty() || asked.contains(&rule.id);
    let findings = audit_system(&look, wanted);
    if args.apply {
        let least = least_severity_to_mend(args.fail_on, &asked);
        change::apply_with_consent(&findings, least, args.yes, &args.undo_file)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = show::output(args.output.as_deref())?;
    if let Some(form) = args.emit {
        let tuned = look.file("/etc/tuned/active_profile");
        let wanted = EmitOptions {
            form,
            least_severity: least_severity_to_mend(args.fail_on, &asked),
            tuned_profile: tuned.text().map(str::to_owned),
        };
        print(&mut *out, &emit::emit_fixes(&findings, &wanted))?;
        return Ok(ExitCode::SUCCESS);
    }
    let said = if args.json {
        let object = json!({
            "schema": "quell/doctor/1",
            "profile": args.profile.name(),
            "pid": args.pid,
            "findings": findings,
        });
        object.to_string() + "\n"
    } else if args.sarif {
        let of_pid = |rule: &AuditRule| matches!(rule.check, RuleCheck::Process(_));
        let mut run = all_rules();
        run.retain(|rule| wanted(rule) && (args.pid.is_some() || !of_pid(rule)));
        let log = sarif::sarif_log(&findings, &run, env!("CARGO_PKG_VERSION"));
        log.to_string() + "\n"
    } else {
        text::findings_text(&findings, args.profile, args.all)
    };
    print(&mut *out, &said)?;
    let least = args.fail_on.unwrap_or(DEFAULT_FAIL_SEVERITY);
    Ok(ExitCode::from(exit_status(&findings, least)))
}

/// The rules that are asked for; empty where all are. It is bad usage to name a process or a rule that does not exist, or a rule
/// about a process without one.
fn asked_rules(args: &DoctorArgs) -> anyhow::Result<Vec<&'static str>> {
    if let Some(pid) = args.pid {
        target::process("-p", pid)?;
        if Proc::new("/").stat(pid).is_ok_and(|stat| stat.is_kernels()) {
            return Err(usage(format!(
                "{pid} is a thread of the kernel: it has no memory of its own to look at"
            )));
        }
    }
    named_rules(&args.rule, args.pid.is_some())
}

fn named_rules(names: &[String], with_pid: bool) -> anyhow::Result<Vec<&'static str>> {
    let known = all_rules();
    let mut asked = Vec::new();
    for name in names {
        let id = name.trim().to_ascii_uppercase();
        let Some(rule) = known.iter().find(|r| r.id == id) else {
            let ids: Vec<_> = known.iter().map(|r| r.id).collect();
            return Err(usage(format!(
                "no rule '{}': there are {}",
                name.trim(),
                ids.join(", ")
            )));
        };
        if !with_pid && matches!(rule.check, RuleCheck::Process(_)) {
            return Err(usage(format!("{} needs -p PID", rule.id)));
        }
        asked.push(rule.id);
    }
    Ok(asked)
}

/// Hazards from this severity on are mended. Whoever names a rule wants it mended, whatever its severity.
fn least_severity_to_mend(fail_on: Option<Severity>, asked: &[&str]) -> Severity {
    let least = if asked.is_empty() {
        DEFAULT_FAIL_SEVERITY
    } else {
        Severity::Info
    };
    fail_on.unwrap_or(least)
}

/// Is this finding worth knowing, though nothing is there to change?
fn is_remark(f: &Finding) -> bool {
    f.severity == Severity::Info && f.fixes.iter().all(|fix| matches!(fix, Fix::Advice(_)))
}

/// The exit status: 0 without a hazard, 1 with one from this severity on, 3 with none where an unknown rule might hide one.
fn exit_status(findings: &[Finding], least: Severity) -> u8 {
    let hazard = findings
        .iter()
        .any(|f| f.status == FindingStatus::Hazard && f.severity >= least && !is_remark(f));
    let unknown = findings
        .iter()
        .any(|f| f.status == FindingStatus::Unknown && f.severity >= least);
    match (hazard, unknown) {
        (true, _) => 1,
        (false, true) => 3,
        (false, false) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|&n| n.to_owned()).collect()
    }

    /// Check that rules are named in any case and with blanks, and that those about a process need one.
    #[test]
    fn rules_are_named() {
        let two = names(&["sys-thp", " PROC-MLOCK"]);
        assert_eq!(named_rules(&two, true).unwrap(), ["SYS-THP", "PROC-MLOCK"]);
        let err = named_rules(&two, false).unwrap_err();
        assert_eq!(err.to_string(), "PROC-MLOCK needs -p PID");
        assert!(named_rules(&names(&["CG-MEM"]), false).is_err());
        let err = named_rules(&names(&[" x"]), true).unwrap_err();
        assert!(err.to_string().starts_with("no rule 'x'"), "{err}");
    }

    /// Check that a rule that is named is mended whatever its severity, unless a severity is named too.
    #[test]
    fn severities_to_mend() {
        assert_eq!(least_severity_to_mend(None, &[]), Severity::Medium);
        assert_eq!(least_severity_to_mend(None, &["SYS-THP"]), Severity::Info);
        assert_eq!(
            least_severity_to_mend(Some(Severity::High), &["SYS-THP"]),
            Severity::High
        );
    }

    /// Check that what is worth knowing fails nobody where there is nothing to change.
    #[test]
    fn remarks_fail_nobody() {
        let one = |severity, fixes: &[Fix]| Finding {
            rule: "CPU-X",
            title: "",
            status: FindingStatus::Hazard,
            severity,
            read: Vec::new(),
            said: String::new(),
            why: "",
            harm: None,
            fixes: fixes.to_vec(),
            risk: "",
            source: "",
            notes: Vec::new(),
        };
        let set = Fix::Cmdline("x=0".to_owned());
        assert_eq!(exit_status(&[one(Severity::Info, &[])], Severity::Info), 0);
        assert_eq!(
            exit_status(&[one(Severity::Info, &[set])], Severity::Info),
            1
        );
        assert_eq!(exit_status(&[one(Severity::Low, &[])], Severity::Info), 1);
    }
}
