//! A folder for the trace of the observed run, gone when it is dropped.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;

/// A folder of our own.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    /// Makes one where TMPDIR says, that no one else may look into.
    pub(crate) fn new() -> anyhow::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let nanos = nanos.map_or(0, |d| d.subsec_nanos());
        let name = format!("quell-{}-{number}-{nanos:x}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Fails if it is there: nobody can have laid a trap.
        std::fs::DirBuilder::new().mode(0o700).create(&path).with_context(|| {
            format!("making the folder {} for the trace; set TMPDIR to a place that can be written to", path.display())
        })?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // What can't be removed now can't be helped.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
