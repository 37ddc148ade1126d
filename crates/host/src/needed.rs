//! Which files a command will run code from, before it is started.
//!
//! The work of a loader, by reading files only: the program, its loader, the libraries that they need with RPATH, RUNPATH,
//! `$ORIGIN`, `LD_LIBRARY_PATH` and `LD_PRELOAD`, and the system's folders, in the order of the C library whose loader the program
//! names: glibc's (ld.so(8)) or musl's. For scripts, the interpreter of the `#!` line, or the shell.
//! Libraries that a program opens as it runs (dlopen, extensions of an interpreter) can't be known.

use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::elf::ElfFile;
use crate::under;

/// The files that a command will load, as far as files tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandFiles {
    /// The scripts on the way, if any: the file named by the command, then its interpreter, and so on.
    pub scripts: Vec<PathBuf>,
    /// The program that the kernel will load.
    pub program: PathBuf,
    /// The program, its loader and its libraries, each once.
    pub modules: Vec<PathBuf>,
    /// Libraries that were named but not found, or not readable.
    pub missing: Vec<String>,
}

impl CommandFiles {
    /// Whether nothing can be loaded before the program: it has no loader, which alone reads `LD_PRELOAD` (ld.so(8)).
    #[must_use]
    pub fn is_static(&self) -> bool {
        let name = self.program.file_name().unwrap_or_default().as_bytes();
        // the loader itself may be the command, and loads the program in its arguments
        let loader = [&b"ld-linux"[..], b"ld-musl", b"ld.so"];
        self.modules.len() <= 1 && !loader.iter().any(|start| name.starts_with(start))
    }
}

/// Where an environment variable comes from; tests give their own.
pub trait Env: Fn(&str) -> Option<OsString> {}
impl<F: Fn(&str) -> Option<OsString>> Env for F {}

/// Finds the files that `argv` will load when it is started with the environment `env`.
pub fn find_command_files(root: &Path, argv: &[OsString], env: &impl Env) -> Result<CommandFiles> {
    let (scripts, program) = find_command_program(root, argv, env)?;
    let (modules, missing) = needed_libraries(root, &program, env)?;
    Ok(CommandFiles {
        scripts,
        program,
        modules,
        missing,
    })
}

/// The scripts on the way, and the program that the kernel will load for `argv`: whatever kind of file it is.
pub fn find_command_program(
    root: &Path,
    argv: &[OsString],
    env: &impl Env,
) -> Result<(Vec<PathBuf>, PathBuf)> {
    let name = argv
        .first()
        .context("finding the program: the command is empty")?;
    let mut path = find_program(root, name, env)?;
    let mut scripts = Vec::new();
    // The kernel follows a `#!` to another `#!` four times (exec_binprm in fs/exec.c: 5 in all).
    for _ in 0..6 {
        let Some(words) = script_interpreter(&under(root, &path))? else {
            return Ok((scripts, path));
        };
        let interpreter = words
            .first()
            .context("finding the interpreter: nothing after #!")?;
        let next = if Path::new(interpreter).file_name() == Some(OsStr::new("env")) {
            let named = command_of_env(&words[1..]).with_context(|| {
                format!(
                    "reading the #! line of {}: env starts nothing",
                    path.display()
                )
            })?;
            find_program(root, &named, env)?
        } else {
            PathBuf::from(interpreter)
        };
        scripts.push(std::mem::replace(&mut path, next));
    }
    bail!(
        "finding the interpreter of {}: scripts name each other in a loop",
        path.display()
    )
}

/// The file that execvp(3) would start for `name`.
pub fn find_program(root: &Path, name: &OsStr, env: &impl Env) -> Result<PathBuf> {
    let named = Path::new(name);
    if name.as_bytes().contains(&b'/') {
        let full = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
        let real = under(root, &full);
        let meta = std::fs::metadata(&real)
            .with_context(|| format!("finding the program {}", named.display()))?;
        ensure!(
            meta.is_file(),
            "finding the program {}: not a file",
            named.display()
        );
        ensure!(
            meta.permissions().mode() & 0o111 != 0,
            "finding the program {}: not executable",
            named.display()
        );
        return Ok(full);
    }
    let search = env("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    for folder in std::env::split_paths(&search) {
        let folder = if folder.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            folder
        };
        let path = std::path::absolute(folder.join(named)).unwrap_or_default();
        let executable = |m: std::fs::Metadata| m.is_file() && m.permissions().mode() & 0o111 != 0;
        if std::fs::metadata(under(root, &path)).is_ok_and(executable) {
            return Ok(path);
        }
    }
    bail!(
        "finding the program {}: not in PATH ({})",
        named.display(),
        search.display()
    )
}

/// The words of a `#!` line: the interpreter and its one argument, split as env -S would. None for a program.
fn script_interpreter(file: &Path) -> Result<Option<Vec<OsString>>> {
    use std::io::Read;
    let mut head = Vec::new();
    // The kernel looks at the first 256 bytes (BINPRM_BUF_SIZE).
    std::fs::File::open(file)
        .and_then(|f| f.take(256).read_to_end(&mut head))
        .with_context(|| format!("reading the start of {}", file.display()))?;
    let Some(line) = head.strip_prefix(b"#!") else {
        // execvp(3) has the shell run a file that the kernel can't, such as a script without this line; so does quell. With a NUL in
        // its first line it is none to a shell (bash's and POSIX's rule), but perhaps to binfmt_misc.
        let first = head.split(|b| *b == b'\n').next().unwrap_or_default();
        let shell = || vec![OsString::from("/bin/sh")];
        return Ok((!head.starts_with(b"\x7fELF") && !first.contains(&0)).then(shell));
    };
    let line = line.split(|b| *b == b'\n').next().unwrap_or_default();
    let words = line
        .split(u8::is_ascii_whitespace)
        .filter(|w| !w.is_empty());
    Ok(Some(
        words.map(|w| OsString::from_vec(w.to_vec())).collect(),
    ))
}

/// The command among the arguments of env(1): after its options and settings.
fn command_of_env(words: &[OsString]) -> Option<OsString> {
    let plain = |w: &&OsString| !w.as_bytes().starts_with(b"-") && !w.as_bytes().contains(&b'=');
    words.iter().find(plain).cloned()
}

/// The C library whose loader starts a program: each has its own rules of where libraries lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Libc {
    Glibc,
    Musl,
}

/// A library to load.
struct WantedLibrary {
    name: String,
    /// Who needs it, as an index of the files that are loaded; none where only the loader's own folders count.
    needed_by: Option<usize>,
}

/// A file that is loaded, as far as it says where libraries lie.
struct LoadedFile {
    /// The folders of RPATH; none where there is a RUNPATH, which takes its place.
    rpath: Vec<PathBuf>,
    runpath: Vec<PathBuf>,
    /// The file that was the first to need it.
    needed_by: Option<usize>,
}

/// The folders that a loader searches.
struct SearchFolders {
    libc: Libc,
    /// Those of `LD_LIBRARY_PATH`.
    library_path: Vec<PathBuf>,
    /// Those that are searched for every program, which come last.
    system: Vec<PathBuf>,
}

impl SearchFolders {
    /// Every folder in which a library is looked for, in order; `loaded` are the files so far.
    ///
    /// glibc (elf/dl-load.c, `_dl_map_object`): RPATH of who needs it, of who needs that one, and so on up to the program, but
    /// only if who needs it has no RUNPATH; `LD_LIBRARY_PATH`; RUNPATH of who needs it, and of nobody else; the system's.
    ///
    /// musl (ldso/dynlink.c, `load_library`): `LD_LIBRARY_PATH`; RUNPATH or RPATH, which mean the same, of who needs it and of
    /// each one above; the system's.
    fn for_library<'a>(
        &'a self,
        loaded: &'a [LoadedFile],
        needed_by: Option<usize>,
    ) -> Vec<&'a Path> {
        let file_at = |index: Option<usize>| loaded.get(index?);
        let needing = file_at(needed_by);
        let chain = || std::iter::successors(needing, |file| file_at(file.needed_by));
        let mut folders: Vec<&PathBuf> = Vec::new();
        match self.libc {
            Libc::Glibc => {
                if needing.is_some_and(|file| file.runpath.is_empty()) {
                    folders.extend(chain().flat_map(|file| &file.rpath));
                }
                folders.extend(&self.library_path);
                folders.extend(needing.iter().flat_map(|file| &file.runpath));
            }
            Libc::Musl => {
                folders.extend(&self.library_path);
                folders.extend(chain().flat_map(|file| file.rpath.iter().chain(&file.runpath)));
            }
        }
        folders.extend(&self.system);
        folders.into_iter().map(PathBuf::as_path).collect()
    }
}

/// Whether musl's loader takes a name for itself: these libraries of other systems are all in its one file (ldso/dynlink.c,
/// `load_library`), whatever follows the dot.
fn is_part_of_musl(name: &str) -> bool {
    const NAMES: [&str; 7] = [
        "libc.",
        "libpthread.",
        "librt.",
        "libm.",
        "libdl.",
        "libutil.",
        "libxnet.",
    ];
    NAMES.iter().any(|start| name.starts_with(start))
}

/// The files that the loader maps for a program, and the names of libraries that it would not find.
fn needed_libraries(
    root: &Path,
    program: &Path,
    env: &impl Env,
) -> Result<(Vec<PathBuf>, Vec<String>)> {
    let elf =
        ElfFile::open(&under(root, program)).context("finding the libraries of the program")?;
    let mut modules = vec![program.to_owned()];
    let mut missing = Vec::new();
    let Some(interpreter) = elf.interpreter().map(PathBuf::from) else {
        return Ok((modules, missing));
    };
    let folders = search_folders(root, &interpreter, env);
    let mut loaded = vec![read_loaded_file(&elf, program, None)];
    let mut queue: VecDeque<WantedLibrary> = VecDeque::new();
    // LD_PRELOAD is separated by spaces or colons, and comes before everything that is needed.
    let preload = env("LD_PRELOAD").unwrap_or_default();
    let preload = preload.to_string_lossy();
    let preloaded = preload.split([' ', ':']).filter(|name| !name.is_empty());
    // glibc looks for them as if the program needed them (elf/rtld.c, do_preload), musl as if nobody did.
    let preloader = (folders.libc == Libc::Glibc).then_some(0);
    queue.extend(preloaded.map(|name| WantedLibrary {
        name: name.to_owned(),
        needed_by: preloader,
    }));
    queue.extend(wanted_libraries(&elf, 0));
    let mut seen: HashSet<String> = HashSet::new();
    // The loader is a module as well; for musl it is the C library itself.
    push_new(&mut modules, interpreter);
    // Breadth first, as both loaders do it: where two files need one name, the first decides where it is looked for.
    while let Some(WantedLibrary { name, needed_by }) = queue.pop_front() {
        if !seen.insert(name.clone()) || (folders.libc == Libc::Musl && is_part_of_musl(&name)) {
            continue;
        }
        let open_fitting = |path: PathBuf| {
            let library = ElfFile::open(&under(root, &path)).ok()?;
            (library.machine() == elf.machine()).then_some((path, library))
        };
        let found = if name.contains('/') {
            open_fitting(PathBuf::from(&name))
        } else {
            let places = folders.for_library(&loaded, needed_by);
            let mut places = places.into_iter().map(|folder| folder.join(&name));
            places.find_map(open_fitting)
        };
        let Some((path, library)) = found else {
            missing.push(name);
            continue;
        };
        queue.extend(wanted_libraries(&library, loaded.len()));
        loaded.push(read_loaded_file(&library, &path, needed_by));
        push_new(&mut modules, path);
    }
    Ok((modules, missing))
}

/// The libraries that a file needs, which will be the loaded file with this index.
fn wanted_libraries(elf: &ElfFile, index: usize) -> impl Iterator<Item = WantedLibrary> {
    let names = elf.dynamic().needed.iter();
    names.map(move |name| WantedLibrary {
        name: name.clone(),
        needed_by: Some(index),
    })
}

fn push_new(modules: &mut Vec<PathBuf>, path: PathBuf) {
    if !modules.contains(&path) {
        modules.push(path);
    }
}

/// Where a program with this loader looks for libraries.
fn search_folders(root: &Path, interpreter: &Path, env: &impl Env) -> SearchFolders {
    let is_musl = interpreter.to_string_lossy().contains("/ld-musl-");
    let libc = if is_musl { Libc::Musl } else { Libc::Glibc };
    let (separators, system) = match libc {
        Libc::Glibc => ([b':', b';'], glibc_folders(root)),
        Libc::Musl => (MUSL_SEPARATORS, musl_folders(root, interpreter)),
    };
    let library_path = env("LD_LIBRARY_PATH").unwrap_or_default();
    SearchFolders {
        libc,
        library_path: split_folders(library_path.as_bytes(), separators),
        system,
    }
}

/// What separates the folders of `LD_LIBRARY_PATH` and of its own file for musl's loader.
const MUSL_SEPARATORS: [u8; 2] = [b':', b'\n'];

fn split_folders(text: &[u8], separators: [u8; 2]) -> Vec<PathBuf> {
    let parts = text.split(|byte| separators.contains(byte));
    let parts = parts.filter(|part| !part.is_empty());
    parts
        .map(|part| PathBuf::from(OsStr::from_bytes(part)))
        .collect()
}

/// The RPATH (only where there is no RUNPATH) and RUNPATH folders of a file, `$ORIGIN` put in.
fn read_loaded_file(elf: &ElfFile, path: &Path, needed_by: Option<usize>) -> LoadedFile {
    let origin = path
        .parent()
        .unwrap_or(Path::new("/"))
        .to_string_lossy()
        .into_owned();
    let expand = |text: &Option<String>| -> Vec<PathBuf> {
        let text = text.as_deref().unwrap_or_default();
        let parts = text.split(':').filter(|p| !p.is_empty());
        parts
            .map(|p| {
                p.replace("${ORIGIN}", &origin)
                    .replace("$ORIGIN", &origin)
                    .into()
            })
            .collect()
    };
    let runpath = expand(&elf.dynamic().runpath);
    let rpath = if runpath.is_empty() {
        expand(&elf.dynamic().rpath)
    } else {
        Vec::new()
    };
    LoadedFile {
        rpath,
        runpath,
        needed_by,
    }
}

/// The folders that glibc's loader searches last. It reads a cache of them (ld.so.cache); the folders say the same, except for
/// libraries added since ldconfig ran.
fn glibc_folders(root: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    read_conf(root, Path::new("/etc/ld.so.conf"), &mut folders, 0);
    let multiarch = format!("{}-linux-gnu", std::env::consts::ARCH);
    for base in ["/lib", "/usr/lib"] {
        folders.push(Path::new(base).join(&multiarch));
    }
    folders.extend(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from));
    folders
}

/// The folders that musl's loader searches last. It has no cache and reads no ld.so.conf, but `etc/ld-musl-ARCH.path` beside the
/// folder in which it lies itself, and its own folders only where there is no such file; with one that it can't read, it
/// searches none.
fn musl_folders(root: &Path, interpreter: &Path) -> Vec<PathBuf> {
    let name = interpreter
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let stem = name.split(".so").next().unwrap_or_default();
    let prefix = interpreter.parent().and_then(Path::parent);
    let conf = prefix.unwrap_or(Path::new("/")).join("etc");
    match std::fs::read(under(root, &conf.join(format!("{stem}.path")))) {
        Ok(text) => split_folders(&text, MUSL_SEPARATORS),
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
            ["/lib", "/usr/local/lib", "/usr/lib"]
                .map(PathBuf::from)
                .to_vec()
        }
        Err(_) => Vec::new(),
    }
}

/// One ld.so.conf file: folders, and `include` with a pattern in the last part of the path.
fn read_conf(root: &Path, file: &Path, folders: &mut Vec<PathBuf>, depth: u32) {
    let Ok(text) = std::fs::read_to_string(under(root, file)) else {
        return;
    };
    for line in text
        .lines()
        .map(|l| l.split('#').next().unwrap_or_default().trim())
    {
        if let Some(pattern) = line
            .strip_prefix("include")
            .filter(|p| p.starts_with([' ', '\t']))
        {
            if depth < 4 {
                let pattern = file.parent().unwrap_or(Path::new("/")).join(pattern.trim());
                for included in matching_files(root, &pattern) {
                    read_conf(root, &included, folders, depth + 1);
                }
            }
        } else if line.starts_with('/') {
            folders.push(PathBuf::from(line));
        }
    }
}

/// The files that a pattern such as `/etc/ld.so.conf.d/*.conf` names, sorted.
fn matching_files(root: &Path, pattern: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name()) else {
        return Vec::new();
    };
    let name = name.to_string_lossy();
    let Some((before, after)) = name.split_once('*') else {
        return vec![pattern.to_owned()];
    };
    let Ok(entries) = std::fs::read_dir(under(root, folder)) else {
        return Vec::new();
    };
    let fits = |n: &str| {
        n.len() >= before.len() + after.len() && n.starts_with(before) && n.ends_with(after)
    };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .filter(|e| fits(&e.file_name().to_string_lossy()))
        .map(|e| folder.join(e.file_name()))
        .collect();
    files.sort();
    files
}

#[cfg(test)]
#[path = "needed_tests.rs"]
mod tests;
