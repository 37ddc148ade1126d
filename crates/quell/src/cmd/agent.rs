//! `quell agent`: watches a host for months, and publishes figures for a fleet's tools.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use quell_agent::config::{AgentConfig, PushConfig, TraceConfig, parse_listen};
use quell_agent::trace_ring::TraceRing;

use crate::agent::config_file::read_config_file;
use crate::agent::recorder::lacks_room;
use crate::agent::source::{AccountOptions, CountSource};
use crate::agent::watch::{AgentOutputs, RunningAgent};
use crate::cli::{AgentArgs, AgentVerb};
use crate::cmd::{agent_look_back, agent_traces, usage};
use crate::launch::signals;
use crate::show::units::plural;

/// The probe has room for samples of so long.
const DRAIN_PAUSE: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    match &args.verb {
        Some(AgentVerb::Traces(args)) => return agent_traces::run(args),
        Some(AgentVerb::LookBack(args)) => return agent_look_back::run(args),
        None => {}
    }
    let config = read_config(args).map_err(|err| usage(format!("{err:#}")))?;
    signals::install_handlers()?;
    let wanted = AgentOutputs::from_config(&config)?;
    let time_of = AccountOptions {
        sleeps: config.blocked,
        code: config.traces.as_ref().is_some_and(TraceConfig::looks_back),
    };
    let mut source = CountSource::start(args.backend, time_of)?;
    let isolated = source.isolated_text();
    let watches = format!(
        "quell: watches by {}{}, every {} s",
        source.backend_name(),
        isolated.map_or_else(String::new, |cpus| format!(", {cpus}")),
        config.interval
    );
    if args.check {
        return check_start(&config, &wanted, &watches);
    }
    let rules = config.traces.iter().flat_map(|traces| &traces.rules);
    for rule in rules.filter(|rule| rule.isolated == Some(true)) {
        if source.isolated_text().is_none() {
            say!("quell: rule \"{}\": no CPU is isolated now", rule.name);
        }
    }
    let mut agent = RunningAgent::start(&config, wanted, source.backend_name())?;
    say!("{watches}; tells {}", agent.receivers());
    let mut due = Instant::now();
    loop {
        if !agent.look_and_publish(&mut source)? {
            // Nobody receives figures any more, because the reader of stdout has gone.
            return Ok(ExitCode::SUCCESS);
        }
        // The clock is the one that never jumps; looks that were missed, while the machine slept, are not made up for.
        let now = Instant::now();
        while due <= now {
            due += config.look_interval();
        }
        if wait_for_look(&source, due)? {
            agent.last_look(&mut source)?;
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Waits for the next look, and takes samples out of the probe meanwhile, before it has no more room for them. True: a signal
/// asks for the end.
fn wait_for_look(source: &CountSource, due: Instant) -> anyhow::Result<bool> {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if signals::sleep_until_signal(left.min(DRAIN_PAUSE))?.is_some() {
            return Ok(true);
        }
        if left <= DRAIN_PAUSE {
            return Ok(false);
        }
        source.drain()?;
    }
}

/// Says what the agent would do. Nothing is written, and an agent that is at work is not disturbed. An address or a folder that
/// is taken is said and no error, because an agent that is at work holds them.
fn check_start(
    config: &AgentConfig,
    wanted: &AgentOutputs,
    watches: &str,
) -> anyhow::Result<ExitCode> {
    let mut taken: Vec<String> = wanted
        .taken_address()?
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut traces = String::new();
    if let Some(wanted) = &config.traces {
        if TraceRing::is_taken(&wanted.dir)? {
            taken.push(wanted.dir.display().to_string());
        }
        let rules = plural(wanted.rules.len() as u64, "rule");
        traces = format!("; would record by {rules} to {}", wanted.dir.display());
    }
    say!("{watches}; would tell {}{traces}", wanted.receivers());
    for what in taken {
        say!("quell: {what} is taken now: by an agent that is at work, or by somebody else");
    }
    if let Some(lacks) = config.traces.as_ref().and_then(lacks_room) {
        say!("quell: {lacks}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The configuration's file, overridden by the command line.
fn read_config(args: &AgentArgs) -> anyhow::Result<AgentConfig> {
    let mut config = read_config_file(args.config.as_deref())?;
    if let Some(text) = &args.listen {
        config.listen = parse_listen(text).map_err(|err| anyhow::anyhow!("--listen {err}"))?;
    }
    config.interval = args.interval.unwrap_or(config.interval);
    // The file's token belongs to the file's server only.
    let server_alone = |to: &String| PushConfig {
        to: to.clone(),
        ..PushConfig::default()
    };
    if let Some(to) = &args.influx {
        config.influx = Some(server_alone(to));
    }
    if let Some(to) = &args.otlp {
        config.otlp = Some(server_alone(to));
    }
    config.check_settings()?;
    Ok(config)
}
