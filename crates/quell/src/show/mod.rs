//! How things are printed: numbers, tables, and the summary that stat and report share.

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

pub(crate) use replace::Replace;

use crate::usage::usage;

/// The file that an option names, if it is one: `-` is stdout.
pub(crate) fn file(named: Option<&Path>) -> Option<&Path> {
    named.filter(|path| path.as_os_str() != "-")
}

/// Where data goes: stdout, or the file that `-o` names.
///
/// # Errors
///
/// If the file can't be created.
pub(crate) fn output(path: Option<&Path>) -> anyhow::Result<Box<dyn Write>> {
    Ok(match file(path) {
        None => Box::new(anstream::stdout()),
        Some(path) => Box::new(anstream::StripStream::new(create(path)?)),
    })
}

/// The folder that a file lies in, by its name.
pub(crate) fn folder_of(file: &Path) -> &Path {
    let folder = file.parent().filter(|p| !p.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

fn create(path: &Path) -> anyhow::Result<File> {
    File::create(path).map_err(|err| usage(format!("can't write to {}: {err}", path.display())))
}

/// A reader that has gone is no error.
///
/// # Errors
///
/// Any other one.
pub(crate) fn unless_gone(written: anyhow::Result<()>) -> anyhow::Result<()> {
    let is_gone = |err: &anyhow::Error| {
        err.chain().any(|cause| {
            let broken = |err: &io::Error| err.kind() == io::ErrorKind::BrokenPipe;
            // serde_json keeps an error of the writer to itself, but for its kind
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

/// Where a path leads: to itself, or if it is a link to nothing yet, there.
pub(crate) fn led_to(path: &Path) -> PathBuf {
    match std::fs::read_link(path) {
        Ok(to) => folder_of(path).join(to),
        Err(_) => path.to_owned(),
    }
}

/// Writes all of it. A reader that has gone (`| head`) is no error.
///
/// # Errors
///
/// Any other error of the writer.
pub(crate) fn emit(out: &mut dyn Write, text: &str) -> anyhow::Result<()> {
    emit_more(out, text).map(|_| ())
}

/// The same, where more is to come: false if the reader has gone.
///
/// # Errors
///
/// Any other error of the writer.
pub(crate) fn emit_more(out: &mut dyn Write, text: &str) -> anyhow::Result<bool> {
    let text = safe(text);
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(err) if err.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        other => other.map(|()| true).context("can't write the result"),
    }
}

/// What is safe to look at as it is, but for what was cleaned when it came in and for colours, is written as it is. What
/// somebody forgot is not: JSON says it by its own escapes.
fn safe(text: &str) -> Cow<'_, str> {
    if text.starts_with('{') {
        return text::json(text);
    }
    table::clean_lines(text)
}
