//! A plan as text, and its environment as lines for a shell. Shared by plan, run and prove.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use quell_event::Text;
use quell_event::text::clean;
use quell_remedy::{Plan, Planned, emit, quote};

use super::text::change;
use crate::cmd::usage;
use crate::launch::Setup;
use crate::show::Replace;
use crate::show::style::{BOLD, DIM, heading};
use crate::show::units::{percent, time};

/// How wide running text gets.
const WIDTH: usize = 98;

/// A variable of quell's own environment, which the program inherits.
pub(crate) fn own_env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What is different for a command that is started with a plan and the environment that follows from it.
pub(crate) fn setup(environment: &BTreeMap<String, String>, plan: &Plan) -> Setup {
    let pairs = environment.iter();
    Setup {
        env: pairs
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        starts: plan.starts(),
    }
}

/// Lines for a shell.
pub(crate) fn exports(environment: &BTreeMap<String, String>) -> String {
    let line =
        |(name, value): (&String, &String)| format!("export {name}={}\n", quote::shell(value));
    environment.iter().map(line).collect()
}

/// Says of every variable that the user has set too what becomes of it.
pub(crate) fn merged(
    environment: &BTreeMap<String, String>,
    env: &impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let note = |(name, value): (&String, &String)| {
        let theirs = env(name).filter(|t| !t.is_empty() && t != value)?;
        Some(format!(
            "{name} is set already, to '{theirs}': the plan makes it '{value}'"
        ))
    };
    environment.iter().filter_map(note).collect()
}

/// More of a command than so many bytes is not shown, and more characters of it are in no title.
const LONGEST: usize = 4096;
pub(crate) const LONGEST_TITLE: usize = 200;

/// A command as a shell reads it back. Of one that is too long to be read, the words that are left out are shown by `…`.
pub(crate) fn shell_words<S: AsRef<str>>(argv: &[S]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./-+=:,@%^".contains(c);
    let word = |w: &S| match w.as_ref() {
        w if !w.is_empty() && w.chars().all(plain) => w.to_owned(),
        w => quote::shell(w),
    };
    let mut out = String::new();
    for word in argv.iter().map(word) {
        if !out.is_empty() {
            out.push(' ');
        }
        if out.len() + word.len() > LONGEST {
            return out + "…";
        }
        out.push_str(&word);
    }
    out
}

/// A command in a title.
pub(crate) fn title(command: &str) -> Text {
    Text::from(command).cut(LONGEST_TITLE)
}

/// Bytes of a plan. One that was made has some hundred.
const MOST: u64 = 1 << 20;

/// Reads a plan of the user's. A file that is no plan is bad input.
pub(crate) fn read(path: &Path) -> anyhow::Result<Plan> {
    let shown = path.display();
    let mut text = Vec::new();
    let got = open(path).and_then(|file| file.take(MOST + 1).read_to_end(&mut text));
    got.map_err(|err| usage(format!("reading the plan {shown}: {err}")))?;
    if text.len() as u64 > MOST {
        return Err(usage(format!("{shown}: longer than any plan")));
    }
    let text = String::from_utf8(text)
        .map_err(|_| usage(format!("reading the plan {shown}: it is no text (UTF-8)")))?;
    Plan::from_toml(&text).map_err(|err| usage(format!("{shown}: {err:#}")))
}

/// Opens a regular file. A pipe would keep quell for ever where nobody writes to it, and a device has no end.
fn open(path: &Path) -> io::Result<File> {
    let regular = |is_file: bool| match is_file {
        true => Ok(()),
        false => Err(io::Error::other(
            "it is no regular file: write the plan to one",
        )),
    };
    // Before it is opened, which alone may have an effect on a device.
    regular(fs::metadata(path)?.is_file())?;
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    regular(file.metadata()?.is_file())?;
    Ok(file)
}

/// Writes a plan where the user wants it: `-` is stdout.
pub(crate) fn save(plan: &Plan, path: &Path) -> anyhow::Result<()> {
    write(plan, Replace::new(Some(path))?, path)
}

/// The same where it is known already that it can be written.
pub(crate) fn write(plan: &Plan, place: Replace, path: &Path) -> anyhow::Result<()> {
    place
        .write(|out| Ok(out.write_all(plan.to_toml().as_bytes())?))
        .with_context(|| format!("writing the plan to {}", path.display()))
}

/// Breaks text between words into lines, each indented. Names of others may be in it.
pub(crate) fn wrap(text: &str, indent: usize) -> String {
    let (mut out, mut line) = (String::new(), String::new());
    let margin = " ".repeat(indent);
    for word in text.split_whitespace().map(clean) {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{margin}{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    if !line.is_empty() {
        let _ = writeln!(out, "{margin}{line}");
    }
    out
}

/// The remedies, each with its evidence, what it is predicted to do, and its cost.
pub(crate) fn remedies(plan: &Plan) -> String {
    let mut out = String::new();
    for p in &plan.remedies {
        // Writing to a String does not fail.
        let _ = writeln!(out, "  {BOLD}{}{BOLD:#}", p.remedy);
        for (name, value) in &p.sets {
            // Never broken: it is there to be copied.
            let _ = writeln!(out, "    sets {name}={}", clean(value));
        }
        for (key, value) in &p.starts {
            let _ = writeln!(out, "    starts it with {key}={}", clean(value));
        }
        if !p.evidence.is_empty() {
            out.push_str(&wrap(&format!("because {}", p.evidence), 4));
        }
        match at_most(p) {
            Some(most) => out.push_str(&wrap(&format!("could win {most}"), 4)),
            // Where nobody knows the time there is a count.
            None if p.predicted_stop > 0.0 => {
                let stops = percent(p.predicted_stop);
                let _ = writeln!(out, "    predicted to stop {stops} of all shootdowns");
            }
            None => {}
        }
        if !p.cost.is_empty() {
            out.push_str(&wrap(&format!("cost: {}", p.cost), 4));
        }
    }
    out
}

/// The most that a change could win, and what is predicted; none where nobody knows where the time went.
pub(crate) fn at_most(p: &Planned) -> Option<String> {
    let ceiling = p.ceiling?;
    let share = |ns: u64| ceiling.cpu * ns as f64 / ceiling.cpu_ns.max(1) as f64;
    let mut out = format!("at most {} of CPU time", percent(ceiling.cpu));
    if ceiling.cpu_ns > 0 {
        let [low, high] = ceiling.ci95.map(|ns| percent(share(ns).min(1.0)));
        let _ = write!(out, " ({low} to {high})");
    }
    if ceiling.blocked_ns > 0 {
        let _ = write!(out, " and {} asleep", time(ceiling.blocked_ns));
    }
    match p.predicted {
        Some([low, high]) => {
            let (low, high) = (change(1.0 + low), change(1.0 + high));
            let _ = write!(out, "; predicted CPU time {low} to {high}");
        }
        None => out.push_str("; what that wins is not predicted"),
    }
    Some(out)
}

/// That a change could help, in a line.
pub(crate) fn could_help(p: &Planned, label: &str) -> String {
    let what = at_most(p).unwrap_or_else(|| "what it could win is not known".to_owned());
    format!("could help: {label}: {what}")
}

/// All that could help, each with its settings and the most that it could win; nothing if there is none.
pub(crate) fn candidates(all: &[Planned], command: &str) -> String {
    let mut out = String::new();
    if all.is_empty() {
        return out;
    }
    heading(&mut out, "What could help");
    for p in all {
        // Writing to a String does not fail.
        let _ = writeln!(out, "  {BOLD}{}{BOLD:#}", p.remedy);
        for (name, value) in p.sets.iter().chain(&p.starts) {
            let _ = writeln!(out, "    {name}={}", clean(value));
        }
        if let Some(most) = at_most(p) {
            out.push_str(&wrap(&most, 4));
            out.push_str(&wrap(&p.touches, 4));
        }
    }
    let _ = writeln!(
        out,
        "  {DIM}each by itself; which of it wins only runs can tell:{DIM:#} quell prove -- {command}"
    );
    out
}

/// A list of remarks under a heading; nothing if there are none.
pub(crate) fn list(title: &str, notes: &[String]) -> String {
    let mut out = String::new();
    if notes.is_empty() {
        return out;
    }
    heading(&mut out, title);
    for note in notes {
        let text = wrap(note, 4);
        out.push_str("  · ");
        out.push_str(text.trim_start());
    }
    out
}

/// How to keep the plan.
pub(crate) fn keep(
    plan: &Plan,
    environment: &BTreeMap<String, String>,
    command: &str,
    saved: Option<&Path>,
) -> String {
    let mut out = format!("\n{BOLD}Keep it{BOLD:#}\n");
    for (name, value) in environment {
        let _ = writeln!(out, "  {}", emit::export(name, value));
    }
    for start in plan.starts() {
        let _ = writeln!(
            out,
            "  {DIM}no variable holds{DIM:#} {start}{DIM}, which quell run does{DIM:#}"
        );
    }
    let _ = match saved {
        Some(path) => writeln!(
            out,
            "  {DIM}or:{DIM:#} quell run --plan {} -- {command}",
            path.display()
        ),
        None => writeln!(
            out,
            "  {DIM}or write the plan to a file with --save FILE, and:{DIM:#} quell run --plan FILE -- {command}"
        ),
    };
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_remedy::Planned;

    /// Check that a shell gets back exactly what was meant, quotes and all.
    #[test]
    fn shell_quotes() {
        let value = "a'b \"$c\" `d`\\";
        let environment = BTreeMap::from([("QUELL_T".to_owned(), value.to_owned())]);
        let argv = ["sh", "-c", "echo 'x'", "a.b=c", ""];
        assert_eq!(shell_words(&argv), r"sh -c 'echo '\''x'\''' a.b=c ''");
        let script = format!("{}printf %s \"$QUELL_T\"", exports(&environment));
        let out = std::process::Command::new("sh")
            .arg("-c")
            .arg(script)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(out.stdout).unwrap(), value);
    }

    /// Check that a command which nobody reads to its end is cut between words, and in a title within bounds.
    #[test]
    fn long_commands() {
        let long = "x".repeat(1 << 20);
        assert_eq!(shell_words(&["a", &long, "b"]), "a …");
        let words = shell_words(&vec!["word"; 10_000]);
        assert!(words.len() <= LONGEST + 4 && words.ends_with("word …"));
        assert_eq!(title(&words).chars().count(), LONGEST_TITLE);
    }

    /// Check that lines end between words and no word is lost, however long.
    #[test]
    fn wraps() {
        let long = "x".repeat(200);
        let text = format!("{} {long} end", "word ".repeat(40));
        let wrapped = wrap(&text, 4);
        assert!(
            wrapped
                .lines()
                .all(|l| l.chars().count() <= WIDTH || l.contains(&long))
        );
        let words = |t: &str| t.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&wrapped), words(&text));
        assert_eq!(wrap("", 4), "");
    }

    /// Check that a variable that both set is said, and one that stays as it is isn't.
    #[test]
    fn merging_is_said() {
        let environment =
            BTreeMap::from([("A".into(), "x:1,y:2".into()), ("B".into(), "1".into())]);
        let env = |name: &str| (name == "A").then(|| "x:1".to_owned());
        assert_eq!(
            merged(&environment, &env),
            ["A is set already, to 'x:1': the plan makes it 'x:1,y:2'"]
        );
    }

    /// Check the text of a plan as people see it.
    #[test]
    fn plan_text() {
        let plan = Plan {
            remedies: vec![Planned {
                remedy: "jemalloc.decay".into(),
                sets: BTreeMap::from([("_RJEM_MALLOC_CONF".into(), "dirty_decay_ms:-1".into())]),
                starts: BTreeMap::from([("thp".into(), "never".into())]),
                evidence: "1600 of 1700 shootdowns (94 %) are from jemalloc".into(),
                predicted_stop: 0.894,
                cost: "freed memory stays resident".into(),
                ..Planned::default()
            }],
            notes: vec!["glibc: left as it is".into()],
        };
        let text = remedies(&plan) + &list("Notes", &plan.notes);
        insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string(), @r"
          jemalloc.decay
            sets _RJEM_MALLOC_CONF=dirty_decay_ms:-1
            starts it with thp=never
            because 1600 of 1700 shootdowns (94 %) are from jemalloc
            predicted to stop 89 % of all shootdowns
            cost: freed memory stays resident

        Notes
          · glibc: left as it is
        ");
    }
}
