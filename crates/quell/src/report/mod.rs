//! A report: a trace, read and summed up.

mod advice;
pub(crate) mod aggregate;
pub(crate) mod code;
pub(crate) mod export;
mod mappings;
mod notes;
mod page;
mod place;
pub(crate) mod places;
mod progress;
mod quick_map;
pub(crate) mod regions;

use std::path::{Path, PathBuf};

use quell_event::trace::Trace;
use quell_event::{Account, ShootdownCounts, Tally, TallySummary};
use quell_remedy::ShootdownSource;
use quell_remedy::advice::Advised;

use crate::show::units::plural;
use crate::subject::Subject;
use aggregate::{Aggregate, RowSummer};
use code::Code;
use places::Places;
use progress::ReadProgress;

pub(crate) use page::write_page;

/// The most stacks in a summary; the text shows fewer.
const MAX_STACKS: usize = 50;

/// The figures and notes of a trace.
pub(crate) struct Report {
    pub(crate) title: String,
    pub(crate) summary: TallySummary,
    /// Notes for the reader, such as that the recording was cut short, or frames have no name.
    pub(crate) notes: Vec<String>,
    /// The sources of shootdowns, for a plan, without those by strangers.
    pub(crate) sources: Vec<ShootdownSource>,
    /// The shootdowns among the rows by processes that were not watched, and only shot at watched ones.
    pub(crate) by_strangers: u64,
    /// The counts of the watched processes, which are exact also where records were lost.
    pub(crate) own: ShootdownCounts,
    /// Their account, row by row, if the trace has one.
    pub(crate) account: Option<Account>,
    /// They were watched from their start, as a command is.
    pub(crate) from_start: bool,
    /// The files from which the culprits ran code.
    pub(crate) modules: Vec<PathBuf>,
    /// Advice for costs that no setting reaches; only where the whole trace was opened for its report or for a plan.
    pub(crate) advice: Vec<Advised>,
}

/// Sums up the rows of a trace, and reads its code. The last value is the number of lines about code that can't be read.
///
/// # Errors
///
/// If it can't be read.
pub(crate) fn sum_up_trace(trace: &Trace) -> anyhow::Result<(Aggregate, Code, u64)> {
    let (code, garbled) = Code::read_trace(trace)?;
    let progress = ReadProgress::new(trace.row_count());
    let mut sum = Aggregate::default();
    let summing = || RowSummer::new(code.mappings());
    for one in trace.sum_rows(summing, &|rows| progress.set_rows(rows))? {
        sum.add(one.sum);
    }
    drop(progress);
    Ok((sum, code, garbled))
}

/// Checks that counts belong to the events of a trace. Counts have all shootdowns, and events may have lost some, so counts
/// with fewer are of another trace; but where the recording was cut short, they were saved before its last events.
fn check_counts(counts: Tally, events: &Tally, cut_short: bool) -> Result<Tally, String> {
    let (counted, seen) = (
        counts.total_counts().shootdowns,
        events.total_counts().shootdowns,
    );
    if counted >= seen || cut_short {
        return Ok(counts);
    }
    Err(format!(
        "tally.json is not of this trace: it has {counted} shootdowns, and there are events of {seen}"
    ))
}

/// The counts of the watched processes, without strangers.
fn of_the_watched(tally: &Tally, is_stranger: impl Fn(u32) -> bool) -> ShootdownCounts {
    let mut sum = ShootdownCounts::default();
    for culprit in tally.culprits.iter().filter(|c| !is_stranger(c.pid)) {
        sum.add(&culprit.counts);
    }
    sum
}

impl Report {
    /// Reads a trace.
    ///
    /// # Errors
    ///
    /// The folder has no trace, or it can't be read.
    pub(crate) fn open(dir: &Path) -> anyhow::Result<Self> {
        let trace = Trace::open(dir)?;
        let (sum, code, garbled) = sum_up_trace(&trace)?;
        let mut report = Self::new(&trace, &sum, &code, garbled);
        // The summary has an account wherever the report has one: both are of the same counts.
        if let Some(account) = &report.account
            && report.summary.account.is_some()
        {
            report.advice =
                advice::advise_on_trace(&trace, account, &code, report.summary.duration_ns);
        }
        Ok(report)
    }

    /// Makes the report from the sums over all rows of a trace, without advice. `garbled` is the number of lines about code that
    /// can't be read. The figures are the probe's own counts where they are whole, and otherwise counted from the rows.
    pub(crate) fn new(trace: &Trace, sum: &Aggregate, code: &Code, garbled: u64) -> Self {
        let meta = trace.meta();
        let mut notes = Vec::new();
        let cut_short = trace.cut_short();
        let mut rows = sum.tally_of_rows();
        let saved = match trace.read_tally() {
            Ok(saved) => saved
                .ok_or_else(|| "The trace has no counts (tally.json)".to_owned())
                .and_then(|saved| check_counts(saved, &rows, cut_short)),
            Err(why) => Err(why.to_string()),
        };
        let lost_known = saved.is_ok();
        // Rows have the names of threads, so those of processes are put in.
        let culprits = rows.culprits.iter_mut().map(|c| (c.pid, &mut c.comm));
        let victims = rows.victims.iter_mut().map(|v| (v.pid, &mut v.comm));
        for (pid, comm) in culprits.chain(victims) {
            if let Some(process) = code.process_by_pid(pid).filter(|p| !p.comm.is_empty()) {
                comm.clone_from(&process.comm);
            }
        }
        let tally = match saved {
            // The saved counts are exact also where records were lost.
            Ok(tally) if !cut_short => tally,
            saved => {
                let mut tally = rows;
                if let Err(missing) = &saved {
                    notes.push(format!(
                        "{missing}: all figures are counted from the events, without those that were lost, and how \
                         many were lost is not known."
                    ));
                }
                if let Ok(saved) = saved {
                    tally.self_ns = saved.self_ns;
                    tally.lost = saved.lost;
                    tally.empty_sends = saved.empty_sends;
                    tally.calls = saved.calls;
                    tally.account = saved.account;
                    let (rows_ns, saved_ns) = (tally.duration_ns, saved.duration_ns);
                    tally.duration_ns = rows_ns.max(saved_ns);
                    // After the counts were saved, the number of CPUs is taken to have stayed the same.
                    tally.online_ns = saved.online_ns.map(|online| {
                        let all = u128::from(online) * u128::from(tally.duration_ns);
                        u64::try_from(all / u128::from(saved_ns.max(1))).unwrap_or(u64::MAX)
                    });
                }
                tally
            }
        };
        if garbled > 0 {
            notes.push(format!(
                "The trace is damaged: {} of its processes and stacks can't be read and {} left out.",
                plural(garbled, "line"),
                if garbled == 1 { "is" } else { "are" },
            ));
        }
        if let Ok(every) = meta.stacks.parse::<u64>() {
            notes.push(format!(
                "Stacks were taken of one in {every} shootdowns: code is of those only."
            ));
        }
        if cut_short {
            notes
                .push("The recording was cut short: this is all up to its last second.".to_owned());
        }
        let own = of_the_watched(&tally, |pid| code.is_stranger(pid));
        let mut summary = TallySummary::new(&tally, &meta.backend, meta.cpus);
        summary.lost_known = lost_known;
        sum.add_threads(&mut summary);
        let places = Places::new(sum, code);
        summary.regions = places.region_rows();
        summary.stacks = places.stack_rows(MAX_STACKS);
        notes.extend(notes::stack_notes(code, places.user_stacks()));
        let subject = Subject {
            scope: meta.scope.clone(),
            command: meta.command.clone(),
        };
        Self {
            title: subject.title(),
            summary,
            notes,
            sources: places.shootdown_sources(None),
            by_strangers: places.by_strangers(),
            own,
            account: tally.account,
            from_start: meta.scope.is_empty() && !meta.command.is_empty(),
            modules: code.watched_modules(),
            advice: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use quell_event::{Cause, CulpritTally, ShootdownCounts};

    use super::*;

    fn tally_of(shootdowns: u64) -> Tally {
        Tally {
            culprits: vec![CulpritTally {
                pid: 1,
                comm: "a".to_owned(),
                cgroup: 1,
                cause: Cause::Munmap,
                detail: None,
                counts: ShootdownCounts {
                    shootdowns,
                    ..ShootdownCounts::default()
                },
            }],
            ..Tally::default()
        }
    }

    /// Check that the counts of the watched leave strangers out, whatever rows were lost.
    #[test]
    fn strangers_are_left_out() {
        let mut all = tally_of(10);
        let mut other = all.culprits[0].clone();
        (other.pid, other.counts.shootdowns) = (2, 90);
        all.culprits.push(other);
        assert_eq!(of_the_watched(&all, |pid| pid == 2).shootdowns, 10);
        assert_eq!(of_the_watched(&all, |_| false).shootdowns, 100);
    }

    /// Check that counts below the number of events are taken for those of another trace, and others not: events may
    /// be lost, and the counts of a recording that was cut short are older than its events.
    #[test]
    fn foreign_counts() {
        assert!(check_counts(tally_of(10), &tally_of(10), false).is_ok());
        assert!(check_counts(tally_of(10), &tally_of(7), false).is_ok());
        assert!(check_counts(tally_of(10), &tally_of(11), true).is_ok());
        let why = check_counts(tally_of(10), &tally_of(11), false).err();
        assert!(why.is_some_and(|w| w.contains("10 shootdowns, and there are events of 11")));
    }
}
