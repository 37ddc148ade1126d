//! `quell doctor`: what in this system or process will stall a program, why, and the fix.

use std::path::Path;
use std::process::ExitCode;

use quell_doctor::emit::Wanted;
use quell_doctor::{Evidence, Finding, Look, Rule, Severity, Status, audit, emit, rules, sarif};
use serde::Serialize;

use crate::audit::{change, evidence, text};
use crate::cli::DoctorArgs;
use crate::cmd::usage;
use crate::show::{self, emit as print};
use crate::target;

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
    check(args)?;
    let evidence = match (&args.trace, args.duration) {
        (Some(trace), _) => {
            let (evidence, notes) = evidence::of_trace(trace, args.pid)?;
            for note in notes {
                anstream::eprintln!("quell: {note}");
            }
            evidence
        }
        (None, Some(duration)) => {
            let (evidence, refused) = evidence::live(args.pid, duration)?;
            if let Some(why) = refused {
                anstream::eprintln!("quell: {why}");
            }
            evidence
        }
        (None, None) => Evidence::default(),
    };
    let look = Look::new(Path::new("/"), args.pid, args.profile, &evidence);
    let asked = |rule: &Rule| args.rule.is_empty() || args.rule.iter().any(|id| id == rule.id);
    let findings = audit(&look, asked);
    if args.apply {
        change::make(&findings, args.fail_on, args.yes, &args.undo_file)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = show::output(args.output.as_deref())?;
    if let Some(form) = args.emit {
        let tuned = look.file("/etc/tuned/active_profile");
        let wanted = Wanted {
            form,
            least: args.fail_on,
            tuned: tuned.text().map(str::to_owned),
        };
        print(&mut *out, &emit::emit(&findings, &wanted))?;
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
        let log = sarif::log(&findings, &rules(), env!("CARGO_PKG_VERSION"));
        serde_json::to_string(&log)? + "\n"
    } else {
        text::text(&findings, args.profile, args.all)
    };
    print(&mut *out, &said)?;
    Ok(ExitCode::from(status(&findings, args.fail_on)))
}

/// Bad usage: a process or a rule that isn't there.
fn check(args: &DoctorArgs) -> anyhow::Result<()> {
    if let Some(pid) = args.pid {
        target::process("-p", pid)?;
    }
    let known = rules();
    let unknown = args
        .rule
        .iter()
        .find(|id| known.iter().all(|r| r.id != *id));
    if let Some(id) = unknown {
        let ids: Vec<_> = known.iter().map(|r| r.id).collect();
        return Err(usage(format!(
            "no rule '{id}': there are {}",
            ids.join(", ")
        )));
    }
    Ok(())
}

/// 0 clean, 1 a hazard from this severity on, 3 none but what could not be told might be one.
fn status(findings: &[Finding], least: Severity) -> u8 {
    let any = |status| {
        let mut all = findings.iter();
        all.any(|f| f.status == status && f.severity >= least)
    };
    match (any(Status::Hazard), any(Status::Unknown)) {
        (true, _) => 1,
        (false, true) => 3,
        (false, false) => 0,
    }
}
