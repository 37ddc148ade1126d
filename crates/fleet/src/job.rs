//! Has Python run an engine: a small program goes to it with the job, and answers come back line by line.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use std::{fmt, io, thread};

use anyhow::Context as _;
use quell_event::text::{clean_text, is_plain};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Engine, Question, view_statements};

const RUNNER_SCRIPT: &str = include_str!("runner.py");
/// Of the engine's messages no more is kept when it fails.
const MAX_SAID_BYTES: u64 = 1 << 20;
/// How often is looked whether all is to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The questions for an engine, and how to run it.
pub struct EngineJob<'a> {
    /// Which.
    pub engine: Engine,
    /// The Python that has it.
    pub python: &'a OsStr,
    /// The prepared folder.
    pub dir: &'a str,
    /// The questions.
    pub questions: &'a [Question],
    /// Rows of each answer at most.
    pub limit: Option<usize>,
    /// Whether to end it early.
    pub stopped: &'a dyn Fn() -> bool,
}

/// An answer: rows of as many values as there are columns.
#[derive(Debug, Deserialize)]
pub struct QuestionAnswer {
    /// The question's name.
    pub question: String,
    /// How long the engine took, ns.
    pub took_ns: u64,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, in order.
    pub rows: Vec<Vec<Value>>,
}

/// Why an engine gave no answers.
#[derive(Debug)]
pub enum EngineError {
    /// Python has no such module, or there is no Python.
    Missing(String),
    /// The engine was there, and failed.
    Failed(String),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Missing(text) | Self::Failed(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for EngineError {}

#[derive(Deserialize)]
#[serde(untagged)]
enum RunnerLine {
    EngineMissing { missing: String },
    QuestionAnswer(QuestionAnswer),
}

/// Ended when it is dropped: Ctrl-C may have been for quell alone.
struct RunningEngine(Child);

impl Drop for RunningEngine {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

impl EngineJob<'_> {
    /// Runs it, and hands over each answer when it is there. An engine that still runs when this returns is killed.
    ///
    /// # Errors
    ///
    /// [`EngineError`], with the engine's message where it failed; the error of `each`; or that [`Self::stopped`] ended it.
    pub fn run(
        &self,
        mut each: impl FnMut(QuestionAnswer) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let python = self.python.display();
        let started = Command::new(self.python)
            .arg("-c")
            .arg(RUNNER_SCRIPT)
            .env("PYTHONIOENCODING", "utf-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = match started {
            Ok(child) => RunningEngine(child),
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                let text =
                    format!("there is no {python}: install Python 3, or name one with --python");
                return Err(EngineError::Missing(text).into());
            }
            Err(err) => return Err(err).with_context(|| format!("can't start {python}")),
        };
        let stderr = child.0.stderr.take();
        // It is read by a thread of its own, because a full pipe would block the engine.
        let said = thread::spawn(move || {
            let mut said = Vec::new();
            if let Some(mut stderr) = stderr {
                let _ = (&mut stderr).take(MAX_SAID_BYTES).read_to_end(&mut said);
                let _ = io::copy(&mut stderr, &mut io::sink());
            }
            String::from_utf8_lossy(&said).into_owned()
        });
        let stdin = child.0.stdin.take().context("Python has no stdin")?;
        let told = serde_json::to_vec(&self.request())?;
        // An engine that fails at once does not read it, and its own message says more than the pipe's error.
        let _ = { stdin }.write_all(&told);
        let stdout = child.0.stdout.take().context("Python has no stdout")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut answers = 0;
        loop {
            let line = match lines.recv_timeout(STOP_CHECK_INTERVAL) {
                Ok(line) => line.context("can't read the answer")?,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if (self.stopped)() => anyhow::bail!("interrupted"),
                Err(RecvTimeoutError::Timeout) => continue,
            };
            match serde_json::from_str(&line) {
                Ok(RunnerLine::QuestionAnswer(mut answer)) => {
                    answer.rows.iter_mut().flatten().for_each(clean_value);
                    answers += 1;
                    each(answer)?;
                }
                Ok(RunnerLine::EngineMissing { missing }) => {
                    return Err(self.missing_module(&missing).into());
                }
                // An engine may print lines of its own.
                Err(_) => {}
            }
        }
        let status = child
            .0
            .wait()
            .with_context(|| format!("can't wait for {python}"))?;
        let said = said.join().unwrap_or_default();
        if !status.success() || answers != self.questions.len() {
            let engine = self.engine.name();
            let what = if said.trim().is_empty() {
                format!("it says nothing, and ended with {status}")
            } else {
                error_line(&said)
            };
            return Err(EngineError::Failed(format!("{engine} failed: {what}")).into());
        }
        Ok(())
    }

    /// The job as `runner.py` reads it.
    fn request(&self) -> Value {
        json!({
            "engine": self.engine.name(),
            "dir": self.dir,
            "memory": format!("{}m", memory_mb()),
            "views": view_statements(self.engine, self.dir),
            "questions": self.questions,
            "limit": self.limit,
        })
    }

    /// How to install a module, whose package has the same name.
    fn missing_module(&self, module: &str) -> EngineError {
        let python = self.python.display();
        let java = match self.engine {
            Engine::DuckDb => "",
            Engine::Spark => " (it needs Java 17 too)",
        };
        EngineError::Missing(format!(
            "{python} has no module {module}{java}: '{python} -m pip install {module}'; or in an environment of its own: \
             'python3 -m venv fleet && fleet/bin/pip install {module}', and --python fleet/bin/python"
        ))
    }
}

/// The memory that Spark may take, MB: half of the machine's, as it takes no more than it needs, between 1 GB, its own default,
/// and 32 GB.
fn memory_mb() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| {
        let kb = line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?;
        kb.trim().parse::<u64>().ok()
    });
    (total.unwrap_or(0) / 1024 / 2).clamp(1024, 32 << 10)
}

/// The columns of a trace come from others, and the engine reads them without quell. The frames of a stack are lines.
fn clean_value(value: &mut Value) {
    if let Value::String(text) = value {
        let lines: Vec<_> = text.split('\n').map(clean_text).collect();
        *text = lines.join("\n");
    }
}

/// The line that names the failure: of Python's traceback the last one, of Java's the first exception.
fn error_line(said: &str) -> String {
    let lines = || said.lines().map(str::trim).filter(|l| !l.is_empty());
    let java = lines().find(|l| l.contains("JAVA_HOME") || l.contains("JAVA_GATEWAY_EXITED"));
    let error = |l: &&str| {
        let name = l.split([':', ' ']).next().unwrap_or_default();
        l.contains(": ") && (name.ends_with("Error") || name.ends_with("Exception"))
    };
    let line = java
        .or_else(|| lines().rfind(error))
        .or_else(|| lines().next_back());
    let line = line.unwrap_or("it says nothing");
    line.chars().filter(|c| is_plain(*c)).take(400).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that an engine's answer holds nothing that a terminal acts on, and keeps its lines.
    #[test]
    fn answers_are_cleaned() {
        let mut values = [json!("a\u{1b}[31m\nb\u{202e}"), 7.into()];
        values.iter_mut().for_each(clean_value);
        assert_eq!(values, [json!("a?[31m\nb?"), 7.into()]);
    }

    fn ask(python: &str) -> anyhow::Result<Vec<QuestionAnswer>> {
        let mut answers = Vec::new();
        let job = EngineJob {
            engine: Engine::DuckDb,
            python: OsStr::new(python),
            dir: "/nowhere",
            questions: &Question::ALL[..1],
            limit: None,
            stopped: &|| false,
        };
        job.run(|answer| {
            answers.push(answer);
            Ok(())
        })?;
        Ok(answers)
    }

    fn python(dir: &std::path::Path, script: &str) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let path = dir.join("python");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    /// Check that answers come as they were printed, with integers as integers, and other lines are passed over.
    #[test]
    fn answers() {
        let dir = tempfile::tempdir().unwrap();
        let line = r#"{"question": "causes", "took_ns": 5, "columns": ["cause", "n"], "rows": [["munmap", 9007199254740993]]}"#;
        let said = ask(&python(
            dir.path(),
            &format!("cat >/dev/null; echo noise; echo '{line}'"),
        ))
        .unwrap();
        assert_eq!(said[0].rows[0][1].as_u64(), Some(9_007_199_254_740_993));
        assert_eq!((said[0].columns.len(), said[0].took_ns), (2, 5));
    }

    /// Check that a missing module is reported with the way to install it, and a failure with its line.
    #[test]
    fn failures() {
        let dir = tempfile::tempdir().unwrap();
        let is_missing =
            |err: &anyhow::Error| matches!(err.downcast_ref(), Some(EngineError::Missing(_)));
        let none = ask("/nowhere/python3").unwrap_err();
        assert!(
            is_missing(&none) && none.to_string().contains("install Python 3"),
            "{none}"
        );
        let err = ask(&python(
            dir.path(),
            "cat >/dev/null; echo '{\"missing\": \"duckdb\"}'",
        ))
        .unwrap_err();
        assert!(
            is_missing(&err) && err.to_string().contains("-m pip install duckdb"),
            "{err}"
        );
        let err = ask(&python(
            dir.path(),
            "echo 'Traceback' >&2; echo 'IOError: no file' >&2; echo '  hint' >&2; exit 1",
        ))
        .unwrap_err();
        assert!(!is_missing(&err));
        assert_eq!(err.to_string(), "duckdb failed: IOError: no file");
        // It ended in order, but an answer is missing.
        assert!(ask(&python(dir.path(), "cat >/dev/null")).is_err());
    }
}
