//! Settings of the kernel's: files that hold a value, which is written back exactly as it was.

use std::fs;
use std::io;
use std::path::Path;

use super::{Undo, told, write};

/// Where KSM is set (Documentation/admin-guide/mm/ksm.rst).
const KSM: &str = "/sys/kernel/mm/ksm";

/// How KSM is set: a round takes some ms then, where by default it looks at 5,000 pages a second. What is set last
/// starts it. `smart_scan` (Linux 6.7) would pass over pages that were not merged lately, for up to 8 rounds; kernels
/// before have no such file, and need none.
const KSM_SET: [(&str, &str, bool); 4] = [
    ("pages_to_scan", "300", true),
    ("sleep_millisecs", "2", true),
    ("smart_scan", "0", false),
    ("run", "1", true),
];

/// Where khugepaged is set (Documentation/admin-guide/mm/transhuge.rst).
const KHUGEPAGED: &str = "/sys/kernel/mm/transparent_hugepage/khugepaged";

/// How khugepaged is set: it looks at 64 MB every ms, where by default it looks at 16 MB every ten seconds. What is set
/// last wakes it.
const KHUGEPAGED_SET: [(&str, &str, bool); 3] = [
    ("pages_to_scan", "16384", true),
    ("alloc_sleep_millisecs", "1", true),
    ("scan_sleep_millisecs", "1", true),
];

const NUMA_BALANCING: &str = "/proc/sys/kernel/numa_balancing";

/// Has ksmd run, and quickly.
pub(super) fn ksm_on(undo: &mut Vec<Undo>) -> io::Result<()> {
    set_all(Path::new(KSM), &KSM_SET, undo)
}

/// Has khugepaged look often.
pub(super) fn khugepaged_on(undo: &mut Vec<Undo>) -> io::Result<()> {
    set_all(Path::new(KHUGEPAGED), &KHUGEPAGED_SET, undo)
}

/// A file, its value, and whether every kernel has it.
type Value = (&'static str, &'static str, bool);

fn set_all(folder: &Path, values: &[Value], undo: &mut Vec<Undo>) -> io::Result<()> {
    for (name, value, must) in values {
        let path = folder.join(name);
        if *must || path.exists() {
            set(&path, value, undo)?;
        }
    }
    Ok(())
}

/// Whether ksmd runs as it would be set to.
pub(super) fn ksm_is_on() -> bool {
    are_set(Path::new(KSM), &KSM_SET)
}

/// The same of khugepaged.
pub(super) fn khugepaged_is_on() -> bool {
    are_set(Path::new(KHUGEPAGED), &KHUGEPAGED_SET)
}

fn are_set(folder: &Path, values: &[Value]) -> bool {
    values.iter().all(
        |(name, value, must)| match fs::read_to_string(folder.join(name)) {
            Ok(text) => text.trim() == *value,
            Err(_) => !must,
        },
    )
}

/// Has NUMA balancing set back in the end to what it is now, for whoever turns it on and off meanwhile.
pub(super) fn keep_numa_balancing(undo: &mut Vec<Undo>) -> io::Result<()> {
    // one node needs none, and that is said by whoever needs it
    let path = Path::new(NUMA_BALANCING);
    if path.exists() {
        keep(path, undo)?;
    }
    Ok(())
}

/// Turns NUMA balancing on or off, for who has seen to it that it is set back.
///
/// # Errors
///
/// The kernel's.
pub fn turn_numa_balancing(on: bool) -> io::Result<()> {
    write(Path::new(NUMA_BALANCING), if on { "1" } else { "0" })
}

/// Keeps what a file says, to be written back.
fn keep(path: &Path, undo: &mut Vec<Undo>) -> io::Result<()> {
    let old = fs::read_to_string(path).map_err(|err| told("read", path, &err))?;
    undo.push(Undo::Restore(path.to_owned(), old.trim_end().to_owned()));
    Ok(())
}

/// Writes a value where there is another, and keeps what there was.
fn set(path: &Path, value: &str, undo: &mut Vec<Undo>) -> io::Result<()> {
    let old = fs::read_to_string(path).map_err(|err| told("read", path, &err))?;
    let old = old.trim_end();
    if old == value {
        return Ok(());
    }
    // first, so that a write that is half done is taken back too
    undo.push(Undo::Restore(path.to_owned(), old.to_owned()));
    write(path, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a value is written back that others have changed and set again, whatever it was.
    #[test]
    fn what_is_kept_comes_back() {
        let name = format!("quell-lab-kept-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        for value in ["0\n", "1\n", "2\n"] {
            fs::write(&path, value).unwrap();
            let mut undo = Vec::new();
            keep(&path, &mut undo).unwrap();
            for on in ["1", "0"] {
                write(&path, on).unwrap();
            }
            for step in undo {
                step.take_back().unwrap();
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), value.trim_end());
        }
        fs::remove_file(&path).unwrap();
        assert!(keep(&path, &mut Vec::new()).is_err());
    }

    /// Check that all that was set is as before when it is taken back in reverse, that what is the same is left
    /// alone, and that a file that only newer kernels have may be missing, but no other.
    #[test]
    fn settings_come_back() {
        let folder = std::env::temp_dir().join(format!("quell-lab-setting-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let files = [
            ("run", "2\n"),
            ("pages_to_scan", "100\n"),
            ("sleep_millisecs", "2\n"),
        ];
        for (name, value) in files {
            fs::write(folder.join(name), value).unwrap();
        }
        let mut undo = Vec::new();
        set_all(&folder, &KSM_SET, &mut undo).unwrap();
        let says = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(["run", "pages_to_scan"].map(says), ["1", "300"]);
        assert_eq!(undo.len(), 2);
        for step in undo.drain(..).rev() {
            step.take_back().unwrap();
        }
        for (name, value) in files {
            assert_eq!(says(name).trim_end(), value.trim_end(), "{name}");
        }
        fs::remove_file(folder.join("run")).unwrap();
        let refused = set_all(&folder, &KSM_SET, &mut undo).unwrap_err();
        assert!(refused.to_string().contains("run"), "{refused}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
