//! Runs without a result: the program failed, or somebody interrupted.

use std::fmt;
use std::time::Duration;

use quell_event::text::is_plain;

use crate::launch::{Status, signals};

/// Only the end of a long output is shown, within both of these bounds.
const MAX_SHOWN_LINES: usize = 12;
const MAX_SHOWN_BYTES: usize = 4096;

/// A run that failed: one line, and the end of the output.
#[derive(Clone, Debug)]
pub(crate) struct FailedRun {
    pub(crate) line: String,
    pub(crate) output: Vec<u8>,
    /// How the program failed. None where something around it did, such as a port that stays taken: no remedy can be
    /// blamed for that.
    pub(crate) end: Option<BadEnd>,
}

/// The part of a run that failed, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadEnd {
    /// "the program", "the server" or "the load".
    pub(crate) who: &'static str,
    pub(crate) how: FailureKind,
}

/// The ways in which a run may fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// It ended by a signal, or with a status that is not 0.
    Ended(Status),
    /// It was stopped after this time.
    NotEnded(Duration),
    /// The server accepted no connection within this time.
    NotReady(Duration),
    /// Its output lacks a number for the user's metric of this name.
    NoMetric(String),
}

impl BadEnd {
    /// The reason in a word or two, for `why` in JSON: `SIGSEGV`.
    pub(crate) fn short_reason(&self) -> String {
        match &self.how {
            FailureKind::Ended(Status::Signal(signal)) => signals::signal_name(*signal),
            FailureKind::Ended(Status::Code(code)) => format!("status {code}"),
            FailureKind::NotEnded(_) => "did not end".to_owned(),
            FailureKind::NotReady(_) => "did not get ready".to_owned(),
            FailureKind::NoMetric(name) => format!("no metric {name}"),
        }
    }
}

/// A clause: `the program ended by SIGSEGV`.
impl fmt::Display for BadEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, how } = self;
        match how {
            FailureKind::Ended(Status::Signal(signal)) => {
                write!(f, "{who} ended by {}", signals::signal_name(*signal))
            }
            FailureKind::Ended(Status::Code(code)) => write!(f, "{who} ended with status {code}"),
            FailureKind::NotEnded(limit) => {
                write!(f, "{who} did not end within {} s", short_seconds(*limit))
            }
            FailureKind::NotReady(limit) => {
                let seconds = short_seconds(*limit);
                write!(f, "{who} did not accept connections within {seconds} s")
            }
            FailureKind::NoMetric(name) => write!(f, "{who} did not print the metric {name}"),
        }
    }
}

/// Seconds for people, without the unit and never less than `0.01`: `0.02`, `0.3`, `61`.
pub(crate) fn short_seconds(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 0.1 {
        return format!("{:.2}", seconds.max(0.01));
    }
    let text = if seconds < 10.0 {
        format!("{seconds:.1}")
    } else {
        format!("{seconds:.0}")
    };
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

impl FailedRun {
    /// The error of something around the program.
    pub(crate) fn outside_program(line: impl Into<String>, output: Vec<u8>) -> anyhow::Error {
        Self {
            line: line.into(),
            output,
            end: None,
        }
        .into()
    }

    /// The error of the program itself, which a remedy may have broken.
    pub(crate) fn of_program(
        line: impl Into<String>,
        output: Vec<u8>,
        who: &'static str,
        how: FailureKind,
    ) -> anyhow::Error {
        Self {
            line: line.into(),
            output,
            end: Some(BadEnd { who, how }),
        }
        .into()
    }

    /// The last lines of the output, indented, without any character that a terminal would obey.
    pub(crate) fn output_tail(&self) -> String {
        let from = self.output.len().saturating_sub(MAX_SHOWN_BYTES);
        let text = String::from_utf8_lossy(&self.output[from..]);
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[lines.len().saturating_sub(MAX_SHOWN_LINES)..];
        let clean = |line: &&str| {
            let visible = line.chars().filter(|c| is_plain(*c) || *c == '\t');
            format!("  | {}\n", visible.collect::<String>())
        };
        shown.iter().map(clean).collect()
    }
}

impl fmt::Display for FailedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)?;
        let what = if self.output.is_empty() {
            "it wrote nothing"
        } else {
            "the end of its output:"
        };
        write!(f, "; {what}")
    }
}

impl std::error::Error for FailedRun {}

/// The error that this signal interrupted quell.
#[derive(Debug)]
pub(crate) struct Interrupted(pub(crate) i32);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted by {}", signals::signal_name(self.0))
    }
}

impl std::error::Error for Interrupted {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the tail is the end, and can't move a terminal's cursor.
    #[test]
    fn output_tail() {
        let lines: String = (0..50).map(|i| format!("line {i}\x1b[2J\n")).collect();
        let failed = FailedRun {
            line: "it failed".into(),
            output: lines.into_bytes(),
            end: None,
        };
        let tail = failed.output_tail();
        assert_eq!(tail.lines().count(), MAX_SHOWN_LINES);
        assert!(tail.ends_with("  | line 49[2J\n") && !tail.contains('\x1b'));
        let silent = FailedRun {
            line: "it failed".into(),
            output: vec![],
            end: None,
        };
        assert_eq!(
            (silent.output_tail().as_str(), silent.to_string().as_str()),
            ("", "it failed; it wrote nothing")
        );
    }

    /// Check that a time has the digits that matter, and at least one.
    #[test]
    fn seconds() {
        for (ms, words) in [
            (0, "0.01"),
            (23, "0.02"),
            (310, "0.3"),
            (1000, "1"),
            (61_234, "61"),
        ] {
            assert_eq!(short_seconds(Duration::from_millis(ms)), words);
        }
    }

    /// Check the words for each way to fail, as a clause and as a key.
    #[test]
    fn words() {
        let said = |how: FailureKind| {
            let end = BadEnd {
                who: "the program",
                how,
            };
            format!("{end}: {}", end.short_reason())
        };
        for (how, words) in [
            (
                FailureKind::Ended(Status::Signal(libc::SIGSEGV)),
                "the program ended by SIGSEGV: SIGSEGV",
            ),
            (
                FailureKind::Ended(Status::Code(3)),
                "the program ended with status 3: status 3",
            ),
            (
                FailureKind::NotEnded(Duration::from_millis(60_080)),
                "the program did not end within 60 s: did not end",
            ),
            (
                FailureKind::NotReady(Duration::from_millis(300)),
                "the program did not accept connections within 0.3 s: did not get ready",
            ),
            (
                FailureKind::NoMetric("rps".into()),
                "the program did not print the metric rps: no metric rps",
            ),
        ] {
            assert_eq!(said(how), words);
        }
    }
}
