//! `quell lab`: causes one kind of stall on purpose and measures it.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use quell_lab::arm::VictimActivity;
use quell_lab::mechanism::{self, StallMechanism};
use quell_lab::params::{Params, parse_param};
use quell_lab::round::ExperimentOptions;
use quell_lab::{system, worker};

use crate::cli::{LabArgs, LabRunArgs, LabVerb, VictimMode};
use crate::cmd::{lab_compare, lab_report, usage};
use crate::lab::{self, ExperimentEnd};
use crate::launch::signals;
use crate::show::emit;
use crate::show::table::Table;

pub(crate) fn run(args: &LabArgs) -> anyhow::Result<ExitCode> {
    match &args.what {
        LabVerb::List => return list_experiments(),
        LabVerb::Run(args) => return run_experiments(args),
        LabVerb::Watch(args) => return lab::watch_cpu(args),
        LabVerb::Advise(args) => return lab::run_advise(args),
        LabVerb::SeedMadv(args) => return lab::run_seed_madv(args),
        LabVerb::SeedJemalloc(args) => return lab::run_seed_jemalloc(args),
        LabVerb::Allocators(args) => return lab::compare_allocators(args),
        LabVerb::Report(args) => return lab_report::report(args),
        LabVerb::Compare(args) => return lab_compare::compare(args),
        LabVerb::MadvRun {
            threads,
            calls,
            touch,
        } => lab::run_madv_program(*threads, *calls, *touch != 0)?,
        LabVerb::ChurnRun { seed } => lab::run_churn_program(*seed)?,
        LabVerb::Worker => {
            worker::serve_orders(&mut io::stdin().lock(), &mut io::stdout().lock())?;
        }
        LabVerb::CurveWorker => {
            quell_lab::curve::serve_orders(&mut io::stdin().lock(), &mut io::stdout().lock())?;
        }
        LabVerb::Guard { needs } => {
            // It comes before the set-up: nothing may end this process but the end of its stdin.
            signals::install_handlers()?;
            let as_before = system::guard_settings(needs)?;
            return Ok(ExitCode::from(u8::from(!as_before)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list_experiments() -> anyhow::Result<ExitCode> {
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
        &(table.text() + &lab::curves_table() + &verbs_table()),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The verbs of their own that measure too, for they compare programs and not arms.
const LAB_VERBS: &[(&str, &str)] = &[
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

fn verbs_table() -> String {
    let mut table = Table::new(&["verb of its own: quell lab …", "what it compares"]);
    for (name, about) in LAB_VERBS {
        table.row(vec![(*name).to_owned(), (*about).to_owned()]);
    }
    format!("\n{}", table.text())
}

/// Finds the experiments by their names.
fn experiments_by_name(names: &[String]) -> anyhow::Result<Vec<&'static StallMechanism>> {
    if names.iter().any(|n| n == "all") {
        return Ok(mechanism::ALL_MECHANISMS.iter().collect());
    }
    let find = |name: &String| {
        mechanism::mechanism_by_name(name).ok_or_else(|| {
            if LAB_VERBS.iter().any(|(verb, _)| verb == name) {
                return usage(format!("'{name}' is a verb of its own: quell lab {name}"));
            }
            usage(format!(
                "there is no experiment '{name}'; 'quell lab list' prints them"
            ))
        })
    };
    names.iter().map(find).collect()
}

/// Parses `20`, `20s` or `2m`.
fn parse_budget(text: &str) -> anyhow::Result<Duration> {
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

/// The file of parameters, and its tables by experiment.
type ConfigFile<'a> = (&'a Path, toml::Table);

/// Reads the file of parameters.
fn read_config(path: &Path) -> anyhow::Result<ConfigFile<'_>> {
    /// Nobody writes a longer file by hand.
    const MAX_CONFIG_BYTES: u64 = 1 << 20;
    let shown = path.display();
    let cant = |err: &dyn std::fmt::Display| usage(format!("can't read {shown}: {err}"));
    let bytes = lab::read_bounded(path, MAX_CONFIG_BYTES).map_err(|err| cant(&err))?;
    let text = String::from_utf8(bytes).map_err(|err| cant(&err))?;
    let wrong = |why: String| usage(format!("{shown}: {why}"));
    let all: toml::Table = toml::from_str(&text).map_err(|err| wrong(err.message().to_owned()))?;
    let is_known = |name: &&String| mechanism::mechanism_by_name(name).is_some();
    if let Some(name) = all.keys().find(|name| !is_known(name)) {
        return Err(wrong(format!("there is no experiment '{name}'")));
    }
    if let Some((name, _)) = all.iter().find(|(_, v)| !v.is_table()) {
        return Err(wrong(format!(
            "'{name}' is no table: write [{name}], and its parameters below"
        )));
    }
    Ok((path, all))
}

/// The parameters of an experiment in the file.
fn config_params(
    (path, all): &ConfigFile<'_>,
    m: &StallMechanism,
) -> anyhow::Result<Vec<(String, u64)>> {
    let table = all.get(m.name).and_then(|t| t.as_table());
    let params = table.into_iter().flatten().map(|(name, value)| {
        let number = match value {
            toml::Value::Integer(n) => u64::try_from(*n).ok(),
            toml::Value::Boolean(yes) => Some(u64::from(*yes)),
            toml::Value::String(text) => parse_param(&format!("{name}={text}")).ok().map(|p| p.1),
            _ => None,
        };
        let number = number.ok_or_else(|| {
            usage(format!(
                "{}: {}.{name} is no number, size or yes and no",
                path.display(),
                m.name
            ))
        });
        Ok((name.clone(), number?))
    });
    params.collect()
}

/// The parameters of an experiment, from the file and from the flags; the flags win.
fn experiment_params(
    args: &LabRunArgs,
    config: Option<&ConfigFile<'_>>,
    m: &StallMechanism,
    only: bool,
) -> anyhow::Result<Params> {
    let in_file = config.map(|config| config_params(config, m)).transpose()?;
    let mut said = in_file.unwrap_or_default();
    // With several experiments a flag is for those that know it.
    let known = |name: &str| m.params.iter().any(|p| p.name == name);
    said.extend(args.set.iter().filter(|(n, _)| only || known(n)).cloned());
    Params::new(m.params, &said).map_err(|why| {
        let from = config.map_or_else(String::new, |(path, _)| format!("{}: ", path.display()));
        usage(format!("{from}{}: {why}", m.name))
    })
}

fn run_experiments(args: &LabRunArgs) -> anyhow::Result<ExitCode> {
    /// The time of each experiment, where nobody says.
    const DEFAULT_BUDGET: Duration = Duration::from_secs(20);
    let given = args.budget.as_deref().map(parse_budget).transpose()?;
    if let Some(done) = lab::run_curves(args, given.unwrap_or(DEFAULT_BUDGET))? {
        return Ok(done);
    }
    let chosen = experiments_by_name(&args.experiments)?;
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
    let config = args.config.as_deref().map(read_config).transpose()?;
    let with_params = chosen
        .iter()
        .map(|m| {
            let only = chosen.len() == 1;
            Ok((*m, experiment_params(args, config.as_ref(), m, only)?))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let (victim_cpu, culprit_cpu) = lab::begin_lab(args.victim_cpu, args.culprit_cpu)?;
    let mut kept = lab::ResultFile::create(args.output.as_deref())?;
    let live = args
        .influx
        .as_ref()
        .map(lab::InfluxStream::open)
        .transpose()?;
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
        let budget = given
            .unwrap_or_else(|| DEFAULT_BUDGET.max(m.timing.least_budget().unwrap_or_default()));
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
        let (ran, as_before) = lab::run_one_experiment(m, params, &options, live.as_ref());
        failed |= !as_before;
        let summary = match ran {
            ExperimentEnd::Done(summary) => summary,
            ExperimentEnd::CantRun(why) if alone => {
                return Err(usage(format!("{} can't run here: {why}", m.name)));
            }
            ExperimentEnd::CantRun(why) => {
                say!("quell: {} can't run here: {why}", m.name);
                all.row(row_without_result(m, "can't run here"));
                continue;
            }
            ExperimentEnd::Failed(err) if alone => return Err(err),
            ExperimentEnd::Failed(err) => {
                say!("quell: {} failed: {err:#}", m.name);
                all.row(row_without_result(m, "failed"));
                failed = true;
                continue;
            }
        };
        failed |= !summary.verdict.is_answer();
        if let Some(kept) = &mut kept {
            kept.add(&summary)?;
        }
        all.row(lab::experiment_row(&summary));
        let text = if args.json {
            serde_json::to_string(&summary.as_ref().clone().without_pictures())? + "\n"
        } else if alone {
            lab::experiment_text(&summary)
        } else {
            String::new()
        };
        emit(&mut out, &text)?;
        if summary.interrupted {
            break;
        }
    }
    if let Some(kept) = kept {
        kept.finish()?;
    }
    if !args.json && !alone {
        emit(&mut out, &all.text())?;
    }
    Ok(ExitCode::from(u8::from(failed)))
}

/// The line of an experiment that has no result.
fn row_without_result(m: &StallMechanism, why: &str) -> Vec<String> {
    let empty = std::iter::repeat_n(String::new(), 6);
    [m.name.to_owned(), why.to_owned()]
        .into_iter()
        .chain(empty)
        .collect()
}
