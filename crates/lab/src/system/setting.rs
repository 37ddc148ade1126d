//! Settings of the kernel's: files that hold a value, which is written back exactly as it was.

use std::fs;
use std::io;
use std::path::Path;

use super::{Undo, told, write};

/// Where KSM is set (Documentation/admin-guide/mm/ksm.rst).
const KSM: &str = "/sys/kernel/mm/ksm";

/// How ksmd is set to be quick: a round takes some ms then, where by default it looks at 5,000 pages a second.
/// An advisor (Linux 6.8) would choose the number of pages itself and refuses to be told; `smart_scan` (Linux 6.7) would
/// pass over pages that were not merged lately, for up to 8 rounds. Kernels before have no such files, and need none.
const QUICK: [(&str, &str, bool); 4] = [
    ("advisor_mode", "none", false),
    ("pages_to_scan", "300", true),
    ("sleep_millisecs", "2", true),
    ("smart_scan", "0", false),
];

const NUMA_BALANCING: &str = "/proc/sys/kernel/numa_balancing";

/// Has ksmd run, and quickly.
pub(super) fn ksm_on(undo: &mut Vec<Undo>) -> io::Result<()> {
    ksm_on_in(Path::new(KSM), undo)
}

fn ksm_on_in(folder: &Path, undo: &mut Vec<Undo>) -> io::Result<()> {
    let run = folder.join("run");
    let old = read(&run)?;
    let shared = folder.join("pages_shared");
    let merged = read(&shared)?;
    // To stop ksmd leaves merged what it has merged, of whatever process; to undo that is all or nothing. So it is
    // started only where nothing is merged yet, and all of it is undone.
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
    for (name, value, must) in QUICK {
        let path = folder.join(name);
        if must || path.exists() {
            set(&path, value, undo)?;
        }
    }
    if old != "1" {
        // 2 undoes what was merged meanwhile (Documentation/admin-guide/mm/ksm.rst)
        let mut back = vec!["2".to_owned()];
        if old != "2" {
            back.push(old);
        }
        undo.push(Undo::Write(run.clone(), back));
        write(&run, "1")?;
    }
    Ok(())
}

/// Whether ksmd runs as it would be set to.
pub(super) fn ksm_is_on() -> bool {
    let is = |name: &str, value: &str, must: bool| match read(&Path::new(KSM).join(name)) {
        Ok(text) => text == value,
        Err(_) => !must,
    };
    is("run", "1", true)
        && QUICK
            .iter()
            .all(|(name, value, must)| is(name, value, *must))
}

/// Turns NUMA balancing on.
pub(super) fn numa_balancing_on(undo: &mut Vec<Undo>) -> io::Result<()> {
    // one node needs none, and that is said by whoever needs it
    if Path::new(NUMA_BALANCING).exists() {
        set(Path::new(NUMA_BALANCING), "1", undo)?;
    }
    Ok(())
}

/// Whether it is on.
pub(super) fn numa_balancing_is_on() -> bool {
    fs::read_to_string(NUMA_BALANCING).is_ok_and(|text| text.trim() == "1")
}

/// Writes a value where there is another, and keeps what there was.
fn set(path: &Path, value: &str, undo: &mut Vec<Undo>) -> io::Result<()> {
    let old = read(path)?;
    if old == value {
        return Ok(());
    }
    // first, so that a write that is half done is taken back too
    undo.push(Undo::Write(path.to_owned(), vec![old]));
    write(path, value)
}

/// What a file says; of several words the one in brackets, which is how the kernel marks the one that is chosen.
fn read(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path).map_err(|err| told("read", path, &err))?;
    let chosen = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    Ok(chosen.unwrap_or_else(|| text.trim_end()).to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::all_back;
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
        all_back(undo).unwrap();
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
            let texts = |step: &Undo| match step {
                Undo::Write(path, texts) if path.ends_with("run") => texts.join(" then "),
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
