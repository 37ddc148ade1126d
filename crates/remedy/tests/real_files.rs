//! Recognition on real files: those that this machine has, and small C programs built here.
//!
//! A test whose file or compiler is missing says so and passes.
#![allow(clippy::print_stderr, clippy::unwrap_used)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use quell_remedy::{
    FoundSoftware, Linking, SoftwareKind, Version, recognise_command, recognise_file,
    recognise_modules, recognise_process,
};

/// The first of these that exists, or a loud skip.
fn first(paths: &[&str]) -> Option<PathBuf> {
    let found = paths.iter().map(PathBuf::from).find(|p| p.exists());
    if found.is_none() {
        eprintln!("SKIPPED: none of {paths:?} is on this machine");
    }
    found
}

fn only(path: &Path) -> FoundSoftware {
    let mut found = recognise_file(path).unwrap();
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

/// Builds a C program, or skips.
fn cc(dir: &Path, name: &str, source: &str, args: &[&str]) -> Option<PathBuf> {
    let (input, output) = (dir.join(format!("{name}.c")), dir.join(name));
    std::fs::write(&input, source).unwrap();
    let done = Command::new("cc")
        .args(["-O1", "-o"])
        .arg(&output)
        .arg(&input)
        .args(args)
        .output();
    match done {
        Ok(out) if out.status.success() => Some(output),
        other => {
            eprintln!("SKIPPED: cc {args:?} did not build {name}: {other:?}");
            None
        }
    }
}

/// Check Debian's jemalloc: plain names, MALLOC_CONF, and a version that its file name confirms.
#[test]
fn debian_jemalloc() {
    let Some(path) = first(&[
        "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
        "/usr/lib/aarch64-linux-gnu/libjemalloc.so.2",
    ]) else {
        return;
    };
    let found = only(&path);
    assert_eq!(
        (found.kind, found.linking),
        (SoftwareKind::Jemalloc, Linking::SharedLibrary)
    );
    assert_eq!(found.conf_env.as_deref(), Some("MALLOC_CONF"));
    assert_eq!(found.prefix.as_deref(), Some(""));
    assert!(found.replaces_malloc && found.at_least(5, 2, 0) && found.version.unwrap().is_exact());
}

/// Check Debian's mimalloc: the version is read from code and so is exact.
#[test]
fn debian_mimalloc() {
    let Some(path) = first(&["/usr/lib/x86_64-linux-gnu/libmimalloc.so.2"]) else {
        return;
    };
    let found = only(&path);
    assert_eq!(
        (found.kind, found.linking, found.replaces_malloc),
        (SoftwareKind::Mimalloc, Linking::SharedLibrary, true)
    );
    assert!(
        found.version.unwrap().is_exact() && found.at_least(2, 0, 0),
        "{found:?}"
    );
}

/// Check Debian's gperftools, small and full.
#[test]
fn debian_gperftools() {
    for path in [
        "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
        "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4",
    ] {
        let Some(path) = first(&[path]) else { continue };
        let found = only(&path);
        assert_eq!(
            (found.kind, found.linking, found.replaces_malloc),
            (SoftwareKind::Gperftools, Linking::SharedLibrary, true)
        );
        assert!(
            found.at_least(2, 7, 0) && found.is_below(3, 0, 0),
            "{found:?}"
        );
    }
}

/// Check the C library of this very process, through its maps.
#[test]
fn own_process() {
    let seen = recognise_process(Path::new("/"), std::process::id()).unwrap();
    let libc = seen.found.iter().find(|f| f.kind.is_libc()).unwrap();
    assert_eq!(libc.linking, Linking::SharedLibrary);
    assert!(libc.version.unwrap().is_exact());
    // This program holds every needle as a constant, and must not take itself for an allocator.
    assert_eq!(seen.found.len(), 1, "{:#?}", seen.found);
}

/// Check that a process that does not exist is refused in words.
#[test]
fn no_process() {
    let error = format!(
        "{:#}",
        recognise_process(Path::new("/"), u32::MAX).unwrap_err()
    );
    assert!(error.contains("no such process"), "{error}");
}

/// Check that a process whose file was deleted is still read, where the system lets us.
#[test]
fn deleted_file() {
    let dir = tempfile::tempdir().unwrap();
    let source = "#include <stdio.h>\n#include <stdlib.h>\nint main(){puts(\"up\");fflush(stdout);void*volatile p=malloc(9);getchar();free(p);return 0;}";
    let Some(program) = cc(dir.path(), "idle", source, &["-static"]) else {
        return;
    };
    let mut child = Command::new(&program)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(child.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    std::fs::remove_file(&program).unwrap();
    let seen = recognise_process(Path::new("/"), child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    let seen = seen.unwrap();
    if seen.found.is_empty() && seen.skipped.iter().any(|s| s.contains("not permitted")) {
        eprintln!("SKIPPED: map_files is not readable without privilege");
        return;
    }
    assert_eq!(seen.found[0].kind, SoftwareKind::Glibc, "{seen:#?}");
    assert_eq!(seen.found[0].module, program);
}

/// Check static programs of glibc and musl, stripped.
#[test]
fn static_libc() {
    let dir = tempfile::tempdir().unwrap();
    let source = "#include <stdio.h>\n#include <stdlib.h>\nint main(int c,char**v){void*volatile p=malloc(c*9999);free(p);perror(v[0]);return 0;}";
    if let Some(program) = cc(dir.path(), "glibc", source, &["-static", "-s"]) {
        let found = only(&program);
        assert_eq!(
            (found.kind, found.linking),
            (SoftwareKind::Glibc, Linking::Static)
        );
        assert!(found.at_least(2, 26, 0), "{found:?}");
    }
    if first(&["/usr/bin/musl-gcc"]).is_some() {
        let program = dir.path().join("musl");
        let input = dir.path().join("glibc.c");
        let done = Command::new("musl-gcc")
            .args(["-static", "-s", "-o"])
            .arg(&program)
            .arg(&input)
            .status()
            .unwrap();
        assert!(done.success());
        assert_eq!(only(&program).kind, SoftwareKind::Musl);
    }
    let Some(loader) = first(&["/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-aarch64.so.1"]) else {
        return;
    };
    let found = only(&loader);
    assert!(
        found.kind == SoftwareKind::Musl
            && found
                .version
                .is_some_and(|v| v.is_exact() && v.at_least(1, 0, 0)),
        "{found:?}"
    );
}

/// Check runtimes: Node, Go and Java, each with its version.
#[test]
fn runtimes() {
    if let Some(node) = first(&["/usr/bin/node", "/usr/local/bin/node"]) {
        if recognise_file(&node).unwrap().is_empty() {
            eprintln!("SKIPPED: {} holds no Node.js of its own", node.display());
        } else {
            assert!(only(&node).at_least(10, 0, 0));
        }
    }
    if let Some(go) = first(&["/usr/local/go/bin/go", "/usr/lib/go/bin/go"]) {
        let found = only(&go);
        assert!(
            found.kind == SoftwareKind::GoRuntime && found.at_least(1, 0, 0),
            "{found:?}"
        );
    }
    let jvms: Vec<PathBuf> = std::fs::read_dir("/usr/lib/jvm")
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path().join("lib/server/libjvm.so"))
        .filter(|p| p.exists())
        .collect();
    if jvms.is_empty() {
        eprintln!("SKIPPED: no Java in /usr/lib/jvm");
    }
    for jvm in jvms {
        let found = only(&jvm);
        assert!(
            found.kind == SoftwareKind::Jvm && found.at_least(8, 0, 0),
            "{found:?}"
        );
    }
}

/// Check Erlang's virtual machine, if it is there, with its version.
#[test]
fn erlang() {
    let root = Path::new("/usr/lib/erlang");
    let machines = std::fs::read_dir(root).into_iter().flatten().flatten();
    let machines = machines.map(|e| e.path().join("bin/beam.smp"));
    let machines: Vec<PathBuf> = machines.filter(|p| p.exists()).collect();
    if machines.is_empty() {
        eprintln!("SKIPPED: no Erlang in {}", root.display());
    }
    for machine in machines {
        let found = only(&machine);
        assert!(
            found.kind == SoftwareKind::Beam && found.at_least(5, 0, 0),
            "{found:?}"
        );
    }
}

/// Check Polars' extension if there is one: jemalloc inside, and the Rust name.
#[test]
fn polars() {
    let homes = ["QUELL_TEST_POLARS", "VIRTUAL_ENV"]
        .iter()
        .filter_map(std::env::var_os);
    let name = "_polars_runtime_32/_polars_runtime.abi3.so";
    let candidate = homes.map(PathBuf::from).find_map(|home| {
        let libs = std::fs::read_dir(home.join("lib")).ok()?.flatten();
        libs.map(|l| l.path().join("site-packages").join(name))
            .find(|p| p.exists())
    });
    let Some(path) = candidate else {
        eprintln!("SKIPPED: no Polars; name its virtual environment in QUELL_TEST_POLARS");
        return;
    };
    let found = only(&path);
    assert_eq!(
        (found.kind, found.linking, found.replaces_malloc),
        (SoftwareKind::Jemalloc, Linking::Static, false)
    );
    assert_eq!(found.conf_env.as_deref(), Some("_RJEM_MALLOC_CONF"));
    assert_eq!(found.prefix.as_deref(), Some("_rjem_"));
    assert!(found.at_least(5, 0, 0));
}

/// Check redis-server as a command: jemalloc is found, and the name that we say it reads is the one
/// that it really reads, seen by its complaint about a key that no jemalloc knows.
#[test]
fn redis_honours_what_we_say() {
    let Some(redis) = first(&["/usr/bin/redis-server"]) else {
        return;
    };
    let seen = recognise_command(&[redis.clone().into()], &|n: &str| std::env::var_os(n)).unwrap();
    let Some(jemalloc) = seen.found.iter().find(|f| f.kind == SoftwareKind::Jemalloc) else {
        eprintln!("SKIPPED: this redis-server is built without jemalloc");
        return;
    };
    let said = jemalloc.conf_env.clone().unwrap();
    for name in ["MALLOC_CONF", "JE_MALLOC_CONF", "_RJEM_MALLOC_CONF"] {
        let out = Command::new(&redis)
            .arg("--version")
            .env(name, "no_such_key:1")
            .output()
            .unwrap();
        let complains = String::from_utf8_lossy(&out.stderr).contains("no_such_key");
        assert_eq!(complains, name == said, "{name}, said {said}");
    }
    let text = Command::new(&redis)
        .arg("--version")
        .output()
        .unwrap()
        .stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    if let Some(version) = text
        .split("malloc=jemalloc-")
        .nth(1)
        .and_then(|t| Version::parse_leading(t.as_bytes()))
    {
        assert_eq!(jemalloc.version, Some(version));
    }
}

/// Check a plain command, a preloaded allocator, and the note about interpreters.
#[test]
fn commands() {
    let env = |n: &str| std::env::var_os(n);
    let plain = recognise_command(&["ls".into()], &env).unwrap();
    assert!(
        plain.found.iter().all(|f| f.kind.is_libc()) && plain.notes.is_empty(),
        "{plain:#?}"
    );
    if let Some(jemalloc) = first(&["/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"]) {
        let preload = |n: &str| {
            if n == "LD_PRELOAD" {
                Some(jemalloc.clone().into_os_string())
            } else {
                env(n)
            }
        };
        let kinds: Vec<SoftwareKind> = recognise_command(&["ls".into()], &preload)
            .unwrap()
            .found
            .iter()
            .map(|f| f.kind)
            .collect();
        assert!(
            kinds.contains(&SoftwareKind::Jemalloc) && kinds.contains(&SoftwareKind::Glibc),
            "{kinds:?}"
        );
    }
    let script = recognise_command(&["sh".into(), "x.sh".into()], &env).unwrap();
    assert!(
        script.notes.iter().any(|n| n.contains("interpreter")),
        "{script:#?}"
    );
    assert!(recognise_command(&[OsString::from("no-such-command-anywhere")], &env).is_err());
}

/// Check that unreadable files are skipped and said, and one file under two names counts once.
#[test]
fn modules() {
    let dir = tempfile::tempdir().unwrap();
    let (exe, link) = (std::env::current_exe().unwrap(), dir.path().join("link"));
    std::os::unix::fs::symlink(&exe, &link).unwrap();
    let text = dir.path().join("text");
    std::fs::write(&text, "no ELF").unwrap();
    let missing = dir.path().join("missing");
    let seen = recognise_modules([exe.as_path(), &link, &text, &missing].into_iter());
    assert_eq!(seen.skipped.len(), 2, "{seen:#?}");
    assert!(seen.skipped[0].contains("not an ELF file") && seen.skipped[1].contains("missing"));
    assert!(seen.found.is_empty());
}

/// Check every Python here: the version that it says of itself is the one that is found.
#[test]
fn pythons() {
    let mut seen = 0;
    for program in ["/usr/bin/python3", "python3"] {
        let asked = Command::new(program)
            .args(["-c", "import sys, os; print('%d.%d.%d' % sys.version_info[:3]); print(open('/proc/self/maps').read())"])
            .output();
        let Ok(asked) = asked else { continue };
        let text = String::from_utf8_lossy(&asked.stdout).into_owned();
        let Some((version, maps)) = text.split_once('\n') else {
            continue;
        };
        // Some have all of it in the program, others in a library.
        let files = maps
            .lines()
            .filter(|l| l.contains("r-xp"))
            .filter_map(|l| l.find('/').map(|at| PathBuf::from(&l[at..])))
            .filter(|p| p.to_string_lossy().contains("python3"))
            .filter(|p| !p.to_string_lossy().contains("/lib-dynload/"));
        let found = recognise_modules(files.collect::<Vec<_>>().iter().map(PathBuf::as_path)).found;
        let pythons: Vec<_> = found
            .iter()
            .filter(|f| f.kind == SoftwareKind::CPython)
            .collect();
        assert_eq!(pythons.len(), 1, "{program}: {found:#?}");
        assert_eq!(
            pythons[0].version.unwrap().to_string(),
            version,
            "{program}"
        );
        seen += 1;
    }
    if seen == 0 {
        eprintln!("SKIPPED: there is no Python here");
    }
}

/// Check the servers of this machine: by name, whatever else is in the file, and not as allocators.
#[test]
fn servers() {
    for (path, kind) in [
        ("/usr/bin/redis-server", SoftwareKind::Redis),
        (
            "/usr/lib/postgresql/15/bin/postgres",
            SoftwareKind::PostgreSql,
        ),
    ] {
        let Some(path) = first(&[path]) else { continue };
        let found = recognise_file(&path).unwrap();
        let server = found.iter().find(|f| !f.kind.has_allocator());
        assert_eq!(server.map(|f| f.kind), Some(kind), "{found:#?}");
    }
}
