//! A token in a file, which may be renewed while the agent runs, as Kubernetes does.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context as _, bail};

/// The token that the file has now.
#[derive(Debug)]
pub struct Secret {
    path: PathBuf,
    now: Mutex<(Option<SystemTime>, String)>,
}

impl Secret {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// It can't be read, or there is no token in it.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let now = (written(path), token(path)?);
        Ok(Self {
            path: path.to_owned(),
            now: Mutex::new(now),
        })
    }

    /// The token. A file that was written since is read again; one that has none meanwhile leaves the old one.
    pub fn get(&self) -> String {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let is = written(&self.path);
        if is != now.0
            && let Ok(token) = token(&self.path)
        {
            *now = (is, token);
        }
        now.1.clone()
    }
}

fn written(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|m| m.modified()).ok()
}

/// What stands in the file, without the line's end.
fn token(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("read the token in {}", path.display()))?;
    let token = text.trim();
    if token.is_empty() || token.contains(|c: char| c.is_control()) {
        bail!("{}: a token is one line", path.display());
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a token is one line, that a file without one is refused, and that a renewed one counts.
    #[test]
    fn tokens() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        for (text, is) in [("abc\n", Some("abc")), ("\n", None), ("a\nb", None)] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(token(&path).ok().as_deref(), is, "{text:?}");
        }
        assert!(token(&dir.path().join("none")).is_err());
        std::fs::write(&path, "old").unwrap();
        let secret = Secret::read(&path).unwrap();
        let write = |text: &str, seconds| {
            std::fs::write(&path, text).unwrap();
            let later = SystemTime::now() + std::time::Duration::from_secs(seconds);
            let file = std::fs::File::options().append(true).open(&path).unwrap();
            file.set_modified(later).unwrap();
        };
        assert_eq!(secret.get(), "old");
        write("", 5);
        assert_eq!(secret.get(), "old");
        write("new\n", 10);
        assert_eq!(secret.get(), "new");
    }
}
