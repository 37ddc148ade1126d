//! quell finds, explains, stops and proves away TLB shootdowns.

mod cli;
mod cmd;
mod launch;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match cmd::dispatch(cli) {
        Ok(code) => code,
        Err(err) => cmd::complain(&err),
    }
}
