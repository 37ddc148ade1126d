//! From a trace to what a plan is chosen by.

use std::path::Path;

use quell_remedy::{Evidence, Found, Source, recognise_modules};

use crate::report::Report;

/// What was observed of a program.
pub(crate) struct Observed {
    pub(crate) evidence: Evidence,
    pub(crate) found: Vec<Found>,
    pub(crate) notes: Vec<String>,
    pub(crate) shootdowns: u64,
}

/// Reads a trace, and the files that its culprits ran code from.
///
/// # Errors
///
/// If the trace can't be read.
pub(crate) fn of_trace(dir: &Path) -> anyhow::Result<Observed> {
    let report = Report::open(dir)?;
    let recognised = recognise_modules(report.modules.iter().map(AsRef::as_ref));
    let sources = report
        .origins
        .into_iter()
        .map(|o| Source {
            cause: o.cause,
            caller_module: o.module,
            caller_symbol: o.symbol,
            region: Some(o.region),
            shootdowns: o.shootdowns,
        })
        .collect();
    let shootdowns = report.summary.shootdowns;
    Ok(Observed {
        evidence: Evidence {
            shootdowns,
            page_faults: None,
            sources,
        },
        found: recognised.found,
        notes: [report.notes, recognised.notes, recognised.skipped].concat(),
        shootdowns,
    })
}
