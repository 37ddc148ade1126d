//! `quell fleet`: questions over the traces of many hosts.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressFinish};
use quell_event::trace::{Trace, TraceError};
use quell_fleet::{
    EngineError, EngineJob, PreparedFolder, Question, SUMMARY_QUESTIONS, TraceTree, day,
    find_traces,
};

use crate::cli::FleetArgs;
use crate::clock::wall_ns;
use crate::fleet::{self, FleetAnswers, TraceChoice, choose_traces, json, of_the_future, text};
use crate::launch::signals;
use crate::show::table::{Table, plain};
use crate::show::units::plural;
use crate::show::{self, emit};
use crate::temp_dir::{FLEET_FOLDER, TempDir};
use crate::usage::usage;

/// The default number of rows in text: for one question, and for each answer of the summary.
const DEFAULT_ROWS: usize = 20;
const SUMMARY_ROWS: usize = 6;
const CHANGES_QUESTION: &str = "changes";

pub(crate) fn run(args: &FleetArgs) -> anyhow::Result<ExitCode> {
    if args.list {
        return print_text(&questions_table());
    }
    if let Some(name) = &args.sql {
        return print_text(find_question(OsStr::new(name))?.sql);
    }
    let (questions, dir) = split_words(args)?;
    let tree = find_traces(&dir)
        .map_err(|err| usage(format!("can't look for traces in {}: {err}", dir.display())))?;
    say_passed_over(&tree, tree.traces.len());
    if tree.traces.is_empty() {
        let what = match tree.passed_over() {
            0 => "no trace",
            _ => "no trace that is whole",
        };
        return Err(usage(format!(
            "{what} in {}: 'quell record' and 'quell agent' write them; links to folders are not followed",
            dir.display()
        )));
    }
    let alone = matches!(&*questions, [one] if one.name == CHANGES_QUESTION);
    let TraceTree {
        mut traces, passed, ..
    } = tree;
    let future = of_the_future(&mut traces, wall_ns());
    if let Some(one) = future.first() {
        say!(
            "quell: passed over {} of the future, such as one of {} that says {}: look at that host's clock",
            plural(future.len() as u64, "trace"),
            plain(&one.meta.host),
            day(one.meta.start_wall_ns)
        );
    }
    if traces.is_empty() && !future.is_empty() {
        let dir = dir.display();
        return Err(usage(format!(
            "no trace in {dir} is left: all of them are of the future"
        )));
    }
    let mut choice = choose_traces(traces, args.since, alone);
    let is_late = choice.from_ns >= choice.to_ns;
    if is_late || choice.traces.is_empty() {
        let (dir, first, last) = (dir.display(), day(choice.from_ns), day(choice.to_ns - 1));
        return Err(usage(if is_late {
            format!("no trace in {dir} began on {first} or later: the newest did on {last}")
        } else {
            format!("no trace in {dir} began from {first} to {last}")
        }));
    }
    signals::install_handlers()?;
    if let Some(out) = &args.prepare {
        return prepare_folder(&mut choice, out);
    }
    if questions.iter().any(|q| q.name == CHANGES_QUESTION) {
        say_if_incomparable(&choice);
    }
    ask_questions(args, &questions, &mut choice, passed)
}

fn print_text(text: &str) -> anyhow::Result<ExitCode> {
    emit(&mut anstream::stdout(), text)?;
    Ok(ExitCode::SUCCESS)
}

fn questions_table() -> String {
    let mut t = Table::new(&["question", "answer"]);
    for question in Question::ALL {
        t.row(vec![question.name.to_owned(), question.summary_sentence()]);
    }
    t.text()
}

fn find_question(name: &OsStr) -> anyhow::Result<Question> {
    let known = name.to_str().and_then(Question::by_name);
    known.ok_or_else(|| {
        let all: Vec<&str> = Question::ALL.iter().map(|q| q.name).collect();
        usage(format!(
            "'{}' is no question: ask {}",
            plain(&name.to_string_lossy()),
            all.join(", ")
        ))
    })
}

/// The questions and the folder of traces on the command line. Without questions they are those of the summary; with `--since`
/// it has no `changes`, which needs the traces of the period before too.
fn split_words(args: &FleetArgs) -> anyhow::Result<(Vec<Question>, PathBuf)> {
    let Some((dir, names)) = args.words.split_last() else {
        return Err(usage(
            "say where the traces are: quell fleet [QUESTION...] DIR",
        ));
    };
    if !Path::new(dir).exists() && dir.to_str().is_some_and(|d| Question::by_name(d).is_some()) {
        return Err(usage(
            "say where the traces are, after the questions: quell fleet [QUESTION...] DIR",
        ));
    }
    let mut questions = Vec::new();
    for name in names {
        let one = find_question(name)?;
        if !questions.contains(&one) {
            questions.push(one);
        }
    }
    if args.since.is_some()
        && questions.len() > 1
        && questions.iter().any(|q| q.name == CHANGES_QUESTION)
    {
        return Err(usage(
            "'changes' compares two periods: with --since ask it by itself",
        ));
    }
    if args.csv && questions.len() != 1 {
        return Err(usage("--csv is of one question"));
    }
    if questions.is_empty() {
        let wanted = |name: &&&str| args.since.is_none() || **name != CHANGES_QUESTION;
        questions.extend(
            SUMMARY_QUESTIONS
                .iter()
                .filter(wanted)
                .filter_map(|name| Question::by_name(name)),
        );
    }
    Ok((questions, dir.into()))
}

/// Says how many traces were passed over and why, with an example of each reason. `whole` is the number of the others.
fn say_passed_over(tree: &TraceTree, whole: usize) {
    if tree.passed_over() == 0 {
        return;
    }
    let whys: Vec<String> = tree
        .passed
        .iter()
        .map(|(why, n)| format!("{n} {why}"))
        .collect();
    say!(
        "quell: passed over {} of {}: {}",
        tree.passed_over(),
        plural(tree.passed_over() + whole as u64, "trace"),
        whys.join(", ")
    );
    for text in tree.examples.values() {
        say!("quell: such as {}", plain(text));
    }
}

/// Says so where a period has no trace to compare.
fn say_if_incomparable(choice: &TraceChoice) {
    for (period, name) in [(0, "last"), (1, "period before the last")] {
        if !choice.has_period(period) {
            let days = choice.period_ns as f64 / quell_fleet::DAY_NS as f64;
            let name = name.replace("last", &format!("last {days:.0} days"));
            say!("quell: no trace is of the {name}: there is nothing to compare");
        }
    }
}

/// A line on a terminal during long work, until it is dropped; elsewhere there is none.
fn show_spinner(what: String) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(what);
    bar.enable_steady_tick(Duration::from_millis(500));
    bar.with_finish(ProgressFinish::AndClear)
}

fn is_interrupted() -> bool {
    signals::first_signal().is_some()
}

/// Fills the folder and returns its path, and counts the traces that turn out to be unusable.
fn fill_folder(
    choice: &mut TraceChoice,
    dir: &Path,
    counts: &mut BTreeMap<&'static str, u64>,
) -> anyhow::Result<String> {
    let busy = show_spinner(format!(
        "reading {}",
        plural(choice.traces.len() as u64, "trace")
    ));
    let prepared = PreparedFolder::begin(dir)?;
    let mut late = TraceTree::default();
    let pass = |why, line: String| late.pass_over(why, || line);
    let filled = fleet::fill_tables(choice, prepared, || busy.tick(), &is_interrupted, pass);
    drop(busy);
    say_passed_over(&late, choice.traces.len());
    for (why, n) in late.passed {
        *counts.entry(why).or_default() += n;
    }
    let filled = filled?;
    if choice.traces.is_empty() {
        return Err(usage("no trace is whole"));
    }
    Ok(filled)
}

fn prepare_folder(choice: &mut TraceChoice, out: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir(out)
        .map_err(|err| usage(format!("can't make the folder {}: {err}", out.display())))?;
    let dir = fill_folder(choice, out, &mut BTreeMap::new())?;
    say!("quell: {dir} has the tables, views-duckdb.sql and views-spark.sql, and the questions");
    Ok(ExitCode::SUCCESS)
}

/// Names a damaged trace as the reason for an engine's failure, since the engine's own error may not name one. That error is
/// printed here; the one that is returned says what was found. Any other error is passed on.
fn name_damaged_trace(err: anyhow::Error, choice: &TraceChoice) -> anyhow::Error {
    if !matches!(err.downcast_ref(), Some(EngineError::Failed(_))) {
        return err;
    }
    say!("quell: {err:#}; looking for a trace that is damaged");
    let _busy = show_spinner("reading all events".to_owned());
    let damage = |dir: &Path| {
        let read = Trace::open(dir).and_then(|trace| trace.for_each_row(|_| {}));
        // It may have gone meanwhile, because an agent keeps its traces within their limit.
        read.err()
            .filter(|err| !matches!(err.downcast_ref(), Some(TraceError::Missing(_))))
    };
    let mut all = choice.traces.iter().take_while(|_| !is_interrupted());
    match all.find_map(|(found, _)| damage(&found.dir)) {
        Some(damage) => anyhow::anyhow!("{damage:#}: take that trace away and ask again"),
        None => anyhow::anyhow!("none is damaged, as far as quell can tell"),
    }
}

/// Fills a temporary folder, runs the questions on the engine, and prints the answers.
fn ask_questions(
    args: &FleetArgs,
    questions: &[Question],
    choice: &mut TraceChoice,
    mut passed: BTreeMap<&'static str, u64>,
) -> anyhow::Result<ExitCode> {
    let is_text = !args.json && !args.csv;
    let said = args.top.map(|n| n as usize);
    let top = said.unwrap_or(if args.words.len() == 1 {
        SUMMARY_ROWS
    } else {
        DEFAULT_ROWS
    });
    let temp = TempDir::new()?;
    let folder = temp.path().join(FLEET_FOLDER);
    std::fs::create_dir(&folder)
        .with_context(|| format!("making the folder {}", folder.display()))?;
    let dir = fill_folder(choice, &folder, &mut passed)?;
    let busy = show_spinner(format!(
        "asking {}",
        quell_fleet::Engine::from(args.engine).name()
    ));
    let job = EngineJob {
        engine: args.engine.into(),
        python: &args.python,
        dir: &dir,
        questions,
        // One row more than is shown, to know whether there are more.
        limit: if is_text { Some(top + 1) } else { said },
        stopped: &is_interrupted,
    };
    let mut answers = Vec::new();
    let ran = job.run(|answer| {
        answers.push(answer);
        Ok(())
    });
    drop(busy);
    ran.map_err(|err| name_damaged_trace(err, choice))?;
    let asked = FleetAnswers {
        engine: job.engine,
        choice,
        passed: &passed,
        answers: &answers,
    };
    let text = if args.json {
        json::answers_json(&asked).to_string() + "\n"
    } else if args.csv {
        json::answer_csv(answers.first().context("there is no answer")?)?
    } else {
        text::answers_text(&asked, top)
    };
    let mut out = show::output(None)?;
    emit(&mut *out, &text)?;
    Ok(ExitCode::SUCCESS)
}
