//! What was seen to happen: in a trace, or while quell watched.

use std::collections::HashMap;
use std::path::Path;

use quell_doctor::{Counters, Evidence};
use quell_event::{Cause, Summary};
use quell_probe::{Options, Probe, Scope, Stacks};

use crate::launch::signals;
use crate::report::Report;
use crate::show::units::time;
use crate::target::seconds;

/// Shootdowns by cause, of a trace.
///
/// # Errors
///
/// If it can't be read.
pub(crate) fn of_trace(dir: &Path) -> anyhow::Result<Evidence> {
    let report = Report::open(dir)?;
    Ok(Evidence {
        seen: format!("in {}", dir.display()),
        grown: None,
        causes: Some(by_cause(&report.summary)),
    })
}

/// Counters and, with rights, shootdowns of so many seconds: of a process, or of everything. Says what
/// could not be counted.
///
/// # Errors
///
/// Bad usage, or a probe that fails half-way.
pub(crate) fn live(pid: Option<u32>, duration: f64) -> anyhow::Result<(Evidence, Option<String>)> {
    let duration = seconds("--duration", duration)?;
    signals::install()?;
    let root = Path::new("/");
    let options = Options {
        scope: if pid.is_some() {
            Scope::Tree
        } else {
            Scope::All
        },
        stacks: Stacks::None,
        ..Options::default()
    };
    let (mut probe, refused) = match Probe::attach(&options) {
        Ok(probe) => (Some(probe), None),
        Err(err) => (None, Some(format!("shootdowns are not counted: {err}"))),
    };
    if let (Some(probe), Some(pid)) = (&probe, pid) {
        probe.add_process(pid)?;
    }
    let before = Counters::read(root, pid);
    signals::sleep(duration)?;
    let after = Counters::read(root, pid);
    let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let mut evidence = Evidence::between(&before, &after, format!("in {}", time(ns)));
    if let Some(probe) = &mut probe {
        probe.detach()?;
        let summary = Summary::new(&probe.tally()?, probe.backend().name(), 0);
        evidence.causes = Some(by_cause(&summary));
    }
    Ok((evidence, refused))
}

fn by_cause(summary: &Summary) -> HashMap<Cause, u64> {
    let mut causes = HashMap::new();
    for row in &summary.causes {
        if let Ok(cause) = row.cause.parse() {
            *causes.entry(cause).or_default() += row.shootdowns;
        }
    }
    causes
}
