//! `quell run`: starts a command with a plan applied.
//!
//! quell becomes the command (execve(2)), so that its status, signals and terminal are its own. If the plan preloads a
//! library, a process beside it watches for an early end that the library may cause (`launch/early_end.rs`).

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context as _;
use quell_event::Cause;
use quell_remedy::{
    Evidence, FoundSoftware, Plan, SHIM_LIBRARY, ShootdownSource, recognise_command,
};

use crate::cli::RunArgs;
use crate::launch;
use crate::plan::{
    overridden_settings, own_variable, read_plan, save_plan, setup_of, shell_exports,
};
use crate::preload;
use crate::preload::file_rights::is_secure;
use crate::preload::fitness::{for_32_bits, not_loaded, unfit_for_choice};
use crate::prove::left_out::take_preload_out;
use crate::show::emit;
use crate::usage::usage;

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    if args.library {
        let path = preload::find_or_write_library()?;
        emit(&mut std::io::stdout(), &format!("{}\n", path.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut plan = match &args.plan {
        Some(path) => read_plan(path)?,
        None if args.untried => untried_plan(&args.command)?,
        None if args.save.is_some() => return Err(usage(NOTHING_TO_SAVE)),
        None => {
            say_what_could_be_set(&args.command)?;
            Plan::default()
        }
    };
    for out in take_preload_out(&mut plan, &args.command) {
        say_line(&out.report_line());
    }
    if let Some(path) = &args.save {
        save_plan(&plan, path)?;
    }
    let mut environment = plan.environment(&own_variable);
    preload::put_library_path(&mut environment)?;
    for note in overridden_settings(&environment, &own_variable) {
        say_line(&note);
    }
    let not_loaded = not_loaded(&args.command, &environment);
    if let Some(note) = &not_loaded {
        say_line(note);
    }
    if args.dry_run {
        let starts = plan.starts();
        let starts = starts
            .iter()
            .map(|s| format!("# and by 'quell run': {s}\n"));
        let text = shell_exports(&environment) + &starts.collect::<String>();
        emit(&mut std::io::stdout(), &text)?;
        return Ok(ExitCode::SUCCESS);
    }
    // A library that is not loaded can't have broken the command.
    let advice = advice_on_early_end(&plan).filter(|_| not_loaded.is_none());
    let setup = setup_of(&environment, &plan);
    Err(launch::become_command(&args.command, &setup, advice))
}

/// The advice for a program with a preload library that a signal ends soon, printed after the signal and the time; none for a
/// plan without such a library.
fn advice_on_early_end(plan: &Plan) -> Option<String> {
    let preloads = plan
        .remedies
        .iter()
        .filter_map(|p| Some((p.remedy.as_str(), p.sets.get("LD_PRELOAD")?)));
    let (names, lists): (Vec<&str>, Vec<&String>) = preloads.unzip();
    let mut libraries: Vec<&str> = Vec::new();
    for library in lists.iter().flat_map(|list| list.split([':', ' '])) {
        if !library.is_empty() && !libraries.contains(&library) {
            libraries.push(library);
        }
    }
    let (libraries, names) = (join_with_and(&libraries)?, join_with_and(&names)?);
    let off = if libraries.contains(SHIM_LIBRARY) {
        "QUELL_SHIM=off, or "
    } else {
        ""
    };
    Some(format!(
        "with {libraries} loaded; see whether it runs without: {off}leave {names} out of the plan"
    ))
}

fn join_with_and(words: &[&str]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(" and "))
}

fn say_line(text: &str) {
    say!("quell: {text}");
}

/// The error where an empty plan would be written.
const NOTHING_TO_SAVE: &str = "--save: there is no plan to write: 'quell prove --save FILE -- CMD' writes one that wins time, and --untried makes one that nobody has tried";

/// Names the settings that could help, and sets none: a setting that wins time for one program costs another time, and only
/// runs can show which.
fn say_what_could_be_set(command: &[OsString]) -> anyhow::Result<()> {
    let (plan, _) = recognise_plan(command)?;
    let names: Vec<&str> = plan.remedies.iter().map(|p| p.remedy.as_str()).collect();
    match names.as_slice() {
        [] => say_nothing_to_set(&plan),
        names => say_line(&format!(
            "nothing is set without a plan: {} may win time or lose it; 'quell prove --save plan.toml -- CMD' finds out, and --untried sets it all the same",
            names.join(", ")
        )),
    }
    Ok(())
}

/// The plan for `--untried`: settings that nobody has tried on this command.
fn untried_plan(command: &[OsString]) -> anyhow::Result<Plan> {
    let (plan, notes) = recognise_plan(command)?;
    for p in &plan.remedies {
        for (name, value) in &p.sets {
            say_line(&format!("{name}={value} ({}: {})", p.remedy, p.evidence));
        }
    }
    if plan.remedies.is_empty() {
        say_nothing_to_set(&plan);
    }
    for note in &notes {
        say_line(&format!("{note}; 'quell prove' finds out"));
    }
    Ok(plan)
}

fn say_nothing_to_set(plan: &Plan) {
    let why = plan.notes.first().map_or(
        "no allocator with a setting was found in it",
        String::as_str,
    );
    say_line(&format!("nothing to set: {why}"));
}

/// Finds the allocators in a command's files: the settings that are known for them, and notes on files that could not be
/// examined.
fn recognise_plan(command: &[OsString]) -> anyhow::Result<(Plan, Vec<String>)> {
    launch::check_command(command)?;
    if let Some(program) = for_32_bits(command) {
        let why = format!(
            "{} is a 32-bit program, and quell knows settings for 64-bit ones",
            program.display()
        );
        let plan = Plan {
            notes: vec![why],
            ..Plan::default()
        };
        return Ok((plan, Vec::new()));
    }
    let recognised = recognise_command(command, &|name| std::env::var_os(name))
        .with_context(|| format!("finding the allocators of {}", command[0].display()))?;
    let plan = without_evidence(command, &recognised.found, &own_variable);
    Ok((plan, recognised.notes))
}

/// A plan for the allocators that were found, as if each had caused shootdowns. The C library's is left out where another
/// one takes its place.
fn without_evidence(
    command: &[OsString],
    found: &[FoundSoftware],
    env: &impl Fn(&str) -> Option<String>,
) -> Plan {
    /// Enough for every remedy to be considered.
    const SUPPOSED_SHOOTDOWNS: u64 = 1_000;
    let replaced = found.iter().any(|f| f.replaces_malloc && !f.kind.is_libc());
    let used: Vec<FoundSoftware> = found
        .iter()
        .filter(|f| !(replaced && f.kind.is_libc()))
        .cloned()
        .collect();
    let supposed = |f: &FoundSoftware| ShootdownSource {
        cause: Cause::MadviseDontneed,
        caller_module: Some(f.module.clone()),
        // It may be any name but that of a system call's wrapper.
        caller_symbol: Some("free".to_owned()),
        region: None,
        shootdowns: SUPPOSED_SHOOTDOWNS,
    };
    let evidence = Evidence {
        shootdowns: SUPPOSED_SHOOTDOWNS * used.len() as u64,
        sources: used.iter().map(supposed).collect(),
        secure: is_secure(command),
        unfit: unfit_for_choice(command),
        ..Evidence::default()
    };
    let mut plan = quell_remedy::plan(&used, &evidence, env);
    for planned in &mut plan.remedies {
        // The number of shootdowns is only supposed, so the evidence names the files alone.
        let of = used
            .iter()
            .find(|f| planned.evidence.contains(&f.file_name()));
        planned.evidence = match of {
            Some(f) => format!("not observed; by its files alone: {f}"),
            None => "not observed; by its files alone".to_owned(),
        };
        planned.predicted_stop = 0.0;
    }
    plan
}
