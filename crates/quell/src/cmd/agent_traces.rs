//! `quell agent traces`: lists the traces that rules have recorded.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use quell_agent::config::DEFAULT_TRACE_DIR;
use quell_agent::trace_ring::{self, KeptTrace};
use quell_event::trace::Trace;
use serde_json::{Value, json};

use crate::agent::config_file::read_config_file;
use crate::agent::recorder::{TRIGGER_FILE, TriggerNote};
use crate::cli::AgentTracesArgs;
use crate::cmd::usage;
use crate::show;
use crate::show::table::{Table, plain};
use crate::show::units::{bytes, count, plural};

pub(crate) fn run(args: &AgentTracesArgs) -> anyhow::Result<ExitCode> {
    let dir = trace_dir(args).map_err(|err| usage(format!("{err:#}")))?;
    let kept = match trace_ring::list_traces(&dir) {
        // A folder that was named has to exist; the agent's own may not exist yet.
        Err(err) if args.dir.is_none() && is_missing(&err) => Vec::new(),
        kept => kept?,
    };
    let found: Vec<ListedTrace> = kept.into_iter().map(ListedTrace::read_kept).collect();
    let mut out = show::output(None)?;
    let text = if args.json {
        format!(
            "{}\n",
            json!({"schema": "quell/agent-traces/1", "dir": dir.to_string_lossy(), "traces": found.iter().map(ListedTrace::as_json).collect::<Vec<_>>()})
        )
    } else {
        traces_text(&dir, &found)
    };
    show::emit(&mut *out, &text)?;
    Ok(ExitCode::SUCCESS)
}

fn trace_dir(args: &AgentTracesArgs) -> anyhow::Result<PathBuf> {
    if let Some(dir) = &args.dir {
        return Ok(dir.clone());
    }
    Ok(read_config_file(args.config.as_deref())?
        .traces
        .map_or_else(|| PathBuf::from(DEFAULT_TRACE_DIR), |traces| traces.dir))
}

fn is_missing(err: &anyhow::Error) -> bool {
    let kind = err.downcast_ref().map(io::Error::kind);
    kind == Some(io::ErrorKind::NotFound)
}

/// A trace of the ring, as far as it can be read.
struct ListedTrace {
    kept: KeptTrace,
    why: String,
    /// Shootdowns and seconds, or the error that reading it gave.
    has: Result<(u64, f64), String>,
    cut_short: bool,
    /// It has no end, as it is being recorded.
    under_way: bool,
}

impl ListedTrace {
    fn read_kept(kept: KeptTrace) -> Self {
        let text = std::fs::read_to_string(kept.path.join(TRIGGER_FILE)).unwrap_or_default();
        let why = serde_json::from_str(&text)
            .map(|why: TriggerNote| why.why)
            .unwrap_or_default();
        // This is asked before the trace is opened: one that ends between the two has its end then.
        let under_way = trace_ring::is_being_recorded(&kept.path);
        let trace = Trace::open(&kept.path);
        let no_end = trace.as_ref().is_ok_and(Trace::cut_short);
        let has = trace.and_then(|trace| {
            let tally = trace.read_tally()?.unwrap_or_default();
            Ok((
                tally.total_counts().shootdowns,
                tally.duration_ns as f64 / 1e9,
            ))
        });
        Self {
            kept,
            why,
            has: has.map_err(|err| format!("{err:#}")),
            cut_short: no_end && !under_way,
            under_way: no_end && under_way,
        }
    }

    fn as_json(&self) -> Value {
        let has = self.has.as_ref().ok();
        json!({
            "path": self.kept.path.to_string_lossy(),
            "begun": self.kept.begun,
            "rule": self.kept.rule,
            "why": self.why,
            "bytes": self.kept.bytes,
            "shootdowns": has.map(|h| h.0),
            "seconds": has.map(|h| h.1),
            "cut_short": self.cut_short,
            "under_way": self.under_way,
            "error": self.has.as_ref().err(),
        })
    }
}

fn traces_text(dir: &Path, found: &[ListedTrace]) -> String {
    if found.is_empty() {
        return format!("no traces in {}\n", plain(&dir.to_string_lossy()));
    }
    let mut table = Table::new(&[
        "begun (UTC)",
        "rule",
        ">shootdowns",
        ">seconds",
        ">size",
        "trace",
        "why",
    ]);
    for one in found {
        let (shootdowns, seconds) = match &one.has {
            Ok((shootdowns, seconds)) => (count(*shootdowns), format!("{seconds:.1}")),
            Err(_) => ("?".to_owned(), "?".to_owned()),
        };
        let name = one
            .kept
            .path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        // It is from the name of the folder, where `-` stands for each `:` of the time.
        let begun = one.kept.begun.replace('T', " ");
        let (day, time) = begun
            .trim_end_matches('Z')
            .split_once(' ')
            .unwrap_or_default();
        let why = match &one.has {
            Err(err) => format!("can't be read: {err}"),
            Ok(_) if one.cut_short => format!("{} (cut short)", one.why),
            Ok(_) if one.under_way => format!("{} (under way)", one.why),
            Ok(_) => one.why.clone(),
        };
        let time = time.replace('-', ":");
        table.row(vec![
            format!("{day} {time}"),
            one.kept.rule.clone(),
            shootdowns,
            seconds,
            bytes(one.kept.bytes),
            name,
            plain(&why),
        ]);
    }
    let sum = found.iter().map(|f| f.kept.bytes).sum();
    let dir = plain(&dir.to_string_lossy());
    format!(
        "{}{} in {dir}, {}; see one with 'quell report {dir}/TRACE'\n",
        table.text(),
        plural(found.len() as u64, "trace"),
        bytes(sum)
    )
}
