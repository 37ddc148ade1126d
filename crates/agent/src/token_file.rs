//! A token in a file, which may be renewed while the agent runs, as Kubernetes does.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::reloaded_files::ReloadedFiles;
use crate::small_file;

/// A token that is read again when its file changes.
pub type TokenFile = ReloadedFiles<String>;

impl TokenFile {
    /// Reads the token.
    ///
    /// # Errors
    ///
    /// The file can't be read, or contains no token.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let of = |paths: &[PathBuf]| read_token(&paths[0]);
        Self::read_by(vec![path.to_owned()], of)
    }
}

/// The file's single line, without its end.
fn read_token(path: &Path) -> anyhow::Result<String> {
    small_file::ensure_small_file(path)?;
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
    use std::time::SystemTime;

    use super::*;

    /// Check that a token is one line, that a file without one is refused, and that a renewed one counts.
    #[test]
    fn tokens() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        for (text, is) in [("abc\n", Some("abc")), ("\n", None), ("a\nb", None)] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read_token(&path).ok().as_deref(), is, "{text:?}");
        }
        assert!(read_token(&dir.path().join("none")).is_err());
        std::fs::write(&path, "old").unwrap();
        let secret = TokenFile::read(&path).unwrap();
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
