//! Exports as their users ask for them: where they go, and what is refused. What is in them is tested
//! beside their code, and with their readers by scripts/test-exports.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use quell_event::trace::{TraceMeta, TraceWriter};
use quell_event::{Shootdown, ShootdownVictim};

use crate::common::{QUELL, beside_others, quell};

/// A trace of so many shootdowns, with one victim each.
fn trace(dir: &Path, shootdowns: u64) -> String {
    let path = dir.join("trace.quell");
    let mut writer = TraceWriter::create(&path, &TraceMeta::default(), false).expect("a trace");
    for n in 0..shootdowns {
        writer.push_shootdown(&Shootdown {
            t_ns: n * 10_000,
            wait_ns: 2_000,
            end: 4096,
            victims: vec![ShootdownVictim {
                cpu: 1,
                delay_ns: 700,
                stall_ns: 300,
                ..ShootdownVictim::default()
            }],
            ..Shootdown::default()
        });
    }
    writer.finish(1, |_| ()).expect("a closed trace");
    path.display().to_string()
}

fn refused(args: &[&str]) -> String {
    let out = quell(args);
    assert_eq!(out.status.code(), Some(2), "{args:?}");
    assert!(out.stdout.is_empty(), "{args:?}");
    String::from_utf8_lossy(&out.stderr).trim_end().to_owned()
}

/// Check that options that don't fit the format, and formats that are none, are refused in one line.
#[test]
fn usage() {
    let dir = tempfile::tempdir().expect("a folder");
    let trace = trace(dir.path(), 1);
    let said = |args: &[&str]| refused(&[&["report", &trace], args].concat());
    insta::assert_snapshot!(said(&["--export", "csv", "--weight", "wait"]), @"quell: --weight is for pprof, folded and speedscope: leave it out for csv");
    insta::assert_snapshot!(said(&["--export", "pprof", "--of", "stall"]), @"quell: --of is for hgrm and hlog: leave it out for pprof");
    insta::assert_snapshot!(said(&["--export", "csv", "--json"]), @"quell: the argument '--export <FORMAT>' cannot be used with '--json'; see 'quell report --help'");
    insta::assert_snapshot!(said(&["--export", "svg"]), @"quell: invalid value 'svg' for '--export <FORMAT>' [possible values: perfetto, pprof, folded, speedscope, hgrm, hlog, csv]; see 'quell report --help'");
    assert!(said(&["--weight", "wait"]).contains("--export"));
}

/// Check that a trace that is none is refused before the output is touched.
#[test]
fn bad_trace_leaves_the_output() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("out");
    fs::write(&out, "precious").expect("a file");
    let out = out.display().to_string();
    refused(&["report", "/nonexistent", "--export", "csv", "-o", &out]);
    assert_eq!(fs::read_to_string(&out).expect("a file"), "precious");
}

/// What is said of a trace that was made up: that it has no counts and, where that matters, no stacks.
fn missing(format: &str) -> &'static str {
    const ALL: &str = "quell: the trace has no counts: whether something was lost is not known\n\
        quell: the trace has no stacks (stacks.jsonl): the export lacks all that is by stack\n";
    let one_line = ALL.find('\n').expect("two lines") + 1;
    match format {
        "hgrm" | "hlog" | "csv" => &ALL[..one_line],
        _ => ALL,
    }
}

/// Check that each format is the same on stdout and by -o, with what is missing on stderr and nothing else, and begins as its
/// kind of file does.
#[test]
fn every_format() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let trace = trace(dir.path(), 3);
    for (format, begins) in [
        ("perfetto", &b"\x0a"[..]),
        ("pprof", b"\x1f\x8b"),
        ("folded", b"[no name];[other] 6000\n"),
        ("speedscope", b"{\"$schema\":"),
        ("hgrm", b"       Value     Percentile"),
        ("hlog", b"#[Histogram log format version"),
        ("csv", b"id,victim_index,t_ns"),
    ] {
        let file = dir.path().join(format).display().to_string();
        let out = quell(&["report", &trace, "--export", format]);
        assert_eq!(out.status.code(), Some(0), "{format}");
        assert_eq!(
            String::from_utf8_lossy(&out.stderr),
            missing(format),
            "{format}"
        );
        assert!(out.stdout.starts_with(begins), "{format}: {out:?}");
        quell(&["report", &trace, "--export", format, "-o", &file]);
        assert_eq!(fs::read(&file).expect("a file"), out.stdout, "{format}");
    }
}

/// Check that binary formats refuse a terminal, and name the way out.
#[test]
fn binary_refuses_a_terminal() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let trace = trace(dir.path(), 1);
    let (mut us, mut them) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: the call writes two file descriptors and takes nothing else.
    let made = unsafe { libc::openpty(&mut us, &mut them, none, none.cast(), none.cast()) };
    assert_eq!(made, 0, "no terminal to be had");
    // SAFETY: both were just opened, and nobody else has them.
    let (_us, them) = unsafe {
        use std::os::fd::{FromRawFd as _, OwnedFd};
        (OwnedFd::from_raw_fd(us), OwnedFd::from_raw_fd(them))
    };
    for format in ["perfetto", "pprof"] {
        let out = Command::new(QUELL)
            .args(["report", &trace, "--export", format])
            .stdout(them.try_clone().expect("a terminal"))
            .stderr(Stdio::piped())
            .spawn()
            .and_then(std::process::Child::wait_with_output)
            .expect("quell starts");
        assert_eq!(out.status.code(), Some(2));
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(
            said.contains("is binary") && said.contains("-o FILE"),
            "{said}"
        );
    }
}

/// Check that `-` is stdout for exports and the page, and no file of that name.
#[test]
fn dash_is_stdout() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let trace = trace(dir.path(), 10);
    let plain = quell(&["report", &trace, "--export", "csv"]).stdout;
    let dash = quell(&["report", &trace, "--export", "csv", "-o", "-"]).stdout;
    assert!(!plain.is_empty() && plain == dash);
    let page = quell(&["report", &trace, "--html", "-"]).stdout;
    assert!(page.starts_with(b"<!doctype html>"));
    let mut child = Command::new(QUELL)
        .args(["report", &trace, "--html", "-"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("quell starts");
    drop(child.stdout.take());
    assert_eq!(
        child.wait().expect("it ends").code(),
        Some(0),
        "nobody reads"
    );
    assert!(!Path::new("-").exists());
}

/// Check that a reader that goes away is no error, and that a full disk is one.
#[test]
fn readers_that_go() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let trace = trace(dir.path(), 50_000);
    for format in ["csv", "perfetto"] {
        let mut child = Command::new(QUELL)
            .args(["report", &trace, "--export", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("quell starts");
        let mut some = [0; 100];
        let mut stdout = child.stdout.take().expect("a pipe");
        stdout.read_exact(&mut some).expect("a beginning");
        drop(stdout);
        let out = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!((out.status.code(), &*said), (Some(0), missing(format)));
        let said = quell(&["report", &trace, "--export", format, "-o", "/dev/full"]);
        assert_eq!(said.status.code(), Some(1));
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.contains("can't export to /dev/full"), "{said}");
    }
}
