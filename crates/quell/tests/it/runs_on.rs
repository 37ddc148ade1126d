//! Whatever becomes of quell, the user's command runs on: its output and its status are as without quell.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use quell_event::trace::Trace;
use std::os::unix::process::ExitStatusExt as _;

use crate::common::{QUELL, beside_others, comes_true, json, root_only};
use crate::interrupt::signal;

fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(comes_true(is_so), "{what}: it doesn't come");
}

/// A command of a user's that begins, goes on when it is told, prints, and ends with status 3; and the quell that it
/// runs under.
struct Case {
    dir: tempfile::TempDir,
    quell: Child,
    ended: Option<ExitStatus>,
}

impl Case {
    /// `small` is a file system of 4 MB for the trace, which the command fills as it begins.
    fn start(verb: &[&str], small: bool) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let at = dir.path().display();
        std::fs::create_dir(dir.path().join("disk")).expect("a folder");
        let fill = if small {
            format!("cat /dev/zero > {at}/disk/fill 2> {at}/no-space;")
        } else {
            String::new()
        };
        // The status is told by a shell around it: quell may not be there to tell.
        let command = format!(
            "sh -c '{fill} echo $$ > {at}/begun; until [ -e {at}/go ]; do sleep 0.02; done; echo one; echo two; exit 3'; \
             status=$?; echo $status > {at}/status; exit $status"
        );
        let mount = if small {
            format!("mount -t tmpfs -o size=4m quell-test {at}/disk && ")
        } else {
            String::new()
        };
        let verb: Vec<_> = verb
            .iter()
            .map(|w| w.replace("DIR", &at.to_string()))
            .collect();
        let file = |name: &str| File::create(dir.path().join(name)).expect("a file");
        let quell = Command::new("unshare")
            .args([
                "-m",
                "sh",
                "-c",
                &format!("{mount}exec \"$@\""),
                "sh",
                // whoever runs the tests may ignore hangups (nohup), and quell leaves ignored what was ignored
                "env",
                "--default-signal=HUP",
                QUELL,
            ])
            .args(&verb)
            .args(["--", "sh", "-c", &command])
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .expect("unshare starts");
        let mut case = Self {
            dir,
            quell,
            ended: None,
        };
        wait_until("the command begins", || {
            case.is_over() || case.read("begun").ends_with('\n')
        });
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn is_over(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.quell.try_wait().expect("a status");
        }
        self.ended.is_some()
    }

    /// Waits until quell has said it, or is over.
    fn wait_for(&mut self, words: &str) {
        wait_until(words, || self.is_over() || self.read("err").contains(words));
    }

    fn quells_end(&mut self) -> ExitStatus {
        wait_until("quell ends", || self.is_over());
        self.ended.expect("a status")
    }

    fn runs(&self) -> bool {
        Path::new("/proc").join(self.read("begun").trim()).exists()
    }

    /// Lets the command go on to its end, and checks that.
    fn command_ends_well(&mut self) {
        assert!(self.runs(), "the command was ended: {}", self.read("err"));
        File::create(self.path("go")).expect("a file");
        wait_until("the command ends", || {
            self.read("status").ends_with('\n') || !self.runs()
        });
        wait_until("its status is told", || self.read("status").ends_with('\n'));
        assert_eq!(self.read("status"), "3\n");
        let out = [self.read("out"), self.read("err")].concat();
        assert!(out.contains("one\ntwo\n"), "{out}");
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        // A test that failed leaves nobody behind.
        let _ = File::create(self.path("go"));
        let _ = self.quell.wait();
    }
}

/// Check that a trace's disk that gets full, and a trace's folder that is removed, end the recording with one line, and
/// neither the command, nor its output, nor its status, which is quell's.
#[test]
fn a_trace_that_can_not_be_written() {
    if !root_only("a_trace_that_can_not_be_written") {
        return;
    }
    let _beside = beside_others();
    for small in [true, false] {
        let mut case = Case::start(&["record", "-o", "DIR/disk/t.quell"], small);
        if !small {
            std::fs::remove_dir_all(case.path("disk")).expect("the folder goes");
        }
        let words = if small { "space" } else { "no such file" };
        case.wait_for(words);
        case.command_ends_well();
        assert_eq!(case.quells_end().code(), Some(3));
        let said = case.read("err");
        let lines: Vec<_> = said.lines().filter(|l| l.starts_with("quell: ")).collect();
        assert_eq!(lines.len(), 1, "{said}");
        assert!(lines[0].contains("the command runs on") && lines[0].contains(words));
    }
}

/// Check that a result that can't be written leaves the command its status.
#[test]
fn a_result_that_can_not_be_written() {
    if !root_only("a_result_that_can_not_be_written") {
        return;
    }
    let _beside = beside_others();
    for backend in [&[][..], &["--backend", "proc"]] {
        let args = [&["stat", "-o", "/dev/full"][..], backend].concat();
        let mut case = Case::start(&args, false);
        case.command_ends_well();
        assert_eq!(case.quells_end().code(), Some(3));
        assert!(
            case.read("err").contains("No space left"),
            "{}",
            case.read("err")
        );
    }
}

/// Check that SIGTERM and SIGHUP end quell alone, with their status and with what it has to say, and that a quell that is
/// killed or aborts takes nobody along.
#[test]
fn signals_end_quell_alone() {
    if !root_only("signals_end_quell_alone") {
        return;
    }
    let _beside = beside_others();
    let record = &["record", "-o", "DIR/disk/t.quell"][..];
    let stat = &["stat", "--json", "-o", "DIR/stat"][..];
    let proc = &["stat", "--backend", "proc"][..];
    let plan = &["plan"][..];
    let top = &["top", "--json"][..];
    for (verb, number) in [
        (record, libc::SIGTERM),
        (record, libc::SIGHUP),
        (record, libc::SIGKILL),
        (record, libc::SIGABRT),
        (stat, libc::SIGTERM),
        (stat, libc::SIGKILL),
        (proc, libc::SIGHUP),
        (plan, libc::SIGTERM),
        (plan, libc::SIGKILL),
        (top, libc::SIGTERM),
        (top, libc::SIGKILL),
    ] {
        let mut case = Case::start(verb, false);
        signal(case.quell.id(), number);
        let status = case.quells_end();
        let said = case.read("err");
        if number == libc::SIGKILL || number == libc::SIGABRT {
            assert_eq!(status.signal(), Some(number), "{verb:?}");
        } else {
            assert_eq!(status.code(), Some(128 + number), "{verb:?}: {said}");
        }
        case.command_ends_well();
        if number == libc::SIGTERM && verb == record {
            assert!(said.contains("runs on"), "{said}");
            let trace = Trace::open(&case.path("disk/t.quell")).expect("a trace");
            assert!(!trace.cut_short());
        }
        if number == libc::SIGTERM && verb == stat {
            assert_eq!(
                json(case.read("stat").as_bytes())["schema"],
                "quell/tally/1"
            );
        }
    }
}

/// Check that a reader that goes away (`| head`) ends the watch, and the command goes on to its status.
#[test]
fn a_reader_that_goes() {
    if !root_only("a_reader_that_goes") {
        return;
    }
    let _beside = beside_others();
    for backend in [&[][..], &["--backend", "proc"]] {
        let mut quell = Command::new(QUELL)
            .args(["stat", "-I", "0.1"])
            .args(backend)
            .args(["--", "sh", "-c", "sleep 2; exit 3"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("quell starts");
        drop(quell.stdout.take());
        assert_eq!(
            quell.wait().expect("a status").code(),
            Some(3),
            "{backend:?}"
        );
    }
}
