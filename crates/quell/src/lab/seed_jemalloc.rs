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

use super::libraries::{installed_libraries, preload_refusal};
use super::probed_run::run_under_probe;
use super::{LabSharing, lock_lab, say_interrupted};
use crate::cli::SeedJemallocArgs;
use crate::clock::monotonic_ns;
use crate::launch::signals;
use crate::show::emit_result;
use crate::show::table::Table;
use crate::show::units::time;
use crate::usage::usage;

/// The operations of each of the two threads.
const CHURN_OPERATIONS: u64 = 4000;

/// A setting, and its name.
type DecaySetting = (&'static str, &'static str);

const AS_SHIPPED: DecaySetting = ("as shipped", "");
/// The advice of jemalloc's maintainer to ByteDance.
const DECAY_OFF_5: DecaySetting = (
    "decay off, from 5.0 on",
    "dirty_decay_ms:-1,muzzy_decay_ms:-1",
);
const DECAY_AT_ONCE_5: DecaySetting = (
    "decay at once, from 5.0 on",
    "dirty_decay_ms:0,muzzy_decay_ms:0",
);
/// The setting that helped with the 4.2 that the service had.
const DECAY_OFF_4: DecaySetting = ("decay off, 4.1 to 4.5", "purge:decay,decay_time:-1");
const DECAY_AT_ONCE_4: DecaySetting = ("decay at once, 4.1 to 4.5", "purge:decay,decay_time:0");

/// The document's words, and why the same is not to be seen here.
#[derive(Serialize)]
struct PublishedFinding {
    name: &'static str,
    figures: &'static str,
    differs: &'static str,
}

const PUBLISHED_JEMALLOC: PublishedFinding = PublishedFinding {
    name: "ByteDance, \"TLB shootdown caused by jemalloc, and its mending\" (2020), Linux 4.14: a service with jemalloc 4.2",
    figures: "with decay off the CPU wavered below 4 % instead of up to 6 %, and the service used 2 % less; 5.0's setting did \
              nothing in 4.2",
    differs: "the document tells the CPU time of a whole service with many threads on many CPUs, of which shootdowns were a \
              part; here they are counted, of two threads that do nothing but allocate and free, so a setting stops a larger \
              share. Since Linux 4.20 or so one call gathers more pages for a flush.",
};

#[derive(Serialize)]
struct JemallocObject<'a> {
    schema: &'static str,
    document: PublishedFinding,
    operations: u64,
    /// The rounds that were run to their end.
    rounds: u64,
    interrupted: bool,
    rows: &'a [JemallocRow],
}

#[derive(Serialize)]
struct JemallocRow {
    library: PathBuf,
    version: String,
    setting: &'static str,
    conf: &'static str,
    /// The lower quartile, median and upper quartile of shootdowns for a thousand operations.
    shootdowns: (f64, f64, f64),
    /// The median, ns.
    wall_ns: f64,
    system_ns: f64,
}

/// A jemalloc with a setting, and the results of its runs.
struct JemallocCase {
    library: PathBuf,
    version: String,
    conf_env: String,
    setting: DecaySetting,
    shootdowns: Vec<f64>,
    wall_ns: Vec<f64>,
    system_ns: Vec<f64>,
}

pub(crate) fn run_seed_jemalloc(args: &SeedJemallocArgs) -> anyhow::Result<ExitCode> {
    if cfg!(target_feature = "crt-static") {
        return Err(preload_refusal());
    }
    let mut cases = find_cases(&args.lib)?;
    lock_lab(LabSharing::Alone)?;
    signals::install_handlers()?;
    let mut rng = Rng::new(monotonic_ns());
    let mut rounds = 0;
    'all: for round in 0..args.rounds {
        say!("quell: round {} of {}", round + 1, args.rounds);
        let mut order: Vec<usize> = (0..cases.len()).collect();
        rng.shuffle(&mut order);
        for at in order {
            match run_case(&mut cases[at], round) {
                Ok(()) => {}
                Err(_) if signals::first_signal().is_some() && round > 0 => {
                    say_interrupted();
                    break 'all;
                }
                Err(err) => return Err(err),
            }
        }
        rounds = round + 1;
    }
    let rows: Vec<JemallocRow> = cases.iter().map(JemallocCase::to_row).collect();
    let object = || JemallocObject {
        schema: "quell/lab-jemalloc/1",
        document: PUBLISHED_JEMALLOC,
        operations: 2 * CHURN_OPERATIONS,
        rounds,
        interrupted: rounds < args.rounds,
        rows: &rows,
    };
    emit_result(args.json, object, || jemalloc_text(&rows, rounds))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the service of the hidden verb, over the malloc that the process has.
pub(crate) fn run_churn_program(seed: u64) -> anyhow::Result<()> {
    preload::check_preloaded()?;
    churn::run_churn(CHURN_OPERATIONS, seed);
    Ok(())
}

fn run_case(case: &mut JemallocCase, round: u64) -> anyhow::Result<()> {
    let mut settings = vec![("LD_PRELOAD", case.library.clone().into_os_string())];
    let conf = OsString::from(case.setting.1);
    if !conf.is_empty() {
        settings.push((case.conf_env.as_str(), conf));
    }
    let words = ["churn-run".to_owned(), round.to_string()];
    let run = run_under_probe(&settings, &words)
        .with_context(|| format!("{} with '{}'", case.library.display(), case.setting.1))?;
    let thousands = (2 * CHURN_OPERATIONS) as f64 / 1000.0;
    case.shootdowns
        .push(run.tally.total_counts().shootdowns as f64 / thousands);
    case.wall_ns.push(run.usage.wall_ns as f64);
    case.system_ns.push(run.usage.system_ns as f64);
    Ok(())
}

/// Every setting that a version knows, and the one that it does not know but is advised on the web.
fn settings_of_version(found: &FoundSoftware) -> &'static [DecaySetting] {
    if found.is_below(4, 1, 0) {
        &[AS_SHIPPED]
    } else if found.is_below(5, 0, 0) {
        &[AS_SHIPPED, DECAY_OFF_5, DECAY_OFF_4, DECAY_AT_ONCE_4]
    } else {
        &[AS_SHIPPED, DECAY_OFF_5, DECAY_AT_ONCE_5]
    }
}

fn find_cases(named: &[PathBuf]) -> anyhow::Result<Vec<JemallocCase>> {
    let libraries = if named.is_empty() {
        installed_libraries(&["libjemalloc.so"])
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
        for setting in settings_of_version(&found) {
            cases.push(JemallocCase {
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

impl JemallocCase {
    fn to_row(&self) -> JemallocRow {
        let s = &self.shootdowns;
        JemallocRow {
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

fn jemalloc_text(rows: &[JemallocRow], rounds: u64) -> String {
    let PublishedFinding {
        name,
        figures,
        differs,
    } = PUBLISHED_JEMALLOC;
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
