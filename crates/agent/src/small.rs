//! Files that somebody names in the configuration: they are small, and files.

use std::path::Path;

use anyhow::{Context as _, bail};

/// No configuration, token or certificate is larger.
const MOST: u64 = 1 << 20;

/// Whether it may be read as a whole: a device gives without end, and a pipe may never begin.
///
/// # Errors
///
/// It is not there, no file, or too large.
pub(crate) fn check(path: &Path) -> anyhow::Result<()> {
    let meta = path
        .metadata()
        .with_context(|| format!("read {}", path.display()))?;
    if !meta.is_file() {
        bail!("{}: it is no file", path.display());
    }
    if meta.len() > MOST {
        bail!("{}: it is larger than {} MiB", path.display(), MOST >> 20);
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
        assert!(check(&file).is_ok() && check(&link).is_ok());
        for none in [Path::new("/dev/zero"), dir.path(), &dir.path().join("none")] {
            assert!(check(none).is_err(), "{}", none.display());
        }
        let large = std::fs::File::options().write(true).open(&file).unwrap();
        large.set_len(MOST + 1).unwrap();
        assert!(check(&link).is_err());
    }
}
