//! What stands in files that may be renewed while the agent runs, as certificates and Kubernetes' tokens are.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// What is not told yet of files that were renewed and are not as they should be; a few at most.
static WRONG: Mutex<Vec<String>> = Mutex::new(Vec::new());
const MOST_WRONG: usize = 16;

/// What is wrong with files that were renewed since the last call: what stood there before goes on.
pub fn wrong() -> Vec<String> {
    std::mem::take(&mut *WRONG.lock().unwrap_or_else(PoisonError::into_inner))
}

fn tell(text: String) {
    let mut wrong = WRONG.lock().unwrap_or_else(PoisonError::into_inner);
    if wrong.len() < MOST_WRONG {
        wrong.push(text);
    }
}

/// When each file was written.
type Written = Vec<Option<SystemTime>>;

/// What was made of the files as they are now.
#[derive(Debug)]
pub(crate) struct Renewed<T> {
    paths: Vec<PathBuf>,
    read: fn(&[PathBuf]) -> anyhow::Result<T>,
    now: Mutex<Now<T>>,
}

#[derive(Debug)]
struct Now<T> {
    written: Written,
    /// As they were when they could not be read.
    failed: Option<Written>,
    made: T,
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
        let now = Mutex::new(Now {
            written: written(&paths),
            failed: None,
            made: read(&paths)?,
        });
        Ok(Self { paths, read, now })
    }

    /// Files that were written since are read again; while they are not as they should be, such as half-renewed, the old ones
    /// count, and [`wrong`] says so once.
    pub(crate) fn get(&self) -> T {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let is = written(&self.paths);
        if is != now.written {
            match (self.read)(&self.paths) {
                Ok(made) => {
                    now.made = made;
                    now.written = is;
                    now.failed = None;
                }
                Err(err) => {
                    if now.failed.as_ref() != Some(&is) {
                        tell(format!("{err:#}; what stood there before goes on"));
                    }
                    now.failed = Some(is);
                }
            }
        }
        now.made.clone()
    }
}

fn written(paths: &[PathBuf]) -> Written {
    let of = |path: &PathBuf| path.metadata().and_then(|m| m.modified()).ok();
    paths.iter().map(of).collect()
}
