//! Which files a command will run code from, before it is started.
//!
//! The work of ld.so(8), by reading files only: the program, its loader, the libraries that they
//! need with RPATH, RUNPATH, `$ORIGIN`, `LD_LIBRARY_PATH` and `LD_PRELOAD`, the folders of
//! `/etc/ld.so.conf`, and the default folders; for scripts, the interpreter of the `#!` line, or the shell.
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
pub struct Command {
    /// The scripts on the way, if any: the file named by the command, then its interpreter, and so on.
    pub scripts: Vec<PathBuf>,
    /// The program that the kernel will load.
    pub program: PathBuf,
    /// The program, its loader and its libraries, each once.
    pub modules: Vec<PathBuf>,
    /// Libraries that were named but not found, or not readable.
    pub missing: Vec<String>,
}

impl Command {
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
pub fn command(root: &Path, argv: &[OsString], env: &impl Env) -> Result<Command> {
    let (scripts, program) = program(root, argv, env)?;
    let (modules, missing) = libraries(root, &program, env)?;
    Ok(Command {
        scripts,
        program,
        modules,
        missing,
    })
}

/// The scripts on the way, and the program that the kernel will load for `argv`: whatever kind of file it is.
pub fn program(root: &Path, argv: &[OsString], env: &impl Env) -> Result<(Vec<PathBuf>, PathBuf)> {
    let name = argv
        .first()
        .context("finding the program: the command is empty")?;
    let mut path = find_program(root, name, env)?;
    let mut scripts = Vec::new();
    // The kernel follows a `#!` to another `#!` four times (exec_binprm in fs/exec.c: 5 in all).
    for _ in 0..6 {
        let Some(words) = shebang(&under(root, &path))? else {
            return Ok((scripts, path));
        };
        let interpreter = words
            .first()
            .context("finding the interpreter: nothing after #!")?;
        let next = if Path::new(interpreter).file_name() == Some(OsStr::new("env")) {
            let named = env_command(&words[1..]).with_context(|| {
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
fn shebang(file: &Path) -> Result<Option<Vec<OsString>>> {
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
fn env_command(words: &[OsString]) -> Option<OsString> {
    let plain = |w: &&OsString| !w.as_bytes().starts_with(b"-") && !w.as_bytes().contains(&b'=');
    words.iter().find(plain).cloned()
}

/// A library to load: its name, and the RPATH folders of whoever needs it.
type Wanted = (String, Vec<PathBuf>, Vec<PathBuf>);

fn libraries(root: &Path, program: &Path, env: &impl Env) -> Result<(Vec<PathBuf>, Vec<String>)> {
    let elf =
        ElfFile::open(&under(root, program)).context("finding the libraries of the program")?;
    let mut modules = vec![program.to_owned()];
    let mut missing = Vec::new();
    let interpreter = elf.interpreter().map(PathBuf::from);
    let Some(interpreter) = interpreter else {
        return Ok((modules, missing));
    };
    let musl = interpreter.to_string_lossy().contains("/ld-musl-");
    let system = if musl {
        musl_folders(root, &interpreter)
    } else {
        glibc_folders(root)
    };
    let paths = |value: Option<OsString>| -> Vec<PathBuf> {
        let split = |v: OsString| {
            v.as_bytes()
                .split(|b| matches!(b, b':' | b';'))
                .map(<[u8]>::to_vec)
                .collect()
        };
        let parts: Vec<Vec<u8>> = value.map(split).unwrap_or_default();
        parts
            .into_iter()
            .filter(|p| !p.is_empty())
            .map(|p| PathBuf::from(OsString::from_vec(p)))
            .collect()
    };
    let library_path = paths(env("LD_LIBRARY_PATH"));
    let (program_rpath, program_runpath) = search_paths(&elf, program);

    let mut queue: VecDeque<Wanted> = VecDeque::new();
    // LD_PRELOAD is separated by spaces or colons, and comes before everything that is needed.
    for name in env("LD_PRELOAD")
        .unwrap_or_default()
        .to_string_lossy()
        .split([' ', ':'])
    {
        if !name.is_empty() {
            queue.push_back((name.to_owned(), Vec::new(), Vec::new()));
        }
    }
    for name in &elf.dynamic().needed {
        queue.push_back((name.clone(), program_rpath.clone(), program_runpath.clone()));
    }
    let mut seen: HashSet<String> = HashSet::new();
    // The loader is a module as well; for musl it is the C library itself.
    push_new(&mut modules, interpreter.clone());
    while let Some((name, rpath, runpath)) = queue.pop_front() {
        if !seen.insert(name.clone()) || (musl && name.starts_with("libc.")) {
            continue;
        }
        let fits = |path: &PathBuf| {
            ElfFile::open(&under(root, path))
                .ok()
                .filter(|e| e.machine() == elf.machine())
        };
        let places: Vec<PathBuf> = if name.contains('/') {
            vec![PathBuf::from(&name)]
        } else {
            let folders = rpath
                .iter()
                .chain(&library_path)
                .chain(&runpath)
                .chain(&system);
            folders.map(|f| f.join(&name)).collect()
        };
        let Some((path, library)) = places.into_iter().find_map(|p| fits(&p).map(|e| (p, e)))
        else {
            missing.push(name);
            continue;
        };
        let (own_rpath, own_runpath) = search_paths(&library, &path);
        // RPATH, unlike RUNPATH, is inherited down the chain of who needs whom, and counts only
        // where there is no RUNPATH.
        let inherited: Vec<PathBuf> = if own_runpath.is_empty() {
            own_rpath.into_iter().chain(rpath).collect()
        } else {
            Vec::new()
        };
        for needed in &library.dynamic().needed {
            queue.push_back((needed.clone(), inherited.clone(), own_runpath.clone()));
        }
        push_new(&mut modules, path);
    }
    Ok((modules, missing))
}

fn push_new(modules: &mut Vec<PathBuf>, path: PathBuf) {
    if !modules.contains(&path) {
        modules.push(path);
    }
}

/// The RPATH (only where there is no RUNPATH) and RUNPATH folders of a file, `$ORIGIN` put in.
fn search_paths(elf: &ElfFile, path: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
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
    (rpath, runpath)
}

/// The folders that ld.so searches last. It reads a cache of them; the folders say the same, except
/// for libraries added since ldconfig ran.
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

fn musl_folders(root: &Path, interpreter: &Path) -> Vec<PathBuf> {
    // musl reads /etc/ld-musl-ARCH.path, one folder a line or colon, instead of its defaults.
    let name = interpreter
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let stem = name.split(".so").next().unwrap_or_default();
    let conf = under(root, Path::new(&format!("/etc/{stem}.path")));
    match std::fs::read_to_string(conf) {
        Ok(text) => text
            .split([':', '\n'])
            .filter(|l| !l.is_empty())
            .map(PathBuf::from)
            .collect(),
        Err(_) => ["/lib", "/usr/local/lib", "/usr/lib"]
            .map(PathBuf::from)
            .to_vec(),
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
                for included in matching(root, &pattern) {
                    read_conf(root, &included, folders, depth + 1);
                }
            }
        } else if line.starts_with('/') {
            folders.push(PathBuf::from(line));
        }
    }
}

/// The files that a pattern such as `/etc/ld.so.conf.d/*.conf` names, sorted.
fn matching(root: &Path, pattern: &Path) -> Vec<PathBuf> {
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
