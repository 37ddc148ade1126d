//! Output files that appear as a whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::folder_of;
use crate::usage::usage;

/// The destination of a result: stdout, or a file that is written under another name beside its own, which it gets when
/// it is whole. An older file stays until then, and for good if anything fails.
pub(crate) struct Replace(Destination);

enum Destination {
    Stdout,
    /// A file that can't be replaced, such as a terminal or a pipe.
    Node(PathBuf),
    File {
        /// The file itself, where the name is a link to it.
        file: PathBuf,
        /// The temporary name.
        aside: PathBuf,
    },
}

impl Replace {
    /// Checks that it could be written, before anything that takes long. `-` is stdout.
    ///
    /// # Errors
    ///
    /// The folder does not exist, or the name belongs to a folder.
    pub(crate) fn new(named: Option<&Path>) -> anyhow::Result<Self> {
        let Some(named) = super::file_named(named) else {
            return Ok(Self(Destination::Stdout));
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
            Ok(there) if !there.is_file() => Destination::Node(file),
            _ => {
                let may = rustix::fs::Access::WRITE_OK;
                rustix::fs::access(folder_of(&file), may).map_err(|err| cant(&err))?;
                let name = file.file_name().ok_or_else(|| cant(&"it has no name"))?;
                let mut aside = std::ffi::OsString::from(".");
                aside.push(name);
                aside.push(format!(".{}.tmp", std::process::id()));
                let aside = file.with_file_name(aside);
                Destination::File { file, aside }
            }
        }))
    }

    /// Writes the result, and puts the file into its place.
    ///
    /// # Errors
    ///
    /// It can't be created or written.
    pub(crate) fn write(
        self,
        write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match self.0 {
            Destination::Stdout => write_buffered(io::stdout().lock(), write),
            Destination::Node(node) => {
                write_buffered(OpenOptions::new().write(true).open(node)?, write)
            }
            Destination::File { file, aside } => {
                let result = write_and_name(&aside, &file, write)
                    .and_then(|()| Ok(fs::rename(&aside, &file)?));
                if result.is_err() {
                    // It may never have been created, and the first error says more.
                    let _ = fs::remove_file(&aside);
                }
                result
            }
        }
    }
}

fn write_buffered(
    to: impl Write,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(to);
    write(&mut out)?;
    Ok(out.flush()?)
}

/// Opens a file without a name, so that nothing is left if quell is killed half-way. `None` where the file system has no
/// such files (open(2), O_TMPFILE).
fn open_nameless(folder: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    rustix::fs::open(folder, flags, mode).ok().map(File::from)
}

/// Creates a file, and never follows a link that somebody has put there.
fn create_new(path: &Path) -> io::Result<File> {
    let create = || File::options().write(true).create_new(true).open(path);
    match create() {
        // A killed process with this number left it. If it is a link, the link is removed, and its target stays.
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            create()
        }
        other => other,
    }
}

/// Gives a file without a name one (linkat(2)).
fn link_name(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD};
    // A killed process with this number may have left one.
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

/// Writes a new file with the owner and rights of the old one, under the temporary name: linkat(2) replaces no file, so the
/// caller renames it.
fn write_and_name(
    aside: &Path,
    file: &Path,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let nameless = open_nameless(folder_of(file));
    let is_nameless = nameless.is_some();
    let new = match nameless {
        Some(new) => new,
        None => create_new(aside)?,
    };
    // The new file has the owner and rights of the old one from the first byte on, so that nobody else may read it.
    if let Ok(old) = fs::metadata(file) {
        // Only root may give files away, so this may fail.
        let _ = std::os::unix::fs::fchown(&new, Some(old.uid()), Some(old.gid()));
        new.set_permissions(old.permissions())?;
    }
    let mut out = BufWriter::new(new);
    write(&mut out)?;
    let new = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    if is_nameless {
        link_name(&new, aside)?;
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
        if open_nameless(dir.path()).is_some() {
            let new = Replace::new(Some(&file)).expect("it can be written");
            let written = new.write(|_| {
                assert_eq!(names(dir.path()).len(), 2);
                Ok(())
            });
            written.expect("written");
        }
    }

    /// Check that a link stays a link, that a device is written to and not replaced, and that a path which can't
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
