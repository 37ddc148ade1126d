//! `quell agent traces`: what rules have recorded.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use quell_agent::config::{Config, TRACES};
use quell_agent::ring::{self, Kept};
use quell_event::trace::Trace;
use serde_json::{Value, json};

use crate::agent::recorder::{WHY, Why};
use crate::cli::AgentTracesArgs;
use crate::cmd::{agent, usage};
use crate::show;
use crate::show::table::{Table, plain};
use crate::show::units::{bytes, count, plural};

pub(crate) fn run(args: &AgentTracesArgs) -> anyhow::Result<ExitCode> {
    let dir = directory(args).map_err(|err| usage(format!("{err:#}")))?;
    let kept = match ring::list(&dir) {
        // one that was named is there; the agent's own may not be yet
        Err(err) if args.dir.is_none() && is_missing(&err) => Vec::new(),
        kept => kept?,
    };
    let found: Vec<Found> = kept.into_iter().map(Found::of).collect();
    let mut out = show::output(None)?;
    let text = if args.json {
        format!(
            "{}\n",
            json!({"schema": "quell/agent-traces/1", "dir": dir.to_string_lossy(), "traces": found.iter().map(Found::json).collect::<Vec<_>>()})
        )
    } else {
        text(&dir, &found)
    };
    show::unless_gone(show::emit(&mut *out, &text))?;
    Ok(ExitCode::SUCCESS)
}

fn directory(args: &AgentTracesArgs) -> anyhow::Result<PathBuf> {
    if let Some(dir) = &args.dir {
        return Ok(dir.clone());
    }
    let config = match agent::file(args.config.as_deref()) {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    Ok(config
        .traces
        .map_or_else(|| PathBuf::from(TRACES), |traces| traces.dir))
}

fn is_missing(err: &anyhow::Error) -> bool {
    let kind = err.downcast_ref().map(io::Error::kind);
    kind == Some(io::ErrorKind::NotFound)
}

/// A trace, as far as it can be read.
struct Found {
    kept: Kept,
    why: String,
    /// Shootdowns and seconds; or what is wrong with it.
    has: Result<(u64, f64), String>,
    cut_short: bool,
    /// It has no end, as it is being recorded.
    under_way: bool,
}

impl Found {
    fn of(kept: Kept) -> Self {
        let text = std::fs::read_to_string(kept.path.join(WHY)).unwrap_or_default();
        let why = serde_json::from_str(&text)
            .map(|why: Why| why.why)
            .unwrap_or_default();
        // before it is opened: one that ends between the two has its end then
        let under_way = ring::is_under_way(&kept.path);
        let trace = Trace::open(&kept.path);
        let no_end = trace.as_ref().is_ok_and(Trace::cut_short);
        let has = trace.and_then(|trace| {
            let tally = trace.tally()?.unwrap_or_default();
            Ok((tally.totals().shootdowns, tally.duration_ns as f64 / 1e9))
        });
        Self {
            kept,
            why,
            has: has.map_err(|err| format!("{err:#}")),
            cut_short: no_end && !under_way,
            under_way: no_end && under_way,
        }
    }

    fn json(&self) -> Value {
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

fn text(dir: &Path, found: &[Found]) -> String {
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
