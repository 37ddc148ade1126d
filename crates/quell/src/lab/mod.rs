//! The lab, as `quell lab` runs it: with the probe, on this machine, printed as text.

mod advise;
mod allocators;
mod compare;
mod cpus;
mod curve;
mod document_figures;
mod experiment;
mod export;
#[cfg(test)]
pub(crate) mod fixture;
mod host;
mod influx_stream;
mod libraries;
mod lock;
mod machine;
mod probed_run;
mod progress;
mod result_file;
mod results;
mod seed_jemalloc;
mod seed_madv;
mod text;
mod watch;

pub(crate) use advise::run_advise;
pub(crate) use allocators::compare_allocators;
pub(crate) use compare::{
    Comparison, CurveComparison, NamedCurves, NamedResults, comparison_object, comparison_text,
};
pub(crate) use curve::{curve_text, curves_table, run_curves};
pub(crate) use document_figures::page_results;
pub(crate) use experiment::{ExperimentEnd, run_one_experiment};
pub(crate) use export::{block_timelines, influx_lines, turn_histograms};
pub(crate) use influx_stream::InfluxStream;
pub(crate) use result_file::ResultFile;
pub(crate) use results::{CURVE_AMONG_RESULTS, LabFile, Results, read_bounded, read_lab_file};
pub(crate) use seed_jemalloc::{run_churn_program, run_seed_jemalloc};
pub(crate) use seed_madv::{run_madv_program, run_seed_madv};
pub(crate) use text::{experiment_row, experiment_text};
pub(crate) use watch::watch_cpu;

use cpus::{check_counter, take_cpus};
use host::{LabHost, check_probe, guard_command, worker_command};
use lock::{LabSharing, lock_lab};
use machine::this_machine;
use progress::ExperimentProgress;

use crate::launch::signals;

/// Begins a lab: asks whether anything can be timed and watched, takes the CPUs of victim and culprit, which it returns, and sees
/// to it that no other lab is at work.
pub(crate) fn begin_lab(victim: Option<u32>, culprit: Option<u32>) -> anyhow::Result<(u32, u32)> {
    check_counter()?;
    let (victim_cpu, culprit_cpu) = take_cpus(victim, culprit)?;
    check_probe(victim_cpu)?;
    signals::install_handlers()?;
    lock_lab(LabSharing::Alone)?;
    Ok((victim_cpu, culprit_cpu))
}

/// Says that somebody ended it early, where there is something to show.
fn say_interrupted() {
    say!("quell: interrupted: what follows is of what was run by then");
}
