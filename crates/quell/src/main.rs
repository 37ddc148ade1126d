//! quell shows the time that virtual memory costs a program, names the cause, changes it, and proves the gain.

#[macro_use]
mod say;

mod accountant;
mod agent;
mod cli;
mod clock;
mod cmd;
mod coarse;
mod compare;
mod doctor;
mod evidence;
mod fleet;
mod hit;
mod host_name;
mod lab;
mod launch;
mod little_memory;
mod outcome;
mod plan;
mod preload;
mod prove;
mod recording;
mod regular_file;
mod report;
mod show;
mod subject;
mod target;
mod temp_dir;
mod top;
mod usage;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(err) => return cmd::print_usage_error(&err),
    };
    match cmd::run_verb(cli) {
        Ok(code) => code,
        Err(err) => cmd::complain(&err),
    }
}
