//! `quell plan`: the remedies for a program, from a trace, a running process, or a run of a command.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use quell_event::Text;
use quell_host::maps;
use quell_host::proc::Proc;
use quell_probe::{ProbeOptions, Scope};
use quell_remedy::{FoundSoftware, Plan, Planned, recognise_process};
use serde_json::{Value, json};

use crate::cli::PlanArgs;
use crate::evidence::{ObservedProgram, of_trace};
use crate::launch::{self, Output, signals};
use crate::outcome;
use crate::plan::{
    Environment, PlannedJson, describe_candidates, describe_remedies, how_to_keep,
    overridden_settings, save_plan,
};
use crate::preload::file_rights::{has_rights, is_process_secure};
use crate::preload::fitness::unfit_process;
use crate::recording::{Recording, STEP, record_command};
use crate::show::command::{command_title, shell_words};
use crate::show::lines::bullet_list;
use crate::show::style::BOLD;
use crate::show::units::{count, percent, plural};
use crate::show::{self, emit};
use crate::target::{self, seconds};
use crate::temp_dir::{RUN_TRACE, TempDir, WATCHED_TRACE};
use crate::usage::usage;

/// The default output of `quell record`.
const DEFAULT_TRACE: &str = "trace.quell";

/// The note that the budget could not be kept, since nobody knows how much memory the program has.
fn unkept_budget(is_process: bool) -> &'static str {
    match is_process {
        true => "--budget is not kept: how much memory the process has could not be read",
        false => {
            "--budget is not kept: a trace does not say how much memory the program has. Plan for '-p PID' or '-- COMMAND', which measure it"
        }
    }
}

/// The program to plan for: the evidence, its name, and the environment that it ran in.
struct PlanSubject {
    observed: ObservedProgram,
    title: String,
    /// The command that starts it again, for the last line.
    command: String,
    environment: Environment,
    status: ExitCode,
}

pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<ExitCode> {
    let subject = match (&args.trace, args.pid, args.command.as_slice()) {
        (None, None, []) => subject_of_trace(Path::new(DEFAULT_TRACE), true)?,
        (Some(dir), _, _) => subject_of_trace(dir, false)?,
        (None, Some(pid), _) => subject_of_process(pid, args.duration)?,
        (None, None, command) => subject_of_run(command)?,
    };
    let theirs = |name: &str| subject.environment.get(name).cloned();
    let quell_remedy::Proposal { plan, candidates } = quell_remedy::choose_remedies(
        &subject.observed.found,
        &subject.observed.evidence,
        &args.budget.unwrap_or_default().options(),
        &theirs,
    );
    if let Some(path) = &args.save {
        save_plan(&plan, path)?;
    }
    let environment = plan.environment(&theirs);
    let unmeasured = (args.budget.is_some() && subject.observed.evidence.max_rss.is_none())
        .then(|| unkept_budget(args.pid.is_some()).to_owned());
    let notes = [
        subject.observed.notes.clone(),
        unmeasured.into_iter().collect(),
        overridden_settings(&environment, &theirs),
        plan.notes.clone(),
    ]
    .concat();
    let text = if let Some(form) = args.emit {
        quell_remedy::emit::emit_plan(&plan, &environment, form)
    } else if args.json {
        plan_json(&plan, &candidates, &environment, &notes, &subject.observed)
    } else {
        plan_text(
            &plan,
            &candidates,
            &environment,
            &notes,
            &subject,
            args.save.as_deref(),
        )
    };
    emit(&mut anstream::stdout(), &text)?;
    Ok(subject.status)
}

/// The variables that are text, name and value.
fn text_variables(all: impl IntoIterator<Item = (OsString, OsString)>) -> Environment {
    all.into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Reads a trace. With `default` nobody has named it, so where it is not there the command line is at fault. A trace does not
/// have its program's environment, so quell's own stands for it.
fn subject_of_trace(dir: &Path, default: bool) -> anyhow::Result<PlanSubject> {
    if default && !dir.exists() {
        return Err(usage("name a TRACE, '-p PID', or '-- COMMAND' to plan for"));
    }
    Ok(PlanSubject {
        observed: of_trace(dir)?,
        title: format!("Plan by the trace {}", Text::from_os_str(dir)),
        command: "COMMAND".to_owned(),
        environment: text_variables(std::env::vars_os()),
        status: ExitCode::SUCCESS,
    })
}

/// Watches a running process for a while. It was started before, so its allocators and rights are read from /proc first:
/// they are gone if it ends meanwhile.
fn subject_of_process(pid: u32, duration: f64) -> anyhow::Result<PlanSubject> {
    let duration = seconds("--duration", duration)?;
    target::program("-p", pid)?;
    let proc = Proc::new("/");
    signals::install_handlers()?;
    let temp = TempDir::new()?;
    let dir = temp.path().join(WATCHED_TRACE);
    let mut command = proc.cmdline(pid).unwrap_or_default();
    // A program that writes its title over its arguments leaves empty ones behind.
    while command.last().is_some_and(|word| word.is_empty()) {
        command.pop();
    }
    let environment = proc.environ(pid).unwrap_or_default();
    let watched = crate::subject::Subject::command(&command);
    let options = ProbeOptions {
        scope: Scope::Tree,
        ..ProbeOptions::default()
    };
    let mut recording = Recording::start(&dir, false, options, &watched)?;
    // The tree is read twice, for processes that fork meanwhile. Forks of a known process are followed by the probe.
    for _ in 0..2 {
        for member in proc.process_tree(pid)? {
            recording.probe.add_process(member)?;
        }
    }
    let recognised = recognise_process(Path::new("/"), pid)?;
    // It is read while the process is there. Only root may read that of a set-user-ID program.
    let told = std::fs::read(proc.path_of(pid, "auxv")).ok();
    let secure = told
        .and_then(|auxv| is_process_secure(&auxv))
        .unwrap_or_else(|| proc.exe(pid).is_ok_and(|exe| has_rights(&exe)));
    let modules = maps::read_maps(Path::new("/"), pid).map(|all| maps::executable_files(&all));
    let modules = modules.unwrap_or_default().into_iter().map(|m| m.path);
    let modules: Vec<PathBuf> = modules.collect();
    let unfit = unfit_process(
        &proc.path_of(pid, "exe"),
        proc.exe(pid).ok().as_deref(),
        &modules,
    );
    let highest_rss = || {
        let text = std::fs::read_to_string(proc.path_of(pid, "status")).ok()?;
        max_rss_of_status(&text)
    };
    let faults = || faults_of_tree(&proc, pid);
    // Both are read before too, because the process may have ended when they are read again.
    let (before, first_rss) = (faults(), highest_rss());
    let end = Instant::now() + duration;
    while Instant::now() < end && signals::first_signal().is_none() && proc.exists(pid) {
        recording.step(STEP)?;
    }
    let (after, max_rss) = (faults(), highest_rss().or(first_rss));
    recording.finish()?;
    let mut observed = of_trace(&dir)?;
    let evidence = &mut observed.evidence;
    evidence.page_faults = faults_between(&before, &after);
    (evidence.max_rss, evidence.secure) = (max_rss, secure);
    evidence.unfit = unfit.or(evidence.unfit.take());
    // The trace has a command line, but quell did not start it.
    evidence.from_start = false;
    observed.add_found(recognised.found);
    let words: Vec<_> = command.iter().map(|w| w.to_string_lossy()).collect();
    let words = shell_words(&words);
    Ok(PlanSubject {
        observed,
        title: format!("Plan for process {pid}, {}", command_title(&words)),
        command: words,
        environment: text_variables(environment),
        status: ExitCode::SUCCESS,
    })
}

/// The page faults so far of a process and each of its descendants that live, by their numbers: their shootdowns are counted
/// too. Empty where it has ended.
fn faults_of_tree(proc: &Proc, pid: u32) -> BTreeMap<u32, u64> {
    let tree = proc.process_tree(pid).unwrap_or_default();
    tree.into_iter()
        .filter_map(|pid| {
            let stat = proc.stat(pid).ok()?;
            Some((pid, stat.minor_faults + stat.major_faults))
        })
        .collect()
}

/// The page faults between two readings, of those that still live at the second; `None` where none does. One that was not there
/// at the first began at 0. Those of a child that ended meanwhile are not known.
fn faults_between(before: &BTreeMap<u32, u64>, after: &BTreeMap<u32, u64>) -> Option<u64> {
    let since =
        |(pid, now): (&u32, &u64)| now.saturating_sub(before.get(pid).copied().unwrap_or(0));
    (!after.is_empty()).then(|| after.iter().map(since).sum())
}

/// The maximum of resident memory so far, in bytes, by a status file (proc_pid_status(5)).
fn max_rss_of_status(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Runs a command once with a recording, which also measures its memory and page faults.
fn subject_of_run(command: &[OsString]) -> anyhow::Result<PlanSubject> {
    launch::check_command(command)?;
    let temp = TempDir::new()?;
    let dir: PathBuf = temp.path().join(RUN_TRACE);
    // Standard output is for the plan, so the command's goes to standard error.
    let recorded = record_command(command, &dir, Output::ToStderr)?;
    let ended = recorded.ended;
    let mut observed = of_trace(&dir)?;
    observed.add_run_of(command, &ended.usage);
    let words = shell_words(&observed.evidence.command);
    let status = outcome::finish(command, &ended, &recorded.leftovers);
    Ok(PlanSubject {
        observed,
        title: format!("Plan for {}", command_title(&words)),
        command: words,
        environment: text_variables(std::env::vars_os()),
        status,
    })
}

fn plan_text(
    plan: &Plan,
    candidates: &[Planned],
    environment: &Environment,
    notes: &[String],
    subject: &PlanSubject,
    saved: Option<&Path>,
) -> String {
    let mut out = String::new();
    let mut seen = plural(subject.observed.evidence.shootdowns, "shootdown") + " seen";
    let others = subject.observed.others;
    if others > 0 {
        seen += &format!(", and {} by other processes", count(others));
    }
    // Writing to a String does not fail.
    let _ = writeln!(out, "{BOLD}{}{BOLD:#} ({seen})", subject.title);
    if plan.remedies.is_empty() {
        out.push_str("\n  nothing to set\n");
    } else {
        out.push('\n');
        out.push_str(&describe_remedies(plan));
    }
    let cpu_ns = subject.observed.account.as_ref().map_or(0, |a| a.cpu_ns);
    out.push_str(&show::advice::advice_text(&subject.observed.advice, cpu_ns));
    out.push_str(&describe_candidates(candidates, &subject.command));
    let found: Vec<String> = subject
        .observed
        .found
        .iter()
        .map(ToString::to_string)
        .collect();
    out.push_str(&bullet_list("Found", &found));
    out.push_str(&bullet_list("Notes", notes));
    if !plan.remedies.is_empty() {
        let predicted = plan.predicted_stop();
        if plan.remedies.len() > 1 && predicted > 0.0 {
            let _ = writeln!(
                out,
                "\n  together predicted to stop {} of all shootdowns{}",
                percent(predicted),
                if others > 0 { ", also others'" } else { "" }
            );
        }
        out.push_str(&how_to_keep(plan, environment, &subject.command, saved));
        let _ = writeln!(out, "  prove it first: quell prove -- {}", subject.command);
    }
    out
}

/// The plan as in TOML, with the figures that it rests on. `by_others` are shootdowns by processes that were not watched, which
/// `predicted_stop`, the share for all remedies together, counts too. `candidates` are all changes that could help, each by
/// itself: only runs can show which do. `advice` is for costs that no setting reaches.
fn plan_json(
    plan: &Plan,
    candidates: &[Planned],
    environment: &Environment,
    notes: &[String],
    observed: &ObservedProgram,
) -> String {
    let planned = |all: &[Planned]| json!(all.iter().map(PlannedJson::from).collect::<Vec<_>>());
    let allocator = |f: &FoundSoftware| {
        json!({
            "kind": f.kind.name(),
            "version": f.version.map(|v| v.to_string()),
            "module": f.module.display().to_string(),
            "variable": f.conf_env,
        })
    };
    let object = json!({
        "schema": "quell/plan/1",
        "shootdowns": observed.evidence.shootdowns,
        "by_others": observed.others,
        "page_faults": observed.evidence.page_faults,
        "allocators": observed.found.iter().map(allocator).collect::<Value>(),
        "remedies": planned(&plan.remedies),
        "candidates": planned(candidates),
        "predicted_stop": plan.predicted_stop(),
        "max_rss": observed.evidence.max_rss,
        "environment": environment,
        "advice": observed.advice,
        "notes": notes,
    });
    object.to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that faults are those of all that live at the end, and unknown where nobody does.
    #[test]
    fn faults_of_the_whole_tree() {
        let before = BTreeMap::from([(1, 10), (2, 100)]);
        let after = BTreeMap::from([(1, 15), (3, 7)]);
        assert_eq!(faults_between(&before, &after), Some(12));
        assert_eq!(faults_between(&before, &BTreeMap::new()), None);
    }

    /// Check that the high-water mark is read in bytes, and that a file without one has none.
    #[test]
    fn reads_the_high_water_mark() {
        let text = "Name:\tx\nVmPeak:\t 9 kB\nVmHWM:\t    2048 kB\n";
        assert_eq!(max_rss_of_status(text), Some(2 << 20));
        assert_eq!(max_rss_of_status("Name:\tkthread\n"), None);
        assert_eq!(max_rss_of_status("VmHWM: x kB"), None);
    }
}
