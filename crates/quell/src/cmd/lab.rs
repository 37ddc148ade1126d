//! `quell lab`: causes one kind of stall on purpose and measures it.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use quell_lab::arm::VictimActivity;
use quell_lab::mechanism::{self, StallMechanism};
use quell_lab::params::Params;
use quell_lab::round::ExperimentOptions;
use quell_lab::{system, worker};

use crate::cli::{LabArgs, LabRunArgs, LabVerb, VictimMode};
use crate::cmd::{lab_compare, lab_report, usage};
use crate::lab::{self, Beside, Ran};
use crate::launch::signals;
use crate::show::emit;
use crate::show::table::Table;

pub(crate) fn run(args: &LabArgs) -> anyhow::Result<ExitCode> {
    match &args.what {
        LabVerb::List => list(),
        LabVerb::Run(args) => experiments(args),
        LabVerb::Watch(args) => lab::watch(args),
        LabVerb::Advise(args) => lab::advise(args),
        LabVerb::SeedMadv(args) => lab::seed_madv(args),
        LabVerb::SeedJemalloc(args) => lab::seed_jemalloc(args),
        LabVerb::Allocators(args) => lab::allocators(args),
        LabVerb::MadvRun {
            threads,
            calls,
            touch,
        } => {
            lab::madv_run(*threads, *calls, *touch != 0)?;
            Ok(ExitCode::SUCCESS)
        }
        LabVerb::ChurnRun { seed } => {
            lab::churn_run(*seed)?;
            Ok(ExitCode::SUCCESS)
        }
        LabVerb::Report(args) => lab_report::report(args),
        LabVerb::Compare(args) => lab_compare::compare(args),
        LabVerb::Worker => {
            worker::serve_orders(&mut io::stdin().lock(), &mut io::stdout().lock())?;
            Ok(ExitCode::SUCCESS)
        }
        LabVerb::CurveWorker => {
            quell_lab::curve::serve_orders(&mut io::stdin().lock(), &mut io::stdout().lock())?;
            Ok(ExitCode::SUCCESS)
        }
        LabVerb::Guard { needs } => {
            // before it is set up: nothing may end this process but the end of its stdin
            signals::install()?;
            let as_before = system::guard_settings(needs)?;
            Ok(ExitCode::from(u8::from(!as_before)))
        }
    }
}

fn list() -> anyhow::Result<ExitCode> {
    let mut table = Table::new(&["experiment", "what the culprit repeats", "parameters"]);
    for m in mechanism::ALL_MECHANISMS {
        let params: Vec<String> = m
            .params
            .iter()
            .map(|p| format!("{}={} ({})", p.name, p.default, p.about))
            .collect();
        table.row(vec![
            m.name.to_owned(),
            m.about.to_owned(),
            params.join(", "),
        ]);
    }
    emit(
        &mut anstream::stdout(),
        &(table.text() + &lab::list_curves() + &list_verbs()),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Verbs of their own that measure too, for they compare programs and not arms.
const VERBS: &[(&str, &str)] = &[
    (
        "seed-madv",
        "the document's program of 2 to N threads that advise one page away: flushes asked for and done",
    ),
    (
        "seed-jemalloc",
        "a service over jemalloc, with decay on and off, by version",
    ),
    ("allocators", "alloc-free over each allocator that is given"),
    (
        "advise",
        "the short set, and which of doctor's rules matter here",
    ),
];

fn list_verbs() -> String {
    let mut table = Table::new(&["verb of its own: quell lab …", "what it compares"]);
    for (name, about) in VERBS {
        table.row(vec![(*name).to_owned(), (*about).to_owned()]);
    }
    format!("\n{}", table.text())
}

/// The experiments by their names.
fn named(names: &[String]) -> anyhow::Result<Vec<&'static StallMechanism>> {
    if names.iter().any(|n| n == "all") {
        return Ok(mechanism::ALL_MECHANISMS.iter().collect());
    }
    let find = |name: &String| {
        mechanism::mechanism_by_name(name).ok_or_else(|| {
            if VERBS.iter().any(|(verb, _)| verb == name) {
                return usage(format!("'{name}' is a verb of its own: quell lab {name}"));
            }
            usage(format!(
                "there is no experiment '{name}'; 'quell lab list' prints them"
            ))
        })
    };
    names.iter().map(find).collect()
}

/// `20`, `20s` or `2m`.
fn budget(text: &str) -> anyhow::Result<Duration> {
    let (number, unit) = match text.as_bytes().last() {
        Some(b's') => (&text[..text.len() - 1], 1.0),
        Some(b'm') => (&text[..text.len() - 1], 60.0),
        _ => (text, 1.0),
    };
    let seconds = number.parse::<f64>().ok().map(|n| n * unit);
    seconds
        .filter(|s| (1.0..=86_400.0).contains(s))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| {
            usage(format!(
                "--budget '{text}' is no time from 1 s to 24 h: write 20, 60s or 5m"
            ))
        })
}

/// The parameters of an experiment, from the file and from the flags; the flags win.
fn parameters(args: &LabRunArgs, m: &StallMechanism, only: bool) -> anyhow::Result<Params> {
    let mut said: Vec<(String, u64)> = Vec::new();
    if let Some(path) = &args.config {
        /// Nobody writes more by hand.
        const MOST: u64 = 1 << 20;
        let cant =
            |err: &dyn std::fmt::Display| usage(format!("can't read {}: {err}", path.display()));
        let bytes = lab::read(path, MOST).map_err(|err| cant(&err))?;
        let text = String::from_utf8(bytes).map_err(|err| cant(&err))?;
        let all: toml::Table = toml::from_str(&text)
            .map_err(|err| usage(format!("{}: {}", path.display(), err.message())))?;
        if let Some(name) = all
            .keys()
            .find(|n| mechanism::mechanism_by_name(n).is_none())
        {
            let path = path.display();
            return Err(usage(format!("{path}: there is no experiment '{name}'")));
        }
        if let Some((name, _)) = all.iter().find(|(_, v)| !v.is_table()) {
            let path = path.display();
            return Err(usage(format!(
                "{path}: '{name}' is no table: write [{name}], and its parameters below"
            )));
        }
        for (name, value) in all
            .get(m.name)
            .and_then(|t| t.as_table())
            .into_iter()
            .flatten()
        {
            let pair = match value {
                toml::Value::Integer(n) => u64::try_from(*n).ok().map(|n| (name.clone(), n)),
                toml::Value::Boolean(yes) => Some((name.clone(), u64::from(*yes))),
                toml::Value::String(text) => {
                    quell_lab::params::parse_param(&format!("{name}={text}")).ok()
                }
                _ => None,
            };
            said.push(pair.ok_or_else(|| {
                let path = path.display();
                usage(format!(
                    "{path}: {}.{name} is no number, size or yes and no",
                    m.name
                ))
            })?);
        }
    }
    // with several experiments a flag is for those that know it
    let known = |name: &str| m.params.iter().any(|p| p.name == name);
    said.extend(args.set.iter().filter(|(n, _)| only || known(n)).cloned());
    Params::new(m.params, &said).map_err(|why| {
        let from = args.config.iter();
        let from: String = from.map(|path| format!("{}: ", path.display())).collect();
        usage(format!("{from}{}: {why}", m.name))
    })
}

fn experiments(args: &LabRunArgs) -> anyhow::Result<ExitCode> {
    /// Of each, where nobody says.
    const BUDGET: Duration = Duration::from_secs(20);
    let given = args.budget.as_deref().map(budget).transpose()?;
    if let Some(done) = lab::curves(args, given.unwrap_or(BUDGET))? {
        return Ok(done);
    }
    let chosen = named(&args.experiments)?;
    if let Some((name, _)) = args
        .set
        .iter()
        .find(|(n, _)| !chosen.iter().any(|m| m.params.iter().any(|p| p.name == n)))
    {
        let which = if chosen.len() == 1 {
            "this experiment has"
        } else {
            "these experiments have"
        };
        return Err(usage(format!(
            "{which} no parameter '{name}'; see 'quell lab list'"
        )));
    }
    let with_params = chosen
        .iter()
        .map(|m| Ok((*m, parameters(args, m, chosen.len() == 1)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    lab::has_counter()?;
    let (victim_cpu, culprit_cpu) = lab::place(args.victim_cpu, args.culprit_cpu)?;
    lab::check(victim_cpu)?;
    signals::install()?;
    lab::lock(Beside::Nobody)?;
    let mut kept = lab::Kept::named(args.output.as_deref())?;
    let live = args.influx.as_ref().map(lab::Live::open).transpose()?;
    let mut out = anstream::stdout();
    let mut all = Table::new(&[
        "experiment",
        "verdict",
        "sham",
        ">shootdowns/op",
        ">faults/op",
        ">stall ppm",
        ">each",
        ">op p50",
    ]);
    let alone = with_params.len() == 1;
    let mut failed = false;
    for (m, params) in &with_params {
        let budget =
            given.unwrap_or_else(|| BUDGET.max(m.timing.least_budget().unwrap_or_default()));
        let mut options = ExperimentOptions {
            may_stretch: given.is_none(),
            block: Duration::from_millis(args.block),
            pace: Duration::from_micros(args.pace),
            mode: match args.victim {
                VictimMode::Spin => VictimActivity::Spin,
                VictimMode::Sleep => VictimActivity::Sleep,
            },
            rounds: args.rounds,
            ..ExperimentOptions::new(victim_cpu, culprit_cpu, budget)
        };
        options.seed = args.seed.unwrap_or(options.seed);
        let (ran, left) = lab::one(m, params, &options, live.as_ref());
        if let Some(left) = left {
            say!("quell: {left}");
            failed = true;
        }
        let summary = match ran {
            Ran::Done(summary) => summary,
            Ran::Cant(why) if alone => {
                return Err(usage(format!("{} can't run here: {why}", m.name)));
            }
            Ran::Cant(why) => {
                say!("quell: {} can't run here: {why}", m.name);
                all.row(without_result(m, "can't run here"));
                continue;
            }
            Ran::Failed(err) if alone => return Err(err),
            Ran::Failed(err) => {
                say!("quell: {} failed: {err:#}", m.name);
                all.row(without_result(m, "failed"));
                failed = true;
                continue;
            }
        };
        failed |= !summary.verdict.is_answer();
        if let Some(kept) = &mut kept {
            kept.add(&summary)?;
        }
        all.row(lab::line(&summary));
        let text = if args.json {
            serde_json::to_string(&summary.as_ref().clone().without_pictures())? + "\n"
        } else if alone {
            lab::text(&summary)
        } else {
            String::new()
        };
        emit(&mut out, &text)?;
        if summary.interrupted {
            break;
        }
    }
    if let Some(kept) = kept {
        kept.end()?;
    }
    if !args.json && !alone {
        emit(&mut out, &all.text())?;
    }
    Ok(ExitCode::from(u8::from(failed)))
}

/// The line of an experiment that has none.
fn without_result(m: &StallMechanism, why: &str) -> Vec<String> {
    let empty = std::iter::repeat_n(String::new(), 6);
    [m.name.to_owned(), why.to_owned()]
        .into_iter()
        .chain(empty)
        .collect()
}
