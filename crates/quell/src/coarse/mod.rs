//! `quell stat` where the probe can't be loaded: the counts that anybody may read in /proc, and a list of those it lacks.

mod proc_counts;
mod text;

use std::path::Path;
use std::time::{Duration, Instant};

use quell_host::proc::Proc;
use quell_probe::Scope;

use crate::cli::StatArgs;
use crate::preload::Library;
use crate::show::{self, emit_more};
use crate::subject::Subject;
use crate::target::{End, Watch};
use proc_counts::{FaultScope, ProcCounts};

/// /proc is read at this interval: a thread that ends is counted up to the last reading before.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Counts by /proc alone, and gives the reason. None if the reader has gone (`| head`).
///
/// # Errors
///
/// If /proc can't be read, or the command can't be started.
pub(crate) fn run(
    args: &StatArgs,
    scope: &Scope,
    interval: Option<Duration>,
    watch: &mut Watch,
    why: &str,
) -> anyhow::Result<Option<End>> {
    let mut out = show::output(args.output.as_deref())?;
    let watched = match scope {
        Scope::Tree => FaultScope::Trees(watch.roots()),
        Scope::All | Scope::Cpus(_) => FaultScope::All,
    };
    let cpus = match scope {
        Scope::Cpus(list) => Some(list.as_slice()),
        _ => None,
    };
    let (root, proc) = (Path::new("/"), Proc::new("/"));
    let mut counts = ProcCounts::start(root, &proc, &watched)?;
    watch.start(None, scope)?;

    let mut library = Library::default();
    let mut print = |counts: &ProcCounts, library: &Library| -> anyhow::Result<bool> {
        let seen = counts.summary(cpus);
        let text = if args.json {
            let mut object = text::summary_json(&seen, why);
            library.add_to(&mut object)?;
            object.to_string() + "\n"
        } else {
            text::summary_text(&seen, &Subject::of(&args.target).title(), why)
                + &show::shim::text(library)
        };
        emit_more(&mut *out, &text)
    };
    let mut next = interval.map(|i| Instant::now() + i);
    let end = loop {
        let nap = LOOK_INTERVAL.min(library.nap());
        let due = next.map_or(nap, |n| {
            n.saturating_duration_since(Instant::now()).min(nap)
        });
        if let Some(end) = watch.step(due)? {
            break Some(end);
        }
        counts.read_again(root, &proc, &watched)?;
        library.look(scope, &watch.roots());
        if let (Some(at), Some(every)) = (next, interval)
            && Instant::now() >= at
        {
            if !print(&counts, &library)? {
                break None;
            }
            counts.start_interval();
            next = Some(at + every);
        }
    };
    let Some(end) = end else {
        return Ok(None);
    };
    counts.read_again(root, &proc, &watched)?;
    library.look_now(scope, &watch.roots());
    print(&counts, &library)?;
    Ok(Some(end))
}
