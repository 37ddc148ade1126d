//! The description of a recording: where, when and of whom it is. Its file makes a directory a trace.

use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::open_regular_file;
use super::schema::{SCHEMA_PREFIX, TRACE_SCHEMA};
use super::{TraceError, file_names};
use crate::Text;

/// A longer `meta.json` is refused.
const MAX_META_BYTES: u64 = 4 << 20;

/// A recording that was closed, and not killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingEnd {
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
pub struct TraceMeta {
    /// [`TRACE_SCHEMA`]; the writer sets it.
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
    /// The scope in words: `of everything`, `of process 12`, `at CPU 3`; empty where the
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
    pub ended: Option<RecordingEnd>,
}

impl TraceMeta {
    pub(super) fn write_to(&self, dir: &Path) -> Result<(), TraceError> {
        let mut json = serde_json::to_vec_pretty(self)
            .map_err(|err| TraceError::Write(dir.join(file_names::META_FILE), err.into()))?;
        json.push(b'\n');
        file_names::replace_file(dir, file_names::META_FILE, &json)
    }

    pub(super) fn read_from(dir: &Path) -> Result<Self, TraceError> {
        let path = dir.join(file_names::META_FILE);
        let bytes = match read_bounded(&path, MAX_META_BYTES) {
            Ok(bytes) => bytes,
            Err(TraceError::Missing(_)) if dir.is_dir() => {
                return Err(TraceError::NotATrace(
                    dir.to_owned(),
                    format!("it has no {}", file_names::META_FILE),
                ));
            }
            Err(TraceError::Missing(_)) => return Err(TraceError::Missing(dir.to_owned())),
            Err(_) if dir.is_file() => {
                return Err(TraceError::NotATrace(
                    dir.to_owned(),
                    "a trace is a directory".into(),
                ));
            }
            Err(err) => return Err(err),
        };
        let schema: MetaSchema =
            serde_json::from_slice(&bytes).map_err(|err| TraceError::damaged(&path, err))?;
        if !schema.schema.starts_with(SCHEMA_PREFIX) {
            let why = format!("{} names no schema of a trace", file_names::META_FILE);
            return Err(TraceError::NotATrace(dir.to_owned(), why));
        }
        if schema.schema != TRACE_SCHEMA {
            let shown = schema.schema.cut_to(40);
            return Err(TraceError::Version(dir.to_owned(), shown));
        }
        serde_json::from_slice(&bytes).map_err(|err| TraceError::damaged(&path, err))
    }
}

/// Which trace a file belongs to: the moment when its recording began, by both clocks, which no two recordings share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TraceIdentity {
    start_wall_ns: u64,
    start_monotonic_ns: u64,
}

impl From<&TraceMeta> for TraceIdentity {
    fn from(meta: &TraceMeta) -> Self {
        Self {
            start_wall_ns: meta.start_wall_ns,
            start_monotonic_ns: meta.start_monotonic_ns,
        }
    }
}

/// Read first: another version may have other fields.
#[derive(Deserialize)]
struct MetaSchema {
    #[serde(default)]
    schema: Text,
}

/// Says whether there is a trace, of whatever version.
pub(super) fn is_trace(dir: &Path) -> bool {
    read_bounded(&dir.join(file_names::META_FILE), MAX_META_BYTES)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<MetaSchema>(&bytes).ok())
        .is_some_and(|s| s.schema.starts_with(SCHEMA_PREFIX))
}

/// Reads a whole file, and refuses it where it is longer than `cap` bytes.
pub(super) fn read_bounded(path: &Path, cap: u64) -> Result<Vec<u8>, TraceError> {
    let mut bytes = Vec::new();
    let file = open_regular_file(path).map_err(|err| TraceError::unreadable(path, err))?;
    file.take(cap + 1)
        .read_to_end(&mut bytes)
        .map_err(|err| TraceError::unreadable(path, err))?;
    if bytes.len() as u64 > cap {
        return Err(TraceError::damaged(
            path,
            format!("longer than {cap} bytes"),
        ));
    }
    Ok(bytes)
}
