//! Values from files that may be renewed while the agent runs, such as certificates and Kubernetes' tokens.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Failures to read renewed files that were not reported yet, of all values of this process.
static RELOAD_FAILURES: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// No more are kept until they are taken: each of the few files in the configuration fails once for each time that it is written.
const MAX_RELOAD_FAILURES: usize = 16;

/// Takes the failures of renewed files since the last call; the values from before stay in use.
pub fn take_reload_failures() -> Vec<String> {
    std::mem::take(
        &mut *RELOAD_FAILURES
            .lock()
            .unwrap_or_else(PoisonError::into_inner),
    )
}

fn add_reload_failure(text: String) {
    let mut wrong = RELOAD_FAILURES
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if wrong.len() < MAX_RELOAD_FAILURES {
        wrong.push(text);
    }
}

/// Modification time of each file; none for a file that is missing.
type WriteTimes = Vec<Option<SystemTime>>;

/// A value that is made from files, and made again when they change.
#[derive(Debug)]
pub struct ReloadedFiles<T> {
    paths: Vec<PathBuf>,
    read: fn(&[PathBuf]) -> anyhow::Result<T>,
    loaded: Mutex<LoadedFiles<T>>,
}

#[derive(Debug)]
struct LoadedFiles<T> {
    write_times: WriteTimes,
    /// The files' times at the last failure, so that each failure is reported once.
    failed: Option<WriteTimes>,
    value: T,
}

impl<T: Clone> ReloadedFiles<T> {
    /// Makes the value from the files as they are now.
    ///
    /// # Errors
    ///
    /// The files can't be used.
    pub(crate) fn read_by(
        paths: Vec<PathBuf>,
        read: fn(&[PathBuf]) -> anyhow::Result<T>,
    ) -> anyhow::Result<Self> {
        let loaded = Mutex::new(LoadedFiles {
            write_times: write_times(&paths),
            failed: None,
            value: read(&paths)?,
        });
        Ok(Self {
            paths,
            read,
            loaded,
        })
    }

    /// The value, made again if the files have changed: if one was written at another time, or is missing now. While they can't
    /// be used, for instance half-renewed, the old value stays, and [`take_reload_failures`] reports it once.
    pub fn get(&self) -> T {
        let mut now = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        // The times are read before the files: a file that is written in between is read again by the next call.
        let is = write_times(&self.paths);
        if is != now.write_times {
            match (self.read)(&self.paths) {
                Ok(made) => {
                    now.value = made;
                    now.write_times = is;
                    now.failed = None;
                }
                Err(err) => {
                    if now.failed.as_ref() != Some(&is) {
                        add_reload_failure(format!("{err:#}; what stood there before goes on"));
                    }
                    now.failed = Some(is);
                }
            }
        }
        now.value.clone()
    }
}

fn write_times(paths: &[PathBuf]) -> WriteTimes {
    let of = |path: &PathBuf| path.metadata().and_then(|m| m.modified()).ok();
    paths.iter().map(of).collect()
}
