//! Text for people: numbers, tables, and the summary that stat and report share.

pub(crate) mod account;
pub(crate) mod advice;
pub(crate) mod calls;
pub(crate) mod command;
pub(crate) mod lines;
mod replace;
pub(crate) mod shim;
pub(crate) mod style;
pub(crate) mod summary;
mod symbol;
pub(crate) mod table;
pub(crate) mod units;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use quell_event::text;
use serde::Serialize;

pub(crate) use replace::Replace;

use crate::usage::usage;

/// The file that an option names, if it is one: `-` is stdout.
pub(crate) fn file_named(named: Option<&Path>) -> Option<&Path> {
    named.filter(|path| path.as_os_str() != "-")
}

/// Opens the output for data: stdout, or the file that `-o` names. The file is emptied at once; [`Replace`] keeps an older one
/// until the new one is whole.
///
/// # Errors
///
/// If the file can't be created.
pub(crate) fn output(path: Option<&Path>) -> anyhow::Result<Box<dyn Write>> {
    Ok(match file_named(path) {
        None => Box::new(anstream::stdout()),
        Some(path) => Box::new(anstream::StripStream::new(create_output(path)?)),
    })
}

/// The folder that a file lies in, by its name.
pub(crate) fn folder_of(file: &Path) -> &Path {
    let folder = file.parent().filter(|p| !p.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn create_output(path: &Path) -> anyhow::Result<File> {
    File::create(path).map_err(|err| usage(format!("can't write to {}: {err}", path.display())))
}

/// Passes an error on, but for a reader that has gone, which is none.
///
/// # Errors
///
/// Any other one.
pub(crate) fn unless_gone(written: anyhow::Result<()>) -> anyhow::Result<()> {
    let is_gone = |err: &anyhow::Error| {
        err.chain().any(|cause| {
            let broken = |err: &io::Error| err.kind() == io::ErrorKind::BrokenPipe;
            // serde_json hides an error of the writer, but for its kind.
            cause.downcast_ref::<io::Error>().is_some_and(broken)
                || cause
                    .downcast_ref::<serde_json::Error>()
                    .and_then(serde_json::Error::io_error_kind)
                    == Some(io::ErrorKind::BrokenPipe)
        })
    };
    match written {
        Err(err) if is_gone(&err) => Ok(()),
        written => written,
    }
}

/// The target of a path: its own if it is no link, else the one that the link names, which need not exist.
pub(crate) fn led_to(path: &Path) -> PathBuf {
    match std::fs::read_link(path) {
        Ok(to) => folder_of(path).join(to),
        Err(_) => path.to_owned(),
    }
}

/// Writes the whole text. A reader that has gone (`| head`) is no error.
///
/// # Errors
///
/// Any other error of the writer.
pub(crate) fn emit(out: &mut dyn Write, text: &str) -> anyhow::Result<()> {
    emit_more(out, text).map(|_| ())
}

/// Writes the result of a verb to stdout: as JSON in a line, or as text.
///
/// # Errors
///
/// Those of [`emit`].
pub(crate) fn emit_result<T: Serialize>(
    json: bool,
    object: impl FnOnce() -> T,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    let out = if json {
        serde_json::to_string(&object())? + "\n"
    } else {
        text()
    };
    emit(&mut anstream::stdout(), &out)
}

/// Writes a part of the text; false if the reader has gone, so that no more need follow.
///
/// # Errors
///
/// Any other error of the writer.
pub(crate) fn emit_more(out: &mut dyn Write, text: &str) -> anyhow::Result<bool> {
    let text = safe_text(text);
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(err) if err.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        other => other.map(|()| true).context("can't write the result"),
    }
}

/// The last guard against control characters that a terminal would obey. Text of other programs is cleaned where it comes
/// in; if that was forgotten somewhere, JSON gets escapes here and text gets question marks. Our own colours stay.
fn safe_text(text: &str) -> Cow<'_, str> {
    if text.starts_with('{') {
        return text::escape_json(text);
    }
    table::clean_lines(text)
}
