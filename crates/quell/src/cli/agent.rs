//! The command line of `quell agent`.

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
    /// The configuration (TOML) [default: /etc/quell/agent.toml, if there is one].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Answer scrapes of /metrics and /healthz at this address [default: 127.0.0.1:9469].
    #[arg(long, value_name = "ADDR:PORT|off")]
    pub(crate) listen: Option<String>,
    /// Count at this interval.
    #[arg(short = 'I', long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) interval: Option<u64>,
    /// Push InfluxDB lines to this address; '-' is stdout, for Telegraf's execd.
    #[arg(long, value_name = "URL|-")]
    pub(crate) influx: Option<String>,
    /// Push OpenTelemetry metrics to this address (OTLP over HTTP), such as http://127.0.0.1:4318/v1/metrics.
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
    /// The way to observe shootdowns: raw_tp (Linux 6.5) or fentry (5.15) [default: the first that works].
    #[arg(long, value_name = "NAME", env = "QUELL_BACKEND")]
    pub(crate) backend: Option<Backend>,
    /// Check the configuration and the rights, print the scope that would be watched, and end.
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum AgentVerb {
    /// List the traces that rules have recorded.
    Traces(AgentTracesArgs),
    /// Name the code in counts from before a trace, read from stdin, and put them beside the trace; the agent runs this.
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
    /// The agent's configuration, which names their folder [default: /etc/quell/agent.toml, if there is one].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The folder of the traces.
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    pub(crate) dir: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}
