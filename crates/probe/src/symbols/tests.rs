//! Against files that the real tools make.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use quell_event::trace::MissingNameReason;
use quell_host::functions::{self, Table};

use super::*;

/// A function that is not exported, and one that is.
const SOURCE: &str = "
    static __attribute__((noinline)) int quell_inner(int x) { return x * 3 + 1; }
    __attribute__((noinline)) int quell_outer(int x) { return quell_inner(x) + 1; }
    int main(int argc, char **argv) { (void)argv; return quell_outer(argc); }
";

/// Runs a tool; false, and said loudly, if it isn't there.
fn run<S: AsRef<OsStr>>(test: &str, tool: &str, args: impl IntoIterator<Item = S>) -> bool {
    match Command::new(tool).args(args).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{test}: {tool}: {said}");
            true
        }
        Err(error) => {
            eprintln!("SKIPPED {test}: {tool}: {error}");
            false
        }
    }
}

/// A folder that stands for `/`, with a program in `/opt/bin` and the tools to take it apart.
struct Root {
    dir: tempfile::TempDir,
    test: &'static str,
}

impl Root {
    /// With the program built, stripped of nothing.
    fn new(test: &'static str, flags: &[&str]) -> Option<Self> {
        let root = Self {
            dir: tempfile::tempdir().unwrap(),
            test,
        };
        for folder in ["opt/bin", "usr/lib/debug"] {
            fs::create_dir_all(root.at(folder)).unwrap();
        }
        fs::write(root.at("a.c"), SOURCE).unwrap();
        let (source, program) = (root.at("a.c"), root.at("opt/bin/a"));
        let mut args: Vec<&OsStr> = flags.iter().map(OsStr::new).collect();
        args.extend([
            OsStr::new("-O1"),
            "-o".as_ref(),
            program.as_ref(),
            source.as_ref(),
        ]);
        run(test, "cc", args).then_some(root)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Runs a tool in the folder of the program.
    fn tool(&self, tool: &str, args: &str) -> bool {
        let line = format!(
            "cd '{}' && exec {tool} {args}",
            self.at("opt/bin").display()
        );
        let there = Command::new(tool).arg("--version").output().is_ok();
        if !there {
            eprintln!("SKIPPED {}: no {tool}", self.test);
        }
        there && run(self.test, "sh", ["-c", &line])
    }

    /// The offsets of the two functions in the program as it is now.
    fn offsets(&self) -> Vec<u64> {
        let data = fs::read(self.at("opt/bin/a")).unwrap();
        let named = |name: &str| {
            (0..data.len() as u64)
                .find(|&offset| {
                    let at = functions::linked_address(&data[..], offset);
                    at.and_then(|at| functions::names_at(&data[..], Table::Full, &[at])?.remove(0))
                        .is_some_and(|n| n == name)
                })
                .unwrap()
        };
        vec![named("quell_inner"), named("quell_outer")]
    }

    /// What the two functions are called.
    fn names(&self, offsets: &[u64]) -> Vec<Result<String, MissingNameReason>> {
        let data = fs::read(self.at("opt/bin/a")).unwrap();
        let roots: Vec<OwnedFd> = vec![open_files::open_folder(self.dir.path()).unwrap()];
        file_names::names_in_file(&data[..], Path::new("/opt/bin/a"), &roots, offsets)
    }
}

fn both() -> Vec<Result<String, MissingNameReason>> {
    ["quell_inner", "quell_outer"]
        .map(|n| Ok(n.to_owned()))
        .into()
}

fn neither() -> Vec<Result<String, MissingNameReason>> {
    vec![Err(MissingNameReason::Stripped); 2]
}

/// Check that a stripped program has no names, and its debug file by the build id gives them back.
#[test]
fn debug_files_by_build_id() {
    let Some(root) = Root::new("debug_files_by_build_id", &["-Wl,--build-id"]) else {
        return;
    };
    let offsets = root.offsets();
    assert_eq!(root.names(&offsets), both());
    let id = functions::build_id(&fs::read(root.at("opt/bin/a")).unwrap()[..]).unwrap();
    let folder = format!("usr/lib/debug/.build-id/{}", &id[..2]);
    let debug = root.at(&format!("{folder}/{}.debug", &id[2..]));
    fs::create_dir_all(root.at(&folder)).unwrap();
    if !root.tool(
        "objcopy",
        &format!("--only-keep-debug a '{}'", debug.display()),
    ) {
        return;
    }
    assert!(root.tool("strip", "a"));
    assert_eq!(root.names(&offsets), both());
    // another program's
    fs::write(root.at("a.c"), SOURCE.replace("* 3", "* 5")).unwrap();
    let (source, other) = (root.at("a.c"), debug.as_os_str());
    assert!(run(
        "",
        "cc",
        [
            OsStr::new("-Wl,--build-id"),
            "-o".as_ref(),
            other,
            source.as_ref()
        ]
    ));
    assert_eq!(root.names(&offsets), neither());
    fs::remove_file(&debug).unwrap();
    assert_eq!(root.names(&offsets), neither());
}

/// Check that a debug link is followed to each place that GDB knows, and by the checksum only.
#[test]
fn debug_files_by_link() {
    let Some(root) = Root::new("debug_files_by_link", &["-Wl,--build-id=none"]) else {
        return;
    };
    let offsets = root.offsets();
    if !root.tool("objcopy", "--only-keep-debug a a.debug") {
        return;
    }
    assert!(root.tool("strip", "a") && root.tool("objcopy", "--add-gnu-debuglink=a.debug a"));
    assert_eq!(root.names(&offsets), both());
    let mut at = root.at("opt/bin/a.debug");
    for next in ["opt/bin/.debug/a.debug", "usr/lib/debug/opt/bin/a.debug"] {
        let next = root.at(next);
        fs::create_dir_all(next.parent().unwrap()).unwrap();
        fs::rename(&at, &next).unwrap();
        assert_eq!(root.names(&offsets), both(), "{}", next.display());
        at = next;
    }
    let mut bytes = fs::read(&at).unwrap();
    bytes.push(0);
    fs::write(&at, bytes).unwrap();
    assert_eq!(root.names(&offsets), neither());
}

/// Check that the small table of Fedora's programs is read, and a damaged one takes nothing else away.
#[test]
fn mini_debug_info() {
    let Some(root) = Root::new("mini_debug_info", &["-rdynamic"]) else {
        return;
    };
    let offsets = root.offsets();
    // as GDB's manual makes it: a debug file with functions that the dynamic table doesn't have
    let made = root.tool("objcopy", "--only-keep-debug a mini")
        && root.tool(
            "nm",
            "a --format=posix --defined-only | grep quell_inner | cut -d' ' -f1 > keep",
        )
        && root.tool(
            "objcopy",
            "-S --remove-section .comment --keep-symbols=keep mini",
        )
        && root.tool("strip", "a")
        && root.tool("xz", "-k mini");
    if !made {
        return;
    }
    assert_eq!(
        root.names(&offsets),
        [
            Err(MissingNameReason::Stripped),
            Ok("quell_outer".to_owned())
        ]
    );
    fs::copy(root.at("opt/bin/a"), root.at("opt/bin/stripped")).unwrap();
    assert!(root.tool("objcopy", "--add-section .gnu_debugdata=mini.xz a"));
    assert_eq!(root.names(&offsets), both());
    let mut packed = fs::read(root.at("opt/bin/mini.xz")).unwrap();
    let middle = packed.len() / 2;
    packed[middle] ^= 0xff;
    fs::write(root.at("opt/bin/mini.xz"), packed).unwrap();
    assert!(root.tool("objcopy", "--add-section .gnu_debugdata=mini.xz stripped a"));
    assert_eq!(
        root.names(&offsets),
        [
            Err(MissingNameReason::Stripped),
            Ok("quell_outer".to_owned())
        ]
    );
}

/// Check that a file that is truncated after it was opened has no names, and does no harm.
#[test]
fn truncated_files() {
    let Some(root) = Root::new("truncated_files", &[]) else {
        return;
    };
    let offsets = root.offsets();
    let program = root.at("opt/bin/a");
    let whole = fs::read(&program).unwrap();
    let roots: Vec<OwnedFd> = vec![open_files::open_folder(root.dir.path()).unwrap()];
    let names =
        |data: &_| file_names::names_in_file(data, Path::new("/opt/bin/a"), &roots, &offsets);
    for left in [0, 3, 64, 4096, whole.len() as u64 - 64] {
        fs::write(&program, &whole).unwrap();
        let file = open_files::open_within(&roots[0], Path::new("opt/bin/a")).unwrap();
        let data = open_files::whole_contents(file).unwrap();
        fs::File::options()
            .write(true)
            .open(&program)
            .unwrap()
            .set_len(left)
            .unwrap();
        assert!(names(&data).iter().all(Result::is_err), "{left}");
    }
    // its symbols gone after its headers were read
    fs::write(&program, &whole).unwrap();
    let file = open_files::open_within(&roots[0], Path::new("opt/bin/a")).unwrap();
    let data = open_files::whole_contents(file).unwrap();
    assert!(functions::is_elf(&data));
    fs::write(&program, &whole[..4096]).unwrap();
    assert!(names(&data).iter().all(Result::is_err));
}

/// The names of all functions of a file, as they are shown.
fn all_names(file: &Path) -> Vec<String> {
    let data = fs::read(file).unwrap();
    let offsets: Vec<u64> = (0..data.len() as u64)
        .step_by(8)
        .filter(|&o| functions::linked_address(&data[..], o).is_some())
        .collect();
    let mut names: Vec<String> = file_names::names_in_file(&data[..], file, &[], &offsets)
        .into_iter()
        .flatten()
        .collect();
    names.dedup();
    names
}

fn assert_has(names: &[String], name: &str) {
    assert!(
        names.iter().any(|n| n == name),
        "no {name} in {names:.2000?}"
    );
}

/// Check that functions of C++ and Rust have the names that their programmers gave them.
#[test]
fn mangled_names() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("a");
    let source = dir.path().join("a.cc");
    let text = "#include <vector>\nnamespace quell { struct Pool { void drain(const std::vector<int> &); }; \
        __attribute__((noinline)) void Pool::drain(const std::vector<int> &v) { if (v.size()) __builtin_trap(); } }\n\
        int main() { std::vector<int> v(1); quell::Pool().drain(v); }";
    fs::write(&source, text).unwrap();
    let args = ["-o".as_ref(), out.as_os_str(), source.as_ref()];
    if run("mangled_names", "c++", args) {
        let name = "quell::Pool::drain(std::vector<int, std::allocator<int> > const&)";
        assert_has(&all_names(&out), name);
    }
    let source = dir.path().join("a.rs");
    let text = "mod pool { pub struct Pool<T>(pub T); impl<T: Copy> Pool<T> { #[inline(never)] \
        pub fn drain(&self) -> T { std::hint::black_box(self.0) } } } fn main() { pool::Pool(7u8).drain(); }";
    fs::write(&source, text).unwrap();
    // compilers have changed from one mangling to the other
    let either = ["a::pool::Pool<T>::drain", "<a::pool::Pool<u8>>::drain"];
    for flags in [&[][..], &["-Csymbol-mangling-version=v0"]] {
        let mut args = vec!["-o".as_ref(), out.as_os_str(), source.as_ref()];
        args.extend(flags.iter().map(OsStr::new));
        if run("mangled_names", "rustc", args) {
            let names = all_names(&out);
            assert!(
                either.iter().any(|n| names.iter().any(|m| m == n)),
                "{flags:?}: no {either:?}"
            );
        }
    }
}

/// Check that a Go program without symbols is named by the table of its runtime, also at an address of
/// its own choice.
#[test]
fn stripped_go() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("a.go");
    let text = "package main\n\ntype Pool struct{ n int }\n\n//go:noinline\nfunc (p *Pool) Drain() { p.n++ }\n\n\
        func main() { (&Pool{}).Drain() }\n";
    fs::write(&source, text).unwrap();
    let go = ["go", "/usr/local/go/bin/go"]
        .into_iter()
        .find(|g| Command::new(g).arg("version").output().is_ok());
    let Some(go) = go else {
        eprintln!("SKIPPED stripped_go: no go");
        return;
    };
    for mode in ["exe", "pie"] {
        let out = dir.path().join(mode);
        let line = format!(
            "cd '{0}' && HOME=\"${{HOME:-{0}}}\" GO111MODULE=off GOFLAGS= CGO_ENABLED=0 \
             {go} build -buildmode={mode} -ldflags='-s -w' -o {mode} a.go",
            dir.path().display()
        );
        assert!(run("stripped_go", "sh", ["-c", &line]));
        let data = fs::read(&out).unwrap();
        assert_eq!(
            functions::names_at(&data[..], Table::Full, &[0]),
            None,
            "{mode} has symbols"
        );
        let names = all_names(&out);
        for name in ["main.(*Pool).Drain", "main.main", "runtime.goexit"] {
            let found = names
                .iter()
                .any(|n| n == name || *n == format!("{name}.abi0"));
            assert!(found, "{mode}: no {name} among {}", names.len());
        }
    }
}
