//! Files that are there as a whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::folder_of;
use crate::usage::usage;

/// Where a result goes: stdout, or a file that is written under another name beside its own, which it
/// gets when it is whole. What was there before stays until then, and for good if anything fails.
pub(crate) struct Replace(Place);

enum Place {
    Stdout,
    /// What can't be replaced, such as a terminal or a pipe.
    Node(PathBuf),
    File {
        /// The file itself, where the name is a link to it.
        file: PathBuf,
        /// The other name.
        aside: PathBuf,
    },
}

impl Replace {
    /// Looks whether it could be written, before anything that takes long. `-` is stdout.
    ///
    /// # Errors
    ///
    /// The folder is not there, or the name is a folder's.
    pub(crate) fn new(named: Option<&Path>) -> anyhow::Result<Self> {
        let Some(named) = super::file(named) else {
            return Ok(Self(Place::Stdout));
        };
        let cant = |why: &dyn std::fmt::Display| {
            usage(format!("can't write to {}: {why}", named.display()))
        };
        let file = match fs::canonicalize(named) {
            Ok(real) => real,
            Err(err) if err.kind() == io::ErrorKind::NotFound => super::led_to(named),
            Err(err) => return Err(cant(&err)),
        };
        Ok(Self(match fs::metadata(&file) {
            Ok(there) if there.is_dir() => return Err(cant(&"it is a folder")),
            Ok(there) if !there.is_file() => Place::Node(file),
            _ => {
                let may = rustix::fs::Access::WRITE_OK;
                rustix::fs::access(folder_of(&file), may).map_err(|err| cant(&err))?;
                let name = file.file_name().ok_or_else(|| cant(&"it has no name"))?;
                let mut aside = std::ffi::OsString::from(".");
                aside.push(name);
                aside.push(format!(".{}.tmp", std::process::id()));
                let aside = file.with_file_name(aside);
                Place::File { file, aside }
            }
        }))
    }

    /// Writes it.
    ///
    /// # Errors
    ///
    /// It can't be created or written.
    pub(crate) fn write(
        self,
        write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match self.0 {
            Place::Stdout => stream(io::stdout().lock(), write),
            Place::Node(node) => stream(OpenOptions::new().write(true).open(node)?, write),
            Place::File { file, aside } => {
                let result =
                    fill(&aside, &file, write).and_then(|()| Ok(fs::rename(&aside, &file)?));
                if result.is_err() {
                    // it may never have been created, and the first error says more
                    let _ = fs::remove_file(&aside);
                }
                result
            }
        }
    }
}

fn stream(
    to: impl Write,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(to);
    write(&mut out)?;
    Ok(out.flush()?)
}

/// A file without a name: what ends quell half-way leaves nothing. `None` where the file system has none such
/// (open(2), O_TMPFILE).
fn nameless(folder: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    rustix::fs::open(folder, flags, mode).ok().map(File::from)
}

/// Never through a link that somebody has put there.
fn create_new(path: &Path) -> io::Result<File> {
    let create = || File::options().write(true).create_new(true).open(path);
    match create() {
        // of a process with this number that was killed: of a link, the link goes, and not what it names
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            create()
        }
        other => other,
    }
}

/// Gives a file without a name one (linkat(2)).
fn name(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD};
    // of a process with this number that was killed
    let _ = fs::remove_file(path);
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(
        CWD,
        open,
        CWD,
        path,
        AtFlags::SYMLINK_FOLLOW,
    )?)
}

fn fill(
    aside: &Path,
    file: &Path,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let nameless = nameless(folder_of(file));
    let is_nameless = nameless.is_some();
    let new = match nameless {
        Some(new) => new,
        None => create_new(aside)?,
    };
    // who may read the old one may read the new one, and nobody else, from the first byte on
    if let Ok(old) = fs::metadata(file) {
        // only root may give files away
        let _ = std::os::unix::fs::fchown(&new, Some(old.uid()), Some(old.gid()));
        new.set_permissions(old.permissions())?;
    }
    let mut out = BufWriter::new(new);
    write(&mut out)?;
    let new = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    if is_nameless {
        name(&new, aside)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).expect("a folder");
        names
            .map(|e| e.expect("an entry").file_name().display().to_string())
            .collect()
    }

    /// Check that a file is replaced when all is written, and stays as it was if that fails.
    #[test]
    fn all_or_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("page");
        let text = || fs::read_to_string(&file).expect("a file");
        let new = || Replace::new(Some(&file)).expect("it can be written");
        new()
            .write(|out| Ok(out.write_all(b"old")?))
            .expect("written");
        new()
            .write(|out| {
                out.write_all(b"new")?;
                assert_eq!(text(), "old");
                anyhow::bail!("no")
            })
            .expect_err("it failed");
        assert_eq!((text().as_str(), names(dir.path()).len()), ("old", 1));
        new()
            .write(|out| Ok(out.write_all(b"new")?))
            .expect("written");
        assert_eq!((text().as_str(), names(dir.path()).len()), ("new", 1));
    }

    /// Check that the new file is as private as the old one, that a link to nothing yet is followed, and that
    /// while it is written there is no other name in the folder, where the file system allows that.
    #[test]
    fn modes_and_links() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a folder");
        let (file, link) = (dir.path().join("page"), dir.path().join("link"));
        std::os::unix::fs::symlink("page", &link).expect("a link");
        let write = |text: &'static [u8]| {
            let new = Replace::new(Some(&link)).expect("it can be written");
            new.write(|out| Ok(out.write_all(text)?)).expect("written");
        };
        write(b"a");
        assert!(link.is_symlink() && file.is_file());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("set");
        write(b"b");
        let mode = fs::metadata(&file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read(&file).expect("a file"), b"b");
        if nameless(dir.path()).is_some() {
            let new = Replace::new(Some(&file)).expect("it can be written");
            let written = new.write(|_| {
                assert_eq!(names(dir.path()).len(), 2);
                Ok(())
            });
            written.expect("written");
        }
    }

    /// Check that a link stays a link, that a device is written to and not replaced, and that what can't
    /// be written is known before.
    #[test]
    fn odd_places() {
        let dir = tempfile::tempdir().expect("a folder");
        let (file, link) = (dir.path().join("page"), dir.path().join("link"));
        fs::write(&file, "old").expect("a file");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        let new = Replace::new(Some(&link)).expect("it can be written");
        new.write(|out| Ok(out.write_all(b"new")?))
            .expect("written");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).expect("a file"), "new");
        let null = Replace::new(Some(Path::new("/dev/null"))).expect("it can be written");
        null.write(|out| Ok(out.write_all(b"x")?)).expect("written");
        assert!(!Path::new("/dev/null").is_file());
        for bad in [dir.path(), &dir.path().join("none/page")] {
            assert!(Replace::new(Some(bad)).is_err(), "{}", bad.display());
        }
    }
}
