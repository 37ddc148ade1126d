//! Making the changes, and taking them back.
//!
//! The old values of all files go into the undo file first, and that to the disk; then the changes are made.
//! So whenever quell ends, the undo file has all that is needed. To undo twice does no harm.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use quell_event::Text;
use quell_event::text::is_plain;
use quell_host::under;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::finding::{Finding, FindingStatus};
use crate::fix::Fix;

/// Of the undo file's schema.
const UNDO_SCHEMA: &str = "quell/undo/1";

/// The file systems that hold settings, by linux/magic.h: proc, sysfs, debugfs, cgroup and cgroup2. A folder below /sys
/// may have another, such as the tmpfs of cgroup v1, and a link there leads anywhere.
const SETTING_FILE_SYSTEMS: [rustix::fs::FsWord; 5] =
    [0x9fa0, 0x6265_6572, 0x6462_6720, 0x0027_e0eb, 0x6367_7270];

/// One file that is to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// The rule that asks for it.
    pub rule: String,
    /// The file.
    pub path: String,
    /// Its value before, which is written to take the change back.
    pub before: String,
    /// The value that is written.
    pub after: String,
}

/// The values before the changes, so that they can be restored.
#[derive(Debug, Serialize, Deserialize)]
struct UndoFile {
    schema: String,
    changes: Vec<SettingChange>,
}

/// The changes that the fixes of these findings ask for: of files only, each once, and none that says so
/// already.
///
/// # Errors
///
/// A file that is to change can't be read: a value that is not known can't be restored.
pub fn plan_changes(root: &Path, findings: &[Finding]) -> Result<Vec<SettingChange>> {
    let mut changes: Vec<SettingChange> = Vec::new();
    for finding in findings
        .iter()
        .filter(|f| f.status == FindingStatus::Hazard)
    {
        for (path, value) in finding.fixes.iter().filter_map(Fix::file_and_value) {
            if changes.iter().any(|c| c.path == path) {
                continue;
            }
            let before = read_setting(root, &path)?;
            if before == value {
                continue;
            }
            changes.push(SettingChange {
                rule: finding.rule.to_owned(),
                path,
                before,
                after: value.to_owned(),
            });
        }
    }
    Ok(changes)
}

/// The value of a file, in the words that it takes.
fn read_setting(root: &Path, path: &str) -> Result<String> {
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
enum WriteFailure {
    /// It could not be opened: its value is unchanged.
    Unopened(anyhow::Error),
    /// The kernel may have taken a part.
    Refused(anyhow::Error),
}

/// Makes the changes, once [`save_undo`] has put the old values on the disk at `undo`.
///
/// # Errors
///
/// A change is refused: those made before it are taken back.
pub fn make_changes(root: &Path, changes: &[SettingChange], undo: &Path) -> Result<()> {
    for (i, change) in changes.iter().enumerate() {
        if let Err(unwritten) = write_setting(root, &change.path, &change.after) {
            let (err, begun) = match unwritten {
                WriteFailure::Unopened(err) => (err, i),
                WriteFailure::Refused(err) => (err, i + 1),
            };
            let back = restore_changes(root, &changes[..begun]).map(|_| ());
            return match back {
                Ok(()) => {
                    // nothing is left to undo
                    let _ = fs::remove_file(undo);
                    Err(err.context(format!(
                        "nothing was changed: what was, was restored, and {} removed",
                        undo.display()
                    )))
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

/// Whether an undo file can be written there.
///
/// # Errors
///
/// One is there already: it has the values before an earlier change.
pub fn check_undo_path(undo: &Path) -> Result<()> {
    match fs::symlink_metadata(undo) {
        Ok(found) if found.is_file() => bail!(undo_exists_message(undo)),
        Ok(_) => bail!(
            "{} is there and no undo file: name another file",
            undo.display()
        ),
        Err(_) => Ok(()),
    }
}

fn undo_exists_message(undo: &Path) -> String {
    format!(
        "{} has what was before an earlier change: undo that first ('quell doctor --undo {0}'), or name another file",
        undo.display()
    )
}

/// Writes the undo file, whole and to the disk.
///
/// # Errors
///
/// It is there already or can't be written: nothing is to be changed then.
pub fn save_undo(changes: &[SettingChange], undo: &Path) -> Result<()> {
    let text = serde_json::to_string_pretty(&UndoFile {
        schema: UNDO_SCHEMA.to_owned(),
        changes: changes.to_vec(),
    })?;
    let mut options = File::options();
    // --undo believes it, and may be root
    options.write(true).create_new(true).mode(0o600);
    let mut file = match options.open(undo) {
        Ok(file) => file,
        Err(err) if err.kind() == ErrorKind::AlreadyExists => bail!(undo_exists_message(undo)),
        Err(err) => return Err(err).with_context(|| format!("can't write {}", undo.display())),
    };
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| File::open(folder_of(undo))?.sync_all());
    if written.is_err() {
        // ours, and of no use
        let _ = fs::remove_file(undo);
    }
    written.with_context(|| format!("can't write {}; nothing was changed", undo.display()))
}

fn folder_of(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|f| !f.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// Opens a setting to be written: never made, because one that isn't there can't be set, and not through a link, because
/// no setting is one. Folders on the way may be links, as of cgroup v1, so the opened file says where they led; only then
/// is it emptied.
fn open_setting(root: &Path, path: &str) -> Result<File> {
    // a pipe is not waited for
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let mut options = File::options();
    options.write(true).custom_flags(flags.bits().cast_signed());
    let file = options.open(under(root, Path::new(path)))?;
    // in tests settings are files
    if root == Path::new("/") {
        let of = rustix::fs::fstatfs(&file)?.f_type;
        ensure!(
            SETTING_FILE_SYSTEMS.contains(&of),
            "it is no setting of the kernel's: it lies on a file system of type {of:#x}"
        );
    }
    file.set_len(0)?;
    Ok(file)
}

fn write_setting(root: &Path, path: &str, value: &str) -> Result<(), WriteFailure> {
    let mut file = open_setting(root, path)
        .with_context(|| format!("can't change {path}"))
        .map_err(WriteFailure::Unopened)?;
    file.write_all(format!("{value}\n").as_bytes())
        .with_context(|| format!("the kernel refused '{value}' for {path}"))
        .map_err(WriteFailure::Refused)
}

/// The outcome of taking one change back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreOutcome {
    /// It has its old value.
    AsBefore(SettingChange),
    /// The same, and meanwhile it did not have the value that was written: somebody has changed it again.
    ChangedAgain(SettingChange, String),
    /// The file is not there: a device, a CPU or a file system was taken away, or is for the moment.
    Gone(SettingChange),
}

/// The last change first.
fn restore_changes(root: &Path, changes: &[SettingChange]) -> Result<Vec<RestoreOutcome>> {
    let mut all = Vec::new();
    let mut first = Ok(());
    for change in changes.iter().rev() {
        // a file that can't be looked for can't be written either, and that is told below
        if let Ok(false) = under(root, Path::new(&change.path)).try_exists() {
            all.push(RestoreOutcome::Gone(change.clone()));
            continue;
        }
        let now = read_setting(root, &change.path).ok();
        if now.as_ref() != Some(&change.before) {
            // the others are restored all the same
            if let Err(WriteFailure::Unopened(err) | WriteFailure::Refused(err)) =
                write_setting(root, &change.path, &change.before)
            {
                first = first.and(Err(err));
                continue;
            }
        }
        all.push(match now {
            Some(now) if now != change.before && now != change.after => {
                RestoreOutcome::ChangedAgain(change.clone(), now)
            }
            _ => RestoreOutcome::AsBefore(change.clone()),
        });
    }
    first?;
    // Once all is written: a setting may have undone another, and some files take values that they then ignore.
    for restored in &all {
        let (RestoreOutcome::AsBefore(change) | RestoreOutcome::ChangedAgain(change, _)) = restored
        else {
            continue;
        };
        let now = read_setting(root, &change.path)?;
        ensure!(
            now == change.before,
            "{} says {now} though {} was written",
            change.path,
            change.before
        );
    }
    all.reverse();
    Ok(all)
}

/// An undo file, if it is the user's own: whoever could write it could have any setting changed.
fn read_own_file(file: &Path) -> Result<String> {
    let cannot = || format!("can't read {}", file.display());
    // not through a link, which others may turn, and without waiting for a pipe that nobody writes to
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let open = File::options().read(true).custom_flags(flags).open(file);
    let mut open = match open {
        Err(err) if err.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            bail!(
                "{} is a symbolic link: name the file itself",
                file.display()
            );
        }
        open => open.with_context(cannot)?,
    };
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

/// Takes back the changes of an undo file, and removes it when all is as it was: it stays while a file is not there that may
/// come back. Returns the outcome of each change.
///
/// # Errors
///
/// It is no undo file, or not all could be restored: then it stays.
pub fn undo_changes(root: &Path, file: &Path) -> Result<Vec<RestoreOutcome>> {
    let undo = load_undo(file)?;
    let restored = restore_changes(root, &undo.changes)?;
    if restored
        .iter()
        .any(|r| matches!(r, RestoreOutcome::Gone(_)))
    {
        return Ok(restored);
    }
    fs::remove_file(file)
        .with_context(|| format!("all is as it was, but {} can't be removed", file.display()))?;
    Ok(restored)
}

/// Whether [`undo_changes`] would take this file.
///
/// # Errors
///
/// It is no undo file, or not the user's own.
pub fn check_undo_file(file: &Path) -> Result<()> {
    load_undo(file).map(|_| ())
}

fn load_undo(file: &Path) -> Result<UndoFile> {
    let text = read_own_file(file)?;
    let undo: UndoFile = serde_json::from_str(&text).with_context(|| {
        format!(
            "{} is no undo file of quell's, or only the beginning of one: then nothing was changed",
            file.display()
        )
    })?;
    ensure!(
        undo.schema == UNDO_SCHEMA,
        "{} is of another version: '{}'",
        file.display(),
        Text::from(&undo.schema)
    );
    let ours = |path: &str| {
        (path.starts_with("/proc/sys/") || path.starts_with("/sys/"))
            && !path.contains("/../")
            && path.chars().all(is_plain)
    };
    if let Some(foreign) = undo.changes.iter().find(|c| !ours(&c.path)) {
        bail!(
            "{} names {}, which is no setting of the kernel's: nothing was changed",
            file.display(),
            Text::from(&foreign.path)
        );
    }
    Ok(undo)
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
