//! Looks for traces in a tree, and passes over those that are not whole.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use quell_event::Text;
use quell_event::trace::{Trace, TraceError, TraceMeta};

/// A folder with this file is taken for a trace.
const META_FILE: &str = "meta.json";
/// The files that a trace has beside its events.
const SIDE_FILES: [&str; 2] = ["processes.jsonl", "stacks.jsonl"];
/// No tree of traces is deeper; one that is leads nowhere.
const MAX_DEPTH: usize = 32;

/// A trace that is whole.
#[derive(Clone, Debug)]
pub struct FoundTrace {
    /// Its folder.
    pub dir: PathBuf,
    /// The recording's own description.
    pub meta: TraceMeta,
    /// Its events.
    pub files: Vec<PathBuf>,
}

impl FoundTrace {
    /// How long it was recorded, ns.
    #[must_use]
    pub fn traced_ns(&self) -> u64 {
        let ended = self.meta.ended.map_or(0, |e| e.monotonic_ns);
        ended.saturating_sub(self.meta.start_monotonic_ns)
    }
}

/// The traces of a folder tree.
#[derive(Debug, Default)]
pub struct TraceTree {
    /// The traces that are whole, by host and beginning.
    pub traces: Vec<FoundTrace>,
    /// How many were passed over, by why.
    pub passed: BTreeMap<&'static str, u64>,
    /// The first trace of each reason, with its fault.
    pub examples: BTreeMap<&'static str, String>,
}

impl TraceTree {
    /// How many traces were passed over.
    #[must_use]
    pub fn passed_over(&self) -> u64 {
        self.passed.values().sum()
    }

    /// Counts a trace that is passed over, and keeps the fault of the first one for each reason.
    pub fn pass_over(&mut self, why: &'static str, text: impl FnOnce() -> String) {
        *self.passed.entry(why).or_default() += 1;
        self.examples.entry(why).or_insert_with(text);
    }
}

/// Looks through a folder and all below it. Links to folders below it are not followed: they may lead in circles, or to
/// traces that are in the tree anyway.
///
/// # Errors
///
/// The folder itself can't be read.
pub fn find_traces(dir: &Path) -> io::Result<TraceTree> {
    // The root folder's error is returned, and not counted as one of many.
    fs::read_dir(dir)?;
    let mut tree = TraceTree::default();
    let mut seen = HashSet::new();
    look_through(dir, MAX_DEPTH, &mut tree, &mut seen);
    tree.traces.sort_by(|a, b| {
        let key = |f: &FoundTrace| (f.meta.host.clone(), f.meta.start_wall_ns, f.dir.clone());
        key(a).cmp(&key(b))
    });
    Ok(tree)
}

/// Two folders with the same values are one recording.
type RecordingId = (Text, u64, u64, u64);

/// Takes the folder if it is a trace. Else it looks through the folders in it, `depth` levels down at most; within a trace it
/// looks for no other.
fn look_through(dir: &Path, depth: usize, tree: &mut TraceTree, seen: &mut HashSet<RecordingId>) {
    if dir.join(META_FILE).exists() {
        return take_or_pass_over(dir, tree, seen);
    }
    let unreadable = |tree: &mut TraceTree, why: String| {
        tree.pass_over("unreadable", || format!("{}: {why}", dir.display()));
    };
    if depth == 0 {
        return unreadable(tree, "too deep".to_owned());
    }
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(err) => return unreadable(tree, err.to_string()),
    };
    let mut below: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
        .map(|e| e.path())
        .collect();
    // Sorted, so that of two copies the same one counts each time.
    below.sort();
    for dir in below {
        look_through(&dir, depth - 1, tree, seen);
    }
}

fn take_or_pass_over(dir: &Path, tree: &mut TraceTree, seen: &mut HashSet<RecordingId>) {
    let trace = match Trace::open(dir) {
        Ok(trace) => trace,
        Err(err) => {
            let why = match err.downcast_ref() {
                Some(TraceError::NotATrace(..)) => "foreign",
                Some(TraceError::Version(..)) => "of another version",
                Some(TraceError::Unreadable(..)) => "unreadable",
                _ => "damaged",
            };
            return tree.pass_over(why, || format!("{err:#}"));
        }
    };
    let meta = trace.meta();
    let Some(ended) = meta.ended else {
        return tree.pass_over("cut short", || format!("{}: it has no end", dir.display()));
    };
    let Some(files) = trace.sealed_files() else {
        return tree.pass_over("unsealed", || format!("{}: it has a tail", dir.display()));
    };
    let files = files.into_iter().map(Path::to_owned).collect();
    let same = (
        meta.host.clone(),
        meta.start_wall_ns,
        meta.start_monotonic_ns,
        ended.rows,
    );
    if seen.contains(&same) {
        return tree.pass_over("there twice", || format!("{}: a copy", dir.display()));
    }
    let lacks = |name| missing_part(&dir.join(name)).map(|what| (name, what));
    if let Some((name, what)) = SIDE_FILES.into_iter().find_map(lacks) {
        return tree.pass_over("incomplete", || format!("{}: {name} {what}", dir.display()));
    }
    // It counts as seen only now: an incomplete copy must not keep out one that is whole.
    seen.insert(same);
    let meta = meta.clone();
    tree.traces.push(FoundTrace {
        dir: dir.to_owned(),
        meta,
        files,
    });
}

/// The fault of a file of lines, if it has one. Each trace has these files, even where they are empty, and a trace that was ended
/// in order ends each line: an interrupted copy does not.
fn missing_part(path: &Path) -> Option<&'static str> {
    let last = || -> io::Result<Option<u8>> {
        let size = match fs::metadata(path)? {
            is if is.is_file() => is.len(),
            // Opening a pipe may block for ever.
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        if size == 0 {
            return Ok(None);
        }
        let mut file = File::open(path)?;
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        Ok(Some(last[0]))
    };
    match last() {
        Ok(None | Some(b'\n')) => None,
        Ok(Some(_)) => Some("ends within a line"),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Some("is missing"),
        Err(_) => Some("can't be read"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use quell_event::Shootdown;
    use quell_event::trace::TraceWriter;

    use super::*;

    fn trace(dir: &Path, host: &str, start: u64) {
        fs::create_dir_all(dir.parent().unwrap()).unwrap();
        let meta = TraceMeta {
            host: host.into(),
            start_wall_ns: start,
            start_monotonic_ns: 10,
            ..TraceMeta::default()
        };
        let mut writer = TraceWriter::create(dir, &meta, false).unwrap();
        writer.push_shootdown(&Shootdown::default());
        writer.finish(110, |_| ()).unwrap();
    }

    fn edit(dir: &Path, from: &str, to: &str) {
        let meta = dir.join(META_FILE);
        let text = fs::read_to_string(&meta).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(meta, text.replace(from, to)).unwrap();
    }

    /// Check that traces are found wherever they lie and whatever their folders are called, in an order that does not
    /// depend on the disk, and the one that is named itself too.
    #[test]
    fn traces_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let odd = dir.path().join("b/host=x {1}*[2] 'é'/2026.quell");
        trace(&odd, "b", 2);
        trace(&dir.path().join("a/deep/er/t"), "a", 3);
        trace(&dir.path().join("first"), "a", 1);
        fs::create_dir(dir.path().join("empty")).unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("circle")).unwrap();
        let tree = find_traces(dir.path()).unwrap();
        let all: Vec<_> = tree
            .traces
            .iter()
            .map(|t| {
                (
                    &*t.meta.host,
                    t.meta.start_wall_ns,
                    t.traced_ns(),
                    t.files.len(),
                )
            })
            .collect();
        assert_eq!(all, [("a", 1, 100, 1), ("a", 3, 100, 1), ("b", 2, 100, 1)]);
        assert_eq!(tree.passed_over(), 0);
        assert_eq!(find_traces(&odd).unwrap().traces.len(), 1);
        assert!(find_traces(&dir.path().join("nowhere")).is_err());
        assert!(find_traces(&dir.path().join("file")).is_err());
        assert_eq!(
            find_traces(&dir.path().join("empty")).unwrap().traces.len(),
            0
        );
    }

    /// Check that incomplete traces are passed over, counted by reason, and named.
    #[test]
    fn others_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for (n, name) in [
            "ok", "cut", "foreign", "later", "garbled", "short", "missing", "sideless", "half",
            "piped",
        ]
        .iter()
        .enumerate()
        {
            trace(&at(name), "h", n as u64);
        }
        trace(&at("zcopy"), "h", 0);
        let json = fs::read_to_string(at("cut/meta.json")).unwrap();
        let end = json.find("\"ended\"").unwrap();
        fs::write(
            at("cut/meta.json"),
            format!("{}\"ended\": null}}", &json[..end]),
        )
        .unwrap();
        edit(&at("foreign"), "quell/trace/1", "other/thing");
        edit(&at("later"), "quell/trace/1", "quell/trace/2");
        fs::write(at("garbled/meta.json"), "{").unwrap();
        let events = at("short/events-00001.parquet");
        let bytes = fs::read(&events).unwrap();
        fs::write(&events, &bytes[..bytes.len() / 2]).unwrap();
        fs::remove_file(at("missing/events-00001.parquet")).unwrap();
        fs::remove_file(at("sideless/stacks.jsonl")).unwrap();
        fs::write(at("half/processes.jsonl"), "{\"pid\": 1}\n{\"pid\"").unwrap();
        fs::remove_file(at("piped/stacks.jsonl")).unwrap();
        let pipe = at("piped/stacks.jsonl");
        let made = std::process::Command::new("mkfifo").arg(pipe).status();
        assert!(made.unwrap().success());
        let tree = find_traces(dir.path()).unwrap();
        assert_eq!(tree.traces.len(), 1);
        let passed: Vec<_> = tree.passed.iter().map(|(why, n)| (*why, *n)).collect();
        assert_eq!(
            passed,
            [
                ("cut short", 1),
                ("damaged", 3),
                ("foreign", 1),
                ("incomplete", 3),
                ("of another version", 1),
                ("there twice", 1)
            ]
        );
        assert!(tree.examples["there twice"].contains("zcopy"));
        let incomplete = &tree.examples["incomplete"];
        assert!(incomplete.contains("half: processes.jsonl ends within a line"));
        assert_eq!(tree.passed_over(), 10);
    }
}
