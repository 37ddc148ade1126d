//! Making the changes, and taking them back.
//!
//! What every file said goes into the undo file first, and that to the disk; then the changes are made.
//! So whenever quell ends, the undo file has all that is needed. To undo twice does no harm.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use quell_host::under;
use serde::{Deserialize, Serialize};

use crate::finding::{Finding, Status};
use crate::fix::Fix;

/// Of the undo file's schema.
const SCHEMA: &str = "quell/undo/1";

/// One file that is to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The rule that asks for it.
    pub rule: String,
    /// The file.
    pub path: String,
    /// What it says, and what is written to take the change back.
    pub before: String,
    /// What is written.
    pub after: String,
}

/// What was, so that it can be again.
#[derive(Debug, Serialize, Deserialize)]
struct Undo {
    schema: String,
    changes: Vec<Change>,
}

/// The changes that the fixes of these findings ask for: of files only, each once, and none that says so
/// already.
///
/// # Errors
///
/// A file that is to change can't be read: what is not known can't be restored.
pub fn plan(root: &Path, findings: &[Finding]) -> Result<Vec<Change>> {
    let mut changes: Vec<Change> = Vec::new();
    for finding in findings.iter().filter(|f| f.status == Status::Hazard) {
        for (path, value) in finding.fixes.iter().filter_map(Fix::file) {
            if changes.iter().any(|c| c.path == path) {
                continue;
            }
            let before = setting(root, &path)?;
            if before == value {
                continue;
            }
            changes.push(Change {
                rule: finding.rule.to_owned(),
                path,
                before,
                after: value.to_owned(),
            });
        }
    }
    Ok(changes)
}

/// What a file is set to, in the words that it takes.
fn setting(root: &Path, path: &str) -> Result<String> {
    let text = fs::read_to_string(under(root, Path::new(path)))
        .with_context(|| format!("can't read {path}, and so could not restore it"))?;
    let text = text.trim_end_matches('\n');
    // a file that lists its choices takes the one in brackets
    let chosen = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    Ok(chosen.map_or(text, |(word, _)| word).to_owned())
}

/// Why a file was not written.
enum Unwritten {
    /// It could not be opened: it says what it said.
    Unopened(anyhow::Error),
    /// The kernel may have taken a part.
    Refused(anyhow::Error),
}

/// Makes the changes, once what was is on the disk at `undo`.
///
/// # Errors
///
/// The undo file is there already or can't be written: nothing is changed then. Or a change is refused: those
/// made before it are taken back.
pub fn apply(root: &Path, changes: &[Change], undo: &Path) -> Result<()> {
    save(changes, undo)?;
    for (i, change) in changes.iter().enumerate() {
        if let Err(unwritten) = write(root, &change.path, &change.after) {
            let (err, begun) = match unwritten {
                Unwritten::Unopened(err) => (err, i),
                Unwritten::Refused(err) => (err, i + 1),
            };
            let back = restore(root, &changes[..begun]).map(|_| ());
            return match back {
                Ok(()) => {
                    // nothing is left to undo
                    let _ = fs::remove_file(undo);
                    Err(err.context("nothing was changed: what was, was restored"))
                }
                Err(worse) => Err(err.context(format!(
                    "and not all could be restored ({worse:#}): run 'quell doctor --undo {}'",
                    undo.display()
                ))),
            };
        }
    }
    Ok(())
}

/// The undo file, whole and on the disk.
fn save(changes: &[Change], undo: &Path) -> Result<()> {
    let text = serde_json::to_string_pretty(&Undo {
        schema: SCHEMA.to_owned(),
        changes: changes.to_vec(),
    })?;
    let mut options = File::options();
    // --undo believes it, and may be root
    options.write(true).create_new(true).mode(0o600);
    let mut file = match options.open(undo) {
        Ok(file) => file,
        Err(err) if err.kind() == ErrorKind::AlreadyExists => bail!(
            "{} has what was before an earlier change: undo that first ('quell doctor --undo {0}'), or name \
             another file",
            undo.display()
        ),
        Err(err) => return Err(err).with_context(|| format!("can't write {}", undo.display())),
    };
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| File::open(folder(undo))?.sync_all());
    written.with_context(|| format!("can't write {}; nothing was changed", undo.display()))
}

fn folder(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|f| !f.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

fn write(root: &Path, path: &str, value: &str) -> Result<(), Unwritten> {
    // never made: a setting that isn't there can't be set
    let mut file = File::options()
        .write(true)
        .truncate(true)
        .open(under(root, Path::new(path)))
        .with_context(|| format!("can't change {path}"))
        .map_err(Unwritten::Unopened)?;
    file.write_all(format!("{value}\n").as_bytes())
        .with_context(|| format!("the kernel refused '{value}' for {path}"))
        .map_err(Unwritten::Refused)
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// It says what it said.
    Is(Change),
    /// The file is gone, and with it what was changed: a device, a CPU or a file system that was taken away.
    Gone(Change),
}

/// The last change first.
fn restore(root: &Path, changes: &[Change]) -> Result<Vec<Restored>> {
    let mut all = Vec::new();
    let mut first = Ok(());
    for change in changes.iter().rev() {
        if !under(root, Path::new(&change.path)).exists() {
            all.push(Restored::Gone(change.clone()));
            continue;
        }
        if !setting(root, &change.path).is_ok_and(|now| now == change.before) {
            // the others are restored all the same
            if let Err(Unwritten::Unopened(err) | Unwritten::Refused(err)) =
                write(root, &change.path, &change.before)
            {
                first = first.and(Err(err));
                continue;
            }
        }
        all.push(Restored::Is(change.clone()));
    }
    all.reverse();
    first.map(|()| all)
}

/// An undo file, if it is the user's own: whoever could write it could have any setting changed.
fn read(file: &Path) -> Result<String> {
    let cannot = || format!("can't read {}", file.display());
    let mut open = File::open(file).with_context(cannot)?;
    let meta = open.metadata().with_context(cannot)?;
    ensure!(meta.is_file(), "{} is no file", file.display());
    let own = rustix::process::geteuid().as_raw();
    ensure!(
        meta.uid() == own && meta.mode() & 0o022 == 0,
        "{} is not yours alone to write (owner {}, mode {:o}): nothing was changed",
        file.display(),
        meta.uid(),
        meta.mode() & 0o777
    );
    let mut text = String::new();
    open.read_to_string(&mut text).with_context(cannot)?;
    Ok(text)
}

/// Takes back what an undo file tells, and removes it when all is as it was. Returns what became of each change.
///
/// # Errors
///
/// It is no undo file, or not all could be restored: then it stays.
pub fn undo(root: &Path, file: &Path) -> Result<Vec<Restored>> {
    let text = read(file)?;
    let undo: Undo = serde_json::from_str(&text)
        .with_context(|| format!("{} is no undo file of quell's", file.display()))?;
    ensure!(
        undo.schema == SCHEMA,
        "{} is of another version: '{}'",
        file.display(),
        undo.schema
    );
    let ours = |path: &str| {
        (path.starts_with("/proc/sys/") || path.starts_with("/sys/")) && !path.contains("/../")
    };
    if let Some(foreign) = undo.changes.iter().find(|c| !ours(&c.path)) {
        bail!(
            "{} names {}, which is no setting of the kernel's: nothing was changed",
            file.display(),
            foreign.path
        );
    }
    let restored = restore(root, &undo.changes)?;
    fs::remove_file(file)
        .with_context(|| format!("all is as it was, but {} can't be removed", file.display()))?;
    Ok(restored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    const STAT: &str = "/proc/sys/vm/stat_interval";

    fn machine() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [(THP, "[always] madvise never\n"), (STAT, "1\n")] {
            let path = under(dir.path(), Path::new(path));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    fn change(path: &str, before: &str, after: &str) -> Change {
        Change {
            rule: "X".to_owned(),
            path: path.to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
        }
    }

    fn says(root: &Path, path: &str) -> String {
        fs::read_to_string(under(root, Path::new(path))).unwrap()
    }

    /// Check that after a change and its undo files say what they said, and that a second change needs the first undone.
    #[test]
    fn undo_restores() {
        let dir = machine();
        let undo_file = dir.path().join("undo.json");
        let changes = [change(THP, "always", "madvise"), change(STAT, "1", "120")];
        apply(dir.path(), &changes, &undo_file).unwrap();
        assert_eq!(says(dir.path(), STAT), "120\n");
        assert_eq!(says(dir.path(), THP), "madvise\n");
        let again = apply(dir.path(), &changes, &undo_file).unwrap_err();
        assert!(
            format!("{again:#}").contains("undo that first"),
            "{again:#}"
        );
        undo(dir.path(), &undo_file).unwrap();
        assert_eq!(says(dir.path(), STAT), "1\n");
        assert_eq!(says(dir.path(), THP), "always\n");
        assert!(!undo_file.exists());
    }

    /// Check that a change that is refused takes back those before it, and leaves no undo file.
    #[test]
    fn a_refusal_takes_all_back() {
        let dir = machine();
        let undo_file = dir.path().join("undo.json");
        let changes = [change(STAT, "1", "120"), change("/sys/missing", "a", "b")];
        let err = apply(dir.path(), &changes, &undo_file).unwrap_err();
        assert!(format!("{err:#}").contains("/sys/missing"), "{err:#}");
        assert_eq!(says(dir.path(), STAT), "1\n");
        assert!(!undo_file.exists());
    }

    /// Check that a file that went away after it was changed keeps the others from nothing.
    #[test]
    fn what_is_gone_is_told() {
        let dir = machine();
        let undo_file = dir.path().join("undo.json");
        let changes = [change(STAT, "1", "120"), change(THP, "always", "never")];
        apply(dir.path(), &changes, &undo_file).unwrap();
        fs::remove_file(under(dir.path(), Path::new(THP))).unwrap();
        let restored = undo(dir.path(), &undo_file).unwrap();
        let [stat, thp] = changes;
        assert_eq!(restored, [Restored::Is(stat), Restored::Gone(thp)]);
        assert_eq!(says(dir.path(), STAT), "1\n");
        assert!(!undo_file.exists());
    }

    /// Check that an undo file that others could have written is refused, and that ours is for us alone.
    #[test]
    fn undo_files_of_others() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = machine();
        let file = dir.path().join("undo.json");
        save(&[change(STAT, "9", "1")], &file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        for mode in [0o620, 0o602] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let err = undo(dir.path(), &file).unwrap_err();
            assert!(format!("{err:#}").contains("not yours alone"), "{err:#}");
        }
        assert_eq!(says(dir.path(), STAT), "1\n");
    }

    /// Check that an undo file that names anything but settings is refused as a whole.
    #[test]
    fn only_settings_are_restored() {
        let dir = machine();
        let file = dir.path().join("undo.json");
        for path in ["/etc/passwd", "/sys/../etc/passwd"] {
            let _ = fs::remove_file(&file);
            save(&[change(STAT, "9", "1"), change(path, "x", "y")], &file).unwrap();
            let err = undo(dir.path(), &file).unwrap_err();
            assert!(format!("{err:#}").contains("no setting"), "{err:#}");
            assert_eq!(says(dir.path(), STAT), "1\n");
        }
        fs::write(&file, "{}").unwrap();
        assert!(undo(dir.path(), &file).is_err());
    }

    proptest! {
        /// Check that wherever quell dies between the first change and the last, the undo file restores all.
        #[test]
        fn a_crash_loses_nothing(done in 0usize..3) {
            let dir = machine();
            let undo_file = dir.path().join("undo.json");
            let changes = [change(THP, "always", "never"), change(STAT, "1", "120")];
            save(&changes, &undo_file).unwrap();
            for change in &changes[..done.min(2)] {
                prop_assert!(write(dir.path(), &change.path, &change.after).is_ok());
            }
            undo(dir.path(), &undo_file).unwrap();
            prop_assert_eq!(says(dir.path(), STAT), "1\n");
            prop_assert_eq!(setting(dir.path(), THP).unwrap(), "always");
        }
    }
}
