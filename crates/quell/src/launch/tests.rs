//! Commands of all kinds, started for real.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::*;

/// One at a time: orphans come to this process, whichever test made them. Also for tests that start commands by other means
/// and wait for them: while another test's command runs, theirs would be taken for its orphan, and waited for.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What never comes is waited for no longer.
const LONGEST: Duration = Duration::from_secs(300);

fn start(argv: &[&str], env: &[(&str, &str)]) -> anyhow::Result<Running> {
    let argv: Vec<OsString> = argv.iter().map(Into::into).collect();
    let setup = Setup {
        env: env.iter().map(|(n, v)| (n.into(), v.into())).collect(),
        ..Setup::default()
    };
    let spec = Spec {
        argv: &argv,
        setup: &setup,
        output: Output::Capture,
        whose: Whose::Quells,
    };
    hold_command(&spec)?.release()
}

/// Check that a held command has not begun, and begins with the environment given.
#[test]
fn holds() {
    let _one = alone();
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("mark");
    let argv = ["touch".into(), mark.clone().into_os_string()];
    let held = hold_command(&Spec {
        argv: &argv,
        setup: Setup::NONE,
        output: Output::Capture,
        whose: Whose::Quells,
    })
    .unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert!(held.pid() > 0 && !mark.exists());
    let ended = held.release().unwrap().wait().unwrap();
    assert!(ended.status.is_success() && mark.exists());
    assert!(ended.usage.max_rss > 0 && ended.usage.wall_ns > 0 && ended.usage.page_faults() > 0);

    let mut said = start(
        &["sh", "-c", "echo $QUELL_TEST; echo there >&2"],
        &[("QUELL_TEST", "here")],
    )
    .unwrap();
    said.wait().unwrap();
    assert_eq!(said.output(), b"here\nthere\n");
}

/// Check that one that is never released does nothing and is gone.
#[test]
fn drops() {
    let _one = alone();
    let argv = ["sleep".into(), "100".into()];
    let held = hold_command(&Spec {
        argv: &argv,
        setup: Setup::NONE,
        output: Output::Capture,
        whose: Whose::Quells,
    })
    .unwrap();
    let pid = held.pid();
    drop(held);
    assert_eq!(tree::start_of(pid), None);
}

/// Check that a command that can't be started is bad usage, said in one line.
#[test]
fn cannot_start() {
    let _one = alone();
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "text").unwrap();
    let why = |name: &str| {
        let err = start(&[name], &[]).err().unwrap();
        assert!(err.is::<crate::cmd::Usage>(), "{err:#}");
        err.to_string()
    };
    assert!(why("no-such-quell").contains("no-such-quell is in no folder of PATH"));
    assert!(why("/no/such/quell").starts_with("no such command: /no/such/quell"));
    assert!(why(plain.to_str().unwrap()).contains("permission denied"));
    assert!(why("").contains("no command"));
}

/// Check that a script without a first line goes to the shell, as it does from one.
#[test]
fn bare_script() {
    use std::os::unix::fs::PermissionsExt as _;
    let _one = alone();
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    std::fs::write(&script, "echo got $1\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut run = start(&[script.to_str().unwrap(), "it"], &[]).unwrap();
    assert_eq!(run.wait().unwrap().status, Status::Code(0));
    assert_eq!(run.output(), b"got it\n");
}

/// Check that the status passes through, and a signal is seen as one.
#[test]
fn statuses() {
    let _one = alone();
    assert_eq!(
        start(&["sh", "-c", "exit 7"], &[])
            .unwrap()
            .wait()
            .unwrap()
            .status,
        Status::Code(7)
    );
    let died = start(&["sh", "-c", "kill -SEGV $$"], &[])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(died.status, Status::Signal(libc::SIGSEGV));
}

/// Check that more output than a pipe and the buffer hold does not hold the command up.
#[test]
fn much_output() {
    let _one = alone();
    let mut run = start(&["sh", "-c", "head -c 20000000 /dev/zero; echo end"], &[]).unwrap();
    assert!(run.wait_timeout(LONGEST).unwrap().is_some());
    let output = run.output();
    assert_eq!(output.len(), 8 << 20);
    assert!(output.ends_with(b"end\n"));
}

/// Check that orphans are found by name, and stopped with all the rest.
#[test]
fn leftovers() {
    let _one = alone();
    let mut run = start(&["sh", "-c", "sleep 3598 & (sleep 3599 &) ; exit 0"], &[]).unwrap();
    assert!(run.wait().unwrap().status.is_success());
    // A subshell is called sh until it has become sleep.
    let begin = Instant::now();
    let names = || {
        run.leftovers()
            .into_iter()
            .map(|(_, name)| name)
            .collect::<Vec<_>>()
    };
    while names() != ["sleep", "sleep"] && begin.elapsed() < LONGEST {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(names(), ["sleep", "sleep"]);
    run.stop().unwrap();
    assert_eq!(run.leftovers(), []);
}

/// Check that one who ignores SIGTERM, and his children, are ended by SIGKILL.
#[test]
fn stubborn() {
    let _one = alone();
    let script = "trap '' TERM; sleep 3597 & echo on; while :; do sleep 0.1; done";
    let mut run = start(&["sh", "-c", script], &[]).unwrap();
    let begin = Instant::now();
    while !run.output().starts_with(b"on") && begin.elapsed() < LONGEST {
        std::thread::sleep(Duration::from_millis(5));
    }
    let ended = run.stop().unwrap();
    assert_eq!(ended.status, Status::Signal(libc::SIGKILL));
    assert_eq!(run.leftovers(), []);
}

/// Check that a wait with a limit comes back, the command goes on, and dropped it is stopped.
#[test]
fn timeout() {
    let _one = alone();
    let argv = ["sleep".into(), "96".into()];
    let spec = Spec {
        argv: &argv,
        setup: Setup::NONE,
        output: Output::Capture,
        whose: Whose::Quells,
    };
    let held = hold_command(&spec).unwrap();
    let pid = held.pid();
    let mut run = held.release().unwrap();
    let waited = run.wait_timeout(Duration::from_millis(50)).unwrap();
    assert_eq!(waited, None);
    assert!(tree::start_of(pid).is_some());
    drop(run);
    assert_eq!(tree::start_of(pid), None);
}
