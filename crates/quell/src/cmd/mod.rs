//! The verbs, one in a file, and their shared code: exit statuses, and errors in one line.

use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::CommandFactory as _;

use crate::cli::{Cli, Color, Verb};
use crate::outcome::by_signal;
use crate::prove::failed::Interrupted;
use crate::show::emit;
// launch, target and the verbs that watch import it from here.
pub(crate) use crate::usage::{Usage, usage};

mod agent;
mod agent_look_back;
mod agent_traces;
mod doctor;
mod fleet;
mod lab;
mod lab_compare;
mod lab_report;
mod plan;
mod prove;
mod record;
mod report;
mod run;
mod stat;
mod top;
mod version;

/// Runs the verb of a command line.
pub(crate) fn run_verb(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
    match cli.verb {
        Verb::Stat(args) => stat::run(&args),
        Verb::Top(args) => top::run(&args),
        Verb::Record(args) => record::run(&args),
        Verb::Report(args) => report::run(&args),
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Plan(args) => plan::run(&args),
        Verb::Run(args) => run::run(&args),
        Verb::Prove(args) => prove::run(&args),
        Verb::Lab(args) => lab::run(&args),
        Verb::Agent(args) => agent::run(&args),
        Verb::Fleet(args) => fleet::run(&args),
    }
}

/// Prints an error in one line and returns its exit status.
pub(crate) fn complain(err: &anyhow::Error) -> ExitCode {
    let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
    crate::say::write_line(&format!("{red}quell:{red:#} "), &format!("{err:#}"));
    if let Some(Interrupted(signal)) = err.downcast_ref() {
        return by_signal(*signal);
    }
    ExitCode::from(if err.chain().any(is_bad_input) { 2 } else { 1 })
}

/// Whether an error comes from a wrong command line or bad input, and not from a failure of the work.
fn is_bad_input(err: &(dyn std::error::Error + 'static)) -> bool {
    err.is::<Usage>()
        || matches!(
            err.downcast_ref(),
            Some(quell_fleet::EngineError::Missing(_))
        )
        || matches!(err.downcast_ref(), Some(quell_probe::Error::Missing { .. }))
        || err
            .downcast_ref()
            .is_some_and(quell_event::trace::TraceError::is_bad_input)
}

/// The verb that the command line names: `quell`, or `quell stat`.
fn verb_in_words() -> String {
    let cli = Cli::command();
    let verb = std::env::args_os().skip(1).find_map(|word| {
        let word = word.into_string().ok()?;
        cli.find_subcommand(&word).map(|c| c.get_name().to_owned())
    });
    verb.map_or_else(|| "quell".to_owned(), |verb| format!("quell {verb}"))
}

/// Prints the fault of a command line in one line. Help and version go to stdout, as they are.
pub(crate) fn print_usage_error(err: &clap::Error) -> ExitCode {
    if !err.use_stderr() {
        let mut text = err.render().ansi().to_string();
        // The short -V is for scripts, and has the version alone.
        if err.kind() == clap::error::ErrorKind::DisplayVersion
            && std::env::args_os().any(|word| word == "--version")
        {
            text.push_str(&version::kernel_features());
        }
        return match emit(&mut anstream::stdout(), &text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(err) => complain(&err),
        };
    }
    let text = err.to_string();
    let first = text.lines().next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    // A list of missing arguments stands on the lines below.
    let rest: Vec<_> = text
        .lines()
        .skip(1)
        .take_while(|l| !l.is_empty())
        .map(str::trim)
        .collect();
    let first = if rest.is_empty() {
        first.to_owned()
    } else {
        format!("{first} {}", rest.join(" "))
    };
    if err.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = err.print();
        return ExitCode::from(2);
    }
    complain(&usage(format!("{first}; see '{} --help'", verb_in_words())))
}
