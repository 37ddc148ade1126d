//! Tables of JSON lines: append only, and readable wherever they end.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Error;
use super::error::open;

/// No line is longer, bytes: a process with a hundred thousand mappings fits.
const LINE_CAP: u64 = 32 << 20;

/// Lines on their way to a file.
pub(super) struct Lines {
    path: PathBuf,
    file: File,
    /// Whole lines that the file does not have yet.
    pending: Vec<u8>,
}

impl Lines {
    pub(super) fn create(dir: &Path, name: &str) -> Result<Self, Error> {
        let path = dir.join(name);
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|err| Error::write(dir, &path, err))?;
        Ok(Self {
            path,
            file,
            pending: Vec::new(),
        })
    }

    /// Adds a line, in memory.
    pub(super) fn add(&mut self, row: &impl Serialize) {
        add_line(&mut self.pending, row);
    }

    /// Writes what is pending. What did not fit stays pending, so that no line is cut for good.
    pub(super) fn write(&mut self, dir: &Path) -> Result<(), Error> {
        while !self.pending.is_empty() {
            match self.file.write(&self.pending) {
                Ok(n) => drop(self.pending.drain(..n)),
                Err(err) if err.kind() == std::io::ErrorKind::Interrupted => {}
                Err(err) => return Err(Error::write(dir, &self.path, err)),
            }
        }
        Ok(())
    }
}

fn add_line(lines: &mut Vec<u8>, row: &impl Serialize) {
    let whole = lines.len();
    match serde_json::to_writer(&mut *lines, row) {
        Ok(()) => lines.push(b'\n'),
        // Memory takes everything, and the tables have no map whose keys are no text.
        Err(_) => lines.truncate(whole),
    }
}

/// A whole table.
pub(super) fn lines(rows: &[impl Serialize]) -> Vec<u8> {
    let mut lines = Vec::new();
    for row in rows {
        add_line(&mut lines, row);
    }
    lines
}

/// Reads a table line by line. Returns how many lines were garbled; a last line that was cut is
/// not one of them, for it is what a recording that was killed leaves. No file is an empty table.
pub(super) fn read<T: DeserializeOwned>(
    path: &Path,
    mut each: impl FnMut(T),
) -> Result<u64, Error> {
    let file = match open(path) {
        Ok(file) => file,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(err) => return Err(Error::unreadable(path, err)),
    };
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut line = Vec::new();
    let mut garbled = 0;
    loop {
        line.clear();
        (&mut reader)
            .take(LINE_CAP)
            .read_until(b'\n', &mut line)
            .map_err(|err| Error::unreadable(path, err))?;
        if line.last() != Some(&b'\n') {
            if (line.len() as u64) < LINE_CAP {
                return Ok(garbled);
            }
            reader
                .skip_until(b'\n')
                .map_err(|err| Error::unreadable(path, err))?;
            garbled += 1;
            continue;
        }
        match serde_json::from_slice(&line) {
            Ok(row) => each(row),
            Err(_) => garbled += 1,
        }
    }
}
