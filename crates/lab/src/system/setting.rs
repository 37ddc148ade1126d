//! Settings of the kernel: files that hold a value, which is written back exactly as it was.

use std::fs;
use std::io;
use std::path::Path;

use super::{UndoStep, file_error, write_system_file};

/// The folder of KSM's settings (Documentation/admin-guide/mm/ksm.rst).
const KSM_FOLDER: &str = "/sys/kernel/mm/ksm";

/// The settings that make ksmd quick: a round takes some ms then, where by default it looks at 5,000 pages a second. An advisor
/// (Linux 6.8) would choose the number of pages itself and refuses any other; `smart_scan` (Linux 6.7) would pass over pages that
/// were not merged lately, for up to 8 rounds. Older kernels have no such files, and need none.
const KSM_QUICK_SETTINGS: [(&str, &str, bool); 4] = [
    ("advisor_mode", "none", false),
    ("pages_to_scan", "300", true),
    ("sleep_millisecs", "2", true),
    ("smart_scan", "0", false),
];

/// The folder of khugepaged's settings (Documentation/admin-guide/mm/transhuge.rst).
const KHUGEPAGED_FOLDER: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged";

/// The settings that make khugepaged quick: it looks at 64 MB every ms, where by default it looks at 16 MB every ten seconds. The
/// last one wakes it.
const KHUGEPAGED_QUICK_SETTINGS: [(&str, &str, bool); 3] = [
    ("pages_to_scan", "16384", true),
    ("alloc_sleep_millisecs", "1", true),
    ("scan_sleep_millisecs", "1", true),
];

const NUMA_BALANCING_FILE: &str = "/proc/sys/kernel/numa_balancing";

/// Has ksmd run, and makes it quick.
pub(super) fn ksm_on(undo: &mut Vec<UndoStep>) -> io::Result<()> {
    ksm_on_in(Path::new(KSM_FOLDER), undo)
}

fn ksm_on_in(folder: &Path, undo: &mut Vec<UndoStep>) -> io::Result<()> {
    let run = folder.join("run");
    let old = read_value(&run)?;
    let shared = folder.join("pages_shared");
    let merged = read_value(&shared)?;
    // To stop ksmd leaves all its merged pages merged, of whatever process; to undo that is all or nothing. So it is started only
    // where nothing is merged yet, and all of it is undone.
    if old != "1" && merged != "0" {
        return Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!(
                "ksmd is stopped, and {merged} pages that it has merged are in use ({}): what the experiment would merge \
                 could not be undone without them; 'echo 2 > {}' undoes them",
                shared.display(),
                run.display()
            ),
        ));
    }
    set_all(folder, &KSM_QUICK_SETTINGS, undo)?;
    if old != "1" {
        // 2 undoes the merges since then (Documentation/admin-guide/mm/ksm.rst).
        let mut back = vec!["2".to_owned()];
        if old != "2" {
            back.push(old);
        }
        undo.push(UndoStep::Write(run.clone(), back));
        write_system_file(&run, "1")?;
    }
    Ok(())
}

/// Makes khugepaged quick.
pub(super) fn khugepaged_on(undo: &mut Vec<UndoStep>) -> io::Result<()> {
    set_all(
        Path::new(KHUGEPAGED_FOLDER),
        &KHUGEPAGED_QUICK_SETTINGS,
        undo,
    )
}

/// A file, its value, and whether every kernel has it.
type QuickSetting = (&'static str, &'static str, bool);

fn set_all(folder: &Path, values: &[QuickSetting], undo: &mut Vec<UndoStep>) -> io::Result<()> {
    for (name, value, must) in values {
        let path = folder.join(name);
        if *must || path.exists() {
            set_value(&path, value, undo)?;
        }
    }
    Ok(())
}

/// Whether ksmd runs with the settings that make it quick.
pub(super) fn ksm_is_on() -> bool {
    let folder = Path::new(KSM_FOLDER);
    read_value(&folder.join("run")).is_ok_and(|run| run == "1")
        && are_set(folder, &KSM_QUICK_SETTINGS)
}

/// Whether khugepaged has the settings that make it quick.
pub(super) fn khugepaged_is_on() -> bool {
    are_set(Path::new(KHUGEPAGED_FOLDER), &KHUGEPAGED_QUICK_SETTINGS)
}

fn are_set(folder: &Path, values: &[QuickSetting]) -> bool {
    values
        .iter()
        .all(|(name, value, must)| match read_value(&folder.join(name)) {
            Ok(text) => text == *value,
            Err(_) => !must,
        })
}

/// Has NUMA balancing set back in the end to its present value, for a caller that turns it on and off meanwhile.
pub(super) fn keep_numa_balancing(undo: &mut Vec<UndoStep>) -> io::Result<()> {
    // A machine of one node has no such file; the mechanism says that it lacks nodes.
    let path = Path::new(NUMA_BALANCING_FILE);
    if path.exists() {
        keep_value(path, undo)?;
    }
    Ok(())
}

/// Turns NUMA balancing on or off, for a caller that has it set back.
///
/// # Errors
///
/// The kernel's.
pub fn turn_numa_balancing(on: bool) -> io::Result<()> {
    write_system_file(Path::new(NUMA_BALANCING_FILE), if on { "1" } else { "0" })
}

/// Keeps the contents of a file, to be written back.
fn keep_value(path: &Path, undo: &mut Vec<UndoStep>) -> io::Result<()> {
    let old = fs::read_to_string(path).map_err(|err| file_error("read", path, &err))?;
    undo.push(UndoStep::Write(
        path.to_owned(),
        vec![old.trim_end().to_owned()],
    ));
    Ok(())
}

/// Writes a value where the present one differs, and keeps the old one.
fn set_value(path: &Path, value: &str, undo: &mut Vec<UndoStep>) -> io::Result<()> {
    let old = read_value(path)?;
    if old == value {
        return Ok(());
    }
    // The step is kept first, so that a write that is half done is taken back too.
    undo.push(UndoStep::Write(path.to_owned(), vec![old]));
    write_system_file(path, value)
}

/// The value in a file; of several words the one in brackets, which is how the kernel marks the chosen one.
fn read_value(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path).map_err(|err| file_error("read", path, &err))?;
    let chosen = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    Ok(chosen.unwrap_or_else(|| text.trim_end()).to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::take_all_back;
    use super::*;

    /// A folder as the kernel's, with these files.
    fn folder(name: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("quell-lab-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (name, value) in files {
            fs::write(folder.join(name), value).unwrap();
        }
        folder
    }

    /// Check that a value is written back that others have changed and set again, whatever it was.
    #[test]
    fn what_is_kept_comes_back() {
        let name = format!("quell-lab-kept-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        for value in ["0\n", "1\n", "2\n"] {
            fs::write(&path, value).unwrap();
            let mut undo = Vec::new();
            keep_value(&path, &mut undo).unwrap();
            for on in ["1", "0"] {
                write_system_file(&path, on).unwrap();
            }
            take_all_back(undo).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), value.trim_end());
        }
        fs::remove_file(&path).unwrap();
        assert!(keep_value(&path, &mut Vec::new()).is_err());
    }

    /// Check that all that was set is as before when it is taken back in reverse, that what is the same is left
    /// alone, and that a file that only newer kernels have may be missing, but no other.
    #[test]
    fn settings_come_back() {
        let files = [
            ("run", "0\n"),
            ("pages_shared", "0\n"),
            ("pages_to_scan", "100\n"),
            ("sleep_millisecs", "2\n"),
            ("advisor_mode", "none [scan-time]\n"),
        ];
        let folder = folder("set", &files);
        let mut undo = Vec::new();
        ksm_on_in(&folder, &mut undo).unwrap();
        let says = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(["run", "pages_to_scan"].map(says), ["1", "300"]);
        assert_eq!(says("advisor_mode"), "none");
        assert_eq!(undo.len(), 3, "{undo:?}");
        take_all_back(undo).unwrap();
        for (name, value) in &files[..4] {
            assert_eq!(says(name).trim_end(), value.trim_end(), "{name}");
        }
        assert_eq!(says("advisor_mode"), "scan-time");
        fs::remove_file(folder.join("sleep_millisecs")).unwrap();
        let refused = ksm_on_in(&folder, &mut Vec::new()).unwrap_err();
        assert!(refused.to_string().contains("sleep_millisecs"), "{refused}");
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Check that what ksmd has merged is undone where nothing was merged before and it stood still, that ksmd goes on
    /// where it ran, and that pages that others have merged are never touched.
    #[test]
    fn merged_pages_of_others_are_left() {
        let ksm = |run, shared| {
            let files = [
                ("run", run),
                ("pages_shared", shared),
                ("pages_to_scan", "300"),
                ("sleep_millisecs", "20"),
            ];
            let folder = folder("ksm", &files);
            let mut undo = Vec::new();
            let done = ksm_on_in(&folder, &mut undo);
            let now = fs::read_to_string(folder.join("run")).unwrap();
            fs::remove_dir_all(&folder).unwrap();
            let texts = |step: &UndoStep| match step {
                UndoStep::Write(path, texts) if path.ends_with("run") => texts.join(" then "),
                _ => String::new(),
            };
            let run: String = undo.iter().map(texts).collect();
            done.map(|()| (now, run)).map_err(|err| err.to_string())
        };
        let set = |now: &str, back: &str| Ok((now.to_owned(), back.to_owned()));
        assert_eq!(ksm("0\n", "0\n"), set("1", "2 then 0"));
        assert_eq!(ksm("2\n", "0\n"), set("1", "2"));
        assert_eq!(ksm("1\n", "0\n"), set("1\n", ""));
        assert_eq!(ksm("1\n", "77\n"), set("1\n", ""));
        let refused = ksm("0\n", "77\n").unwrap_err();
        assert!(refused.contains("77 pages"), "{refused}");
    }
}
