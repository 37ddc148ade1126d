//! One run of the job: counted, recorded, or for the account of its time.

use quell_event::Mechanism;
use quell_event::account::AccountSummary;
use quell_remedy::FoundSoftware;
use quell_remedy::advice::Advised;

use super::failed::{Failed, How};
use super::job::Job;
use super::metric::Metric;
use super::sample::Sample;
use super::temp::{OBSERVED, TempDir};
use super::watch::{Counting, Recorder, Spending};
use crate::evidence;
use crate::launch::Setup;

/// Runs the job once, counted.
pub(crate) fn measure(
    job: &Job<'_>,
    setup: &Setup,
    metrics: &[Metric],
    when: &str,
) -> anyhow::Result<Sample> {
    job.progress.begin(when);
    let mut counting = Counting::attach()?;
    release_memory();
    let ran = job.run(&mut counting, setup, when)?;
    let tally = counting.tally()?;
    let totals = tally.totals();
    job.progress.done();
    // In the order of `metric::BUILT_IN`. Exact up to 2^53, which is 104 days in ns.
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
        match metric.read(&ran.output) {
            Ok(value) => values.push(value),
            Err(why) => {
                let (line, how) = (
                    format!("{why} of {when}"),
                    How::NoMetric(metric.name.clone()),
                );
                let who = job.who_prints();
                return Err(Failed::of_program(line, ran.output, who, how));
            }
        }
    }
    Ok(Sample {
        values,
        complaints: complaints(&ran.output),
        // fewer change no figure
        estimated: tally.untimed > totals.shootdowns / 100,
    })
}

/// Gives back what reading a trace and loading the probe took. A command begins as a fork of quell,
/// and the size that quell has then counts for the command's maximum (exec_mmap() in fs/exec.c).
fn release_memory() {
    // SAFETY: malloc_trim(3) only gives free memory back.
    unsafe { libc::malloc_trim(0) };
}

/// What was seen in the observed run.
pub(crate) struct Seen {
    pub(crate) evidence: quell_remedy::Evidence,
    pub(crate) found: Vec<FoundSoftware>,
    pub(crate) notes: Vec<String>,
    /// Where its time went, where that could be seen.
    pub(crate) account: Option<AccountSummary>,
    /// What no setting reaches.
    pub(crate) advice: Vec<Advised>,
}

/// How much of CPU time faults of huge pages take, in parts of a thousand; with zeroing, which is the most of them, and of
/// small pages a small part of a fault.
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

/// Runs the job once, recorded.
///
/// # Errors
///
/// The run failed, or its trace can't be read.
pub(crate) fn observe(job: &Job<'_>, metrics: &[Metric], setup: &Setup) -> anyhow::Result<Seen> {
    let when = "the observed run";
    job.progress.begin(when);
    let temp = TempDir::new()?;
    let dir = temp.path().join(OBSERVED);
    let mut recorder = Recorder::start(&dir, job.argv)?;
    release_memory();
    let ran = job.run(&mut recorder, setup, when)?;
    // Found now, and not after the first pair.
    for metric in metrics.iter().filter(|m| m.is_from_output()) {
        if let Err(why) = metric.read(&ran.output) {
            return Err(Failed::error(format!("{why} of {when}"), ran.output));
        }
    }
    let mut observed = evidence::of_trace(&dir)?;
    observed.add_found_of(job.argv);
    let mut evidence = observed.evidence;
    evidence.page_faults = Some(ran.usage.page_faults());
    evidence.max_rss = Some(ran.usage.max_rss);
    evidence.secure = evidence::is_secure(job.argv);
    evidence.unfit = evidence::unfit_for_choice(job.argv);
    evidence.command = evidence::words(job.argv);
    evidence.huge_time_permille = observed.account.as_ref().map_or(0, huge_time_permille);
    job.progress.done();
    Ok(Seen {
        evidence,
        found: observed.found,
        notes: observed.notes,
        account: observed.account,
        advice: observed.advice,
    })
}

/// Runs the job once for the account of its time; `None` where there can be none.
pub(crate) fn spend(
    job: &Job<'_>,
    setup: &Setup,
    when: &str,
) -> anyhow::Result<Option<AccountSummary>> {
    let Some(mut spending) = Spending::attach()? else {
        return Ok(None);
    };
    job.progress.begin(when);
    release_memory();
    job.run(&mut spending, setup, when)?;
    job.progress.done();
    spending.account()
}

/// Lines by which a setting is refused. jemalloc says `<jemalloc>: Invalid conf pair` and `Malformed conf
/// string`, and goes on without; libquell.so and the loader name themselves.
fn complaints(output: &[u8]) -> Vec<String> {
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

    /// Check that jemalloc's refusals are seen among other output.
    #[test]
    fn refusals() {
        let output =
            b"a\n<jemalloc>: Invalid conf pair: x:1\n<jemalloc>: (This is not an error)\nb";
        assert_eq!(complaints(output), ["<jemalloc>: Invalid conf pair: x:1"]);
        assert!(complaints(b"conf <jemalloc>").is_empty());
    }
}
