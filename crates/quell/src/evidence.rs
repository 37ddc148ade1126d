//! Makes the evidence for a plan from a trace.

use std::ffi::OsString;
use std::path::Path;

use quell_event::Mechanism;
use quell_event::account::{Account, AccountSummary};
use quell_remedy::advice::Advised;
use quell_remedy::{Evidence, FoundSoftware, ObservedTime, recognise_command, recognise_modules};

use crate::launch::Usage;
use crate::preload::file_rights::is_secure;
use crate::preload::fitness::{sanitizer_reason, unfit_for_choice};
use crate::report::Report;
use crate::show::units::plural;

/// The evidence on a program, with the notes for its user.
pub(crate) struct ObservedProgram {
    pub(crate) evidence: Evidence,
    pub(crate) found: Vec<FoundSoftware>,
    pub(crate) notes: Vec<String>,
    /// The shootdowns by processes that were not watched.
    pub(crate) others: u64,
    /// The account of the time, if the trace has one.
    pub(crate) account: Option<AccountSummary>,
    /// Advice for costs that no setting reaches.
    pub(crate) advice: Vec<Advised>,
}

impl ObservedProgram {
    /// Adds allocators that the trace's stacks did not lead to, because they were quiet while the program was watched.
    pub(crate) fn add_found(&mut self, more: Vec<FoundSoftware>) {
        for f in more {
            let is_same = |known: &FoundSoftware| {
                known.kind == f.kind
                    && (known.file_name() == f.file_name() || is_one_file(known, &f))
            };
            if !self.found.iter().any(is_same) {
                self.found.push(f);
            }
        }
    }

    /// [`ObservedProgram::add_found`] for the allocators in a command's files. Files that can't be read add nothing, and are no
    /// error, because the command ran.
    fn add_found_of(&mut self, command: &[OsString]) {
        if let Ok(recognised) = recognise_command(command, &|name| std::env::var_os(name)) {
            self.add_found(recognised.found);
        }
    }

    /// Adds what is known of a command that quell ran itself: its allocators, its memory and page faults, and whether a library
    /// may be preloaded into it.
    pub(crate) fn add_run_of(&mut self, command: &[OsString], usage: &Usage) {
        self.add_found_of(command);
        self.evidence.page_faults = Some(usage.page_faults());
        self.evidence.max_rss = Some(usage.max_rss);
        self.evidence.secure = is_secure(command);
        self.evidence.unfit = unfit_for_choice(command);
        let words = command.iter().map(|w| w.to_string_lossy().into_owned());
        self.evidence.command = words.collect();
    }
}

/// Reads a trace, and the files that its culprits ran code from.
///
/// # Errors
///
/// If the trace can't be read.
pub(crate) fn of_trace(dir: &Path) -> anyhow::Result<ObservedProgram> {
    let report = Report::open(dir)?;
    let recognised = recognise_modules(report.modules.iter().map(AsRef::as_ref));
    let shootdowns = report.own.shootdowns;
    let others = report.summary.shootdowns.saturating_sub(shootdowns);
    let account = report.summary.account;
    let duration_ns = report.summary.duration_ns;
    let spent = report.account.zip(account.as_ref());
    let spent = spent.map(|(rows, summary)| spent_by(rows, summary, duration_ns));
    let strangers = (others > 0).then(|| {
        format!(
            "{} more came from other processes, which were not watched: no remedy for this program stops them",
            plural(others, "shootdown"),
        )
    });
    Ok(ObservedProgram {
        evidence: Evidence {
            shootdowns,
            sources: report.sources,
            cpus: std::thread::available_parallelism()
                .ok()
                .and_then(|n| u32::try_from(n.get()).ok()),
            pages: report.own.pages,
            full: report.own.full,
            by_strangers: report.by_strangers,
            from_start: report.from_start,
            unfit: sanitizer_reason(None, &report.modules),
            wrappers: recognised.wrappers,
            spent,
            ..Evidence::default()
        },
        found: recognised.found,
        notes: [
            report.notes,
            strangers.into_iter().collect(),
            recognised.notes,
            recognised.skipped,
        ]
        .concat(),
        others,
        account,
        advice: report.advice,
    })
}

/// Whether two names lead to one file: `libx.so.2` is mapped under the name of the file that it links to.
fn is_one_file(a: &FoundSoftware, b: &FoundSoftware) -> bool {
    let file = |f: &FoundSoftware| f.module.canonicalize().ok();
    file(a).is_some_and(|a| file(b) == Some(a))
}

/// The account in the form by which a remedy's possible gain is computed.
fn spent_by(account: Account, summary: &AccountSummary, duration_ns: u64) -> ObservedTime {
    let hits = summary.mechanism_row(Mechanism::ShootdownHit);
    ObservedTime {
        account,
        hits_ns: hits.map_or(0, |row| row.cpu_ns),
        duration_ns,
    }
}
