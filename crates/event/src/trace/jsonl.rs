//! Tables of JSON lines: append only, and readable wherever they end.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::TraceError;
use super::error::open_regular_file;

/// A longer line is garbled: a process with a hundred thousand mappings fits.
const MAX_LINE_BYTES: u64 = 32 << 20;

/// Lines on their way to a file.
pub(super) struct JsonLines {
    path: PathBuf,
    file: File,
    /// Whole lines that the file does not have yet.
    pending: Vec<u8>,
}

impl JsonLines {
    pub(super) fn create(dir: &Path, name: &str) -> Result<Self, TraceError> {
        let path = dir.join(name);
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|err| TraceError::from_write(dir, &path, err))?;
        Ok(Self {
            path,
            file,
            pending: Vec::new(),
        })
    }

    /// Adds a line, in memory.
    pub(super) fn add_row(&mut self, row: &impl Serialize) {
        add_line(&mut self.pending, row);
    }

    /// Writes the pending lines. Bytes that did not fit stay pending, so that no line is cut for good.
    pub(super) fn write_pending(&mut self, dir: &Path) -> Result<(), TraceError> {
        while !self.pending.is_empty() {
            match self.file.write(&self.pending) {
                Ok(n) => drop(self.pending.drain(..n)),
                Err(err) if err.kind() == std::io::ErrorKind::Interrupted => {}
                Err(err) => return Err(TraceError::from_write(dir, &self.path, err)),
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

/// Returns a whole table as JSON lines.
pub(super) fn json_lines(rows: &[impl Serialize]) -> Vec<u8> {
    let mut lines = Vec::new();
    for row in rows {
        add_line(&mut lines, row);
    }
    lines
}

/// Reads a table line by line. Returns how many lines were garbled; a last line that was cut is
/// not one of them, for a recording that was killed leaves one. A missing file is an empty table.
pub(super) fn for_each_line<T: DeserializeOwned>(
    path: &Path,
    mut each: impl FnMut(T),
) -> Result<u64, TraceError> {
    let file = match open_regular_file(path) {
        Ok(file) => file,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(err) => return Err(TraceError::unreadable(path, err)),
    };
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut line = Vec::new();
    let mut garbled = 0;
    loop {
        line.clear();
        (&mut reader)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)
            .map_err(|err| TraceError::unreadable(path, err))?;
        if line.last() != Some(&b'\n') {
            if (line.len() as u64) < MAX_LINE_BYTES {
                return Ok(garbled);
            }
            reader
                .skip_until(b'\n')
                .map_err(|err| TraceError::unreadable(path, err))?;
            garbled += 1;
            continue;
        }
        match serde_json::from_slice(&line) {
            Ok(row) => each(row),
            Err(_) => garbled += 1,
        }
    }
}
