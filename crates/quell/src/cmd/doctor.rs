//! `quell doctor`: what in this system or process will stall a program, why, and the fix.

use std::path::Path;
use std::process::ExitCode;

use quell_doctor::emit::EmitOptions;
use quell_doctor::{
    AuditRule, AuditedProcess, Finding, FindingStatus, Fix, HarmEvidence, RuleCheck, Severity,
    SystemView, all_rules, audit_system, emit, sarif,
};
use serde::Serialize;

use crate::audit::{change, evidence, text};
use crate::cli::DoctorArgs;
use crate::show::{self, emit as print};
use crate::target;
use crate::usage::usage;

/// What `--fail-on` is without.
const FAILS: Severity = Severity::Medium;

/// The contract's object.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    profile: &'static str,
    pid: Option<u32>,
    findings: &'a [Finding],
}

pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    if let Some(file) = &args.undo {
        change::undo(file)?;
        return Ok(ExitCode::SUCCESS);
    }
    let asked = check(args)?;
    let evidence = match (&args.trace, args.duration) {
        (Some(trace), _) => {
            let (evidence, notes) = evidence::of_trace(trace, args.pid)?;
            for note in notes {
                say!("quell: {note}");
            }
            evidence
        }
        (None, Some(duration)) => {
            let (evidence, refused) = evidence::live(args.pid, duration)?;
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
        let least = to_mend(args.fail_on, &asked);
        change::make(&findings, least, args.yes, &args.undo_file)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = show::output(args.output.as_deref())?;
    if let Some(form) = args.emit {
        let tuned = look.file("/etc/tuned/active_profile");
        let wanted = EmitOptions {
            form,
            least_severity: to_mend(args.fail_on, &asked),
            tuned_profile: tuned.text().map(str::to_owned),
        };
        print(&mut *out, &emit::emit_fixes(&findings, &wanted))?;
        return Ok(ExitCode::SUCCESS);
    }
    let said = if args.json {
        let document = Document {
            schema: "quell/doctor/1",
            profile: args.profile.name(),
            pid: args.pid,
            findings: &findings,
        };
        serde_json::to_string(&document)? + "\n"
    } else if args.sarif {
        let of_pid = |rule: &AuditRule| matches!(rule.check, RuleCheck::Process(_));
        let mut run = all_rules();
        run.retain(|rule| wanted(rule) && (args.pid.is_some() || !of_pid(rule)));
        let log = sarif::sarif_log(&findings, &run, env!("CARGO_PKG_VERSION"));
        serde_json::to_string(&log)? + "\n"
    } else {
        text::text(&findings, args.profile, args.all)
    };
    print(&mut *out, &said)?;
    let least = args.fail_on.unwrap_or(FAILS);
    Ok(ExitCode::from(status(&findings, least)))
}

/// The rules that are asked for; none where it is all. Bad usage: a process or a rule that isn't there, or a rule about
/// a process without one.
fn check(args: &DoctorArgs) -> anyhow::Result<Vec<&'static str>> {
    if let Some(pid) = args.pid {
        target::process("-p", pid)?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if is_kernel_thread(&stat) {
            return Err(usage(format!(
                "{pid} is a thread of the kernel: it has no memory of its own to look at"
            )));
        }
    }
    named(&args.rule, args.pid.is_some())
}

fn named(names: &[String], with_pid: bool) -> anyhow::Result<Vec<&'static str>> {
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

/// From which severity on a hazard is mended: whoever names a rule wants it mended.
fn to_mend(fail_on: Option<Severity>, asked: &[&str]) -> Severity {
    let least = if asked.is_empty() {
        FAILS
    } else {
        Severity::Info
    };
    fail_on.unwrap_or(least)
}

/// By PF_KTHREAD, of field 9 of proc_pid_stat(5), counted from the end of the name, which may hold anything.
fn is_kernel_thread(stat: &str) -> bool {
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let flags = rest.split_ascii_whitespace().nth(9 - 3);
    flags
        .and_then(|f| f.parse::<u32>().ok())
        .is_some_and(|f| f & 0x0020_0000 != 0)
}

/// Worth knowing, and nothing there to change.
fn is_remark(f: &Finding) -> bool {
    f.severity == Severity::Info && f.fixes.iter().all(|fix| matches!(fix, Fix::Advice(_)))
}

/// 0 clean, 1 a hazard from this severity on, 3 none but what could not be told might be one.
fn status(findings: &[Finding], least: Severity) -> u8 {
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
        assert_eq!(named(&two, true).unwrap(), ["SYS-THP", "PROC-MLOCK"]);
        let err = named(&two, false).unwrap_err();
        assert_eq!(err.to_string(), "PROC-MLOCK needs -p PID");
        assert!(named(&names(&["CG-MEM"]), false).is_err());
        let err = named(&names(&[" x"]), true).unwrap_err();
        assert!(err.to_string().starts_with("no rule 'x'"), "{err}");
    }

    /// Check that a rule that is named is mended whatever its severity, unless a severity is named too.
    #[test]
    fn severities_to_mend() {
        assert_eq!(to_mend(None, &[]), Severity::Medium);
        assert_eq!(to_mend(None, &["SYS-THP"]), Severity::Info);
        assert_eq!(to_mend(Some(Severity::High), &["SYS-THP"]), Severity::High);
    }

    /// Check that a thread of the kernel is known by its flags, whatever its name.
    #[test]
    fn kernel_threads() {
        assert!(is_kernel_thread("2 (k) d) S 0 0 0 0 -1 2129984 0"));
        assert!(!is_kernel_thread("2 (a) S 0 0 0 0 -1 4194304 0"));
        assert!(!is_kernel_thread(""));
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
        assert_eq!(status(&[one(Severity::Info, &[])], Severity::Info), 0);
        assert_eq!(status(&[one(Severity::Info, &[set])], Severity::Info), 1);
        assert_eq!(status(&[one(Severity::Low, &[])], Severity::Info), 1);
    }
}
