//! What a recording is: where, when, of what. The file that makes a directory a trace.

use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Error, names};
use crate::Text;

/// The schema that this version writes and reads.
pub const SCHEMA: &str = "quell/trace/1";

/// All schemas of traces begin so.
const ANY_SCHEMA: &str = "quell/trace/";

/// No `meta.json` is longer, bytes.
const CAP: u64 = 4 << 20;

/// A recording that was closed, and not killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// When, ns of CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// Shootdowns in the trace.
    pub shootdowns: u64,
    /// Rows in the trace: one for each victim of each shootdown.
    pub rows: u64,
    /// Rows of waits; `None` in traces from before there were any.
    #[serde(default)]
    pub waits: Option<u64>,
    /// Rows of samples; `None` in traces from before there were any.
    #[serde(default)]
    pub samples: Option<u64>,
    /// Waits and samples without a row of their own, for they came faster than they could be written. The account has them.
    #[serde(default)]
    pub left_out: u64,
}

/// `meta.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// [`SCHEMA`]; the writer sets it.
    pub schema: String,
    /// quell's version.
    pub quell: Text,
    /// The kernel's release, as `uname -r` says.
    pub kernel: Text,
    /// The machine's name.
    pub host: Text,
    /// When the recording began, ns since 1970.
    pub start_wall_ns: u64,
    /// The same moment, ns of CLOCK_MONOTONIC: the clock of every other time in the trace.
    pub start_monotonic_ns: u64,
    /// What was watched, in words: `of everything`, `of process 12`, `at CPU 3`; empty where the
    /// command was, and in traces of quell 0.1.0 before this field.
    #[serde(default)]
    pub scope: Text,
    /// The command that was run; empty where none was started.
    pub command: Vec<Text>,
    /// CPUs of the machine.
    pub cpus: u32,
    /// Which stacks were asked for: `all`, `none`, or every how many-th.
    pub stacks: Text,
    /// How the kernel was observed, such as `raw_tp`.
    pub backend: Text,
    /// Set when the recording was closed in order; the writer sets it.
    #[serde(default)]
    pub ended: Option<Ended>,
}

impl Meta {
    pub(super) fn write(&self, dir: &Path) -> Result<(), Error> {
        let mut json = serde_json::to_vec_pretty(self)
            .map_err(|err| Error::Write(dir.join(names::META), err.into()))?;
        json.push(b'\n');
        names::replace(dir, names::META, &json)
    }

    pub(super) fn read(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(names::META);
        let bytes = match read_capped(&path, CAP) {
            Ok(bytes) => bytes,
            Err(Error::Missing(_)) if dir.is_dir() => {
                return Err(Error::NotATrace(
                    dir.to_owned(),
                    format!("it has no {}", names::META),
                ));
            }
            Err(Error::Missing(_)) => return Err(Error::Missing(dir.to_owned())),
            Err(_) if dir.is_file() => {
                return Err(Error::NotATrace(
                    dir.to_owned(),
                    "a trace is a directory".into(),
                ));
            }
            Err(err) => return Err(err),
        };
        let schema: Schema =
            serde_json::from_slice(&bytes).map_err(|err| Error::damaged(&path, err))?;
        if !schema.schema.starts_with(ANY_SCHEMA) {
            let why = format!("{} names no schema of a trace", names::META);
            return Err(Error::NotATrace(dir.to_owned(), why));
        }
        if schema.schema != SCHEMA {
            let shown = schema.schema.cut(40);
            return Err(Error::Version(dir.to_owned(), shown));
        }
        serde_json::from_slice(&bytes).map_err(|err| Error::damaged(&path, err))
    }
}

/// Which trace a file belongs to: the moment when its recording began, by both clocks, which no two recordings share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Of {
    start_wall_ns: u64,
    start_monotonic_ns: u64,
}

impl From<&Meta> for Of {
    fn from(meta: &Meta) -> Self {
        Self {
            start_wall_ns: meta.start_wall_ns,
            start_monotonic_ns: meta.start_monotonic_ns,
        }
    }
}

/// Read first: another version may have other fields.
#[derive(Deserialize)]
struct Schema {
    #[serde(default)]
    schema: Text,
}

/// Is there a trace, of whatever version?
pub(super) fn is_trace(dir: &Path) -> bool {
    read_capped(&dir.join(names::META), CAP)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Schema>(&bytes).ok())
        .is_some_and(|s| s.schema.starts_with(ANY_SCHEMA))
}

/// A whole file, refused where it is longer than `cap` bytes.
pub(super) fn read_capped(path: &Path, cap: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let file = super::error::open(path).map_err(|err| Error::unreadable(path, err))?;
    file.take(cap + 1)
        .read_to_end(&mut bytes)
        .map_err(|err| Error::unreadable(path, err))?;
    if bytes.len() as u64 > cap {
        return Err(Error::damaged(path, format!("longer than {cap} bytes")));
    }
    Ok(bytes)
}
