//! What stands in files that may be renewed while the agent runs, as certificates and Kubernetes' tokens are.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// When each file was written.
type Written = Vec<Option<SystemTime>>;

/// What was made of the files as they are now.
#[derive(Debug)]
pub(crate) struct Renewed<T> {
    paths: Vec<PathBuf>,
    read: fn(&[PathBuf]) -> anyhow::Result<T>,
    now: Mutex<(Written, T)>,
}

impl<T: Clone> Renewed<T> {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// They are not as they should be.
    pub(crate) fn read(
        paths: Vec<PathBuf>,
        read: fn(&[PathBuf]) -> anyhow::Result<T>,
    ) -> anyhow::Result<Self> {
        let now = Mutex::new((written(&paths), read(&paths)?));
        Ok(Self { paths, read, now })
    }

    /// Files that were written since are read again; while they are not as they should be, such as half-renewed, the old ones
    /// count.
    pub(crate) fn get(&self) -> T {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let is = written(&self.paths);
        if is != now.0
            && let Ok(renewed) = (self.read)(&self.paths)
        {
            *now = (is, renewed);
        }
        now.1.clone()
    }
}

fn written(paths: &[PathBuf]) -> Written {
    let of = |path: &PathBuf| path.metadata().and_then(|m| m.modified()).ok();
    paths.iter().map(of).collect()
}
