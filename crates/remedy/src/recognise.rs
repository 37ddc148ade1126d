//! Which allocators and runtimes live in a file, a set of files, a process or a command.
//!
//! Recognition rests on constants that strip(1) leaves, which must look as a C
//! compiler leaves them (ended by NUL). Rust and Go do not end their constants so, and that keeps
//! quell, which holds the same words, from recognising itself.

mod cpython;
mod jemalloc;
mod libc;
mod mimalloc;
mod program;
mod runtime;
mod tcmalloc;

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use quell_host::elf::{ElfFile, Symbol};
use quell_host::proc::Proc;
use quell_host::{maps, needed, under};

use crate::{FoundSoftware, Linking, SoftwareKind, Version, Wrappers};

/// The input of a recogniser: one ELF file, and the name to report it under.
pub(crate) struct Facts<'a> {
    pub(crate) elf: &'a ElfFile,
    pub(crate) path: &'a Path,
    /// The symbols of interest that the file defines, read once.
    symbols: Vec<Symbol>,
}

impl<'a> Facts<'a> {
    /// Reads the symbols that recognisers ask for. Any other is not found by [`Self::symbol_named`] and [`Self::symbols_with`],
    /// although the file may have it: what a new recogniser asks for must be named here.
    fn new(elf: &'a ElfFile, path: &'a Path) -> Self {
        let wanted = |name: &[u8]| {
            matches!(
                name,
                b"malloc"
                    | b"mi_malloc"
                    | b"mi_version"
                    | b"tc_version"
                    | b"Py_Version"
                    | b"PyObject_Malloc"
            ) || name.ends_with(b"mallctl")
                || name.starts_with(b"MallocExtension_Internal_")
        };
        Facts {
            elf,
            path,
            symbols: elf.symbols(wanted),
        }
    }

    pub(crate) fn symbol_named(&self, name: &str) -> Option<&Symbol> {
        self.symbols.iter().find(|s| s.name == name)
    }

    pub(crate) fn symbols_with(
        &self,
        wanted: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(move |s| wanted(&s.name))
    }

    /// Whether others find this file's malloc when they ask for malloc.
    pub(crate) fn exports_malloc(&self) -> bool {
        self.symbol_named("malloc").is_some_and(|s| s.exported)
    }

    /// Whether a name that others link to makes this the allocator's own library.
    pub(crate) fn linking_by_api(&self, api: &str) -> Linking {
        let own = self.elf.is_library() && self.symbol_named(api).is_some_and(|s| s.exported);
        if own {
            Linking::SharedLibrary
        } else {
            Linking::Static
        }
    }

    /// Whether a C string ends with `text`: linkers share the tails of strings.
    pub(crate) fn ends_string(&self, text: &str) -> bool {
        let mut needle = text.as_bytes().to_vec();
        needle.push(0);
        self.elf.has_string(&needle)
    }

    /// The first C string with `text` in it, as text.
    pub(crate) fn string_with(&self, text: &str) -> Option<String> {
        let found = self.elf.find_strings(text.as_bytes(), 1);
        found
            .first()
            .map(|s| String::from_utf8_lossy(s).into_owned())
    }

    /// The versions that the newest of these options proves, which are in order, newest first.
    pub(crate) fn dated_by(&self, options: &[DatedOption]) -> Option<Version> {
        let (_, from, to) = options.iter().find(|(text, ..)| self.ends_string(text))?;
        Some(Version {
            from: *from,
            to: *to,
        })
    }

    /// A bare finding in this file.
    pub(crate) fn found_here(
        &self,
        kind: SoftwareKind,
        linking: Linking,
        how: impl Into<String>,
    ) -> FoundSoftware {
        FoundSoftware::new(kind, self.path, linking, how)
    }
}

/// An option that only some versions have: the oldest, and the newest if newer ones dropped it or another option proves them.
type DatedOption = (&'static str, (u32, u32, u32), Option<(u32, u32, u32)>);

type Recogniser = fn(&Facts<'_>) -> Option<FoundSoftware>;

/// One function a kind. To recognise something new, add it here.
const ALL_RECOGNISERS: &[Recogniser] = &[
    libc::recognise_glibc,
    libc::recognise_musl,
    jemalloc::recognise_jemalloc,
    mimalloc::recognise_mimalloc,
    tcmalloc::recognise_gperftools,
    tcmalloc::recognise_google,
    runtime::recognise_go,
    runtime::recognise_jvm,
    runtime::recognise_node,
    runtime::recognise_dotnet,
    runtime::recognise_beam,
    cpython::recognise_cpython,
    program::recognise_server,
    program::recognise_rocksdb,
    program::recognise_numpy,
];

/// The software found in several files, with remarks about files that could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recognised {
    /// The software that was found, each once.
    pub found: Vec<FoundSoftware>,
    /// One line for each file that could not be read, with the reason.
    pub skipped: Vec<String>,
    /// Remarks for the user about the search.
    pub notes: Vec<String>,
    /// The functions of the C library about memory that each file may call, where its symbols show that.
    pub wrappers: BTreeMap<PathBuf, Wrappers>,
}

/// Recognises the software in one file. A file that is no 64-bit ELF file is an error.
pub fn recognise_file(path: &Path) -> Result<Vec<FoundSoftware>> {
    recognise_as(path, path).map(|looked| looked.found)
}

/// The result for one file.
struct LookedFile {
    found: Vec<FoundSoftware>,
    wrappers: Option<(PathBuf, Wrappers)>,
}

/// Reads `real`, and reports it as `shown`.
fn recognise_as(real: &Path, shown: &Path) -> Result<LookedFile> {
    let elf = ElfFile::open(real)
        .with_context(|| format!("looking for allocators in {}", shown.display()))?;
    let facts = Facts::new(&elf, shown);
    Ok(LookedFile {
        found: ALL_RECOGNISERS
            .iter()
            .filter_map(|recognise| recognise(&facts))
            .collect(),
        wrappers: Wrappers::of_file(&elf).map(|wrappers| (shown.to_owned(), wrappers)),
    })
}

/// Recognises the software in several files, each read once; a file that cannot be read is noted and skipped.
pub fn recognise_modules<'a>(paths: impl Iterator<Item = &'a Path>) -> Recognised {
    let mut out = Recognised::default();
    let mut seen = HashSet::new();
    for path in paths {
        // The same file under two names, such as /lib and /usr/lib.
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if seen.insert(real) {
            out.add_file(recognise_as(path, path));
        }
    }
    out
}

impl Recognised {
    fn add_file(&mut self, result: Result<LookedFile>) {
        match result {
            Ok(looked) => {
                self.found.extend(looked.found);
                self.wrappers.extend(looked.wrappers);
            }
            Err(error) => self.skipped.push(format!("{error:#}")),
        }
    }
}

/// Recognises the software in a running process, by the files that it has mapped executable.
///
/// A file whose name is gone, or that lies in another mount namespace, is read through the links in
/// `/proc/PID/map_files` or under `/proc/PID/root`, as far as the caller may.
pub fn recognise_process(root: &Path, pid: u32) -> Result<Recognised> {
    let proc = Proc::new(root);
    ensure!(
        proc.path_of(pid, "maps").exists(),
        "looking for allocators in process {pid}: no such process"
    );
    let mappings = maps::read_maps(root, pid)?;
    let mut out = Recognised::default();
    for module in maps::executable_files(&mappings) {
        let exact = proc.path_of(pid, "map_files").join(&module.map_file);
        let inside = under(&proc.path_of(pid, "root"), &module.path);
        let mut tries = vec![exact];
        if !module.deleted {
            // Names still hold: as the process sees them, or as we do.
            tries.extend([inside, under(root, &module.path)]);
        }
        let mut results = tries.iter().map(|real| recognise_as(real, &module.path));
        let first = results.next();
        let result = match first {
            Some(Err(error)) => results.find(Result::is_ok).unwrap_or(Err(error)),
            Some(ok) => ok,
            None => continue,
        };
        out.add_file(result);
    }
    Ok(out)
}

/// Recognises the software in a command before it is started: in the program and the libraries that it names.
///
/// For an interpreter that is only part of it: extensions that a script loads are seen by [`recognise_process`] or from a trace.
pub fn recognise_command(
    argv: &[OsString],
    env: &impl Fn(&str) -> Option<OsString>,
) -> Result<Recognised> {
    let command = needed::find_command_files(Path::new("/"), argv, env)?;
    let mut out = recognise_modules(command.modules.iter().map(PathBuf::as_path));
    out.skipped.extend(
        command
            .missing
            .iter()
            .map(|name| format!("library {name}: not found")),
    );
    let program = command
        .program
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let interpreters = [
        "python", "ruby", "perl", "node", "java", "sh", "bash", "dash", "Rscript", "php",
    ];
    let bare = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !command.scripts.is_empty() || interpreters.contains(&bare) {
        out.notes.push(format!(
            "{program} is an interpreter: what its script loads is known only when it runs"
        ));
    }
    Ok(out)
}

#[cfg(test)]
#[path = "recognise_tests.rs"]
mod tests;
