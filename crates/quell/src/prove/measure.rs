//! One run of the job: with counters, with a recording, or with an account of its time.

use quell_event::Mechanism;
use quell_event::account::AccountSummary;

use super::failed::{FailedRun, FailureKind};
use super::job::ProveJob;
use super::metric::ProofMetric;
use super::sample::RunSample;
use super::watch::{AccountWatcher, CountingWatcher, RecordingWatcher};
use crate::evidence::{ObservedProgram, of_trace};
use crate::launch::Setup;
use crate::temp_dir::{OBSERVED_TRACE, TempDir};

/// Runs the job once, with exact counters only. The sample has a value for each of `metrics`, which are all of them: the
/// built-in ones come first, and those out of the output after them.
pub(crate) fn run_counted(
    job: &ProveJob<'_>,
    setup: &Setup,
    metrics: &[ProofMetric],
    when: &str,
) -> anyhow::Result<RunSample> {
    job.progress.begin_run(when);
    let mut counting = CountingWatcher::attach()?;
    release_memory();
    let ran = job.run(&mut counting, setup, when)?;
    let tally = counting.tally_of_run()?;
    let totals = tally.total_counts();
    job.progress.end_run();
    // In the order of `metric::BUILT_IN`. A double is exact up to 2^53, which is 104 days in ns.
    let mut values = [
        totals.shootdowns,
        totals.victims,
        totals.wait_ns,
        ran.usage.page_faults(),
        ran.usage.system_ns,
        ran.usage.user_ns + ran.usage.system_ns,
        ran.wall_ns,
        ran.usage.max_rss,
    ]
    .map(|n| n as f64)
    .to_vec();
    for metric in metrics.iter().filter(|m| m.is_from_output()) {
        match metric.read_value(&ran.output) {
            Ok(value) => values.push(value),
            Err(why) => {
                let (line, how) = (
                    format!("{why} of {when}"),
                    FailureKind::NoMetric(metric.name.clone()),
                );
                let who = job.who_prints();
                return Err(FailedRun::of_program(line, ran.output, who, how));
            }
        }
    }
    Ok(RunSample {
        values,
        complaints: refused_settings(&ran.output),
        // Fewer estimates change no figure.
        estimated: tally.untimed > totals.shootdowns / 100,
    })
}

/// Gives back the memory that reading a trace and loading the probe took. A command begins as a fork of quell, and the size
/// that quell has then counts for the command's maximum (exec_mmap() in fs/exec.c).
fn release_memory() {
    // SAFETY: malloc_trim(3) only gives free memory back.
    unsafe { libc::malloc_trim(0) };
}

/// The share of CPU time that faults of huge pages take, in thousandths; 0 where none was sampled. Zeroing is counted in full: it
/// is most of such a fault, and only a small part of a fault of a small page. So is the compaction that a fault waits for.
fn huge_time_permille(account: &AccountSummary) -> u32 {
    let ns_of = |mechanism: Mechanism| {
        let rows = account.mechanisms.iter();
        let rows = rows.filter(move |m| m.mechanism == mechanism);
        rows.map(|m| m.cpu_ns).sum::<u64>()
    };
    let huge = ns_of(Mechanism::FaultHuge);
    if huge == 0 {
        return 0;
    }
    let all = huge + ns_of(Mechanism::Zeroing) + ns_of(Mechanism::CompactDirect);
    (all as f64 * 1000.0 / account.cpu_ns.max(1) as f64) as u32
}

/// Runs the job once and records it: the evidence for a plan. The trace is gone afterwards.
///
/// # Errors
///
/// The run failed, or its trace can't be read.
pub(crate) fn run_observed(
    job: &ProveJob<'_>,
    metrics: &[ProofMetric],
    setup: &Setup,
) -> anyhow::Result<ObservedProgram> {
    let when = "the observed run";
    job.progress.begin_run(when);
    let temp = TempDir::new()?;
    let dir = temp.path().join(OBSERVED_TRACE);
    let mut recorder = RecordingWatcher::start(&dir, job.argv)?;
    release_memory();
    let ran = job.run(&mut recorder, setup, when)?;
    // A metric that the output lacks is found now, and not after the first pair. No remedy is blamed: the first observed run
    // has none.
    for metric in metrics.iter().filter(|m| m.is_from_output()) {
        if let Err(why) = metric.read_value(&ran.output) {
            return Err(FailedRun::outside_program(
                format!("{why} of {when}"),
                ran.output,
            ));
        }
    }
    let mut observed = of_trace(&dir)?;
    observed.add_run_of(job.argv, &ran.usage);
    let account = observed.account.as_ref();
    observed.evidence.huge_time_permille = account.map_or(0, huge_time_permille);
    job.progress.end_run();
    Ok(observed)
}

/// Runs the job once with an account of its time; `None` where there can be none.
pub(crate) fn run_for_account(
    job: &ProveJob<'_>,
    setup: &Setup,
    when: &str,
) -> anyhow::Result<Option<AccountSummary>> {
    let Some(mut spending) = AccountWatcher::attach()? else {
        return Ok(None);
    };
    job.progress.begin_run(when);
    release_memory();
    job.run(&mut spending, setup, when)?;
    job.progress.end_run();
    spending.account_of_run()
}

/// The first lines of the output that refuse a setting, three at most. jemalloc says `<jemalloc>: Invalid conf pair` and
/// `Malformed conf string`, and goes on without it; libquell.so and the loader name themselves.
fn refused_settings(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let refused = |line: &&str| {
        (line.starts_with("<jemalloc>:") && line.to_lowercase().contains("conf"))
            || line.starts_with("libquell.so: ")
            || (line.contains("LD_PRELOAD cannot be preloaded"))
    };
    text.lines()
        .filter(refused)
        .take(3)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that jemalloc's refusals are found among other output.
    #[test]
    fn refusals() {
        let output =
            b"a\n<jemalloc>: Invalid conf pair: x:1\n<jemalloc>: (This is not an error)\nb";
        assert_eq!(
            refused_settings(output),
            ["<jemalloc>: Invalid conf pair: x:1"]
        );
        assert!(refused_settings(b"conf <jemalloc>").is_empty());
    }
}
