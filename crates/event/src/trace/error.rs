//! The errors of a trace: one line each, which names the file, the cause, and the remedy.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::schema::TRACE_SCHEMA;
use crate::Text;

/// A fault of a trace, or a reason why it could not be written.
#[derive(Debug)]
pub enum TraceError {
    /// There is no such directory.
    Missing(PathBuf),
    /// It exists and is no trace; the text says why.
    NotATrace(PathBuf, String),
    /// A trace of a schema that this version does not know; the text is that schema.
    Version(PathBuf, Text),
    /// A file is cut, foreign or garbled; the text says how.
    Damaged(PathBuf, String),
    /// A file can't be read.
    Unreadable(PathBuf, io::Error),
    /// A trace is there already and was not to be replaced.
    Exists(PathBuf),
    /// Another recording writes there.
    Busy(PathBuf),
    /// Something is there that is no trace, and so is never replaced.
    Occupied(PathBuf),
    /// The directory can't be made.
    Create(PathBuf, io::Error),
    /// The disk or the quota is full; the path is the trace's.
    Full(PathBuf),
    /// Writing failed in any other way.
    Write(PathBuf, io::Error),
}

/// Opens a file of a trace. A pipe in its place would keep the reader for ever, and a device has no end.
pub(super) fn open_regular_file(path: &Path) -> io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no regular file",
        ));
    }
    File::open(path)
}

impl TraceError {
    /// Says whether quell was asked for something impossible, rather than stopped half-way: the exit status is 2 then.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Full(_) | Self::Write(..))
    }

    pub(super) fn damaged(path: &Path, why: impl fmt::Display) -> Self {
        Self::Damaged(path.to_owned(), one_line(&why.to_string()))
    }

    pub(super) fn unreadable(path: &Path, err: io::Error) -> Self {
        if err.kind() == io::ErrorKind::NotFound {
            return Self::Missing(path.to_owned());
        }
        Self::Unreadable(path.to_owned(), err)
    }

    /// Returns the error of writing to a file of the trace at `dir`.
    pub(super) fn from_write(dir: &Path, path: &Path, err: io::Error) -> Self {
        match err.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full(dir.to_owned()),
            _ => Self::Write(path.to_owned(), err),
        }
    }
}

/// Texts of libraries may be long and have line breaks, and a file may have put them there.
fn one_line(text: &str) -> String {
    Text::from(text.replace('\n', " ")).cut_to(200).into()
}

/// Returns the system's text of an error, without the number that Rust adds.
fn without_os_number(err: &io::Error) -> String {
    let text = err.to_string();
    match text.split_once(" (os error ") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(p) => write!(f, "{}: no such trace", p.display()),
            Self::NotATrace(p, why) => write!(f, "{}: not a trace: {why}", p.display()),
            Self::Version(p, found) => write!(
                f,
                "{}: a trace of schema '{found}', and this quell reads {}: take the quell that recorded it",
                p.display(),
                TRACE_SCHEMA
            ),
            Self::Damaged(p, why) => write!(f, "{}: damaged: {why}", p.display()),
            Self::Unreadable(p, err) => write!(
                f,
                "{}: can't be read: {}",
                p.display(),
                without_os_number(err)
            ),
            Self::Exists(p) => write!(
                f,
                "{}: a trace is there already: take another name, or --force to replace it",
                p.display()
            ),
            Self::Busy(p) => write!(
                f,
                "{}: another recording writes there: take another name, or end it first",
                p.display()
            ),
            Self::Occupied(p) => write!(
                f,
                "{}: exists and is no trace, so it is left alone: take another name",
                p.display()
            ),
            Self::Create(p, err) => {
                write!(
                    f,
                    "{}: can't be created: {}: take a name in a directory that can be written to",
                    p.display(),
                    without_os_number(err)
                )
            }
            Self::Full(p) => write!(
                f,
                "{}: no space left there: free some, or record to another disk; what was written so far can be read",
                p.display()
            ),
            Self::Write(p, err) => {
                write!(
                    f,
                    "{}: can't be written: {}",
                    p.display(),
                    without_os_number(err)
                )
            }
        }
    }
}

impl std::error::Error for TraceError {}
