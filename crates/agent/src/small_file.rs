//! Files that the configuration names are regular and small.

use std::path::Path;

use anyhow::{Context as _, bail};

/// No configuration, token or certificate is larger.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Makes sure that the file can be read as a whole: a device gives bytes without end, and a pipe may never begin.
///
/// # Errors
///
/// The file is missing, not regular, or too large.
pub(crate) fn ensure_small_file(path: &Path) -> anyhow::Result<()> {
    let meta = path
        .metadata()
        .with_context(|| format!("read {}", path.display()))?;
    if !meta.is_file() {
        bail!("{}: it is no file", path.display());
    }
    if meta.len() > MAX_FILE_BYTES {
        bail!(
            "{}: it is larger than {} MiB",
            path.display(),
            MAX_FILE_BYTES >> 20
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a small file is one, also behind a link, and that a device, a folder and a large file are refused.
    #[test]
    fn only_small_files() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("f"), dir.path().join("l"));
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(ensure_small_file(&file).is_ok() && ensure_small_file(&link).is_ok());
        for none in [Path::new("/dev/zero"), dir.path(), &dir.path().join("none")] {
            assert!(ensure_small_file(none).is_err(), "{}", none.display());
        }
        let large = std::fs::File::options().write(true).open(&file).unwrap();
        large.set_len(MAX_FILE_BYTES + 1).unwrap();
        assert!(ensure_small_file(&link).is_err());
    }
}
