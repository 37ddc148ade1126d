//! Writes the man pages and the completions of every shell into a folder: `pages DIR`.
//!
//! Made from the command line as clap knows it, so that they never say anything else than `--help`.

#![allow(
    dead_code,
    unused_imports,
    reason = "the command line is read here, not obeyed"
)]
#![allow(
    unreachable_pub,
    missing_docs,
    reason = "a program, and a module of another one"
)]

#[path = "../src/cli/mod.rs"]
mod cli;

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

fn main() -> std::io::Result<()> {
    let dir = std::env::args_os().nth(1);
    let Some(dir) = dir.as_deref().map(Path::new) else {
        return Err(std::io::Error::other("usage: pages DIR"));
    };
    std::fs::create_dir_all(dir)?;
    let mut command = cli::Cli::command();
    clap_mangen::generate_to(command.clone(), dir)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command, "quell", dir)?;
    }
    Ok(())
}
