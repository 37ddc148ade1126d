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

/// The contents of a file.
#[derive(Debug)]
pub(crate) struct Results {
    /// In the file's order; at least one.
    pub(crate) all: Vec<ExperimentSummary>,
    /// When the file was last written, ns since 1970: results themselves don't say when they were measured.
    pub(crate) wall_ns: u64,
}

/// More is no result: of thirty experiments with all timelines one has some twenty megabytes.
const MOST: u64 = 1 << 30;

/// A file's bytes, unless they are more.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = format!("it is larger than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// Reads a file.
///
/// # Errors
///
/// It can't be read, is empty, is cut short, or holds something else: one line that says which.
pub(crate) fn results(path: &Path) -> anyhow::Result<Results> {
    let name = plain(&path.display().to_string());
    let cant = |err: &dyn std::fmt::Display| usage(format!("can't read {name}: {err}"));
    let bytes = read(path, MOST).map_err(|err| cant(&err))?;
    let written = fs::metadata(path).and_then(|m| m.modified());
    let since = written.ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    let all = parse(&bytes).map_err(|why| usage(format!("{name} {}", plain(&why))))?;
    Ok(Results {
        all,
        wall_ns: since.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)),
    })
}

/// The curves in a file; nothing where its first line is of something else.
///
/// # Errors
///
/// It holds a curve and then something else.
pub(crate) fn curve_file(path: &Path) -> anyhow::Result<Option<Vec<CurveSummary>>> {
    // A file that can't be read is reported when it is read as results.
    let bytes = read(path, MOST).unwrap_or_default();
    let values = serde_json::Deserializer::from_slice(&bytes).into_iter::<Value>();
    let mut all = Vec::new();
    for (n, value) in (1..).zip(values) {
        let is_curve =
            |v: &Value| v.get("schema").and_then(Value::as_str) == Some(curve::CURVE_SCHEMA);
        let curve = value
            .ok()
            .filter(is_curve)
            .and_then(|v| serde_json::from_value(v).ok());
        match curve {
            Some(curve) => all.push(curve),
            None if n == 1 => return Ok(None),
            None => {
                let name = plain(&path.display().to_string());
                return Err(usage(format!(
                    "{name} holds something else than curves, or is cut short, at {n}"
                )));
            }
        }
    }
    Ok((!all.is_empty()).then_some(all))
}

/// The results in a file's bytes, or the fault of the file: the end of a sentence that begins with its name.
fn parse(bytes: &[u8]) -> Result<Vec<ExperimentSummary>, String> {
    let mut all = Vec::new();
    for value in serde_json::Deserializer::from_slice(bytes).into_iter::<Value>() {
        let n = all.len() + 1;
        let value = value.map_err(|err| {
            if err.is_eof() {
                format!(
                    "is cut short in its result {n}: the run ended, or the disk was full, before it was whole"
                )
            } else {
                foreign(n, &err.to_string())
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
                return Err("holds a curve, where an experiment's result is wanted".to_owned());
            }
            Some(other) => return Err(foreign(n, &format!("its schema is {other}"))),
            None => return Err(foreign(n, "there is no schema")),
        }
        let summary = serde_json::from_value(value).map_err(|err| foreign(n, &err.to_string()))?;
        all.push(summary);
    }
    if all.is_empty() {
        return Err("is empty: it holds no result".to_owned());
    }
    Ok(all)
}

fn foreign(n: usize, why: &str) -> String {
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
        parse(bytes).map_or_else(|why| why, |all| format!("{} results", all.len()))
    }

    /// Check that results come back as they were written, and that an empty, foreign, newer or cut file is told apart in
    /// one line.
    #[test]
    fn files_are_told_apart() {
        let two = fixture::lines(&[fixture::dontneed(), fixture::munmap()]);
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
            let two = fixture::lines(&[fixture::dontneed(), fixture::munmap()]);
            let cut = &two.as_bytes()[..cut.min(two.len())];
            for bytes in [bytes.as_slice(), cut] {
                if let Err(why) = parse(bytes) {
                    prop_assert_eq!(why.lines().count(), 1);
                }
            }
        }
    }
}
