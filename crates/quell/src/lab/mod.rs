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

pub(crate) use advise::advise;
pub(crate) use allocators::allocators;
pub(crate) use beside::shown;
pub(crate) use compare::{
    Comparison, CurveComparison, NamedCurves, NamedResults, comparison_object, comparison_text,
};
pub(crate) use curve::{curves, list as list_curves, text as curve_text};
pub(crate) use export::{influx, timelines, turns};
pub(crate) use kept::Kept;
pub(crate) use live::Live;
pub(crate) use one::{Ran, one};
pub(crate) use results::{CURVE_AMONG_RESULTS, LabFile, Results, read_bounded, read_lab_file};
pub(crate) use seed_jemalloc::{churn_run, seed_jemalloc};
pub(crate) use seed_madv::{madv_run, seed_madv};
pub(crate) use text::{line, text};
pub(crate) use watch::watch;

use lock::{Beside, lock};
use machine::machine;
use place::{has_counter, place};
use progress::Progress;
use surroundings::{Around, check, guard, worker};

use crate::launch::signals;

/// Begins a lab: asks whether anything can be timed and watched, takes the CPUs of victim and culprit, which it returns, and sees
/// to it that no other lab is at work.
pub(crate) fn begin(victim: Option<u32>, culprit: Option<u32>) -> anyhow::Result<(u32, u32)> {
    has_counter()?;
    let (victim_cpu, culprit_cpu) = place(victim, culprit)?;
    check(victim_cpu)?;
    signals::install()?;
    lock(Beside::Nobody)?;
    Ok((victim_cpu, culprit_cpu))
}

/// Says that somebody ended it early, where there is something to show.
fn say_interrupted() {
    say!("quell: interrupted: what follows is of what was run by then");
}
