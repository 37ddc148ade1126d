//! `quell agent`: keeps watch, and tells a fleet's tools.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use quell_agent::config::{Config, Influx, Otlp, Traces, listen};
use quell_agent::ring::Ring;

use crate::agent::recorder::lacks_room;
use crate::agent::source::{Source, TimeOf};
use crate::agent::watch::{Agent, Wanted};
use crate::cli::{AgentArgs, AgentVerb};
use crate::cmd::{agent_look_back, agent_traces, usage};
use crate::launch::signals;
use crate::show::units::plural;

const USUAL: &str = "/etc/quell/agent.toml";

/// Samples have room for so long.
const DRAIN: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    match &args.verb {
        Some(AgentVerb::Traces(args)) => return agent_traces::run(args),
        Some(AgentVerb::LookBack(args)) => return agent_look_back::run(args),
        None => {}
    }
    let config = configured(args).map_err(|err| usage(format!("{err:#}")))?;
    signals::install()?;
    let wanted = Wanted::of(&config)?;
    let time_of = TimeOf {
        sleeps: config.blocked,
        code: config.traces.as_ref().is_some_and(Traces::looks_back),
    };
    let mut source = Source::start(args.backend, time_of)?;
    let watches = format!(
        "quell: watches by {}{}, every {} s",
        source.backend(),
        of(&source.isolated()),
        config.interval
    );
    if args.check {
        return check(&config, &wanted, &watches);
    }
    let rules = config.traces.iter().flat_map(|traces| &traces.rules);
    for rule in rules.filter(|rule| rule.isolated == Some(true)) {
        if source.isolated().is_empty() {
            say!("quell: rule \"{}\": no CPU is isolated now", rule.name);
        }
    }
    let mut agent = Agent::start(&config, wanted, source.backend())?;
    say!("{watches}; tells {}", agent.told());
    let mut due = Instant::now();
    loop {
        if !agent.look(&mut source)? {
            return Ok(ExitCode::SUCCESS);
        }
        // by the clock that never jumps; looks that were missed, while the machine slept, are not made up for
        let now = Instant::now();
        while due <= now {
            due += config.every();
        }
        if sleep(&source, due)? {
            agent.last_look(&mut source)?;
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Waits for the next look. True: somebody asks for the end.
fn sleep(source: &Source, due: Instant) -> anyhow::Result<bool> {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if signals::sleep(left.min(DRAIN))?.is_some() {
            return Ok(true);
        }
        if left <= DRAIN {
            return Ok(false);
        }
        source.drain()?;
    }
}

/// Whether it would start. Nothing is written, and no agent that is at work disturbed.
fn check(config: &Config, wanted: &Wanted, watches: &str) -> anyhow::Result<ExitCode> {
    let mut taken: Vec<String> = wanted.check()?.iter().map(ToString::to_string).collect();
    let mut traces = String::new();
    if let Some(wanted) = &config.traces {
        if Ring::check(&wanted.dir)? {
            taken.push(wanted.dir.display().to_string());
        }
        let rules = plural(wanted.rules.len() as u64, "rule");
        traces = format!("; would record by {rules} to {}", wanted.dir.display());
    }
    say!("{watches}; would tell {}{traces}", wanted.told());
    for what in taken {
        say!("quell: {what} is taken now: by an agent that is at work, or by somebody else");
    }
    if let Some(lacks) = config.traces.as_ref().and_then(lacks_room) {
        say!("quell: {lacks}");
    }
    Ok(ExitCode::SUCCESS)
}

fn of(isolated: &str) -> String {
    if isolated.is_empty() {
        return String::new();
    }
    format!(", {isolated}")
}

/// The file, then what the command line says.
fn configured(args: &AgentArgs) -> anyhow::Result<Config> {
    let mut config = match file(args.config.as_deref()) {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    if let Some(text) = &args.listen {
        config.listen = listen(text).map_err(|err| anyhow::anyhow!("--listen {err}"))?;
    }
    config.interval = args.interval.unwrap_or(config.interval);
    // the file's token is for the file's server
    if let Some(to) = &args.influx {
        config.influx = Some(Influx {
            to: to.clone(),
            token_file: None,
            ca_file: None,
        });
    }
    if let Some(to) = &args.otlp {
        config.otlp = Some(Otlp {
            to: to.clone(),
            token_file: None,
            ca_file: None,
        });
    }
    config.check()?;
    Ok(config)
}

/// The configuration: what was named, or the usual one if there is one.
pub(super) fn file(named: Option<&Path>) -> Option<&Path> {
    named.or_else(|| Some(Path::new(USUAL)).filter(|path| path.exists()))
}
