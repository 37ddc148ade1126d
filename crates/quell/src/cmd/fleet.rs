//! `quell fleet`: questions over the traces of many hosts.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use indicatif::ProgressBar;
use quell_event::trace::{Error, Trace};
use quell_fleet::{
    EngineFailed, EngineJob, PreparedFolder, Question, SUMMARY_QUESTIONS, TraceTree, day,
    find_traces,
};

use crate::cli::FleetArgs;
use crate::clock::wall_ns;
use crate::fleet::{self, Asked, Choice, choose, json, of_the_future, text};
use crate::launch::signals;
use crate::prove::temp_dir::{FLEET_FOLDER, TempDir};
use crate::show::table::{Table, plain};
use crate::show::units::plural;
use crate::show::{self, emit, unless_gone};
use crate::usage::usage;

/// Rows of a text, and of each answer of the summary.
const ROWS: usize = 20;
const FEW: usize = 6;
const COMPARE: &str = "changes";

pub(crate) fn run(args: &FleetArgs) -> anyhow::Result<ExitCode> {
    if args.list {
        return print(&list());
    }
    if let Some(name) = &args.sql {
        return print(question(OsStr::new(name))?.sql);
    }
    let (questions, dir) = words(args)?;
    let tree = find_traces(&dir)
        .map_err(|err| usage(format!("can't look for traces in {}: {err}", dir.display())))?;
    passed_over(&tree, tree.traces.len());
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
    let alone = matches!(&*questions, [one] if one.name == COMPARE);
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
    let mut choice = choose(traces, args.since, alone);
    if choice.from_ns >= choice.to_ns {
        return Err(usage(format!(
            "no trace in {} began on {} or later: the newest did on {}",
            dir.display(),
            day(choice.from_ns),
            day(choice.to_ns - 1)
        )));
    }
    if choice.traces.is_empty() {
        return Err(usage(format!(
            "no trace in {} began from {} to {}",
            dir.display(),
            day(choice.from_ns),
            day(choice.to_ns - 1)
        )));
    }
    signals::install()?;
    if let Some(out) = &args.prepare {
        return prepare(&mut choice, out);
    }
    if questions.iter().any(|q| q.name == COMPARE) {
        comparable(&choice);
    }
    ask(args, &questions, &mut choice, passed)
}

fn print(text: &str) -> anyhow::Result<ExitCode> {
    unless_gone(emit(&mut anstream::stdout(), text))?;
    Ok(ExitCode::SUCCESS)
}

fn list() -> String {
    let mut t = Table::new(&["question", "what it answers"]);
    for question in Question::ALL {
        t.row(vec![question.name.to_owned(), question.summary_sentence()]);
    }
    t.text()
}

fn question(name: &OsStr) -> anyhow::Result<Question> {
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

/// What is asked, and of which folder.
fn words(args: &FleetArgs) -> anyhow::Result<(Vec<Question>, PathBuf)> {
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
        let one = question(name)?;
        if !questions.contains(&one) {
            questions.push(one);
        }
    }
    if args.since.is_some() && questions.len() > 1 && questions.iter().any(|q| q.name == COMPARE) {
        return Err(usage(
            "'changes' compares two periods: with --since ask it by itself",
        ));
    }
    if args.csv && questions.len() != 1 {
        return Err(usage("--csv is of one question"));
    }
    if questions.is_empty() {
        let wanted = |name: &&&str| args.since.is_none() || **name != COMPARE;
        questions.extend(
            SUMMARY_QUESTIONS
                .iter()
                .filter(wanted)
                .filter_map(|name| Question::by_name(name)),
        );
    }
    Ok((questions, dir.into()))
}

fn passed_over(tree: &TraceTree, whole: usize) {
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

/// Says so where there is nothing to compare with.
fn comparable(choice: &Choice) {
    for (period, name) in [(0, "last"), (1, "period before the last")] {
        if !choice.has(period) {
            let days = choice.period_ns as f64 / quell_fleet::DAY_NS as f64;
            let name = name.replace("last", &format!("last {days:.0} days"));
            say!("quell: no trace is of the {name}: there is nothing to compare");
        }
    }
}

/// A line on a terminal while something takes long.
struct Busy(ProgressBar);

impl Busy {
    fn new(what: String) -> Self {
        let bar = if std::io::stderr().is_terminal() {
            ProgressBar::new_spinner().with_message(what)
        } else {
            ProgressBar::hidden()
        };
        bar.enable_steady_tick(Duration::from_millis(500));
        Self(bar)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn interrupted() -> bool {
    signals::interrupted().is_some()
}

/// Fills the folder, and counts traces that turn out to say too little.
fn fill(
    choice: &mut Choice,
    dir: &Path,
    counts: &mut BTreeMap<&'static str, u64>,
) -> anyhow::Result<String> {
    let busy = Busy::new(format!(
        "reading {}",
        plural(choice.traces.len() as u64, "trace")
    ));
    let prepared = PreparedFolder::begin(dir)?;
    let mut late = TraceTree::default();
    let pass = |why, line: String| late.pass_over(why, || line);
    let filled = fleet::prepare(choice, prepared, || busy.0.tick(), &interrupted, pass);
    drop(busy);
    passed_over(&late, choice.traces.len());
    for (why, n) in late.passed {
        *counts.entry(why).or_default() += n;
    }
    let filled = filled?;
    if choice.traces.is_empty() {
        return Err(usage("no trace is whole"));
    }
    Ok(filled)
}

fn prepare(choice: &mut Choice, out: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir(out)
        .map_err(|err| usage(format!("can't make the folder {}: {err}", out.display())))?;
    let dir = fill(choice, out, &mut BTreeMap::new())?;
    say!("quell: {dir} has the tables, views-duckdb.sql and views-spark.sql, and the questions");
    Ok(ExitCode::SUCCESS)
}

/// An engine that fails may say nothing of which trace it failed at: names one that can't be read here either.
fn in_the_way(err: anyhow::Error, choice: &Choice) -> anyhow::Error {
    if !err.is::<EngineFailed>() {
        return err;
    }
    say!("quell: {err:#}; looking for a trace that is damaged");
    let _busy = Busy::new("reading all events".to_owned());
    let damage = |dir: &Path| {
        let read = Trace::open(dir).and_then(|trace| trace.for_each(|_| {}));
        // gone meanwhile, as where an agent keeps its traces within their limit
        read.err()
            .filter(|err| !matches!(err.downcast_ref(), Some(Error::Missing(_))))
    };
    let mut all = choice.traces.iter().take_while(|_| !interrupted());
    match all.find_map(|(found, _)| damage(&found.dir)) {
        Some(damage) => anyhow::anyhow!("{damage:#}: take that trace away and ask again"),
        None => anyhow::anyhow!("none is damaged, as far as quell can tell"),
    }
}

fn ask(
    args: &FleetArgs,
    questions: &[Question],
    choice: &mut Choice,
    mut passed: BTreeMap<&'static str, u64>,
) -> anyhow::Result<ExitCode> {
    let is_text = !args.json && !args.csv;
    let said = args.top.map(|n| n as usize);
    let top = said.unwrap_or(if args.words.len() == 1 { FEW } else { ROWS });
    let temp = TempDir::new()?;
    let folder = temp.path().join(FLEET_FOLDER);
    std::fs::create_dir(&folder)
        .with_context(|| format!("making the folder {}", folder.display()))?;
    let dir = fill(choice, &folder, &mut passed)?;
    let busy = Busy::new(format!(
        "asking {}",
        quell_fleet::Engine::from(args.engine).name()
    ));
    let job = EngineJob {
        engine: args.engine.into(),
        python: &args.python,
        dir: &dir,
        questions,
        // one more than is shown tells that there are more
        limit: if is_text { Some(top + 1) } else { said },
        stopped: &interrupted,
    };
    let mut answers = Vec::new();
    let ran = job.run(|answer| {
        answers.push(answer);
        Ok(())
    });
    drop(busy);
    ran.map_err(|err| in_the_way(err, choice))?;
    let asked = Asked {
        engine: job.engine,
        choice,
        passed: &passed,
        answers: &answers,
    };
    let text = if args.json {
        json::json(&asked).to_string() + "\n"
    } else if args.csv {
        json::csv(answers.first().context("there is no answer")?)?
    } else {
        text::text(&asked, top)
    };
    let mut out = show::output(None)?;
    unless_gone(emit(&mut *out, &text))?;
    Ok(ExitCode::SUCCESS)
}
