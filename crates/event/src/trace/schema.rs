//! The schema of a trace: the version of its format, and the key under which files of a trace name it.

/// The schema that this version writes and reads.
pub const TRACE_SCHEMA: &str = "quell/trace/1";

/// The schemas of all versions begin so.
pub(super) const SCHEMA_PREFIX: &str = "quell/trace/";

/// Sealed files and tails keep the schema in their metadata under this key. A file without it was not written by quell.
pub(super) const SCHEMA_KEY: &str = "quell.schema";
