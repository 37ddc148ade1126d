//! The ways in which an allocator gets into a process, each made by the machine's own compilers.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use quell_remedy::SoftwareKind;

use crate::subjects::{MULTIARCH, MUSL, ShootdownOrigin};

/// How it is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Its own library.
    Library,
    /// A program that needs that library.
    Dynamic,
    /// Inside a program that uses the shared C library.
    Static,
    /// The same, stripped.
    StaticStripped,
    /// Inside a program that needs no library at all, stripped.
    WholeStatic,
    /// Inside an extension of Python, stripped.
    Python,
    /// Inside an addon of Node, stripped.
    Node,
    /// Inside a Rust program, stripped.
    Rust,
}

impl Form {
    /// Those that there can be of a kind: a C library is not put inside extensions.
    pub(crate) fn of(kind: SoftwareKind) -> Vec<Form> {
        use Form::{Dynamic, Library, Node, Python, Rust, Static, StaticStripped, WholeStatic};
        if kind.is_libc() {
            return vec![Library, Dynamic, Static, WholeStatic];
        }
        vec![
            Library,
            Dynamic,
            Static,
            StaticStripped,
            WholeStatic,
            Python,
            Node,
            Rust,
        ]
    }

    /// Whether it is found as a library of its own.
    pub(crate) fn is_own_library(self) -> bool {
        matches!(self, Form::Library | Form::Dynamic)
    }

    /// Whether a version, or a range, has to be said: a stripped static musl and google/tcmalloc hold none.
    pub(crate) fn states_version(self, kind: SoftwareKind) -> bool {
        match kind {
            SoftwareKind::Musl => self.is_own_library(),
            SoftwareKind::GoogleTcmalloc => false,
            _ => true,
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::Library => "library",
            Form::Dynamic => "dynamic",
            Form::Static => "static",
            Form::StaticStripped => "static, stripped",
            Form::WholeStatic => "no library at all, stripped",
            Form::Python => "in a Python extension",
            Form::Node => "in a Node addon",
            Form::Rust => "in a Rust program",
        })
    }
}

const PROGRAM: &str = "
#include <stdio.h>
#include <stdlib.h>
int main(int c, char **v) { void *volatile p = malloc(c * 9999); free(p); perror(v[0]); return 0; }
";

// What the compiler's own library would bring, were it as old as the C library.
const STUBS: &str = "
void _Unwind_Resume(void) { abort(); }
void __gcc_personality_v0(void) { abort(); }
";

// Without Python's headers, which a machine with Python need not have.
const PYTHON: &str = "
#include <stdlib.h>
extern void *PyModule_Create2(void *, int);
static struct { long base[5]; const char *name; void *rest[8]; } module = { .name = \"extension\" };
void *PyInit_extension(void) { void *volatile p = malloc(9999); free(p); return PyModule_Create2(&module, 1013); }
";

const NODE: &str = "
#include <stdlib.h>
void *napi_register_module_v1(void *env, void *exports) { void *volatile p = malloc(9999); free(p); return env ? exports : 0; }
";

const RUST: &str = "
extern \"C\" { fn malloc(n: usize) -> *mut u8; fn free(p: *mut u8); }
fn main() { unsafe { free(std::hint::black_box(malloc(9999))) }; println!(\"{}\", std::env::args().count()); }
";

/// Makes it, or says why it can't be had.
pub(crate) fn make(subject: &ShootdownOrigin, form: Form, dir: &Path) -> Result<PathBuf, String> {
    let no_library = "its library is not here";
    let no_archive = "its archive is not here";
    let shared = || subject.shared.clone().ok_or(no_library.to_owned());
    let archive = || subject.archive.clone().ok_or(no_archive.to_owned());
    let pic = || subject.archive_pic.clone().ok_or(no_archive.to_owned());
    let extension = ["-shared", "-fPIC", "-s", "-Wl,--exclude-libs,ALL"];
    match form {
        Form::Library => shared(),
        Form::Dynamic if subject.kind == SoftwareKind::Musl => bare(subject, dir, &[], &shared()?),
        // The machine's own C library needs nothing, and the others need their loader.
        Form::Dynamic if subject.kind == SoftwareKind::Glibc => cc(subject, dir, PROGRAM, &[], &[]),
        Form::Dynamic => {
            let library = shared()?;
            // The newer tag does not hold for the libraries of libraries, and another place may have this one.
            let here = format!("-Wl,-rpath,{}", library.parent().unwrap().display());
            let args = ["-Wl,--no-as-needed", "-Wl,--disable-new-dtags", &here];
            cc(subject, dir, PROGRAM, &args, &[library])
        }
        Form::Static if subject.kind.is_libc() => bare(subject, dir, &["-static"], &archive()?),
        Form::WholeStatic if subject.kind.is_libc() => {
            bare(subject, dir, &["-static", "-s"], &archive()?)
        }
        Form::Static => cc(subject, dir, PROGRAM, &[], &[archive()?]),
        Form::StaticStripped => cc(subject, dir, PROGRAM, &["-s"], &[archive()?]),
        Form::WholeStatic => cc(subject, dir, PROGRAM, &["-static", "-s"], &[archive()?]),
        Form::Python => cc(subject, dir, PYTHON, &extension, &[pic()?]),
        Form::Node => cc(subject, dir, NODE, &extension, &[pic()?]),
        Form::Rust => rust(subject, dir, &pic()?),
    }
}

/// Compiles with the C library that the allocator was built for.
fn cc(
    subject: &ShootdownOrigin,
    dir: &Path,
    source: &str,
    args: &[&str],
    libraries: &[PathBuf],
) -> Result<PathBuf, String> {
    let (input, output) = (dir.join("source.c"), dir.join("made"));
    std::fs::write(&input, source).unwrap();
    let mut command = Command::new("cc");
    command
        .args(["-O1", "-pthread", "-o"])
        .arg(&output)
        .args(args)
        .args(["malloc", "free"].map(|name| format!("-D{name}={}{name}", subject.prefix)))
        .args(root_args(subject))
        .arg(&input)
        .args(libraries)
        .args(c_plus_plus(subject, args.contains(&"-static")))
        .args(["-lm", "-ldl"]);
    run(command, output)
}

/// What makes the compiler use the C library of a root, and its own start files.
fn root_args(subject: &ShootdownOrigin) -> Vec<String> {
    let Some(root) = &subject.root else {
        return Vec::new();
    };
    let libraries = [MULTIARCH, "/lib/x86_64-linux-gnu"].map(|path| root.join(&path[1..]));
    let loader = libraries
        .iter()
        .map(|path| path.join("ld-linux-x86-64.so.2"));
    let loader = loader.into_iter().find(|path| path.exists()).unwrap();
    let mut args = vec![
        format!("--sysroot={}", root.display()),
        format!("-B{}/", libraries[0].display()),
        format!("-Wl,--dynamic-linker={}", loader.display()),
        "-Wl,--disable-new-dtags".to_owned(),
    ];
    for path in &libraries {
        args.push(format!("-L{}", path.display()));
        args.push(format!("-Wl,-rpath,{}", path.display()));
    }
    args
}

/// The C++ library, for those that are written in C++.
fn c_plus_plus(subject: &ShootdownOrigin, whole: bool) -> Vec<String> {
    if !matches!(
        subject.kind,
        SoftwareKind::Gperftools | SoftwareKind::GoogleTcmalloc
    ) {
        return Vec::new();
    }
    // A root has the shared one without the name that compilers look for.
    let name = if subject.root.is_some() && !whole {
        "-l:libstdc++.so.6"
    } else {
        "-lstdc++"
    };
    vec![name.to_owned()]
}

/// A C library's own headers and start files, and nothing of the compiler's, which may be of another age.
fn bare(
    subject: &ShootdownOrigin,
    dir: &Path,
    args: &[&str],
    libc: &Path,
) -> Result<PathBuf, String> {
    let root = subject.root.clone().unwrap_or_else(|| PathBuf::from("/"));
    let musl = subject.kind == SoftwareKind::Musl;
    let own = root.join(&(if musl { MUSL } else { MULTIARCH })[1..]);
    if !own.join("crt1.o").exists() {
        return Err("its start files are not here".to_owned());
    }
    let (input, output) = (dir.join("source.c"), dir.join("made"));
    std::fs::write(&input, [PROGRAM, STUBS].concat()).unwrap();
    let asked = Command::new("cc").arg("-print-libgcc-file-name").output();
    let asked = asked.map_err(|error| format!("cc: {error}"))?;
    let gcc = PathBuf::from(String::from_utf8_lossy(&asked.stdout).trim());
    let mut command = Command::new("cc");
    command
        .args(["-O1", "-nostdlib", "-no-pie", "-fno-pie", "-o"])
        .arg(&output)
        .args(args);
    if musl {
        let headers = root.join("usr/include/x86_64-linux-musl");
        command.args(["-nostdinc", "-isystem"]).arg(headers);
    } else {
        command.arg(format!("--sysroot={}", root.display()));
    }
    command
        .args([own.join("crt1.o"), own.join("crti.o"), input])
        .arg("-Wl,--start-group")
        .args([libc, &gcc])
        .arg("-Wl,--end-group")
        .arg(own.join("crtn.o"));
    if !args.contains(&"-static") {
        command.arg(format!("-Wl,--dynamic-linker={}", libc.display()));
    }
    run(command, output)
}

/// Without cargo: rustc and the archive, all of it, as a `-sys` crate links it.
fn rust(subject: &ShootdownOrigin, dir: &Path, archive: &Path) -> Result<PathBuf, String> {
    let (input, output) = (dir.join("source.rs"), dir.join("made"));
    let prefixed = ["malloc", "free"]
        .iter()
        .fold(RUST.to_owned(), |text, name| {
            text.replace(&format!("{name}("), &format!("{}{name}(", subject.prefix))
        });
    std::fs::write(&input, prefixed).unwrap();
    let name = archive.file_stem().unwrap().to_string_lossy();
    let mut command = Command::new("rustc");
    command
        .args(["--edition=2021", "-O", "-Cstrip=symbols", "-o"])
        .arg(&output)
        .arg(format!("-Lnative={}", archive.parent().unwrap().display()))
        .arg(format!(
            "-lstatic:+whole-archive={}",
            name.trim_start_matches("lib")
        ))
        .arg(&input);
    // All of Debian's jemalloc wants it too, for its operator new.
    let c_plus_plus = if subject.root.is_some() {
        "-l:libstdc++.so.6"
    } else {
        "-lstdc++"
    };
    for arg in root_args(subject) {
        command.arg(format!("-Clink-arg={arg}"));
    }
    command.arg(format!("-Clink-arg={c_plus_plus}"));
    run(command, output)
}

/// The file that a compiler makes, or the last thing that it said.
fn run(mut command: Command, output: PathBuf) -> Result<PathBuf, String> {
    // Nothing of an earlier form is taken for this one.
    let _ = std::fs::remove_file(&output);
    let done = command
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if done.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let known = ["can not be used", "undefined reference", "error"];
    let why = known
        .iter()
        .find_map(|word| said.lines().find(|line| line.contains(word)));
    let why = why.or_else(|| said.lines().last()).unwrap_or("no word");
    Err(format!("does not link here: {}", why.trim()))
}
