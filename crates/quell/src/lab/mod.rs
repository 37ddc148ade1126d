//! The lab, as `quell lab` runs it: with the probe, on this machine, printed as text.

mod advise;
mod allocators;
mod beside;
mod compare;
mod curve;
mod export;
#[cfg(test)]
pub(crate) mod fixture;
mod kept;
mod libraries;
mod live;
mod lock;
mod machine;
mod measured;
mod one;
mod place;
mod progress;
mod results;
mod seed_jemalloc;
mod seed_madv;
mod surroundings;
mod text;
mod watch;

pub(crate) use advise::run_advise;
pub(crate) use allocators::compare_allocators;
pub(crate) use beside::page_results;
pub(crate) use compare::{
    Comparison, CurveComparison, NamedCurves, NamedResults, comparison_object, comparison_text,
};
pub(crate) use curve::{curve_text, curves_table, run_curves};
pub(crate) use export::{block_timelines, influx_lines, turn_histograms};
pub(crate) use kept::ResultFile;
pub(crate) use live::InfluxStream;
pub(crate) use one::{ExperimentEnd, run_one_experiment};
pub(crate) use results::{CURVE_AMONG_RESULTS, LabFile, Results, read_bounded, read_lab_file};
pub(crate) use seed_jemalloc::{run_churn_program, run_seed_jemalloc};
pub(crate) use seed_madv::{run_madv_program, run_seed_madv};
pub(crate) use text::{experiment_row, experiment_text};
pub(crate) use watch::watch_cpu;

use lock::{LabSharing, lock_lab};
use machine::this_machine;
use place::{check_counter, take_cpus};
use progress::ExperimentProgress;
use surroundings::{LabHost, check_probe, guard_command, worker_command};

use crate::launch::signals;

/// Begins a lab: asks whether anything can be timed and watched, takes the CPUs of victim and culprit, which it returns, and sees
/// to it that no other lab is at work.
pub(crate) fn begin_lab(victim: Option<u32>, culprit: Option<u32>) -> anyhow::Result<(u32, u32)> {
    check_counter()?;
    let (victim_cpu, culprit_cpu) = take_cpus(victim, culprit)?;
    check_probe(victim_cpu)?;
    signals::install()?;
    lock_lab(LabSharing::Alone)?;
    Ok((victim_cpu, culprit_cpu))
}

/// Says that somebody ended it early, where there is something to show.
fn say_interrupted() {
    say!("quell: interrupted: what follows is of what was run by then");
}
