//! What can be said to `quell agent`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use quell_probe::Backend;

#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "A flag counts before the configuration file; docs/agent.md has every key and every metric.\n\
                  Exit status: 0 it was asked to stop, 1 it could not go on, 2 bad usage or a right is missing."
)]
pub(crate) struct AgentArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<AgentVerb>,
    /// The configuration (TOML). Without, /etc/quell/agent.toml if there is one.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Answer scrapes at this address: /metrics and /healthz. Without, 127.0.0.1:9469.
    #[arg(long, value_name = "ADDR:PORT|off")]
    pub(crate) listen: Option<String>,
    /// Count every so many seconds.
    #[arg(short = 'I', long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) interval: Option<u64>,
    /// Push InfluxDB lines there; '-' is stdout, for Telegraf's execd.
    #[arg(long, value_name = "URL|-")]
    pub(crate) influx: Option<String>,
    /// Push OpenTelemetry's metrics there (OTLP over HTTP), such as http://127.0.0.1:4318/v1/metrics.
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
    /// How to see shootdowns: raw_tp (Linux 6.5) or fentry (5.15); without, the first that works.
    #[arg(long, value_name = "NAME", env = "QUELL_BACKEND")]
    pub(crate) backend: Option<Backend>,
    /// Check the configuration and the rights, tell what would be watched, and end.
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum AgentVerb {
    /// List the traces that rules have recorded.
    Traces(AgentTracesArgs),
    /// Name the code of what was counted before a trace, from stdin, and put it beside the trace: the agent runs it.
    #[command(hide = true)]
    LookBack(AgentLookBackArgs),
}

#[derive(Args, Debug)]
pub(crate) struct AgentLookBackArgs {
    /// The trace.
    pub(crate) dir: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct AgentTracesArgs {
    /// The agent's configuration, which says where they are. Without, /etc/quell/agent.toml if there is one.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where they are.
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    pub(crate) dir: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
