//! One file a verb, and what they share: exit statuses and the one line that says what went wrong.

use std::fmt;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use crate::cli::{Cli, Color, Verb};

mod plan;
mod prove;
mod record;
mod report;
mod run;
mod stat;

/// Bad usage or bad input: exit status 2. Everything else that fails is 1.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A [`Usage`] error with this text.
pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

/// Runs the verb.
pub(crate) fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
    match cli.verb {
        Verb::Stat(args) => stat::run(&args),
        Verb::Record(args) => record::run(&args),
        Verb::Report(args) => report::run(&args),
        Verb::Plan(args) => plan::run(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Prove(args) => prove::run(&args),
    }
}

/// Prints an error in one line and returns its exit status.
pub(crate) fn complain(err: &anyhow::Error) -> ExitCode {
    let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
    anstream::eprintln!("{red}quell:{red:#} {err:#}");
    let bad_input = err.is::<Usage>() || matches!(err.downcast_ref(), Some(quell_probe::Error::Missing { .. }));
    ExitCode::from(if bad_input { 2 } else { 1 })
}
