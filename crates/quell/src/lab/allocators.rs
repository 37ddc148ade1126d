//! `quell lab allocators`: the effect that free() of each allocator of the system has on a thread that has nothing to do with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use quell_lab::mechanism;
use quell_lab::params::Params;
use quell_lab::round::ExperimentOptions;
use quell_lab::summary::ExperimentSummary;
use quell_remedy::recognise_file;
use serde::Serialize;

use super::experiment::measure_experiment;
use super::host::{LabHost, WorkerAllocator};
use super::libraries::{installed_libraries, preload_refusal};
use super::{ExperimentProgress, begin_lab, experiment_row, say_interrupted};
use crate::cli::AllocatorsArgs;
use crate::show::emit_result;
use crate::show::table::Table;
use crate::usage::usage;

/// The names of the libraries of allocators that programs run with in place of their own.
const ALLOCATOR_LIBRARIES: [&str; 3] =
    ["libjemalloc.so", "libmimalloc.so", "libtcmalloc_minimal.so"];

/// The allocator that quell's own C library has.
const OWN_ALLOCATOR: &str = if cfg!(target_env = "musl") {
    "musl"
} else {
    "glibc"
};

#[derive(Serialize)]
struct AllocatorsObject<'a> {
    schema: &'static str,
    allocators: &'a [AllocatorRow],
}

#[derive(Serialize)]
struct AllocatorRow {
    allocator: String,
    /// It is null for the C library's own.
    library: Option<PathBuf>,
    #[serde(flatten)]
    summary: ExperimentSummary,
}

pub(crate) fn compare_allocators(args: &AllocatorsArgs) -> anyhow::Result<ExitCode> {
    let Some(m) = mechanism::mechanism_by_name("alloc-free") else {
        return Err(usage("there is no experiment 'alloc-free'"));
    };
    let params = Params::new(m.params, &args.set).map_err(usage)?;
    let libraries = find_libraries(&args.lib)?;
    let (victim_cpu, culprit_cpu) = begin_lab(None, None)?;
    let mut rows: Vec<AllocatorRow> = Vec::new();
    let mut failed = false;
    for library in std::iter::once(None).chain(libraries.into_iter().map(Some)) {
        let name = library
            .as_deref()
            .map_or_else(|| OWN_ALLOCATOR.to_owned(), library_name);
        let budget = Duration::from_secs(args.budget);
        let options = ExperimentOptions {
            may_stretch: true,
            ..ExperimentOptions::new(victim_cpu, culprit_cpu, budget)
        };
        let around = LabHost {
            progress: ExperimentProgress::new(&name, options.budget),
            live: None,
            allocator: Some(match &library {
                None => WorkerAllocator::Own,
                Some(library) => WorkerAllocator::Preloaded(library.clone()),
            }),
        };
        // Where one allocator fails, the others may work.
        let summary = match measure_experiment(m, &params, &options, &around) {
            Ok(summary) => summary,
            Err(err) => {
                say!("quell: {name}: {err:#}");
                failed = true;
                continue;
            }
        };
        let interrupted = summary.interrupted;
        rows.push(AllocatorRow {
            allocator: name,
            library,
            summary: summary.without_pictures(),
        });
        if interrupted {
            say_interrupted();
            break;
        }
    }
    let noisy = rows.iter().any(|r| !r.summary.verdict.is_answer());
    let object = || AllocatorsObject {
        schema: "quell/lab-allocators/1",
        allocators: &rows,
    };
    emit_result(args.json, object, || allocators_text(&rows))?;
    Ok(ExitCode::from(u8::from(noisy || failed)))
}

/// Finds the libraries that are named, or those of the system; none where none can be loaded.
fn find_libraries(named: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    if cfg!(target_feature = "crt-static") {
        return if named.is_empty() {
            say!("quell: linked statically, so that only its own allocator is measured");
            Ok(Vec::new())
        } else {
            Err(preload_refusal())
        };
    }
    if named.is_empty() {
        return Ok(installed_libraries(&ALLOCATOR_LIBRARIES));
    }
    let there = |file: &PathBuf| {
        fs::canonicalize(file).map_err(|err| usage(format!("{}: {err}", file.display())))
    };
    named.iter().map(there).collect()
}

/// The allocator's name, with its version where that can be found.
fn library_name(library: &Path) -> String {
    let file = library.file_name().unwrap_or(library.as_os_str());
    let found = recognise_file(library).unwrap_or_default();
    let version = found.iter().find_map(|f| f.version.as_ref());
    let file = file.to_string_lossy();
    version.map_or_else(|| file.to_string(), |v| format!("{file} ({v})"))
}

/// The column in which [`experiment_row`] has the faults of an operation.
const FAULTS_COLUMN: usize = 4;

/// The table, with a row for each allocator, and the operation that was measured; [`experiment_row`] says what the cells are.
fn allocators_text(rows: &[AllocatorRow]) -> String {
    let mut table = Table::new(&[
        "allocator",
        "verdict",
        "sham",
        ">shootdowns/op",
        ">stall ppm",
        ">each",
        ">op p50",
    ]);
    for row in rows {
        let mut cells = experiment_row(&row.summary);
        // To free memory makes no faults for others: the column would always be empty.
        cells.remove(FAULTS_COLUMN);
        if let Some(first) = cells.first_mut() {
            first.clone_from(&row.allocator);
        }
        table.row(cells);
    }
    let first = rows.first();
    let given = first.map_or_else(String::new, |row| {
        let p = &row.summary.params;
        format!(
            "an operation frees {} chunks of {} bytes, all of them written",
            p.get("chunks"),
            p.get("bytes")
        )
    });
    format!("{}\n{given}\n", table.text())
}
