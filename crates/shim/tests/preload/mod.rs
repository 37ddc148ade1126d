//! The library itself, built as it is shipped, and programs that run under it.
#![allow(dead_code, reason = "each test uses what it needs")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A folder of this test's own.
fn folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test.file_stem().unwrap());
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

const FLAGS: &str = "--edition 2024 --crate-type cdylib --crate-name quell --cfg quell_preload -C panic=abort \
    -C opt-level=3 -C codegen-units=1 -C lto=fat -C strip=symbols";

/// Where `libquell.so` is; built when it is first asked for.
pub fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let so = folder().join("libquell.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
        let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
        let done = Command::new(rustc)
            .args(FLAGS.split_whitespace())
            .args([
                "-C",
                "link-args=-nostdlib -Wl,-z,now -Wl,-soname,libquell.so",
                "-o",
            ])
            .args([&so, &source])
            .output()
            .expect("rustc runs");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        so
    })
}

/// Builds a C program.
pub fn program(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let (c, exe) = (folder().join(format!("{name}.c")), folder().join(name));
    std::fs::write(&c, source).unwrap();
    let done = Command::new("cc")
        .args(["-O1", "-Wall", "-pthread", "-D_GNU_SOURCE", "-o"])
        .args([&exe, &c])
        .args(flags)
        .output()
        .expect("cc runs");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    exe
}

/// So that the library does at once what it otherwise does after it has seen how the program uses its memory.
const AT_ONCE: &str = "least=4K,lifetimes=0";

/// What never ends is waited for no longer.
pub const LONGEST: Duration = Duration::from_secs(300);

/// Runs it under the library, with these settings, to its end or to the deadline.
pub fn run(command: &mut Command, settings: &str, deadline: Duration) -> Output {
    let settings = format!("{AT_ONCE},{settings}");
    let mut child = command
        .env("LD_PRELOAD", library())
        .env("QUELL_SHIM", settings)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let end = Instant::now() + deadline;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            panic!("it did not end within {deadline:?}: {output:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// Runs a C program, and wants it to end well.
pub fn must(exe: &Path, settings: &str) -> String {
    let output = run(&mut Command::new(exe), settings, LONGEST);
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{}: {}\n{out}{err}",
        exe.display(),
        output.status
    );
    out.into_owned()
}
