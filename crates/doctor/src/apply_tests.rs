//! Changes are made, taken back, and refused.

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

fn change(path: &str, before: &str, after: &str) -> SettingChange {
    SettingChange {
        rule: "X".to_owned(),
        path: path.to_owned(),
        before: before.to_owned(),
        after: after.to_owned(),
    }
}

fn apply(root: &Path, changes: &[SettingChange], undo: &Path) -> Result<()> {
    save_undo(changes, undo)?;
    make_changes(root, changes, undo)
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
    undo_changes(dir.path(), &undo_file).unwrap();
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

/// Check that a file that went away after it was changed keeps the others from nothing, and is restored when it is back.
#[test]
fn what_is_gone_is_told() {
    let dir = machine();
    let undo_file = dir.path().join("undo.json");
    let changes = [change(STAT, "1", "120"), change(THP, "always", "never")];
    apply(dir.path(), &changes, &undo_file).unwrap();
    fs::remove_file(under(dir.path(), Path::new(THP))).unwrap();
    let restored = undo_changes(dir.path(), &undo_file).unwrap();
    let [stat, thp] = changes;
    assert_eq!(
        restored,
        [
            RestoreOutcome::AsBefore(stat.clone()),
            RestoreOutcome::Gone(thp.clone())
        ]
    );
    assert_eq!(says(dir.path(), STAT), "1\n");
    assert!(undo_file.exists());
    fs::write(under(dir.path(), Path::new(THP)), "never\n").unwrap();
    let restored = undo_changes(dir.path(), &undo_file).unwrap();
    assert_eq!(
        restored,
        [
            RestoreOutcome::AsBefore(stat),
            RestoreOutcome::AsBefore(thp)
        ]
    );
    assert_eq!(says(dir.path(), THP), "always\n");
    assert!(!undo_file.exists());
}

/// Check that a file that can't be looked for keeps the others from nothing, and the undo file where it is.
#[test]
fn what_cannot_be_looked_for_stops_nothing() {
    let dir = machine();
    let undo_file = dir.path().join("undo.json");
    let changes = [change(STAT, "1", "120"), change(THP, "always", "never")];
    apply(dir.path(), &changes, &undo_file).unwrap();
    let thp = under(dir.path(), Path::new(THP));
    fs::remove_dir_all(thp.parent().unwrap()).unwrap();
    fs::write(thp.parent().unwrap(), "no folder").unwrap();
    let err = undo_changes(dir.path(), &undo_file).unwrap_err();
    assert!(format!("{err:#}").contains(THP), "{err:#}");
    assert_eq!(says(dir.path(), STAT), "1\n");
    assert!(undo_file.exists());
}

/// Check that what somebody has changed since is restored too, and told.
#[test]
fn what_was_changed_again_is_told() {
    let dir = machine();
    let undo_file = dir.path().join("undo.json");
    let changes = [change(STAT, "1", "120"), change(THP, "always", "never")];
    apply(dir.path(), &changes, &undo_file).unwrap();
    fs::write(under(dir.path(), Path::new(STAT)), "60\n").unwrap();
    let restored = undo_changes(dir.path(), &undo_file).unwrap();
    let [stat, thp] = changes;
    assert_eq!(
        restored,
        [
            RestoreOutcome::ChangedAgain(stat, "60".to_owned()),
            RestoreOutcome::AsBefore(thp)
        ]
    );
    assert_eq!(says(dir.path(), STAT), "1\n");
}

/// Check that an undo file that others could have written is refused, and that ours is for us alone.
#[test]
fn undo_files_of_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = machine();
    let file = dir.path().join("undo.json");
    save_undo(&[change(STAT, "9", "1")], &file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    for mode in [0o620, 0o602] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let err = undo_changes(dir.path(), &file).unwrap_err();
        assert!(format!("{err:#}").contains("not yours alone"), "{err:#}");
    }
    assert_eq!(says(dir.path(), STAT), "1\n");
}

/// Check that a pipe is refused and not waited for, and a link is not followed.
#[test]
fn undo_files_are_files() {
    let dir = machine();
    let pipe = dir.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let err = undo_changes(dir.path(), &pipe).unwrap_err();
    assert!(format!("{err:#}").contains("is no file"), "{err:#}");
    let (file, link) = (dir.path().join("undo.json"), dir.path().join("link"));
    save_undo(&[change(STAT, "9", "1")], &file).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let err = undo_changes(dir.path(), &link).unwrap_err();
    assert!(format!("{err:#}").contains("symbolic link"), "{err:#}");
    assert_eq!(says(dir.path(), STAT), "1\n");
    assert!(check_undo_path(&dir.path().join("new")).is_ok());
    assert!(check_undo_path(&file).is_err());
}

/// Check that an undo file that names anything but settings is refused as a whole.
#[test]
fn only_settings_are_restored() {
    let dir = machine();
    let file = dir.path().join("undo.json");
    for path in ["/etc/passwd", "/sys/../etc/passwd", "/sys/a\u{1b}[2J\nb"] {
        let _ = fs::remove_file(&file);
        save_undo(&[change(STAT, "9", "1"), change(path, "x", "y")], &file).unwrap();
        let err = undo_changes(dir.path(), &file).unwrap_err();
        let said = format!("{err:#}");
        assert!(
            said.contains("no setting") && said.chars().all(is_plain),
            "{said}"
        );
        assert_eq!(says(dir.path(), STAT), "1\n");
    }
    fs::write(&file, "{}").unwrap();
    assert!(undo_changes(dir.path(), &file).is_err());
}

proptest! {
    /// Check that wherever quell dies between the first change and the last, the undo file restores all.
    #[test]
    fn a_crash_loses_nothing(done in 0usize..3) {
        let dir = machine();
        let undo_file = dir.path().join("undo.json");
        let changes = [change(THP, "always", "never"), change(STAT, "1", "120")];
        save_undo(&changes, &undo_file).unwrap();
        for change in &changes[..done.min(2)] {
            prop_assert!(write_setting(dir.path(), &change.path, &change.after).is_ok());
        }
        undo_changes(dir.path(), &undo_file).unwrap();
        prop_assert_eq!(says(dir.path(), STAT), "1\n");
        prop_assert_eq!(read_setting(dir.path(), THP).unwrap(), "always");
    }
}
