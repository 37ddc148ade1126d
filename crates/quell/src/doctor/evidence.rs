//! The evidence of harm, from a trace or from counters while quell watches.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use quell_doctor::{HarmEvidence, read_counters};
use quell_event::trace::{Trace, TraceMeta};
use quell_event::{Cause, Tally, TallySummary};
use quell_probe::{Probe, ProbeOptions, Scope, StackShare};

use crate::host_name::host_name;
use crate::launch::signals;
use crate::report::places::Places;
use crate::report::{self, Report};
use crate::show::units::time;
use crate::target::seconds;

/// Shootdowns by cause, of a trace and of a process in it. The notes say where the trace is of another machine, or the process is
/// not in it.
///
/// # Errors
///
/// If the trace can't be read.
pub(crate) fn trace_evidence(
    dir: &Path,
    pid: Option<u32>,
) -> anyhow::Result<(HarmEvidence, Vec<String>)> {
    let trace = Trace::open(dir)?;
    let (sum, code, garbled) = report::sum_up_trace(&trace)?;
    let report = Report::new(&trace, &sum, &code, garbled);
    let uname = rustix::system::uname();
    let mut notes = other_host_notes(
        trace.meta(),
        &host_name(),
        &uname.release().to_string_lossy(),
    );
    let mut evidence = HarmEvidence {
        where_seen: format!("in {}", dir.display()),
        shootdowns_by_cause: Some(shootdowns_by_cause(&report.summary)),
        ..HarmEvidence::default()
    };
    let Some(pid) = pid else {
        return Ok((evidence, notes));
    };
    let rows = sum.tally_of_rows();
    let process = code.process_by_pid(pid);
    let culprit = rows.culprits.iter().any(|c| c.pid == pid);
    let victim = rows.victims.iter().any(|v| v.pid == pid);
    let now = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let other = process.is_some_and(|p| is_other_program(&p.exe, &now.to_string_lossy()));
    if other || !(culprit || victim || process.is_some()) {
        let exe = process.map_or("", |p| p.exe.as_str());
        notes.push(if other {
            format!("PID {pid} is not in this trace: there it was {exe}")
        } else {
            format!("PID {pid} is not in this trace")
        });
        evidence.process_shootdowns = Some(HashMap::new());
        evidence.process_callers = Some(Vec::new());
        return Ok((evidence, notes));
    }
    evidence.process_shootdowns = Some(process_shootdowns(&rows, pid));
    evidence.process_callers = Some(Places::new(&sum, &code).shootdown_sources(Some(pid)));
    Ok((evidence, notes))
}

/// The shootdowns of one process by cause.
fn process_shootdowns(tally: &Tally, pid: u32) -> HashMap<Cause, u64> {
    let mut causes = HashMap::new();
    for culprit in tally.culprits.iter().filter(|c| c.pid == pid) {
        *causes.entry(culprit.cause).or_default() += culprit.counts.shootdowns;
    }
    causes
}

/// Was a process number given to another program since? Where one of the programs is not known nobody can tell.
fn is_other_program(then: &str, now: &str) -> bool {
    let plain = |path: &str| path.trim_end_matches(" (deleted)").to_owned();
    !then.is_empty() && !now.is_empty() && plain(then) != plain(now)
}

/// Says where a trace was recorded, if that is another machine or kernel.
fn other_host_notes(meta: &TraceMeta, host: &str, kernel: &str) -> Vec<String> {
    let differs = [
        ("the machine", &meta.host, host),
        ("Linux", &meta.kernel, kernel),
    ];
    differs
        .into_iter()
        .filter(|(_, then, now)| !then.is_empty() && then.as_str() != *now)
        .map(|(label, then, now)| {
            format!("the trace is of {label} {then}, and this is {now}: settings are read here")
        })
        .collect()
}

/// Counters and, with enough rights, shootdowns of so many seconds: of a process, or of everything. The text says why shootdowns
/// could not be counted.
///
/// # Errors
///
/// If the usage is bad, or a probe fails half-way.
pub(crate) fn live_evidence(
    pid: Option<u32>,
    duration: f64,
) -> anyhow::Result<(HarmEvidence, Option<String>)> {
    let duration = seconds("--duration", duration)?;
    signals::install_handlers()?;
    let root = Path::new("/");
    let options = ProbeOptions {
        scope: if pid.is_some() {
            Scope::Tree
        } else {
            Scope::All
        },
        stacks: StackShare::None,
        ..ProbeOptions::default()
    };
    let (mut probe, refused) = match Probe::attach(&options) {
        Ok(probe) => (Some(probe), None),
        Err(err) => (None, Some(format!("shootdowns are not counted: {err}"))),
    };
    if let (Some(probe), Some(pid)) = (&probe, pid) {
        probe.add_process(pid)?;
    }
    let before = read_counters(root, pid);
    let began = Instant::now();
    signals::sleep_until_signal(duration)?;
    let after = read_counters(root, pid);
    // the time is shorter than asked for where it was interrupted
    let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let mut evidence = HarmEvidence::from_counters(&before, &after, format!("in {}", time(ns)));
    if let Some(probe) = &mut probe {
        probe.detach()?;
        let summary = TallySummary::new(&probe.tally()?, probe.backend().name(), 0);
        evidence.shootdowns_by_cause = Some(shootdowns_by_cause(&summary));
    }
    Ok((evidence, refused))
}

fn shootdowns_by_cause(summary: &TallySummary) -> HashMap<Cause, u64> {
    let mut causes = HashMap::new();
    for row in &summary.causes {
        if let Ok(cause) = row.cause.parse() {
            *causes.entry(cause).or_default() += row.shootdowns;
        }
    }
    causes
}

#[cfg(test)]
mod tests {
    use quell_event::{CulpritTally, ShootdownCounts};

    use super::*;

    /// Check that only the shootdowns of the process count, and that one that is not there has none.
    #[test]
    fn rows_of_one_process() {
        let row = |pid, cause, shootdowns| CulpritTally {
            pid,
            comm: "a".to_owned(),
            cgroup: 1,
            cause,
            detail: None,
            counts: ShootdownCounts {
                shootdowns,
                ..ShootdownCounts::default()
            },
        };
        let tally = Tally {
            culprits: vec![row(1, Cause::Munmap, 5), row(2, Cause::Munmap, 7)],
            ..Tally::default()
        };
        assert_eq!(process_shootdowns(&tally, 2), [(Cause::Munmap, 7)].into());
        assert_eq!(process_shootdowns(&tally, 3), HashMap::new());
    }

    /// Check that a trace of another machine or kernel is told, and that a number may be another program's by now.
    #[test]
    fn traces_of_elsewhere() {
        let meta = TraceMeta {
            host: "a".into(),
            kernel: "6.1".into(),
            ..TraceMeta::default()
        };
        assert_eq!(other_host_notes(&meta, "a", "6.1"), Vec::<String>::new());
        assert_eq!(
            other_host_notes(&meta, "b", "6.1"),
            ["the trace is of the machine a, and this is b: settings are read here"]
        );
        assert!(is_other_program("/bin/a", "/bin/b"));
        assert!(!is_other_program("/bin/a (deleted)", "/bin/a"));
        assert!(!is_other_program("", "/bin/a"));
    }
}
