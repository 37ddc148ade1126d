//! Results as `quell lab run -o FILE` wrote them.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::time::UNIX_EPOCH;

use quell_lab::curve::{self, CurveSummary};
use quell_lab::summary::{ExperimentSummary, LAB_SCHEMA};
use serde_json::Value;

use crate::show::table::plain;
use crate::usage::usage;

/// The results in a file.
#[derive(Debug)]
pub(crate) struct Results {
    /// The results in the file's order; there is at least one.
    pub(crate) all: Vec<ExperimentSummary>,
    /// The time at which the file was last written, ns since 1970: results themselves don't say when they were measured.
    pub(crate) wall_ns: u64,
}

/// The contents of a file of the lab's.
#[derive(Debug)]
pub(crate) enum LabFile {
    Curves(Vec<CurveSummary>),
    Results(Results),
}

/// A longer file is none of the lab's: of thirty experiments with all timelines one has some twenty megabytes.
const MAX_LAB_FILE_BYTES: u64 = 1 << 30;

/// A file's bytes, unless they are more.
pub(crate) fn read_bounded(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(max_bytes + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let why = format!("it is larger than {max_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// Reads a file, whose first line decides what it is.
///
/// # Errors
///
/// It can't be read, is empty, is cut short, or holds something else: one line that says which.
pub(crate) fn read_lab_file(path: &Path) -> anyhow::Result<LabFile> {
    let name = plain(&path.display().to_string());
    let bytes = read_bounded(path, MAX_LAB_FILE_BYTES)
        .map_err(|err| usage(format!("can't read {name}: {err}")))?;
    let refuse = |why: String| usage(format!("{name} {}", plain(&why)));
    if let Some(curves) = parse_curves(&bytes).map_err(refuse)? {
        return Ok(LabFile::Curves(curves));
    }
    let written = fs::metadata(path).and_then(|m| m.modified());
    let since = written.ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    Ok(LabFile::Results(Results {
        all: parse_results(&bytes).map_err(refuse)?,
        wall_ns: since.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)),
    }))
}

/// The curves in a file's bytes; none where the first line is of something else. A fault of the file is the end of a sentence that
/// begins with its name.
fn parse_curves(bytes: &[u8]) -> Result<Option<Vec<CurveSummary>>, String> {
    let values = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let mut all = Vec::new();
    for (n, value) in (1_usize..).zip(values) {
        let is_curve =
            |v: &Value| v.get("schema").and_then(Value::as_str) == Some(curve::CURVE_SCHEMA);
        let value = value.ok().filter(is_curve);
        match value.and_then(|v| serde_json::from_value(v).ok()) {
            Some(curve) => all.push(curve),
            None if n == 1 => return Ok(None),
            None => {
                return Err(format!(
                    "holds something else than curves, or is cut short, at {n}"
                ));
            }
        }
    }
    Ok((!all.is_empty()).then_some(all))
}

/// The refusal of a curve among results: the end of a sentence that begins with the file's name.
pub(crate) const CURVE_AMONG_RESULTS: &str =
    "holds a curve, where an experiment's result is wanted";

/// The results in a file's bytes, or the fault of the file: the end of a sentence that begins with its name.
fn parse_results(bytes: &[u8]) -> Result<Vec<ExperimentSummary>, String> {
    let mut all = Vec::new();
    for value in serde_json::Deserializer::from_slice(bytes).into_iter::<Value>() {
        let n = all.len() + 1;
        let value = value.map_err(|err| {
            if err.is_eof() {
                format!(
                    "is cut short in its result {n}: the run ended, or the disk was full, before it was whole"
                )
            } else {
                foreign_value(n, &err.to_string())
            }
        })?;
        match value.get("schema").and_then(Value::as_str) {
            Some(LAB_SCHEMA) => {}
            Some(other) if other.starts_with("quell/lab/") => {
                return Err(format!(
                    "is of the form {other}, and this quell reads {LAB_SCHEMA}: use the quell that wrote it"
                ));
            }
            Some(curve::CURVE_SCHEMA) => {
                return Err(CURVE_AMONG_RESULTS.to_owned());
            }
            Some(other) => return Err(foreign_value(n, &format!("its schema is {other}"))),
            None => return Err(foreign_value(n, "there is no schema")),
        }
        let summary =
            serde_json::from_value(value).map_err(|err| foreign_value(n, &err.to_string()))?;
        all.push(summary);
    }
    if all.is_empty() {
        return Err("is empty: it holds no result".to_owned());
    }
    Ok(all)
}

fn foreign_value(n: usize, why: &str) -> String {
    if n == 1 {
        format!("is no result of 'quell lab run -o FILE': {why}")
    } else {
        format!("holds something else after {} results: {why}", n - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lab::fixture;

    fn said(bytes: &[u8]) -> String {
        parse_results(bytes).map_or_else(|why| why, |all| format!("{} results", all.len()))
    }

    /// Check that results come back as they were written, and that an empty, foreign, newer or cut file is told apart in
    /// one line.
    #[test]
    fn files_are_told_apart() {
        let two = fixture::result_lines(&[fixture::dontneed_result(), fixture::munmap_result()]);
        assert_eq!(said(two.as_bytes()), "2 results");
        insta::assert_snapshot!(said(b""), @"is empty: it holds no result");
        insta::assert_snapshot!(said(b" \n\n"), @"is empty: it holds no result");
        insta::assert_snapshot!(said(b"PAR1\0\x01"), @"is no result of 'quell lab run -o FILE': expected value at line 1 column 1");
        insta::assert_snapshot!(said(b"{}"), @"is no result of 'quell lab run -o FILE': there is no schema");
        insta::assert_snapshot!(said(b"[1]"), @"is no result of 'quell lab run -o FILE': there is no schema");
        insta::assert_snapshot!(said(br#"{"schema":"quell/tally/1"}"#), @"is no result of 'quell lab run -o FILE': its schema is quell/tally/1");
        insta::assert_snapshot!(said(br#"{"schema":"quell/lab/9"}"#), @"is of the form quell/lab/9, and this quell reads quell/lab/1: use the quell that wrote it");
        insta::assert_snapshot!(said(br#"{"schema":"quell/lab/1"}"#), @"is no result of 'quell lab run -o FILE': missing field `experiment`");
        insta::assert_snapshot!(said(&two.as_bytes()[..two.len() - 2]), @"is cut short in its result 2: the run ended, or the disk was full, before it was whole");
        insta::assert_snapshot!(said(format!("{two}x").as_bytes()), @"holds something else after 2 results: expected value at line 3 column 1");
    }

    proptest! {
        /// Check that no bytes make it panic, and that a refusal is one line.
        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..4000) {
            let two = fixture::result_lines(&[fixture::dontneed_result(), fixture::munmap_result()]);
            let cut = &two.as_bytes()[..cut.min(two.len())];
            for bytes in [bytes.as_slice(), cut] {
                if let Err(why) = parse_results(bytes) {
                    prop_assert_eq!(why.lines().count(), 1);
                }
            }
        }
    }
}
