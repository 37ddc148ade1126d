//! `quell lab seed-jemalloc`: ByteDance's finding, that jemalloc's decay makes a service shoot, and that the setting
//! which stops it is another one before version 5, for every jemalloc that there is.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use quell_lab::{churn, preload};
use quell_remedy::{FoundSoftware, SoftwareKind, recognise_file};
use quell_stats::{Rng, median, quantile};
use serde::Serialize;

use super::libraries::{installed, no_preload};
use super::{Beside, lock, measured, say_interrupted};
use crate::cli::SeedJemallocArgs;
use crate::clock::monotonic_ns;
use crate::launch::signals;
use crate::show::emit_result;
use crate::show::table::Table;
use crate::show::units::time;
use crate::usage::usage;

/// Operations of each of the two threads.
const OPERATIONS: u64 = 4000;

/// A setting, and its name.
type Setting = (&'static str, &'static str);

const SHIPPED: Setting = ("as shipped", "");
/// The advice of jemalloc's maintainer to ByteDance.
const OFF_5: Setting = (
    "decay off, from 5.0 on",
    "dirty_decay_ms:-1,muzzy_decay_ms:-1",
);
const ONCE_5: Setting = (
    "decay at once, from 5.0 on",
    "dirty_decay_ms:0,muzzy_decay_ms:0",
);
/// The setting that helped with the 4.2 that the service had.
const OFF_4: Setting = ("decay off, 4.1 to 4.5", "purge:decay,decay_time:-1");
const ONCE_4: Setting = ("decay at once, 4.1 to 4.5", "purge:decay,decay_time:0");

/// The document's words, and why the same is not to be seen here.
#[derive(Serialize)]
struct Document {
    name: &'static str,
    figures: &'static str,
    differs: &'static str,
}

const DOCUMENT: Document = Document {
    name: "ByteDance, \"TLB shootdown caused by jemalloc, and its mending\" (2020), Linux 4.14: a service with jemalloc 4.2",
    figures: "with decay off the CPU wavered below 4 % instead of up to 6 %, and the service used 2 % less; 5.0's setting did \
              nothing in 4.2",
    differs: "the document tells the CPU time of a whole service with many threads on many CPUs, of which shootdowns were a \
              part; here they are counted, of two threads that do nothing but allocate and free, so a setting stops a larger \
              share. Since Linux 4.20 or so one call gathers more pages for a flush.",
};

#[derive(Serialize)]
struct Object<'a> {
    schema: &'static str,
    document: Document,
    operations: u64,
    /// That were run to their end.
    rounds: u64,
    interrupted: bool,
    rows: &'a [Row],
}

#[derive(Serialize)]
struct Row {
    library: PathBuf,
    version: String,
    setting: &'static str,
    conf: &'static str,
    /// For a thousand operations: median and quartiles.
    shootdowns: (f64, f64, f64),
    /// Median, ns.
    wall_ns: f64,
    system_ns: f64,
}

/// A jemalloc with a setting, and the results of its runs.
struct Case {
    library: PathBuf,
    version: String,
    conf_env: String,
    setting: Setting,
    shootdowns: Vec<f64>,
    wall_ns: Vec<f64>,
    system_ns: Vec<f64>,
}

pub(crate) fn seed_jemalloc(args: &SeedJemallocArgs) -> anyhow::Result<ExitCode> {
    if cfg!(target_feature = "crt-static") {
        return Err(no_preload());
    }
    let mut cases = cases(&args.lib)?;
    lock(Beside::Nobody)?;
    signals::install()?;
    let mut rng = Rng::new(monotonic_ns());
    let mut rounds = 0;
    'all: for round in 0..args.rounds {
        say!("quell: round {} of {}", round + 1, args.rounds);
        let mut order: Vec<usize> = (0..cases.len()).collect();
        rng.shuffle(&mut order);
        for at in order {
            match run(&mut cases[at], round) {
                Ok(()) => {}
                Err(_) if signals::interrupted().is_some() && round > 0 => {
                    say_interrupted();
                    break 'all;
                }
                Err(err) => return Err(err),
            }
        }
        rounds = round + 1;
    }
    let rows: Vec<Row> = cases.iter().map(Case::row).collect();
    let object = || Object {
        schema: "quell/lab-jemalloc/1",
        document: DOCUMENT,
        operations: 2 * OPERATIONS,
        rounds,
        interrupted: rounds < args.rounds,
        rows: &rows,
    };
    emit_result(args.json, object, || text(&rows, rounds))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the service of the hidden verb, over the malloc that the process has.
pub(crate) fn churn_run(seed: u64) -> anyhow::Result<()> {
    preload::check_preloaded()?;
    churn::run_churn(OPERATIONS, seed);
    Ok(())
}

fn run(case: &mut Case, round: u64) -> anyhow::Result<()> {
    let mut settings = vec![("LD_PRELOAD", case.library.clone().into_os_string())];
    let conf = OsString::from(case.setting.1);
    if !conf.is_empty() {
        settings.push((case.conf_env.as_str(), conf));
    }
    let words = ["churn-run".to_owned(), round.to_string()];
    let run = measured::run(&settings, &words)
        .with_context(|| format!("{} with '{}'", case.library.display(), case.setting.1))?;
    let thousands = (2 * OPERATIONS) as f64 / 1000.0;
    case.shootdowns
        .push(run.tally.total_counts().shootdowns as f64 / thousands);
    case.wall_ns.push(run.usage.wall_ns as f64);
    case.system_ns.push(run.usage.system_ns as f64);
    Ok(())
}

/// Every setting that a version knows, and the one that it does not know but is advised on the web.
fn settings(found: &FoundSoftware) -> &'static [Setting] {
    if found.is_below(4, 1, 0) {
        &[SHIPPED]
    } else if found.is_below(5, 0, 0) {
        &[SHIPPED, OFF_5, OFF_4, ONCE_4]
    } else {
        &[SHIPPED, OFF_5, ONCE_5]
    }
}

fn cases(named: &[PathBuf]) -> anyhow::Result<Vec<Case>> {
    let libraries = if named.is_empty() {
        installed(&["libjemalloc.so"])
    } else {
        named.to_vec()
    };
    let mut cases = Vec::new();
    for library in libraries {
        let found = recognise_file(&library)
            .map_err(|err| usage(format!("{}: {err:#}", library.display())))?;
        let Some(found) = found.into_iter().find(|f| f.kind == SoftwareKind::Jemalloc) else {
            return Err(usage(format!("{} is no jemalloc", library.display())));
        };
        for setting in settings(&found) {
            cases.push(Case {
                library: library.clone(),
                version: found
                    .version
                    .map_or_else(|| "?".to_owned(), |v| v.to_string()),
                conf_env: found
                    .conf_env
                    .clone()
                    .unwrap_or_else(|| "MALLOC_CONF".to_owned()),
                setting: *setting,
                shootdowns: Vec::new(),
                wall_ns: Vec::new(),
                system_ns: Vec::new(),
            });
        }
    }
    if cases.is_empty() {
        return Err(usage(
            "no libjemalloc.so on this system: install libjemalloc2 (Debian), or name one with --lib",
        ));
    }
    Ok(cases)
}

impl Case {
    fn row(&self) -> Row {
        let s = &self.shootdowns;
        Row {
            library: self.library.clone(),
            version: self.version.clone(),
            setting: self.setting.0,
            conf: self.setting.1,
            shootdowns: (quantile(s, 0.25), median(s), quantile(s, 0.75)),
            wall_ns: median(&self.wall_ns),
            system_ns: median(&self.system_ns),
        }
    }
}

fn text(rows: &[Row], rounds: u64) -> String {
    let Document {
        name,
        figures,
        differs,
    } = DOCUMENT;
    let mut table = Table::new(&[
        "jemalloc",
        "setting",
        "MALLOC_CONF",
        ">shootdowns per 1,000",
        ">quartiles",
        ">time",
        ">system",
    ]);
    for row in rows {
        let (low, middle, high) = row.shootdowns;
        table.row(vec![
            row.version.clone(),
            row.setting.to_owned(),
            row.conf.to_owned(),
            format!("{middle:.1}"),
            format!("{low:.1} to {high:.1}"),
            time(row.wall_ns as u64),
            time(row.system_ns as u64),
        ]);
    }
    format!(
        "{name}\ndocument: {figures}\nhere: two threads that allocate and free blocks of 64 KB to 4 MB; medians of {rounds} runs, in \
         random order\n\n{}\nWhy they differ: {differs}\n",
        table.text()
    )
}
